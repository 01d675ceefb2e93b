"""Networks with branches at batch 1: what does it bring to run the branches side by side?"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import graphsched as gs
from experiments._cells import NETWORKS, Network, as_workload
from experiments._shared import check_known, check_sizes, counted
from experiments._side_by_side import ROUNDS, Entry, Figures, Way, difference, say, side_by_side
from experiments._ways import COMPILED, on_cpu, plain_results, plain_ways, plan_way, schedulers_there
from graphsched.errors import GraphschedError
from graphsched.schedulers import critical_path_bound

GOAL = 1.5  # times as fast as a CUDA graph on one stream
QUICK_ROUNDS = 7
OURS = "graphsched, "


@gs.experiment(source="GoogLeNet (CVPR 2015), Transformer (NeurIPS 2017), NASNet (CVPR 2018)")
def branches(
    platform: gs.Platform,
    networks: tuple[str, ...] = tuple(NETWORKS),
    depth: int = 1,
    shrink: int = 1,
    lanes: int = 8,
) -> Iterator[gs.Case]:
    """Run networks with branches on one device, in one lane and side by side.

    `depth` inception cells, blocks of a transformer whose 16 heads are computed apart, and NASNet cells, at
    batch 1; `shrink` divides channels, features and pixels. Launches take longer than most of their operations,
    so graph mode is what they are for. The figure ``difference`` is the largest from plain PyTorch, as a share of
    the largest magnitude. ``graphsched bench --only branches`` times the same side by side with torch.compile.
    """
    check_known("network", networks, NETWORKS)
    check_sizes(depth=depth, shrink=shrink, lanes=lanes)
    device = platform.accelerators(1)[0]
    for name in networks:
        net = NETWORKS[name](depth, shrink)
        work = as_workload(net, device)
        where = f"{name}, {counted([device])}"
        for way in plain_ways(net, platform, device, modes=()):
            yield gs.Case(f"{way.name}, {where}", baseline=_baseline(way))
        for scheduler, options in schedulers_there(platform, device, lanes).items():
            check = functools.partial(_difference, net, work, platform, scheduler, options)
            label = f"{scheduler}{_lanes(options)}, {where}"
            yield gs.Case(label, work, scheduler=scheduler, options=options, metrics=check)


def _baseline(way: Way) -> Callable[[], Any]:
    """`way` as a function of no arguments, made ready by its first call and kept for further ones."""
    kept = ExitStack()
    started: list[Callable[[], Any]] = []

    def once() -> Any:
        if not started:
            running = kept.enter_context(way.start())
            assert running.call is not None
            started.append(running.call)
        return started[0]()

    return once


def _lanes(options: Mapping[str, Any]) -> str:
    return f" {options['lanes']} lanes" if "lanes" in options else ""


def _difference(
    net: Network, work: gs.Workload, platform: gs.Platform, scheduler: str, options: Mapping[str, Any]
) -> dict[str, float]:
    with gs.Program(gs.schedule(work, platform, scheduler=scheduler, **options)) as program:
        found = on_cpu(list(program.run().values()))
    return {"difference": difference(found, plain_results(net, platform, platform.accelerators(1)[0]))}


# -- side by side --------------------------------------------------------------------------------------


def bench(
    platform: gs.Platform,
    networks: tuple[str, ...] = tuple(NETWORKS),
    depth: int = 1,
    shrink: int = 1,
    lanes: tuple[int, ...] = (4, 8, 16),
    compiled: bool = True,
    quick: bool = False,
) -> Iterator[Figures]:
    """Time every way to run each network, in turn; see `graphsched bench --only branches`.

    Args:
        compiled: Also torch.compile, which takes a while to compile.
        quick: Fewer rounds, and pairs of operations are not measured side by side before.

    Returns:
        After each network, the rows of all so far. ``branches``: a row a network: the fastest plan, what others take
        over what it takes, and the limit, the critical path of task times measured alone. ``branches_ways``: a row a
        way, with quartiles and, for plans, the prediction.

    Raises:
        ExperimentError: There is no such network, or a size is not above 0; before anything is measured.
    """
    check_known("network", networks, NETWORKS)
    check_sizes(depth=depth, shrink=shrink, lanes=lanes)
    made = ((name, NETWORKS[name](depth, shrink)) for name in networks)
    return _finished(made, platform, lanes, COMPILED if compiled else (), quick=quick)


def _finished(
    networks: Iterable[tuple[str, Network]],
    platform: gs.Platform,
    lanes: Sequence[int],
    modes: Sequence[str],
    *,
    quick: bool,
) -> Iterator[Figures]:
    rows: list[dict[str, Any]] = []
    ways: list[dict[str, Any]] = []
    for name, net in networks:
        say(f"branches: {name} …")
        row, entries = _network(name, net, platform, lanes, modes, quick=quick)
        rows.append(row)
        ways += entries
        yield {"branches": [*rows], "branches_ways": [*ways]}


def _network(
    name: str, net: Network, platform: gs.Platform, lanes: Sequence[int], modes: Sequence[str], *, quick: bool
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    device = platform.accelerators(1)[0]
    work = as_workload(net, device)
    costs = gs.profile(work, platform) if quick else _with_pairs(work, platform)
    plans, refused = _plans(work, platform, device, costs, lanes)
    ways = plain_ways(net, platform, device, modes) + [plan_way(plan, label) for label, plan in plans.items()]
    expected = plain_results(net, platform, device)
    entries = side_by_side(ways, expected, rounds=QUICK_ROUNDS if quick else ROUNDS) + refused
    predicted = {label: gs.predict(plan, mode=plan.mode).makespan_s for label, plan in plans.items()}
    figures = [{"network": name} | e.figures() | {"predicted_s": predicted.get(e.name)} for e in entries]
    mode = "graph" if device.startswith("cuda") else "eager"
    return _summary(name, entries, critical_path_bound(work, platform, costs, mode=mode), len(work)), figures


def _with_pairs(work: gs.Workload, platform: gs.Platform) -> gs.Costs:
    """Costs of operations alone, and of those that a wavefront lets meet."""
    costs = gs.profile(work, platform)
    return costs.merged(gs.profile(gs.schedule(work, platform, costs, scheduler="wavefront"), platform))


def _plans(
    work: gs.Workload, platform: gs.Platform, device: str, costs: gs.Costs, lanes: Sequence[int]
) -> tuple[dict[str, gs.Plan], list[Entry]]:
    """Plans by name; graph mode on a GPU. Those that cannot be made say why."""
    mode = "graph" if device.startswith("cuda") else "eager"
    plans: dict[str, gs.Plan] = {}
    refused: list[Entry] = []
    for count in lanes:
        for scheduler, options in schedulers_there(platform, device, count).items():
            label = f"{OURS}{mode}, {scheduler}{_lanes(options)}"
            if label in plans:
                continue
            try:
                plans[label] = gs.schedule(work, platform, costs, scheduler=scheduler, mode=mode, **options)
            except GraphschedError as error:
                refused.append(Entry(label, failure=f"{type(error).__name__}: {error}"))
    return plans, list({entry.name: entry for entry in refused}.values())


def _summary(name: str, entries: Sequence[Entry], limit_s: float, tasks: int) -> dict[str, Any]:
    """The fastest plan beside the fastest of the others, a CUDA graph on one stream, and the limit."""
    ours = _fastest(entry for entry in entries if entry.name.startswith(OURS))
    theirs = _fastest(entry for entry in entries if not entry.name.startswith(OURS))
    one_graph_s = next((e.median_s for e in entries if e.name == "one-stream CUDA graph"), None)
    best_s = ours.median_s if ours else None
    return {
        "network": name,
        "tasks": tasks,
        "fastest_plan": ours.name.removeprefix(OURS) if ours else None,
        "plan_s": best_s,
        "fastest_other": theirs.name if theirs else None,
        "other_s": theirs.median_s if theirs else None,
        "other_over_plan": _ratio(theirs.median_s if theirs else None, best_s),
        "one_stream_graph_over_plan": _ratio(one_graph_s, best_s),
        "limit_s": limit_s,
        "one_stream_graph_over_limit": _ratio(one_graph_s, limit_s),
        "goal": GOAL,
    }


def _fastest(entries: Iterator[Entry]) -> Entry | None:
    timed = [(entry.median_s, i, entry) for i, entry in enumerate(entries) if entry.median_s is not None]
    return min(timed)[2] if timed else None


def _ratio(above: float | None, below: float | None) -> float | None:
    """How many times as long; None where one of them is not known.

    Example:
        >>> _ratio(3.0, 2.0), _ratio(None, 2.0)
        (1.5, None)
    """
    return None if above is None or not below else above / below
