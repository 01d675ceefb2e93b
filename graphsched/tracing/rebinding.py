"""Modules and optimisers with fake tensors in the place of their own, for the time of a trace.

Their tensors become states, named as in ``state_dict`` (``conv.weight``; with several modules ``net.conv.weight``);
what an optimiser keeps for a parameter is named after it (``conv.weight/momentum_buffer``). State that an optimiser
makes in its first step is there from the start, as it makes it, else with zeros.

Not modelled: gradients kept from one step to the next (each step must set them to None, as ``zero_grad`` does).
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphsched.tracing.optimizers import moments_of, replaced_in


@dataclass
class Bound:
    """What a function works on beside its arguments.

    Attributes:
        modules, optimizers: By name.
        tensors: Parameters and buffers, by name of the state; of several names a tensor has the first.
        moments: What each optimiser keeps: by name of the parameter and key.
    """

    modules: Mapping[str, Any]
    optimizers: Mapping[str, Any]
    tensors: dict[str, Any] = field(default_factory=dict)
    moments: dict[str, dict[tuple[str, str], Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names: dict[int, str] = {}
        for name, module in self.modules.items():
            for key, tensor in (*module.named_parameters(), *module.named_buffers()):
                state = self.called(name, key)
                if names.setdefault(id(tensor), state) == state:
                    self.tensors[state] = tensor
        for name, optimizer in self.optimizers.items():
            self.moments[name] = moments_of(optimizer, names)

    def called(self, module: str, key: str) -> str:
        """Name of the state, or path, `key` of the module of this name."""
        return ".".join(part for part in ("" if len(self.modules) == 1 else module, key) if part)

    def paths(self) -> dict[int, str]:
        """Path of each module and of those in it, by identity."""
        return {
            id(inner): self.called(name, path)
            for name, module in self.modules.items()
            for path, inner in module.named_modules()
        }

    def present(self) -> dict[str, Any]:
        """What the modules have now, by name of the state."""
        return {
            self.called(name, key): tensor
            for name, module in self.modules.items()
            for named in (module.named_parameters, module.named_buffers)
            for key, tensor in named(remove_duplicate=False)
        }

    def states(self) -> dict[str, Any]:
        """All tensors by name of the state."""
        kept = {_moment(*key): tensor for moments in self.moments.values() for key, tensor in moments.items()}
        return self.tensors | kept


def _moment(parameter: str, key: str) -> str:
    return f"{parameter}/{key}"


@contextlib.contextmanager
def rebound(bound: Bound, fakes: Mapping[str, Any]) -> Iterator[None]:
    """`fakes`, by name of the state, in the place of the tensors of modules and optimisers."""
    with contextlib.ExitStack() as stack:
        parameters = {tensor: fakes[name] for name, tensor in bound.tensors.items()}
        for module in bound.modules.values():
            stack.enter_context(_replaced_in_module(module, parameters))
        for name, optimizer in bound.optimizers.items():
            kept: dict[str, dict[str, Any]] = {}
            for parameter, key in bound.moments[name]:
                kept.setdefault(parameter, {})[key] = fakes[_moment(parameter, key)]
            stack.enter_context(
                replaced_in(optimizer, parameters, {fakes[parameter]: of for parameter, of in kept.items()})
            )
        yield


@contextlib.contextmanager
def _replaced_in_module(module: Any, tensors: Mapping[Any, Any]) -> Iterator[None]:
    """`module` with other tensors in the place of its parameters and buffers, shared ones in every place."""
    before = [
        (own, dict(own)) for inner in module.modules() for own in (vars(inner), inner._parameters, inner._buffers)
    ]
    try:
        for inner in module.modules():
            for own in (inner._parameters, inner._buffers):
                # what is not known is a fake already: of a module that another one holds
                own.update({key: tensors.get(tensor, tensor) for key, tensor in own.items() if tensor is not None})
            if hasattr(inner, "_flat_weights"):  # recurrent layers keep a list of them
                inner._flat_weights = [getattr(inner, key) for key in inner._flat_weights_names]
        yield
    finally:
        for own, content in before:
            own.clear()
            own.update(content)


def found_in(function: Callable[..., Any], kind: type) -> dict[str, Any]:
    """The objects of type `kind` that `function` uses from around it, by name.

    Example:
        >>> import torch
        >>> net = torch.nn.Linear(2, 2)
        >>> found_in(lambda x: net(x), torch.nn.Module)
        {'net': Linear(in_features=2, out_features=2, bias=True)}
    """
    function = inspect.unwrap(getattr(function, "__func__", function))
    if not inspect.isfunction(function):
        return {}
    around = inspect.getclosurevars(function)
    found = {**around.globals, **around.nonlocals}
    return {name: found[name] for name in sorted(found) if isinstance(found[name], kind)}
