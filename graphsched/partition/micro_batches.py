"""The tasks of a pipeline: those of one micro-batch again and again, in the order of the steps.

Not modelled: inputs that come in parts: a stage gets the whole batch of an input before its first step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphsched.errors import WorkloadError
from graphsched.partition.buckets import in_buckets
from graphsched.partition.chain import Chain
from graphsched.partition.copying import Copier
from graphsched.partition.orders import Rows, Step, timetable
from graphsched.partition.placing import Placing
from graphsched.workload import Operation, Task, Value, Workload, operation_name

BUCKET_BYTES = 1 << 20
"""Gradients that one task sums; larger ones go alone, so that memory for few of them is needed twice."""


class MicroBatches:
    """Puts the tasks of all micro-batches into one workload.

    Attributes:
        target: That workload.
    """

    def __init__(self, work: Workload, chain: Chain, placing: Placing, devices: Sequence[str], size: int) -> None:
        """`work`: the step of the whole batch; `chain`: of one micro-batch, of `size` rows."""
        self._size = size
        self._shape = {value.name: value.spec.shape for value in work.values.values() if value.spec is not None}
        self.target = Workload(work.name)
        self.target.returns_unread = False
        self._chain, self._pattern, self._placing = chain, chain.work, placing
        self._inputs = {
            name: self.target.input(name, tensor, device=work.values[name].device or "cpu")
            for name, tensor in work.source.inputs.items()
        }
        self._states = self._add_states(devices)
        self._made: dict[int, dict[str, Any]] = {}  # of each micro-batch what stands for its values
        self._sums: dict[str, Value] = {}

    def run(self, rows: Rows, devices: Sequence[str], reduction: str) -> Workload:
        """The workload with all tasks.

        Args:
            rows: Steps of each device.
            devices: Their names.
            reduction: What the loss is over its batch, ``mean`` or ``sum`` of the rows.

        Raises:
            WorkloadError: A result that cannot be put together from those of micro-batches.
        """
        for start in timetable(rows):
            self._pass(start.step)
            if start.step.kind == "B":
                self._sum(start.step)
            if start.step == rows[start.device][-1]:
                self._update(devices[start.device])
        for value in self._pattern.values.values():
            if value.name in self._pattern.kept:
                self._result(value, reduction)
        assert {v.name for v in self.target.values.values() if v.kind == "input"} == set(self._inputs)
        return self.target

    # -- values ----------------------------------------------------------------------------------------

    def _add_states(self, devices: Sequence[str]) -> dict[str, dict[str, Value]]:
        """What stands for each state on each device: one state if a task changes it, else one for each device."""
        users: dict[str, dict[str, None]] = {}
        for task in self._pattern.tasks:
            for read in task.reads:
                if read.value.kind == "state":
                    users.setdefault(read.value.name, {})[self._placing.device_of(task.name)] = None
        states: dict[str, dict[str, Value]] = {device: {} for device in devices}
        for name, used in users.items():
            tensor, home = self._pattern.tensors[name], self._placing.home_of.get(name)
            if home is not None:
                value = self.target.state(name, tensor, device=self._placing.device(home))
                for device in used:
                    states[device][name] = value
            else:
                for i, device in enumerate(used):
                    states[device][name] = self.target.state(f"{name}/{device}" if i else name, tensor, device=device)
        return states

    def _rows(self, m: int) -> dict[str, Any]:
        """Inputs of micro-batch m: views of the rows of whole ones; as they are where there is nothing to cut."""
        import torch

        view = torch.ops.aten.slice.Tensor
        found: dict[str, Any] = {}
        for name, value in self._inputs.items():
            part = self._pattern.values[name].spec
            found[name] = value
            if part is not None and part != value.spec:
                size = part.shape[0]
                found[name] = Operation(operation_name(view), view, (value, 0, m * size, (m + 1) * size))
        return found

    # -- tasks -----------------------------------------------------------------------------------------

    def _pass(self, step: Step) -> None:
        phase = "forward" if step.kind == "F" else "backward"
        tasks = [task for task in self._tasks(phase) if self._placing.stage_of[task.name] == step.stage]
        before = self._made.get(step.micro_batch) or self._rows(step.micro_batch)
        prefix, device = f"m{step.micro_batch}/", self._placing.device(step.stage)
        self._made[step.micro_batch] = self._copied(tasks, prefix, device, before)
        for task in tasks:
            self.target.graph.nodes[prefix + task.name]["micro_batch"] = step.micro_batch

    def _tasks(self, phase: str) -> list[Task]:
        return [task for task in self._pattern.tasks if self._phase(task.name) == phase]

    def _phase(self, task: str) -> str:
        return str(self._pattern.graph.nodes[task]["phase"])

    def _copied(self, tasks: Iterable[Task], prefix: str, device: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Add `tasks` on `device`; what stands then for values of one micro-batch."""
        copier = Copier(
            self._pattern, self.target, lambda name: prefix + name, lambda _: device, {**values, **self._states[device]}
        )
        copier.add(tasks)
        for task in tasks:
            self.target.graph.nodes[prefix + task.name]["stage"] = self._placing.stage_of[task.name]
        return copier.values

    def _sum(self, step: Step) -> None:
        """Add the gradients of a stage that are new to those of the micro-batches before."""
        import torch

        add, device = torch.ops.aten._foreach_add.List, self._placing.device(step.stage)
        gradients = [v for v in self._chain.gradients if self._placing.stage_of[str(v.producer)] == step.stage]
        for number, bucket in enumerate(in_buckets([(0, gradient) for gradient in gradients], BUCKET_BYTES)):
            names = [gradient.name for gradient in bucket.gradients]
            now = [self._made[step.micro_batch][name] for name in names]
            if step.micro_batch:
                task, before = f"m{step.micro_batch}/stage{step.stage}/sum.{number}", [self._sums[n] for n in names]
                made = self.target.task(add, before, now, name=task, device=device)
                now = [made] if isinstance(made, Value) else list(made)
                self._note(task, step.stage, "backward", micro_batch=step.micro_batch)
            self._sums.update(zip(names, now, strict=True))

    def _update(self, device: str) -> None:
        tasks = [task for task in self._tasks("update") if self._placing.device_of(task.name) == device]
        self._copied(tasks, "", device, self._sums)

    def _result(self, value: Value, reduction: str) -> None:
        """What `value` is of the whole batch: rows one after another, or the mean or sum of scalars."""
        import torch

        if value.producer is None or self._phase(value.producer) != "forward":
            raise WorkloadError(
                f"result {value.name!r} is not made by the forward pass: a pipeline returns the loss and outputs only"
            )
        parts = [made[value.name] for made in self._made.values()]
        stage, spec = self._placing.stage_of[value.producer], value.spec
        assert spec is not None
        function: Any = torch.cat
        argument: Any = parts
        if not spec.shape:
            function = torch.mean if reduction == "mean" and "float" in spec.dtype else torch.sum
            argument = Operation(operation_name(torch.stack), torch.stack, (parts,))
        elif spec.shape[0] != self._size or self._shape[value.name] != (len(parts) * self._size, *spec.shape[1:]):
            raise WorkloadError(
                f"result {value.name!r} of shape {spec.shape} is no scalar and has no row for each of the batch: "
                "return something else"
            )
        whole = self.target.task(function, argument, name=value.name, device=self._placing.device(stage))
        self._note(value.name, stage, "forward")
        self.target.keep(whole)

    def _note(self, task: str, stage: int, phase: str, **more: int) -> None:
        self.target.graph.nodes[task].update(module="", phase=phase, stage=stage, **more)
