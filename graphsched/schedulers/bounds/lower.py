"""Times that no plan can beat."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from graphsched.costs import Costs
from graphsched.plan import Plan
from graphsched.platform import Platform
from graphsched.schedulers.bounds.fastest import Fastest, processors
from graphsched.schedulers.bounds.gpu_share import RESOURCES
from graphsched.schedulers.bounds.interval import longest_with_excess_s
from graphsched.schedulers.bounds.links import link_bound
from graphsched.schedulers.bounds.precedence import always_before
from graphsched.schedulers.placing.candidates import Candidates, Devices, find_candidates
from graphsched.workload import Workload

_NOTHING = np.zeros(RESOURCES)


def bound_of(plan: Plan) -> float:
    """Seconds that any plan of the same workload, platform, costs and mode takes at least.

    The largest of `lower_bound` and, where it has one, of what the plan's scheduler has proven (`Plan.bound_s`).
    """
    found = lower_bound(plan.work, plan.platform, plan.costs, mode=plan.mode)
    return found if plan.bound_s is None else max(found, plan.bound_s)


def lower_bound(work: Workload, platform: Platform, costs: Costs | None = None, *, mode: str = "eager") -> float:
    """Seconds that any plan of `work` on `platform` takes at least in `mode`: the largest of the four bounds.

    Not modelled: dispatch, and transfers that a plan could do without.

    Example:
        >>> import networkx as nx
        >>> from graphsched.platform import Device
        >>> graph = nx.DiGraph([("a", "b"), ("a", "c"), ("a", "d")])
        >>> nx.set_node_attributes(graph, 1.0, "duration_s")
        >>> two = Platform("two", (Device("cuda:0", "cuda"), Device("cuda:1", "cuda")))
        >>> lower_bound(Workload.from_graph(graph), two)
        3.0
    """
    return max(bounds_by_name(work, platform, costs, mode=mode).values())


def bounds_by_name(
    work: Workload, platform: Platform, costs: Costs | None = None, *, mode: str = "eager"
) -> dict[str, float]:
    """The four bounds: what `critical_path_bound`, `work_bound`, `interval_bound` and `link_bound` say.

    What a task takes is looked up once for all of them.

    Example:
        >>> import networkx as nx
        >>> from graphsched.platform import Device
        >>> graph = nx.DiGraph([("a", "b"), ("a", "c"), ("a", "d")])
        >>> nx.set_node_attributes(graph, 1.0, "duration_s")
        >>> two = Platform("two", (Device("cuda:0", "cuda"), Device("cuda:1", "cuda")))
        >>> bounds_by_name(Workload.from_graph(graph), two)
        {'critical path': 2.0, 'work': 2.0, 'intervals': 3.0, 'links': 0.0}
    """
    candidates, fastest = find_candidates(work, platform), Fastest(work, platform, costs, mode)
    return {
        "critical path": _longest_s(work, candidates, fastest),
        "work": _work_s(work, platform, candidates, fastest),
        "intervals": longest_with_excess_s(work, platform, candidates, fastest),
        "links": link_bound(work, platform),
    }


def critical_path_bound(
    work: Workload, platform: Platform, costs: Costs | None = None, *, mode: str = "eager"
) -> float:
    """Seconds of the longest path, each task on the device where it is fastest, with no communication.

    Copies that the workload asks for count as nothing. In `mode` ``graph`` tasks take what they take inside a CUDA
    graph, where that is known.
    """
    return _longest_s(work, find_candidates(work, platform), Fastest(work, platform, costs, mode))


def _longest_s(work: Workload, candidates: Candidates, fastest: Fastest) -> float:
    end_s: dict[str, float] = {}
    before = always_before(work, candidates)
    for task in work.tasks:
        ready = max((end_s[name] for name in before[task.name]), default=0.0)
        devices = candidates.devices.get(task.name)
        end_s[task.name] = ready + (fastest.alone_s(task, devices) if devices else 0.0)
    return max(end_s.values(), default=0.0)


def work_bound(work: Workload, platform: Platform, costs: Costs | None = None, *, mode: str = "eager") -> float:
    """Seconds that the devices need for all tasks if each is always busy and no task waits.

    A task takes up a share of its device (`gpu_share`): of a GPU without measured curves, pairs and kernels all of it.
    CPU and worker lanes are processors of their own. Tasks that only some devices may run are also bounded by those.
    Times are those of `mode`, as in `critical_path_bound`.

    Not modelled: cores that CPU and worker lanes share.
    """
    return _work_s(work, platform, find_candidates(work, platform), Fastest(work, platform, costs, mode))


def _work_s(work: Workload, platform: Platform, candidates: Candidates, fastest: Fastest) -> float:
    shares: dict[Devices, NDArray[np.float64]] = {}
    for task in work.tasks:
        if task.kind == "run":
            devices = candidates.devices[task.name]
            shares[devices] = shares.get(devices, _NOTHING) + fastest.shares_s(task, devices)
    sets = dict.fromkeys([*shares, candidates.used()])
    return max((_bound(within, shares, platform) for within in sets if within), default=0.0)


def _bound(within: Devices, shares: Mapping[Devices, NDArray[np.float64]], platform: Platform) -> float:
    """Work of the tasks that run on devices of `within` only, over the processors there, of the busiest resource."""
    inside = set(within)
    total = sum((seconds for devices, seconds in shares.items() if inside.issuperset(devices)), _NOTHING)
    return float(total.max()) / sum(processors(platform, name) for name in within)
