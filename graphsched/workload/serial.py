"""Workloads as JSON objects: everything but code and tensors."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from graphsched.costs import MOST
from graphsched.errors import FileFormatError, WorkloadError
from graphsched.workload.builder import Workload
from graphsched.workload.specs import TensorSpec
from graphsched.workload.tasks import Memory, Operation, Read, Task, TaskKind, Value


def to_dict(work: Workload) -> dict[str, Any]:
    """Tasks, values, bytes and states of `work`, in order; defaults are left out."""
    return {
        "name": work.name,
        "given": [_value(v) | {"kind": v.kind} for v in work.values.values() if v.kind != "output"],
        "tasks": [_task(t) for t in work.tasks],
        "kept": sorted(work.kept),
        **({} if work.returns_unread else {"returns_unread": False}),
    }


def _value(value: Value) -> dict[str, Any]:
    out: dict[str, Any] = {"name": value.name, "nbytes": value.nbytes}
    if value.spec:
        out["shape"], out["dtype"] = list(value.spec.shape), value.spec.dtype
        if value.spec.stride:
            out["stride"] = list(value.spec.stride)
    if value.root != value.name:
        out["root"], out["born"] = value.root, value.born
    if value.device is not None:
        out["device"] = value.device
    return out


def _task(task: Task) -> dict[str, Any]:
    out: dict[str, Any] = {"name": task.name, "kind": task.kind}
    if task.reads:
        out["reads"] = [[r.value.name, r.version, r.source] for r in task.reads]
    if task.outputs:
        out["outputs"] = [_value(v) for v in task.outputs]
    if task.updates:
        out["updates"] = [v.name for v in task.updates]
    if task.after:
        out["after"] = list(task.after)
    if task.operation:
        out["operation"], out["flops"] = task.operation.name, task.operation.flops
    if task.kind == "copy":
        out["memory"] = task.memory
    for key, value in (("signature", task.signature), ("devices", list(task.devices))):
        if value:
            out[key] = value
    if task.duration_s is not None:
        out["duration_s"] = dict(task.duration_s) if isinstance(task.duration_s, Mapping) else task.duration_s
    return out


def from_dict(data: Mapping[str, Any]) -> Workload:
    """The workload of `to_dict`, without code.

    Raises:
        FileFormatError: Entries are missing or wrong.
    """
    try:
        work = Workload(data["name"])
        for given in data["given"]:
            work._free_name(given["name"])
            work._new_value(_read_value(given, _one_of(given, "kind", ("input", "state")), None))
        for entry in data["tasks"]:
            work._add(_read_task(entry, work))
        work.kept, work.returns_unread = set(data["kept"]), bool(data.get("returns_unread", True))
    except KeyError as error:
        raise FileFormatError(f"not a workload: an entry has no {error}") from error
    except (TypeError, ValueError, AttributeError, OverflowError, WorkloadError) as error:
        raise FileFormatError(f"not a workload: {type(error).__name__}: {error}") from error
    return work


def _read_value(entry: Mapping[str, Any], kind: Any, producer: str | None) -> Value:
    spec = None
    if "shape" in entry:
        shape = tuple(_whole("shape", n) for n in entry["shape"])
        stride = tuple(_whole("stride", n) for n in entry["stride"]) if "stride" in entry else None
        spec = TensorSpec(shape, entry["dtype"], stride)
        _whole("shape", spec.nbytes)
    return Value(
        name=entry["name"],
        kind=kind,
        nbytes=_whole("nbytes", entry["nbytes"]),
        spec=spec,
        producer=producer,
        root=entry.get("root", ""),
        born=_whole("born", entry.get("born", 0)),
        device=None if entry.get("device") is None else _text(entry, "device"),
    )


def _read_task(entry: Mapping[str, Any], work: Workload) -> Task:
    operation = None
    if "operation" in entry:
        operation = Operation(entry["operation"], None, flops=_whole("flops", entry["flops"], most=2**63))
    for before in (*entry.get("after", ()), *(source for *_, source in entry.get("reads", ()) if source is not None)):
        work[before]  # stands before it, or this is a KeyError
    sides = {len(entry.get(key, ())) for key in ("reads", "outputs", "devices")}
    if entry["kind"] == "collective" and (len(sides) > 1 or min(sides) < 2):
        raise ValueError(f"collective {entry['name']!r} must have as many reads, outputs and devices, two or more")
    if entry["kind"] == "copy" and any(len(entry.get(key, ())) != 1 for key in ("reads", "outputs")):
        raise ValueError(f"copy {entry['name']!r} must have one read and one output")
    return Task(
        name=work._free_name(entry["name"]),
        kind=_one_of(entry, "kind", get_args(TaskKind)),
        reads=tuple(
            Read(work.values[v], _whole("version", version), source) for v, version, source in entry.get("reads", ())
        ),
        outputs=tuple(_read_value(v, "output", entry["name"]) for v in entry.get("outputs", ())),
        updates=tuple(work.values[v] for v in entry.get("updates", ())),
        after=tuple(entry.get("after", ())),
        operation=operation,
        signature=_text(entry, "signature"),
        devices=tuple(_checked_text("devices", device) for device in entry.get("devices", ())),
        memory=_one_of({"memory": "pinned", **entry}, "memory", get_args(Memory)),
        duration_s=entry.get("duration_s"),
    )


def _whole(key: str, number: Any, most: int = MOST) -> int:
    if isinstance(number, bool) or int(number) != number or not 0 <= number <= most:
        raise ValueError(f"{key!r} is {reprlib.repr(number)}, a whole number from 0 to {most} is needed")
    return int(number)


def _one_of(entry: Mapping[str, Any], key: str, allowed: Sequence[str]) -> Any:
    if entry[key] not in allowed:
        raise ValueError(f"{key!r} is {entry[key]!r}, one of {', '.join(allowed)} is needed")
    return entry[key]


def _text(entry: Mapping[str, Any], key: str) -> str:
    return _checked_text(key, entry.get(key, ""))


def _checked_text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{key!r} is {value!r}, text is needed")
    return value
