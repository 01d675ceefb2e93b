"""``graphsched run --mode distributed`` in the processes that torchrun started.

Rank 0 does what the command does in one process: it measures, schedules, prints and writes. To the others it sends the
platform, and for each case the plan as text; they build their workloads from the experiment, and run their parts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from graphsched.cases import Case, Experiment
from graphsched.cli.output import say
from graphsched.cli.request import collect_cases, read_modes
from graphsched.costs import Costs
from graphsched.errors import GraphschedError, RankError
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
class Built:
    """Rank 0 has built the cases on the platform that it has told, and asks what the others have built."""


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
    """Rank 0 has done all, with this exit code; or why it did not."""

    code: int
    why: str = ""


def joined(mode: str) -> World | None:
    """The ranks, if cases are to run on them; None: one process does all.

    Raises:
        ScheduleError: They are asked for, and torchrun did not start this process.
        RankError: They did not all come, or run other software.
    """
    if MODE not in read_modes(mode):
        return None
    from graphsched.executors.distributed import join

    return join(MEET_S)


@contextlib.contextmanager
def leading(world: World | None) -> Iterator[None]:
    """Tell the other ranks of the end, whatever it is.

    Where this one is interrupted, they may be in the middle of a run: they hear of it as of a failure, for no message
    to them would pass.
    """
    if world is None:
        yield
        return
    from graphsched.executors.distributed.termination import in_order

    ended = Ended(1, "it was ended")
    try:
        with in_order(world):
            yield
        ended = Ended(0)
    except GraphschedError as error:
        ended = Ended(1, str(error))
        raise
    except (KeyboardInterrupt, SystemExit) as end:
        world.fail(RankError("it was interrupted" if isinstance(end, KeyboardInterrupt) else "it was ended"))
        raise
    finally:
        if world.failure is None:
            with contextlib.suppress(GraphschedError):
                world.share(ended, MEET_S, "the end")
        else:
            world.board.say_over()


def tell_platform(world: World | None, platform: Platform) -> Platform | None:
    """Send the other ranks what the cases are built for; what messages take is then measured, and put into it."""
    if world is None:
        return None
    from graphsched.calibration.rank_messages import measure_rank_messages, with_rank_messages
    from graphsched.executors.distributed.message_links import measure_messages, with_messages

    world.share(Started(platform.to_dict()), MEET_S, "the platform")
    found = with_messages(platform, measure_messages(world))
    return with_rank_messages(found, measure_rank_messages(world, platform))


def compare_cases(world: World | None, facts: Mapping[str, str]) -> None:
    """Make sure that all ranks have built the same cases, by rank 0's `facts` of them, before anything is measured.

    Raises:
        RankError: They have not; names what differs, and on which ranks.
    """
    if world is not None:
        from graphsched.executors.distributed.agreement import check_agreement

        world.share(Built(), MEET_S, "the cases")
        check_agreement(world.collect(facts, MEET_S, "the comparison of cases"))


def facts_of_cases(
    experiment: Experiment, values: Mapping[str, Any], cases: Sequence[tuple[int, Case]]
) -> dict[str, str]:
    """What must be the same on all ranks for them to run these cases together."""
    told = [
        (n, case.label, case.scheduler, dict(case.options), case.work.digest() if case.work else "")
        for n, case in cases
        if case.mode == MODE
    ]
    digest = hashlib.sha256(repr(told).encode()).hexdigest()[:16]
    return facts_of_request(experiment, values) | {"set of cases": f"{len(told)} cases {digest}"}


def facts_of_request(experiment: Experiment, values: Mapping[str, Any]) -> dict[str, str]:
    """What was asked for, where that alone is known."""
    return {"experiment": experiment.name, "set of parameters": json.dumps(values, default=str)}


def check_ranks() -> None:
    """Make sure that the ranks can run a case, before its costs are measured.

    Raises:
        RankError: A case before has failed on them.
    """
    from graphsched.executors.distributed import join

    join(MEET_S)


def tell_case(number: int, plan: Plan, repeats: int, timeout_s: float, at_most_s: float) -> None:
    """Have the other ranks run a case with this one, which does so next."""
    from graphsched.executors.distributed import join

    job = Job(number, plan.text, replace(plan.platform, costs=Costs()).to_dict(), repeats, timeout_s, at_most_s)
    join(MEET_S).share(job, MEET_S, "the next plan")


def follow(world: World, experiment: Experiment, values: Mapping[str, Any], mode: str, only: str | None) -> int:
    """Do what rank 0 says until it ends; the exit code.

    After a failure this rank stays a little while rank 0, unless it is lost, writes down what succeeded, for torchrun
    ends them all with the first one.
    """
    from graphsched.executors.distributed.termination import in_order

    with in_order(world):
        try:
            return _follow(world, experiment, values, mode, only)
        except Exception as error:
            if os.environ.get("GRAPHSCHED_DEBUG"):
                traceback.print_exception(error)
            say(f"error: {world.fail(error)}")
            if world.lost != 0:
                world.board.await_over(STAY_S)
            return 1
        except KeyboardInterrupt as error:
            world.fail(error)  # rank 0 waits for those that may still have to hear of it
            raise


def _follow(world: World, experiment: Experiment, values: Mapping[str, Any], mode: str, only: str | None) -> int:
    from graphsched.calibration.rank_messages import measure_rank_messages
    from graphsched.executors.distributed.message_links import measure_messages
    from graphsched.executors.distributed.world import PATIENCE_S

    cases: list[tuple[int, Case]] = []
    while True:
        told = world.share(None, PATIENCE_S, "what rank 0 says next")
        if isinstance(told, Started):
            platform = Platform.from_dict(told.platform)
            measure_messages(world)
            measure_rank_messages(world, platform)
        elif isinstance(told, Built):
            try:
                cases = collect_cases(experiment, values, platform, mode=mode, only=only)
                facts = facts_of_cases(experiment, values, cases)
            except GraphschedError as error:
                facts = facts_of_request(experiment, values) | {"set of cases": f"none ({error})"}
            world.collect(facts, MEET_S, "the comparison of cases")
        elif isinstance(told, Job):
            run_part(world, dict(cases), told)
        else:
            if told.why:
                say(f"error: rank {world.rank}: rank 0 ended: {told.why}")
            return int(told.code)


def run_part(world: World, cases: Mapping[int, Case], job: Job) -> None:
    """Run this rank's part of a case."""
    from graphsched.executors import execute
    from graphsched.executors.distributed.agreement import check_agreement, facts_without_plan

    case = cases[job.number]
    work = case.work
    assert work is not None
    try:
        plan = Plan.from_text(job.plan, work, Platform.from_dict(job.platform))
    except GraphschedError as error:
        check_agreement(world.gather(facts_without_plan(work, error), job.timeout_s, "the comparison of plans"))
        raise
    execute(plan, repeats=job.repeats, timeout_s=job.timeout_s, at_most_s=job.at_most_s, between=_nothing)
    figures_on_ranks(case, plan)


def figures_on_ranks(case: Case, plan: Plan) -> dict[str, float]:
    """Further figures of a case that all ranks take together, as rank 0 has them.

    Raises:
        RankError: They fail, here or on another rank; all are told.
    """
    from graphsched.executors.distributed import join

    if case.on_ranks is None:
        return {}
    with join(MEET_S).telling():
        return dict(case.on_ranks(plan))


def _nothing() -> None:
    """What this rank does where rank 0 takes the pace of its thread."""
