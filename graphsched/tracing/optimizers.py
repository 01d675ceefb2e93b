"""What optimisers keep, and their steps on other tensors than their own.

What an optimiser makes in its first step is there from the start, as that step makes it; one whose first step is
unlike later ones (SGD with momentum and dampening) must have taken it.

Not modelled: optimisers that keep something else than tensors for each parameter.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from graphsched.errors import TraceError


def moments_of(optimizer: Any, names: Mapping[int, str]) -> dict[tuple[str, str], Any]:
    """Tensors that `optimizer` keeps, by name of the parameter (`names`: by identity) and key.

    Raises:
        TraceError: It has parameters without a name, cannot step without data, or its first step is unlike later ones.
    """
    import torch

    _check_owned(optimizer, names)
    found = _kept_after_a_step(optimizer, names)
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


def _check_owned(optimizer: Any, names: Mapping[int, str]) -> None:
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if id(parameter) not in names:
                raise TraceError(
                    f"the optimizer has a parameter of shape {tuple(parameter.shape)} that no module of the trace "
                    "owns: name the module with module=..."
                )


def _kept_after_a_step(optimizer: Any, names: Mapping[int, str]) -> dict[tuple[str, str], Any]:
    """Fakes of the tensors that `optimizer` keeps once it has taken a step, by parameter and key."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = {p: mode.from_tensor(p) for group in optimizer.param_groups for p in group["params"]}
    with mode, replaced_in(optimizer, fakes, {}):
        for fake in fakes.values():
            fake.grad = torch.zeros_like(fake)
        try:
            optimizer.step()
        except Exception as error:
            raise TraceError(
                f"{type(optimizer).__name__} cannot take its step on tensors without data ({error}): use another "
                "optimizer, or trace without it"
            ) from error
        return {
            (names[id(parameter)], key): like
            for parameter, fake in fakes.items()
            for key, like in optimizer.state.get(fake, {}).items()
            if isinstance(like, torch.Tensor)
        }


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


def _groups(optimizer: Any, parameters: Mapping[Any, Any]) -> list[dict[str, Any]]:
    """The groups of `optimizer` on other tensors, with options by which a step reads no number from a tensor.

    Only the ``foreach`` form of Adagrad leaves its rate in tensors; on one parameter a group it is its plain form.
    """
    import torch

    groups = [
        group
        | {"params": [parameters[p] for p in group["params"]]}
        | ({"capturable": True} if "capturable" in group else {})
        for group in optimizer.param_groups
    ]
    if not isinstance(optimizer, torch.optim.Adagrad):
        return groups
    return [
        group | {"params": parameters, "foreach": not group["fused"]}
        for group in groups
        for parameters in ([group["params"]] if group["foreach"] or group["fused"] else [[p] for p in group["params"]])
    ]


@contextlib.contextmanager
def replaced_in(optimizer: Any, parameters: Mapping[Any, Any], state: Mapping[Any, dict[str, Any]]) -> Iterator[None]:
    """`optimizer` with other tensors in the place of its `parameters`, and with this state of theirs.

    Its step does not read numbers from tensors (as when it is compiled), so that it can run on fake ones.
    """
    import torch

    before, compiling = dict(vars(optimizer)), torch.compiler._is_compiling_flag
    optimizer.param_groups = _groups(optimizer, parameters)
    optimizer.state = defaultdict(dict, state)
    set_flag = functools.partial(setattr, torch.compiler, "_is_compiling_flag")
    hooks = [
        optimizer.register_step_pre_hook(lambda *_: set_flag(True)),
        optimizer.register_step_post_hook(lambda *_: set_flag(compiling)),
    ]
    try:
        yield
    finally:
        set_flag(compiling)
        for hook in hooks:
            hook.remove()
        vars(optimizer).clear()
        vars(optimizer).update(before)
