"""Messages between GPUs of different ranks: what they take a thread and a stream, as runs of small plans tell.

A rank's thread sends and receives at several times the cost of a copy in one process, the first time in a run more. So
plans of tiny tasks on the GPUs of ranks 0 and 1 are run, without messages and with one and with several, and each as
often before as a case that is measured; what of their time on each thread `predict` does not explain without them is
theirs. A plan without any tells what all ranks take to meet at the end of a run. How long a message occupies streams is
timed there and back, by size.

Not modelled: threads of other ranks than the first two; that a collective may take its thread longer than a message.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from graphsched.calibration.cuda_calls import Yardstick
from graphsched.calibration.cuda_clock import Spinner, elapsed_s, new_stream, on_streams, poll_s
from graphsched.errors import PlatformError, StuckError
from graphsched.executors.clocks import new_event
from graphsched.executors.collector import no_collector
from graphsched.executors.distributed import RankProgram
from graphsched.executors.distributed.blame import missed
from graphsched.executors.distributed.message_links import has_network, measured_link
from graphsched.executors.distributed.nccl_groups import new_communicator
from graphsched.executors.lanes import is_cuda
from graphsched.executors.repeats import settle
from graphsched.plan import Placement, Plan, build_plan
from graphsched.plan.ranks import rank_of_devices
from graphsched.platform import Platform
from graphsched.simulator import predict
from graphsched.timeline import Timeline
from graphsched.workload import TensorSpec, Workload

if TYPE_CHECKING:
    from graphsched.executors.distributed.world import World

SIZES_BYTES = (1, 1 << 16, 1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28)
SEVERAL = 6  # messages of a plan, which begin behind as many tasks
ROUNDS = 25
TURNS, SAMPLES = 4, 7  # there and back
SPIN_S = 4e-3  # more than it takes to queue those
MEASURED = "measured messages"  # in place of a lane
PATIENCE_S = 60.0

Key = tuple[int, bool]
"""Of a plan: tasks on each GPU, and whether messages go between them."""

NEXT_TO_NOTHING_S = 1e-12  # 0 is unknown


@dataclass(frozen=True)
class RankMessages:
    """Seconds of messages between GPUs, and of what all ranks do at the end of a run; see `Dispatch`.

    Attributes:
        message_s, first_message_s: As `Dispatch` has them, at the pace of its `call_s`.
        meeting_s: As `Dispatch` has it.
        seconds: One way by `SIZES_BYTES`, for each rank from 1, from rank 0.
    """

    message_s: float
    first_message_s: float
    meeting_s: float
    seconds: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Took:
    """Seconds of a plan's run, or of its prediction: on each of the two threads, and until all ranks have met."""

    issue_s: tuple[float, float]
    makespan_s: float


def measure_rank_messages(world: World, platform: Platform) -> RankMessages | None:
    """Measured by all ranks together; on rank 0 only, the others get None. None without linked GPUs on ranks 0 and 1.

    Args:
        world: The ranks.
        platform: What they run on, alike on all; its figures are of one process.

    Raises:
        RankError: A rank is gone, stopped or hangs.
    """
    gpus = [*takewhile(is_cuda, platform.accelerators())]  # by rank
    if len(gpus) < 2 or world.size < 2 or not _linked(platform, gpus[0], gpus[1]):
        return None
    ends = gpus[0], gpus[1]
    plans = {(n, moved): tiny_plan(platform, ends, n, moved=moved) for n in (1, SEVERAL) for moved in (False, True)}
    with no_collector():
        paces, took = _run_in_turns(world, plans, platform.dispatch.call_s)
        seconds = tuple(_one_way_s(world, rank) for rank in range(1, min(world.size, len(gpus))))
    return None if world.rank else solved(platform, plans, took, seconds, statistics.median(paces))


def _linked(platform: Platform, first: str, second: str) -> bool:
    try:
        return bool(platform.link(first, second))
    except PlatformError:
        return False


def with_rank_messages(platform: Platform, measured: RankMessages | None) -> Platform:
    """`platform` with links between GPUs of different ranks, and costs of messages, as `measured`; as it is if None.

    One of several hosts keeps its links, which are of messages already. Others cross the capacities that they did.

    Links between ranks' other devices are those of `distributed.message_links.with_messages`.
    """
    if measured is None:
        return platform
    rank_of, links = rank_of_devices(platform), list(platform.links)
    for k, link in enumerate(links if not has_network(platform) else ()):
        source, target = rank_of[link.source], rank_of[link.target]
        if is_cuda(link.source) and is_cuda(link.target) and source != target:
            found = measured_link(link, source, target, measured.seconds, SIZES_BYTES)
            links[k] = replace(found, crosses=link.crosses)
    dispatch = replace(
        platform.dispatch,
        message_s=measured.message_s,
        first_message_s=measured.first_message_s,
        meeting_s=measured.meeting_s,
    )
    return replace(platform, links=tuple(links), dispatch=dispatch)


def tiny_plan(platform: Platform, ends: tuple[str, str], count: int, *, moved: bool) -> Plan:
    """So many tiny tasks on each of two devices; those on the second read, if `moved`, what those on the first return.

    Example:
        >>> plan = tiny_plan(Platform.load("h200-x2"), ("cuda:0", "cuda:1"), 1, moved=True)
        >>> plan.names
        ['a0', 'a0>cuda:1', 'b0']
    """
    import torch

    spec, work = TensorSpec((8, 8)), Workload("messages")
    x = [work.input(f"x{k}", torch.ones(8, 8), device=name) for k, name in enumerate(ends)]
    made = [work.task(torch.neg, x[0], name=f"a{n}", device=ends[0], outputs=[spec]) for n in range(count)]
    for n, value in enumerate(made):
        work.task(torch.neg, value if moved else x[1], name=f"b{n}", device=ends[1], outputs=[spec])
    lanes = {f"{name}{n}": f"{end}/s0" for name, end in zip("ab", ends, strict=True) for n in range(count)}
    placement = Placement([task.name for task in work.tasks], lanes)
    return replace(build_plan(work, platform, None, placement, scheduler="calibration"), mode="distributed")


