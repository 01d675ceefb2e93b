"""Where the tasks and states of a training step are that is cut into stages."""

from __future__ import annotations

from collections.abc import Sequence

from graphsched.errors import WorkloadError
from graphsched.partition.chain import Chain
from graphsched.workload import Task, Value


class Placing:
    """Stages of tasks, and homes of states.

    Attributes:
        stage_of: Stage of each task: of a forward or backward task that of its layer, of an update that of its
            parameter, or of the update tasks that it reads from.
        home_of: Stage of each state that some task changes.

    Raises:
        WorkloadError: Stages on different devices change one state, an update concerns parameters on different
            devices, or a parameter is changed by what no backward task makes.
    """

    def __init__(self, chain: Chain, starts: Sequence[int], devices: Sequence[str]) -> None:
        """`starts`: the first layer of each stage, and how many layers there are."""
        self._chain, self._devices = chain, devices
        stages = [stage for stage in range(len(starts) - 1) for _ in range(starts[stage], starts[stage + 1])]
        self.home_of = {state: stages[layer] for state, layer in chain.home_of.items() if state in chain.changed}
        self.stage_of = {name: stages[layer] for name, layer in chain.layer_of.items()}
        for task in chain.work.tasks:
            if task.name not in self.stage_of:
                self.stage_of[task.name] = self._stage_of_update(task)
            for value in task.updates:
                self._check_home(task.name, value.root)
        self._check_gradients()

    def device(self, stage: int) -> str:
        """Where a stage is."""
        return self._devices[stage % len(self._devices)]

    def device_of(self, task: str) -> str:
        """Where a task is."""
        return self.device(self.stage_of[task])

    def _is_of_update(self, value: Value) -> bool:
        return value.producer is not None and value.producer not in self._chain.layer_of

    def _stage_of_update(self, task: Task) -> int:
        read = [read.value for read in task.reads]
        stages = {self.home_of[value.root] for value in read if value.root in self.home_of}
        stages |= {self.stage_of[str(value.producer)] for value in read if self._is_of_update(value)}
        if not stages:  # of gradients alone
            stages = {self.stage_of[value.producer] for value in read if value.producer is not None}
        if len({self.device(stage) for stage in stages}) > 1:
            raise WorkloadError(
                f"task {task.name!r} updates parameters of stages {', '.join(map(str, sorted(stages)))} at once: make "
                "the optimizer with foreach=False and fused=False"
            )
        return min(stages, default=0)

    def _check_home(self, task: str, state: str) -> None:
        home = self.home_of.setdefault(state, self.stage_of[task])
        if self.device(home) != self.device_of(task):
            raise WorkloadError(
                f"task {task!r} of stage {self.stage_of[task]} changes {state!r}, which lives with stage {home}: use "
                "the layer in one stage only, or fewer stages"
            )

    def _check_gradients(self) -> None:
        gradients = {value.name for value in self._chain.gradients}
        known: set[str] = set()  # update tasks that a gradient reaches
        trained: dict[str, bool] = {}
        for task in self._chain.work.tasks:
            if task.name not in self._chain.layer_of:
                if any(r.value.name in gradients or r.source in known for r in task.reads):
                    known.add(task.name)
                for value in task.updates:
                    parameter = value.root.partition("/")[0]
                    trained[parameter] = trained.get(parameter, False) or task.name in known
        for parameter, reached in trained.items():
            if not reached:
                raise WorkloadError(
                    f"the gradient of {parameter!r} does not depend on the inputs, so that a sum over micro-batches is "
                    "not defined: take the parameter out of the optimizer"
                )
