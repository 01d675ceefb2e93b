"""What servers make of the values of one round: operations for a workload's tasks, or called on tensors at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphsched.collectives.operations import called, summed
from graphsched.collectives.requests import check_known
from graphsched.errors import WorkloadError
from graphsched.workload import Operation, TensorSpec, fake_mode, fill, for_once, operation_name

Update = Callable[[Any, Any], Any]
"""Called with what is stored, which it changes in place, and the aggregate."""


@dataclass(frozen=True)
class Aggregate:
    """How values become one.

    Attributes:
        name: For messages.
        operation: The call that does it, on values in the order in which they are to be added.
    """

    name: str
    operation: Callable[[Sequence[Any]], Operation]

    def of(self, tensors: Sequence[Any]) -> Any:
        """The aggregate of tensors, a new one.

        Example:
            >>> import torch
            >>> checked_aggregate("mean").of([torch.tensor([1.0]), torch.tensor([2.0])])
            tensor([1.5000])
        """
        return fill(self.operation(tensors), ())


def _mean(values: Sequence[Any]) -> Operation:
    return _aten("div_.Scalar", summed(values), len(values))


def _by_pairs(name: str, values: Sequence[Any]) -> Operation:
    if len(values) == 1:
        return called("clone", values[0])
    made: Operation = functools.reduce(functools.partial(_aten, name), values)
    return made


def _aten(name: str, *args: Any) -> Operation:
    import torch

    packet, _, overload = name.partition(".")
    function = getattr(getattr(torch.ops.aten, packet), overload)
    return Operation(operation_name(function), function, args)


AGGREGATES: Mapping[str, Aggregate] = {
    "sum": Aggregate("sum", summed),
    "mean": Aggregate("mean", _mean),
    "max": Aggregate("max", functools.partial(_by_pairs, "maximum.default")),
    "min": Aggregate("min", functools.partial(_by_pairs, "minimum.default")),
}


def checked_aggregate(given: str | Callable[..., Any]) -> Aggregate:
    """The aggregate of this name, or a function of k tensors that returns one like them.

    Raises:
        WorkloadError: There is none of this name.
    """
    if not callable(given):
        return AGGREGATES[check_known("aggregate", given, AGGREGATES)]
    name = operation_name(given)
    return Aggregate(name, lambda values: Operation(name, given, tuple(values)))


def checked_update(given: Any) -> Update | None:
    """What is called with the stored tensor and the aggregate, or None.

    Raises:
        WorkloadError: It cannot be called.
    """
    if given is not None and not callable(given):
        raise WorkloadError(f"update is {given!r}: give a function update(stored, aggregate) that changes stored")
    return given  # type: ignore[no-any-return]


class Checks:
    """Makes sure that keys can be aggregated and updated, once for each shape and type.

    It runs the functions on tensors without data, and on one number of each type: those without data do not tell which
    types torch can add.

    Args:
        aggregate, update: Of the store.
        workers: How many values are aggregated.
    """

    def __init__(self, aggregate: Aggregate, update: Update | None, workers: int) -> None:
        self._aggregate, self._update, self._workers = aggregate, update, workers
        self._passed: set[TensorSpec] = set()

    def check(self, key: str, spec: TensorSpec, sizes: Sequence[int]) -> None:
        """Check the parts of `key`, of `sizes` elements each.

        Raises:
            WorkloadError: One cannot be aggregated or updated; what stands in the way is said.
        """
        parts = {spec} if len(sizes) == 1 else {TensorSpec((size,), spec.dtype) for size in sizes}
        for part in parts - self._passed:
            try:
                self._check_aggregate(part)
                self._check_update(part)
            except WorkloadError as error:
                raise WorkloadError(f"key {key!r}: {error}") from error
            self._passed.add(part)

    def _check_aggregate(self, spec: TensorSpec) -> None:
        what = f"the {self._aggregate.name} of {self._workers} values {spec}"
        if self._aggregate in AGGREGATES.values():
            _check_number(self._aggregate, spec.dtype, what)
        fakes = _fakes(spec, self._workers)
        made = _called(lambda: self._aggregate.of(fakes), fakes, what)
        if any(fake._version for fake in fakes):
            raise WorkloadError(f"{what} changes a value in place: return a new tensor instead")
        found = TensorSpec.of(made) if hasattr(made, "untyped_storage") else type(made).__name__
        if not isinstance(found, TensorSpec) or (found.shape, found.dtype) != (spec.shape, spec.dtype):
            raise WorkloadError(f"{what} is {found}: return one tensor of their shape and type")
        if made.untyped_storage()._cdata in (fake.untyped_storage()._cdata for fake in fakes):
            raise WorkloadError(f"{what} is one of them: return a new tensor, as its clone")

    def _check_update(self, spec: TensorSpec) -> None:
        update = self._update
        if update is None:
            return
        what = f"update {getattr(update, '__name__', update)!s}(stored, aggregate) of {spec}"
        stored, total = fakes = _fakes(spec, 2)
        _called(lambda: update(stored, total), fakes, what)
        if not stored._version or total._version:
            did = "the aggregate" if total._version else "nothing"
            raise WorkloadError(f"{what} changes {did} in place: change stored, and nothing else")


def _fakes(spec: TensorSpec, count: int) -> list[Any]:
    """Tensors without data."""
    import torch

    with torch.inference_mode(False), fake_mode():
        fakes = [torch.empty(spec.shape, dtype=getattr(torch, spec.dtype)) for _ in range(count)]
        if spec.stride is not None:
            fakes = [torch.empty_strided(spec.shape, spec.stride, dtype=fake.dtype) for fake in fakes]
    return fakes


def _called(call: Callable[[], Any], fakes: Sequence[Any], what: str) -> Any:
    import torch

    try:
        with for_once(fakes[0].fake_mode), torch.no_grad():
            return call()
    except Exception as error:
        raise WorkloadError(f"{what} failed without data ({type(error).__name__}: {error}): use another one") from error


def _check_number(aggregate: Aggregate, dtype: str, what: str) -> None:
    import torch

    number = torch.zeros(1, dtype=torch.uint8).to(getattr(torch, dtype))
    try:
        aggregate.of([number, number])
    except (RuntimeError, NotImplementedError) as error:
        raise WorkloadError(f"{what}: torch has none ({error}); convert the values first, as to float32") from error
