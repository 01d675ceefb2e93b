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
from typing import Any, NamedTuple

from graphsched.errors import WorkloadError
from graphsched.tracing.source import Source
from graphsched.workload import Operation, TensorSpec, Workload

REDUCTIONS = ("mean", "sum")
EXACT = 1e-6  # share of the loss that rounding may move it by in double precision
ROUNDED = 0.75  # power of a shorter type's epsilon that is such a share: 6e-6 in single precision
UNASKED = -100  # the class that cross_entropy ignores by default
_MEAN = 1  # torch's number of the reduction
_CLASS_LOSSES = ("torch.ops.aten.nll_loss_forward.default", "torch.ops.aten.nll_loss2d_forward.default")


def check_loss(work: Workload, sizes: Sequence[int], reduction: str) -> None:
    """Make sure that the loss of `work` over a batch is the `reduction` of the losses of its parts.

    It is called on a random output in double precision, whole and in parts of `sizes` rows, with the rows of the traced
    target as they are and with like ones together. The output's rows differ in size and in place, so that parts do not
    resemble each other however many rows they have. This is left out where the loss is not given to the trace, or needs
    more than an output with a row for each of the batch. A mean over rows of some classes only is seen by its operator.

    Raises:
        WorkloadError: It is not: weights of classes, ignored rows, a root of the mean, pairs of rows.
    """
    if len(sizes) < 2:
        return
    rows = sum(sizes)
    weights = [size / rows for size in sizes] if reduction == "mean" else [1.0] * len(sizes)
    for seen in _losses(work, sizes):
        combined = math.fsum(weight * part for weight, part in zip(weights, seen.parts, strict=True))
        least = seen.tolerance * max(map(abs, seen.parts))
        if not math.isclose(combined, seen.whole, rel_tol=seen.tolerance, abs_tol=least):
            raise WorkloadError(
                f"the loss is no {reduction} over rows: of a random output it is {seen.whole:.6g} for all {rows} rows, "
                f"and {combined:.6g} put together from parts of {', '.join(map(str, sizes))} rows: split it with "
                f"another reduction= ({', '.join(REDUCTIONS)}), or use a loss that is one of these"
            )
    _check_classes(work)


class _Losses(NamedTuple):
    """The loss of all rows, of each part, and the share by which rounding may move them."""

    whole: float
    parts: list[float]
    tolerance: float


def _losses(work: Workload, sizes: Sequence[int]) -> list[_Losses]:
    """The losses of a random output; again for another order of the target's rows."""
    source, output = work.source, work.values.get("output")
    spec = output.spec if output is not None else None
    if source.loss is None or spec is None or spec.shape[:1] != (sum(sizes),):
        return []
    found = (_of_output(source, scores, sizes) for scores in _outputs(spec))
    return next(filter(None, found), [])


def _outputs(spec: TensorSpec) -> Iterator[Any]:
    """Random outputs with rows that are unlike each other, for losses of any numbers, and for those of shares."""
    import torch

    rows, dtype = spec.shape[0], getattr(torch, spec.dtype)
    generator = torch.Generator().manual_seed(0)
    random = torch.randn(rows, math.prod(spec.shape[1:]), generator=generator, dtype=torch.float64)
    columns = torch.linspace(1, 2, random.shape[1], dtype=torch.float64)
    random = random * torch.logspace(-1, 1, rows, dtype=torch.float64)[:, None]
    random = (random + torch.linspace(-2, 2, rows, dtype=torch.float64)[:, None] * columns).reshape(spec.shape)
    for exact in dict.fromkeys((torch.float64, dtype)):  # what takes its own type alone is given that
        yield from (random.to(exact), random.sigmoid().to(exact))


def _of_output(source: Source, scores: Any, sizes: Sequence[int]) -> list[_Losses]:
    """The losses of `scores`; none where it needs something else, or is not finite of the whole."""
    import torch

    cuts, found = list(itertools.pairwise(itertools.accumulate(sizes, initial=0))), []
    with torch.no_grad(), torch.random.fork_rng(devices=()), contextlib.suppress(Exception):
        for target in _orders(source.inputs.get("target")):
            like = target.to(scores.dtype) if target is not None and target.is_floating_point() else target
            losses = [_loss(source.loss, scores[a:b], None if like is None else like[a:b])
                      for a, b in ((0, len(scores)), *cuts)]  # fmt: skip
            tolerance = max(EXACT, torch.finfo(losses[0].dtype).eps ** ROUNDED)
            found.append(_Losses(float(losses[0]), [float(part) for part in losses[1:]], tolerance))
    return found if all(math.isfinite(seen.whole) for seen in found) else []


def _orders(target: Any) -> list[Any]:
    """`target`, and its rows by their sums, so that parts differ in rows that are ignored or weighted by class."""
    if target is None or target.is_complex():
        return [target]
    return [target, target[target.reshape(len(target), -1).double().sum(1).argsort()]]


def _loss(loss: Any, scores: Any, target: Any) -> Any:
    return loss(scores, target) if target is not None else loss(scores)


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
