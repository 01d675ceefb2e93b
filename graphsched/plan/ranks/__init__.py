"""A plan as one list of parts a rank: what each process of a distributed run does, in one global order."""

from graphsched.plan.ranks.check import check_ranks, check_waits
from graphsched.plan.ranks.compiling import compile_ranks
from graphsched.plan.ranks.lists import Part, PartKind, RankLists
from graphsched.plan.ranks.places import Places, find_places, rank_of_devices
from graphsched.plan.ranks.text import rank_text

__all__ = [
    "Part",
    "PartKind",
    "Places",
    "RankLists",
    "check_ranks",
    "check_waits",
    "compile_ranks",
    "find_places",
    "rank_of_devices",
    "rank_text",
]
