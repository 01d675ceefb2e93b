"""Figures of graphs are found again from graphs that are played: nodes, edges and events of known times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import cuda_graphs as module
from graphsched.calibration import graph_copies
from graphsched.calibration.cuda_clock import Spinner
from graphsched.calibration.cuda_graphs import LANES, SIZES, graph_figures, sampled_figures
from graphsched.calibration.graph_replays import Replay
from graphsched.calibration.graph_rows import Launches
from graphsched.calibration.launch_pace import launches_on
from graphsched.errors import ExecutionError
from graphsched.platform import Dispatch
from graphsched.simulator.graph_edges import chained
from graphsched.simulator.lane_costs import CUDA

SHORT = 8  # times a tiny operation


@dataclass
class Played:
    """What everything takes, in microseconds. Nodes of different lanes start `rate` apart."""

    node: float = 2.0
    fork: float = 3.0
    chain: float = 0.25
    event: float = 1.0
    event_edge: float = 0.5  # on top of an edge where there are events
    rate: float = 0.5
    stamp: float = 0.75
    stamp_lost: float = 1.25  # where the cache does not hold what the row works on
    cache: int = 4000
    lane: float = 4.0
    root: float = 0.625
    host: float = 5.0
    host_node: float = 0.125
    back: float = 1.5
    before: Callable[[int], float] = field(default=lambda nodes: 10.0 + 0.01 * max(0, nodes - 1200))


@dataclass
class Nodes:
    """A graph that is captured: each node's lane, seconds and what it waits for."""

    lane: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    waits: list[tuple[int, ...]] = field(default_factory=list)
    timed: bool = False


class Stream:
    """A stream of the GPU whose nodes go into the graph that is captured."""

    def __init__(self, cuda: FakeGraphs, number: int) -> None:
        self.cuda, self.number, self.device = cuda, number, torch.device("cpu")
        self.pending: tuple[int, ...] = ()

    def wait_stream(self, other: Stream) -> None:
        last = [i for i, lane in enumerate(self.cuda.nodes.lane) if lane == other.number]
        self.pending = (*self.pending, *last[-1:])

    def add(self, seconds: float) -> None:
        nodes = self.cuda.nodes
        nodes.lane.append(self.number)
        nodes.seconds.append(seconds)
        nodes.waits.append(self.pending)
        self.pending = ()


