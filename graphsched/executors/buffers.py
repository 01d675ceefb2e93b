"""The memory of a program: inputs, states, results, and the buffers of copies to the host."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphsched.errors import WorkloadError
from graphsched.executors.lanes import is_cuda
from graphsched.executors.tensors import copied, new_tensor, put
from graphsched.plan import Copy, Plan
from graphsched.plan.joins import Join
from graphsched.plan.pinning import takes_pinned
from graphsched.workload import Read, TensorSpec, Value, check_data, check_dense


class Buffers:
    """Tensors by slot number; names of values and of inserted copies map to slots.

    Attributes:
        joined: Results of joins by task (`plan.joins`), flat.
        places: Where in them the values and inserted copies go that are their parts, by name.

    Inputs and states are clones of the user's tensors, which never change. Inputs and states in host
    memory are pinned where the plan uses CUDA. What a copy brings to the host goes to two buffers in
    turn, so that a returned tensor stays as it is until the run after next; where an inserted copy made
    it, which the user does not see, a clone is returned.
    """

    def __init__(
        self, plan: Plan, states: Mapping[str, Any] | None = None, defaults: Mapping[str, Any] | None = None
    ) -> None:
        """For `plan`.

        Args:
            plan: Whose values it is for.
            states: Theirs, which stay where they are; None: clones of the user's.
            defaults: Of inputs, in place of the user's.
        """
        self.plan = plan
        states, defaults = states or {}, defaults or {}
        self.pins = any(is_cuda(lane.device) for lane in plan.lanes)
        self.slots: list[Any] = []
        self.slot_of: dict[str, int] = {}
        self._changed: set[str] = set()
        self._defaults: dict[str, Any] = {}  # of inputs that were given since: what lies in the others is theirs
        self._pinned: dict[str, int] = {}
        self._results: list[int] = []
        for value in plan.work.values.values():
            if value.kind != "output":
                mine = states.get(value.name)
                self.slot_of[value.name] = self.constant(self._place(value, defaults) if mine is None else mine)
        self._given = dict(self.slot_of)
        self.joined: dict[str, Any] = {}
        self.places: dict[str, Any] = {}
        for join in plan.joins:
            self._join(join)
        fixed = [*(self.slots[slot] for slot in self._given.values()), *self.joined.values()]
        self._addresses: set[int] = set()
        self.keep(fixed)

    def slot(self, name: str) -> int:
        """The slot of a value or inserted copy."""
        if name not in self.slot_of:
            self.slot_of[name] = self.constant(None)
            self._results.append(self.slot_of[name])
        return self.slot_of[name]

    def constant(self, thing: Any) -> int:
        """A slot that holds `thing` for good."""
        self.slots.append(thing)
        return len(self.slots) - 1

    def _place(self, value: Value, defaults: Mapping[str, Any]) -> Any:
        tensor = defaults[value.name] if value.name in defaults else self.plan.work.numbers(value.name)
        home = self.plan.homes[value.name]
        assert value.spec is not None
        if tensor is None and value.kind == "state":
            raise WorkloadError(
                f"state {value.name!r} has no data (a TensorSpec, on meta, or fake): give a tensor to run it"
            )
        placed = self._new(value.spec, home, pinned=not is_cuda(home))
        if tensor is None:
            self._changed.add(value.name)
            return placed.zero_()  # what else lies there may be no number, or no index, in a run before a capture
        return placed.copy_(tensor.detach())

    def _new(self, spec: TensorSpec, device: str, *, pinned: bool) -> Any:
        """Memory that every run may write, whether it or the program is made in torch's inference mode."""
        import torch

        with torch.inference_mode(False):
            return new_tensor(spec, device, pinned=pinned and self.pins)

    def _join(self, join: Join) -> None:
        """Memory for the parts of a join, one behind the other."""
        spec = TensorSpec((join.elements,), join.dtype)
        whole = self._new(spec, join.device, pinned=not is_cuda(join.device))
        ends = [*list(join.starts.values())[1:], join.elements]
        self.joined[join.task] = whole
        self.places |= {name: whole[start:end] for (name, start), end in zip(join.starts.items(), ends, strict=True)}

    def host_pair(self, spec: TensorSpec, *, pinned: bool) -> list[Any]:
        """Two host buffers for copies of such a tensor, to be used in turn."""
        return [self._new(copied(spec), "cpu", pinned=pinned) for _ in range(2)]

    def keep(self, tensors: Iterable[Any]) -> None:
        """Return clones of results that lie in these."""
        self._addresses.update(_address(tensor) for tensor in tensors)

    def pinned(self, read: Read) -> int:
        """The slot of pinned memory for a result that GPUs read, see `plan.pinning`."""
        name, spec = str(read), read.value.spec
        if name not in self._pinned:
            assert spec is not None
            self._pinned[name] = self.constant(self._new(copied(spec), "cpu", pinned=True))
        return self._pinned[name]

    def source(self, copy: Copy) -> int:
        """The slot that a copy reads."""
        return self.pinned(copy.read) if takes_pinned(self.plan, copy) else self.slot(copy.read.value.name)

    def load(self, inputs: Mapping[str, Any]) -> set[int]:
        """Put the inputs of a run in place; those not given get their default.

        Returns:
            Numbers of the CUDA devices whose current streams copy them.

        Raises:
            WorkloadError: A name is no input, one without default is missing, a tensor is not dense, its shape or type
                differ, it has no data, or it is on another device than the input and the host; nothing is put in place
                then.
        """
        work = self.plan.work
        for name in inputs:
            if name not in work.values or work.values[name].kind != "input":
                known = [v.name for v in work.values.values() if v.kind == "input"]
                raise WorkloadError(f"{name!r} is no input of this workload: it has {', '.join(known) or 'none'}")
        for name in sorted(self._changed - set(inputs)):
            if work.numbers(name) is None:
                raise WorkloadError(f"input {name!r} has no default: give it to run({name}=tensor)")
        for name, tensor in inputs.items():
            self._check_given(work.values[name], tensor)
        self._keep_defaults(set(inputs) - self._changed)
        changing = sorted(self._changed | set(inputs))
        self._changed.update(inputs)
        for name in changing:
            put(self.slots[self.slot_of[name]], inputs[name] if name in inputs else self._defaults[name])
        self._changed = set(inputs)
        return self.gpus(changing)

    def _keep_defaults(self, names: Iterable[str]) -> None:
        """Before inputs are given, keep what lies there: the user's own tensors may be others by now."""
        for name in names:
            if name not in self._defaults:
                self._defaults[name] = self.slots[self.slot_of[name]].to("cpu", copy=True)

    def gpus(self, names: Iterable[str]) -> set[int]:
        """Numbers of the CUDA devices that these values are on."""
        return {self._gpu_of[name] for name in names if name in self._gpu_of}

    @functools.cached_property
    def _gpu_of(self) -> dict[str, int]:
        import torch

        return {name: torch.device(home).index for name, home in self.plan.homes.items() if is_cuda(home)}

    def states(self) -> dict[str, Any]:
        """Clones of the states as they are now."""
        return {n: self.slots[self.slot_of[n]].clone() for n in self._state_names()}

    def restore(self, states: Mapping[str, Any]) -> None:
        """Set states to the given tensors.

        Raises:
            WorkloadError: A name is no state, a tensor is not dense, its shape or type differ, it has no data, or it is
                on another device than the state and the host; nothing is put in place then.
        """
        names = self._state_names()
        for name, tensor in states.items():
            if name not in names:
                raise WorkloadError(f"{name!r} is no state of this workload: it has {', '.join(names) or 'none'}")
            self._check_given(self.plan.work.values[name], tensor)
        for name, tensor in states.items():
            self.slots[self.slot_of[name]].copy_(tensor.detach())

    def _check_given(self, value: Value, tensor: Any) -> None:
        check_tensor(value, tensor)
        buffer = self.slots[self.slot_of[value.name]]
        home = buffer.device
        if (tensor.shape, tensor.dtype) != (buffer.shape, buffer.dtype):
            raise WorkloadError(f"{value.kind} {value.name!r} must be {value.spec}, got {TensorSpec.of(tensor)}")
        if tensor.device != home and tensor.device.type != "cpu":
            raise WorkloadError(
                f"{value.kind} {value.name!r} is on {home}, got a tensor on {tensor.device}: "
                "give one there or on the host"
            )
        if not tensor.is_meta:  # which is a device to the check above
            check_data(value.kind, value.name, tensor)

    def _state_names(self) -> list[str]:
        return [v.name for v in self.plan.work.values.values() if v.kind == "state"]

    def results(self) -> dict[str, Any]:
        """The returned values of the run that has just ended, by name; clones of what lies in memory for good."""
        found = {name: self.slots[slot] for name, slot in self._returned.items()}
        return {name: t.clone() if _address(t) in self._addresses else t for name, t in found.items()}

    def copies_of_results(self, fixed: Sequence[Any]) -> dict[str, Any]:
        """Clones of the returned values by name, from slots as they were filled for good, or else as they are now."""
        found = {name: (fixed[slot], self.slots[slot]) for name, slot in self._returned.items()}
        return {name: (now if there is None else there).clone() for name, (there, now) in found.items()}

    @functools.cached_property
    def _returned(self) -> dict[str, int]:
        """Slots of the returned values by name: looked up once, for a run may be shorter than the look."""
        return {v.name: self.slot(v.name) for v in self.plan.work.returned()}

    def clear(self) -> None:
        """Drop every result; inputs and states stay."""
        for i in self._results:
            self.slots[i] = None

    def twin(self) -> Buffers:
        """For every other step: inputs, with their defaults, and results in memory of their own; the same states."""
        inputs = [v.name for v in self.plan.work.values.values() if v.kind == "input"]
        there = {name: self.slots[self.slot_of[name]] for name in (*inputs, *self._state_names())}
        known = [name for name in inputs if self.plan.work.numbers(name) is not None]
        defaults = {name: self._defaults.get(name, there[name]) for name in known}
        new = Buffers(self.plan, {name: there[name] for name in self._state_names()}, defaults)
        new._defaults = self._defaults
        return new

    def renewed(self) -> Buffers:
        """Inputs and states as they are now in memory of their own: for use while a lost task may still write here."""
        new = Buffers(self.plan)
        for name, slot in self._given.items():
            new.slots[new.slot_of[name]].copy_(self.slots[slot])
        new._changed, new._defaults = set(self._changed), dict(self._defaults)
        return new


def check_tensor(value: Value, tensor: Any) -> None:
    """Make sure that what is given for an input or a state is a dense tensor.

    Raises:
        WorkloadError: It is none.
    """
    if not hasattr(tensor, "untyped_storage"):
        raise WorkloadError(f"{value.kind} {value.name!r} must be a tensor, got {type(tensor).__name__}")
    check_dense(value.kind, value.name, tensor)


def _address(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())
