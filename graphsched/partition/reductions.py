"""Whether the loss of a batch is the mean, or the sum, of its parts' losses.

Not modelled: losses that a traced function computes itself, which are taken as they are said to be; layers before the
loss that look at several rows of the batch at once, other than batch normalisation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from graphsched.errors import WorkloadError
from graphsched.workload import Workload

REDUCTIONS = ("mean", "sum")
TOLERANCE = 1e-3  # of the loss; single precision is much closer, another reduction much farther off


def check_loss(work: Workload, sizes: Sequence[int], reduction: str) -> None:
    """Make sure that the loss of `work` over a batch is the `reduction` of the losses of its parts.

    It is called on a random output, whole and in parts of `sizes` rows. Nothing is checked where the loss is not given
    to the trace, or needs more than an output with a row for each of the batch.

    Raises:
        WorkloadError: It is not: weights of classes, ignored rows, a root of the mean, pairs of rows.
    """
    values = _losses(work, sizes)
    if values is None:
        return
    whole, parts = values
    rows = sum(sizes)
    weights = [size / rows for size in sizes] if reduction == "mean" else [1.0] * len(sizes)
    combined = math.fsum(weight * part for weight, part in zip(weights, parts, strict=True))
    if not math.isclose(combined, whole, rel_tol=TOLERANCE, abs_tol=TOLERANCE * max(map(abs, parts), default=0.0)):
        raise WorkloadError(
            f"the loss is no {reduction} over rows: of a random output it is {whole:.6g} for all {rows} rows, and "
            f"{combined:.6g} put together from parts of {', '.join(map(str, sizes))} rows: split it with another "
            f"reduction= ({', '.join(REDUCTIONS)}), or use a loss that is one of these"
        )


def _losses(work: Workload, sizes: Sequence[int]) -> tuple[float, list[float]] | None:
    """The loss of all rows of a random output, and of each part."""
    import torch

    source, output = work.source, work.values.get("output")
    spec = output.spec if output is not None else None
    if source.loss is None or len(sizes) < 2 or spec is None or spec.shape[:1] != (sum(sizes),):
        return None
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(spec.shape, generator=generator, dtype=torch.float32).to(getattr(torch, spec.dtype))
    target = source.inputs.get("target")
    cuts = list(itertools.pairwise(itertools.accumulate(sizes, initial=0)))
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=()):
            whole = _loss(source.loss, scores, target)
            return whole, [_loss(source.loss, scores[a:b], None if target is None else target[a:b]) for a, b in cuts]
    except Exception:  # it needs something else than such an output: nothing can be said
        return None


def _loss(loss: Any, scores: Any, target: Any) -> float:
    return float(loss(scores, target) if target is not None else loss(scores))
