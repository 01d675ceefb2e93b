"""Plans in files: with their parameters, and without the code that made them.

One zip archive of `torch.save`, read with ``weights_only=True``, holds a text and tensors. The text (JSON) has the
workload, its operations by name with their arguments, the plan, and the platform with the costs that the plan rests on;
the tensors are the defaults of inputs and the states. Nothing in it is code: see `executors.operations`.

Not modelled: operations that are functions of the user's own.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import pickle
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphsched.costs import Costs
from graphsched.errors import FileFormatError, GraphschedError, WorkloadError
from graphsched.executors.arguments import from_json, to_json
from graphsched.executors.operations import ALLOWED, find_operation, name_of
from graphsched.executors.saved_shapes import check_tasks
from graphsched.files import write_bytes
from graphsched.plan import Plan, check_plan
from graphsched.platform import Platform
from graphsched.workload import ITEM_BYTES, Operation, Task, TensorSpec, Workload, check_data, element_bytes

KIND, VERSION = "graphsched plan", 1
Tensors = Mapping[str, Any]
_UNREADABLE = (RuntimeError, ValueError, OSError, EOFError, LookupError, TypeError, AttributeError, pickle.PickleError)
_UNFIT = (RecursionError, ValueError, LookupError, TypeError, AttributeError, OverflowError)


def save_plan(plan: Plan, path: str | Path, *, states: Tensors | None = None) -> None:
    """Write `plan` with its parameters to `path`, whole or not at all; `load_plan` needs no code of its maker.

    Args:
        plan: Of tasks that call functions of torch by name.
        path: The file.
        states: Present values of states (`Program.state()`); default: those that the workload was given.

    Raises:
        ScheduleError: `plan` is no plan.
        WorkloadError: A task calls a function of the user's own or has no code, or returns something else than it
            declares, a state has no tensor, or one of `states` does not exist or is of another shape or type.
        OutputError: The file cannot be written.

    Example:
        >>> import tempfile, torch
        >>> from graphsched.platform import Device
        >>> from graphsched.plan import Placement, build_plan
        >>> work = Workload()
        >>> x = work.input("x", torch.ones(2))
        >>> y = work.task(torch.neg, x, name="y")
        >>> here = Platform("here", (Device("cpu", "cpu"),))
        >>> plan = build_plan(work, here, None, Placement(["y"], {"y": "cpu/w0"}), scheduler="by hand")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_plan(plan, f"{folder}/negative.plan")
        ...     load_plan(f"{folder}/negative.plan").text == plan.text
        True
    """
    import torch

    check_plan(plan)
    text = json.dumps(_checked(_to_dict(plan, torch.__version__), plan.work))
    tensors = _tensors(plan.work, states or {})
    content = {"kind": KIND, "version": VERSION, "text": text, "tensors": tensors, "sha256": _digest(text, tensors)}
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_bytes(path, buffer.getvalue())


def load_plan(path: str | Path) -> Plan:
    """The plan of `save_plan`: run it with `Program` or `execute`, or predict it, which needs no device of it here.

    Raises:
        FileFormatError: The file is truncated, changed, of another version or no saved plan, or it calls an
            operation that is not among those allowed or not in this version of PyTorch, or with shapes that it does
            not take or return.
    """
    content = _read(Path(path))
    try:
        return _from_dict(json.loads(content["text"]), content["tensors"])
    except GraphschedError as error:
        raise FileFormatError(f"{path}: {error}") from error
    except _UNFIT as error:
        raise FileFormatError(f"{path} is no saved plan: {type(error).__name__}: {error}") from error


def used_costs(plan: Plan) -> Costs:
    """Those of a plan's costs that its tasks are filed under, on the models of its platform's devices."""
    return costs_for(plan.work, plan.platform, plan.costs)


def costs_for(work: Workload, platform: Platform, costs: Costs) -> Costs:
    """Those of `costs` that the tasks of `work` are filed under, on the models of the platform's devices."""
    models = list(dict.fromkeys(device.model for device in platform.devices))
    signatures = dict.fromkeys(task.signature for task in work.tasks if task.kind in ("run", "collective"))
    return costs.chosen((signature, model) for signature in signatures for model in models)


# -- writing ---------------------------------------------------------------------------------


def _to_dict(plan: Plan, version: str) -> dict[str, Any]:
    platform = replace(plan.platform, costs=used_costs(plan))
    return {
        "torch": version,
        "workload": plan.work.to_dict(),
        "operations": {t.name: _call(t) for t in plan.work.tasks if t.kind == "run"},
        "plan": plan.text,
        "platform": platform.to_dict(),
    }


def _call(task: Task) -> dict[str, Any]:
    """What `task` calls: the function's name, its arguments."""
    operation = task.operation
    if operation is None or operation.function is None:
        raise WorkloadError(f"task {task.name!r} has no code: a plan of durations cannot be saved to be run")
    function: Any = operation.function
    args, kwargs = operation.args, dict(operation.kwargs)
    while isinstance(function, functools.partial):
        function, args, kwargs = function.func, (*function.args, *args), {**function.keywords, **kwargs}
    name = name_of(function)
    if name is None:
        raise WorkloadError(
            f"task {task.name!r} calls {operation.name}, which another process would not find, or which a file may not "
            f"call: build the task from functions over tensors of {ALLOWED} (of operators with a leading underscore "
            "only a few, that check the sizes which they are given)"
        )
    try:
        return {"function": name, "args": [to_json(a) for a in args], "kwargs": _named(kwargs)}
    except WorkloadError as error:
        raise WorkloadError(f"task {task.name!r}: {name}: {error}") from error


