"""Events of several lanes of a graph: their rate and what they add to a launch, found again in rows that are played."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from graphsched.calibration import graph_events as module
from graphsched.calibration.graph_events import LANES, event_figures
from graphsched.calibration.graph_replays import Replay
from graphsched.calibration.graph_rows import Launches
from graphsched.platform import Dispatch

LAUNCHES = Launches(6e-6)


def play(patch: pytest.MonkeyPatch, rate_s: float, launch_s: float, slow: int = 0) -> None:
    """Rows that take 20 s and two events an operation; the launch of one takes 5 s, on `slow` lanes twice as much."""

    yardstick = SimpleNamespace(closed=False, close=lambda: setattr(yardstick, "closed", True))

    def timed(device: int, length: int, lanes: int, pace: object, launches: Launches) -> Replay:
        assert (device, launches, pace, yardstick.closed) == (3, LAUNCHES, yardstick, False)
        host_s = (5.0 + 2 * length * launch_s) * (2 if lanes == slow else 1)
        return Replay(host_s, 20.0 + 2 * length * rate_s * lanes)

    patch.setattr(module, "tiny_timed", timed)
    patch.setattr(module, "LaunchYardstick", lambda gpus: yardstick)


@pytest.mark.parametrize("slow", [0, 2, 8])
def test_rates_and_launches_are_found_again(monkeypatch: pytest.MonkeyPatch, slow: int) -> None:
    """The rate grows with the lanes; one slow row changes no launch."""
    play(monkeypatch, 0.25, 0.5, slow)
    found = event_figures(3, LAUNCHES)
    assert found["graph_event_rates"] == tuple((lanes, pytest.approx(0.25 * lanes)) for lanes in LANES)
    assert found["graph_launch_event_s"] == pytest.approx(0.5)
    assert Dispatch(**found).graph_event_rate_s(3) == pytest.approx(0.75)


def test_noise_makes_nothing_negative(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, -0.25, -0.5)
    found = event_figures(3, LAUNCHES)
    assert found == {"graph_event_rates": tuple((lanes, 0.0) for lanes in LANES), "graph_launch_event_s": 0.0}