class FakeGraphs:
    """Graphs are lists of nodes; a replay takes as long as their longest chain."""

    def __init__(self, patch: pytest.MonkeyPatch, times: Played) -> None:
        self.times, self.nodes, self.current, self.rows = times, Nodes(), 0, 0
        patch.setattr(module, "stream_pool", lambda device: [Stream(self, k) for k in range(32)])
        patch.setattr(module, "captured", self._captured)
        patch.setattr(module, "device_s", lambda graph, spinner, stream: self._device_us(graph) * 1e-6)
        patch.setattr(module, "tiny_replays", lambda device, rows, launch_s: [self._replay(*row) for row in rows])
        patch.setattr(module, "event_figures", lambda device, launches: {"graph_event_rates": ((2, 1.25e-6),)})
        patch.setattr(module, "stamped_s", self._stamped_s)
        patch.setattr(module, "cache_bytes", lambda device: times.cache)
        patch.setattr(module, "return_s", lambda stream: times.back * 1e-6)
        patch.setattr(module, "copy_join_s", lambda device: 6e-6)
        patch.setattr(module, "copy_figures", lambda spinner, stream: {"graph_copy_in_s": 7e-6})
        patch.setattr(module, "new_event", lambda *, timing, external: self._event(timing, external))
        patch.setattr(torch.cuda, "synchronize", lambda device: None)
        zeros = torch.zeros
        patch.setattr(torch, "zeros", lambda size, device: zeros(size))
        patch.setattr(torch.cuda, "set_stream", lambda stream: setattr(self, "current", stream.number))
        patch.setattr(module.GraphBench, "_node", self._node(module.GraphBench._node))

    def _event(self, timing: bool, external: bool) -> Any:
        assert timing
        assert external
        return SimpleNamespace(record=self._record)

    def _record(self, stream: Stream) -> None:
        self.nodes.timed = True
        stream.add(self.times.event)

    def _node(self, real: Callable[..., None]) -> Callable[..., None]:
        def node(bench: Any, stream: Stream, tensor: Any, *, timed: bool = False) -> None:
            work = SimpleNamespace(add_=lambda _: stream.add(self.times.node * (SHORT if tensor.numel() > 64 else 1)))
            real(bench, stream, work, timed=timed)

        return node

    def _captured(self, lanes: Sequence[Stream], issue: Callable[[], object]) -> Nodes:
        self.nodes = Nodes()
        for lane in lanes:
            lane.pending = ()
        issue()
        return self.nodes

    def _device_us(self, nodes: Nodes) -> float:
        t, ends, last = self.times, list[float](), dict[int, float]()
        started = -t.rate
        links = set(chained(nodes.waits, nodes.lane, [CUDA] * len(nodes.lane)))
        for i, (lane, seconds, waits) in enumerate(zip(nodes.lane, nodes.seconds, nodes.waits, strict=True)):
            edge = (t.chain if i in links else t.fork) + (t.event_edge if nodes.timed else 0.0)
            free = 0.0 if nodes.timed else started + t.rate  # nodes start in the order of their capture
            start = max([last.get(lane, 0.0), free, *(ends[j] + edge for j in waits)])
            started = start
            ends.append(start + seconds)
            last[lane] = ends[-1]
        return max(ends)

    def _replay(self, length: int, lanes: int) -> Replay:
        """Of independent tasks, in turn on `lanes`."""
        t, nodes = self.times, Nodes([k % lanes for k in range(length)], [self.times.node] * length, [()] * length)
        whole = t.before(length) + t.lane * (lanes - 1) + self._device_us(nodes) + t.back
        return Replay((t.host + t.host_node * length + t.root * (lanes - 1)) * 1e-6, whole * 1e-6)

    def _stamped_s(self, call: Callable[[], Any], length: int, device: int) -> tuple[float, float]:
        """A row of `call` in one lane, without stamps and with two more nodes for each; of three turns the second is
        off where rows are long."""
        t, self.rows = self.times, self.rows + 1
        off = 500.0 * (self.rows % 6 == 4)
        large = call().numel() > 64
        node, stamp = t.node * (SHORT if large else 1), t.stamp_lost if large else t.stamp
        if t.stamp < 0:
            raise ExecutionError("no driver")
        plain, stamped = t.before(length) + length * node + off, t.before(3 * length) + length * (node + 2 * stamp)
        return (plain + t.back) * 1e-6, (stamped + t.back) * 1e-6


def found(patch: pytest.MonkeyPatch, *, everything: bool = True, **times: Any) -> dict[str, Any]:
    """Seconds of all figures, or of a sample, where graphs take these times."""
    FakeGraphs(patch, Played(**times))
    spinner: Spinner = SimpleNamespace(device=0)  # type: ignore[assignment]
    return (graph_figures if everything else sampled_figures)(spinner, Launches(6e-6))


def us(figures: dict[str, Any], *names: str) -> list[float]:
    return [figures[name] * 1e6 for name in names]


