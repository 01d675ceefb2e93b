"""Recorded calls as the tasks of a workload.

What nothing needs is left out. Tensors that are the same in every run (ones, ranges, masks) become states that no
task changes; those that take after another's shape only up to `LARGEST_CONSTANT`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from graphsched.tracing.aliases import Origin, origins, replaced
from graphsched.tracing.blocks import block_of, by_module, layer
from graphsched.tracing.recorder import Call
from graphsched.workload import Operation, TensorSpec, Value, Workload, element_bytes, fill

LARGEST_CONSTANT = 1 << 20  # bytes
BY_SHAPE = ("ones_like", "zeros_like", "full_like", "empty_like", "new_ones", "new_zeros", "new_full", "new_empty")
_PLACES = ("device", "pin_memory")  # a task runs where the plan says

Devices = Callable[[str], str | None]
"""From a module's path to where its tasks and states are; None: the plan decides."""


class Emitter:
    """Puts calls into a workload.

    Attributes:
        work: The workload.
        tasks: Names of the tasks of calls, by identity.
    """

    def __init__(self, work: Workload, given: Mapping[str, Any], inputs: Iterable[str], devices: Devices) -> None:
        """`given`: tensors of inputs, states and constants met on the way, by name; `inputs`: which are inputs."""
        self.work = work
        self.tasks: dict[int, str] = {}
        self._given, self._inputs, self._devices = given, list(inputs), devices
        self._values: dict[int, Value] = {}  # by identity of the origin
        self._same: dict[int, Any] = {}  # tensors that are the same in every run, by identity of the origin
        self._constants: dict[str, Value] = {}  # by content
        self._here: str | None = None
        self._results: frozenset[str] = frozenset()  # names of what is asked for

    def emit(self, calls: Sequence[Call], results: Mapping[str, Any], *, grain: str) -> None:
        """Tasks for `calls`, as far as `results` (arguments by name) or states need them; results are kept."""
        self._here = self._devices("")
        self._results = frozenset(results)
        for name in self._inputs:
            self.work.input(name, self._given[name], device=self._here or "cpu")
        needed = _needed(calls, results.values())
        for call in needed:
            call.kwargs = {key: value for key, value in call.kwargs.items() if key not in _PLACES}
        needed = [call for call in needed if not self._is_constant(call)]
        asked = {id(template): name for name, template in results.items() if isinstance(template, Origin)}
        if grain == "module":
            self._blocks(by_module(needed), results, asked)
        else:
            for call in needed:
                self._operator(call, asked)
        for name, template in results.items():
            self.work.keep(self._result(name, template))

    # -- tasks -------------------------------------------------------------------------------------

    def _operator(self, call: Call, asked: Mapping[int, str]) -> None:
        """One task for one call."""
        operator = call.function._schema.name.rpartition("::")[2].strip("_")
        made = [origin for origin, _ in call.outputs]
        self._task([call], call.function, call.args, call.kwargs, made, asked, operator)

    def _blocks(self, groups: Sequence[list[Call]], results: Mapping[str, Any], asked: Mapping[int, str]) -> None:
        """One task for each group of calls."""
        used = [{id(origin) for call in group for origin in origins((call.args, call.kwargs))} for group in groups]
        later = [{id(origin) for origin in origins(list(results.values()))}]
        for uses in reversed(used):
            later.append(later[-1] | uses)
        for i, group in enumerate(groups):
            block, arguments, made = block_of(group, later[len(groups) - 1 - i])
            names = list(dict.fromkeys(c.function._schema.name.rpartition("::")[2].strip("_") for c in group))
            self._task(group, block, tuple(arguments), {}, made, asked, "" if layer(group[0]) else "+".join(names[:3]))

    def _task(
        self,
        calls: Sequence[Call],
        function: Any,
        args: Any,
        kwargs: Any,
        made: Sequence[Origin],
        asked: Mapping[int, str],
        what: str,
    ) -> None:
        call = calls[0]
        self._here = self._device(call)
        args, kwargs = replaced((args, kwargs), self._value)
        updates = dict.fromkeys(self._value(origin) for call in calls for origin in call.updates)
        names = [asked.get(id(origin)) for origin in made]
        several = len(names) if len(names) > 1 else 0
        task = names[0] if len(names) == 1 and names[0] else self._free(_stem(call, what), several)
        called = [name or f"{task}.{i}" for i, name in enumerate(names)] if several else ()
        found = self.work.task(
            function, *args, name=task, updates=list(updates), names=called, device=self._here or (), **kwargs
        )
        values = found if isinstance(found, tuple) else [found] * len(made)
        self._values.update(zip(map(id, made), values, strict=True))
        self.tasks.update(dict.fromkeys(map(id, calls), task))
        self._note(task, call)

    def _note(self, task: str, call: Call) -> None:
        node = self.work.graph.nodes[task]
        node.update(module=layer(call), phase=call.phase)
        if call.forward is not None and id(call.forward) in self.tasks:
            node["forward"] = self.tasks[id(call.forward)]

    def _device(self, call: Call) -> str | None:
        """Where the call's module is; an update runs where the parameter is."""
        if call.phase == "update":
            for origin in (*call.updates, *origins((call.args, call.kwargs))):
                parameter = self.work.values.get(origin.name.partition("/")[0])
                if origin.is_state and parameter is not None:
                    return parameter.device
        return self._devices(call.module)

    def _free(self, stem: str, outputs: int = 0) -> str:
        """`stem`, with a number where that, or the name of one of so many outputs after it, is taken or spoken for."""
        taken = (self.work.graph, self.work.values, self._given, self._results)
        name, number = stem, 1
        while any(wanted in names for wanted in (name, *(f"{name}.{i}" for i in range(outputs))) for names in taken):
            number += 1
            name = f"{stem}.{number}"
        return name

    def _result(self, name: str, template: Any) -> Value:
        """The value of a result; what is no task's own output by that name is copied into one."""
        import torch

        value = self._value(template) if isinstance(template, Origin) else None
        if value is None or value.kind != "output" or value.name != name:
            self._here = self._devices("")
            clone = torch.ops.aten.clone.default
            value = self.work.task(clone, replaced(template, self._value), name=name, device=self._here or ())
            self.work.graph.nodes[name].update(module="", phase="forward")
        return value

    # -- values ------------------------------------------------------------------------------------

    def _value(self, origin: Origin) -> Value:
        value = self._values.get(id(origin))
        if value is None:
            value = self._values[id(origin)] = self._place(origin)
        return value

    def _place(self, origin: Origin) -> Value:
        if id(origin) in self._same:
            return self._constant(self._same[id(origin)])
        if not origin.is_state:
            return self.work.values[origin.name]
        name = self._free(origin.name) if origin.name in self._results else origin.name  # a constant's, not the user's
        return self.work.state(name, self._given[origin.name].detach(), device=self._here)

    def _constant(self, tensor: Any) -> Value:
        """A state that holds `tensor`; one on each device for all that are equal."""
        content = hashlib.sha256(element_bytes(tensor)).hexdigest()
        key = f"{self._here} {TensorSpec.of(tensor)} {content}"
        if key not in self._constants:
            self._constants[key] = self.work.state(self._free("constant"), tensor, device=self._here)
        return self._constants[key]

    # -- constants ---------------------------------------------------------------------------------

    def _is_constant(self, call: Call) -> bool:
        """Whether `call` makes the same tensors in every run; if so they are made here, once."""
        if call.updates or call.is_random:
            return False
        by_shape = call.function._schema.name.removeprefix("aten::") in BY_SHAPE
        if by_shape and sum(TensorSpec.of(tensor).nbytes for _, tensor in call.outputs) <= LARGEST_CONSTANT:
            fake = call.outputs[0][1]
            made = _laid_out(call.function(_zeros(fake), *call.args[1:], **call.kwargs), fake)
        elif not by_shape and all(id(origin) in self._same for origin in origins((call.args, call.kwargs))):
            known = replaced((call.args, call.kwargs), lambda origin: self._same[id(origin)])
            made = fill(Operation("", call.function, *known), ())
        else:
            return False
        for (origin, _), tensor in zip(call.outputs, made if isinstance(made, (list, tuple)) else [made], strict=True):
            self._same[id(origin)] = tensor.zero_() if "empty" in call.function._schema.name else tensor
        return True


