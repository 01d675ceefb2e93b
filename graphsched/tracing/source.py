"""What a workload was traced from, so that it can be traced again: with other inputs, split layers, on devices."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from graphsched.errors import TraceError
from graphsched.tracing.emitting import Devices, Emitter
from graphsched.tracing.rebinding import Bound
from graphsched.tracing.recording import recorded
from graphsched.workload import Workload, check_name

GRAINS = ("operator", "module")


@dataclass(frozen=True)
class Source:
    """A function of tensors with what it works on.

    Attributes:
        function: A module, or a function of tensors.
        inputs: Tensors by name of the input; with a target the last is ``target``.
        modules, optimizers: That it uses, by name.
        loss: Of a training step: a function of the module's output and the target.
        name: Of the workload.
        grain: A task for each ``operator`` or for each ``module``.
    """

    function: Callable[..., Any]
    inputs: Mapping[str, Any]
    modules: Mapping[str, Any] = field(default_factory=dict)
    optimizers: Mapping[str, Any] = field(default_factory=dict)
    loss: Callable[..., Any] | None = None
    name: str = "workload"
    grain: str = "operator"

    def again(self, **changed: Any) -> Source:
        """The same with other attributes.

        Raises:
            TraceError: Inputs have other names.
        """
        inputs = changed.get("inputs", self.inputs)
        if inputs.keys() != self.inputs.keys():
            raise TraceError(f"inputs are {', '.join(inputs)}: {', '.join(self.inputs)} are needed")
        return replace(self, **{**changed, "inputs": {name: inputs[name] for name in self.inputs}})

    def trace(self, devices: Devices | str | None = None) -> Workload:
        """The workload, whose ``source`` is this.

        Args:
            devices: Where inputs, states and tasks are: one device, or a function of a module's path; an update
                runs where its parameter is. Default: the plan decides.

        Raises:
            TraceError: It cannot be traced, see `tracing.trace`.
        """
        if self.grain not in GRAINS:
            raise TraceError(f"grain is {self.grain!r}: one of {', '.join(GRAINS)} is needed")
        work = Workload(self.name)
        recorder, results = recorded(self._step(), Bound(self.modules, self.optimizers), self.inputs, by_name)
        given = {name: tensor for name, (_, tensor) in recorder.given.items()}
        where = devices if callable(devices) else lambda _: devices
        Emitter(work, given, self.inputs, where).emit(recorder.calls, results, grain=self.grain)
        work.source, work.returns_unread = self, False
        return work

    def _step(self) -> Callable[..., Any]:
        if self.loss is None:
            return self.function
        return functools.partial(_train, self.function, self.loss, self.optimizers, "target" in self.inputs)


def _train(network: Any, loss: Any, optimizers: Mapping[str, Any], has_target: bool, *tensors: Any) -> dict[str, Any]:
    """A training step as users write it."""
    inputs, target = (tensors[:-1], tensors[-1:]) if has_target else (tensors, ())
    output = network(*inputs)
    value = loss(output, *target)
    value.backward()
    results = {"loss": value, **by_name(output)}
    for optimizer in optimizers.values():
        optimizer.step()
    if optimizers:
        return results
    return results | {f"grad/{key}": p.grad for key, p in network.named_parameters() if p.grad is not None}


def by_name(results: Any) -> dict[str, Any]:
    """The tensors that a function returns, by name.

    Raises:
        TraceError: It returned something else than a tensor, a tuple or dict of them, or None.
    """
    import torch

    if results is None:
        return {}
    if isinstance(results, torch.Tensor):
        return {"output": results}
    if isinstance(results, (list, tuple)):
        results = {f"output.{i}": thing for i, thing in enumerate(results)}
    if isinstance(results, Mapping) and all(isinstance(thing, torch.Tensor) for thing in results.values()):
        return {check_name(str(key)): thing for key, thing in results.items()}
    raise TraceError("the function must return a tensor, or a tuple or dict of tensors, or None")
