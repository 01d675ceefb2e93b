"""The builder and owner of a task graph."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import networkx as nx

from graphsched.errors import ForeignValueError, WorkloadError
from graphsched.workload.calls import Known, called_task
from graphsched.workload.collective import Collective, collective
from graphsched.workload.names import numbered, taken
from graphsched.workload.ordering import Ordering, add_ordered
from graphsched.workload.specs import TensorSpec
from graphsched.workload.tasks import (
    Memory,
    Task,
    Value,
    check_dense,
    check_device,
    check_devices,
    check_name,
    has_data,
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

    Raises:
        WorkloadError: Its name is no text.

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
        if not isinstance(name, str):
            raise WorkloadError(f"a workload is called {name!r}: text is needed")
        self.name = name
        self.graph: nx.DiGraph = nx.DiGraph()
        self.values: dict[str, Value] = {}
        self.tensors: dict[str, Any] = {}
        self.kept: set[str] = set()
        self.source: Any = None
        self.returns_unread = True
        self.collectives: list[str] = []
        self._order = Ordering(self.values)
        self._known = Known()

    # -- values that are there before time 0 --------------------------------------------------

    def input(self, name: str, tensor: Any, *, device: str = "cpu") -> Value:
        """A tensor given to every run; `tensor` (or a `TensorSpec`) is the default.

        With `device` other than ``cpu`` it is on that device before time 0; one on the CPU is
        copied by the plan to where it is needed. One on ``meta``, or fake, has no data, and is no default.

        Raises:
            DuplicateNameError: The name is taken or not allowed.
            WorkloadError: It is no tensor, or no dense one; `device` is no name.
        """
        return self._given(name, "input", tensor, device)

    def state(self, name: str, tensor: Any, *, device: str | None = None) -> Value:
        """A tensor that lives across runs and may be updated in place (parameters, momenta).

        It has one home: `device`, or where the scheduler puts the tasks that update it. One on ``meta``, or fake, has
        no data, and is to be given before a run.

        Raises:
            DuplicateNameError: The name is taken or not allowed.
            WorkloadError: It is no tensor, or no dense one; `device` is no name.
        """
        return self._given(name, "state", tensor, device)

    def _given(self, name: str, kind: Any, tensor: Any, device: str | None) -> Value:
        if isinstance(tensor, TensorSpec):
            spec = tensor
        elif hasattr(tensor, "untyped_storage"):
            check_dense(kind, name, tensor)
            spec = TensorSpec.of(tensor)
        else:
            raise WorkloadError(f"{kind} {name!r} must be a tensor or a TensorSpec, got {type(tensor).__name__}")
        if device is not None:
            check_device(device)
        spec = self._known.spec(spec)
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
                them is left out). It is called here once, without data, unless `outputs` are specified: it must keep
                no tensor of that call.
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
            SignatureError: It returns something else than declared, or updates undeclared tensors; there is no function
                to find that out, or `outputs` holds what is no specification.
            WorkloadError: An argument is a tensor; inputs and states are what tasks read. A device is no name.
            CostError: `duration_s` is negative or not finite.
        """
        name = self._name(name, getattr(function, "__name__", "task"))
        made = called_task(
            self,
            name,
            function,
            args,
            kwargs,
            updates=(updates,) if isinstance(updates, Value) else tuple(updates),
            devices=check_devices(device),
            outputs=outputs,
            names=names,
            duration_s=duration_s,
        )
        self._add(made)
        return made.outputs[0] if len(made.outputs) == 1 else made.outputs or None

    def copy(
        self,
        value: Value,
        *,
        to: str,
        pinned: bool = False,
        fresh: bool = False,
        after: Value | Sequence[Value] = (),
        name: str | None = None,
    ) -> Value:
        """Copy `value` to device `to`, never merged with another copy.

        On the host side the memory is pinned (`pinned`), pageable and used before (default), or
        allocated anew for every run (`fresh`, what ``tensor.cpu()`` does: page faults included).
        It is dispatched after the tasks that make the values `after`, and waits for them; for another copy only where
        the engine of one GPU makes both, one after the other.

        Raises:
            ForeignValueError: `value`, or one of `after`, is of another workload.
            WorkloadError: Both `pinned` and `fresh`, or `to` is no name.
        """
        if pinned and fresh:
            raise WorkloadError("a copy goes to pinned memory or to fresh pageable memory, not both")
        check_device(to)
        name = self._name(name, "copy")
        read = self._order.read(self._own(value))
        made = Value(name, "output", value.nbytes, value.spec, producer=name, device=to)
        memory: Memory = "pinned" if pinned else "fresh" if fresh else "pageable"
        before = (after,) if isinstance(after, Value) else after
        first = tuple(dict.fromkeys(v.producer for v in map(self._own, before) if v.producer is not None))
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
        ends = tuple(t for t in self._order.since_barrier if not self.graph.out_degree(t))
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

    def numbers(self, name: str) -> Any:
        """The tensor that was given for an input or a state; None without one, or where it has no data (`has_data`).

        Example:
            >>> import torch
            >>> work = Workload()
            >>> given = work.input("x", torch.ones(2)), work.input("y", torch.ones(2, device="meta"))
            >>> work.numbers("x"), work.numbers("y")
            (tensor([1., 1.]), None)
        """
        tensor = self.tensors.get(name)
        return tensor if tensor is not None and has_data(tensor) else None

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
        return self._free_name(numbered(stem, len(self.graph), self.graph, self.values) if name is None else name)

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

    def _add(self, task: Task) -> None:
        """Put `task` into the graph with every edge that its reads and updates call for."""
        for value in task.outputs:
            if value.name != task.name:
                self._free_name(value.name)
        add_ordered(self.graph, task, self._order.before(task))
        for value in task.outputs:
            self.values[value.name] = value
        if task.kind == "collective":
            self.collectives.append(task.name)
        self._order.remember(task)
