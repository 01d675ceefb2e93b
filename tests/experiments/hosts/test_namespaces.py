"""Hosts of network namespaces are made as asked, and nothing is left of them, however their maker ends."""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.hosts import __main__ as command_line
from experiments.hosts import namespaces, ranks
from experiments.hosts.namespaces import (
    CHECKOUT,
    NAMESPACES,
    Hosts,
    enter,
    has_netem,
    inside,
    made,
    remove_stale,
    uninterrupted,
    why_not,
)
from experiments.hosts.network import Network, address
from graphsched.errors import ExecutionError

REASON = why_not(Network(2, delay_s=1e-3))
KERNEL = tuple(map(int, re.findall(r"\d+", platform.release())[:2]))
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"no hosts can be made here: {REASON}")

CONNECT = f"""
import socket, time
began = time.perf_counter()
try:
    socket.create_connection(({address(1)!r}, 9), timeout=10)
except ConnectionRefusedError:
    print(time.perf_counter() - began)
"""
SERVE = """
import socket
with socket.create_server(("", 5000)) as server:
    print("ready", flush=True)
    connection, _ = server.accept()
    print(sum(iter(lambda: len(connection.recv(1 << 20)), 0)))
"""
SEND = f"""
import socket, sys, time
data = bytes(int(sys.argv[1]))
began = time.perf_counter()
with socket.create_connection(({address(1)!r}, 5000)) as connection:
    connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)
print(time.perf_counter() - began)
"""
MAKE_AND_WAIT = """
import sys, time
from experiments.hosts.namespaces import made
from experiments.hosts.network import Network
with made(Network(2, delay_s=1e-3)) as hosts:
    print(*hosts.names, hosts.switch, flush=True)
    time.sleep(60)
"""


def python(code: str, *arguments: str, host: str | None = None) -> subprocess.Popen[str]:
    """A Python process, in a host if one is named."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=None if host is None else lambda: enter(host),
    )


def test_a_thread_comes_back_from_a_namespace_whatever_happens() -> None:
    here, seen = os.readlink("/proc/thread-self/ns/net"), []

    def look(name: str) -> None:
        with inside(name):
            seen.append(os.readlink("/proc/thread-self/ns/net"))
            raise KeyError("look")

    with made(Network(1)) as hosts:
        with pytest.raises(KeyError, match="look"):
            look(hosts.names[0])
        assert os.readlink("/proc/thread-self/ns/net") == here
    assert seen != [here]


@pytest.mark.skipif(KERNEL < (6, 3), reason=f"Linux {KERNEL} forwards no IPv4 segments above 64 KiB")
def test_fast_cards_let_large_segments_through() -> None:
    """Both ends of each card: else they are cut on the way."""
    for bit_per_s, nbytes in ((1e10, 250_000), (1e9, 65_536)):
        with made(Network(1, bit_per_s)) as hosts:
            for name in (hosts.names[0], hosts.switch):
                told = subprocess.run(
                    ("ip", "-n", name, "-d", "link"), capture_output=True, text=True, check=True
                ).stdout
                assert f" gso_max_size {nbytes} " in told
                assert f" gro_max_size {nbytes} " in told


def said(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    return out


def there(names: list[str]) -> list[str]:
    return [name for name in names if (NAMESPACES / name).exists()]


def is_gone(pid: int) -> bool:
    """Whether a process has ended, or does so soon."""
    until = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.02)
    return not Path(f"/proc/{pid}").exists()


@pytest.fixture
def killed() -> Iterator[list[str]]:
    """The namespaces of a set whose maker was killed."""
    with python(MAKE_AND_WAIT) as maker:
        assert maker.stdout is not None
        names = maker.stdout.readline().split()
        maker.kill()
    assert len(names) == len(there(names)) == 3
    yield names
    remove_stale()


def test_they_are_there_while_the_context_lasts() -> None:
    with made(Network(2)) as hosts, made(Network(1)) as others:
        names = [*hosts.names, hosts.switch, *others.names, others.switch]
        assert there(names) == names
    assert there(names) == []


def test_nothing_is_left_after_an_error() -> None:
    def interrupted(names: list[str]) -> None:
        with made(Network(2, delay_s=1e-3)) as hosts:
            names += [*hosts.names, hosts.switch]
            raise KeyboardInterrupt

    names: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted(names)
    assert len(names) == 3
    assert there(names) == []


def test_nothing_is_left_where_they_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(NAMESPACES.iterdir())
    monkeypatch.setattr("experiments.hosts.network.CARD", "a name that no card may have")
    words = r"'ip link add a name that no card may have netns .*' failed: "
    with pytest.raises(ExecutionError, match=words), made(Network(2)):
        pass
    assert sorted(NAMESPACES.iterdir()) == before


def test_a_set_whose_maker_was_killed_is_removed_and_others_are_not(killed: list[str]) -> None:
    with python(MAKE_AND_WAIT) as alive:
        assert alive.stdout is not None
        others = alive.stdout.readline().split()
        assert there(killed) == []  # by the one that has just been made
        assert remove_stale() == []
        assert there(others) == others
        alive.kill()
    assert sorted(remove_stale()) == sorted(others)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C raises, whoever started the tests and ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_a_rank_that_is_being_started_when_ctrl_c_comes_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal comes between the start of a rank and its place in the list of those to end."""
    begun: list[subprocess.Popen[bytes]] = []
    start = ranks._start

    def interrupted(*args: Any) -> subprocess.Popen[bytes]:
        begun.append(start(*args))
        os.kill(os.getpid(), signal.SIGINT)
        return begun[-1]

    monkeypatch.setattr(ranks, "_start", interrupted)
    waiting = ["-c", "import time; time.sleep(60)"]
    with made(Network(1)) as hosts, pytest.raises(KeyboardInterrupt), ranks.started(hosts, [1], waiting):
        pass
    assert begun[0].returncode == -signal.SIGKILL


