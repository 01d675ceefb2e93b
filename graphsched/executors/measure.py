"""Running a plan for its timeline: repeats without timing events, and some with them."""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any

from graphsched.errors import ScheduleError
from graphsched.executors import waking
from graphsched.executors.collector import no_collector
from graphsched.executors.lanes import visible_gpus
from graphsched.executors.obedience import check_obedience
from graphsched.executors.program import Program
from graphsched.executors.repeats import on_threads, samples_s
from graphsched.executors.timed_runs import TIMED_RUNS, TimedRuns
from graphsched.plan import Plan, check_plan
from graphsched.timeline import Timeline


def execute(
    plan: Plan,
    *,
    mode: str | None = None,
    steps: int = 1,
    repeats: int = 20,
    inputs: dict[str, Any] | None = None,
    warmup: int = 3,
    timeout_s: float = 60.0,
    at_most_s: float = math.inf,
    between: Callable[[], object] | None = None,
) -> Timeline:
    """Run `plan` for real and measure it.

    In one process GPUs are woken first (`executors.waking`). After `warmup` runs, `repeats` runs without timing
    events give the makespan (their median; all samples are kept); three or more with timing events, or stamps in their
    place, give the spans: those of the run whose makespan is the median (`executors.timed_runs`).
    States and torch's random numbers are as before afterwards. Once the repeats have taken `at_most_s` seconds,
    five are enough. `between` is called before the repeats, after every second of them and at the end, all devices
    idle and no rank at work; short runs that do not count follow each call (`executors.repeats`).

    Of several `steps` the makespan is that of all of them, submitted one after another (`Program.submit`) on the same
    inputs, as in ``predict(plan, steps=n)``; one of them takes (T(n) - T(1)) / (n - 1). The spans and
    `timed_makespan_s` are those of one run alone.

    In mode ``distributed`` every process that torchrun started calls this alike; each gets the same timeline.
    `timeout_s` is then also for the ranks to meet. Time is taken by rank 0, from one barrier of all ranks to the next.
    After `warmup` runs there are more while the memory of a rank grows, see `distributed.measuring.warm_up`.

    Raises:
        ScheduleError: `plan` is no plan, or `steps`, `repeats` or `warmup` is no number of runs.
        TaskFailedError: A task raised.
        StuckError: A run lasted longer than `timeout_s` seconds.
        ObedienceError: Spans contradict the plan.
        RankError: In mode ``distributed`` a rank is gone, failed, or disagrees with the others.
    """
    check_plan(plan)
    _check_count("repeats", repeats, 1)
    _check_count("warmup", warmup, 0)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ScheduleError(f"steps is {steps!r}: a whole number above 0 is needed")
    if (mode or plan.mode) == "distributed":
        if steps > 1:
            raise ScheduleError(f"steps is {steps} in mode 'distributed', which has one at a time: leave it out")
        counts: Any = {"warmup": warmup, "repeats": repeats, "at_most_s": at_most_s}
        return _execute_on_ranks(plan, inputs or {}, timeout_s=timeout_s, between=between, **counts)
    with Program(plan, mode=mode, timeout_s=timeout_s) as program, _random_numbers_kept(), no_collector():
        program.load(inputs or {})
        waking.wake(program.gpus)
        run = program.time_once if steps == 1 else partial(program.time_steps, steps, inputs or {})
        for _ in range(warmup):
            run()
        timed = TimedRuns(program, warm=warmup > 0)
        rest = between and partial(program.at_rest, between)
        pause = timed.before(rest) if rest is not None and on_threads(plan) else rest
        samples = samples_s(run, repeats, at_most_s, pause, plan)
        timeline = replace(timed.typical(), makespan_s=statistics.median(samples), samples_s=tuple(samples))
    check_obedience(timeline)
    return timeline


def _execute_on_ranks(
    plan: Plan,
    inputs: dict[str, Any],
    *,
    warmup: int,
    repeats: int,
    at_most_s: float,
    timeout_s: float,
    between: Callable[[], object] | None,
) -> Timeline:
    """`execute` by all processes that torchrun started; each gets the timeline of them all."""
    from graphsched.executors.distributed import RankProgram
    from graphsched.executors.distributed.measuring import measured_spans, warm_up

    with RankProgram(plan, timeout_s=timeout_s) as program, _random_numbers_kept(), no_collector():
        program.load(inputs)
        warm_up(program, warmup, at_most_s)
        rest = between and partial(program.at_rest, between)
        with program.world.telling():  # of what fails between runs, too
            samples = samples_s(program.time_once, repeats, at_most_s, rest, plan)
        found = [measured_spans(program) for _ in range(TIMED_RUNS)]
    spans = sorted(found, key=lambda spans: spans.makespan_s)[TIMED_RUNS // 2]
    timeline = Timeline(
        plan=program.whole,
        source="measured",
        issue_start_s=spans.columns["issue_start"],
        issue_end_s=spans.columns["issue_end"],
        start_s=spans.columns["start"],
        end_s=spans.columns["end"],
        makespan_s=statistics.median(samples),
        timed_makespan_s=spans.makespan_s,
        samples_s=tuple(samples),
        clock_uncertainty_s=spans.uncertainty_s,
        halves_s=spans.halves_s,
    )
    check_obedience(timeline)
    return timeline


def _check_count(name: str, count: Any, least: int) -> None:
    """Make sure that so many runs can be made: of NaN there is none, and no half of one."""
    if isinstance(count, bool) or not isinstance(count, Integral) or count < least:
        raise ScheduleError(f"{name} is {count!r}: a whole number, {least} or more, is needed")


def time_callable(function: Callable[[], Any], *, repeats: int = 20, warmup: int = 3) -> tuple[float, ...]:
    """Seconds of each of `repeats` calls of `function`, all CUDA devices idle before and after, and woken first.

    Example:
        >>> len(time_callable(lambda: None, repeats=3))
        3
    """
    samples = []
    waking.wake(range(visible_gpus()))
    with no_collector():
        for i in range(warmup + repeats):
            _synchronize()
            began = time.perf_counter()
            function()
            _synchronize()
            if i >= warmup:
                samples.append(time.perf_counter() - began)
    return tuple(samples)


def _synchronize() -> None:
    import torch

    if torch.cuda.is_available():
        for device in range(torch.cuda.device_count()):
            torch.cuda.synchronize(device)


@contextlib.contextmanager
def _random_numbers_kept() -> Iterator[None]:
    import torch

    cpu = torch.get_rng_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    try:
        yield
    finally:
        torch.set_rng_state(cpu)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)