def test_every_term_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = found(monkeypatch)
    launch = us(figures, "graph_launch_s", "graph_launch_node_s", "graph_lane_s")
    assert launch == pytest.approx([5, 0.125, 4], abs=0.3)
    assert us(figures, "graph_root_s") == pytest.approx([0.625])
    edges = us(figures, "graph_node_s", "graph_wait_s", "graph_fork_s", "graph_event_s", "graph_timed_edge_s")
    assert edges == pytest.approx([2, 0.25, 3, 1, 0.5])
    assert [n for n, _ in figures["graph_starts"]] == list(SIZES)
    assert [s * 1e6 for _, s in figures["graph_starts"]] == pytest.approx([10 + 0.01 * max(0, n - 1200) for n in SIZES])
    assert [(k, s * 1e6) for k, s in figures["graph_rates"]] == [(k, pytest.approx(max(0.5, 2 / k))) for k in LANES]
    assert figures["graph_event_rates"] == ((2, 1.25e-6),)
    assert figures["graph_copy_in_s"] == 7e-6
    assert figures["graph_copy_join_s"] == 6e-6
    assert figures["graph_stamp_s"] * 1e6 == pytest.approx(0.75)
    assert [(n, s * 1e6) for n, s in figures["graph_stamps"]] == [
        (2000, pytest.approx(0.75)),
        (3000, pytest.approx(1.25)),
    ]


