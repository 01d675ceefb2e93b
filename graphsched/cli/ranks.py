"""``graphsched run --mode distributed`` in the processes that torchrun started.

Rank 0 does what the command does in one process: it measures, schedules, prints and writes. To the others it sends the
platform, and for each case the plan as text; they build their workloads from the experiment, and run their parts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from graphsched.cases import Case, Experiment
from graphsched.cli.output import say
from graphsched.cli.request import collect_cases, read_modes
from graphsched.costs import Costs
from graphsched.errors import ExecutionError, GraphschedError
from graphsched.plan import Plan
from graphsched.platform import Platform

if TYPE_CHECKING:
    from graphsched.executors.distributed import World

MODE = "distributed"
MEET_S = 120.0  # for all processes to start
STAY_S = 10.0  # after a failure


@dataclass(frozen=True)
class Started:
    """Rank 0 knows the platform."""

    platform: Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    """A case that all ranks run: its number and mode, the plan, and how it is timed."""

    number: int
    plan: str
    platform: Mapping[str, Any]
    repeats: int
    timeout_s: float
    at_most_s: float


@dataclass(frozen=True)
class Ended:
    """Rank 0 has done all, with this exit code."""

    code: int


def joined(mode: str) -> World | None:
    """The ranks, if cases are to run on them; None: one process does all.

    Raises:
        ScheduleError: They are asked for, and torchrun did not start this process.
        RankError: They did not all come.
    """
    if MODE not in read_modes(mode):
        return None
    from graphsched.executors.distributed import join

    return join(MEET_S)


@contextlib.contextmanager
def leading(world: World | None) -> Iterator[None]:
    """Tell the other ranks of the end, whatever it is."""
    code = 1
    try:
        yield
        code = 0
    finally:
        if world is not None and world.failure is None:
            with contextlib.suppress(GraphschedError):
                world.share(Ended(code))
        elif world is not None:
            world.board.say_over()


def tell_platform(world: World | None, platform: Platform) -> Platform | None:
    """Send the other ranks what the cases are built for; what messages take is then measured, and put into it."""
    if world is None:
        return None
    from graphsched.executors.distributed.message_links import measure_messages, with_messages

    world.share(Started(platform.to_dict()))
    return with_messages(platform, measure_messages(world))


def tell_case(number: int, plan: Plan, repeats: int, timeout_s: float, at_most_s: float) -> None:
    """Have the other ranks run a case with this one, which does so next."""
    from graphsched.executors.distributed import join

    job = Job(number, plan.text, replace(plan.platform, costs=Costs()).to_dict(), repeats, timeout_s, at_most_s)
    join(MEET_S).share(job)


def follow(world: World, experiment: Experiment, values: Mapping[str, Any], mode: str, only: str | None) -> int:
    """Do what rank 0 says until it ends; the exit code.

    After a failure this rank stays a little while rank 0 writes down what succeeded, for torchrun ends them all with
    the first one.
    """
    try:
        return _follow(world, experiment, values, mode, only)
    except ExecutionError as error:
        say(f"error: {error}")
        world.board.await_over(STAY_S)
        return 1


def _follow(world: World, experiment: Experiment, values: Mapping[str, Any], mode: str, only: str | None) -> int:
    from graphsched.executors.distributed.message_links import measure_messages

    cases: dict[int, Case] = {}
    while True:
        told = world.share(None)
        if isinstance(told, Ended):
            return told.code
        if isinstance(told, Started):
            measure_messages(world)
            platform = Platform.from_dict(told.platform)
            numbered = collect_cases(experiment, values, platform, mode=mode, only=only)
            cases = {number: case for number, case in numbered if case.mode == MODE}
        else:
            run_part(world, cases[told.number], told)


def run_part(world: World, case: Case, job: Job) -> None:
    """Run this rank's part of a case."""
    from graphsched.executors import execute
    from graphsched.executors.distributed.agreement import check_agreement, facts_without_plan

    assert case.work is not None
    try:
        plan = Plan.from_text(job.plan, case.work, Platform.from_dict(job.platform))
    except GraphschedError as error:
        check_agreement(world.gather(facts_without_plan(case.work, error)))
        raise
    execute(plan, repeats=job.repeats, timeout_s=job.timeout_s, at_most_s=job.at_most_s, between=_nothing)


def _nothing() -> None:
    """What this rank does where rank 0 takes the pace of its thread."""
