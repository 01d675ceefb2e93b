"""A plan as CUDA graphs over all its GPUs: graph mode.

The calls of eager mode are made once while the streams are captured: the stream of one lane forks to all others and
joins them again (`plan.launching_lane` says which). A plan that only GPUs work on is one graph, replayed by one launch;
tasks on a CPU and copies through pageable memory cut it into segments, each one graph, between which they run as in
eager mode (`plan.segments_of` says where). Results lie in memory that belongs to the graphs, so that nothing is given
back while they live; inputs and states are the program's own, and replays read what lies there. A wait of the thread
becomes a wait of every lane where only one segment is concerned. Spans come from timing events inside the graphs, or
from stamps (`plan.stamped` says which), in graphs of their own, so that they cost nothing where none are asked for.

Random numbers come from torch's generators of the GPUs, which are told of the graphs: every replay draws new ones.

Not modelled: streams that do not follow a task's lane and that it makes current otherwise than by `torch.cuda.stream`
or `torch.cuda.set_stream`: what it issues there runs once, during the capture, and in no replay.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from graphsched.errors import TaskFailedError
from graphsched.executors import capture
from graphsched.executors.buffers import Buffers
from graphsched.executors.calls import Call
from graphsched.executors.carrying import Carry
from graphsched.executors.clocks import new_event
from graphsched.executors.collector import no_collector
from graphsched.executors.failing import EAGER, make
from graphsched.executors.lanes import CpuLane, CudaLane
from graphsched.executors.rehearsal import rehearse
from graphsched.executors.segments import GRAPH, SegmentCompiler
from graphsched.executors.stamps import Calls, Stamps
from graphsched.executors.watch import Watch
from graphsched.plan import OUTSIDE, Plan, check_capturable

WHEN = " while it was captured into a CUDA graph"


@dataclass
class Captured:
    """The graphs of a plan, what they need to live, and where their results are.

    Attributes:
        graphs: One for each segment; its ``replay`` launches it on the current stream.
        slots: The program's slots as they were filled during the capture.
        read_outside: Of these, results that lie between graphs and others: slot and tensor.
        memory: Of the other GPUs.
    """

    graphs: list[Any]
    slots: list[Any]
    read_outside: list[tuple[int, Any]]
    memory: list[Any]


class GraphCompiler:
    """Turns a plan into the launches of its graphs, and the calls of eager mode between them.

    Raises:
        CaptureError: No graph can hold anything of the plan.
    """

    def __init__(
        self, plan: Plan, buffers: Buffers, cpu: dict[int, CpuLane], cuda: dict[int, CudaLane], watch: Watch
    ) -> None:
        check_capturable(plan)
        self.plan, self.buffers, self.cuda = plan, buffers, cuda
        self.inner = SegmentCompiler(plan, buffers, cpu, cuda, watch)
        self.origin, self.done, self.begin = self.inner.origin, self.inner.done, self.inner.begin
        self._rehearsed = False
        self._last: Captured | None = None
        self._plain: Captured | None = None
        self._launched = [(0.0, 0.0)] * len(self.inner.segments)

    def unfinished(self, issued: int) -> list[str]:
        """What a stuck run hangs on; not more than that about a graph."""
        return self.inner.unfinished(issued)

    def final_lanes(self) -> list[CudaLane]:
        """Lanes whose ends are that of a run: the one that graphs are launched on, and those of copies outside."""
        outside = {self.plan.lane_of[i] for i, s in enumerate(self.inner.segments.of) if s == OUTSIDE}
        return [lane for n, lane in self.cuda.items() if lane.stream is self.origin or n in outside]

    def used_lanes(self) -> list[CudaLane]:
        """Lanes whose streams the calls of a run make current: those of the others are in the graphs."""
        return self.final_lanes()

    def compile(self, stamps: Stamps | None = None) -> Calls:
        """Capture the plan, with timing events if `stamps` are given; the calls of a run.

        Raises:
            ExecutionError: The plan is timed by stamps, whose kernel cannot be loaded.
            TaskFailedError: A task failed, or cannot be captured.
        """
        if not self._rehearsed:
            rehearse(self.inner, self._devices())
            self._rehearsed = True
        captured = self._capture(self.inner.inside(stamps))
        self._plain = captured if stamps is None else self._plain
        launch = self._launch if stamps is None else self._timed_launch
        return self._prepared(captured, self.inner.around(partial(launch, captured), stamps))

    def carry(self) -> Carry:
        """What a step waits for in the one before."""
        return self.inner.carry()

    def compile_step(self, carry: Carry) -> Calls:
        """The calls of a run that may begin before the one before is over, for whose actions it waits.

        Its graphs are those of other runs; launched on one stream they follow those of the run before.
        """
        captured = self._plain
        if captured is None:
            self.compile()
            return self.compile_step(carry)
        return self._prepared(captured, self.inner.around(partial(self._launch, captured), carry=carry))

    @property
    def draws_elsewhere(self) -> bool:
        """Whether a graph may be launched only once the one before it is over."""
        return self.inner.draws_elsewhere

    def _prepared(self, captured: Captured, around: Calls) -> Calls:
        return Calls([partial(self._prepare, captured), *around.calls], [GRAPH, *around.owner])

    def _prepare(self, captured: Captured) -> None:
        self._last, slots = captured, self.buffers.slots
        for slot, tensor in captured.read_outside:
            slots[slot] = tensor

    def _launch(self, captured: Captured, segment: int) -> Call:
        replay: Call = captured.graphs[segment].replay
        return replay

    def _timed_launch(self, captured: Captured, segment: int) -> Call:
        replay, launched, clock = captured.graphs[segment].replay, self._launched, time.perf_counter

        def launch() -> None:
            began = clock()
            replay()
            launched[segment] = began, clock()

        return launch

    def complete(self, stamps: Stamps) -> None:
        """After a timed run: every action of a graph was issued when that was launched."""
        for i, segment in enumerate(self.inner.segments.of):
            if segment != OUTSIDE:
                stamps.issue_start[i], stamps.issue_end[i] = self._launched[segment]

    def results(self) -> dict[str, Any]:
        """Clones of the returned values of the last run, by name."""
        assert self._last is not None
        return self.buffers.copies_of_results(self._last.slots)

    # -- a capture ---------------------------------------------------------------------------------

    def _capture(self, inside: list[Calls]) -> Captured:
        others = [device for device in self._devices() if device != self.origin.device.index]
        pool, memory = capture.new_pool(), {device: capture.new_memory(device) for device in others}
        for slot, tensor in self.inner.kept.items():
            self.buffers.slots[slot] = tensor
        try:
            capture.make_room({device: self._peak_bytes(device) for device in self._devices()})
            with no_collector():  # once for all segments
                graphs = [self._capture_one(calls, pool, memory) for calls in inside]
            slots = list(self.buffers.slots)
        finally:
            self.buffers.clear()
        outside = [slot for slot in self.inner.read_outside() if self.buffers.slots[slot] is None]
        read_outside = [(slot, slots[slot]) for slot in outside if slots[slot] is not None]
        return Captured(graphs, slots, read_outside, list(memory.values()))

    def _capture_one(self, calls: Calls, pool: Any, memory: dict[int, Any]) -> Any:
        """The graph of one segment.

        Raises:
            TaskFailedError: It cannot be captured; memory and random numbers are as if it had not been tried.
        """
        import torch

        graph = capture.new_graph()
        capture.tell_generators(graph, self._devices())
        capture.settle(self._devices())
        failures: list[TaskFailedError] = []
        try:
            with ExitStack() as stack:
                for device, taken in memory.items():
                    stack.enter_context(capture.taken_from(taken, device))
                stack.enter_context(capture.capturing(graph, self.origin, pool))
                stack.callback(torch.cuda.set_stream, self.origin)  # a capture ends on the stream that it began on
                self._fork()
                self._make(calls, failures)
                self._join()
            capture.finish(graph)
        except BaseException as error:
            del graph
            self._give_up()
            if not isinstance(error, Exception):
                raise
            if failures:
                raise failures[0] from failures[0].__cause__
            raise TaskFailedError(f"the plan cannot be captured into a CUDA graph: {error}: {EAGER}") from error
        finally:
            capture.settle(self._devices())
        return graph

    def _make(self, calls: Calls, failures: list[TaskFailedError]) -> None:
        """Make the calls; what fails is noted, for the end of a broken capture may raise too."""
        import torch

        with torch.no_grad(), capture.only_captured_streams():
            try:
                make(calls, self.plan, WHEN)
            except TaskFailedError as error:
                failures.append(error)
                raise

    def _give_up(self) -> None:
        import torch

        self.buffers.clear()
        capture.free_generators(self._devices(), self.origin)
        torch.cuda.empty_cache()

    def _fork(self) -> None:
        event = new_event()
        event.record(self.origin)
        for stream in self._streams()[1:]:
            stream.wait_event(event)

    def _join(self) -> None:
        for stream in self._streams()[1:]:
            event = new_event()
            event.record(stream)
            self.origin.wait_event(event)

    def _streams(self) -> list[Any]:
        """The origin, all other lanes' and those that copies have on their targets, which torch's copies wait for."""
        found = [stream for lane in self.cuda.values() for stream in (lane.stream, *lane.targets.values())]
        return [self.origin, *(stream for stream in found if stream is not self.origin)]

    def _peak_bytes(self, device: int) -> int:
        peak = self.plan.peak_memory.get(f"cuda:{device}")
        return peak.nbytes if peak is not None else 0

    def _devices(self) -> list[int]:
        return sorted({stream.device.index for stream in self._streams()})
