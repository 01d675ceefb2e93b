"""`pipeline`: a traced training step cut into stages, one device after another, and into micro-batches."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import accumulate, pairwise

from graphsched.costs import Costs
from graphsched.errors import WorkloadError
from graphsched.partition.alike import check_alike
from graphsched.partition.batches import batch_size, rows_of
from graphsched.partition.chain import Chain, StageMemory, chain_of, pass_seconds
from graphsched.partition.micro_batches import MicroBatches
from graphsched.partition.orders import Order, Rows, most_in_flight, steps_of
from graphsched.partition.placing import Placing
from graphsched.partition.reductions import REDUCTIONS, check_loss
from graphsched.partition.requests import check_request
from graphsched.partition.seeding import traced_part
from graphsched.partition.stages import balanced, least_largest
from graphsched.workload import Workload


def pipeline(
    work: Workload,
    devices: Sequence[str],
    *,
    micro_batches: int,
    order: Order = "1f1b",
    costs: Costs | None = None,
    chunks: int = 1,
    memory_bytes: int | None = None,
    reduction: str = "mean",
    whole: Collection[str] = (),
) -> Workload:
    """The step of `work` with its layers on several devices, through which parts of the batch go one after another.

    Stages are contiguous in the order in which the forward pass was recorded, and cut so that the slowest is as fast
    as can be, by forward and backward time; of cuts as good as that (within `stages.TOLERANCE`), those that the fewest
    bytes cross. Backward tasks are on the device of their forward task, updates on that of their parameter. A
    parameter that several stages use lives with the first of them; the others read copies.

    Each stage has one set of parameters. Gradients are summed in the order of the micro-batches, and the optimiser
    steps once, after a device's last backward pass. So results are those of `work`, up to rounding, but for
    layers that look at the whole batch: batch normalisation normalises each micro-batch by its own statistics, and
    updates its running statistics once for each, in their order, as GPipe and torch.distributed.pipelining do.

    A stage hands its gradient on as soon as that is there, before it computes those of its first layer's parameters,
    so that devices wait a little less than is published: (p - 1) / (v m + p - 1) of the time, for p devices with v
    stages each and m micro-batches; where these are fewer than devices, several stages each save less.

    Tasks are named as in `work` with ``m0/``, ``m1/`` and so on before, by micro-batch; updates, states, inputs and
    results as in `work`. Nodes have the attributes ``stage`` and ``micro_batch`` beside those of a trace. Inputs stay
    whole: a stage that reads one gets one copy, of which each micro-batch views its rows. A result that is a number
    is the `reduction` of those of the micro-batches, a whole number their sum. Constants that several devices use are
    there once for each. Tasks are in the order of the steps, so that a plan with one lane a device
    and in the order of the workload (scheduler ``one_stream``) runs the steps of each device as `orders.steps_of`
    has them.

    Args:
        work: A traced training step with an optimiser.
        devices: One for each of the first stages, in their order.
        micro_batches: Parts of the batch; it must divide.
        order: ``gpipe``, ``1f1b`` or ``interleaved``, see `orders.steps_of`.
        costs: Measured costs, of `work` or of what this function returned for it; default: estimates from operations
            and bytes.
        chunks: Stages a device; more than 1 if interleaved. Stage s is on ``devices[s % len(devices)]``.
        memory_bytes: Most bytes of a device for parameters, their gradients, what the optimiser keeps, inputs, and
            what backward passes need of the micro-batches in flight.
        reduction: What the loss is over its batch: the ``mean`` of the rows, or their ``sum``.
        whole: Inputs of which every micro-batch reads all, though they have as many rows as the batch.

    Raises:
        WorkloadError: `work` is no traced training step, a batch that does not divide, fewer forward tasks than
            stages, stages that do not fit in `memory_bytes`, an update that concerns several stages, a network that
            computes otherwise on fewer rows, or a result that is no scalar and has no row for each of the batch.

    Source: Huang et al., GPipe, NeurIPS 2019; Narayanan et al., SC 2021.

    Example:
        >>> import torch
        >>> from graphsched.tracing import trace
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2, bias=False))
        >>> sgd = torch.optim.SGD(net.parameters(), lr=0.1)
        >>> x, y = torch.rand(8, 4), torch.zeros(8, 2)
        >>> work = trace(net, x, target=y, loss=torch.nn.functional.mse_loss, optimizer=sgd)
        >>> for task in pipeline(work, ["cuda:0", "cuda:1"], micro_batches=2).tasks:
        ...     print(task.devices[0], task.name)
        cuda:0 m0/0/addmm
        cuda:0 m1/0/addmm
        cuda:1 m0/output
        cuda:1 m0/loss
        cuda:1 m0/network.backward/mse_loss_backward
        cuda:1 m0/1.backward/mm
        cuda:1 m0/1.backward/mm.2
        cuda:0 m0/0.backward/mm
        cuda:0 m0/0.backward/sum
        cuda:1 m1/output
        cuda:1 m1/loss
        cuda:1 m1/network.backward/mse_loss_backward
        cuda:1 m1/1.backward/mm
        cuda:1 m1/1.backward/mm.2
        cuda:1 m1/stage1/sum.0
        cuda:1 update/1.weight/add
        cuda:0 m1/0.backward/mm
        cuda:0 m1/0.backward/sum
        cuda:0 m1/stage0/sum.0
        cuda:0 update/0.weight/add
        cuda:0 update/0.bias/add
        cuda:1 output
        cuda:1 loss

    Not modelled: the random numbers of the unsplit step (each micro-batch of a layer with dropout draws its own);
    losses that are no mean or sum of the rows' (refused where the trace was given the loss), and rows that later
    targets ignore, see `partition.reductions`; layers other than batch normalisation that look at several rows at once,
    and buffers that count steps; recomputed activations.
    """
    rows, stages = _checked(work, devices, micro_batches, order, chunks, reduction), len(devices) * chunks
    sizes = _rows(work, micro_batches, whole)
    check_loss(work, sizes, reduction)
    share = 1.0 / micro_batches if reduction == "mean" else 1.0
    micro = traced_part(work.source, share, rows_of(work.source.inputs, 0, sizes[0], whole=whole))
    check_alike(micro, work, sizes[0], whole)
    chain = chain_of(micro)
    starts = _cut(chain, work, devices, rows, stages, micro_batches, costs, memory_bytes)
    placing = Placing(chain, starts, devices)
    return MicroBatches(work, chain, placing, devices, sizes[0]).run(rows, devices, reduction)


def _checked(
    work: Workload, devices: Sequence[str], micro_batches: int, order: Order, chunks: int, reduction: str
) -> Rows:
    check_request(work, devices)
    if reduction not in REDUCTIONS:
        raise WorkloadError(f"reduction is {reduction!r}: one of {', '.join(REDUCTIONS)} is needed")
    phases = {work.graph.nodes[name].get("phase") for name in work.graph}
    if not phases >= {"forward", "backward", "update"}:
        raise WorkloadError(
            f"workload {work.name!r} is no training step: trace a module with loss= and optimizer=, or a function that "
            "calls backward() and an optimizer's step()"
        )
    return steps_of(order, len(devices), micro_batches, chunks)


def _rows(work: Workload, micro_batches: int, whole: Collection[str]) -> list[int]:
    """Rows of each micro-batch.

    Raises:
        WorkloadError: The batch does not divide.
    """
    batch = batch_size(work.source.inputs, whole)
    if batch % micro_batches:
        raise WorkloadError(
            f"a batch of {batch} rows does not divide into {micro_batches} equal micro-batches: give a number that "
            f"divides {batch}"
        )
    return [batch // micro_batches] * micro_batches


# -- where to cut ----------------------------------------------------------------------------------


def _cut(
    chain: Chain,
    work: Workload,
    devices: Sequence[str],
    rows: Rows,
    stages: int,
    micro_batches: int,
    costs: Costs | None,
    memory_bytes: int | None,
) -> list[int]:
    """The first layer of each stage, and how many layers there are."""
    if len(chain) < stages:
        raise WorkloadError(
            f"{len(chain)} forward tasks cannot be cut into {stages} stages ({len(devices)} devices, "
            f"{stages // len(devices)} each): use fewer devices or chunks"
        )
    tasks = [chain.work[name] for name in chain.layer_of]
    before_s = [0.0, *accumulate(chain.seconds(pass_seconds(tasks, work, micro_batches, costs, devices[0])))]
    memory = StageMemory(chain, {name: work.values[name].nbytes for name in work.source.inputs})
    flight = most_in_flight(rows)

    def nbytes(stage: int, first: int, end: int) -> int:
        return memory.nbytes(first, end, flight[stage])

    def cost_s(stage: int, first: int, end: int) -> float:
        if memory_bytes is not None and nbytes(stage, first, end) > memory_bytes:
            return math.inf
        return before_s[end] - before_s[first]

    starts = balanced(len(chain), stages, cost_s, chain.crossing_bytes())
    if starts is None:
        least = int(least_largest(len(chain), stages, nbytes))
        raise WorkloadError(
            f"{stages} stages do not fit in memory_bytes={memory_bytes}: the largest needs {least} bytes or more; use "
            "more devices, smaller micro-batches, or order='1f1b'"
        )
    if memory_bytes is not None:
        needed = [nbytes(stage, *ends) for stage, ends in enumerate(pairwise(starts))]
        _check_devices(devices, needed, memory_bytes)
    return starts


def _check_devices(devices: Sequence[str], needed: Sequence[int], memory_bytes: int) -> None:
    """Make sure that the stages of each device, which need so many bytes, fit together.

    Raises:
        WorkloadError: Those of one do not.
    """
    for number, device in enumerate(devices):
        own = needed[number :: len(devices)]
        if sum(own) > memory_bytes:
            raise WorkloadError(
                f"{device} needs {sum(own)} bytes for its {len(own)} stages, memory_bytes is {memory_bytes}: use more "
                "devices, smaller micro-batches or fewer chunks"
            )
