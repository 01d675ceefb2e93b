"""The list of a rank as text: one line a part, in the order of dispatch."""

from __future__ import annotations

from graphsched.plan.ranks.lists import Part, RankLists


def rank_text(lists: RankLists, rank: int) -> str:
    """What `rank` does, for people.

    Raises:
        IndexError: There is no such rank.
    """
    devices = [device for device, owner in lists.places.rank_of.items() if owner == rank]
    names = {part.number: part.name for part in lists[rank]}
    head = f"rank {rank} of {len(lists)}: {', '.join(devices) or 'no device'}"
    return "\n".join([head, *("  " + _line(part, names, lists) for part in lists[rank])]) + "\n"


def _line(part: Part, names: dict[int, str], lists: RankLists) -> str:
    words = [part.kind, part.name]
    if part.kind == "send":
        words += ["to", f"rank {part.peer}"]
    if part.kind == "receive":
        words += ["from", f"rank {part.peer}"]
    members = lists.places.members.get(part.action, ()) if part.kind == "collective" else ()
    if members:
        words += ["with", f"rank {','.join(str(rank) for rank in members if rank != part.rank)}"]
    words += ["on", part.lane]
    if part.waits:
        words += ["after", ",".join(names[wait] for wait in part.waits)]
    return " ".join(words)