def _stem(call: Call, what: str) -> str:
    """Module, phase and operator."""
    place = call.module
    if call.phase == "update":
        states = [o.name for o in (*call.updates, *origins((call.args, call.kwargs))) if o.is_state]
        parameter = states[0].partition("/")[0] if states else ""
        place = "/".join(filter(None, ["update", parameter if what else layer(call)]))
    elif call.phase == "backward":
        place = f"{place or 'network'}.backward"
    return "/".join(filter(None, [place, what]))


def _zeros(like_this: Any) -> Any:
    import torch

    return torch.zeros(like_this.shape, dtype=like_this.dtype)


def _laid_out(tensor: Any, as_this: Any) -> Any:
    """`tensor` with the strides of another of its shape: views that are written to, and random numbers, go by them."""
    import torch

    return torch.empty_strided(as_this.shape, as_this.stride(), dtype=tensor.dtype).copy_(tensor)


def _needed(calls: Sequence[Call], results: Iterable[Any]) -> list[Call]:
    """Those that results or states depend on, and those that draw random numbers, so that others draw theirs."""
    wanted = {id(origin) for origin in origins(list(results))}
    found = []
    for call in reversed(calls):
        if call.updates or call.is_random or any(id(origin) in wanted for origin, _ in call.outputs):
            found.append(call)
            wanted.update(id(origin) for origin in origins((call.args, call.kwargs)))
    return found[::-1]
