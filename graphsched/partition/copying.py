"""Tasks of one workload, added to another under other names, on other devices, over other values.

Not modelled: barriers, and copies that the workload asks for: a traced workload has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from graphsched.workload import Operation, Slot, Task, Value, Workload, like


class Copier:
    """Adds tasks of `source` to `target`.

    Attributes:
        values: What stands in `target` for values of `source`, by their names; given ones are made on first use.

    Example:
        >>> import torch
        >>> work = Workload()
        >>> x = work.input("x", torch.ones(2))
        >>> y = work.task(torch.neg, x, name="y")
        >>> twice = Workload()
        >>> for i in range(2):
        ...     Copier(work, twice, lambda name, i=i: f"{i}/{name}", lambda task: f"cuda:{i}").add(work.tasks)
        >>> [(task.name, task.devices) for task in twice.tasks]
        [('0/y', ('cuda:0',)), ('1/y', ('cuda:1',))]
    """

    def __init__(
        self,
        source: Workload,
        target: Workload,
        named: Callable[[str], str],
        device: Callable[[Task], str | Sequence[str] | None],
        values: Mapping[str, Value] | None = None,
    ) -> None:
        """`named`: from names in `source` to names in `target`; `device`: where a task runs, and states it is first
        to use, which have no home where it may run on several; `values`: what is there already."""
        self.source, self.target = source, target
        self.values: dict[str, Value] = dict(values or {})
        self._named, self._device = named, device

    def add(self, tasks: Iterable[Task]) -> None:
        """Add these tasks, in this order, with the attributes of their nodes."""
        for task in tasks:
            self._add(task)

    def _add(self, task: Task) -> None:
        assert task.operation is not None
        assert task.operation.function is not None
        device = self._device(task)
        reads = [self._value(read.value, device) for read in task.reads]
        args, kwargs = _with_values((task.operation.args, dict(task.operation.kwargs)), reads)
        name = self._named(task.name)
        made = self.target.task(
            task.operation.function,
            *args,
            name=name,
            updates=[self._value(value, device) for value in task.updates],
            names=[self._named(value.name) for value in task.outputs],
            device=device or (),
            **kwargs,
        )
        for value, copy in zip(task.outputs, made if isinstance(made, tuple) else [made], strict=bool(task.outputs)):
            self.values[value.name] = copy
        attributes = {key: value for key, value in self.source.graph.nodes[task.name].items() if key != "task"}
        if "forward" in attributes:
            attributes["forward"] = self._named(attributes["forward"])
        self.target.graph.nodes[name].update(attributes)

    def _value(self, value: Value, device: str | Sequence[str] | None) -> Value:
        if value.name not in self.values:
            given: Any = self.source.tensors.get(value.name, value.spec)
            name = self._named(value.name)
            self.values[value.name] = (
                self.target.state(name, given, device=device if isinstance(device, str) else None)
                if value.kind == "state"
                else self.target.input(name, given, device=value.device or "cpu")
            )
        return self.values[value.name]


def _with_values(template: Any, values: list[Value]) -> Any:
    """Arguments with values in the place of slots."""
    if isinstance(template, Slot):
        return values[template.index]
    if isinstance(template, Operation):
        args, kwargs = _with_values((template.args, dict(template.kwargs)), values)
        return replace(template, args=args, kwargs=kwargs)
    if isinstance(template, (list, tuple)):
        return like(template, (_with_values(part, values) for part in template))
    if isinstance(template, Mapping):
        return {key: _with_values(part, values) for key, part in template.items()}
    return template
