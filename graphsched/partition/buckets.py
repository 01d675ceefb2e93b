"""Buckets of gradients, and replicas that put their own in and take the sums out.

A bucket is a run of gradients in the order in which the backward pass makes them, flat in one tensor, so that its sum
takes few copies and kernels and is under way while earlier layers are still in backward.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphsched.collectives.operations import called
from graphsched.partition.copying import Copier
from graphsched.workload import Operation, Value, Workload

ALIGNED = 32  # elements: parts of a bucket begin where kernels can load several at once


@dataclass(frozen=True)
class Bucket:
    """Gradients that are summed together.

    Attributes:
        name: Of its tasks.
        gradients: Values of one replica's workload, in order.
    """

    name: str
    gradients: tuple[Value, ...]

    def sizes(self) -> list[int]:
        """Elements of each gradient."""
        return [math.prod(_shape(gradient)) for gradient in self.gradients]


@dataclass(frozen=True)
class Replica:
    """One replica in the making.

    Attributes:
        name: Before its tasks' names.
        device: Where it runs.
        copier: Adds its tasks.
        sums: What stands for a gradient outside the backward pass, by name of the gradient.
    """

    name: str
    device: str
    copier: Copier
    sums: dict[str, Any] = field(default_factory=dict)

    def add(self, task: str, *, reads_sums: bool) -> None:
        """The task of the traced workload; where it `reads_sums`, these stand for gradients.

        Where it counts elements from the start of memory (``as_strided``), it reads a copy of the part of the sum.
        """
        source, values = self.copier.source, self.copier.values
        names = [r.value.name for r in source[task].reads if reads_sums and r.value.name in self.sums]
        sums = {name: self.sums[name] for name in names}
        if sums and "as_strided" in repr(source[task].operation):
            sums = {name: called("clone", total) for name, total in sums.items()}
        own = {name: values[name] for name in names}
        values.update(sums)
        self.copier.add([source[task]])
        values.update(own)

    def reduce(self, bucket: Bucket, what: str, operation: Operation, **more: Any) -> Any:
        """A task of the phase ``reduce`` on this replica's device."""
        name = f"{self.name}/{bucket.name}/{what}"
        return add_task(self.copier.target, operation, name=name, device=self.device, phase="reduce", **more)

    def gradients(self, bucket: Bucket) -> list[Value]:
        """Its own, not yet summed."""
        return [self.copier.values[gradient.name] for gradient in bucket.gradients]

    def take(self, bucket: Bucket, whole: Value) -> None:
        """Views of the flat sum `whole` as the sums of the bucket's gradients."""
        starts = itertools.accumulate(bucket.sizes(), initial=0)
        for gradient, (start, end) in zip(bucket.gradients, itertools.pairwise(starts), strict=True):
            self.sums[gradient.name] = _view(whole, start, end, _shape(gradient))


def in_buckets(gradients: Iterable[tuple[int, Value]], bucket_bytes: int) -> list[Bucket]:
    """Gradients, each with how many sums come before it, put together in order.

    A bucket holds one gradient, or several of one type with the same number of sums before them that have
    `bucket_bytes` together at most.

    Example:
        >>> from graphsched.workload import TensorSpec
        >>> made = [(0, Value(name, "output", 400, TensorSpec((100,)))) for name in "abc"]
        >>> [[gradient.name for gradient in bucket.gradients] for bucket in in_buckets(made, 800)]
        [['a', 'b'], ['c']]
    """
    groups: list[list[Value]] = []
    last: Any = None
    for before, gradient in gradients:
        kind = before, gradient.spec and gradient.spec.dtype
        if kind != last or sum(g.nbytes for g in groups[-1]) + gradient.nbytes > bucket_bytes:
            groups.append([])
        groups[-1].append(gradient)
        last = kind
    return [Bucket(f"bucket.{number}", tuple(group)) for number, group in enumerate(groups)]


def part_sizes(elements: int, parts: int) -> list[int]:
    """Elements of each part, all but the last multiples of `ALIGNED`; fewer parts where there is too little.

    Example:
        >>> part_sizes(1000, 3), part_sizes(40, 3)
        ([352, 352, 296], [32, 8])
    """
    size = max(1, math.ceil(elements / parts / ALIGNED)) * ALIGNED
    return [min(size, elements - start) for start in range(0, max(elements, 1), size)]


def flat(values: Sequence[Any]) -> Operation:
    """All elements, one value after the other."""
    return called("cat", [called("reshape", value, [-1]) for value in values])


def flat_parts(values: Sequence[Any], sizes: Sequence[int]) -> Operation:
    """The same, cut into parts of these sizes."""
    return called("split", flat(values), list(sizes))


def weighted(values: Sequence[Any], weights: Sequence[float]) -> Operation:
    """The sum of products, from first to last."""
    first, *others = [called("mul", *pair) for pair in zip(values, weights, strict=True)]
    return functools.reduce(lambda total, product: called("add_", total, product), others, first)


def add_task(work: Workload, operation: Operation, *, name: str, device: str, phase: str, **more: Any) -> Any:
    """A task of `work` that calls `operation`; its values."""
    assert operation.function is not None
    made = work.task(operation.function, *operation.args, name=name, device=device, **operation.kwargs, **more)
    work.graph.nodes[name].update(module="", phase=phase)
    return made


def _view(value: Value, start: int, end: int, shape: tuple[int, ...]) -> Operation:
    """Elements `start` to `end` of a flat value, in this shape."""
    return called("view", called("slice", value, 0, start, end), list(shape))


def _shape(value: Value) -> tuple[int, ...]:
    assert value.spec is not None
    return value.spec.shape
