"""Proof that lists of ranks cannot get stuck and keep every wait of their plan; it knows nothing of how they were made.

`check_ranks` lets every rank do its parts strictly one after another, each message only when both of its ranks have
come to it and a collective only when all of its ranks have: the least that any way to run them allows. Ranks that do
more at once (lanes of their own, sends that end before the receive begins) have all these ways open and more, so that
what ends here ends there. `check_waits` then follows what must come before what on lanes that do run at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphsched.errors import DeadlockError, PlanError
from graphsched.plan.ranks.lists import Part, RankLists

HALVES = {"send": "receive", "receive": "send", "collective": "collective"}


def check_ranks(lists: RankLists) -> list[list[Part]]:
    """Make sure that `lists` end, and that the receiver of each message is the one that it is sent to.

    Returns:
        The parts in the order in which they went; halves of a message, and parts of a collective, together.

    Raises:
        PlanError: A part waits for one that its rank has not dispatched before, or is in the wrong list.
        DeadlockError: The ranks wait for each other; names what each one is at.
    """
    _check_entries(lists)
    at = [0] * len(lists)
    went: list[list[Part]] = []
    moved = True
    while moved:
        before = len(went)
        for rank in range(len(lists)):
            while (together := _together(lists, at, rank)) is not None:
                went.append(together)
                for part in together:
                    at[part.rank] += 1
        moved = len(went) > before
    stuck = [lists[rank][k] for rank, k in enumerate(at) if k < len(lists[rank])]
    if stuck:
        told = "; ".join(f"rank {part.rank} at {part.kind} {part.name!r} on {part.lane}" for part in stuck)
        raise DeadlockError(f"the ranks wait for each other: {told}")
    return went


def _check_entries(lists: RankLists) -> None:
    for rank, parts in enumerate(lists.parts):
        seen: set[int] = set()
        for part in parts:
            if part.rank != rank:
                raise PlanError(f"{part.kind} {part.name!r} of rank {part.rank} is in the list of rank {rank}")
            if not seen.issuperset(part.waits):
                raise PlanError(
                    f"{part.kind} {part.name!r} of rank {rank} waits for a part that the rank has not dispatched before"
                )
            seen.add(part.number)


def _together(lists: RankLists, at: Sequence[int], rank: int) -> list[Part] | None:
    """The next part of `rank`, and those of other ranks that go with it; None: it must wait for one of them."""
    part = _next(lists, at, rank)
    if part is None:
        return None
    if part.kind in ("run", "copy"):
        return [part]
    members = lists.places.members.get(part.action, range(len(lists)))
    others = [part.peer] if part.kind in ("send", "receive") else [k for k in members if k != rank]
    nexts = [other for other in (_next(lists, at, k) for k in others) if other is not None and _meets(part, other)]
    return [part, *nexts] if len(nexts) == len(others) else None


def _next(lists: RankLists, at: Sequence[int], rank: int) -> Part | None:
    return lists[rank][at[rank]] if 0 <= rank < len(lists) and at[rank] < len(lists[rank]) else None


def _meets(part: Part, other: Part) -> bool:
    """Whether two parts of different ranks are halves of one message, or parts of one collective."""
    if (part.name, part.action, other.kind) != (other.name, other.action, HALVES[part.kind]):
        return False
    return part.kind == "collective" or (part.lane == other.lane and other.peer == part.rank)


def check_waits(lists: RankLists) -> None:
    """Make sure that whatever the plan puts before an action is over when the lists let it begin.

    That is its waits, the action before it on its lane, and the dispatching thread's last wait; a copy between ranks
    begins when both halves may, and is over when it has been received. Takes room that grows with the square of the
    number of parts.

    Raises:
        PlanError: Something may begin too early, or is missing; names it.
        DeadlockError: As `check_ranks`.
    """
    begins, ends = _known(lists)
    plan, mine = lists.plan, _parts_by_action(lists)
    last: dict[int, int] = {}
    thread: list[int] = []
    for i in range(len(plan)):
        lanes = plan.lanes_of(i)
        if not mine[i]:
            raise PlanError(f"{plan.names[i]!r} is in no rank's list")
        known = 0
        for part in mine[i]:
            known |= ends[part.number] if plan.kinds[i] == "wait" else begins[part.number]
        for j in (*plan.waits[i], *(last[lane] for lane in lanes if lane in last), *thread):
            over = mine[j] if plan.kinds[j] in ("wait", "collective") else mine[j][-1:]
            if not any(known >> part.number & 1 for part in over):
                raise PlanError(f"{plan.names[i]!r} may begin before {plan.names[j]!r} is over, which it waits for")
        last.update(dict.fromkeys(lanes, i))
        thread = [i] if plan.kinds[i] == "wait" else thread


def _parts_by_action(lists: RankLists) -> list[list[Part]]:
    """The parts of each action but signals; of a copy between ranks the receive comes last."""
    found: list[list[Part]] = [[] for _ in range(len(lists.plan))]
    for parts in lists.parts:
        for part in parts:
            if not part.signal:
                found[part.action].append(part)
    for of_action in found:
        of_action.sort(key=lambda part: part.kind == "receive")
    return found


def _known(lists: RankLists) -> tuple[dict[int, int], dict[int, int]]:
    """By part, which parts are over for sure when it begins and when it ends, as bits."""
    begins: dict[int, int] = {}
    ends: dict[int, int] = {}
    lanes: dict[tuple[int, str], int] = {}
    threads = [0] * len(lists)
    for together in check_ranks(lists):
        shared = 0
        for part in together:
            known = threads[part.rank] | lanes.get((part.rank, part.lane), 0)
            for wait in part.waits:
                known |= ends[wait]
            begins[part.number] = known
            shared |= known
        for part in together:
            sends = part.kind == "send"  # it may end before the other half begins
            ends[part.number] = (begins[part.number] if sends else shared) | 1 << part.number
            lanes[part.rank, part.lane] = ends[part.number]
            if lists.plan.kinds[part.action] == "wait":
                threads[part.rank] = ends[part.number]
    return begins, ends
