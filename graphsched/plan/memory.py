"""How much memory of each device a plan needs at most, and what lies there then.

Memory is taken and given back by the dispatching thread, which runs ahead of the GPUs: what counts is the order of the
plan, not when tasks run. In eager mode `Plan.frees` says what goes back when. In graph mode a plan runs twice before it
is captured, once as in eager mode and once without giving back what lies on GPUs; then every result lies in the graphs'
memory for good, and a run returns clones.

A program holds its inputs and states, what the states were at first (`Program.reset` goes back to it), two host
buffers for every copy to a host, and one for every result of a task on the CPU that GPUs read. All of that counts, from
the making of a program to the end of a run.

Not modelled: CPU lanes side by side, which make and free when they get there: the peak of host memory is that of the
plan's order. Inputs and states with gaps between their elements. Pinned memory, whose blocks are powers of two. What
libraries keep (cuBLAS: 32 MiB a stream on an H200) and CUDA itself. The second capture of a timed run in graph mode; a
second step under way (`Program.submit`), which has inputs and results of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import groupby

from graphsched.plan.allocator import CachingAllocator, HostAllocator
from graphsched.plan.holding import DeviceMemory, Held, Peak, Taken
from graphsched.plan.model import Copy, Plan
from graphsched.plan.pinning import pinned_results
from graphsched.plan.segments import OUTSIDE, Segments, segments_of
from graphsched.workload import Value


def peak_memory(plan: Plan) -> dict[str, Peak]:
    """The peak of each device that a program of `plan` holds memory on, in the mode of the plan.

    Example:
        >>> from graphsched.plan import Placement, build_plan
        >>> from graphsched.platform import Device, Platform
        >>> from graphsched.workload import TensorSpec, Workload
        >>> work = Workload()
        >>> value = work.input("x", TensorSpec((256,)), device="cuda:0")
        >>> for name in "abc":
        ...     value = work.task(abs, value, name=name, outputs=[TensorSpec((256,))])
        >>> here = Platform("here", (Device("cpu", "cpu"), Device("cuda:0", "cuda")))
        >>> lanes = Placement(["a", "b", "c"], dict.fromkeys("abc", "cuda:0/s0"))
        >>> peak = peak_memory(build_plan(work, here, None, lanes, scheduler="by hand"))["cuda:0"]
        >>> peak.nbytes, peak.action, [(held.name, held.nbytes) for held in peak.alive]
        (3072, 'b', [('x', 1024), ('a', 1024), ('b', 1024)])
    """
    walk = _Walk(plan)
    walk.load()
    if plan.mode == "graph":
        _in_graph_mode(walk)
    else:
        walk.actions(range(len(plan)), frees=lambda _: True)
        walk.return_clones(walk.is_resident)
    return walk.peaks()


def _in_graph_mode(walk: _Walk) -> None:
    plan, segments = walk.plan, segments_of(walk.plan)
    order = _launch_order(segments)
    rehearsal = walk.copies_of_states("rehearsal") + walk.host_buffers("rehearsal")
    walk.actions(range(len(plan)), frees=lambda _: True)
    walk.kept = {i for i, copy in plan.copies.items() if segments.of[i] == OUTSIDE and walk.is_gpu(copy.target)}
    walk.actions(order, frees=walk.on_host)
    walk.clear()
    walk.drop(rehearsal)
    walk.actions([i for i in order if segments.of[i] != OUTSIDE], graph=True)
    walk.actions([i for i in order if segments.of[i] == OUTSIDE], frees=walk.on_host)
    walk.return_clones(lambda _: True)


def _launch_order(segments: Segments) -> list[int]:
    """Actions as they are issued: a segment where its first action stands."""
    found, launched = [], OUTSIDE
    members = sorted(range(len(segments.of)), key=lambda i: segments.of[i])
    by_segment = {k: list(group) for k, group in groupby(members, key=lambda i: segments.of[i])}
    for i, segment in enumerate(segments.of):
        if segment == OUTSIDE:
            found.append(i)
        elif segment > launched:
            launched = segment
            found += by_segment[segment]
    return found


class _Walk:
    """A plan gone through in the order of issue: what each device holds."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.kinds = {device.name: device.kind for device in plan.platform.devices}
        self.memories: dict[str, DeviceMemory] = {}
        self.slots: dict[str, Taken] = {}  # value or inserted copy -> its memory
        self.kept: set[int] = set()  # copies that later runs write into the same memory
        self.device_of: dict[Taken, str] = {}
        self.in_place = {name for join in plan.joins for name in (join.task, *join.starts)}
        self.in_turns = {plan.names[i] for i, copy in plan.copies.items() if not copy.task and self._has_buffers(i)}

    def is_gpu(self, device: str) -> bool:
        return self.kinds[device] == "cuda"

    def on_host(self, i: int) -> bool:
        """Whether a CPU lane makes the action."""
        lane = self.plan.lanes[self.plan.lane_of[i]]
        return lane.kind == "host" or not self.is_gpu(lane.device)

    def is_resident(self, value: Value) -> bool:
        """Whether a value lies in an input, state, join or inserted copy to a host: where returned, it is cloned."""
        if value.kind != "output" or not self.in_place.isdisjoint((value.name, value.producer)):
            return True
        if value.root == value.name or value.producer is None:
            return False
        device = self.plan.homes[value.name]
        into = [r for r in self.plan.work[value.producer].reads if r.value.root == value.root]
        here = [r.value for r in into if self.plan.homes[r.value.name] == device]
        buffers = {self.plan.buffer(r, device) for r in into}
        return not buffers.isdisjoint(self.in_place | self.in_turns) or any(map(self.is_resident, here))

    def peaks(self) -> dict[str, Peak]:
        found = {name: self.memory(name).peak() for name in self.kinds}
        return {name: peak for name, peak in found.items() if peak.nbytes}

    # -- what is there before the first action --------------------------------------------------------

    def load(self) -> None:
        for value in self.plan.work.values.values():
            if value.kind != "output":
                self.take(Held(value.name, value.nbytes, ""), self.plan.homes[value.name])
        for join in self.plan.joins:
            (whole,) = self.plan.work[join.task].outputs
            self.take(Held(f"{join.task} (parts)", whole.nbytes, join.task), join.device)
        self.copies_of_states("initial")
        self.host_buffers()
        self.pinned_results()
        for memory in self.memories.values():
            memory.resident_bytes = memory.allocator.allocated_bytes

    def copies_of_states(self, why: str) -> list[Taken]:
        states = [value for value in self.plan.work.values.values() if value.kind == "state"]
        made = [self.take(Held(f"{v.name} ({why})", v.nbytes, ""), self.plan.homes[v.name]) for v in states]
        return [taken for taken in made if taken is not None]

    def host_buffers(self, why: str = "") -> list[Taken]:
        """Two for each copy to a host, but for fresh ones, and for each that is staged through it."""
        made = []
        for i, copy in self.plan.copies.items():
            staged = self._staged(copy)
            if staged or self._has_buffers(i):
                device = "cpu" if staged else copy.target
                name = f"{self.plan.names[i]} ({why})" if why else self.plan.names[i]
                made += [self.take(Held(name, copy.read.value.nbytes, _maker(copy)), device) for _ in range(2)]
        return [taken for taken in made if taken is not None]

    def pinned_results(self) -> None:
        """One for each result of a task on the CPU that GPUs read."""
        for task, reads in pinned_results(self.plan).items():
            for read in reads:
                self.take(Held(f"{read} (pinned)", read.value.nbytes, task), "cpu")

    def _has_buffers(self, i: int) -> bool:
        """Whether a copy goes to two buffers of a host in turn."""
        copy, placed = self.plan.copies[i], self.plan.names[i] in self.in_place
        return not (placed or self.is_gpu(copy.target) or copy.memory == "fresh")

    def _staged(self, copy: Copy) -> bool:
        ends = copy.source, copy.target
        return (
            ends[0] != ends[1]
            and all(self.is_gpu(end) for end in ends)
            and self.plan.platform.link(*ends).memory == "staged"
        )

    # -- actions ----------------------------------------------------------------------------------------

    def actions(
        self, order: Iterable[int], *, frees: Callable[[int], bool] = lambda _: False, graph: bool = False
    ) -> None:
        """Issue actions; buffers go back where `frees` says so of an action. In a `graph` memory is the graph's."""
        for i in order:
            if self.plan.kinds[i] == "wait":
                continue
            self._make(i, graph)
            if frees(i):
                self.drop([self.slots.pop(name) for name in self.plan.frees.get(i, ()) if name in self.slots])

    def _make(self, i: int, graph: bool) -> None:
        plan, name = self.plan, self.plan.names[i]
        copy, lane = plan.copies.get(i), plan.lanes[plan.lane_of[i]]
        if name in self.in_place:
            return
        if plan.kinds[i] == "collective":
            for value, k in zip(plan.work[name].outputs, plan.lanes_of(i), strict=True):
                lane = plan.lanes[k]
                self._results([Held(value.name, value.nbytes, name)], lane.device, (graph, lane.name), name)
        elif copy is None:
            task = plan.work[name]
            made = [Held(v.name, v.nbytes, name) for v in task.outputs if v.root == v.name]
            made = [held for held in made if held.name not in self.in_place]
            self._results(made, lane.device, (graph, lane.name), name)
        elif (self.is_gpu(copy.target) or copy.memory == "fresh") and not (i in self.kept and name in self.slots):
            stream = lane.name if lane.device == copy.target else f"{lane.name}>{copy.target}"
            self._results([Held(name, copy.read.value.nbytes, _maker(copy))], copy.target, (graph, stream), name)

    def _results(self, made: list[Held], device: str, owner: Hashable, action: str) -> None:
        """Results, and what is needed while they are made; then those of the run before are gone."""
        taken = [self.take(held, device, owner, action) for held in made]
        self.memory(device).use(self._workspace_bytes(action, device), owner, action)
        old = [self.slots.pop(held.name) for held in made if held.name in self.slots]
        self.slots.update({t.held.name: t for t in taken if t is not None})
        self.drop(old)

    def _workspace_bytes(self, action: str, device: str) -> int:
        if action not in self.plan.work.graph:
            return 0
        cost = self.plan.costs.get(self.plan.work[action].signature, self.plan.platform.device(device).model)
        return 0 if cost is None else cost.workspace_bytes

    def return_clones(self, cloned: Callable[[Value], bool]) -> None:
        """Clones of returned values at the end of a run."""
        for value in self.plan.work.returned():
            if cloned(value):
                held = Held(f"{value.name} (returned)", value.nbytes, value.producer or "")
                self.take(held, self.plan.homes[value.name])

    def clear(self) -> None:
        """The end of a run."""
        kept = {self.plan.names[i] for i in self.kept}
        self.drop([self.slots.pop(name) for name in list(self.slots) if name not in kept])

    # -- memory -----------------------------------------------------------------------------------------

    def memory(self, device: str) -> DeviceMemory:
        if device not in self.memories:
            self.memories[device] = DeviceMemory(CachingAllocator() if self.is_gpu(device) else HostAllocator())
        return self.memories[device]

    def take(self, held: Held, device: str, owner: Hashable = "", action: str = "") -> Taken | None:
        taken = self.memory(device).take(held, owner, action)
        if taken is not None:
            self.device_of[taken] = device
        return taken

    def drop(self, gone: Iterable[Taken]) -> None:
        for taken in gone:
            self.memories[self.device_of.pop(taken)].drop(taken)


def _maker(copy: Copy) -> str:
    return copy.read.value.producer or ""
