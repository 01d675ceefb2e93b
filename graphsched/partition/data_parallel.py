"""`data_parallel`: one traced training step on several devices, each with a part of the batch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from graphsched.errors import WorkloadError
from graphsched.partition.alike import by_operator, check_alike
from graphsched.partition.batches import batch_size, shard_sizes, split
from graphsched.partition.buckets import Replica
from graphsched.partition.copying import Copier
from graphsched.partition.interleaving import Interleaving, check_updates_alike
from graphsched.partition.reducing import METHODS, Method
from graphsched.partition.reductions import REDUCTIONS, check_loss
from graphsched.partition.requests import check_request
from graphsched.partition.seeding import traced_part
from graphsched.tracing.source import Source
from graphsched.workload import Workload

BUCKET_BYTES = 1 << 20


def data_parallel(
    work: Workload,
    devices: Sequence[str],
    *,
    shards: Sequence[int] | None = None,
    reduce: str = "gather",
    reduction: str = "mean",
    bucket_bytes: int = BUCKET_BYTES,
    whole: Collection[str] = (),
) -> Workload:
    """The step of `work` with its batch split over `devices`: every device holds the whole network and sums gradients.

    Replica i runs on ``devices[i]``; what it has is named as in `work` with ``i/`` before: tasks (``0/relu``), states
    (``0/conv.weight``), inputs (``0/x``) and results (``0/output``); see `split` for the inputs. ``loss`` is the loss
    of the whole batch, if `work` returns one, as one number. All replicas hold equal parameters, to the bit, after
    every step.

    Gradients go into buckets in the order in which the backward pass makes them. A bucket is made flat right after its
    last gradient, and summed once the next one is flat; updates come after the backward pass, each once its bucket is
    summed. So a plan with one lane a device sums while earlier layers are still in backward, and updates while the
    last buckets are on their way. Tasks of the sums are of the phase ``reduce``.

    A batch that does not divide works: the first devices get a row more, and each replica counts by its rows.

    Batch normalisation normalises each shard by its own statistics, as DistributedDataParallel does. Running
    statistics are each replica's own; those to save are replica 0's, which are what DistributedDataParallel saves.

    Args:
        work: A traced workload: a training step, or a network alone, which needs no sums.
        devices: One for each replica.
        shards: Rows of each replica; default: as even as can be.
        reduce: How gradients are summed: ``gather`` (one hop, more bytes), ``sharded`` (two hops, fewer bytes),
            ``server`` (on the first device), ``cpu``, ``ring``, ``library`` (NCCL's, not in graph mode), or ``none``
            (not at all: replicas then differ); see `partition.reducing`.
        reduction: What the loss is over its batch: the ``mean`` of the rows, or their ``sum``.
        bucket_bytes: Most bytes of a bucket of several gradients; 0: each gradient alone. Default: 1 MiB, up to which
            a copy between two H200s hardly takes longer than one of a byte (12.4 and 11.0 µs). The best size for a
            network is that of the shortest prediction, see `choose_buckets`.
        whole: Inputs of which every replica gets all, though they have as many rows as the batch; give the same to
            `split`.

    Raises:
        WorkloadError: `work` was not traced or returns gradients, a loss that is not the `reduction` of its rows',
            fewer rows than devices, shards that do not make the batch, a gradient that does not depend on the inputs,
            an update by something else of the rows than gradients, or by random numbers, a network that computes
            otherwise on fewer rows, or shards with other tasks than each other.

    Source: Li et al., PyTorch Distributed, VLDB 2020, section 3.2.

    Example:
        >>> import torch
        >>> from graphsched.tracing import trace
        >>> net = torch.nn.Linear(4, 2)
        >>> sgd = torch.optim.SGD(net.parameters(), lr=0.1)
        >>> x, y = torch.rand(8, 4), torch.zeros(8, 2)
        >>> work = trace(net, x, target=y, loss=torch.nn.functional.mse_loss, optimizer=sgd)
        >>> for task in data_parallel(work, ["cuda:0", "cuda:1"]).tasks:
        ...     if not task.name.startswith("1/"):
        ...         print(task.name)
        0/output
        0/loss
        0/network.backward/mse_loss_backward
        0/network.backward/mm
        0/network.backward/sum
        0/bucket.0/flat
        loss
        0/bucket.0/sum
        0/update/weight/add
        0/update/bias/add

    Not modelled: random numbers that equal the whole network's (each replica draws its own); losses that are no mean
    or sum of the rows' (refused where the trace was given the loss; with a penalty on parameters, ``mean`` is right and
    ``sum`` counts it once a replica), and rows that later targets ignore, see `partition.reductions`; layers other than
    batch normalisation that look at several rows at once, and buffers that count steps; results of the backward pass
    other than gradients of parameters.
    """
    method = _checked(work, devices, reduce, reduction, bucket_bytes)
    source: Source = work.source
    batch = batch_size(source.inputs, whole)
    sizes = shard_sizes(batch, len(devices) if shards is None else shards)
    if len(sizes) != len(devices):
        raise WorkloadError(f"{len(sizes)} shards were given for {len(devices)} devices: give one for each")
    check_loss(work, sizes, reduction)
    shares = [size / batch if reduction == "mean" else 1.0 for size in sizes]
    given = split(source.inputs, sizes, whole=whole)
    traced: dict[int, Workload] = {}
    for i, (size, share) in enumerate(zip(sizes, shares, strict=True)):
        if size not in traced:
            rows = {name: given[f"{i}/{name}"] for name in source.inputs}
            traced[size] = traced_part(source, share, rows)
            check_alike(traced[size], work, size, whole)
            if len(sizes) > 1:
                check_updates_alike(traced[size], [name for name in rows if rows[name] is not source.inputs[name]])
            _check_updates(traced[size], work)
    _check_same_tasks(traced)
    target = Workload(work.name)
    target.returns_unread = work.returns_unread
    replicas = [_replica(i, device, traced[size], target, given, work)
                for i, (device, size) in enumerate(zip(devices, sizes, strict=True))]  # fmt: skip
    loss = work.values.get("loss")
    is_number = loss is not None and loss.spec is not None and math.prod(loss.spec.shape) == 1
    Interleaving(replicas, shares if is_number else [], method, bucket_bytes).emit()
    return target


def _checked(work: Workload, devices: Sequence[str], reduce: str, reduction: str, bucket_bytes: int) -> Method:
    check_request(work, devices)
    if reduce not in METHODS:
        raise WorkloadError(f"reduce is {reduce!r}: one of {', '.join(METHODS)} is needed")
    if reduction not in REDUCTIONS:
        raise WorkloadError(f"reduction is {reduction!r}: one of {', '.join(REDUCTIONS)} is needed")
    if bucket_bytes != math.inf and (type(bucket_bytes) is not int or bucket_bytes < 0):
        raise WorkloadError(f"bucket_bytes is {bucket_bytes!r}: a whole number, 0 or more, or inf is needed")
    for value in work.returned():
        if value.producer and work.graph.nodes[value.producer]["phase"] == "backward":
            raise WorkloadError(f"it returns {value.name!r} of the backward pass: trace it with an optimizer instead")
    return METHODS[reduce]


def _check_updates(shard: Workload, whole: Workload) -> None:
    """Make sure that the updates of `shard` read the constants of those of `whole`.

    A gradient that does not depend on the inputs has become a constant, of which no sum would be made.
    """
    for task in shard.tasks:
        if shard.graph.nodes[task.name]["phase"] == "update" and task.name in whole.graph:
            for ours, theirs in zip(task.reads, whole[task.name].reads, strict=False):
                if _differ(shard.tensors.get(ours.value.name), whole.tensors.get(theirs.value.name)):
                    raise WorkloadError(
                        f"task {task.name!r} updates by a gradient that does not depend on the inputs, so that a sum "
                        "over shards is not defined: take the parameter out of the optimizer"
                    )


def _check_same_tasks(traced: Mapping[int, Workload]) -> None:
    """Make sure that shards, by their rows, call the same operators, which replicas add one beside the other."""
    (rows, first), *others = traced.items()
    for other_rows, other in others:
        ours, theirs = (list(by_operator(shard).graph) for shard in (first, other))
        if ours != theirs:
            odd = next(a or b for a, b in itertools.zip_longest(ours, theirs) if a != b)
            raise WorkloadError(
                f"shards of {rows} and {other_rows} rows have other tasks, first {odd!r}: give shards of equal sizes "
                "(for a dimension of 1 PyTorch calls other operators, and constants are tasks above a size)"
            )


def _differ(one: Any, other: Any) -> bool:
    return one is not other and (one is None or other is None or not one.equal(other))


def _replica(
    i: int, device: str, shard: Workload, target: Workload, given: Mapping[str, Any], whole: Workload
) -> Replica:
    """Replica i without tasks, with its inputs where `whole` has them: on the host, or there before time 0."""
    values = {}
    for name in shard.source.inputs:
        home = device if whole.values[name].device != "cpu" else "cpu"
        values[name] = target.input(f"{i}/{name}", given[f"{i}/{name}"], device=home)
    return Replica(str(i), device, Copier(shard, target, f"{i}/{{}}".format, lambda _: device, values))
