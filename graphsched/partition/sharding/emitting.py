"""The tasks of an unsplit workload, one by one, as tasks of the split one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphsched.partition.sharding.calls import Call, Local
from graphsched.partition.sharding.choosing import Chooser
from graphsched.partition.sharding.holdings import Holdings, Leaf, numbered
from graphsched.partition.sharding.layouts import Kind, Split
from graphsched.partition.sharding.rules import local
from graphsched.partition.sharding.spread import Spread
from graphsched.partition.sharding.views import name_of
from graphsched.workload import Task, Value


@dataclass(eq=False)
class Sharder:
    """Adds tasks to the split workload, on one device or on all.

    Attributes:
        held: What lies where.
        chooser: Which layers are split.
    """

    held: Holdings
    chooser: Chooser
    _names: dict[str, list[str]] = field(default_factory=dict)  # of tasks, by that of the unsplit one

    def __post_init__(self) -> None:
        self._spread = Spread(self.held)

    def add(self, tasks: Iterable[Task]) -> None:
        """Add what stands for these tasks, in this order; what a run returns is kept, whole and by its name."""
        for task in tasks:
            self._add(task)
        for value in self.held.source.values.values():
            if value.kind != "output" and value.name in self.held.source.kept:
                self._keep(value)

    def _add(self, task: Task) -> None:
        node = self.held.source.graph.nodes[task.name]
        self._spread.node = node
        call = self._call(task)
        if node["phase"] == "forward" and self.chooser.choose(call, task, node["module"]):
            call = self._call(task)
        found = local(call)
        if found is None:
            self._whole(call, task)
        else:
            self._parts(call, task, found)
        for value in task.updates:
            self._spread.changed(value.root)
        for value in task.outputs:
            if value.name in self.held.source.kept:
                self._keep(value)

    def _call(self, task: Task) -> Call:
        operation, reads = task.operation, [read.value.name for read in task.reads]
        assert operation is not None
        return Call(
            self._spread,
            name_of(operation),
            operation.function,
            self._spread.see(tuple(operation.args), reads),
            self._spread.see(dict(operation.kwargs), reads),
            tuple(value.root for value in task.updates),
            tuple(value.spec.shape for value in task.outputs if value.spec is not None),
        )

    def _whole(self, call: Call, task: Task) -> None:
        """`task` itself, on the first device."""
        call = _without_contents(call)
        args, kwargs = (self._spread.wanted(given, Kind.WHOLE, 0) for given in (call.args, dict(call.kwargs)))
        names = [value.name for value in task.outputs]
        made = self._task(call, task, task.name, call.function, args, kwargs, 0, names)
        for value, result in zip(task.outputs, made, strict=True):
            self.held.put(value.name, Kind.WHOLE, [result])

    def _parts(self, call: Call, task: Task, found: Local) -> None:
        """A task on each device."""
        by_device: list[list[Any]] = []
        for i, args in enumerate(found.args):
            function = found.functions[i] if found.functions else call.function
            name = self.held.free(numbered(task.name, i))
            results = self._task(call, task, name, function, args, call.kwargs, i)
            for place in found.missing if i > 0 else ():
                results.insert(place, None)
            by_device.append(results)
        for value, layout, made in zip(task.outputs, found.layouts, zip(*by_device, strict=True), strict=True):
            present = [result for result in made if result is not None]
            for i, result in enumerate(present):
                whole = self.held.shape(value.name)
                shape = layout.local(whole, i) if isinstance(layout, Split) else whole
                assert result.spec.shape == shape, f"{result} is no part of {value}"
            self.held.put(value.name, layout, present)

    def _task(
        self,
        call: Call,
        task: Task,
        name: str,
        function: Any,
        args: Any,
        kwargs: Any,
        i: int,
        names: Sequence[str] = (),
    ) -> list[Any]:
        """A task on device `i`, with the attributes of `task`; what it makes."""
        made = self.held.target.task(
            function,
            *self.held.filled(list(args)),
            name=name,
            updates=[self.held.value(Leaf(state, i)) for state in call.updates],
            names=names,
            device=self.held.devices[i],
            **self.held.filled(dict(kwargs)),
        )
        self._names.setdefault(task.name, []).append(name)
        attributes = {key: thing for key, thing in self.held.source.graph.nodes[task.name].items() if key != "task"}
        if "forward" in attributes:
            forward = self._names[attributes["forward"]]
            attributes["forward"] = forward[min(i, len(forward) - 1)]
        self.held.target.graph.nodes[name].update(attributes)
        return list(made) if isinstance(made, tuple) else [] if made is None else [made]

    def _keep(self, value: Value) -> None:
        """Return `value` from a run, whole and by its name."""
        import torch

        target, whole = self.held.target, self.held.filled(self._spread.whole(value.name, 0))
        if value.name not in target.values:
            target.task(torch.ops.aten.clone.default, whole, name=value.name, device=self.held.devices[0])
            target.graph.nodes[value.name].update(module="", phase="forward", exchange="clone")
        target.keep(target.values[value.name])


def _without_contents(call: Call) -> Call:
    """Memory of the shape of what is in parts (for random numbers, drawn whole): no part is moved for that."""
    import torch

    if call.name != "empty_like" or call.args[0].layout in (Kind.WHOLE, Kind.FREE):
        return call
    kwargs = {key: thing for key, thing in call.kwargs.items() if key == "dtype"}
    like = call.args[0]
    return replace(call, function=torch.ops.aten.new_empty.default, args=(like.at[0], list(like.shape)), kwargs=kwargs)
