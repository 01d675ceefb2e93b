"""As many lanes as pay, chosen by simulation; one where kernels gain nothing from each other's company."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from graphsched.costs import Costs
from graphsched.errors import ScheduleError
from graphsched.plan import Lane, Placement
from graphsched.platform import Platform
from graphsched.schedulers.bounds import lower_bound
from graphsched.schedulers.heft import heft
from graphsched.schedulers.placing.candidates import find_candidates
from graphsched.schedulers.placing.lanes import DEFAULT_LANES, Copies
from graphsched.schedulers.registry import Scheduler, register
from graphsched.schedulers.round_robin import round_robin
from graphsched.schedulers.searching.lane_moves import TOLERANCE, chains_moved, lanes_merged
from graphsched.schedulers.searching.lane_rules import assigned, placements
from graphsched.schedulers.searching.trials import REFUSED, Trial, Trials, best_of, fewest_lanes
from graphsched.schedulers.sequential import one_stream, sequential
from graphsched.schedulers.wavefront import wavefront
from graphsched.workload import Workload

LEAST_SIMULATIONS, MOST_SIMULATIONS = 6, 200
SIMULATED_TASKS = 20_000
"""Tasks of all these simulations together, so that large workloads take seconds."""


@register("streams")
def streams(
    work: Workload,
    platform: Platform,
    costs: Costs,
    mode: str = "eager",
    *,
    most_lanes: int = 16,
    margin: float = 0.01,
    doubt: float = 0.03,
    simulations: int | None = None,
    copies: Copies = "own",
) -> Placement:
    """The placement of least predicted time, on one stream unless more are faster by more than `margin`.

    Simulated in `mode`, so that launches, waits and kernels that share a device count as `predict` counts them:
    what the other schedulers say; on the devices of heft's placement and of the best so far, rules for several
    numbers of lanes a device (`schedulers.lane_rules`); the best of all with lanes merged and chains moved
    (`schedulers.lane_moves`). The search ends where nothing can be faster. Among many placements it finds first those
    whose predictions are too short, so what it found counts only where it gains more than `doubt` on what the other
    schedulers say.

    Of the placements that take no more than the best over 1 - `margin`, it takes that of `one_stream`, else the best
    with one lane a device, else one that is as good as the best with fewer lanes, or the best. So no other
    scheduler is, by default, predicted to be faster by more than `margin`.

    Args:
        work: What to run.
        platform: What to run it on.
        costs: Costs of its tasks, as `schedule` has them for `mode`.
        mode: How the plan is meant to run: ``eager`` or ``graph``.
        most_lanes: Compute lanes on each device at most; a device that may have fewer gets fewer.
        margin: Part of the makespan, from 0 to below 1.
        doubt: Likewise. Set with `experiments/results/h200-x1` in view, which is therefore no test of it: of the plans
            predicted 0.4 to 4 % faster than all others 8 of 16 were faster, by 0.1 % on average (from 2.3 % slower to
            3.1 % faster); those predicted 8 to 12 % faster were 7 to 11 %.
        simulations: How many beyond those of the other schedulers; default 200, or as many as make 20,000 tasks
            in all, but 6 at least. A number and no time, so that the same costs give the same plan everywhere.
        copies: Lanes of the copies that the workload asks for.

    Not modelled: what kernels cost each other that have not been measured side by side yet (their curves stand
    for it); other devices than those of the placements it begins with.

    Raises:
        ScheduleError: An option is out of its range, or no scheduler can place the workload.
        PlatformError: No link brings a task's values to a device where it may run.
        CaptureError: The mode is ``graph``, and no CUDA graph can hold any of the plans.

    Example:
        >>> from graphsched.costs import TaskCost
        >>> from graphsched.platform import Device
        >>> from graphsched.schedulers.scheduling import schedule
        >>> work = Workload()
        >>> for i in range(4):
        ...     task = work.task(print, name=f"t{i}", outputs=[], device="cuda")
        >>> here = Platform("one", (Device("cuda:0", "cuda", "GPU"),))
        >>> small = TaskCost(1e-3, concurrency=((2, 1.0), (4, 1.0)))
        >>> for cost in (small, TaskCost(1e-3)):
        ...     plan = schedule(work, here, Costs({(work["t0"].signature, "GPU"): cost}), scheduler="streams")
        ...     print(sorted({action.lanes[0].name for action in plan}))
        ['cuda:0/s0', 'cuda:0/s1', 'cuda:0/s2', 'cuda:0/s3']
        ['cuda:0/s0']
    """
    _check(most_lanes, {"margin": margin, "doubt": doubt}, simulations)
    trials = Trials(work, platform, costs, mode, _affordable(work) if simulations is None else simulations)
    tried = _of_others(trials, most_lanes, copies)
    enough_s = lower_bound(work, platform, costs)
    if tried[0].makespan_s * (1.0 - margin) > enough_s:
        found = _of_rules(trials, tried, most_lanes, copies)
        found.append(_improved(trials, best_of([*tried, *found]), most_lanes, enough_s))
        tried += _doubted(found, best_of(tried).makespan_s, doubt)
    return _chosen(tried, margin).placement


def _check(most_lanes: int, parts: Mapping[str, float], simulations: int | None) -> None:
    if most_lanes < 1:
        raise ScheduleError(f"most_lanes={most_lanes}: each device needs 1 lane or more")
    for name, part in parts.items():
        if not 0.0 <= part < 1.0:
            raise ScheduleError(f"{name}={part}: a part of the makespan, from 0 to below 1, is needed (0.01 is 1 %)")
    if simulations is not None and simulations < 0:
        raise ScheduleError(f"simulations={simulations}: 0 or more are needed")


def _affordable(work: Workload) -> int:
    return max(LEAST_SIMULATIONS, min(MOST_SIMULATIONS, SIMULATED_TASKS // max(1, len(work.graph))))


# -- candidates ------------------------------------------------------------------------------


def _of_others(trials: Trials, most_lanes: int, copies: Copies) -> list[Trial]:
    """What the other schedulers say; `one_stream` first, unless it makes no plan.

    Raises:
        ScheduleError, PlatformError, CostError: None makes a plan: what stood in the way of the first.
    """
    found: list[Trial] = []
    refused: list[Exception] = []
    for scheduler, options in _others(trials, most_lanes):
        try:
            placement = scheduler(trials.work, trials.platform, trials.costs, copies=copies, **options)
            found.append(Trial(placement, trials.makespan_s(placement)))
        except REFUSED as error:
            refused.append(error)
    if not found:
        raise refused[0]
    return found


def _others(trials: Trials, most_lanes: int) -> list[tuple[Scheduler, dict[str, int]]]:
    lanes = {} if most_lanes >= DEFAULT_LANES else {"lanes": _allowed(trials, most_lanes)}
    return [(one_stream, {}), (heft, {}), (wavefront, lanes), (round_robin, lanes), (sequential, {})]


def _of_rules(trials: Trials, tried: Sequence[Trial], most_lanes: int, copies: Copies) -> list[Trial]:
    """Placements by heft and by rules, for several numbers of lanes, until no simulation is left."""
    numbers = _lane_numbers(_allowed(trials, most_lanes))
    by_heft = _by_heft(trials, [1, *numbers], copies)
    found = [trials.trial(placement) for placement in by_heft]
    bases = [*by_heft[:1], best_of(tried).placement]
    for base in {_devices(base): base for base in bases}.values():
        tasks = assigned(trials.work, trials.platform, trials.costs, base)
        found += [trials.trial(placement) for placement in placements(tasks, numbers)]
    return found


def _by_heft(trials: Trials, numbers: Sequence[int], copies: Copies) -> list[Placement]:
    try:
        return [heft(trials.work, trials.platform, trials.costs, lanes=lanes, copies=copies) for lanes in numbers]
    except REFUSED:
        return []


def _allowed(trials: Trials, lanes: int) -> int:
    """`lanes`, or as many as every accelerator may have; as every device, where there are no accelerators."""
    used = [trials.platform.device(name) for name in find_candidates(trials.work, trials.platform).used()]
    meant = [device for device in used if device.is_accelerator] or used
    return min([lanes, *(device.lanes for device in meant)])


def _lane_numbers(most: int) -> list[int]:
    """2, 3, 4, 6, 8, 12 and so on below `most`, and that."""
    doubled = sorted(first * 2**i for first in (2, 3) for i in range(most.bit_length()))
    return [*(lanes for lanes in doubled if lanes < most), *([most] if most > 1 else [])]


def _devices(placement: Placement) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, Lane.named(lane).device) for name, lane in placement.lanes.items()))


# -- choice ----------------------------------------------------------------------------------


def _improved(trials: Trials, best: Trial, most_lanes: int, enough_s: float) -> Trial:
    tasks = assigned(trials.work, trials.platform, trials.costs, best.placement)
    return chains_moved(trials, tasks, lanes_merged(trials, tasks, best), most_lanes, enough_s)


def _doubted(found: Sequence[Trial], others_s: float, doubt: float) -> list[Trial]:
    """Those that gain no more than `doubt` on the `others_s` of other schedulers count as if they gained nothing."""
    limit_s = others_s * (1.0 - doubt)
    return [t if t.makespan_s < limit_s else replace(t, makespan_s=max(t.makespan_s, others_s)) for t in found]


def _chosen(tried: Sequence[Trial], margin: float) -> Trial:
    """The first, else the best with one lane a device, where within `margin` of the best; else few lanes."""
    best = best_of(tried)
    single = best_of([trial for trial in tried if trial.lanes_each <= 1] or tried)
    for trial in (tried[0], single):
        if trial.makespan_s * (1.0 - margin) <= best.makespan_s:
            return trial
    return fewest_lanes(tried, best.makespan_s / (1.0 - min(margin, TOLERANCE)))
