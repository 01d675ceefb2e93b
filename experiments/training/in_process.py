"""Baselines in this process: the text's loop, plain PyTorch and nn.DataParallel.

Not modelled: a data loader in processes of its own; the batch is there, in pageable memory as the text has it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments._shared import threads_of, torch_device
from experiments.training.baselines import Setting, median_s, synchronize
from experiments.training.from_scratch import get_params, train_batch
from experiments.training.loop import Step
from experiments.training.results import Done, PlainStep
from graphsched.executors.collector import no_collector
from models.lenet import SHAPES


class Here:
    """Steps in this process, on the first batch of `setting`."""

    def __init__(self, step: Step, setting: Setting) -> None:
        self._step: Step | None = step
        self._setting = setting
        self._x, self._y = setting.batch()

    def step(self) -> None:
        """One step, waited for."""
        self._steps(1)

    def many_s(self, steps: int) -> float:
        """Seconds of so many steps in a row; the median of several times."""
        with no_collector():
            return median_s(lambda: self._seconds(steps))

    def close(self) -> None:
        """Give the memory back."""
        self._step = None
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _seconds(self, steps: int) -> float:
        began = time.perf_counter()
        self._steps(steps)
        return time.perf_counter() - began

    def _steps(self, steps: int) -> None:
        assert self._step is not None
        with threads_of(self._setting.platform, self._setting.devices[0]):
            for _ in range(steps):
                self._step.submit(input=self._x, target=self._y)
        synchronize(self._setting.devices)


class FromScratch:
    """LeNet trained by the text's `train_batch`, as a step that `experiments.training.loop` knows."""

    def __init__(self, setting: Setting) -> None:
        self._devices = [torch_device(device) for device in setting.devices]
        params = list(setting.network().parameters())
        self._params = [get_params(params, device) for device in self._devices]
        self._lr = setting.lr

    def submit(self, *, input: Tensor, target: Tensor) -> Done:
        """One step; work on GPUs goes on after this returns."""
        parts = train_batch(input, target, self._params, self._devices, self._lr)
        losses = {f"{i}/loss": loss.detach() / len(scores) for i, (loss, scores) in enumerate(parts)}
        return Done(losses | {f"{i}/output": scores.detach() for i, (_, scores) in enumerate(parts)})

    def state(self) -> dict[str, Tensor]:
        """Clones of the first device's parameters, by name."""
        return {name: param.detach().clone() for name, param in zip(SHAPES, self._params[0], strict=True)}

    def reset(self, states: Mapping[str, Tensor]) -> None:
        """Set the parameters of all devices."""
        with torch.no_grad():
            for params in self._params:
                for name, param in zip(SHAPES, params, strict=True):
                    param.copy_(states[name])


def whole_network(setting: Setting) -> PlainStep:
    """A network trained by PyTorch in one process; on GPUs in `nn.DataParallel`.

    Source: d2l.ai 12.6.
    """
    devices = [torch.device(torch_device(device)) for device in setting.devices]
    net = setting.network().to(devices[0])
    optimizer = torch.optim.SGD(net.parameters(), lr=setting.lr)
    if devices[0].type == "cuda":
        net = nn.DataParallel(net, device_ids=[device.index for device in devices])
    return PlainStep(net, functional.cross_entropy, optimizer, str(devices[0]))


class Counting:
    """How many images of a batch plain PyTorch finds right, on the first device, as a function of no arguments."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._made: list[tuple[nn.Module, Tensor, Tensor]] = []

    def __call__(self) -> int:
        device = torch_device(self._setting.devices[0])
        if not self._made:
            self._made.append((self._setting.network().eval().to(device), *self._setting.batch()))
        net, x, y = self._made[0]
        with torch.no_grad(), threads_of(self._setting.platform, self._setting.devices[0]):
            return int((net(x.to(device)).argmax(1) == y.to(device)).sum())
