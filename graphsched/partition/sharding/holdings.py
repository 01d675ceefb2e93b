"""Where the tensors of an unsplit workload lie in a split one: their parts, by device."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphsched.partition.sharding.layouts import Kind, Layout, Split, part
from graphsched.partition.sharding.views import is_view, name_of, reshape
from graphsched.workload import Operation, Value, Workload, like


@dataclass(frozen=True)
class Leaf:
    """A tensor of the unsplit workload, by name, among arguments; with a number its part on that device."""

    name: str
    device: int | None = None


@dataclass(eq=False)
class Holdings:
    """Values of `target` that hold the tensors of `source`.

    Attributes:
        source, target: The unsplit and the split workload.
        devices: Names; what is whole is on the first.
        layouts: Of the tensors met so far, by name.
    """

    source: Workload
    target: Workload
    devices: Sequence[str]
    layouts: dict[str, Layout] = field(default_factory=dict)
    _values: dict[tuple[str, int], Value] = field(default_factory=dict)

    @functools.cached_property
    def _changed(self) -> set[str]:
        """States of the source that some task changes: no constants, whatever they are called."""
        return {value.root for task in self.source.tasks for value in task.updates}

    def layout(self, name: str) -> Layout:
        """Of the tensor `name`; of one not met before the first one."""
        if name not in self.layouts:
            self.layouts[name] = self._first_layout(self.source.values[name])
        return self.layouts[name]

    def _first_layout(self, value: Value) -> Layout:
        if value.kind != "state":
            return Kind.WHOLE
        if re.fullmatch(r"constant(\.\d+)?", value.name) and value.name not in self._changed:
            return Kind.COPIES
        parameter = value.name.partition("/")[0]
        if parameter == value.name:
            return Kind.FREE
        layout = self.layouts.get(parameter, Kind.WHOLE)
        if isinstance(layout, Split):
            return layout if value.spec == self.source.values[parameter].spec else Kind.COPIES
        return Kind.WHOLE

    def put(self, name: str, layout: Layout, made: Sequence[Value]) -> None:
        """The tensor `name` of `source` is now there as `made`, by device (one if it is whole)."""
        self.layouts[name] = layout
        self._values.update({(name, i): value for i, value in enumerate(made)})

    def value(self, leaf: Leaf) -> Value:
        """Of `target`; states are made when they are first asked for."""
        i = leaf.device or 0
        if (leaf.name, i) not in self._values:
            self._values[leaf.name, i] = self._state(leaf.name, i)
        return self._values[leaf.name, i]

    def parts(self) -> dict[str, tuple[Layout, tuple[str, ...]]]:
        """Layout and names of the states of `target`, by name of the state of `source`."""
        states = {name: layout for name, layout in self.layouts.items() if self.source.values[name].kind == "state"}
        named = {
            name: (layout, [self._values[name, i].name for i in range(len(self.devices)) if (name, i) in self._values])
            for name, layout in states.items()
        }
        return {name: (layout, tuple(names)) for name, (layout, names) in named.items() if names}

    def _state(self, name: str, i: int) -> Value:
        layout, tensor, device = self.layouts[name], self.source.tensors[name].detach(), self.devices[i]
        if layout in (Kind.WHOLE, Kind.FREE):
            self.layouts[name] = Kind.WHOLE
            return self.target.state(name, tensor, device=device)
        called = self.free(numbered_state(name, i))
        if isinstance(layout, Split):
            return self.target.state(called, part(tensor, layout, i), device=device)
        return self.target.state(called, tensor.clone(), device=device)

    def filled(self, template: Any) -> Any:
        """Arguments with values of `target` in the place of leaves."""
        if isinstance(template, Leaf):
            return self.value(template)
        if isinstance(template, Operation):
            made = replace(template, args=self.filled(template.args), kwargs=self.filled(dict(template.kwargs)))
            return made if name_of(made) not in ("view", "_unsafe_view") or is_view(made) else reshape(*made.args)
        if isinstance(template, (list, tuple)):
            return like(template, (self.filled(thing) for thing in template))
        if isinstance(template, dict):
            return {key: self.filled(thing) for key, thing in template.items()}
        return template

    def free(self, stem: str) -> str:
        """`stem`, with a number where that is taken, now or in the unsplit workload."""
        name, number = stem, 1
        works = (self.source, self.target)
        while any(name in work.graph or name in work.values for work in works):
            number += 1
            name = f"{stem}.{number}"
        return name

    def shape(self, name: str) -> tuple[int, ...]:
        """Of the whole tensor `name`."""
        return self.source.values[name].spec.shape  # type: ignore[union-attr]


def numbered(name: str, i: int) -> str:
    """Name of the part on device `i` of a task.

    Example:
        >>> numbered("fc1/addmm", 1), numbered("output", 0)
        ('fc1.1/addmm', 'output.0')
    """
    module, slash, operator = name.rpartition("/")
    return f"{module}.{i}/{operator}" if slash else f"{name}.{i}"


def numbered_state(name: str, i: int) -> str:
    """Name of the part on device `i` of a state.

    Example:
        >>> numbered_state("fc1.weight/step", 1), numbered_state("W1", 0)
        ('fc1.1.weight/step', 'W1.0')
    """
    parameter, slash, key = name.partition("/")
    module, dot, leaf = parameter.rpartition(".")
    return (f"{module}.{i}.{leaf}" if dot else f"{parameter}.{i}") + slash + key
