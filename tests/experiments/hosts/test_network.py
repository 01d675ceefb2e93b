"""What hosts are to have, the commands for it, and their ranks; nothing is run."""

from __future__ import annotations

import math
from typing import Any

import pytest

from experiments.hosts import __main__ as command_line
from experiments.hosts.network import Network, host_commands, netem, settings
from experiments.hosts.ranks import check_counts, environments
from graphsched.errors import PlatformError


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({"hosts": 0}, "0 hosts: 1 to 250 are needed"),
        ({"hosts": 251}, "251 hosts"),
        ({"bit_per_s": 0.0}, "a rate of 0 bit/s: 1e6 or more"),
        ({"bit_per_s": math.inf}, "a rate of inf bit/s"),
        ({"delay_s": -1e-3}, "a delay of -0.001 s: 0 to 1"),
        ({"delay_s": math.nan}, "a delay of nan s"),
        ({"loss": 1.0}, "a loss of 1: a share of all packets"),
    ],
)
def test_figures_out_of_range_are_named(figures: dict[str, Any], words: str) -> None:
    with pytest.raises(PlatformError, match=words):
        Network(**{"hosts": 3, **figures})


def test_both_ends_of_a_card_have_the_rate_and_a_bucket_for_a_whole_segment() -> None:
    limits = [c for c in host_commands(Network(2, 10e9), 1, "host", "switch") if c[0] == "tc"]
    assert [(c[2], c[6]) for c in limits] == [("host", "eth0"), ("switch", "p1")]
    for command in limits:
        told = dict(zip(command[11::2], command[12::2], strict=True))
        assert told["rate"] == "10000000000bit"
        assert int(told["burst"].removesuffix("b")) > 65536


def test_a_bucket_saves_up_what_passes_while_its_timer_waits_for_a_core() -> None:
    """2 ms at 1 and 10 Gbit/s; at a low rate still a segment of 64 KiB."""
    assert Network(2, 1e9).burst_bytes > 2e-3 * 1e9 / 8
    assert Network(2, 10e9).burst_bytes > 2e-3 * 10e9 / 8
    assert Network(2, 1e6).burst_bytes > 65536
    told = [c[c.index("burst") + 1] for c in host_commands(Network(2, 10e9), 0, "a", "b") if c[0] == "tc"]
    assert told == [f"{Network(2, 10e9).burst_bytes}b"] * 2


@pytest.mark.parametrize(
    ("network", "nbytes"),
    [
        (Network(2, 1e9), 1 << 16),
        (Network(2, 4e9), 100_000),
        (Network(2, 40e9), 1 << 18),
        (Network(2, 10e9, loss=0.1), 1 << 16),
    ],
)
def test_fast_cards_take_segments_that_pass_in_a_fifth_of_a_millisecond(network: Network, nbytes: int) -> None:
    assert network.segment_bytes == nbytes
    assert network.segment_bytes < network.burst_bytes  # else none would ever pass


def test_windows_hold_what_is_on_its_way() -> None:
    """1 Gbit/s for 10 ms, there and back with a delay of 5 ms, are 1.25 MB."""
    assert Network(2, 1e9, 5e-3).window_bytes > 2 * 1.25e6
    assert Network(2, 1e9, 0.0).window_bytes < 1e6


def test_packets_that_overtake_each_other_are_not_taken_for_lost() -> None:
    """As two cores forward them: else TCP sends again and halves its window."""
    told = settings(Network(2))
    assert int(told["tcp_reordering"]) > 3  # what the kernel begins with
    by_time, always, no_counting = (int(told["tcp_recovery"]) >> bit & 1 for bit in range(3))
    assert by_time
    assert always
    assert no_counting


def test_packets_are_lost_one_by_one_and_only_where_that_is_asked() -> None:
    lossy, whole = ([" ".join(c) for c in host_commands(Network(2, loss=x), 0, "a", "b")] for x in (0.01, 0.0))
    assert any("gso_max_segs 1" in command for command in lossy)
    assert not any("gso_max_segs" in command for command in whole)


def test_netem_is_told_delay_and_loss() -> None:
    command = " ".join(netem(Network(2, 1e9, 1e-4, 0.015), "switch", 1))
    assert command.startswith("tc -n switch qdisc add dev p1 parent 1:1 ")
    assert "netem delay 100us loss 1.5% " in command


def test_ranks_are_numbered_through_and_meet_at_the_first_host() -> None:
    found = list(environments([2, 1, 2]))
    assert [host for host, _ in found] == [0, 0, 1, 2, 2]
    assert [env["RANK"] for _, env in found] == ["0", "1", "2", "3", "4"]
    assert [env["LOCAL_RANK"] for _, env in found] == ["0", "1", "0", "0", "1"]
    assert {(env["MASTER_ADDR"], env["WORLD_SIZE"], env["GLOO_SOCKET_IFNAME"]) for _, env in found} == {
        ("10.77.0.1", "5", "eth0")
    }


@pytest.mark.parametrize("ranks", [(1, 1), (1, 1, 1, 1), (1, 0, 1)])
def test_every_host_needs_ranks(ranks: tuple[int, ...]) -> None:
    with pytest.raises(PlatformError, match="hosts 3: one number above 0 a host is needed"):
        check_counts(ranks, 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--ranks", "1,1"], "nothing to run: give what python is called with behind --"),
        (["run", "--ranks", "1,0", "--", "x.py"], "ranks of the hosts are '1,0', hosts 2"),
        (["run", "--ranks", "1,1", "--gbit", "-3", "--", "x.py"], "a rate of -3e+09 bit/s"),
        (["measure", "--ranks", "1", "--out", "x.json"], "one host has no network to measure"),
        (["measure", "--ranks", "1,1", "--out", "."], "cannot write .: it is a folder, name a file in it"),
    ],
)
def test_a_wrong_request_is_refused_in_a_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(arguments) == 2
    assert words in capsys.readouterr().err


def test_ranks_must_be_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        command_line.main(["run", "--ranks", "1,x"])
    assert "'1,x': whole numbers between commas are needed" in capsys.readouterr().err


def test_where_no_hosts_can_be_made_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert command_line.main(["run", "--ranks", "1,1", "--", "x.py"]) == 2
    assert "no hosts can be made here: network namespaces need Linux and root" in capsys.readouterr().err
