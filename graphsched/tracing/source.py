"""What a workload was traced from, so that it can be traced again: with other inputs, split layers, on devices."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from graphsched.errors import TraceError
from graphsched.tracing.emitting import Devices, Emitter
from graphsched.tracing.rebinding import Bound
from graphsched.tracing.recording import recorded
from graphsched.workload import Workload, check_name, like

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
        arguments: Of the function, with names of inputs in the place of tensors; empty: each input is one.
    """

    function: Callable[..., Any]
    inputs: Mapping[str, Any]
    modules: Mapping[str, Any] = field(default_factory=dict)
    optimizers: Mapping[str, Any] = field(default_factory=dict)
    loss: Callable[..., Any] | None = None
    name: str = "workload"
    grain: str = "operator"
    arguments: tuple[Any, ...] = ()

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
        import torch

        if self.grain not in GRAINS:
            raise TraceError(f"grain is {self.grain!r}: one of {', '.join(GRAINS)} is needed")
        work = Workload(self.name)
        where = devices if callable(devices) else lambda _: devices
        with torch.device("cpu"):  # whatever the user's default is: a trace holds for any device
            recorder, results = recorded(self._step(), Bound(self.modules, self.optimizers), self.inputs, by_name)
            given = {name: tensor for name, (_, tensor) in recorder.given.items()}
            Emitter(work, given, self.inputs, where).emit(recorder.calls, results, grain=self.grain)
        work.source, work.returns_unread = self, False
        return work

    def _step(self) -> Callable[..., Any]:
        call = functools.partial(_called, self.function, self.arguments, list(self.inputs))
        if self.loss is None:
            return call
        return functools.partial(_train, self.function, call, self.loss, self.optimizers, "target" in self.inputs)


def _called(function: Any, arguments: tuple[Any, ...], names: Sequence[str], *tensors: Any) -> Any:
    """`function` of `arguments` with these tensors, or of the tensors themselves."""
    return function(*(_filled(arguments, dict(zip(names, tensors, strict=False))) if arguments else tensors))


def _filled(thing: Any, tensors: Mapping[str, Any]) -> Any:
    """`thing` with tensors in the place of their names."""
    if isinstance(thing, Mapping):
        return {key: _filled(part, tensors) for key, part in thing.items()}
    return (
        like(thing, (_filled(part, tensors) for part in thing)) if isinstance(thing, (list, tuple)) else tensors[thing]
    )


def _train(
    network: Any, call: Any, loss: Any, optimizers: Mapping[str, Any], has_target: bool, *tensors: Any
) -> dict[str, Any]:
    """A training step as users write it; `call` calls the network."""
    inputs, target = (tensors[:-1], tensors[-1:]) if has_target else (tensors, ())
    output = call(*inputs)
    value = loss(output, *target)
    _check_loss(value)
    value.backward()
    results = {"loss": value, **by_name(output)}
    for optimizer in optimizers.values():
        optimizer.step()
    if optimizers:
        return results
    return results | {f"grad/{key}": p.grad for key, p in network.named_parameters() if p.grad is not None}


def _check_loss(value: Any) -> None:
    import torch

    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        found = f"shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
        raise TraceError(f"the loss is {found}: a tensor with one element is needed, such as the mean over the batch")
    if not value.requires_grad:
        raise TraceError(
            "the loss depends on no parameter that requires a gradient: unfreeze one, and trace outside of "
            "torch.no_grad and torch.inference_mode; or trace without loss="
        )


def by_name(results: Any) -> dict[str, Any]:
    """The tensors that a function returns, by name: of what is in another, ``outer.inner``; None is left out.

    Raises:
        TraceError: It returned something else than tensors, or tuples, lists or dicts of them, or two of one name.

    Example:
        >>> import torch
        >>> list(by_name((torch.ones(1), {"last": torch.ones(1), "cells": (torch.ones(1), None)})))
        ['output.0', 'output.1.last', 'output.1.cells.0']
    """
    named: dict[str, Any] = {}
    for name, tensor in _results(results, ""):
        if named.setdefault(check_name(name), tensor) is not tensor:
            raise TraceError(f"the function returns two tensors by the name {name!r}: return them by other keys")
    return named


def _results(results: Any, name: str) -> Iterator[tuple[str, Any]]:
    import torch

    if isinstance(results, Mapping):
        for key, thing in results.items():
            yield from _results(thing, f"{name}.{key}" if name else str(key))
    elif isinstance(results, (list, tuple)):
        for i, thing in enumerate(results):
            yield from _results(thing, f"{name or 'output'}.{i}")
    elif isinstance(results, torch.Tensor):
        yield name or "output", results
    elif results is not None:
        raise TraceError(
            f"result {name or 'output'!r} is a {type(results).__name__}: the function must return tensors, or tuples "
            "or dicts of them, or None"
        )
