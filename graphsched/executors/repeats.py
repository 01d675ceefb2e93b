"""How often a run is repeated to be measured, and what does not count: runs that follow something else than a run."""

from __future__ import annotations

from collections.abc import Callable

from graphsched.plan import Plan

ENOUGH = 5  # samples, where more would take too long
EVERY = 2  # samples, something else may be done: the speed of a core changes from one run to the next
SETTLED, SETTLED_S = 4, 2e-3  # runs, at most, and their time after something else, whose caches they fill again
SETTLED_ON_THREADS, SETTLED_ON_THREADS_S = 20, 1e-2  # the same where a CPU lane has several threads
LONG_S, LONG_ON_THREADS_S = 1e-2, 0.5  # a run of which that is nothing, the latter where a CPU lane has several threads


def settled_below_s(plan: Plan) -> float:
    """Seconds from which on a run does not mind what was done before it.

    Many, where it computes on a CPU lane of several threads: these have slept, and their caches hold other things. On
    hosts of an H200 runs of 35 ms took up to 8 % longer then (docs/readings.md).
    """
    return LONG_ON_THREADS_S if on_threads(plan) else LONG_S


def on_threads(plan: Plan) -> bool:
    """Whether `plan` computes on a CPU lane of several threads."""
    return any(plan.platform.device(lane.device).threads > 1 for lane in plan.lanes if lane.kind == "compute")


def samples_s(
    run: Callable[[], float], repeats: int, at_most_s: float, between: Callable[[], object] | None, plan: Plan
) -> list[float]:
    """Seconds of so many runs, or of `ENOUGH`, if these have taken `at_most_s`.

    Args:
        run: Makes one; its seconds.
        repeats: How many are wanted.
        at_most_s: What they may take in all.
        between: Called before them, after every second of them and at the end; None: nothing is.
        plan: What is run.
    """
    samples: list[float] = []
    below_s = settled_below_s(plan)
    while len(samples) < repeats and (len(samples) < ENOUGH or sum(samples) < at_most_s):
        if between is not None and len(samples) % EVERY == 0:
            between()
            if not samples or samples[-1] < below_s:
                settle(run, plan)
        samples.append(run())
    if between is not None:
        between()
    return samples


def settle(run: Callable[[], float], plan: Plan | None = None) -> None:
    """Runs that do not count, for they follow something else than a run: the first takes up to 10 µs longer, and on a
    thread whose core others use the third still takes 2.

    Threads of a CPU lane have slept meanwhile: beside an H200 the first run of 0.2 ms took 0.7, the fifth a tenth
    longer than those behind the eighth, and of 0.6 ms one in three up to 1.6 times as long (docs/readings.md).

    Args:
        run: Makes one; its seconds.
        plan: What it runs.
    """
    most, enough_s = SETTLED, SETTLED_S
    if plan is not None and on_threads(plan):
        most, enough_s = SETTLED_ON_THREADS, SETTLED_ON_THREADS_S
    spent_s = 0.0
    for _ in range(most):
        spent_s += run()
        if spent_s >= enough_s:
            break
