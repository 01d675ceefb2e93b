"""One run of a function on tensors without data, under the recorder."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from graphsched.errors import TraceError
from graphsched.tracing.batch_norms import counted
from graphsched.tracing.failures import explained
from graphsched.tracing.gpu_casts import gpu_casts
from graphsched.tracing.neutral import neutral
from graphsched.tracing.rates import constant_numbers
from graphsched.tracing.rebinding import Bound, rebound
from graphsched.tracing.recorder import Recorder
from graphsched.tracing.settling import check_apart, none_carried, one_memory, one_sequence, settled
from graphsched.workload import fake_mode

_ONE_AT_A_TIME = threading.RLock()
"""Of the threads of a process, whose settings and functions of torch a trace changes meanwhile."""


def recorded(
    step: Callable[..., Any],
    bound: Bound,
    inputs: Mapping[str, Any],
    by_name: Callable[[Any], Mapping[str, Any]],
) -> tuple[Recorder, dict[str, Any]]:
    """What one run of `step` on fakes of `inputs` calls, and its results as arguments of calls, by name.

    Raises:
        TraceError: It cannot be traced; the line of the user's code is named.
    """
    _check_inputs(inputs, bound)
    mode = fake_mode()
    recorder = Recorder(mode)
    given = {**inputs, **bound.states()}
    fakes = {name: _fake(mode, name, tensor) for name, tensor in given.items()}
    for name, tensor in given.items():
        recorder.give(name, tensor, fakes[name], is_state=name not in inputs)
    own = {name: fakes[name] for name in bound.tensors}
    kept = contextlib.ExitStack()
    with _ONE_AT_A_TIME, explained(recorder.path), neutral(), mode, rebound(bound, fakes), kept:
        kept.enter_context(constant_numbers(bound.optimizers.values()))
        for context in (
            one_sequence(recorder),
            one_memory(own),
            none_carried(recorder, bound.modules),
            counted(bound.modules.values()),
            _noted(recorder, bound),
            gpu_casts(),
            recorder.mode(),
        ):
            kept.enter_context(context)
        returned = by_name(step(*[fakes[name] for name in inputs]))
        returned = settled(recorder, bound, fakes, returned)
    _check_results(returned, given)
    changed = {origin.name for call in recorder.calls for origin in call.updates}
    check_apart({name: real for name, (origin, real) in recorder.given.items() if origin.is_state}, changed)
    trained = {name for name, fake in fakes.items() if fake.requires_grad}
    for call in recorder.calls:
        if call.phase == "forward" and any(origin.name in trained for origin in call.updates):
            call.phase = "update"
    return recorder, {name: recorder.argument(tensor) for name, tensor in returned.items()}


def _check_inputs(inputs: Mapping[str, Any], bound: Bound) -> None:
    for name in inputs:
        if name in bound.states():
            raise TraceError(
                f"input {name!r} bears the name of a state: rename the parameter or buffer, or the argument of the "
                "function (what target= gives is always called 'target')"
            )


def _check_results(returned: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    for name in returned:
        if name in given:
            raise TraceError(
                f"result {name!r} bears the name of an input or a state: rename that argument, parameter or buffer, or "
                "return a dict with another key (a tensor is called 'output', a training step's loss 'loss')"
            )


def _fake(mode: Any, name: str, tensor: Any) -> Any:
    """A tensor without data like `tensor`, on the CPU."""
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise TraceError(f"input {name!r} is a {type(tensor).__name__}: give a tensor, and build constants in")
    if torch.nn.parameter.is_lazy(tensor):
        raise TraceError(f"{name!r} has no shape yet, for its lazy module has not run: call the network once before")
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
        raise TraceError(f"{name!r} is sparse, nested or quantized: give a tensor with strides")
    with mode:
        fake = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
        fake._is_param = isinstance(tensor, torch.nn.Parameter)  # what `isinstance` asks for
        return _hooked(fake.requires_grad_(tensor.requires_grad), tensor)


def _hooked(fake: Any, tensor: Any) -> Any:
    """`fake`, on whose gradient the hooks of `tensor` are called."""
    for hook in (tensor._backward_hooks or {}).values():
        fake.register_hook(hook)
    for hook in (tensor._post_accumulate_grad_hooks or {}).values():
        fake.register_post_accumulate_grad_hook(hook)
    return fake


@contextlib.contextmanager
def _noted(recorder: Recorder, bound: Bound) -> Iterator[None]:
    """Tell `recorder` which module runs, and when an optimiser does.

    Raises:
        TraceError: An optimiser that is not of `bound` takes a step; its parameters have no gradients here.
    """
    from torch.nn.modules import module as hooks
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    paths = bound.paths()

    def enter(module: Any, *_: Any) -> None:
        if id(module) in paths:
            recorder.path.append(paths[id(module)])

    def leave(module: Any, *_: Any) -> None:
        if id(module) in paths:
            recorder.path.pop()

    def check(optimizer: Any, *_: Any) -> None:
        if not any(optimizer is known for known in bound.optimizers.values()):
            raise TraceError(
                f"{type(optimizer).__name__} takes a step but was not found: use it in the traced function itself, or "
                "name it with optimizer=..."
            )

    set_phase = functools.partial(setattr, recorder, "phase")
    made = [hooks.register_module_forward_pre_hook(enter), hooks.register_module_forward_hook(leave)]
    made.append(register_optimizer_step_pre_hook(check))
    for optimizer in bound.optimizers.values():
        made.append(optimizer.register_step_pre_hook(lambda *_: set_phase("update")))
        made.append(optimizer.register_step_post_hook(lambda *_: set_phase("forward")))
    try:
        yield
    finally:
        for hook in made:
            hook.remove()
