"""The calls of a plan in graph mode: those that its segments are captured from, and those between the segments.

Not modelled: graphs of one plan that run side by side; all are launched on one stream. Where every lane has copies
outside, those on the first one wait for graphs in flight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from graphsched.executors.buffers import Buffers
from graphsched.executors.calls import Call, copy_call
from graphsched.executors.carrying import NOTHING, Carry
from graphsched.executors.clocks import new_event
from graphsched.executors.declared import check_same
from graphsched.executors.eager import EagerCompiler
from graphsched.executors.lanes import CpuLane, CudaLane, is_cuda
from graphsched.executors.stamp_kernel import StampMemory
from graphsched.executors.stamps import Calls, Stamps
from graphsched.executors.watch import Watch
from graphsched.plan import OUTSIDE, Copy, Plan, launching_lane, segments_of, stamped
from graphsched.plan.steps import carried

GRAPH = -1  # owner of calls that are no action's


class SegmentCompiler(EagerCompiler):
    """Turns a plan into the calls of each segment, and those of a run around the launches of segments.

    Attributes:
        segments: The plan as it is cut.
        origin: The stream that captures begin on and graphs are launched on.
        ends: Events of the ends of segments.
        kept: Results of copies outside that graphs read, by slot: each run writes them again.
        draws_elsewhere: Whether tasks draw random numbers on other GPUs than the origin's, so that a graph is
            launched only once the one before it is over.
        stamps: Where the stamps of each GPU go that take the place of timing events around its tasks in graphs; empty:
            events do.
    """

    def __init__(
        self, plan: Plan, buffers: Buffers, cpu: dict[int, CpuLane], cuda: dict[int, CudaLane], watch: Watch
    ) -> None:
        self.segments = segments_of(plan)
        self.kept: dict[int, Any] = {}
        super().__init__(plan, buffers, cpu, cuda, watch)
        self.origin = cuda[launching_lane(plan, self.segments)].stream
        self.ends = [new_event() for _ in range(len(self.segments))]
        self.draws_elsewhere = False
        self.stamps: dict[int, StampMemory] = {}
        outside = [i for i, segment in enumerate(self.segments.of) if segment == OUTSIDE]
        self.events.update({i: new_event() for i in outside if plan.lane_of[i] in cuda})
        self._ending = set(self.segments.after.values())

    # -- what is captured ------------------------------------------------------------------------------

    def inside(self, stamps: Stamps | None = None) -> list[Calls]:
        """The calls of each segment; with `stamps`, timing events stand around every action, or stamps around tasks.

        Raises:
            ExecutionError: The kernel of stamps cannot be loaded.
        """
        if stamps and stamped(self.plan):
            self._make_stamps()
        found, self._carry = [Calls() for _ in range(len(self.segments))], NOTHING
        current: dict[int, int] = {}
        for i, segment in enumerate(self.segments.of):
            if segment == OUTSIDE:
                continue
            if i in self.events:
                self.events[i] = new_event()  # one that no other capture has seen
            if self.plan.kinds[i] == "wait":
                for wait in self._joins(i):
                    found[segment].add(i, wait)
            else:
                self._cuda_action(found[segment], i, current.get(segment), stamps)
                current[segment] = self.plan.lane_of[i]
        return found

    def _joins(self, i: int) -> list[Call]:
        """Every lane waits for what the thread would wait for."""
        waited = [self.events[j] for j in self.plan.waits[i]]
        return [partial(lane.stream.wait_event, event) for lane in self.cuda.values() for event in waited]

    # -- what is not -------------------------------------------------------------------------------------

    def around(self, launch: Callable[[int], Call], stamps: Stamps | None = None, carry: Carry = NOTHING) -> Calls:
        """The calls of a run, in which `launch(k)` starts segment k."""
        calls, self._carry = Calls(), carry
        launched = OUTSIDE
        for i, segment in enumerate(self.segments.of):
            if segment == OUTSIDE:
                self._action(calls, i, None, stamps)
            elif segment > launched:
                launched = segment
                self._launch(calls, i, segment, launch(segment))
        return calls

    def _launch(self, calls: Calls, i: int, segment: int, start: Call) -> None:
        """Segment `segment`, where its first action `i` stands, after what must be over before it."""
        for j in self.segments.before[segment]:
            if j in self.events:
                calls.add(i, partial(self.origin.wait_event, self.events[j]))
            else:
                calls.add(i, self._host_wait(j, repr(self.plan.names[j])))
        for wait in self._carry.by_stream(("graph", segment), self.origin, self.watch):
            calls.add(i, wait)
        if self._in_turn and segment:
            calls.add(GRAPH, self._end_wait(segment - 1))
        calls.add(GRAPH, partial(self._set_stream, self.origin))
        calls.add(GRAPH, start)
        if self._in_turn or segment in self._ending:
            calls.add(GRAPH, partial(self.ends[segment].record, self.origin))
        for say in self._carry.said(("graph", segment)):
            calls.add(GRAPH, say)

    def carry(self) -> Carry:
        """What a step waits for in the one before; graphs follow each other without that."""
        pairs: dict[Any, dict[Any, None]] = {}
        for late, before in carried(self.plan).items():
            for early in before:
                inside = [self.segments.of[i] != OUTSIDE for i in (late, early)]
                same_lane = self.plan.lane_of[late] == self.plan.lane_of[early]
                if inside[0] != inside[1] or not (inside[0] or same_lane):
                    pairs.setdefault(self._end_of(late), {})[self._end_of(early)] = None
        return Carry({late: tuple(before) for late, before in pairs.items()}, self._stream_of, self._name_of)

    def _end_of(self, i: int) -> Any:
        """Action `i`, or the graph that holds it."""
        segment = self.segments.of[i]
        return i if segment == OUTSIDE else ("graph", segment)

    def _stream_of(self, end: Any) -> Any | None:
        return self.origin if isinstance(end, tuple) else super()._stream_of(end)

    def _end_wait(self, segment: int) -> Call:
        return partial(self.watch.see, self.ends[segment], f"the graph of segment {segment}")

    @property
    def _in_turn(self) -> bool:
        return self.draws_elsewhere and len(self.segments) > 1

    # -- waits: those for a segment hold for what is in it ------------------------------------------------

    def _outside(self, i: int) -> list[int]:
        return [j for j in self.plan.waits[i] if self.segments.of[j] == OUTSIDE]

    def _host_waits(self, i: int) -> list[Call]:
        segment = self.segments.after.get(i)
        waits = [self._host_wait(j, f"{self.plan.names[j]!r} (in {self.plan.names[i]!r})") for j in self._outside(i)]
        return waits if segment is None else [self._end_wait(segment), *waits]

    def _stream_waits(self, i: int, stream: Any) -> list[Call]:
        segment = self.segments.of[i]
        if segment != OUTSIDE:
            inside = [j for j in self.plan.waits[i] if self.segments.of[j] == segment]
            return [partial(stream.wait_event, self.events[j]) for j in inside]
        waits: list[Call] = []
        if i in self.segments.after:
            waits.append(partial(stream.wait_event, self.ends[self.segments.after[i]]))
        for j in self._outside(i):
            by_stream = j in self.events
            waits.append(
                partial(stream.wait_event, self.events[j])
                if by_stream
                else self._host_wait(j, repr(self.plan.names[j]))
            )
        return waits

    def _job_waits(self, i: int) -> list[Call]:
        waits: list[Call] = []
        if i in self.segments.after:
            waits.append(self.ends[self.segments.after[i]].synchronize)
        for j in self._outside(i):
            if j in self.events:
                waits.append(self.events[j].synchronize)
            elif self.plan.lane_of[j] != self.plan.lane_of[i]:
                waits.append(self._lane_wait(j))
        return waits

    # -- memory and time -----------------------------------------------------------------------------------

    def _copy(self, i: int, copy: Copy) -> Call:
        """A copy outside, whose result graphs read, writes again what its first call made."""
        read_by_graphs = is_cuda(copy.target) or copy.memory == "pinned"
        if self.segments.of[i] != OUTSIDE or not read_by_graphs:
            return super()._copy(i, copy)
        return _copy_into_same(self.plan.names[i], copy, self.buffers, self.kept)

    def _free(self, i: int) -> Call:
        """What GPUs hold stays, for graphs read and write it."""
        return super()._free(i) if self.plan.lane_of[i] in self.cpu else _nothing

    def _make_stamps(self) -> None:
        """Memory for two stamps of each action that graphs hold on a lane of tasks."""
        number = Counter(_device(self.cuda[self.plan.lane_of[i]]) for i in range(len(self.plan)) if self._stamped(i))
        self.stamps = {device: StampMemory(device, 2 * actions) for device, actions in number.items()}

    def _stamped(self, i: int) -> bool:
        """Whether an action has stamps where there are any: copies on lanes of their own have events."""
        lane = self.plan.lanes[self.plan.lane_of[i]]
        return self.segments.of[i] != OUTSIDE and lane.kind == "compute" and is_cuda(lane.device)

    def _timing_event(self, i: int) -> Any:
        inside, lane = self.segments.of[i] != OUTSIDE, self.plan.lane_of[i]
        if self.stamps and self._stamped(i):
            return self.stamps[_device(self.cuda[lane])].stamp()
        return new_event(timing=True, external=inside)

    def _over(self, i: int) -> bool:
        segment = self.segments.of[i]
        return super()._over(i) if segment == OUTSIDE else self.origin.query()

    # -- slots ---------------------------------------------------------------------------------------------

    def read_outside(self) -> list[int]:
        """Slots that tasks and copies outside read."""
        return sorted({slot for i in self._actions_outside() for slot in self._reads(i)})

    def _actions_outside(self) -> list[int]:
        return [i for i, s in enumerate(self.segments.of) if s == OUTSIDE and self.plan.kinds[i] != "wait"]

    def _reads(self, i: int) -> list[int]:
        copy, task = self.plan.copies.get(i), self.plan.task(i)
        if copy is not None or task is None:
            return [] if copy is None else [self.buffers.slot(copy.read.value.name)]
        device = self.plan.lanes[self.plan.lane_of[i]].device
        return [self.buffers.slot(self.plan.buffer(read, device)) for read in task.reads]


def _copy_into_same(name: str, copy: Copy, buffers: Buffers, kept: dict[int, Any]) -> Call:
    import torch

    slots, source, output = buffers.slots, buffers.slot(copy.read.value.name), buffers.slot(name)
    first = copy_call(name, copy, buffers)

    def call() -> None:
        if output not in kept:
            with torch.inference_mode(False):
                first()
            kept[output] = slots[output]
            return
        here, there = kept[output], slots[source]
        check_same(here, there)
        here.copy_(there)
        slots[output] = here

    return call


def _device(lane: CudaLane) -> int:
    return int(lane.stream.device.index)


def _nothing() -> None:
    """Nothing is given back."""
