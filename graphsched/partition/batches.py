"""Rows of a batch over replicas: which tensors are cut, and where.

Not modelled: batches along another dimension than 0. A tensor that has as many rows as the batch by chance is cut too,
unless it is said to go whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from graphsched.errors import WorkloadError


def split(inputs: Mapping[str, Any], shards: int | Sequence[int], *, whole: Collection[str] = ()) -> dict[str, Any]:
    """Tensors of a whole batch as the inputs of replicas: ``x`` becomes ``0/x``, ``1/x``, …, for ``Program.run(**…)``.

    Tensors with as many rows as the batch are cut along dimension 0, as views; every replica gets all of the others.

    Args:
        inputs: Tensors by name. The batch is as long as ``target``, or as the first tensor that is cut where there is
            none.
        shards: How many replicas, or the rows of each; see `shard_sizes`.
        whole: Names of tensors that every replica gets, however many rows they have.

    Raises:
        WorkloadError: The rows do not fit the batch, or there is no such name.

    Example:
        >>> import torch
        >>> {name: t.tolist() for name, t in split({"x": torch.arange(3), "scale": torch.ones(())}, 2).items()}
        {'0/x': [0, 1], '0/scale': 1.0, '1/x': [2], '1/scale': 1.0}
    """
    sizes = shard_sizes(batch_size(inputs, whole), shards)
    starts = itertools.accumulate(sizes[:-1], initial=0)
    return {
        f"{i}/{name}": tensor
        for i, (start, size) in enumerate(zip(starts, sizes, strict=True))
        for name, tensor in rows_of(inputs, start, start + size, whole=whole).items()
    }


def rows_of(inputs: Mapping[str, Any], start: int, end: int, *, whole: Collection[str] = ()) -> dict[str, Any]:
    """Tensors of a whole batch for some of its rows, as views; the others, and those that go `whole`, stay.

    Raises:
        WorkloadError: As `batch_size`.
    """
    batch = batch_size(inputs, whole)
    return {
        name: tensor[start:end] if tensor.shape[:1] == (batch,) and name not in whole else tensor
        for name, tensor in inputs.items()
    }


def batch_size(inputs: Mapping[str, Any], whole: Collection[str] = ()) -> int:
    """Rows of ``target``, or of the first tensor where there is none; those that go `whole` are no batch.

    Raises:
        WorkloadError: It has no dimension 0, an input is no tensor, there is none, or none of a name that goes whole.
    """
    for unknown in (name for name in whole if name not in inputs):
        raise WorkloadError(f"whole= names {unknown!r}, which is no input: there are {', '.join(inputs)}")
    cut = [name for name in inputs if name not in whole]
    name = "target" if "target" in cut else next(iter(cut), None)
    for given, tensor in inputs.items():
        if not hasattr(tensor, "untyped_storage"):
            raise WorkloadError(f"input {given!r} is a {type(tensor).__name__}: give a tensor")
    if name is None or not inputs[name].shape:
        raise WorkloadError(f"there is no batch to split: {'no inputs' if name is None else f'{name!r} has no rows'}")
    return int(inputs[name].shape[0])


def shard_sizes(batch: int, shards: int | Sequence[int]) -> tuple[int, ...]:
    """Rows of each replica: as even as can be, the first ones larger, unless they are given.

    Raises:
        WorkloadError: A replica would have no rows, or given rows do not add up to the batch.

    Example:
        >>> shard_sizes(8, 3), shard_sizes(8, [5, 3])
        ((3, 3, 2), (5, 3))
    """
    numbers = list(shards) if isinstance(shards, Sequence) else [shards]
    if not all(type(number) is int for number in numbers):
        raise WorkloadError(f"shards is {shards!r}: a whole number, or whole numbers of rows, are needed")
    if isinstance(shards, int):
        if not 1 <= shards <= batch:
            raise WorkloadError(f"a batch of {batch} rows cannot be split over {shards} devices: each needs a row")
        return tuple(batch // shards + (i < batch % shards) for i in range(shards))
    if min(shards, default=0) < 1 or sum(shards) != batch:
        raise WorkloadError(f"shards of {list(shards)} rows do not make a batch of {batch}: each needs 1 row or more")
    return tuple(shards)
