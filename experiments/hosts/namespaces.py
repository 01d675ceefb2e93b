"""Hosts made of network namespaces: made, entered, cut off, and removed whatever happens.

A set's names hold the process that made it (``graphsched-PID-START-…``). Sets whose process is gone, as after a power
cut or ``kill -9``, are removed before a new one is made; those of others are left alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.hosts import netlink
from experiments.hosts.network import CARD, SEGMENT_BYTES, Network, host_commands, netem, port, settings
from graphsched.errors import ExecutionError, PlatformError

PREFIX = "graphsched"
NAMESPACES = Path("/run/netns")
NEW_NETWORK, END_WITH_PARENT = 0x40000000, 1  # CLONE_NEWNET, PR_SET_PDEATHSIG
CHECKOUT = Path(__file__).parents[2]
LINE = (sys.executable, "-m", "experiments.hosts.delay_line")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ENDS_WITHIN_S = 5.0


@dataclass(frozen=True)
class Hosts:
    """A set of hosts that is there.

    Attributes:
        network: What they are joined by.
        names: Namespaces of the hosts.
        switch: That of the switch.
    """

    network: Network
    names: tuple[str, ...]
    switch: str

    def cut(self, host: int) -> None:
        """Cut a host off: nothing leaves or reaches it any more, and nobody is told."""
        run("ip", "-n", self.switch, "link", "set", port(host), "down")

    def mend(self, host: int) -> None:
        """Join a host that was cut off again."""
        run("ip", "-n", self.switch, "link", "set", port(host), "up")
        for command in host_commands(self.network, host, self.names[host], self.switch):
            if "route" in command and self.switch in command:  # routes went with the port
                run(*command)


def why_not(network: Network) -> str | None:
    """Why the hosts of `network` cannot be made here; None if they can: it is tried."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces need Linux and root"
    missing = [tool for tool in ("ip", "tc") if shutil.which(tool) is None]
    if missing:
        return f"{' and '.join(missing)} of iproute2 are not installed"
    try:
        with made(network):
            return None
    except (ExecutionError, PlatformError) as error:
        return str(error)


@contextlib.contextmanager
def made(network: Network) -> Iterator[Hosts]:
    """The hosts of `network`, while the context lasts.

    Raises:
        PlatformError: The network needs what the kernel has not.
        ExecutionError: They cannot be made; nothing is left of them.
    """
    remove_stale()
    stem = f"{PREFIX}-{os.getpid()}-{_started(os.getpid())}"
    number = sum(name.startswith(f"{stem}-") and name.endswith("switch") for name in _there())
    names = tuple(f"{stem}-{number}-host{h}" for h in range(network.hosts))
    found = Hosts(network, names, f"{stem}-{number}-switch")
    with contextlib.ExitStack() as removing:
        removing.callback(_remove, [*names, found.switch])
        for name in (*names, found.switch):
            run("ip", "netns", "add", name)
        _join(found)
        if network.delay_s or network.loss:
            removing.enter_context(_delayed(found))
        yield found


def _join(hosts: Hosts) -> None:
    _tell(hosts.switch, {"ip_forward": "1"})
    for h, name in enumerate(hosts.names):
        for command in host_commands(hosts.network, h, name, hosts.switch):
            run(*command)
        _tell(name, settings(hosts.network))
        if hosts.network.segment_bytes > SEGMENT_BYTES:
            for there, card in ((name, CARD), (hosts.switch, port(h))):
                _allow_segments(there, card, hosts.network.segment_bytes)


@contextlib.contextmanager
def _delayed(hosts: Hosts) -> Iterator[None]:
    """Delay and lose packets by ``netem`` where the kernel has it, else by a process in the switch."""
    if has_netem(hosts.switch):
        for h in range(len(hosts.names)):
            run(*netem(hosts.network, hosts.switch, h))
        yield
        return
    told = ("--delay-s", f"{hosts.network.delay_s:.9f}", "--loss", f"{hosts.network.loss:.9f}")
    line = subprocess.Popen(
        [*LINE, *told],
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for the caller, which ends it
        preexec_fn=lambda: enter(hosts.switch, priority=2),
    )
    try:
        assert line.stdout is not None
        if line.stdout.readline() != "ready\n":
            _, said = line.communicate(timeout=ENDS_WITHIN_S)
            raise PlatformError(f"{said.strip()}: packets cannot be delayed or lost here: ask for no delay and no loss")
        yield
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            line.communicate(timeout=ENDS_WITHIN_S)  # its input ends, and with it the line
        line.kill()
        line.wait()


