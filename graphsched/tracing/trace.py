"""`trace`: the operators of a function or module, with loss, backward and optimiser step, as a workload."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from graphsched.errors import TraceError
from graphsched.tracing.rebinding import found_in
from graphsched.tracing.source import Source
from graphsched.workload import Workload, like


def trace(
    function: Callable[..., Any],
    /,
    *inputs: Any,
    target: Any = None,
    loss: Callable[..., Any] | None = None,
    optimizer: Any = None,
    module: Any = None,
    device: str | None = None,
    grain: str = "operator",
    name: str | None = None,
) -> Workload:
    """The operators that ``function(*inputs)`` calls, as a workload: one task each, views with what reads them.

    `function` is a module or any function over tensors; modules and optimisers that it uses from around it are found.
    Parameters, buffers and what optimisers keep become states, named as in ``state_dict``; they are changed in place
    as PyTorch does. It is run once, on tensors without data; nothing of the user's changes.

    A module with a `loss` becomes a training step: forward, ``loss(output, target)``, backward, and the step of the
    `optimizer` if there is one. Nodes of ``work.graph`` have the attributes ``module`` (the path of the module that
    the operator belongs to) and ``phase`` (``forward``, ``backward`` or ``update``).

    Args:
        function: A module, or a function of tensors that returns tensors, tuples or dicts of them, or None.
        inputs: Example tensors, and the defaults of the workload's inputs, which bear the names of the parameters; in
            tuples, lists and dicts those of their places (``batch.image``, ``pair.0``).
        target: With `loss`: its second argument, the input ``target``.
        loss: A function of a module's output and `target` (only the output without a target), to a scalar.
        optimizer: A ``torch.optim`` optimiser of the module's parameters; default: those that `function` uses.
        module: Modules that `function` uses, if it does not name them itself: one, or a dict by name.
        device: Where inputs, states and tasks are; default: the plan decides.
        grain: ``operator``, or ``module`` for one task a layer and phase, which makes readable charts.
        name: Of the workload; default: that of the function or of the module's class.

    Returns:
        A workload that returns ``output`` (``output.0``, … of a tuple; a dict's keys; ``outer.inner``), of a training
        step also ``loss`` and, without an optimiser, the gradients ``grad/<parameter>``.

    Raises:
        TraceError: The function's course depends on tensors' contents (the line is named), or it uses what
            no plan could: tensors that are not given, devices of its own, another learning rate in every run.

    Example:
        >>> import torch
        >>> net = torch.nn.Linear(4, 2)
        >>> sgd = torch.optim.SGD(net.parameters(), lr=0.1)
        >>> x, y = torch.rand(8, 4), torch.zeros(8, 2)
        >>> work = trace(net, x, target=y, loss=torch.nn.functional.mse_loss, optimizer=sgd)
        >>> for task in work.tasks:
        ...     print(task.name)
        output
        loss
        network.backward/mse_loss_backward
        network.backward/mm
        network.backward/sum
        update/weight/add
        update/bias/add

    Not modelled: numbers that change from call to call (a learning rate: move its scheduler outside of the step, and
    trace again); moves between devices; gradients that a step leaves for the next.
    """
    modules, optimizers = _used(function, target, loss, optimizer, module)
    arguments = _arguments(function, inputs)
    nested = {name: _names(name, thing) for name, thing in arguments.items()}
    inputs_by_name = _by_place(arguments)
    whole = () if list(nested.values()) == list(inputs_by_name) else tuple(nested.values())
    if target is not None:
        if "target" in inputs_by_name:
            raise TraceError("the module has an argument 'target' itself, as target= is called: rename the argument")
        inputs_by_name["target"] = target
    called = name or getattr(function, "__name__", type(function).__name__).strip("<>")
    return Source(function, inputs_by_name, modules, optimizers, loss, called, grain, whole).trace(device)


def _used(function: Any, target: Any, loss: Any, optimizer: Any, module: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The modules and optimisers that `function` uses, by name."""
    import torch

    if isinstance(function, torch.jit.ScriptModule):
        raise TraceError(f"{type(function).__name__} is compiled: trace the module or function that it was made from")
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        raise TraceError(f"optimizer is a {type(optimizer).__name__}: one of torch.optim is needed")
    given = {} if optimizer is None else {"optimizer": optimizer}
    if isinstance(function, torch.nn.Module):
        if loss is None:
            _check_forward_only(target=target, optimizer=optimizer)
        elif target is None:
            _check_needs_no_target(loss)
        return {type(function).__name__: function}, given
    if loss is not None or target is not None:
        raise TraceError("loss= and target= go with a module; a function computes its loss itself")
    if module is None:
        modules = found_in(function, torch.nn.Module)
    else:
        modules = dict(module) if isinstance(module, Mapping) else {"module": module}
        for thing in modules.values():
            if not isinstance(thing, torch.nn.Module):
                raise TraceError(f"module holds a {type(thing).__name__}: a module or a dict of them is needed")
    return _distinct(modules), _distinct(given or found_in(function, torch.optim.Optimizer))


def _check_forward_only(**given: Any) -> None:
    for name, thing in given.items():
        if thing is not None:
            raise TraceError(f"{name}= was given without loss=: a training step needs the loss")


def _check_needs_no_target(loss: Any) -> None:
    try:
        takes = inspect.signature(getattr(loss, "forward", loss))
    except (TypeError, ValueError):
        return  # it does not tell
    if not _takes(takes, 1) and _takes(takes, 2):
        called = getattr(loss, "__name__", type(loss).__name__)
        raise TraceError(f"the loss {called} takes the output and a target, and none was given: add target=...")


def _takes(signature: inspect.Signature, count: int) -> bool:
    """Whether there can be so many arguments, all by place."""
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _distinct(found: Mapping[str, Any]) -> dict[str, Any]:
    """One name for each object."""
    return {name: thing for i, (name, thing) in enumerate(found.items()) if thing not in list(found.values())[:i]}


def _arguments(function: Any, inputs: tuple[Any, ...]) -> dict[str, Any]:
    """`inputs` by the names of the function's parameters."""
    called = getattr(function, "forward", function)
    try:
        takes = inspect.signature(called)
    except ValueError as error:
        raise TraceError(f"{error}: write a function that calls it, with arguments that have names") from error
    except TypeError as error:
        raise TraceError(f"{error}: give a module, or a function of tensors") from error
    try:
        given = takes.bind(*inputs).arguments
    except TypeError as error:
        raise TraceError(f"the inputs do not fit the function: {error}") from error
    named: dict[str, Any] = {}
    for name, thing in given.items():
        several = takes.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
        named |= {f"{name}.{i}": part for i, part in enumerate(thing)} if several else {name: thing}
    return named


def _by_place(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What is in `arguments`, by name.

    Raises:
        TraceError: Two bear the same name: keys that hold dots, or are alike as text.
    """
    found: dict[str, Any] = {}
    for name, tensor in (leaf for argument in arguments.items() for leaf in _leaves(*argument)):
        if name in found:
            raise TraceError(f"two inputs bear the name {name!r}: change a key of the dicts that they are given in")
        found[name] = tensor
    return found


def _parts(thing: Any) -> Iterable[tuple[Any, Any]]:
    return thing.items() if isinstance(thing, Mapping) else enumerate(thing)


def _leaves(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """What is in tuples, lists and dicts, by name: ``outer.inner``."""
    if isinstance(thing, (Mapping, list, tuple)):
        for key, part in _parts(thing):
            yield from _leaves(f"{name}.{key}", part)
    else:
        yield name, thing


def _names(name: str, thing: Any) -> Any:
    """`thing` with these names in the place of what is in it."""
    if isinstance(thing, Mapping):
        return {key: _names(f"{name}.{key}", part) for key, part in thing.items()}
    if isinstance(thing, (list, tuple)):
        return like(thing, (_names(f"{name}.{i}", part) for i, part in enumerate(thing)))
    return name
