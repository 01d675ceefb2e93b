"""Edges between kernels and copies are found again from chains on a device that is played."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import copy_edges as module
from graphsched.calibration.copy_edges import COPIED_BYTES, Link, Links, copy_edge_figures, links_on
from graphsched.platform import Dispatch

ALONE = {"kernel": 16.0, "into": 22.0, "out": 20.0}  # µs, in rows
STREAMS = {("kernel", "into"): 3.0, ("into", "kernel"): 5.0, ("kernel", "out"): 2.0, ("out", "kernel"): 4.0,
           ("into", "out"): 6.0, ("out", "into"): 1.0}  # fmt: skip
GRAPHS = {edge: seconds / 4 for edge, seconds in STREAMS.items()}
SPINNER: Any = SimpleNamespace(device=0, spin=lambda seconds: None)


class Stream:
    """A lane of one engine; `edges` says how much later it goes on behind the work of another."""

    def __init__(self, engine: str, edges: dict[tuple[str, str], float]) -> None:
        self.engine, self.edges, self.time_us = engine, edges, 0.0

    def wait_stream(self, other: Stream) -> None:
        edge_us = self.edges.get((other.engine, self.engine), 0.0)
        self.time_us = max(self.time_us, other.time_us + edge_us)


class Event:
    time_us = -1.0

    def record(self, stream: Stream) -> None:
        self.time_us = stream.time_us

    def synchronize(self) -> None:
        """All is over at once."""


class Player:
    """Streams that keep the time; chains begin together, and a graph takes 9 µs more than its nodes."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        streams: dict[tuple[str, str], float] = STREAMS,
        graphs: dict[tuple[str, str], float] = GRAPHS,
    ) -> None:
        self.current: Stream | None = None
        self.made = [Links(*(self._link(engine, edges) for engine in ALONE)) for edges in (streams, graphs)]
        given = iter(self.made)
        patch.setattr(module, "new_stream", lambda device: None)
        patch.setattr(module, "stream_pool", lambda device: [None] * 32)
        patch.setattr(module, "links_on", lambda streams: next(given))
        patch.setattr(module, "on_streams", self._on_streams)
        patch.setattr(module, "new_event", lambda *, timing: Event())
        patch.setattr(module, "elapsed_s", lambda start, end: (end.time_us - start.time_us) * 1e-6)
        patch.setattr(module, "captured", self._captured)
        patch.setattr(module, "device_s", lambda graph, spinner, stream: (9.0 + graph) * 1e-6)
        patch.setattr(torch.cuda, "set_stream", self._set)

    def _set(self, stream: Stream) -> None:
        self.current = stream

    def _link(self, engine: str, edges: dict[tuple[str, str], float]) -> Link:
        stream = Stream(engine, edges)

        def call() -> None:
            assert self.current is stream
            stream.time_us += ALONE[engine]

        return Link(stream, call)

    def _on_streams(self, stack: Any, streams: Sequence[Stream]) -> None:
        for stream in streams:
            stream.time_us = 0.0
            stack.enter_context(nullcontext())
        self.current = streams[-1]

    def _captured(self, lanes: Sequence[Stream], issue: Callable[[], object]) -> float:
        for lane in lanes:
            lane.time_us = 0.0
        issue()
        return max(lane.time_us for lane in lanes)


def test_edges_are_what_a_chain_takes_beyond_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """kernel ⇄ into, kernel ⇄ out, into ⇄ out: half of what goes to and fro; of the first two the mean."""
    Player(monkeypatch)
    assert copy_edge_figures([SPINNER]) == {
        "copy_edge_s": pytest.approx(3.5e-6),
        "copies_edge_s": pytest.approx(3.5e-6),
        "graph_copy_edge_s": pytest.approx((8 + 6) / 16 * 1e-6, rel=0.03),  # one edge fewer than rounds
        "graph_copies_edge_s": pytest.approx(7 / 8 * 1e-6, rel=0.03),
    }


def test_edges_between_tasks_and_copies_are_told_from_those_between_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    Player(monkeypatch, {("into", "out"): 6.0, ("out", "into"): 1.0}, {("kernel", "out"): 2.0, ("out", "kernel"): 4.0})
    found = copy_edge_figures([SPINNER])
    assert (found["copy_edge_s"], found["graph_copies_edge_s"]) == pytest.approx((0.0, 0.0))
    assert found["copies_edge_s"] == pytest.approx(3.5e-6)
    assert found["graph_copy_edge_s"] == pytest.approx(1.5e-6, rel=0.03)