def solved(
    platform: Platform,
    plans: Mapping[Key, Plan],
    took: Mapping[Key, Took],
    seconds: tuple[tuple[float, ...], ...],
    pace: float,
) -> RankMessages:
    """What messages take, from what the plans took beyond their predictions without it.

    Args:
        platform: As measured in one process.
        plans: By number of tasks, and whether messages go between them.
        took: At the pace of the platform's `call_s`.
        seconds: Of messages on streams, handed on.
        pace: How many times as long calls took.
    """
    costs = replace(platform.dispatch, message_s=NEXT_TO_NOTHING_S, first_message_s=0.0, meeting_s=0.0)
    bare = replace(platform, dispatch=costs)
    more = {key: beyond(took[key], _predicted(predict(replace(plan, platform=bare)))) for key, plan in plans.items()}
    one = [a - b for a, b in zip(more[1, True].issue_s, more[1, False].issue_s, strict=True)]
    several = [a - b for a, b in zip(more[SEVERAL, True].issue_s, more[SEVERAL, False].issue_s, strict=True)]
    message_s = max(0.0, (sum(several) - sum(one)) / 2 / (SEVERAL - 1))
    return RankMessages(
        message_s=message_s,
        first_message_s=max(0.0, sum(one) / 2 - message_s),
        meeting_s=max(0.0, more[1, False].makespan_s * pace),
        seconds=seconds,
    )


def beyond(took: Took, predicted: Took) -> Took:
    """What was taken, less what was predicted.

    Example:
        >>> beyond(Took((3.0, 2.0), 5.0), Took((1.0, 2.0), 4.0))
        Took(issue_s=(2.0, 0.0), makespan_s=1.0)
    """
    first, second = (mine - theirs for mine, theirs in zip(took.issue_s, predicted.issue_s, strict=True))
    return Took((first, second), took.makespan_s - predicted.makespan_s)


def _predicted(timeline: Timeline) -> Took:
    ends = [
        max(e for e, name in zip(timeline.issue_end_s, timeline.plan.names, strict=True) if name[0] == key)
        for key in "ab"
    ]
    return Took((float(ends[0]), float(ends[1])), timeline.makespan_s)


def _run_in_turns(world: World, plans: Mapping[Key, Plan], call_s: float) -> tuple[list[float], dict[Key, Took]]:
    """Medians over runs that follow some like them, of the first two threads, at the pace of `call_s`.

    Before each round rank 0 takes the pace of its thread: how many times `call_s` a tiny operation takes.
    """
    with ExitStack() as stack:
        programs = {k: stack.enter_context(RankProgram(plan, timeout_s=PATIENCE_S)) for k, plan in plans.items()}
        yardstick = stack.enter_context(closing(Yardstick(world.address.local_rank))) if world.rank == 0 else None
        paces: list[float] = []
        issue_s: dict[Key, list[float]] = {key: [] for key in plans}
        makespans: dict[Key, list[float]] = {key: [] for key in plans}
        for _ in range(ROUNDS):
            paces.append(yardstick.sample_s() / call_s if yardstick is not None and call_s else 1.0)
            for key, program in programs.items():
                settle(program.time_once)
                makespans[key].append(program.time_once())
                issue_s[key].append(program.issue_s)
        everyone = world.gather(issue_s, PATIENCE_S, "the measurement of messages")

    def middle(seconds: Sequence[float]) -> float:
        return statistics.median(s / pace for s, pace in zip(seconds, paces, strict=True))

    first, second = everyone[:2]
    return paces, {k: Took((middle(first[k]), middle(second[k])), middle(makespans[k])) for k in plans}


def _one_way_s(world: World, rank: int) -> tuple[float, ...]:
    """Seconds on a stream by size from rank 0 to another; the others take part in making the communicator."""
    group = world.communicators[MEASURED, 0, rank] = new_communicator([0, rank])
    if world.rank not in (0, rank):
        return ()
    device, peer = world.address.local_rank, rank if world.rank == 0 else 0
    spinner, stream = Spinner(device), new_stream(device)
    try:
        return tuple(_timed_s(group, world.rank, peer, size, spinner, stream) for size in SIZES_BYTES)
    except StuckError as error:
        failure = world.fail(missed([peer], "the measurement of messages", world.pulses))
        world.abort()
        raise failure from error


def _timed_s(group: Any, rank: int, peer: int, nbytes: int, spinner: Spinner, stream: Any) -> float:
    import torch
    from torch import distributed

    library: Any = distributed
    send, receive = library.isend, library.irecv
    data = torch.zeros(nbytes, dtype=torch.uint8, device=f"cuda:{spinner.device}")
    ways: Sequence[Callable[..., Any]] = (send, receive) if rank == 0 else (receive, send)

    def turn() -> None:
        for way in ways:
            way(data, peer, group=group).wait()

    samples = []
    for _ in range(SAMPLES + 1):  # the first one makes the connection
        start, end = new_event(timing=True), new_event(timing=True)
        with ExitStack() as stack:
            on_streams(stack, [stream])
            spinner.spin(SPIN_S)
            turn()  # both streams meet
            start.record(stream)
            for _ in range(TURNS):
                turn()
            end.record(stream)
        poll_s(end.query)
        samples.append(elapsed_s(start, end) / (2 * TURNS))
    return statistics.median(samples[1:])
