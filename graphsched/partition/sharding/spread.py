"""The tensors of an unsplit workload on the devices of a split one, and the exchanges that bring their parts together.

An exchange is made once for all that read it, until a state changes. Sums run in the order of the devices, so that
results are the same in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphsched.partition.sharding.holdings import Holdings, Leaf
from graphsched.partition.sharding.layouts import Kind, Layout, Split
from graphsched.partition.sharding.views import (
    based,
    local_view,
    name_of,
    operation,
    reshape,
    shape_of,
    viewed,
    viewing,
)
from graphsched.workload import Operation, Slot, Value, like


@dataclass(frozen=True, eq=False)
class Seen:
    """An argument: a tensor of the unsplit workload, or a view of one.

    Attributes:
        base: Name of the tensor.
        template: The views of it, around a `Leaf`.
        shape: Of what is seen.
        layout: Of what is seen.
        at: Arguments that stand for it, by device; one if it is whole.
    """

    base: str
    template: Any
    shape: tuple[int, ...]
    layout: Layout
    at: tuple[Any, ...]


@dataclass(eq=False)
class Spread:
    """How tensors of an unsplit workload are seen by the tasks of the split one, with the exchanges they need.

    Attributes:
        held: What lies where.
        node: Attributes of the task of the unsplit workload for which exchanges are made.
    """

    held: Holdings
    node: Mapping[str, Any] = field(default_factory=dict)
    _exchanged: dict[tuple[Any, ...], Value] = field(default_factory=dict)
    _changes: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of devices."""
        return len(self.held.devices)

    # -- what is there ------------------------------------------------------------------------------

    def see(self, argument: Any, reads: Sequence[str]) -> Any:
        """`argument` of a task of `source` that reads these values, with a `Seen` in the place of each tensor."""
        if isinstance(argument, (Slot, Operation)):
            return self.seen(_leaves(argument, reads))
        if isinstance(argument, (list, tuple)):
            return like(argument, (self.see(thing, reads) for thing in argument))
        if isinstance(argument, dict):
            return {key: self.see(thing, reads) for key, thing in argument.items()}
        return argument

    def seen(self, template: Any) -> Seen:
        """A tensor, or views of it, as it lies now."""
        if isinstance(template, Leaf):
            return self._base(template)
        inner = viewing(template)
        of, args = self.seen(inner.args[0]), inner.args[1:]
        made = shape_of(template, of.shape)
        layout = viewed(name_of(inner), args, of.shape, made, of.layout)
        if layout is None:
            return Seen(of.base, template, made, Kind.WHOLE, (based(template, self.whole_view(of, 0), levels=1),))
        at = tuple(local_view(template, thing, made, layout, i) for i, thing in enumerate(of.at))
        return Seen(of.base, template, made, layout, at)

    def _base(self, leaf: Leaf) -> Seen:
        layout = self.held.layout(leaf.name)
        whole = layout in (Kind.WHOLE, Kind.FREE)
        at = tuple(Leaf(leaf.name, i) for i in range(1 if whole else self.count))
        return Seen(leaf.name, leaf, self.held.shape(leaf.name), layout, at)

    def settle(self, seen: Seen, layout: Layout) -> bool:
        """Give the state that is `seen` its place, so that it is seen in `layout`; whether that can be."""
        shape = self.held.shape(seen.base)
        candidates: list[Layout] = [layout] if isinstance(layout, Kind) else []
        if isinstance(layout, Split):
            for outer in dict.fromkeys((layout.outer, 1)):
                candidates += [Split(d, layout.sizes, outer) for d in range(len(shape))]
        for candidate in candidates:
            if isinstance(candidate, Split) and candidate.length() != shape[candidate.dim]:
                continue
            self.held.layouts[seen.base] = candidate
            if self.seen(seen.template).layout == layout:
                return True
        self.held.layouts[seen.base] = Kind.FREE
        return False

    def changed(self, name: str) -> None:
        """The state `name` is another from now on."""
        self._changes[name] = self._changes.get(name, 0) + 1

    # -- what a task asks for -----------------------------------------------------------------------

    def want(self, seen: Seen, layout: Layout, i: int) -> Any:
        """The argument of a task on device `i` that stands for what is `seen`, in `layout` (whole, or split)."""
        if seen.layout is Kind.FREE:
            if not self.settle(seen, layout):
                self.settle(seen, Kind.WHOLE)
            seen = self.seen(seen.template)
        if seen.layout == layout:
            return seen.at[0 if layout is Kind.WHOLE else i]
        if isinstance(layout, Split):
            return self._part(seen, layout, i)
        return self.whole_view(seen, i)

    def wanted(self, argument: Any, layout: Layout | None, i: int) -> Any:
        """The argument on device `i` that stands for `argument`, with all that is `Seen` in it in `layout`."""
        if isinstance(argument, Seen):
            return self.want(argument, layout or argument.layout, i)
        if isinstance(argument, (list, tuple)):
            return like(argument, (self.wanted(thing, layout, i) for thing in argument))
        if isinstance(argument, dict):
            return {key: self.wanted(thing, layout, i) for key, thing in argument.items()}
        return argument

    def whole_view(self, seen: Seen, i: int) -> Any:
        """What is `seen`, whole on device `i` or to be copied there."""
        if seen.layout is Kind.FREE:
            return self.want(seen, Kind.WHOLE, i)
        if seen.layout is Kind.WHOLE:
            return seen.at[0]
        if seen.layout is Kind.COPIES:
            return seen.at[i]
        return based(seen.template, self.whole(seen.base, i))

    def whole(self, name: str, i: int) -> Any:
        """The tensor `name`, whole on device `i` or to be copied there."""
        layout, shape = self.held.layout(name), self.held.shape(name)
        called = name if name in self.held.source.kept and self.held.source.values[name].kind == "output" else ""
        if isinstance(layout, Split):
            runs = [_runs(Leaf(name, j), layout.local(shape, j), layout) for j in range(self.count)]
            args = [runs, layout.dim + (layout.outer > 1)]
            direct = called if i == 0 and layout.outer == 1 else ""
            joint = self._exchange(("gather", name, i), i, lambda at: self._task("cat", at, name, i, args, direct))
            return joint if layout.outer == 1 else reshape(joint, shape)
        if layout is Kind.PARTIAL:
            terms = [Leaf(name, j) for j in range(self.count)]
            return self._exchange(("sum", name), 0, lambda at: self._sum(at, name, terms, 0, called))
        return Leaf(name, i if layout is Kind.COPIES else 0)

    def is_gathered(self, seen: Seen) -> bool:
        """Whether what is `seen` has been brought together on the first device already."""
        return self._key(("gather", seen.base, 0)) in self._exchanged

    def _part(self, seen: Seen, layout: Split, i: int) -> Any:
        if seen.layout is Kind.PARTIAL and self._key(("sum", seen.base)) not in self._exchanged:
            key = ("scatter", _text(seen.template), layout, i)
            return self._exchange(key, i, lambda at: self._sum(at, seen.base, self._slices(seen, layout, i), i))
        if seen.layout in (Kind.WHOLE, Kind.PARTIAL) and i > 0:
            return self._sliced(seen, self.whole_view(seen, 0), layout, i, 0)
        return _slice(self.whole_view(seen, i), seen.shape, layout, i)

    def _slices(self, seen: Seen, layout: Split, i: int) -> list[Any]:
        """Of each summand the part of device `i`."""
        return [
            _slice(thing, seen.shape, layout, i) if i == j else self._sliced(seen, thing, layout, i, j)
            for j, thing in enumerate(seen.at)
        ]

    def _sliced(self, seen: Seen, thing: Any, layout: Split, i: int, j: int) -> Any:
        """The part of device `i` of what is on device `j`, cut there, so that no more is copied."""
        cut = _slice(thing, seen.shape, layout, i)
        key = ("slice", _text(seen.template), layout, i, j)
        made = self._exchange(key, j, lambda at: self._task("clone", at, seen.base, i, [cut]))
        return reshape(made, layout.local(seen.shape, i)) if layout.outer > 1 else made

    # -- exchanges ----------------------------------------------------------------------------------

    def _exchange(self, key: tuple[Any, ...], i: int, make: Callable[[int], Value]) -> Value:
        """What `make` makes on device `i`, once."""
        found = self._key(key)
        if found not in self._exchanged:
            self._exchanged[found] = make(i)
        return self._exchanged[found]

    def _key(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*key, self._changes.get(str(key[1]).partition("|")[0], 0))

    def _sum(self, at: int, name: str, terms: Sequence[Any], i: int, called: str = "") -> Value:
        total: Any = terms[0]
        for number, term in enumerate(terms[1:], start=1):
            last = number == len(terms) - 1
            total = self._task("add", at, name, i, [total, term], called if last else "")
        made: Value = total
        return made

    def _task(self, operator: str, at: int, name: str, i: int, args: Sequence[Any], called: str = "") -> Value:
        """A task on device `at` of an exchange of the tensor `name` for device `i`."""
        import torch

        aten = torch.ops.aten
        functions = {"cat": aten.cat.default, "add": aten.add.Tensor, "clone": aten.clone.default}
        kwargs: dict[str, Any] = {"memory_format": torch.contiguous_format} if operator == "clone" else {}
        called = called or self.held.free(f"{name}/{operator}.{i}")
        made: Value = self.held.target.task(
            functions[operator], *self.held.filled(list(args)), name=called, device=self.held.devices[at], **kwargs
        )
        self.held.target.graph.nodes[called].update(
            module=self.node["module"], phase=self.node["phase"], exchange=operator
        )
        return made


def _leaves(template: Any, reads: Sequence[str]) -> Any:
    if isinstance(template, Slot):
        return Leaf(reads[template.index])
    if isinstance(template, Operation):
        return replace(template, args=tuple(_leaves(thing, reads) for thing in template.args))
    return template


def _runs(thing: Any, shape: Sequence[int], layout: Split) -> Any:
    """With a dimension for the repetitions, where there are any."""
    if layout.outer == 1:
        return thing
    return reshape(thing, (*shape[: layout.dim], layout.outer, -1, *shape[layout.dim + 1 :]))


def _slice(thing: Any, shape: Sequence[int], layout: Split, i: int) -> Any:
    import torch

    cut = torch.ops.aten.slice.Tensor
    begin, end = layout.bounds(i)
    found = operation(cut, _runs(thing, shape, layout), layout.dim + (layout.outer > 1), begin, end)
    return found if layout.outer == 1 else reshape(found, layout.local(shape, i))


def _text(template: Any) -> str:
    """What tells views apart; begins with the name of the tensor."""
    if isinstance(template, Leaf):
        return f"{template.name}|"
    return f"{_text(template.args[0])}{template.name}{template.args[1:]}"