def _named(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {key: to_json(value) for key, value in kwargs.items()}


def _tensors(work: Workload, states: Tensors) -> dict[str, Any]:
    """Tensors of inputs and states on the CPU, without what else lies in their memory; shared ones stay shared."""
    for name in states:
        if name not in work.values or work.values[name].kind != "state":
            raise WorkloadError(f"{name!r} is no state of workload {work.name!r}: give those of program.state()")
    copies: dict[int, Any] = {}
    found = {}
    for value in (v for v in work.values.values() if v.kind != "output"):
        tensor = states.get(value.name, work.numbers(value.name))
        if tensor is None and value.kind == "state":
            raise WorkloadError(f"state {value.name!r} has no tensor: give states={{{value.name!r}: tensor}}")
        if tensor is None:
            continue
        _check_spec(value.name, value.spec, tensor)
        check_data(value.kind, value.name, tensor)
        if id(tensor) not in copies:
            copies[id(tensor)] = tensor.detach().resolve_conj().resolve_neg().to("cpu", copy=True)
        found[value.name] = copies[id(tensor)]
    return found


def _check_spec(name: str, spec: TensorSpec | None, tensor: Any) -> None:
    found = TensorSpec.of(tensor)
    if spec is not None and (found.shape, found.dtype) != (spec.shape, spec.dtype):
        raise WorkloadError(f"{name!r} must be {spec}, got {found}")


def _digest(text: str, tensors: Tensors) -> str:
    """Hash of a file's text and of its tensors' elements."""
    found = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        found.update(f"{name} {TensorSpec.of(tensors[name])}".encode())
        found.update(element_bytes(tensors[name]))
    return found.hexdigest()


def _checked(data: dict[str, Any], work: Workload) -> dict[str, Any]:
    """`data`, which is of a workload whose tasks return what they declare."""
    check_tasks(work, lambda task: json.dumps(data["operations"][task.name]))
    return data


# -- reading ---------------------------------------------------------------------------------


def _read(path: Path) -> dict[str, Any]:
    """The content of a file: of this kind and version, and as it was written."""
    content = _unpacked(path)
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise FileFormatError(f"{path} is no saved plan: name a file that gs.save_plan wrote")
    version = content.get("version")
    if type(version) is not int or version != VERSION:
        raise FileFormatError(
            f"{path} is a saved plan of version {version!r}, this is version {VERSION}: save it again"
        )
    text: Any = content.get("text")
    tensors: Any = content.get("tensors")
    if not isinstance(text, str) or not _are_tensors(tensors) or _digest(text, tensors) != content.get("sha256"):
        raise FileFormatError(f"{path} is not as it was written: its hash differs; save the plan again")
    return content


def _unpacked(path: Path) -> Any:
    import torch

    try:
        file = path.open("rb")
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        with file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other kinds of files
            return torch.load(file, map_location="cpu", weights_only=True)
    except _UNREADABLE as error:
        raise FileFormatError(
            f"{path} is truncated, or no saved plan: name a whole file that gs.save_plan wrote"
        ) from error


def _are_tensors(things: Any) -> bool:
    return isinstance(things, dict) and all(isinstance(n, str) and _is_written(t) for n, t in things.items())


def _is_written(thing: Any) -> bool:
    """Whether it is a tensor as `save_plan` writes them: every element lies in the file."""
    import torch

    return (
        type(thing) is torch.Tensor
        and (thing.layout, thing.device.type) == (torch.strided, "cpu")
        and str(thing.dtype).removeprefix("torch.") in ITEM_BYTES
        and thing.nbytes <= thing.untyped_storage().nbytes()
    )


def _from_dict(data: dict[str, Any], tensors: Tensors) -> Plan:
    work = Workload.from_dict(data["workload"])
    for task in work.tasks:
        if task.kind == "run":
            work.graph.nodes[task.name]["task"] = _with_code(task, data["operations"][task.name])
    for name, tensor in tensors.items():
        _check_spec(name, work.values[name].spec, tensor)
    _checked(data, work)
    work.tensors.update(tensors)
    return Plan.from_text(data["plan"], work, Platform.from_dict(data["platform"]))


def _with_code(task: Task, call: Mapping[str, Any]) -> Task:
    try:
        function = find_operation(call["function"])
        args = tuple(from_json(a, task.reads) for a in call["args"])
        kwargs = {key: from_json(a, task.reads) for key, a in call["kwargs"].items()}
    except FileFormatError as error:
        raise FileFormatError(f"task {task.name!r}: {error}") from error
    if task.operation is None:
        raise FileFormatError(f"task {task.name!r} has no operation")
    operation = Operation(task.operation.name, function, args, kwargs, task.operation.flops)
    return replace(task, operation=operation)
