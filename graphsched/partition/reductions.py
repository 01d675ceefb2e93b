"""Whether the loss of a batch is the mean, or the sum, of its parts' losses.

Not modelled: losses that a traced function computes itself, which are taken as they are said to be, but for a mean over
rows of some classes only; later targets with rows that ``cross_entropy`` ignores unasked (-100), of which each part
takes the mean over its own other rows; layers before the loss that look at several rows of the batch at once, other
than batch normalisation.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from graphsched.errors import WorkloadError
from graphsched.workload import Operation, Workload

REDUCTIONS = ("mean", "sum")
TOLERANCE = 1e-3  # of the loss; single precision is much closer, another reduction much farther off
UNASKED = -100  # the class that cross_entropy ignores by default
_MEAN = 1  # torch's number of the reduction
_CLASS_LOSSES = ("torch.ops.aten.nll_loss_forward.default", "torch.ops.aten.nll_loss2d_forward.default")


def check_loss(work: Workload, sizes: Sequence[int], reduction: str) -> None:
    """Make sure that the loss of `work` over a batch is the `reduction` of the losses of its parts.

    It is called on a random output, whole and in parts of `sizes` rows, with the rows of the traced target as they are
    and with like ones together. This is left out where the loss is not given to the trace, or needs more than an output
    with a row for each of the batch. A mean over rows of some classes only is seen by its operator.

    Raises:
        WorkloadError: It is not: weights of classes, ignored rows, a root of the mean, pairs of rows.
    """
    if len(sizes) < 2:
        return
    rows = sum(sizes)
    weights = [size / rows for size in sizes] if reduction == "mean" else [1.0] * len(sizes)
    for whole, parts in _losses(work, sizes):
        combined = math.fsum(weight * part for weight, part in zip(weights, parts, strict=True))
        if not math.isclose(combined, whole, rel_tol=TOLERANCE, abs_tol=TOLERANCE * max(map(abs, parts), default=0.0)):
            raise WorkloadError(
                f"the loss is no {reduction} over rows: of a random output it is {whole:.6g} for all {rows} rows, and "
                f"{combined:.6g} put together from parts of {', '.join(map(str, sizes))} rows: split it with another "
                f"reduction= ({', '.join(REDUCTIONS)}), or use a loss that is one of these"
            )
    _check_classes(work)


def _losses(work: Workload, sizes: Sequence[int]) -> list[tuple[float, list[float]]]:
    """The loss of all rows of a random output, and of each part; again for another order of the target's rows."""
    import torch

    source, output = work.source, work.values.get("output")
    spec = output.spec if output is not None else None
    if source.loss is None or spec is None or spec.shape[:1] != (sum(sizes),):
        return []
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(spec.shape, generator=generator, dtype=torch.float32).to(getattr(torch, spec.dtype))
    cuts = list(itertools.pairwise(itertools.accumulate(sizes, initial=0)))
    found = []
    # what needs something else than such an output fails: nothing can be said then
    with torch.no_grad(), torch.random.fork_rng(devices=()), contextlib.suppress(Exception):
        for target in _orders(source.inputs.get("target")):
            whole = _loss(source.loss, scores, target)
            parts = [(scores[a:b], None if target is None else target[a:b]) for a, b in cuts]
            found.append((whole, [_loss(source.loss, *part) for part in parts]))
    return found


def _orders(target: Any) -> list[Any]:
    """`target`, and its rows by their sums, so that parts differ in rows that are ignored or weighted by class."""
    if target is None or target.is_complex():
        return [target]
    return [target, target[target.reshape(len(target), -1).double().sum(1).argsort()]]


def _loss(loss: Any, scores: Any, target: Any) -> float:
    return float(loss(scores, target) if target is not None else loss(scores))


def _check_classes(work: Workload) -> None:
    """Make sure that no operator takes a mean over rows that count by their class.

    Raises:
        WorkloadError: One has weights of classes, or a class to ignore that is not the usual one.
    """
    for name, operation in _operations(work):
        if operation.name in _CLASS_LOSSES:
            _, _, weight, reduction, ignored = operation.args
            if reduction == _MEAN and (weight is not None or ignored != UNASKED):
                what = "weight=" if weight is not None else f"ignore_index={ignored}"
                raise WorkloadError(
                    f"{name!r} is a mean over rows that count by their class ({what}), and parts of the batch do not "
                    "know how much the others count: use reduction='sum' in the loss and here, and a learning rate to "
                    f"match, or leave {what.partition('=')[0]}= out"
                )


def _operations(work: Workload) -> Iterator[tuple[str, Operation]]:
    """All that tasks call, with their names."""
    for task in work.tasks:
        assert task.operation is not None
        for operation in getattr(task.operation.function, "steps", (task.operation,)):
            yield task.name, operation
