"""A test kit: what every scheduler must do, tried on generated workloads.

::

    from graphsched.schedulers.testing import check_scheduler


    def test_my_scheduler() -> None:
        check_scheduler(my_scheduler)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from graphsched.errors import CaptureError, GraphschedError, ScheduleError
from graphsched.plan import Placement, Plan
from graphsched.schedulers.asking.answers import answer_of, plan_of
from graphsched.schedulers.asking.options import check_options
from graphsched.schedulers.asking.watchdog import within
from graphsched.schedulers.benchmarks.samples import Sample, samples
from graphsched.schedulers.bounds import bound_of
from graphsched.schedulers.registry import Scheduler, find_scheduler
from graphsched.simulator import predict

ROUNDING = 1.0 + 1e-9


def check_scheduler(
    scheduler: str | Scheduler,
    *,
    options: Mapping[str, Any] | None = None,
    count: int = 36,
    seed: int = 0,
    time_limit_s: float = 60.0,
) -> None:
    """Raise what is wrong with a scheduler, if anything is.

    On each of `count` small workloads (see `samples`), in eager and in graph mode, it must return in time a placement
    that holds every task once and in order, on a device where the task may run; the plan of it must pass its check and
    be predicted no faster than the lower bound. Asked again it must answer the same, also when tasks have other names,
    and it must leave its arguments as they are.

    Args:
        scheduler: Its name, or the function itself.
        options: Options that it is given each time.
        count: Workloads; 36 have each kind on each platform.
        seed: Of the workloads.
        time_limit_s: Seconds that it may take for one of them.

    Raises:
        ScheduleError: It breaks one of these rules; the message names the rule, the sample and the mode.

    Not checked: that plans do not depend on PYTHONHASHSEED (run it twice with different ones); how good they are.

    Example:
        >>> check_scheduler("heft", count=9)
        >>> from graphsched.plan import Placement
        >>> check_scheduler(lambda work, platform, costs: Placement([], {}))
        Traceback (most recent call last):
        graphsched.errors.ScheduleError: on sample 1 (one task, two GPUs and a CPU), mode eager: scheduler '<lambda>'
        left out 1 of 1 tasks, the first of them 't0': place them all
    """
    function = find_scheduler(scheduler) if isinstance(scheduler, str) else scheduler
    name = scheduler if isinstance(scheduler, str) else getattr(function, "__name__", "scheduler")
    asked = _Asked(name, function, dict(options or {}), time_limit_s)
    check_options(name, function, asked.options)
    renamed = samples(count, seed, names="n{:04x}".format)
    for sample, other in zip(samples(count, seed), renamed, strict=True):
        for mode in ("eager", "graph"):
            try:
                _check(asked, sample, other, mode)
            except GraphschedError as error:
                raise ScheduleError(f"on sample {sample.label}, mode {mode}: {error}") from error


class _Asked:
    """A scheduler with its options and its time."""

    def __init__(self, name: str, function: Scheduler, options: dict[str, Any], time_limit_s: float) -> None:
        self.name, self.function, self.options, self.time_limit_s = name, function, options, time_limit_s

    def placement(self, sample: Sample, mode: str) -> Placement:
        ask = _asking(self, sample, mode)
        return within(self.time_limit_s, f"scheduler {self.name!r}", ask)


def _asking(asked: _Asked, sample: Sample, mode: str) -> Callable[[], Placement]:
    platform = sample.platform
    return lambda: answer_of(asked.name, asked.function, sample.work, platform, platform.costs, mode, asked.options)


def _check(asked: _Asked, sample: Sample, renamed: Sample, mode: str) -> None:
    work, platform = sample.work, sample.platform
    before = work.digest(), platform.digest()
    try:
        placement = asked.placement(sample, mode)
    except CaptureError:
        return  # no CUDA graph holds this workload, says the scheduler
    if (work.digest(), platform.digest()) != before:
        raise ScheduleError(f"scheduler {asked.name!r} changed the workload or the platform: it may only read them")
    if _decided(asked.placement(sample, mode), sample) != _decided(placement, sample):
        raise ScheduleError(f"scheduler {asked.name!r} gave two answers to one question: it must be deterministic")
    if _decided(asked.placement(renamed, mode), renamed) != _decided(placement, sample):
        raise ScheduleError(
            f"scheduler {asked.name!r} decided otherwise when tasks had other names: it may go by their order only"
        )
    plan = plan_of(asked.name, work, platform, platform.costs, placement, called=asked.name, mode=mode)
    plan.check()
    _check_prediction(asked, plan)


def _check_prediction(asked: _Asked, plan: Plan) -> None:
    try:
        makespan_s = predict(plan).makespan_s
    except CaptureError:
        return
    least_s = bound_of(plan)
    if least_s > makespan_s * ROUNDING:
        whose = "an error of graphsched, please report it"
        raise ScheduleError(
            f"the plan of scheduler {asked.name!r} is predicted to take {makespan_s:g} s, less than the lower bound of "
            f"{least_s:g} s: this is {'what it returned as bound_s' if plan.bound_s == least_s else whose}"
        )


def _decided(placement: Placement, sample: Sample) -> tuple[object, ...]:
    """A placement with numbers for names."""
    number = {name: i for i, name in enumerate(sample.work.graph)}
    lanes = sorted((number[name], lane) for name, lane in placement.lanes.items())
    waits = sorted(number[name] for name in placement.wait_after)
    return [number[name] for name in placement.order], lanes, waits, placement.copies
