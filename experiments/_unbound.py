"""Workloads that leave schedulers a choice: training steps, cells, grids and random graphs, each task on any device.

Not modelled: states are changed where they live, so that all tasks that change one share a device: those of batch
normalisation and the updates of parameters. Each replica of a training step has parameters of its own; which device it
goes to, or whether it is torn apart, is the scheduler's choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import graphsched as gs
from experiments._cells import as_workload, inception
from experiments._mixtures import mixture
from experiments._patterns import PATTERNS
from experiments._shared import SEED
from experiments.task_bench import grid
from graphsched.partition import data_parallel
from graphsched.partition.copying import Copier
from graphsched.workload import Task
from models.lenet import LeNet
from models.resnet import resnet18
from models.transformer import RowTransformer

CPU = "cpu"
GRAPH_SEED = 1
LIGHT_BYTES = 64 << 20
"""What a task may read and write at most to be light."""


@dataclass(frozen=True)
class Training:
    """How a network is trained, as in the experiments whose costs the shipped platforms hold.

    Attributes:
        network: Makes it.
        lr: Learning rate.
        grows: Whether `lr` is that of one device, and grows with their number.
    """

    network: Callable[[], nn.Module]
    lr: float
    grows: bool = False


TRAINED: Mapping[str, Training] = {
    "LeNet": Training(LeNet, 0.05),
    "ResNet-18": Training(resnet18, 0.1, grows=True),
    "transformer": Training(lambda: RowTransformer(dropout=0.0), 0.05),
}
INCEPTION, RANDOM = "inception", "random-layers"
WORKLOADS = (*TRAINED, INCEPTION, *PATTERNS, RANDOM)


@dataclass(frozen=True)
class Sizes:
    """How large workloads are.

    Attributes:
        batch: Images for each accelerator.
        shrink: What channels and pixels of the cell are divided by.
        size, width, steps: Of grids and random graphs: rows of a matrix, points of a step, steps.
    """

    batch: int
    shrink: int
    size: int
    width: int
    steps: int


def unbound(name: str, devices: Sequence[str], sizes: Sizes, *, with_cpu: bool = False) -> gs.Workload:
    """The workload `name` for accelerators `devices`, each task on any of them; with the CPU, light tasks there too.

    Of a training step each device's number of images is a replica.
    """
    if name == RANDOM:
        return mixture(devices, sizes.size, sizes.steps, sizes.width, seed=GRAPH_SEED, cpu=with_cpu)
    return anywhere(_bound(name, devices, sizes), devices, (CPU,) if with_cpu else ())


def _bound(name: str, devices: Sequence[str], sizes: Sizes) -> gs.Workload:
    if name in TRAINED:
        return data_parallel(_step(TRAINED[name], sizes.batch, len(devices)), devices)
    if name == INCEPTION:
        return as_workload(inception(1, sizes.shrink), devices[0], name)
    return grid(name, devices, sizes.size, sizes.width, sizes.steps)


def _step(training: Training, batch: int, devices: int) -> gs.Workload:
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(SEED)
        net = training.network()
        images, labels = torch.rand(batch * devices, 1, 28, 28), torch.randint(0, 10, (batch * devices,))
    sgd = torch.optim.SGD(net.parameters(), lr=training.lr * (devices if training.grows else 1))
    return gs.trace(net, images, target=labels, loss=cross_entropy, optimizer=sgd)


def anywhere(work: gs.Workload, devices: Sequence[str], for_light: Sequence[str] = ()) -> gs.Workload:
    """`work` with every task on any of `devices`, light ones on those of `for_light` too, and states without a home.

    Inputs stay where they are.

    Example:
        >>> work = gs.Workload()
        >>> x = work.input("x", torch.ones(2, 2), device="cuda:0")
        >>> y = work.task(torch.mm, x, work.state("w", torch.ones(2, 2), device="cuda:0"), name="y", device="cuda:0")
        >>> z = work.task(torch.relu, y, name="z", device="cuda:0")
        >>> freed = anywhere(work, ["cuda:0", "cuda:1"], ["cpu"])
        >>> [task.devices for task in freed.tasks], freed.values["w"].device
        ([('cuda:0', 'cuda:1'), ('cuda:0', 'cuda:1', 'cpu')], None)
    """
    made = gs.Workload(work.name)
    made.returns_unread = work.returns_unread
    copier = Copier(work, made, str, lambda task: (*devices, *(for_light if is_light(task) else ())))
    copier.add(work.tasks)
    made.keep(*(copier.values[name] for name in work.values if name in work.kept))
    return made


def is_light(task: Task) -> bool:
    """Whether a CPU can do `task` in reasonable time: no product, no convolution, and not many bytes."""
    return task.operation is not None and not task.operation.flops and task.nbytes <= LIGHT_BYTES