def test_ranks_can_be_interrupted() -> None:
    code = "import signal, sys; sys.exit(len(signal.pthread_sigmask(signal.SIG_BLOCK, [])))"
    assert command_line.main(["run", "--ranks", "1", "--", "-c", code]) == 0


@pytest.mark.usefixtures("ctrl_c")
def test_a_signal_waits_whichever_thread_gets_it() -> None:
    """Another thread, which blocks nothing, sends Ctrl-C to the process in the middle of the block."""
    done = []

    def interrupted() -> None:
        with uninterrupted():
            other = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT))
            other.start()
            other.join()
            time.sleep(0.01)
            done.append("all")
        done.append("too much")

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == ["all"]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_killed_maker_whose_parent_does_not_ask_for_it_is_gone_too() -> None:
    """As in a container whose first process waits for no orphans: it keeps its number as a zombie."""
    with python(MAKE_AND_WAIT) as maker:
        assert maker.stdout is not None
        names = maker.stdout.readline().split()
        maker.kill()
        os.waitid(os.P_PID, maker.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays
        assert sorted(remove_stale()) == sorted(names)
    assert there(names) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_ranks_and_removes_hosts(number: signal.Signals) -> None:
    rank = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    before = sorted(NAMESPACES.iterdir())
    command = [sys.executable, "-m", "experiments.hosts", "run", "--ranks", "1,1", "--delay-ms", "1", "--", "-c", rank]
    with subprocess.Popen(
        command,
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests in a shell's background ignore it
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "interrupted: the hosts are removed" in err
    assert is_gone(pid)
    assert sorted(NAMESPACES.iterdir()) == before


def test_ranks_end_with_the_one_that_started_them() -> None:
    rank = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    command = [sys.executable, "-m", "experiments.hosts", "run", "--ranks", "1", "--", "-c", rank]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
    assert is_gone(pid)
    assert len(remove_stale()) == 2


def test_one_rank_that_fails_ends_all_with_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "OTHERS_END_S", 0.2)
    code = "import os, sys, time; sys.exit(7) if os.environ['RANK'] == '1' else time.sleep(60)"
    assert command_line.main(["run", "--ranks", "1,2", "--", "-c", code]) == 7


def test_ranks_keep_memory_and_costs_to_themselves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Memory that was given back is taken again without a page fault; costs measured so are not for other processes."""
    monkeypatch.setenv("GRAPHSCHED_CACHE", str(tmp_path))
    code = f"""
import resource, torch
from graphsched.calibration.cache import cache_folder
assert cache_folder().parts[-2:] == ({tmp_path.name!r}, "hosts")
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    x = torch.ones(1 << 24)
    del x
before = faults()
torch.ones(1 << 24)
assert faults() - before < 30, faults() - before
"""
    assert command_line.main(["run", "--ranks", "1", "--", "-c", code]) == 0


@pytest.mark.parametrize("netem", [True, False])
def test_packets_are_delayed_both_ways(netem: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never sooner; how much later is measured by those who use it. Inside a host there is no delay."""
    if not netem:
        monkeypatch.setattr(namespaces, "has_netem", lambda name: False)
    with made(Network(2, delay_s=0.1)) as hosts:
        if netem and not has_netem(hosts.switch):
            pytest.skip("this kernel has no netem")
        first, inside = (float(said(python(CONNECT, host=name))) for name in hosts.names)
    assert first >= 0.2
    assert inside < 0.2


def send(hosts: Hosts, nbytes: int) -> tuple[int, float]:
    """Bytes that arrive in host 1 from host 0, and the seconds that the sender took."""
    with python(SERVE, host=hosts.names[1]) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        seconds = float(said(python(SEND, str(nbytes), host=hosts.names[0])))
        return int(said(server)), seconds


def test_a_card_has_no_more_than_its_rate() -> None:
    with made(Network(2, bit_per_s=1e8)) as hosts:
        arrived, seconds = send(hosts, 3_000_000)
    assert arrived == 3_000_000
    assert seconds > 3_000_000 / 12.5e6 * 0.9


def test_packets_that_are_lost_are_sent_again() -> None:
    with made(Network(2, loss=0.05)) as hosts:
        arrived, _ = send(hosts, 3_000_000)
        counts = python("print(open('/proc/net/snmp').read())", host=hosts.names[0])
        names, values = (line.split() for line in said(counts).splitlines() if line.startswith("Tcp:"))
    assert arrived == 3_000_000
    assert int(dict(zip(names, values, strict=True))["RetransSegs"]) > 0


def test_a_host_that_was_cut_off_is_joined_again() -> None:
    with made(Network(2)) as hosts:
        hosts.cut(1)
        with python(CONNECT, host=hosts.names[0]) as process:
            assert process.wait(timeout=30) != 0 or not process.stdout.read()  # type: ignore[union-attr]
        hosts.mend(1)
        assert float(said(python(CONNECT, host=hosts.names[0]))) >= 0


def test_entering_a_host_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        enter(f"no such host {os.getpid()}")
