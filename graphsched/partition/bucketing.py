"""The size of buckets of gradients with the shortest prediction.

Few large buckets take few copies and kernels, but the last of them waits for the whole backward pass; many small ones
are summed beside it, each with its own latencies. Where the best lies depends on network, devices and links, so sizes
are tried on the simulator.

Not modelled: sizes between those that are tried; buckets of different sizes in one step.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from graphsched.collectives.requests import check_devices
from graphsched.costs import Costs
from graphsched.errors import WorkloadError
from graphsched.partition.buckets import in_buckets
from graphsched.partition.data_parallel import data_parallel
from graphsched.partition.interleaving import sums_before
from graphsched.partition.requests import check_request
from graphsched.platform import Platform
from graphsched.schedulers import schedule
from graphsched.simulator import Model, predict
from graphsched.workload import Value, Workload

SCHEDULER = "one_stream"


@dataclass(frozen=True)
class BucketChoice:
    """What was found.

    Attributes:
        bucket_bytes: The size with the shortest step; of equally good ones the first.
        work: The step split over the devices with buckets of this size.
        seconds: Predicted seconds of a step, by the sizes that were tried.
        buckets: How many buckets each size makes.
        apart_s: Predicted seconds of the step without sums.
    """

    bucket_bytes: int
    work: Workload
    seconds: Mapping[int, float]
    buckets: Mapping[int, int]
    apart_s: float

    @property
    def exposed_s(self) -> float:
        """What sums add to a step with the size that was chosen: what nothing hides."""
        return self.seconds[self.bucket_bytes] - self.apart_s


def bucket_sizes(work: Workload) -> dict[int, int]:
    """Sizes worth trying in bytes, from the largest on, and how many buckets each makes.

    For 1, 2, 4, … buckets the smallest size that makes no more, so that they are as even as can be; last 0, with which
    every gradient is alone. The first is that of sums after the backward pass.

    Args:
        work: A traced training step, not split.

    Raises:
        WorkloadError: It has no gradients that an update reads, because it was traced without, or not traced.

    Example:
        >>> import torch
        >>> from graphsched.tracing import trace
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Linear(6, 2))
        >>> sgd = torch.optim.SGD(net.parameters(), lr=0.1)
        >>> x, y = torch.rand(8, 4), torch.zeros(8, 2)
        >>> bucket_sizes(trace(net, x, target=y, loss=torch.nn.functional.mse_loss, optimizer=sgd))
        {176: 1, 120: 2, 0: 4}
    """
    made = _gradients(work)
    whole = sum(gradient.nbytes for _, gradient in made)
    most, wanted, found = _count(made, 0), 1, {}
    while wanted < most:
        size = bisect_left(range(whole), -wanted, key=lambda size: -_count(made, size))
        found[size] = _count(made, size)
        wanted *= 2
    return found | {0: most}


def choose_buckets(
    work: Workload,
    devices: Sequence[str],
    *,
    platform: Platform,
    reduce: str = "gather",
    sizes: Iterable[int] | None = None,
    shards: Sequence[int] | None = None,
    reduction: str = "mean",
    costs: Costs | None = None,
    mode: str = "graph",
) -> BucketChoice:
    """Split the step of `work` with buckets of several sizes, simulate each, and take the fastest.

    Args:
        work: A traced training step.
        devices: Two or more; see `data_parallel`.
        platform: What is simulated, with one compute lane a device.
        reduce, shards, reduction: See `data_parallel`.
        sizes: Bytes of buckets to try; default those of `bucket_sizes`.
        costs: Of tasks; default those of the platform. What is missing is estimated.
        mode: How the plan is to run, ``eager`` or ``graph``.

    Raises:
        WorkloadError: As `data_parallel` and `bucket_sizes`; there is one device, or one that `platform` has not; no
            size is given, or one that is no number of bytes.
        ScheduleError, PlatformError, CostError: There is no plan on this platform.

    Example:
        >>> import torch
        >>> from graphsched.tracing import trace
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Linear(6, 2))
        >>> sgd = torch.optim.SGD(net.parameters(), lr=0.1)
        >>> x, y = torch.rand(8, 4), torch.zeros(8, 2)
        >>> work = trace(net, x, target=y, loss=torch.nn.functional.mse_loss, optimizer=sgd)
        >>> found = choose_buckets(work, ["cuda:0", "cuda:1"], platform=Platform.load("h200-x2"))
        >>> found.bucket_bytes, list(found.seconds), found.exposed_s > 0
        (176, [176, 120, 0], True)
    """
    check_request(work, devices, least=2)
    check_devices(devices, platform)
    tried = list(bucket_sizes(work)) if sizes is None else _checked(sizes)
    split = partial(data_parallel, work, devices, shards=shards, reduction=reduction)
    seconds: dict[int, float] = {}
    best: dict[int, Workload] = {}
    for size in tried:
        made = split(reduce=reduce, bucket_bytes=size)
        seconds[size] = _step_s(made, platform, costs, mode)
        if seconds[size] < min((seconds[other] for other in best), default=math.inf):
            best = {size: made}
    ((chosen, made),) = best.items()
    apart_s = _step_s(split(reduce="none", bucket_bytes=chosen), platform, costs, mode)
    buckets = {size: _count(_gradients(work), size) for size in tried}
    return BucketChoice(chosen, made, seconds, buckets, apart_s)


def _checked(sizes: Iterable[int]) -> list[int]:
    if not isinstance(sizes, Iterable):
        raise WorkloadError(f"sizes are {sizes!r}: a list of numbers of bytes is needed")
    tried = list(sizes)
    wrong = [size for size in tried if type(size) is not int or size < 0]
    if wrong or not tried:
        raise WorkloadError(f"sizes are {tried!r}: numbers of bytes, 0 or more, are needed")
    return tried


def _gradients(work: Workload) -> list[tuple[int, Value]]:
    """As `in_buckets` takes them."""
    made = [(level, work.values[name]) for name, level in sums_before(work).items()]
    if not made:
        raise WorkloadError(f"workload {work.name!r} has no gradients to sum: trace it with a loss and an optimizer")
    return made


def _count(gradients: Iterable[tuple[int, Value]], bucket_bytes: int) -> int:
    return len(in_buckets(gradients, bucket_bytes))


def _step_s(work: Workload, platform: Platform, costs: Costs | None, mode: str) -> float:
    plan = schedule(work, platform, costs, scheduler=SCHEDULER, mode=mode)
    return predict(plan, model=Model(timing=False, chance=False)).makespan_s  # none is chosen by luck
