"""From a plan to the lists of its ranks."""

from __future__ import annotations

from collections.abc import Sequence

from graphsched.errors import PlanError, ScheduleError
from graphsched.plan.model import Plan, line_of
from graphsched.plan.ranks.lists import NOBODY, Part, PartKind, RankLists
from graphsched.plan.ranks.places import EVERYWHERE, Places, find_places


def compile_ranks(plan: Plan, ranks: int | None = None) -> RankLists:
    """The list of each of `ranks` ranks (default: as many as the plan needs).

    Parts stand in plan order, a signal right before the action that needs it. That one order is kept by every rank:
    the unfinished part that stands first never waits for anything, so no plan can get stuck.

    Raises:
        ScheduleError: The plan needs more ranks.
        PlanError: The plan has an action that no rank can carry out.

    Example:
        >>> from graphsched.plan import Placement, build_plan
        >>> from graphsched.platform import Platform
        >>> from graphsched.workload import TensorSpec, Workload
        >>> work = Workload()
        >>> x = work.input("x", TensorSpec((2,)), device="cuda:0")
        >>> y = work.task(abs, x, name="y", outputs=[TensorSpec((2,))])
        >>> placement = Placement(["y"], {"y": "cuda:1/s0"})
        >>> plan = build_plan(work, Platform.load("h200-x2"), None, placement, scheduler="by hand")
        >>> [[part.kind for part in parts] for parts in compile_ranks(plan).parts]
        [['send'], ['receive', 'run']]
    """
    places = find_places(plan)
    count = places.needed if ranks is None else ranks
    if count < places.needed:
        devices = [device for device, rank in places.rank_of.items() if rank < places.needed]
        raise ScheduleError(
            f"the plan needs {places.needed} ranks, one for each of {', '.join(devices)}, there "
            f"{'is' if count == 1 else 'are'} {count}: torchrun --nproc-per-node {places.needed} -m graphsched run ..."
        )
    return _Compiler(plan, places, count).compile()


class _Compiler:
    def __init__(self, plan: Plan, places: Places, ranks: int) -> None:
        self._plan, self._places = plan, places
        self._lists: list[list[Part]] = [[] for _ in range(ranks)]
        self._over: dict[int, dict[int, Part]] = {}  # by action and rank: the parts that are over when the action is
        self._told: dict[tuple[int, int], Part] = {}  # by action and rank: the part there that learns of its end
        self._count = 0

    def compile(self) -> RankLists:
        last: dict[int, int] = {}
        for i in range(len(self._plan)):
            lanes = self._plan.lanes_of(i)
            before = dict.fromkeys([*self._plan.waits[i], *(last[lane] for lane in lanes if lane in last)])
            self._action(i, [j for j in before if self._plan.kinds[j] != "wait"])
            last.update(dict.fromkeys(lanes, i))
        return RankLists(self._plan, self._places, self._lists)

    def _action(self, i: int, before: list[int]) -> None:
        plan, (source, target) = self._plan, self._places.ends[i]
        lane = plan.lanes[plan.lane_of[i]].name
        if plan.kinds[i] == "collective":
            self._collective(i, before)
            return
        if source == EVERYWHERE:
            self._barrier(i, before, lane)
            return
        waits = self._waits(before, (source, target))
        if source == target:
            kind: PartKind = "copy" if i in plan.copies else "run"
            self._over[i] = {source: self._add(kind, plan.names[i], i, source, NOBODY, lane, waits.get(source, []))}
            return
        self._add("send", plan.names[i], i, source, target, lane, waits.get(source, []))
        self._over[i] = {target: self._add("receive", plan.names[i], i, target, source, lane, waits.get(target, []))}

    def _collective(self, i: int, before: list[int]) -> None:
        """A part on the rank of each lane; it begins when all have come, so what one of them knows, all do then."""
        plan, ranks = self._plan, self._places.members[i]
        if len(set(ranks)) < len(ranks):
            raise PlanError(f"collective {plan.names[i]!r} has two devices on one rank: {ranks}", line_of(plan, i))
        waits = self._waits(before, ranks)
        self._over[i] = {
            rank: self._add("collective", plan.names[i], i, rank, NOBODY, plan.lanes[k].name, waits.get(rank, []))
            for rank, k in zip(ranks, plan.lanes_of(i), strict=True)
        }

    def _barrier(self, i: int, before: list[int], lane: str) -> None:
        waits: dict[int, list[Part]] = {}
        for j in before:
            for rank, over in self._over[j].items():
                waits.setdefault(rank, []).append(over)
        for rank in range(len(self._lists)):
            self._add("collective", self._plan.names[i], i, rank, NOBODY, lane, waits.get(rank, []))

    def _waits(self, before: list[int], ranks: Sequence[int]) -> dict[int, list[Part]]:
        """By rank of `ranks`, parts there whose end means that of all actions `before`; a signal where none is."""
        found: dict[int, list[Part]] = {}
        for j in before:
            over = self._over[j]
            parts = [over[rank] for rank in dict.fromkeys(ranks) if rank in over]
            for here in parts or [self._signal(j, next(iter(over.values())), ranks[0])]:
                found.setdefault(here.rank, []).append(here)
        return found

    def _signal(self, j: int, over: Part, rank: int) -> Part:
        """The part of `rank` by which it learns that action `j` is over."""
        if (j, rank) not in self._told:
            name, lane = f"{self._plan.names[j]}#{rank}", f"rank{over.rank}>rank{rank}"
            self._add("send", name, j, over.rank, rank, lane, [over], signal=True)
            self._told[j, rank] = self._add("receive", name, j, rank, over.rank, lane, [], signal=True)
        return self._told[j, rank]

    def _add(
        self,
        kind: PartKind,
        name: str,
        action: int,
        rank: int,
        peer: int,
        lane: str,
        before: list[Part],
        *,
        signal: bool = False,
    ) -> Part:
        waits = tuple(sorted({part.number for part in before if part.lane != lane}))
        part = Part(self._count, kind, name, action, rank, peer, lane, waits, signal)
        self._lists[rank].append(part)
        self._count += 1
        return part
