"""The builder and owner of a task graph."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import networkx as nx

from graphsched.costs import check_seconds
from graphsched.errors import DuplicateNameError, ForeignValueError, SignatureError, WorkloadError
from graphsched.workload.collective import Collective, collective
from graphsched.workload.inference import Inferred, infer, like
from graphsched.workload.signatures import operation_name, signature
from graphsched.workload.tasks import (
    Memory,
    Operation,
    Read,
    Slot,
    Task,
    TensorSpec,
    Value,
    check_name,
)


class Workload:
    """A dependency graph of tasks over tensors.

    `graph` is a plain `networkx.DiGraph`: nodes are task names with the attribute ``task``; edges
    carry ``values`` (names) and ``nbytes`` (their sum, each value once; 0 where the edge only
    orders). The nodes' order is a topological order.

    Attributes:
        returns_unread: A run returns outputs that no task reads too, not only what is kept.
        source: What it was traced from, see `tracing`; None: it was built by hand.
        collectives: Names of its tasks of kind ``collective``.

    Example:
        >>> import torch
        >>> work = Workload()
        >>> x = work.input("x", torch.rand(8, 8))
        >>> y = work.task(torch.mm, x, x, name="square")
        >>> z = work.copy(y, to="cpu", name="back")
        >>> list(work.graph.edges(data="nbytes"))
        [('square', 'back', 256)]

    Not modelled: control flow; a workload is one step, repeated as a whole.
    """

    def __init__(self, name: str = "workload") -> None:
        self.name = name
        self.graph: nx.DiGraph = nx.DiGraph()
        self.values: dict[str, Value] = {}
        self.tensors: dict[str, Any] = {}
        self.kept: set[str] = set()
        self.source: Any = None
        self.returns_unread = True
        self.collectives: list[str] = []
        self._writers: dict[str, list[str]] = {}  # root -> tasks that updated it, in order
        self._readers: dict[str, dict[str, None]] = {}  # root -> tasks that read its present version
        self._barrier: str | None = None
        self._since_barrier: dict[str, None] = {}
        self._inferred: dict[tuple[Any, ...], Inferred] = {}

    # -- values that are there before time 0 --------------------------------------------------

    def input(self, name: str, tensor: Any, *, device: str = "cpu") -> Value:
        """A tensor given to every run; `tensor` (or a `TensorSpec`) is the default.

        With `device` other than ``cpu`` it is on that device before time 0; one on the CPU is
        copied by the plan to where it is needed.

        Raises:
            DuplicateNameError: The name is taken or not allowed.
        """
        return self._given(name, "input", tensor, device)

    def state(self, name: str, tensor: Any, *, device: str | None = None) -> Value:
        """A tensor that lives across runs and may be updated in place (parameters, momenta).

        It has one home: `device`, or where the scheduler puts the tasks that update it.

        Raises:
            DuplicateNameError: The name is taken or not allowed.
        """
        return self._given(name, "state", tensor, device)

    def _given(self, name: str, kind: Any, tensor: Any, device: str | None) -> Value:
        if isinstance(tensor, TensorSpec):
            spec = tensor
        elif hasattr(tensor, "untyped_storage"):
            spec = TensorSpec.of(tensor)
        else:
            raise WorkloadError(f"{kind} {name!r} must be a tensor or a TensorSpec, got {type(tensor).__name__}")
        value = self._new_value(Value(self._free_name(name), kind, spec.nbytes, spec, device=device))
        if not isinstance(tensor, TensorSpec):
            self.tensors[name] = tensor
        return value

    # -- tasks -------------------------------------------------------------------------------

    def task(
        self,
        function: Callable[..., Any],
        *args: Any,
        name: str | None = None,
        updates: Value | Sequence[Value] = (),
        device: str | Sequence[str] = (),
        outputs: int | Sequence[TensorSpec] | None = None,
        names: Sequence[str] = (),
        duration_s: float | Mapping[str, float] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Add ``function(*args, **kwargs)``; values among the arguments make edges.

        Args:
            function: Any callable over tensors. It returns None, a tensor, or a sequence of tensors (None among
                them is left out).
            name: Unique name; default the function's name and a number.
            updates: States (or views of states) among the arguments that it changes in place.
            device: Where it may run: a device (``cuda:0``), a kind (``cuda``), or several; default anywhere.
            outputs: What it returns, if fake tensors cannot tell: a count is checked, specifications are
                taken as they are.
            names: Names of the output values; default: the task's, numbered where there are several.
            duration_s: Duration in seconds to be used instead of a measured one; or one a device or kind.

        Returns:
            The output `Value`; a tuple of several; None if it returns nothing.

        Raises:
            DuplicateNameError: The name is taken or not allowed.
            ForeignValueError: An argument is a value of another workload.
            SignatureError: It returns something else than declared, or updates undeclared tensors.
            WorkloadError: An argument is a tensor; inputs and states are what tasks read.
            CostError: `duration_s` is negative or not finite.
        """
        name = self._name(name, getattr(function, "__name__", "task"))
        values: dict[str, int] = {}
        positional, named = self._template((args, kwargs), values)
        changed = (updates,) if isinstance(updates, Value) else tuple(updates)
        reads = tuple(self._read(self.values[v]) for v in values)
        operation = Operation(operation_name(function), function, positional, named)
        inferred = self._infer(name, operation, reads, outputs)
        self._check_updates(name, changed, values, inferred)
        called = self._names_of_outputs(name, names, len(inferred.outputs))
        made = tuple(self._output(name, own, i, inferred, reads, changed) for i, own in enumerate(called))
        task = Task(
            name=name,
            reads=reads,
            outputs=made,
            updates=changed,
            operation=replace(operation, flops=inferred.flops),
            signature=signature(operation.name, positional, named, reads),
            devices=(device,) if isinstance(device, str) else tuple(device),
            duration_s=checked_duration(name, duration_s),
        )
        self._add(task)
        return made[0] if len(made) == 1 else made or None

    def copy(
        self,
        value: Value,
        *,
        to: str,
        pinned: bool = False,
        fresh: bool = False,
        after: Sequence[Value] = (),
        name: str | None = None,
    ) -> Value:
        """Copy `value` to device `to`, never merged with another copy.

        On the host side the memory is pinned (`pinned`), pageable and used before (default), or
        allocated anew for every run (`fresh`, what ``tensor.cpu()`` does: page faults included).
        It is dispatched after the tasks that make the values `after`, and waits for them; for another copy only where
        the engine of one GPU makes both, one after the other.

        Raises:
            ForeignValueError: `value`, or one of `after`, is of another workload.
            WorkloadError: Both `pinned` and `fresh`.
        """
        if pinned and fresh:
            raise WorkloadError("a copy goes to pinned memory or to fresh pageable memory, not both")
        name = self._name(name, "copy")
        read = self._read(self._own(value))
        made = Value(name, "output", value.nbytes, value.spec, producer=name, device=to)
        memory: Memory = "pinned" if pinned else "fresh" if fresh else "pageable"
        first = tuple(dict.fromkeys(v.producer for v in map(self._own, after) if v.producer is not None))
        self._add(Task(name, "copy", (read,), (made,), after=first, memory=memory))
        return made

    def collective(
        self,
        operation: Collective,
        values: Sequence[Value],
        *,
        devices: Sequence[str],
        name: str | None = None,
        duration_s: float | Mapping[str, float] | None = None,
    ) -> tuple[Value, ...]:
        """Let several devices add up or exchange values by NCCL, or in its place Gloo or a sum in host memory.

        One task of all of them: it begins when every device has its value and ends on all together.

        Args:
            operation: ``all_reduce`` (the sum, on each), ``all_gather`` (all values one behind the other, on each) or
                ``reduce_scatter`` (part k of the sum, by rows, on device k).
            values: One for each device, contiguous, of one shape and type; copied there by the plan where it is not.
            devices: Who takes part: GPUs, or groups of threads and the host.
            name: Unique name; default the operation's and a number.
            duration_s: As of `task`.

        Returns:
            What each device gets, in their order.

        Raises:
            DuplicateNameError: The name is taken or not allowed.
            ForeignValueError: A value is of another workload.
            WorkloadError: There is no such operation, or values and devices do not fit it.

        Example:
            >>> work = Workload()
            >>> given = [work.input(f"x{k}", TensorSpec((6,)), device=f"cuda:{k}") for k in range(2)]
            >>> work.collective("all_reduce", given, devices=("cuda:0", "cuda:1"), name="sum")
            (Value(sum.0: float32[6]), Value(sum.1: float32[6]))
        """
        return collective(self, operation, values, devices, name, duration_s)

    def barrier(self, name: str | None = None) -> None:
        """The dispatching thread waits for all tasks so far before it goes on."""
        name = self._name(name, "barrier")
        ends = tuple(t for t in self._since_barrier if not self.graph.out_degree(t))
        self._add(Task(name, "barrier", after=ends))

    def keep(self, *values: Value) -> None:
        """Return these values from every run too; those that no task reads are returned anyway."""
        for value in values:
            self.kept.add(self._own(value).name)

    # -- what is there -----------------------------------------------------------------------

    @property
    def tasks(self) -> list[Task]:
        """Tasks in topological order."""
        return [data["task"] for _, data in self.graph.nodes(data=True)]

    def __getitem__(self, name: str) -> Task:
        return self.graph.nodes[name]["task"]  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return len(self.graph)

    def __repr__(self) -> str:
        return f"Workload({self.name!r}, {len(self.graph)} tasks, {self.graph.number_of_edges()} edges)"

    @property
    def runnable(self) -> bool:
        """Whether every task has code to run (not so for graphs of durations, or read from a file)."""
        return all(t.kind != "run" or (t.operation and t.operation.function) for t in self.tasks)

    def returned(self) -> list[Value]:
        """Values that a run returns: those marked by `keep`, and outputs that no task reads (`returns_unread`)."""
        read = {r.value.name for t in self.tasks for r in t.reads} if self.returns_unread else set(self.values)
        return [v for v in self.values.values() if v.name in self.kept or (v.kind == "output" and v.name not in read)]

    def digest(self) -> str:
        """Hash of the graph: names, operations, reads, updates, sizes, constraints; not of tensors' contents."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """The workload without its code and tensors, for JSON; see `from_dict`."""
        from graphsched.workload.serial import to_dict

        return to_dict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Workload:
        """A workload from `to_dict`: it can be scheduled and predicted, not run.

        Raises:
            FileFormatError: Entries are missing or wrong.
        """
        from graphsched.workload.serial import from_dict

        return from_dict(data)

    @classmethod
    def from_graph(
        cls, graph: nx.DiGraph, *, duration: str = "duration_s", nbytes: str = "nbytes", name: str = "graph"
    ) -> Workload:
        """A model-only workload from a bare DAG: predicted, not run.

        Node attribute `duration` holds seconds (a number, or a mapping from device name or kind to
        seconds); edge attribute `nbytes` the bytes passed (default 0: it only orders).

        Raises:
            CycleError: The graph has a cycle; the message prints it.
            CostError: A duration is missing, negative or not finite.
            WorkloadError: Bytes are negative or no number, or the graph is undirected or a multigraph.

        Example:
            >>> g = nx.DiGraph()
            >>> g.add_node("a", duration_s=1.0)
            >>> g.add_node("b", duration_s=2.0)
            >>> g.add_edge("a", "b", nbytes=100)
            >>> Workload.from_graph(g)
            Workload('graph', 2 tasks, 1 edges)
        """
        from graphsched.workload.bare import from_graph

        return from_graph(graph, duration, nbytes, name)

    # -- inside --------------------------------------------------------------------------------

    def _free_name(self, name: str) -> str:
        if check_name(name) in self.graph or name in self.values:
            raise taken(name)
        return name

    def _name(self, name: str | None, stem: str) -> str:
        return self._free_name(self._numbered(stem) if name is None else name)

    def _numbered(self, stem: str) -> str:
        stem = "".join(c if c.isalnum() or c in "._-" else "_" for c in stem).strip("_") or "task"
        number = len(self.graph)
        while f"{stem}{number}" in self.graph or f"{stem}{number}" in self.values:
            number += 1
        return f"{stem}{number}"

    def _new_value(self, value: Value) -> Value:
        self.values[value.name] = value
        return value

    def _own(self, value: Value) -> Value:
        if not isinstance(value, Value):
            raise WorkloadError(
                f"a {type(value).__name__} was given where a value is needed: make it with work.input, state or task"
            )
        if self.values.get(value.name) is not value:
            raise ForeignValueError(
                f"value {value.name!r} belongs to another workload: make it with this workload's input, state or task"
            )
        return value

    def _template(self, thing: Any, values: dict[str, int]) -> Any:
        if isinstance(thing, Value):
            return Slot(values.setdefault(self._own(thing).name, len(values)))
        if isinstance(thing, Operation):
            args, kwargs = self._template((thing.args, thing.kwargs), values)
            return replace(thing, args=args, kwargs=kwargs)
        if isinstance(thing, (list, tuple)):
            return like(thing, (self._template(t, values) for t in thing))
        if isinstance(thing, Mapping):
            return {k: self._template(t, values) for k, t in thing.items()}
        if hasattr(thing, "untyped_storage"):
            raise WorkloadError(
                f"a tensor of shape {tuple(thing.shape)} is among the arguments, and no plan could move it: "
                "make it a value with work.input(...) or work.state(...)"
            )
        return thing

    def _read(self, value: Value) -> Read:
        writers = self._writers.get(value.root, [])
        source = writers[-1] if len(writers) > value.born else value.producer
        return Read(value, len(writers), source)

    def _infer(
        self,
        name: str,
        operation: Operation,
        reads: tuple[Read, ...],
        outputs: int | Sequence[TensorSpec] | None,
    ) -> Inferred:
        if outputs is not None and not isinstance(outputs, int):
            return Inferred(tuple(outputs), (None,) * len(outputs), (), 0)
        specs = tuple(r.value.spec for r in reads)
        if None in specs:
            raise SignatureError(f"task {name!r} reads a value without a shape: declare outputs=[TensorSpec(...)]")
        key = (signature(operation.name, operation.args, operation.kwargs, reads), id(operation.function))
        if key not in self._inferred:
            try:
                self._inferred[key] = infer(operation.function, operation.args, operation.kwargs, specs)  # type: ignore[arg-type]
            except SignatureError as error:
                raise SignatureError(f"task {name!r}: {operation.name}: {error}") from error
            except Exception as error:
                raise SignatureError(
                    f"task {name!r}: {operation.name} failed on tensors of shapes "
                    f"{', '.join(map(str, specs))} ({type(error).__name__}: {error}); if it cannot run without "
                    "data, declare outputs=[TensorSpec(shape, dtype), ...]"
                ) from error
        inferred = self._inferred[key]
        if outputs is not None and outputs != len(inferred.outputs):
            raise SignatureError(
                f"task {name!r} declares {outputs} outputs, its function returns {len(inferred.outputs)}"
            )
        return inferred

    def _check_updates(self, name: str, updates: tuple[Value, ...], values: dict[str, int], inferred: Inferred) -> None:
        declared = set()
        for value in updates:
            if self.values[self._own(value).root].kind != "state":
                raise SignatureError(
                    f"task {name!r} updates {value.name!r}, which is no state: make it with work.state(...)"
                )
            if value.name not in values:
                raise SignatureError(f"task {name!r} updates {value.name!r}, which is not among its arguments")
            declared.add(value.root)
        names = list(values)
        for i in inferred.updated:
            if self.values[names[i]].root not in declared:
                raise SignatureError(
                    f"task {name!r} changes its argument {names[i]!r} in place: declare updates={names[i]} "
                    "(a state), or use the function that returns a new tensor"
                )

    def _names_of_outputs(self, task: str, names: Sequence[str], count: int) -> list[str]:
        if names and len(names) != count:
            raise SignatureError(f"task {task!r} names {len(names)} outputs, its function returns {count}")
        return list(names) or ([task] if count == 1 else [f"{task}.{i}" for i in range(count)])

    def _output(
        self, task: str, name: str, i: int, inferred: Inferred, reads: tuple[Read, ...], updates: tuple[Value, ...]
    ) -> Value:
        spec, alias = inferred.outputs[i], inferred.aliases[i]
        if alias is None:
            return Value(name, "output", spec.nbytes, spec, producer=task)
        root = reads[alias].value.root
        born = len(self._writers.get(root, ())) + any(v.root == root for v in updates)
        return Value(name, "output", spec.nbytes, spec, producer=task, root=root, born=born)

    def _add(self, task: Task) -> None:
        """Put `task` into the graph with every edge that its reads and updates call for."""
        for value in task.outputs:
            if value.name != task.name:
                self._free_name(value.name)
        name = task.name
        before: dict[str, dict[str, int]] = {other: {} for other in task.after}
        for read in task.reads:
            value, source = read.value, read.source
            if source in before:
                before[source][value.name] = value.nbytes
            elif source is not None:
                before[source] = {value.name: value.nbytes}
        for root in _updated(task):
            for other in [*self._writers.get(root, ())[-1:], *self._readers.get(root, ())]:
                before.setdefault(other, {})
        if self._barrier and self._since_barrier.keys().isdisjoint(before):
            before.setdefault(self._barrier, {})
        after = tuple([other for other, values in before.items() if not values])
        if after != task.after:
            task = replace(task, after=after)
        self.graph.add_node(name, task=task)
        self.graph.add_edges_from(
            [
                (other, name, {"values": tuple(values), "nbytes": sum(values.values())})
                for other, values in before.items()
            ]
        )
        self._remember(task)

    def _remember(self, task: Task) -> None:
        for value in task.outputs:
            self.values[value.name] = value
        for read in task.reads:
            root = read.value.root
            if self.values[root].kind == "state":  # nothing else is ever updated
                self._readers.setdefault(root, {})[task.name] = None
        if task.kind == "collective":
            self.collectives.append(task.name)
        for root in _updated(task):
            self._writers.setdefault(root, []).append(task.name)
            self._readers[root] = {}
        if task.kind == "barrier":
            self._barrier, self._since_barrier = task.name, {}
        else:
            self._since_barrier[task.name] = None


def taken(name: str) -> DuplicateNameError:
    return DuplicateNameError(f"name {name!r} is taken in this workload: give another name=")


def _updated(task: Task) -> list[str]:
    """Owners of the storage that `task` changes in place, each once."""
    return list(dict.fromkeys([v.root for v in task.updates])) if task.updates else []


def checked_duration(task: str, given: Any) -> Any:
    """A duration given for `task`, as seconds or as a mapping from device or kind to seconds.

    Raises:
        CostError: It is negative or not finite.
    """
    if isinstance(given, Mapping):
        plain = {*map(type, given), *map(type, given.values())} == {str, float}
        if plain and min(given.values()) >= 0.0 and sum(given.values()) < math.inf:  # nor is there a NaN
            return dict(given)
        return {str(k): check_seconds(v, f"duration of task {task!r} on {k}") for k, v in given.items()}
    return None if given is None else check_seconds(given, f"duration of task {task!r}")


def ancestors_first(graph: nx.DiGraph, names: Iterable[str]) -> bool:
    """Whether `names` is a topological order of all nodes of `graph`.

    Example:
        >>> ancestors_first(nx.DiGraph([("a", "b")]), ["b", "a"])
        False
    """
    ordered = list(names)
    position = {name: i for i, name in enumerate(ordered)}
    if len(ordered) != len(graph) or position.keys() != graph.nodes.keys():
        return False
    return all(position[u] < position[v] for u, v in graph.edges)
