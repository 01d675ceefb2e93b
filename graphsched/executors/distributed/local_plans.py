"""The list of one rank as a plan of its own, which the eager compiler turns into calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from graphsched.executors.lanes import is_cuda
from graphsched.plan import HOST_LANE, Copy, Lane, Plan
from graphsched.plan.model import ActionKind
from graphsched.plan.ranks import Part, RankLists

ROW_KINDS: Mapping[str, ActionKind] = {
    "run": "run",
    "copy": "copy",
    "send": "collective",
    "receive": "collective",
    "collective": "collective",
}
"""What a part is among the actions of a plan; but a barrier, which occupies the thread, is a wait."""


@dataclass(frozen=True, eq=False)
class LocalPlan:
    """What one rank does.

    Attributes:
        plan: Its parts as actions ("rows"), in order; its GPU is called as this process sees it.
        parts: By row.
        moves: What messages carry, by row; signals carry nothing.
    """

    plan: Plan
    parts: Sequence[Part]
    moves: Mapping[int, Copy]


def local_plan(lists: RankLists, rank: int, local_rank: int) -> LocalPlan:
    """The plan of `rank`, whose GPU, if it has one, is number `local_rank` in this process."""
    return _Localiser(lists, rank, local_rank).made()


class _Localiser:
    def __init__(self, lists: RankLists, rank: int, local_rank: int) -> None:
        self._plan, self._places, self._rank, self._parts = lists.plan, lists.places, rank, lists[rank]
        self._names = self._device_names(local_rank)
        self._lanes: dict[str, Lane] = {HOST_LANE: Lane.named(HOST_LANE)}

    def made(self) -> LocalPlan:
        rows = {part.number: row for row, part in enumerate(self._parts)}
        for part in self._parts:
            self._put_lane(part)
        numbers = {name: number for number, name in enumerate(self._lanes)}
        copies = {row: self._copy(part) for row, part in enumerate(self._parts) if self._moves(part)}
        messages = [row for row, part in enumerate(self._parts) if part.kind in ("send", "receive")]
        plan = replace(
            self._plan,
            mode="distributed",
            lanes=tuple(self._lanes.values()),
            kinds=["wait" if part.lane == HOST_LANE else ROW_KINDS[part.kind] for part in self._parts],
            names=[self._name(part) for part in self._parts],
            lane_of=[numbers[part.lane] for part in self._parts],
            waits=[tuple(rows[wait] for wait in part.waits) for part in self._parts],
            copies={row: copy for row, copy in copies.items() if row not in messages},
            frees={row: freed for row, part in enumerate(self._parts) if (freed := self._frees(part))},
            homes={value: self._names.get(home, home) for value, home in self._plan.homes.items()},
            more_lanes={},
        )
        return LocalPlan(plan, self._parts, {row: copies[row] for row in messages if row in copies})

    def _device_names(self, local_rank: int) -> dict[str, str]:
        """The rank's GPU by the name that it has here; another one that bears that name takes its name in turn."""
        mine = [name for name, rank in self._places.rank_of.items() if rank == self._rank and is_cuda(name)]
        here = f"cuda:{local_rank}"
        return {mine[0]: here, here: mine[0]} if mine and mine[0] != here else {}

    def _moves(self, part: Part) -> bool:
        return part.action in self._plan.copies and not part.signal

    def _copy(self, part: Part) -> Copy:
        copy = self._plan.copies[part.action]
        source, target = (self._names.get(end, end) for end in (copy.source, copy.target))
        return replace(copy, source=source, target=target)

    def _name(self, part: Part) -> str:
        if not self._moves(part) or self._plan.copies[part.action].task:
            return part.name
        return f"{self._plan.copies[part.action].read}>{self._copy(part).target}"

    def _put_lane(self, part: Part) -> None:
        """Put its lane on the device of this rank that it uses: a lane that uses the host too is one of the GPU."""
        if part.lane == HOST_LANE:
            return
        device = self._device(part)
        if part.lane not in self._lanes or (is_cuda(device) and not is_cuda(self._lanes[part.lane].device)):
            self._lanes[part.lane] = replace(Lane.named(part.lane), device=device)

    def _device(self, part: Part) -> str:
        if part.signal:
            return next(device.name for device in self._plan.platform.devices if not device.is_accelerator)
        if part.kind in ("send", "receive"):
            copy = self._copy(part)
            return copy.source if part.kind == "send" else copy.target
        lane = self._plan.lanes[self._plan.lane_of[part.action]] if part.kind != "collective" else Lane.named(part.lane)
        return self._names.get(lane.device, lane.device)

    def _frees(self, part: Part) -> tuple[str, ...]:
        """The buffers of this rank among those that the plan frees with the action."""
        freed = () if part.signal else self._plan.frees.get(part.action, ())
        return tuple(self._local_name(name) for name in freed if self._holder(name) == self._rank)

    def _holder(self, buffer: str) -> int:
        holder = self._places.holder.get(buffer)
        return self._places.ends[self._plan.index_of[buffer]][1] if holder is None else holder

    def _local_name(self, buffer: str) -> str:
        copy = self._plan.copies.get(self._plan.index_of.get(buffer, -1))
        if copy is None or copy.task:
            return buffer
        return f"{copy.read}>{self._names.get(copy.target, copy.target)}"
