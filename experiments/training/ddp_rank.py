"""One process of `DistributedDataParallel`: trains its part of the batch when it is asked to."""

from __future__ import annotations

import os
import signal
import statistics
import sys
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NoReturn

import torch
from torch import distributed
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from experiments._shared import torch_device
from experiments.training.baselines import ROUNDS, Setting, synchronize
from graphsched.executors.collector import no_collector

NO_MULTICAST = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
"""NVLink's multicast stays off."""

Order = tuple[str, int]
"""What to do: ``step`` or ``time``, and how many steps in a row."""


@dataclass(frozen=True)
class Job:
    """What all processes of a group do; it can be sent to them.

    Attributes:
        setting: What they train; each has one of its devices.
        compiled: Whether by torch.compile.
        meeting: A file that does not exist yet, where they find each other.
    """

    setting: Setting
    compiled: bool
    meeting: str


def rank_process(rank: int, job: Job, orders: Connection) -> NoReturn:
    """`work_as_rank` as all that this process does; it ends without taking the interpreter down.

    `DistributedDataParallel` keeps Gloo's threads beyond the end of their group. One that lets go of a tensor while the
    interpreter is taken down ends the process by SIGABRT.
    """
    code = 1
    try:
        work_as_rank(rank, job, orders)
        code = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def work_as_rank(rank: int, job: Job, orders: Connection) -> None:
    """Be process `rank` of the group: each order is answered with seconds, or with what failed, as text.

    Ends when there are no more orders.

    Raises:
        SystemExit: Something failed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that gives orders ends this one
    os.environ.update(NO_MULTICAST)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    try:
        training = _Training(rank, job)
        orders.send(0.0)  # ready
        while (order := orders.recv()) is not None:
            orders.send(training.obey(order))
        distributed.destroy_process_group()
    except EOFError:
        return
    except BaseException:
        orders.send(traceback.format_exc().strip().splitlines()[-1])
        raise SystemExit(1) from None


class _Training:
    """The network in this process, joined with the others."""

    def __init__(self, rank: int, job: Job) -> None:
        setting = job.setting
        name, count = setting.devices[rank], len(setting.devices)
        self.device = torch.device(torch_device(name))
        on_gpu = self.device.type == "cuda"
        if on_gpu:
            torch.cuda.set_device(self.device)
        else:
            torch.set_num_threads(setting.platform.device(name).threads)
        distributed.init_process_group(
            "nccl" if on_gpu else "gloo",
            init_method=f"file://{job.meeting}",
            rank=rank,
            world_size=count,
            device_id=self.device if on_gpu else None,
        )
        net = setting.network().to(self.device)
        self.net: Any = DistributedDataParallel(net, device_ids=[self.device.index] if on_gpu else None)
        if job.compiled:
            self.net = torch.compile(self.net)
        self.optimizer = torch.optim.SGD(net.parameters(), lr=setting.lr)
        self.x, self.y = (whole.tensor_split(count)[rank] for whole in setting.batch())
        if on_gpu:
            self.x, self.y = self.x.pin_memory(), self.y.pin_memory()

    def obey(self, order: Order) -> float:
        """Seconds of the steps that are asked for; those of ``time`` begin together."""
        what, steps = order
        if what == "step":
            return self._seconds(steps)
        with no_collector():
            return statistics.median(self._seconds_together(steps) for _ in range(ROUNDS))

    def _seconds_together(self, steps: int) -> float:
        distributed.barrier()
        synchronize([str(self.device)])
        return self._seconds(steps)

    def _seconds(self, steps: int) -> float:
        began = time.perf_counter()
        for _ in range(steps):
            self._step()
        synchronize([str(self.device)])
        return time.perf_counter() - began

    def _step(self) -> None:
        self.optimizer.zero_grad()
        x, y = self.x.to(self.device, non_blocking=True), self.y.to(self.device, non_blocking=True)
        functional.cross_entropy(self.net(x), y).backward()
        self.optimizer.step()