def test_a_graph_that_starts_later_for_its_stamps_is_no_stamp(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.1 µs a node from 40 nodes to 100, where rows with stamps are longer and those without are not."""
    figures = found(monkeypatch, before=lambda nodes: 10.0 + 0.1 * min(60, max(0, nodes - 40)))
    assert figures["graph_stamp_s"] * 1e6 == pytest.approx(0.75, abs=0.02)


def test_where_there_are_no_stamps_the_figure_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = found(monkeypatch, stamp=-1.0)
    assert figures["graph_stamp_s"] == 0.0
    assert not Dispatch(**figures).graph_stamps


def test_a_stamp_where_no_cache_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = found(monkeypatch, cache=0)
    assert (figures["graph_stamp_s"] * 1e6, figures["graph_stamps"]) == (pytest.approx(0.75), ())


def test_a_stamp_does_not_take_less_out_of_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = found(monkeypatch, stamp_lost=0.5)
    assert [s * 1e6 for _, s in figures["graph_stamps"]] == pytest.approx([0.75, 0.75])


def test_the_figures_are_those_of_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    dispatch = Dispatch(**found(monkeypatch))
    assert dispatch.graph_start_s(1500) == pytest.approx(14e-6)
    assert dispatch.graph_rate_s(8) == pytest.approx(0.5e-6)
    assert dispatch.graph_event_rate_s(4) == pytest.approx(1.25e-6)


def test_lanes_that_start_for_nothing_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = found(monkeypatch, lane=0.0, root=-0.25)
    assert figures["graph_lane_s"] * 1e6 == pytest.approx(0.0, abs=0.3)
    assert figures["graph_root_s"] == 0.0


def test_edges_and_events_that_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = found(monkeypatch, fork=0.0, chain=0.0, event=0.0, event_edge=0.0, rate=0.0)
    assert us(figures, "graph_wait_s", "graph_fork_s", "graph_event_s", "graph_timed_edge_s") == pytest.approx([0] * 4)


def test_noise_makes_nothing_negative(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch that takes less than the nodes and the return would have it."""
    figures = found(monkeypatch, before=lambda nodes: -9.0)
    assert all(seconds == 0.0 for _, seconds in figures["graph_starts"])
    Dispatch(**figures)


# -- copies -------------------------------------------------------------------------------------------


class Copies:
    """Copies of known times, by what makes them; two GPUs, linked or not."""

    def __init__(self, patch: pytest.MonkeyPatch, *, gpus: int, linked: bool = True) -> None:
        self.allowed: list[tuple[str, str]] = []
        self.made: list[tuple[str, int]] = []
        real = torch.empty, torch.zeros
        patch.setattr(torch, "empty", lambda *n, dtype, pin_memory: real[0](*n, dtype=dtype) if pin_memory else None)
        patch.setattr(torch, "zeros", lambda *n, dtype, device: real[1](*n, dtype=dtype))
        patch.setattr(torch.cuda, "synchronize", lambda device: None)
        patch.setattr(torch.cuda, "device_count", lambda: gpus)
        patch.setattr(torch.cuda, "can_device_access_peer", lambda a, b: linked)
        patch.setattr(graph_copies, "allow_access", lambda a, b: self.allowed.append((a, b)))
        patch.setattr(graph_copies, "driver_copy", lambda: lambda *what: self.made.append(("peer", what[2])))
        patch.setattr(graph_copies, "captured", self._captured)
        patch.setattr(graph_copies, "device_s", lambda graph, spinner, stream: 1e-4 + graph)

    def _captured(self, lanes: Sequence[Any], issue: Callable[[], object]) -> float:
        self.made.clear()
        host = time_of_copies(issue)
        return 12e-6 * len(self.made) if self.made else host


def time_of_copies(issue: Any) -> float:
    """9 µs a copy that torch makes: counted by the argument of the row."""
    issue()
    return 9e-6 * int(issue.args[0])


def copy_times(patch: pytest.MonkeyPatch, **gpus: Any) -> tuple[Copies, dict[str, float]]:
    copies = Copies(patch, **gpus)
    stream = SimpleNamespace(device="cuda:0", cuda_stream=1)
    return copies, graph_copies.copy_figures(SimpleNamespace(device=0), stream)  # type: ignore[arg-type]


def test_copies_in_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    copies, figures = copy_times(monkeypatch, gpus=2)
    assert figures == {
        "graph_copy_in_s": pytest.approx(9e-6),
        "graph_copy_out_s": pytest.approx(9e-6),
        "graph_peer_copy_s": pytest.approx(12e-6),
    }
    assert copies.allowed == [("cuda:0", "cuda:1")]
    assert set(copies.made) == {("peer", 4096)}


def test_a_sample_says_the_same_of_one_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    played = []
    wanted: dict[str, Any]
    for wanted in ({}, {"everything": False}, {"everything": False, "stamp": -1.0}):
        with monkeypatch.context() as patch:
            played.append(found(patch, **wanted))
    everything, sampled, without_stamps = played
    left_out = {"graph_lane_s", "graph_root_s", "graph_rates", "graph_stamps", "graph_event_rates"}
    assert set(everything) - set(sampled) == left_out | {"graph_copy_join_s"}
    same = set(sampled) - {"graph_starts"}
    assert {name: sampled[name] for name in same} == {name: pytest.approx(everything[name], rel=0.05) for name in same}
    assert without_stamps["graph_stamp_s"] == 0.0


@pytest.mark.parametrize("host", [{"gpus": 1}, {"gpus": 2, "linked": False}])
def test_no_other_gpu_no_copies_there(monkeypatch: pytest.MonkeyPatch, host: dict[str, Any]) -> None:
    assert copy_times(monkeypatch, **host)[1]["graph_peer_copy_s"] == 0.0


# -- real GPUs ----------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_figures_of_this_gpu_are_of_the_right_size() -> None:
    figures = graph_figures(Spinner(0), Launches(dict(launches_on([0]))[1]))
    dispatch = Dispatch(**figures)
    assert 5e-7 < dispatch.graph_node_s < 1e-5
    assert 1e-6 < dispatch.graph_launch_s < 1e-3
    assert 0 <= dispatch.graph_launch_node_s < 1e-6
    assert all(0 <= seconds < 1e-2 for _, seconds in dispatch.graph_starts)
    assert all(1e-7 < seconds < 1e-5 for _, seconds in dispatch.graph_rates)
    assert all(5e-7 < seconds < 2e-5 for _, seconds in dispatch.graph_event_rates)
    for name in ("graph_wait_s", "graph_fork_s", "graph_event_s", "graph_timed_edge_s", "graph_lane_s", "graph_root_s"):
        assert 0 <= figures[name] < 5e-5, name
    assert dispatch.graph_event_s > 1e-7
    print(f"a stamp {dispatch.graph_stamp_s * 1e6:.2f} µs, an event {dispatch.graph_event_s * 1e6:.2f} µs")
    assert 1e-7 < dispatch.graph_stamp_s < 5e-6
    assert 1e-6 < dispatch.graph_copy_in_s < 1e-4
    assert 1e-6 < dispatch.graph_copy_out_s < 1e-4
