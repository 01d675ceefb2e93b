"""Modules and optimisers with fake tensors in the place of their own, for the time of a trace.

Their tensors become states, named as in ``state_dict`` (``conv.weight``; with several modules ``net.conv.weight``);
what an optimiser keeps for a parameter is named after it (``conv.weight/momentum_buffer``). State that an optimiser
makes in its first step is there from the start, as it makes it, else with zeros.

Not modelled: gradients kept from one step to the next (each step must set them to None, as ``zero_grad`` does).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphsched.errors import TraceError


@dataclass
class Bound:
    """What a function works on beside its arguments.

    Attributes:
        modules, optimizers: By name.
        tensors: Parameters and buffers, by name of the state.
        moments: What each optimiser keeps: by name of the parameter and key.
    """

    modules: Mapping[str, Any]
    optimizers: Mapping[str, Any]
    tensors: dict[str, Any] = field(default_factory=dict)
    moments: dict[str, dict[tuple[str, str], Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, module in self.modules.items():
            for key, tensor in (*module.named_parameters(), *module.named_buffers()):
                self.tensors[self.called(name, key)] = tensor
        names = {id(tensor): name for name, tensor in self.tensors.items()}
        for name, optimizer in self.optimizers.items():
            self.moments[name] = _moments(optimizer, names)

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


def _moments(optimizer: Any, names: Mapping[int, str]) -> dict[tuple[str, str], Any]:
    """Tensors that `optimizer` keeps; zeros where its first step would make them."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if id(parameter) not in names:
                raise TraceError(
                    f"the optimizer has a parameter of shape {tuple(parameter.shape)} that no module of the trace "
                    "owns: name the module with module=..."
                )
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = {p: mode.from_tensor(p) for group in optimizer.param_groups for p in group["params"]}
    for fake in fakes.values():
        with mode:
            fake.grad = torch.zeros_like(fake)
    found: dict[tuple[str, str], Any] = {}
    with mode, replaced_in(optimizer, fakes, {}):
        try:
            optimizer.step()
        except Exception as error:
            raise TraceError(
                f"{type(optimizer).__name__} cannot take its step on tensors without data ({error}): use another "
                "optimizer, or trace without it"
            ) from error
        for parameter, fake in fakes.items():
            for key, like in optimizer.state.get(fake, {}).items():
                if isinstance(like, torch.Tensor):
                    found[names[id(parameter)], key] = like
    kept = {names[id(p)]: dict(of) for p, of in optimizer.state.items() if id(p) in names}
    first = {} if all(isinstance(kept.get(p, {}).get(key), torch.Tensor) for p, key in found) else _first(optimizer)
    made = {names[id(p)]: of for p, of in first.items()}
    moments = {}
    for (parameter, key), like in found.items():
        known = (state[parameter].get(key) for state in (kept, made) if parameter in state)
        value = next((t for t in known if isinstance(t, torch.Tensor)), None)
        moments[parameter, key] = _number(torch.zeros(like.shape, dtype=like.dtype) if value is None else value)
    for group in optimizer.param_groups:
        new = [
            p for p in group["params"] if not optimizer.state.get(p) and any(key[0] == names[id(p)] for key in found)
        ]
        if new:
            _check_first(optimizer, min(new, key=lambda p: p.numel()), names, moments)
    return moments


def _number(tensor: Any) -> Any:
    """Numbers (of steps) in double precision, as Python's are."""
    return tensor.double() if tensor.dim() == 0 and tensor.is_floating_point() else tensor


def _first(optimizer: Any) -> dict[Any, dict[str, Any]]:
    """What `optimizer` keeps for its parameters before it changes them for the first time, as far as it tells."""
    import torch

    inits = getattr(optimizer, "_init_group", None)
    if inits is None:
        return {}
    copies = {p: p.detach().requires_grad_() for group in optimizer.param_groups for p in group["params"]}
    for copied in copies.values():
        copied.grad = torch.zeros((), dtype=copied.dtype, device=copied.device).expand(copied.shape)
    with replaced_in(optimizer, copies, {}):
        for group in optimizer.param_groups:
            inits(group, *([] for _ in list(inspect.signature(inits).parameters)[1:]))
        return {p: dict(optimizer.state[copied]) for p, copied in copies.items()}


def _check_first(optimizer: Any, parameter: Any, names: Mapping[int, str], moments: Mapping[Any, Any]) -> None:
    """Check that the first step of `optimizer` is that from `moments`, on one parameter.

    Raises:
        TraceError: It is not.
    """
    import torch

    steps = []
    given = {key: tensor for (name, key), tensor in moments.items() if name == names[id(parameter)]}
    groups = optimizer.param_groups
    for state in ({}, {key: tensor.clone() for key, tensor in given.items()}):
        copied = torch.zeros(parameter.shape, dtype=parameter.dtype).requires_grad_()
        copied.grad = torch.linspace(-1, 2, copied.numel()).reshape(copied.shape).to(copied.dtype)
        only = [group | {"params": [p for p in group["params"] if p is parameter]} for group in groups]
        optimizer.param_groups = [group for group in only if group["params"]]
        try:
            with replaced_in(optimizer, {parameter: copied}, {copied: state} if state else {}):
                optimizer.step()
        finally:
            optimizer.param_groups = groups
        steps.append(copied.detach())
    if not torch.allclose(steps[0], steps[1], rtol=1e-2, atol=0.0, equal_nan=True):
        raise TraceError(
            f"the first step of {type(optimizer).__name__} is unlike the later ones: let it take one before the trace"
        )


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
                own.update({key: tensors[tensor] for key, tensor in own.items() if tensor is not None})
            if hasattr(inner, "_flat_weights"):  # recurrent layers keep a list of them
                inner._flat_weights = [getattr(inner, key) for key in inner._flat_weights_names]
        yield
    finally:
        for own, content in before:
            own.clear()
            own.update(content)


@contextlib.contextmanager
def replaced_in(optimizer: Any, parameters: Mapping[Any, Any], state: Mapping[Any, dict[str, Any]]) -> Iterator[None]:
    """`optimizer` with other tensors in the place of its `parameters`, and with this state of theirs.

    Its step does not read numbers from tensors (as when it is compiled), so that it can run on fake ones.
    """
    import torch

    groups, before, compiling = optimizer.param_groups, optimizer.state, torch.compiler._is_compiling_flag
    optimizer.param_groups = [
        group
        | {"params": [parameters[p] for p in group["params"]]}
        | ({"capturable": True} if "capturable" in group else {})
        for group in groups
    ]
    optimizer.state = defaultdict(dict, state)
    set_flag = functools.partial(setattr, torch.compiler, "_is_compiling_flag")
    hooks = [
        optimizer.register_step_pre_hook(lambda *_: set_flag(True)),
        optimizer.register_step_post_hook(lambda *_: set_flag(compiling)),
    ]
    try:
        yield
    finally:
        optimizer.param_groups, optimizer.state = groups, before
        set_flag(compiling)
        for hook in hooks:
            hook.remove()


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
