"""One traced training step over a CPU that has the parameters and devices that compute: d2l.ai fig. 12.3.1.

Every device gets the parameters from the CPU and computes forward and backward on its part of the minibatch. Each
gradient goes to the CPU as soon as it is there, is summed, and updates its parameter there, while the devices are still
in the backward pass of earlier layers.

Not modelled: random numbers that equal the whole network's (each device draws its own); buffers that the forward pass
updates (running statistics), which have no sum; losses that are no mean of the rows'.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

import graphsched as gs
from graphsched.errors import WorkloadError
from graphsched.partition.batches import batch_size, shard_sizes, split
from graphsched.partition.copying import Copier
from graphsched.partition.seeding import with_share

HOST = "cpu"


def central_parameters(work: gs.Workload, devices: Sequence[str]) -> gs.Workload:
    """The step of `work` with its batch split over `devices`, and parameters summed and updated on the CPU.

    What device i has is named as in `work` with ``i/`` before: tasks, inputs (``0/input``) and results (``0/loss``,
    ``0/output``). Parameters and updates bear the names that they have in `work`; sums are named ``sum/1.weight``.

    Args:
        work: A training step that `gs.trace` has made; its loss is a mean over the batch.
        devices: One for each part of the batch; the first parts have a row more where it does not divide.

    Raises:
        WorkloadError: `work` was built by hand, has no optimiser, updates a buffer in its forward pass, or has fewer
            rows than there are devices.

    Example:
        >>> from models.mlp import two_layer_mlp
        >>> net = two_layer_mlp(4, 3, 2)
        >>> sgd = torch.optim.SGD(net.parameters(), lr=0.1)
        >>> x, y = torch.rand(8, 4), torch.zeros(8, dtype=torch.long)
        >>> loss = torch.nn.functional.cross_entropy
        >>> work = gs.trace(net, x, target=y, loss=loss, optimizer=sgd, grain="module")
        >>> for task in central_parameters(work, ["cuda:0", "cuda:1"]).tasks:
        ...     if task.devices == ("cpu",):
        ...         print(task.name)
        sum/3.weight
        sum/3.bias
        update/3
        sum/1.weight
        sum/1.bias
        update/1
    """
    updates = _updates(work)
    sizes = shard_sizes(batch_size(work.source.inputs), len(devices))
    given = split(work.source.inputs, sizes)
    target = gs.Workload(work.name)
    target.returns_unread = False
    parameters = _parameters(work, target, updates)
    shards = [
        _shard(i, device, work, given, size / sum(sizes), target, parameters)
        for i, (device, size) in enumerate(zip(devices, sizes, strict=True))
    ]
    _emit(work, shards, Copier(work, target, str, lambda _: HOST, parameters), updates)
    for value in work.returned():
        target.keep(*(shard.values[value.name] for shard in shards))
    return target


def _updates(work: gs.Workload) -> list[str]:
    """Names of the tasks of the optimiser's step."""
    if work.source is None:
        raise WorkloadError(f"workload {work.name!r} was built by hand: only what gs.trace has made can be split")
    phases = {name: data["phase"] for name, data in work.graph.nodes(data=True)}
    for name, phase in phases.items():
        if phase != "update" and work[name].updates:
            raise WorkloadError(
                f"task {name!r} updates {work[name].updates[0].name!r} on every device, which has no sum: take a "
                "network without running statistics"
            )
    updates = [name for name, phase in phases.items() if phase == "update"]
    if not updates:
        raise WorkloadError(f"workload {work.name!r} updates nothing: trace it with optimizer=")
    return updates


def _parameters(work: gs.Workload, target: gs.Workload, updates: Iterable[str]) -> dict[str, gs.Value]:
    """The states that `updates` change, on the CPU, in the order of `work`."""
    changed = {value.root for name in updates for value in work[name].updates}
    return {
        name: target.state(name, work.tensors[name], device=HOST) for name in work.values if name in changed
    }  # fmt: skip


def _shard(
    i: int,
    device: str,
    work: gs.Workload,
    given: Mapping[str, Any],
    share: float,
    target: gs.Workload,
    parameters: Mapping[str, gs.Value],
) -> Copier:
    """The network on device i, without tasks, with its inputs; it reads the CPU's parameters."""
    rows = {name: given[f"{i}/{name}"] for name in work.source.inputs}
    traced = with_share(work.source, share).again(inputs=rows).trace()
    values = {name: target.input(f"{i}/{name}", tensor) for name, tensor in rows.items()}
    return Copier(traced, target, f"{i}/{{}}".format, lambda _: device, {**parameters, **values})


def _emit(work: gs.Workload, shards: Sequence[Copier], host: Copier, updates: Sequence[str]) -> None:
    """All tasks: the devices in turns, and each update as soon as all that it must wait for is there."""
    waiting, done = list(updates), set[str]()
    for name in work.graph:
        if name in updates:
            continue
        for shard in shards:
            shard.add([shard.source[name]])
        done.add(name)
        for update in tuple(waiting):
            if done.issuperset(work.graph.pred[update]):
                _sum(work[update], shards, host)
                host.add([work[update]])
                waiting.remove(update)
                done.add(update)
    assert not waiting


def _sum(update: gs.Task, shards: Sequence[Copier], host: Copier) -> None:
    """Gradients that `update` is the first to read, summed on the CPU from the first device to the last."""
    for read in update.reads:
        gradient = read.value
        if gradient.name in host.values or gradient.kind != "output":
            continue
        name = _name_of_sum(update, gradient, host.target)
        total, *others = (shard.values[gradient.name] for shard in shards)
        for number, other in enumerate(others, 1):
            step = f"{name}.{number}" if len(others) > 1 else name
            total = host.target.task(torch.add, total, other, name=step, device=HOST)
            host.target.graph.nodes[step].update(module=host.source.graph.nodes[update.name]["module"], phase="reduce")
        host.values[gradient.name] = total


def _name_of_sum(update: gs.Task, gradient: gs.Value, target: gs.Workload) -> str:
    """After the parameter of the gradient's size; after the gradient where sizes do not tell."""
    parameters = dict.fromkeys(read.value.name.partition("/")[0] for read in update.reads if read.value.kind == "state")
    fitting = [name for name in parameters if target.values[name].nbytes == gradient.nbytes]
    names = [f"sum/{name}" for name in fitting if not {f"sum/{name}", f"sum/{name}.1"} & target.graph.nodes]
    return names[0] if names else f"sum/{gradient.name}"