def test_edges_to_copies_to_another_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """kernel ⇄ across: there and back as those of copies into the GPU, whose part it plays. GPU 3 is out of reach."""
    player = Player(monkeypatch)
    played = iter(links.into for links in player.made)
    monkeypatch.setattr(module, "across", lambda stream, other: next(played) if other == 5 else None)
    monkeypatch.setattr(torch.cuda, "can_device_access_peer", lambda first, other: (first, other) == (0, 5))
    found = copy_edge_figures([SPINNER, *(SimpleNamespace(device=k) for k in (3, 5, 7))])  # type: ignore[list-item]
    assert found["peer_edge_s"] == pytest.approx(4e-6)
    assert found["graph_peer_edge_s"] == pytest.approx(1e-6, rel=0.03)
    Dispatch(**found)


def test_there_are_no_edges_to_copies_to_a_gpu_without_access(monkeypatch: pytest.MonkeyPatch) -> None:
    Player(monkeypatch)
    monkeypatch.setattr(torch.cuda, "can_device_access_peer", lambda first, other: False)
    found = copy_edge_figures([SPINNER, SimpleNamespace(device=5)])  # type: ignore[list-item]
    assert len(found) == 4


def test_a_copy_to_another_gpu_is_the_drivers(monkeypatch: pytest.MonkeyPatch) -> None:
    zeros, copied, allowed = torch.zeros, [], []
    monkeypatch.setattr(module, "allow_access", lambda *ends: allowed.append(ends))
    monkeypatch.setattr(module, "driver_copy", lambda: lambda *given: copied.append(given))
    monkeypatch.setattr(torch, "zeros", lambda size, *, dtype, device: zeros(size, dtype=dtype))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    link = module.across(SimpleNamespace(device=torch.device("cuda:0"), cuda_stream=17), 3)
    _, source, target = link.call()  # type: ignore[misc]
    assert allowed == [("cuda:0", "cuda:3")]
    assert copied == [(target.data_ptr(), source.data_ptr(), module.PEER_BYTES, 17)]
    assert source.numel() == target.numel() == module.PEER_BYTES


def test_noise_makes_nothing_negative(monkeypatch: pytest.MonkeyPatch) -> None:
    Player(monkeypatch, dict.fromkeys(STREAMS, -3.0), dict.fromkeys(GRAPHS, -3.0))
    found = copy_edge_figures([SPINNER])
    assert set(found.values()) == {0.0}
    Dispatch(**found)


def test_links_work_on_memory_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy from pinned memory, one to it; neither touches what the kernel works on, or holds up the thread."""
    real, pinned, copied = (torch.empty, torch.zeros), [], []

    def empty(size: int, *, dtype: Any, pin_memory: bool) -> Any:
        assert pin_memory
        pinned.append(real[0](size, dtype=dtype))
        return pinned[-1]

    monkeypatch.setattr(torch, "empty", empty)
    monkeypatch.setattr(torch, "zeros", lambda size, dtype=None, device=None: real[1](min(size, 2**20), dtype=dtype))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(
        torch.Tensor, "copy_", lambda to, source, non_blocking: copied.append((to, source, non_blocking))
    )
    streams = [SimpleNamespace(device="cuda:0") for _ in range(3)]
    links = links_on(streams)
    assert [link.stream for link in links] == streams
    links.into.call(), links.out.call()
    (into, source, lets_go), (target, out, lets_go_too) = copied
    assert (source is pinned[0], target is pinned[1], lets_go, lets_go_too) == (True, True, True, True)
    assert {tensor.numel() for tensor in (into, source, target, out)} == {COPIED_BYTES}
    assert len({tensor.data_ptr() for tensor in (into, source, target, out)}) == 4
    assert links.kernel.call().sum() > 0  # type: ignore[attr-defined]


@pytest.mark.gpu
def test_edges_of_this_gpu() -> None:
    from graphsched.calibration.cuda_clock import Spinner

    found = copy_edge_figures([Spinner(gpu) for gpu in range(torch.cuda.device_count())])
    assert all(0.0 <= seconds < 5e-5 for seconds in found.values())
