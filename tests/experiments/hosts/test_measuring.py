"""The network between hosts of network namespaces is measured by their ranks, and becomes a platform file."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import graphsched as gs
from experiments.hosts import __main__ as command_line
from experiments.hosts import measuring
from experiments.hosts.namespaces import why_not
from experiments.hosts.network import Network
from tests.experiments.small import hand_written


class Met:
    """Two ranks that have measured: `times` of each."""

    rank = 0

    def __init__(self, times: list[list[float]]) -> None:
        self.times = times

    def barrier(self, timeout_s: float, what: object) -> None:
        """All are here."""

    def gather(self, mine: list[float], timeout_s: float, what: str) -> list[list[float]]:
        """What each has measured."""
        return self.times


REASON = why_not(Network(2, delay_s=1e-3))


def test_messages_together_take_the_median_of_what_the_last_one_takes() -> None:
    """Not the least: runs have no more luck than the median's."""
    met: Any = Met([[1.0, 5.0, 2.0], [3.0, 1.0, 1.0]])
    assert measuring._together_s(met, [], 1) == 3.0


def test_messages_go_where_those_before_them_went() -> None:
    """To touch new memory takes longer than a message, and a rank's is not new after some runs."""
    places: list[int] = []
    world: Any = SimpleNamespace(receive=lambda tensor, *_: places.append(tensor.data_ptr()))
    for source in (1, 1, 2, 1):
        measuring._receive(world, 4096, source)
    assert places[0] == places[1] == places[3]
    assert places[2] != places[0]  # the two may be on their way at once


@pytest.mark.slow
@pytest.mark.skipif(REASON is not None, reason=f"no hosts can be made here: {REASON}")
def test_rate_and_delay_that_were_asked_for_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two ranks in host 0, one in host 1, 10 Gbit/s, 5 ms: a message is never sooner than delay and rate allow.

    The rate is that of the largest message but for what the bucket holds, whatever noise does to smaller ones.
    """
    monkeypatch.setattr("graphsched.calibration.local_platform", lambda: hand_written("worker", 2))
    file = tmp_path / "hosts.json"
    asked = ["--ranks", "2,1", "--gbit", "10", "--delay-ms", "5", "--out", str(file)]
    assert command_line.main(["measure", *asked]) == 0
    assert "2 hosts, 10 Gbit/s, 5 ms: one card receives " in capsys.readouterr().out
    platform = gs.Platform.load(file)
    assert [platform.device(name).host for name in platform.accelerators()] == ["host0", "host0", "host1"]
    between, inside = platform.link("worker:0", "worker:2"), platform.link("worker:0", "worker:1")
    assert between.latency_s > 0.005
    assert inside.latency_s < between.latency_s
    assert between.seconds[-1] > 0.005 + (between.sizes_bytes[-1] - Network(2, 1e10).burst_bytes) / 1.25e9
    assert between.bandwidth_bytes_per_s < 1.3 * 1.25e9
    assert platform.provenance["network"]["asked"]["delay_s"] == 0.005
