"""Sums of gradients over replicas, bucket by bucket.

A method is a generator: what it adds to the workload before a ``yield`` can be followed by other tasks of the backward
pass, which run while the copies between devices that come next are made.

=========== ==================================== ===================================== =========================
method      kernels a bucket on each device      bytes that each device receives       hops
=========== ==================================== ===================================== =========================
``gather``  1 cat, k-1 sums of the whole         (k-1) × bucket                        1
``sharded`` 1 cat, k-1 sums of a k-th            2 × (k-1)/k × bucket                  2
``server``  1 cat; the first: k-1 sums           1 × bucket; the first: (k-1) ×        2
``cpu``     1 cat; the CPU: k-1 sums             1 × bucket; the CPU: k ×              2
``ring``    1 cat, k-1 sums of a k-th            2 × (k-1)/k × bucket                  2 (k-1)
``library`` 1 cat, those of the library          as the library does                   one collective
``none``    none                                 nothing                               0
=========== ==================================== ===================================== =========================

A gradient that is a bucket of its own needs no cat with ``gather``, ``server`` and ``cpu``. Every element is summed in
the order of replicas, 0 to k-1 (``ring``: part b from replica b+1 on and round to b), in one order for all devices, so
that all of them get the same bits in every run. With ``none`` replicas go apart, each with its own share of a gradient:
no training, but what a step takes without sums. ``library`` is NCCL's all-reduce, or Gloo's between ranks on CPUs, in
their order of additions; not for graph mode.

Not modelled: sums in the network.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from graphsched.collectives.blocks import are_made_in_place
from graphsched.collectives.direct import Shares
from graphsched.collectives.members import Members, Moving
from graphsched.collectives.operations import called, summed
from graphsched.collectives.ring import Ring
from graphsched.partition.buckets import Bucket, Replica, add_task, flat, flat_parts, part_sizes
from graphsched.workload import Value, Workload

Method = Callable[[Bucket, Sequence[Replica]], Iterator[None]]


def gather(bucket: Bucket, replicas: Sequence[Replica]) -> Iterator[None]:
    """Every device gets every other's bucket and sums all."""
    own = [_whole(bucket, replica) for replica in replicas]
    yield
    for replica in replicas:
        _give(bucket, replica, replica.reduce(bucket, "sum", summed(own)))


def server(bucket: Bucket, replicas: Sequence[Replica]) -> Iterator[None]:
    """The first device sums, and sends the sum to all."""
    return _central(bucket, replicas, replicas[0].device)


def cpu(bucket: Bucket, replicas: Sequence[Replica]) -> Iterator[None]:
    """The host sums, and sends the sum to all."""
    return _central(bucket, replicas, "cpu")


def _central(bucket: Bucket, replicas: Sequence[Replica], place: str) -> Iterator[None]:
    own = [_whole(bucket, replica) for replica in replicas]
    yield
    target = replicas[0].copier.target
    total = add_task(target, summed(own), name=f"{bucket.name}/sum", device=place, phase="reduce")
    yield
    for replica in replicas:
        _give(bucket, replica, total)


def sharded(bucket: Bucket, replicas: Sequence[Replica]) -> Iterator[None]:
    """Device j sums part j of all buckets, then everybody gets the sums: reduce-scatter and all-gather.

    Source: Rabenseifner, Optimization of Collective Reduction Operations, ICCS 2004.
    """
    return _in_parts(bucket, replicas, Shares)


def ring(bucket: Bucket, replicas: Sequence[Replica]) -> Iterator[None]:
    """Parts go round the devices twice, a hop a step: to be summed, then to be known everywhere.

    Source: see `collectives.ring`.
    """
    return _in_parts(bucket, replicas, Ring)


def _in_parts(bucket: Bucket, replicas: Sequence[Replica], way: Callable[[Members], Moving]) -> Iterator[None]:
    own = _parts(bucket, replicas)
    yield
    target = replicas[0].copier.target
    moving = way(Members(target, bucket.name, tuple(replica.device for replica in replicas)))
    yield from _of_reduce(target, moving.both(own))
    for replica in replicas:
        replica.take(bucket, _put_together(bucket, replica, moving.blocks_of(replica.device)))


def _put_together(bucket: Bucket, replica: Replica, blocks: Sequence[Value]) -> Value:
    """The flat sum, which takes no time where its parts are made in their places."""
    made = are_made_in_place(replica.copier.target, blocks, replica.device)
    more = {"duration_s": 0.0} if made else {}
    return replica.reduce(bucket, "whole", called("cat", list(blocks)), **more)  # type: ignore[no-any-return]


def library(bucket: Bucket, replicas: Sequence[Replica]) -> Iterator[None]:
    """One collective of all devices, see `collectives.library`."""
    if len(replicas) < 2:
        yield from gather(bucket, replicas)
        return
    own = [_contiguous(bucket, replica) for replica in replicas]
    yield
    target, devices = replicas[0].copier.target, [replica.device for replica in replicas]
    sums = target.collective("all_reduce", own, devices=devices, name=f"{bucket.name}/sum")
    target.graph.nodes[f"{bucket.name}/sum"].update(module="", phase="reduce")
    yield
    for replica, total in zip(replicas, sums, strict=True):
        if total.spec == bucket.gradients[0].spec:
            _give(bucket, replica, total)
        else:
            replica.take(bucket, total)


def none(bucket: Bucket, replicas: Sequence[Replica]) -> Iterator[None]:
    """No sum: every replica has its own gradients."""
    yield
    for replica in replicas:
        own = zip(bucket.gradients, replica.gradients(bucket), strict=True)
        replica.sums.update({gradient.name: value for gradient, value in own})


METHODS: dict[str, Method] = {
    "gather": gather,
    "sharded": sharded,
    "server": server,
    "cpu": cpu,
    "ring": ring,
    "library": library,
    "none": none,
}


def _whole(bucket: Bucket, replica: Replica) -> Value:
    """The bucket of a replica as one value, flat if it has several gradients."""
    own = replica.gradients(bucket)
    made: Value = own[0] if len(own) == 1 else replica.reduce(bucket, "flat", flat(own))
    return made


def _contiguous(bucket: Bucket, replica: Replica) -> Value:
    """The bucket of a replica as one contiguous value."""
    whole = _whole(bucket, replica)
    if whole.spec is None or whole.spec.stride is None:
        return whole
    return replica.reduce(bucket, "flat", flat([whole]))  # type: ignore[no-any-return]


def _give(bucket: Bucket, replica: Replica, total: Value) -> None:
    """`total`, shaped as `_whole` is, as the sums of the bucket's gradients."""
    if len(bucket.gradients) == 1:
        replica.sums[bucket.gradients[0].name] = total
    else:
        replica.take(bucket, total)


def _parts(bucket: Bucket, replicas: Sequence[Replica]) -> list[tuple[Value, ...]]:
    """The bucket of each replica, flat, in a part for each of them; fewer parts where there is too little."""
    sizes = part_sizes(sum(bucket.sizes()), len(replicas))
    return [_as_tuple(r.reduce(bucket, "flat", flat_parts(r.gradients(bucket), sizes))) for r in replicas]


def _of_reduce(work: Workload, steps: Iterator[None]) -> Iterator[None]:
    """`steps`, with the tasks that they add to `work` of the phase ``reduce``."""
    before = len(work.graph)
    for _ in steps:
        for name in itertools.islice(work.graph, before, None):
            work.graph.nodes[name].update(module="", phase="reduce")
        yield
        before = len(work.graph)


def _as_tuple(made: Any) -> tuple[Value, ...]:
    return made if isinstance(made, tuple) else (made,)
