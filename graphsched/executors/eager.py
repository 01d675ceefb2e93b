"""A plan as a list of calls that one thread makes in order: eager mode.

Each action becomes a few functions of no arguments (switch the stream, wait, call, record), put
together once, so that a run is one loop over them.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial
from typing import Any, get_args

from graphsched.executors.buffers import Buffers
from graphsched.executors.calls import Call, copy_call, peer_call, pinning_call, staged_calls, task_call
from graphsched.executors.carrying import NOTHING, Carry
from graphsched.executors.clocks import new_event
from graphsched.executors.collectives import collective_call
from graphsched.executors.failing import failure_on_lane
from graphsched.executors.lanes import CpuLane, CudaLane, is_cuda
from graphsched.executors.ranges import with_ranges
from graphsched.executors.spinning import Done
from graphsched.executors.stamps import Calls, Stamps, stamp
from graphsched.executors.watch import Watch
from graphsched.plan import Copy, Plan, pinned_results
from graphsched.plan.model import ActionKind
from graphsched.plan.steps import carried_waits

ACTION_KINDS: tuple[str, ...] = get_args(ActionKind)


class EagerCompiler:
    """Turns a plan into `Calls`, once plain and once with stamps and timing events."""

    draws_elsewhere = False

    def __init__(
        self, plan: Plan, buffers: Buffers, cpu: dict[int, CpuLane], cuda: dict[int, CudaLane], watch: Watch
    ) -> None:
        import torch

        self.plan, self.buffers, self.cpu, self.cuda, self.watch = plan, buffers, cpu, cuda, watch
        self._set_stream = torch.cuda.set_stream
        self._behind, self._pinned = behind_collectives(plan), pinned_results(plan, local=True)
        waited = {j for waits in (*plan.waits, *self._behind.values()) for j in waits}
        self.events = {i: new_event() for i in sorted(waited) if plan.lane_of[i] in cuda}
        self.done = {i: Done() for i in range(len(plan)) if plan.lane_of[i] in cpu}
        bodies = {i: self._body(i) for i in range(len(plan)) if plan.kinds[i] != "wait"}
        self.bodies = with_ranges(bodies, plan.names)
        self._carry = NOTHING

    def _body(self, i: int) -> Call:
        plan, lane = self.plan, self.plan.lanes[self.plan.lane_of[i]]
        copy = plan.copies.get(i)
        if plan.kinds[i] == "collective":
            lanes = [self.cuda[k] for k in plan.lanes_of(i) if k in self.cuda]
            return collective_call(plan.work[plan.names[i]], lanes, self.buffers)
        if copy is None:
            task = plan.work[plan.names[i]]
            call, reads = task_call(task, lane.device, self.buffers), self._pinned.get(task.name, ())
            return pinning_call(call, reads, self.buffers) if reads else call
        between = is_cuda(copy.source) and is_cuda(copy.target) and copy.source != copy.target
        if between:
            staged = plan.platform.link(copy.source, copy.target).memory == "staged"
            make = staged_calls if staged else peer_call
            return make(plan.names[i], copy, self.cuda[plan.lane_of[i]], self.buffers)
        return self._copy(i, copy)

    def _copy(self, i: int, copy: Copy) -> Call:
        """A copy that is not between two GPUs."""
        return copy_call(self.plan.names[i], copy, self.buffers)

    def compile(self, stamps: Stamps | None = None) -> Calls:
        """The calls of one run; with `stamps`, every action's times are taken."""
        return self._compiled(NOTHING, stamps)

    def compile_step(self, carry: Carry) -> Calls:
        """The calls of a run that may begin before the one before is over, for whose actions it waits."""
        return self._compiled(carry, None)

    def carry(self) -> Carry:
        """What a step waits for in the one before."""
        return Carry(carried_waits(self.plan), self._stream_of, self._name_of)

    def _stream_of(self, i: int) -> Any | None:
        lane = self.cuda.get(self.plan.lane_of[i])
        return None if lane is None else lane.stream

    def _name_of(self, i: int) -> str:
        return f"{self.plan.names[i]!r} on lane {self.plan.lanes[self.plan.lane_of[i]].name}"

    def _compiled(self, carry: Carry, stamps: Stamps | None) -> Calls:
        calls, self._carry = Calls(), carry
        current: int | None = None
        for i, lane in enumerate(self.plan.lane_of):
            self._action(calls, i, current, stamps)
            if lane in self.cuda:
                current = lane
        return calls

    def _action(self, calls: Calls, i: int, current: int | None, stamps: Stamps | None) -> None:
        lane = self.plan.lane_of[i]
        if stamps:
            calls.add(i, stamp(stamps.issue_start, i))
        if self.plan.kinds[i] == "wait":
            for wait in self._host_waits(i):
                calls.add(i, wait)
        elif lane in self.cpu:
            calls.add(i, partial(self.cpu[lane].put, self._job(i, stamps)))
        else:
            self._cuda_action(calls, i, current, stamps)
        if stamps:
            calls.add(i, stamp(stamps.issue_end, i))

    # -- the thread's own waits ------------------------------------------------------------------

    def _host_waits(self, i: int) -> list[Call]:
        return [self._host_wait(j, f"{self.plan.names[j]!r} (in {self.plan.names[i]!r})") for j in self.plan.waits[i]]

    def _host_wait(self, j: int, what: str) -> Call:
        what = self._on_lane(j, what)
        if j in self.events:
            return partial(self.watch.see, self.events[j], what)
        return partial(self.watch.spin, self.done[j], what)

    def _on_lane(self, j: int, what: str) -> str:
        return f"{what} on lane {self.plan.lanes[self.plan.lane_of[j]].name}"

    # -- CUDA lanes --------------------------------------------------------------------------------

    def _cuda_action(self, calls: Calls, i: int, current: int | None, stamps: Stamps | None) -> None:
        lane = self.cuda[self.plan.lane_of[i]]
        for stream in self._switches(i, current):
            calls.add(i, partial(self._set_stream, stream))
        for wait in (*self._carry.by_stream(i, lane.stream, self.watch), *self._stream_waits(i, lane.stream)):
            calls.add(i, wait)
        if stamps:
            stamps.events[i] = (self._timing_event(i), self._timing_event(i))
            calls.add(i, partial(stamps.events[i][0].record, lane.stream))
        calls.add(i, self.bodies[i])
        if stamps:
            calls.add(i, partial(stamps.events[i][1].record, lane.stream))
        if i in self.events:
            calls.add(i, partial(self.events[i].record, lane.stream))
        for say in self._carry.said(i):
            calls.add(i, say)
        if i in self.plan.frees:
            calls.add(i, self._free(i))

    def _stream_waits(self, i: int, stream: Any) -> list[Call]:
        """Before an action of a GPU `stream` waits for other lanes of GPUs, the thread for those of CPUs."""
        return [
            partial(stream.wait_event, self.events[j])
            if j in self.events
            else self._host_wait(j, repr(self.plan.names[j]))
            for j in (*self.plan.waits[i], *self._behind.get(i, ()))
        ]

    def _timing_event(self, _: int) -> Any:
        return new_event(timing=True)

    def _switches(self, i: int, current: int | None) -> list[Any]:
        """Streams to be made current for action `i`, the lane's own last: its device becomes current too."""
        number, copy = self.plan.lane_of[i], self.plan.copies.get(i)
        lane = self.cuda[number]
        target = lane.targets.get(copy.target) if copy else None
        if number == current and (target is None or self.plan.lanes[number].kind == "peer"):
            return []
        return [lane.stream] if target is None else [target, lane.stream]

    def _free(self, i: int) -> Call:
        slots, freed = self.buffers.slots, [self.buffers.slot(n) for n in self.plan.frees[i]]

        def free() -> None:
            for slot in freed:
                slots[slot] = None

        return free

    # -- CPU lanes -----------------------------------------------------------------------------------

    def _job(self, i: int, stamps: Stamps | None) -> Call:
        """What the lane's thread does: wait, run, free, say that it is done."""
        parts: list[Callable[[], None]] = [*self._carry.by_lane(i, self.watch), *self._job_waits(i)]
        if stamps:
            parts.append(stamp(stamps.start, i))
        parts.append(self.bodies[i])
        if stamps:
            parts.append(stamp(stamps.end, i))
        if i in self.plan.frees:
            parts.append(self._free(i))
        watch, done = self.watch, self.done[i]
        name, lane, task = self.plan.names[i], self.plan.lanes[self.plan.lane_of[i]].name, self.plan.task(i)

        def job() -> None:
            if watch.failure is None:
                try:
                    for part in parts:
                        part()
                except BaseException as error:
                    watch.fail(failure_on_lane(error, name, task, lane))
            done.set()

        said = self._carry.said(i)
        if not said:
            return job

        def job_and_say() -> None:
            job()
            for say in said:
                say()

        return job_and_say

    def _job_waits(self, i: int) -> list[Call]:
        waits: list[Call] = []
        for j in (*self.plan.waits[i], *self._behind.get(i, ())):
            if j in self.events:  # without polling, which would keep the dispatching thread from the interpreter
                waits.append(self.events[j].synchronize)
            elif self.plan.lane_of[j] != self.plan.lane_of[i]:
                waits.append(self._lane_wait(j))
        return waits

    def _lane_wait(self, j: int) -> Call:
        """A lane's for another lane's action."""
        return partial(self.watch.wait, self.done[j], self._on_lane(j, repr(self.plan.names[j])))

    def begin(self) -> None:
        """Before a run: nothing on a CPU lane is done yet."""
        for event in self.done.values():
            event.clear()

    def complete(self, stamps: Stamps) -> None:
        """After a timed run: all stamps are there."""

    def results(self) -> dict[str, Any]:
        """The returned values of the run that has just ended, by name."""
        return self.buffers.results()

    def final_lanes(self) -> list[CudaLane]:
        """CUDA lanes that no other lane's end implies, in the plan's order."""
        last = {lane: i for i, lane in enumerate(self.plan.lane_of)}
        waited = {j for waits in self.plan.waits for j in waits}
        return [lane for number, lane in self.cuda.items() if last.get(number, -1) not in waited]

    def used_lanes(self) -> list[CudaLane]:
        """CUDA lanes whose streams the calls of a run make current."""
        return list(self.cuda.values())

    def unfinished(self, issued: int) -> list[str]:
        """What a stuck run hangs on: tasks of CPU lanes that are under way, and CUDA lanes with work left.

        Only the first `issued` actions of the plan have been handed over.
        """
        lanes = [f"lane {lane.name}" for lane in self.cuda.values() if not lane.stream.query()]
        return self.under_way(issued) + lanes

    def under_way(self, issued: int, kinds: Container[str] = ACTION_KINDS) -> list[str]:
        """Actions of these kinds among the first `issued` ones that CPU lanes have begun, and not ended; with lanes."""
        return [
            f"{self.plan.names[i]!r} on lane {self.plan.lanes[self.plan.lane_of[i]].name}"
            for i in self._begun(issued)
            if self.plan.kinds[i] in kinds
        ]

    def _begun(self, issued: int) -> list[int]:
        first: dict[int, int] = {}
        for i in range(issued):
            if i in self.done and not self.done[i].is_set():
                first.setdefault(self.plan.lane_of[i], i)
        return [i for i in first.values() if all(self._over(j) for j in self.plan.waits[i])]

    def _over(self, i: int) -> bool:
        return self.done[i].is_set() if i in self.done else bool(self.events[i].query())


def behind_collectives(plan: Plan) -> dict[int, tuple[int, ...]]:
    """Of actions on lanes of collectives those that stand before them there and have another first lane.

    A collective is carried out by its first lane; what comes behind it on another one of its lanes waits for it.
    """
    found: dict[int, tuple[int, ...]] = {}
    last: dict[int, int] = {}
    for i in (i for i, kind in enumerate(plan.kinds) if kind == "collective"):
        lanes = plan.lanes_of(i)
        before = dict.fromkeys(last[lane] for lane in lanes if lane in last)
        found[i] = tuple(j for j in before if plan.lane_of[j] != lanes[0])
        last.update(dict.fromkeys(lanes, i))
    return {i: before for i, before in found.items() if before}
