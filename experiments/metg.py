"""Task Bench's question: how small may an operation be before the system takes as long as the operation?"""

from __future__ import annotations

import functools
import itertools
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import torch

import graphsched as gs
from experiments._cells import Maker, Network, as_workload
from experiments._efficiency import is_operation, limits, share, smallest, unfinished
from experiments._patterns import PATTERNS
from experiments._shared import check_known, check_sizes, counted, lanes_that_fit
from experiments._side_by_side import Entry, Figures, say, side_by_side
from experiments._ways import plain_results, plain_ways, plan_way, schedulers_there
from graphsched.errors import GraphschedError
from graphsched.estimates import task_cost

ROUNDS, QUICK_ROUNDS = 11, 5
IN_A_ROW = 12
WINDOWS = (7, 13, 25, 49, 89, 127)
GRAPH_SCHEDULERS, EAGER_SCHEDULERS = ("wavefront", "heft", "streams"), ("wavefront",)


@gs.experiment(source="Task Bench (Slaughter et al., SC 2020)")
def metg(
    platform: gs.Platform,
    patterns: tuple[str, ...] = tuple(PATTERNS),
    width: int = 8,
    steps: int = 8,
    size: int = 128,
    windows: tuple[int, ...] = (7, 25),
    lanes: int = 8,
) -> Iterator[gs.Case]:
    """Run the patterns of Task Bench with small operations that take up a part of a GPU, however long they last.

    Every point averages windows of a picture of `size`² numbers: `windows` set how long that takes, `size` how
    much of the GPU it takes up. A point that reads two or three others joins them first. ``graphsched bench --only
    metg`` goes through sizes and ways and tells the smallest operation at which half of the time is its own.

    Source: E. Slaughter, W. Wu, Y. Fu, et al.: Task Bench: a parameterized benchmark for evaluating
    parallel runtime performance. SC 2020, section III.
    """
    check_known("pattern", patterns, PATTERNS)
    check_sizes(width=width, steps=steps, size=size, windows=windows, lanes=lanes)
    device = platform.accelerators(1)[0]
    for pattern in patterns:
        for window in windows:
            work = as_workload(small_grid(pattern, width, steps, size, window), device, "metg")
            for scheduler, options in schedulers_there(platform, device, lanes).items():
                words = f"{scheduler} {options['lanes']} lanes" if options else scheduler
                label = f"{pattern} of windows of {window}, {words}, {counted([device])}"
                yield gs.Case(label, work, scheduler=scheduler, options=options)


def small_grid(pattern: str, width: int, steps: int, size: int, window: int) -> Network:
    """A grid of averages over windows of `window`² (an odd number, below twice `size`) of a picture of `size`².

    ``avg_pool2d`` takes ``size² / 1024`` blocks of a GPU however large its window; above 5 × 5 torch.compile calls the
    same kernel. Values stay between 0 and 1 however deep the grid.
    """
    picture = torch.rand(1, 1, size, size, generator=torch.Generator().manual_seed(window))
    return Network(functools.partial(_grid, pattern, width, steps, window), picture)


def _grid(pattern: str, width: int, steps: int, window: int, make: Maker, x: Any) -> Any:
    made = PATTERNS[pattern]
    before: list[Any] = []
    unread: list[Any] = []
    for step in range(steps):
        columns = [made.before(step, i, width) for i in range(made.points(step, width))]
        read = {k for chosen in columns for k in chosen}
        unread += [value for k, value in enumerate(before) if k not in read]
        before = [_point(make, window, [before[k] for k in chosen] or [x]) for chosen in columns]
    return [*unread, *before]


