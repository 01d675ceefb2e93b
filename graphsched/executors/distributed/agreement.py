"""Whether all ranks are about to run the same: versions, workload, tensors, platform and plan."""

from __future__ import annotations

import hashlib
import json
import platform as python_platform
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphsched.errors import RankError
from graphsched.plan import Plan
from graphsched.workload import Workload, element_bytes

if TYPE_CHECKING:
    from graphsched.executors.distributed.world import World

Facts = Mapping[str, str]


def facts_of_software() -> dict[str, str]:
    """Versions that must be the same on all ranks, by what they are called in an error."""
    import torch

    import graphsched

    return {
        "graphsched": graphsched.__version__,
        "torch": torch.__version__,
        "Python": python_platform.python_version(),
    }


def facts_of(plan: Plan) -> dict[str, str]:
    """What must be the same on all ranks for them to run `plan`."""
    return {
        "workload": plan.work.digest(),
        "tensors given": _digest_of_tensors({name: plan.work.numbers(name) for name in plan.work.tensors}),
        "platform": plan.platform.digest(),
        "plan": hashlib.sha256(plan.text.encode()).hexdigest()[:16],
    }


def facts_without_plan(work: Workload, error: BaseException) -> dict[str, str]:
    """What a rank says that cannot make the plan of its workload, because of `error`."""
    return {"workload": work.digest(), "plan": f"none ({error})"}


def parts_of(work: Workload) -> dict[str, dict[str, int]]:
    """A checksum of each field of each input, state and task, by name: to find where two workloads differ."""
    told = work.to_dict()
    return {
        entry["name"]: {field: zlib.crc32(json.dumps(value, sort_keys=True).encode()) for field, value in entry.items()}
        for entry in (*told["given"], *told["tasks"])
    }


def first_difference(parts: Sequence[Mapping[str, Mapping[str, int]]]) -> str:
    """The first name, in the order of rank 0, under which the ranks have other things, given by rank.

    Example:
        >>> first_difference([{"x": {"nbytes": 4}}, {"x": {"nbytes": 8}}])
        "the first that differs is 'x', in its nbytes"
        >>> first_difference([{"x": {}}, {"x": {}, "y": {}}])
        "the first that differs is 'y', which rank 0 does not have"
    """
    for name in dict.fromkeys(name for mine in parts for name in mine):
        without = [str(rank) for rank, mine in enumerate(parts) if name not in mine]
        if without:
            return f"the first that differs is {name!r}, which rank {', '.join(without)} does not have"
        fields = dict.fromkeys(field for mine in parts for field in mine[name])
        other = [field for field in fields if len({mine[name].get(field) for mine in parts}) > 1]
        if other:
            return f"the first that differs is {name!r}, in its {', '.join(other)}{_advice(other)}"
    return "all inputs, states and tasks are alike: names, order or what is kept differ"


def _advice(fields: Sequence[str]) -> str:
    if "signature" not in fields:
        return ""
    return " (what its code reads besides its arguments counts, as a global variable that holds the rank)"


def _digest_of_tensors(tensors: Mapping[str, Any]) -> str:
    """A checksum of what inputs and states hold: those on the host must be the same on every rank."""
    total = 0
    for name in sorted(tensors):
        if tensors[name] is not None:
            total = zlib.crc32(element_bytes(tensors[name]), total)
        total = zlib.crc32(name.encode(), total)
    return f"{total:08x}"


def check_agreement(facts: Sequence[Facts]) -> None:
    """Make sure that all ranks have the same `facts`, given by rank.

    Raises:
        RankError: They do not: names each thing that differs, and who has what.

    Example:
        >>> check_agreement([{"torch": "2.6"}, {"torch": "2.7"}, {"torch": "2.6"}])
        Traceback (most recent call last):
        graphsched.errors.RankError: the ranks disagree: torch is 2.6 on rank 0, 2; 2.7 on rank 1: ...
    """
    told = []
    for name in dict.fromkeys(name for mine in facts for name in mine):
        ranks: dict[str, list[int]] = {}
        for rank, mine in enumerate(facts):
            if name in mine:
                ranks.setdefault(mine[name], []).append(rank)
        if len(ranks) > 1:
            parts = [f"{value} on rank {', '.join(map(str, who))}" for value, who in ranks.items()]
            told.append(f"{name} is {'; '.join(parts)}")
    if told:
        raise RankError(
            f"the ranks disagree: {', and '.join(told)}: start all ranks with the same software, and make the workload "
            "and the plan from the same code, seed and platform on each"
        )


def agree(world: World, plan: Plan, timeout_s: float) -> None:
    """Make sure that all ranks are about to run `plan`; one that is not ends them all.

    Raises:
        RankError: What differs, and the first thing in which workloads do; or as of `World.gather`.
    """
    facts = world.gather(facts_of(plan), timeout_s, "the comparison of plans")
    try:
        check_agreement(facts)
    except RankError as error:
        failure = error
        if len({mine["workload"] for mine in facts}) > 1:
            parts = world.gather(parts_of(plan.work), timeout_s, "the comparison of workloads")
            failure = RankError(f"{error}; {first_difference(parts)}")
        world.failure = failure
        raise failure from None
