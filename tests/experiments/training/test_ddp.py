"""DistributedDataParallel driven from this process: two processes and Gloo on CPUs, one a GPU and NCCL on GPUs."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from experiments.training.baselines import Setting
from experiments.training.ddp import Ranks
from experiments.training.ddp_rank import NO_MULTICAST
from graphsched.errors import ExecutionError
from models.lenet import LeNet
from tests.experiments.small import hand_written


def setting(make: type[torch.nn.Module] = LeNet, kind: str = "worker") -> Setting:
    host = hand_written(kind, 2)
    return Setting(make, host, host.accelerators(2), 8, 0.2, steps=2, folder=None)


class Telling(torch.nn.Module):
    """A network that cannot be made, and says in which environment."""

    def __init__(self) -> None:
        raise RuntimeError(" ".join(f"{name}={os.environ.get(name)}" for name in NO_MULTICAST))


class Summing(LeNet):
    """A network with sums that are still on their way when a step is over."""

    def __init__(self) -> None:
        super().__init__()
        register_optimizer_step_post_hook(_sum_much)


def _sum_much(*_: object) -> None:
    for _count in range(3000):
        torch.distributed.all_reduce(torch.ones(4), async_op=True)


@pytest.mark.slow
def test_all_processes_step_and_end() -> None:
    ranks = Ranks(setting())
    meeting = Path(ranks._folder.name)
    ranks.step()
    assert 0 < ranks.many_s(2) < 60
    processes = list(ranks._processes)
    assert all(process.is_alive() for process in processes)
    ranks.close()
    assert [process.exitcode for process in processes] == [0, 0]
    assert not meeting.exists()
    with pytest.raises(ExecutionError, match="have been ended"):
        ranks.step()


@pytest.mark.slow
def test_processes_end_well_while_gloo_is_busy() -> None:
    ranks = Ranks(setting(Summing))
    ranks.step()
    processes = list(ranks._processes)
    ranks.close()
    assert [process.exitcode for process in processes] == [0, 0]


@pytest.mark.slow
def test_a_process_that_ends_ends_the_others() -> None:
    ranks = Ranks(setting())
    processes = list(ranks._processes)
    processes[1].kill()
    processes[1].join()
    began = time.monotonic()
    with pytest.raises(ExecutionError, match=r"DistributedDataParallel, rank \d of 2: "):
        ranks.step()
    assert time.monotonic() - began < 10
    assert not any(process.is_alive() for process in processes)


@pytest.mark.slow
def test_processes_have_no_multicast_and_say_what_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NO_MULTICAST:
        monkeypatch.delenv(name, raising=False)
    words = "NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1"
    with pytest.raises(ExecutionError, match=rf"rank \d of 2: RuntimeError: {words}"):
        Ranks(setting(Telling))
    assert not set(NO_MULTICAST) & set(os.environ)


@pytest.mark.multigpu
@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
def test_processes_step_on_gpus(compiled: bool) -> None:
    from experiments._calls import missing_for_compile

    if compiled and (missing := missing_for_compile("cuda:0")):
        pytest.skip(f"torch.compile needs {missing}")
    ranks = Ranks(setting(kind="cuda"), compiled=compiled)
    try:
        ranks.step()
        assert 0 < ranks.many_s(2) < 1
    finally:
        ranks.close()
