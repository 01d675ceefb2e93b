"""A plan cut for graph mode: what CUDA graphs hold, and what the thread and CPU lanes do between them.

The thread goes through the plan in order. Actions of GPUs that a graph can hold, on all lanes, gather in the open
segment, which is launched where its first action stands. Two things close it: an action of a GPU that needs a result
from outside, which begins the next segment once that is there; and an action outside that needs a result of the open
segment, which is known only when all of it is over. So what stands behind in the plan does not hold that action up; the
price is a launch, and lanes that wait for each other between two segments, which follow one another on one stream.

A wait of the thread for actions of the open segment alone belongs to it: there every lane waits, and so does each later
action outside. Any other wait is the thread's own and closes the segment.

Not modelled: segments of one plan side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graphsched.plan.model import Copy, Plan

OUTSIDE = -1


@dataclass(frozen=True)
class Segments:
    """What each CUDA graph of a plan holds, and the order between graphs and the actions outside.

    Attributes:
        of: Number of the segment of each action; `OUTSIDE` (-1) for what no graph holds.
        before: For each segment the actions outside that must be over before it starts, in plan order, less those
            that an earlier segment or wait has had to wait for. It starts after the segment before it in any case.
        after: Where an action outside must wait for a segment: the number of the last one (the earlier ones are over
            then too). Waits of `Plan.waits` for actions that are outside hold as they are.
    """

    of: Sequence[int]
    before: Sequence[tuple[int, ...]]
    after: Mapping[int, int]

    def __len__(self) -> int:
        return len(self.before)


def segments_of(plan: Plan) -> Segments:
    """Cut `plan` into the segments that graph mode captures.

    Example:
        >>> from graphsched.plan import Placement, build_plan
        >>> from graphsched.platform import Device, Link, Platform
        >>> from graphsched.workload import TensorSpec, Workload
        >>> work, two = Workload(), TensorSpec((2,))
        >>> value = work.input("x", two)
        >>> for name in "abc":
        ...     value = work.task(abs, value, name=name, outputs=[two])
        >>> both = [Link(*ends, "pinned", 1e-5, 1e10) for ends in (("cpu", "cuda:0"), ("cuda:0", "cpu"))]
        >>> here = Platform("here", (Device("cpu", "cpu"), Device("cuda:0", "cuda")), tuple(both))
        >>> lanes = {"a": "cuda:0/s0", "b": "cpu/w0", "c": "cuda:0/s0"}
        >>> plan = build_plan(work, here, None, Placement(["a", "b", "c"], lanes), scheduler="by hand")
        >>> segments = segments_of(plan)
        >>> [(name, number) for name, number in zip(plan.names, segments.of)]
        [('x>cuda:0', 0), ('a', 0), ('a>cpu', 0), ('b', -1), ('b>cuda:0', 1), ('c', 1)]
        >>> segments.after, segments.before
        ({3: 0}, [(), (3,)])
    """
    cutter = _Cutter(plan, captured(plan))
    for i in range(len(plan)):
        cutter.add(i)
    return Segments(cutter.of, cutter.before, cutter.after)


def launching_lane(plan: Plan, segments: Segments) -> int:
    """The lane that graphs are launched on: the first of a GPU with nothing outside of graphs, else the first.

    What others do outside need not wait there for graphs in flight.
    """
    gpu = [k for k, lane in enumerate(plan.lanes) if lane.kind != "host" and _on_gpu(plan, lane.device)]
    outside = {lane for lane, segment in zip(plan.lane_of, segments.of, strict=True) if segment == OUTSIDE}
    return next((k for k in gpu if k not in outside), gpu[0])


def _on_gpu(plan: Plan, device: str) -> bool:
    return plan.platform.device(device).kind == "cuda"


def captured(plan: Plan) -> list[bool]:
    """Whether a CUDA graph holds each action: on a lane of a GPU, and no copy that keeps the thread waiting.

    Waits of the thread are none of these; see `segments_of`.
    """
    gpu = [lane.kind != "host" and _on_gpu(plan, lane.device) for lane in plan.lanes]
    blocking = {i for i, copy in plan.copies.items() if blocks(plan, copy)}
    return [gpu[lane] and i not in blocking for i, lane in enumerate(plan.lane_of)]


def blocks(plan: Plan, copy: Copy) -> bool:
    """Whether `copy` passes by pageable memory of the host."""
    kinds = {plan.platform.device(end).kind for end in (copy.source, copy.target)}
    return kinds != {"cuda"} and copy.memory != "pinned"


@dataclass
class _Cutter:
    """What is known while the thread goes through the plan."""

    plan: Plan
    captured: Sequence[bool]
    of: list[int] = field(default_factory=list)
    before: list[tuple[int, ...]] = field(default_factory=list)
    after: dict[int, int] = field(default_factory=dict)
    open: bool = False
    joined: int = OUTSIDE  # the last segment in which lanes wait for the thread's sake
    over: int = OUTSIDE  # the last segment that the thread has waited for
    tails: dict[int, int] = field(default_factory=dict)  # lane -> its last action so far
    known: dict[int, int] = field(default_factory=dict)  # lane -> last action outside that is over for segments to come
    reach: dict[int, int] = field(default_factory=dict)  # action outside -> last segment that is over when it is

    def add(self, i: int) -> None:
        """The next action."""
        self.of.append(OUTSIDE)
        if self.captured[i]:
            self._inside(i)
        elif self.plan.kinds[i] == "wait":
            self._wait(i)
        else:
            self._outside(i)
        if self.plan.kinds[i] != "wait":
            self.tails[self.plan.lane_of[i]] = i

    def _inside(self, i: int) -> None:
        needs = tuple(j for j in self._needs(i) if self.of[j] == OUTSIDE and not self._is_known(j))
        if needs or not self.open:
            self.before.append(needs)
            self.open = True
            self._learn(needs)
        self.of[i] = len(self.before) - 1

    def _wait(self, i: int) -> None:
        waits, current = self.plan.waits[i], len(self.before) - 1
        if all(self.open and self.of[j] == current for j in waits):
            self.of[i] = current if self.open else OUTSIDE
            self.joined = current if waits else self.joined
            return
        self.over = self._after(i, max(self.of[j] for j in waits), waits)
        self.open = False
        self._learn([j for j in waits if self.of[j] == OUTSIDE])

    def _outside(self, i: int) -> None:
        needs = self._needs(i)
        segment = max([self.joined, *(self.of[j] for j in needs)])
        self.reach[i] = self._after(i, segment, needs)
        if segment == len(self.before) - 1:
            self.open = False

    def _after(self, i: int, segment: int, needs: Sequence[int]) -> int:
        """Let action `i` wait for `segment`, if what else it needs does not imply that; what is over then."""
        implied = max([self.over, *(self.reach.get(j, OUTSIDE) for j in needs)])
        if segment > implied:
            self.after[i] = segment
        return max(segment, implied)

    def _needs(self, i: int) -> list[int]:
        """What action `i` waits for, the one before it on its lane included."""
        tail = self.tails.get(self.plan.lane_of[i])
        return sorted({*self.plan.waits[i], *(() if tail is None else (tail,))})

    def _is_known(self, j: int) -> bool:
        return self.known.get(self.plan.lane_of[j], OUTSIDE) >= j

    def _learn(self, actions: Sequence[int]) -> None:
        for j in actions:
            lane = self.plan.lane_of[j]
            self.known[lane] = max(self.known.get(lane, OUTSIDE), j)
