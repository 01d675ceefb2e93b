"""What messages between ranks take, measured, and put in the place of a platform's links between their devices.

Each size goes from rank 0 to another rank and back; half the median is what one way takes. Between two others it is
taken as between rank 0 and the slower of the two. A barrier takes a small message for each of its rounds.

A message between a GPU and another rank's host goes through pinned memory of the GPU's rank, whose thread waits.

Links between GPUs stay as they are: for NCCL's messages see `calibration.rank_messages`.

Not modelled: messages at the same time, which share the host's cores or its network card.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from graphsched.executors.distributed.tags import CLOCK_TAG
from graphsched.executors.distributed.world import PATIENCE_S, World
from graphsched.executors.lanes import is_cuda
from graphsched.plan.ranks import rank_of_devices
from graphsched.platform import Link, Platform

SIZES_BYTES = (1, 1 << 12, 1 << 16, 1 << 20, 1 << 24)
TIMES = 11
LARGE_BYTES, LARGE_TIMES = 1 << 20, 5

Seconds = tuple[float, ...]


def measure_messages(world: World, sizes: Sequence[int] = SIZES_BYTES) -> list[Seconds]:
    """Seconds one way by size, for each rank from 1; on rank 0 only, the others get an empty list.

    Raises:
        RankError: A rank is gone.
    """
    ranks = range(1, world.size) if world.rank == 0 else [world.rank]
    with world.heeding():
        found = [tuple(_one_way_s(world, rank, nbytes) for nbytes in sizes) for rank in ranks]
    return found if world.rank == 0 else []


def _one_way_s(world: World, rank: int, nbytes: int) -> float:
    import torch

    def what() -> str:
        return "the measurement of messages"

    data, halves = torch.zeros(nbytes, dtype=torch.uint8), []
    first, then = (world.send, world.receive) if world.rank == 0 else (world.receive, world.send)
    peer = rank if world.rank == 0 else 0
    for _ in range(TIMES if nbytes < LARGE_BYTES else LARGE_TIMES):
        began = time.perf_counter()
        first(data, peer, CLOCK_TAG, PATIENCE_S, what)
        then(data, peer, CLOCK_TAG, PATIENCE_S, what)
        halves.append((time.perf_counter() - began) / 2)
    return statistics.median(halves)


def with_messages(platform: Platform, seconds: Sequence[Seconds], sizes: Sequence[int] = SIZES_BYTES) -> Platform:
    """`platform` with links between devices of different ranks as measured, and waits of all ranks.

    Args:
        platform: What the ranks run on; one of several hosts keeps its links, which are of messages already.
        seconds: Of `measure_messages`; its devices of further ranks keep their links.
        sizes: Those of the messages, in bytes, ascending.
    """
    if not seconds:
        return platform
    rank_of, links = rank_of_devices(platform), list(platform.links)
    if not has_network(platform):
        links = [_between_ranks(platform, link, rank_of, seconds, sizes) for link in links]
    slowest_s = max(row[0] for row in seconds)
    meeting_s = math.ceil(math.log2(len(seconds) + 1)) * slowest_s
    dispatch = replace(platform.dispatch, meeting_s=meeting_s)
    return replace(platform, links=tuple(links), dispatch=dispatch)


def has_network(platform: Platform) -> bool:
    """Whether it has several hosts: its links between them, and between ranks of one, are those of messages."""
    return len({platform.device(name).host for name in platform.accelerators()}) > 1


def _between_ranks(
    platform: Platform, link: Link, rank_of: Mapping[str, int], seconds: Sequence[Seconds], sizes: Sequence[int]
) -> Link:
    source, target = rank_of[link.source], rank_of[link.target]
    on_gpus = is_cuda(link.source), is_cuda(link.target)
    if source == target or all(on_gpus):
        return link
    found = measured_link(link, source, target, seconds, sizes)
    if not any(on_gpus) or found is link:
        return found
    copies = [each for each in platform.links if (each.source, each.target) == (link.source, link.target)]
    aside = next((each for each in copies if each.memory == "pinned"), link)
    points = [s + aside.duration_s(size) for size, s in zip(sizes, found.seconds, strict=True)]
    rows = [points] * len(seconds)
    return replace(measured_link(link, source, target, rows, sizes), blocking=True)


def measured_link(
    link: Link, source: int, target: int, seconds: Sequence[Sequence[float]], sizes: Sequence[int]
) -> Link:
    """`link` between devices of ranks `source` and `target`, with what messages take; as it is if that is not known.

    Args:
        link: Of one process.
        source, target: Two different ranks.
        seconds: By size, of messages between rank 0 and each rank from 1.
        sizes: In bytes, ascending.
    """
    if max(source, target) > len(seconds):
        return link
    rows = [seconds[rank - 1] for rank in (source, target) if rank > 0]
    points = tuple(max(column) for column in zip(*rows, strict=True))
    large_s = max(points[-1] - points[-2], points[-1] / 2)
    return replace(
        link,
        latency_s=points[0],
        bandwidth_bytes_per_s=(sizes[-1] - sizes[-2]) / large_s,
        crosses=(),
        blocking=False,
        sizes_bytes=tuple(sizes),
        seconds=points,
        written_s=(),
        fades_s=0.0,
        written_busy=0.0,
        busy_fades_s=0.0,
        written_back=0.0,
    )