def _point(make: Maker, window: int, reads: Sequence[Any]) -> Any:
    """Joins what it reads, all between 0 and 1, and averages over windows."""
    value = reads[0]
    if len(reads) > 1:
        value = make.op(torch.lerp, *reads, *([] if len(reads) == 3 else [0.5]))
    return make.op(torch.nn.functional.avg_pool2d, value, window, 1, window // 2, False, False)


# -- side by side --------------------------------------------------------------------------------------


def bench(
    platform: gs.Platform,
    patterns: tuple[str, ...] = tuple(PATTERNS),
    widths: tuple[int, ...] = (4, 32),
    steps: int = 8,
    size: int = 128,
    windows: tuple[int, ...] = WINDOWS,
    compiled: tuple[str, ...] = ("stencil",),
    quick: bool = False,
) -> Iterator[Figures]:
    """METG(50 %) of every way to run each pattern; see `graphsched bench --only metg`.

    An operation's size is its time alone, measured. The limit of a grid is the longest path of such times, or the
    sum of all over how many the device can do at once, whichever is more. Efficiency is the limit over what was
    measured; on one stream it cannot be more than the grid's parallelism allows, so ``serial_metg_s`` is
    told too: efficiency there is the sum of all operations, one after the other, over what was measured.

    Args:
        compiled: Patterns for which torch.compile is timed too; it compiles anew for every size.
        quick: Two patterns, every other size, fewer rounds, no torch.compile.

    Returns:
        After each size of each grid, the rows of all so far. ``metg``: a row for each pattern, width and way; its note
        says where sizes are still to come. ``metg_operations``: time alone and share of the device by window.
        ``metg_samples``: a row for each measured median.

    Raises:
        ExperimentError: There is no such pattern, or a size is not above 0; before anything is measured.
    """
    check_known("pattern", (*patterns, *compiled), PATTERNS)
    check_sizes(widths=widths, steps=steps, size=size, windows=windows)
    rounds = QUICK_ROUNDS if quick else ROUNDS
    if quick:
        patterns, windows, compiled = patterns[:2], windows[::2], ()
    return _finished(platform, patterns, widths, steps, size, windows, compiled, rounds)


def _finished(
    platform: gs.Platform,
    patterns: Sequence[str],
    widths: Sequence[int],
    steps: int,
    size: int,
    windows: Sequence[int],
    compiled: Sequence[str],
    rounds: int,
) -> Iterator[Figures]:
    device = platform.accelerators(1)[0]
    part = share_together(platform, device, size, max(windows)) if device.startswith("cuda") else None
    operations: dict[int, dict[str, Any]] = {}
    rows: list[dict[str, Any]] = []
    samples: list[dict[str, Any]] = []
    for pattern, width in itertools.product(patterns, widths):
        say(f"metg: {pattern}, width {width} …")
        found: list[dict[str, Any]] = []
        modes = ("default",) if pattern in compiled else ()
        for done, window in enumerate(windows, 1):
            net = small_grid(pattern, width, steps, size, window)
            operation, ways = _sizes(net, platform, device, width, modes, rounds, part)
            operations[window] = {"window": window} | operation
            found += [{"pattern": pattern, "width": width, "window": window} | row for row in ways]
            yield {
                "metg": rows + unfinished(smallest(found), done, len(windows)),
                "metg_operations": list(operations.values()),
                "metg_samples": samples + found,
            }
        samples += found
        rows += smallest(found)


def _sizes(
    net: Network, platform: gs.Platform, device: str, width: int, modes: Sequence[str], rounds: int, part: float | None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The operation's figures, and a row for each way to run `net`."""
    work = as_workload(net, device, "metg")
    costs = gs.profile(work, platform)
    plans, refused = _plans(work, platform, device, costs, width)
    ways = plain_ways(net, platform, device, modes) + [plan_way(plan, name) for name, plan in plans.items()]
    entries = side_by_side(ways, plain_results(net, platform, device), rounds=rounds) + refused
    limit_s, serial_s = limits(work, platform, costs, device, part)
    pool = next(task for task in work.tasks if is_operation(task.signature))
    cost = task_cost(pool, platform.device(device), costs)
    here = {"operation_s": cost.device_s, "limit_s": limit_s, "serial_s": serial_s, "tasks": len(work)}
    rows = [here | entry.figures() | _efficiency(entry, limit_s, serial_s) for entry in entries]
    return {"operation_s": cost.device_s, "share_of_device": part or share(cost), "host_s": cost.dispatch_s}, rows


def _efficiency(entry: Entry, limit_s: float, serial_s: float) -> dict[str, float | None]:
    median_s = entry.median_s
    return {
        "efficiency": limit_s / median_s if median_s else None,
        "serial_efficiency": serial_s / median_s if median_s else None,
    }


def _plans(
    work: gs.Workload, platform: gs.Platform, device: str, costs: gs.Costs, width: int
) -> tuple[dict[str, gs.Plan], list[Entry]]:
    """Plans by name, with a lane a column; those that cannot be made say why."""
    lanes = max(lanes_that_fit(platform, device, (1, 2, 4, 8, 16, width)), key=lambda k: (k <= width, k))
    tried = [("eager", name) for name in EAGER_SCHEDULERS]
    tried += [("graph", name) for name in GRAPH_SCHEDULERS if device.startswith("cuda")]
    plans: dict[str, gs.Plan] = {}
    refused: list[Entry] = []
    for mode, name in tried:
        options = schedulers_there(platform, device, lanes).get(name)
        label = f"graphsched, {mode}, {name}"
        if options is None:
            continue
        try:
            plans[label] = gs.schedule(work, platform, costs, scheduler=name, mode=mode, **options)
        except GraphschedError as error:
            refused.append(Entry(label, failure=f"{type(error).__name__}: {error}"))
    return plans, refused


def share_together(platform: gs.Platform, device: str, size: int, window: int, lanes: int = 32) -> float:
    """The part of a GPU that an average takes up, measured: chains of them in `lanes` lanes of one CUDA graph."""
    lanes = min(lanes, platform.device(device).lanes)
    net = Network(functools.partial(_chains, lanes, window), small_grid("stencil", 1, 1, size, window).x)
    work = as_workload(net, device, "metg")
    costs = gs.profile(work, platform)
    alone_s = task_cost(work.tasks[0], platform.device(device), costs).device_s
    plan = gs.schedule(work, platform, costs, scheduler="round_robin", mode="graph", lanes=lanes)
    with gs.Program(plan) as program:
        together_s = statistics.median([program.time_once() for _ in range(QUICK_ROUNDS + 2)][2:])
    return min(1.0, together_s / (len(work) * alone_s))


def _chains(lanes: int, window: int, make: Maker, x: Any) -> Any:
    values = [x] * lanes
    for _ in range(IN_A_ROW):
        values = [_point(make, window, [value]) for value in values]
    return values
