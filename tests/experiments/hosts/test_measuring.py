"""The network between hosts of network namespaces is measured by their ranks, and becomes a platform file."""

from __future__ import annotations

from pathlib import Path

import pytest

import graphsched as gs
from experiments.hosts import __main__ as command_line
from experiments.hosts.namespaces import why_not
from experiments.hosts.network import Network
from tests.experiments.small import hand_written

REASON = why_not(Network(2, delay_s=1e-3))


@pytest.mark.slow
@pytest.mark.skipif(REASON is not None, reason=f"no hosts can be made here: {REASON}")
def test_rate_and_delay_that_were_asked_for_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two ranks in host 0, one in host 1, 10 Gbit/s, 5 ms: a message is never sooner than the delay."""
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
    assert between.bandwidth_bytes_per_s < 1.05 * 1.25e9
    assert platform.provenance["network"]["asked"]["delay_s"] == 0.005