def has_netem(name: str) -> bool:
    """Whether the kernel can delay packets itself, tried in the namespace `name`."""
    tried = ("tc", "-n", name, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms")
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


def remove_stale() -> list[str]:
    """Remove the sets of processes that are gone; the names of their namespaces."""
    stale = [name for name in _there() if not _has_owner(name)]
    _remove(stale)
    return stale


def _there() -> list[str]:
    names = [path.name for path in NAMESPACES.iterdir()] if NAMESPACES.is_dir() else []
    return sorted(name for name in names if name.startswith(f"{PREFIX}-") and name.count("-") == 4)


def _has_owner(name: str) -> bool:
    _, pid, started, _, _ = name.split("-")
    return _started(int(pid)) == started


def _started(pid: int) -> str:
    """When a process began, in the kernel's ticks: with its number it is never given again; empty if it has ended.

    One that has ended keeps its number until its parent asks for it, which in a container may be never.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def _remove(names: Sequence[str]) -> None:
    """Remove namespaces, with all that is in them; not to be interrupted."""
    with uninterrupted():
        for name in names:
            if (NAMESPACES / name).exists():
                command = ("ip", "netns", "delete", name)
                subprocess.run(command, capture_output=True, check=False, start_new_session=True)  # not for Ctrl-C


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Signals that end a run wait until the end of the context.

    A mask would not do: it is the thread's, and the kernel hands a signal to any thread that does not block it.
    """
    if threading.current_thread() is not threading.main_thread():  # no handler runs elsewhere
        yield
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: was not set from Python
        for seen in came[:1]:
            signal.raise_signal(seen)


def run(*command: str) -> None:
    """Run a command of iproute2.

    Raises:
        ExecutionError: It fails; quotes what it says.
    """
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        raise ExecutionError(f"'{' '.join(command)}' failed: {(found.stderr or found.stdout).strip()}")


def _tell(name: str, values: dict[str, str]) -> None:
    """Change settings of the namespace's kernel."""
    script = "; ".join(f"echo '{value}' > /proc/sys/net/ipv4/{key}" for key, value in values.items())
    run("ip", "netns", "exec", name, "sh", "-e", "-c", script)


def _allow_segments(name: str, card: str, nbytes: int) -> None:
    """Let segments of so many bytes through a card; a kernel that cannot leaves them as they are."""
    with inside(name), netlink.connect(netlink.ROUTE) as cards, contextlib.suppress(OSError):
        netlink.ask(cards, netlink.largest_segments(socket.if_nametoindex(card), nbytes))


@contextlib.contextmanager
def inside(name: str) -> Iterator[None]:
    """This thread in a namespace, while the context lasts.

    Raises:
        OSError: There is no such namespace, or this process may not.
    """
    with open("/proc/thread-self/ns/net") as here:
        _set_namespace(NAMESPACES / name)
        try:
            yield
        finally:
            _set_namespace(Path(f"/proc/self/fd/{here.fileno()}"))


def _set_namespace(path: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path) as namespace:
        if libc.setns(namespace.fileno(), NEW_NETWORK):
            raise OSError(ctypes.get_errno(), f"cannot enter the network namespace {path.name}")


def enter(name: str, *, priority: int = 1) -> None:
    """Put this thread into a namespace, ahead of other programs, and have its process end with its parent.

    Threads that it starts later are there too.

    Raises:
        OSError: There is no such namespace, or this process may not.
    """
    _set_namespace(NAMESPACES / name)
    ctypes.CDLL(None).prctl(END_WITH_PARENT, signal.SIGKILL)
    with contextlib.suppress(PermissionError):  # a container may forbid it: then others' programs disturb
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(priority))
