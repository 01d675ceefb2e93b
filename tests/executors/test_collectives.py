"""Collectives in one process: sums in host memory, and NCCL's calls on the streams of all devices (without a GPU)."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
import torch

import graphsched as gs
from graphsched.errors import TaskFailedError
from graphsched.executors import Program, execute
from graphsched.executors.collectives import in_host_memory
from graphsched.executors.saved import load_plan, save_plan
from graphsched.plan import Plan
from graphsched.workload import Collective, Value, Workload
from tests.executors.fake_cuda import FakeCuda, Stream
from tests.executors.programs import Plain, assert_same, by_hand, digits, machine, step_, turned


def chained(devices: list[str], rounds: int, seed: int = 0) -> Plan:
    """x_k ── a_k ──┐                     ┌── b_k ── …   each round over some of the devices, in some order,
                 ├── an operation, or ─┤              with w_k, a state on each device, updated by what comes out
    w_k ─────────┘                     └── w_k
    """
    work, rng = Workload("collectives"), random.Random(seed)
    x = work.input("x", digits(0), device="cpu")
    values: dict[str, Value] = {}
    states = {}
    for k, device in enumerate(devices):
        values[device] = work.task(torch.add, x, k, name=f"a{k}", device=device)
        states[device] = work.state(f"w{k}", digits(k + 1), device=device)
    for i in range(rounds):
        some = rng.sample(devices, rng.randint(2, len(devices))) if seed else devices
        some = sorted(some)
        mine = states if i % 2 else values
        made = work.collective("all_reduce", [mine[device] for device in some], devices=some, name=f"sum{i}")
        for k, (device, value) in enumerate(zip(some, made, strict=True)):
            values[device] = work.task(torch.remainder, value, 9, name=f"b{i}.{k}", device=device)
            work.task(step_, states[device], values[device], updates=states[device], name=f"u{i}.{k}", device=device)
    lanes = {task.name: f"{task.devices[0]}/s{i % 2}" for i, task in enumerate(work.tasks) if task.kind == "run"}
    return by_hand(work, machine(*devices), lanes)


WORKERS = ["worker:0", "worker:1", "worker:2"]


@pytest.mark.parametrize("operation", get_args(Collective))
def test_in_host_memory_every_device_gets_its_own(operation: str) -> None:
    """From first to last: (1 + 2^-24) + 2^-24 is 1 in float32, and no two results share memory."""
    given = [torch.full((6, 2), value) for value in (1.0, 2.0**-24, 2.0**-24)]
    found = in_host_memory(operation, given)
    expected = {
        "all_reduce": torch.ones(6, 2),
        "all_gather": torch.cat(given),
        "reduce_scatter": torch.ones(2, 2),
    }[operation]
    assert len(found) == 3
    assert all(torch.equal(one, expected) for one in found)
    assert len({one.untyped_storage().data_ptr() for one in [*found, *given]}) == 6


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_workers_give_the_bits_of_plain_pytorch(seed: int) -> None:
    plan = chained(WORKERS, 6, seed)
    plain = Plain(plan.work)
    with Program(plan) as program:
        for step in range(3):
            assert_same(program.run(x=digits(step)), plain.run(x=digits(step)))
    plain, results = Plain(plan.work), []
    with Program(plan) as program:
        for step in range(4):
            results.append((program.submit(x=digits(step)), plain.run(x=digits(step))))
        for found, expected in results:
            assert_same(found.result(), expected)


def test_a_run_has_a_span_of_each_collective_and_obeys_the_plan() -> None:
    plan = chained(WORKERS, 2)
    timeline = execute(plan, repeats=2, warmup=1)
    i = plan.index_of["sum0"]
    assert timeline.end_s[i] > timeline.start_s[i]
    assert timeline.busy_s()["worker:2/comm"] == pytest.approx(timeline.busy_s()["worker:0/comm"])


@pytest.mark.parametrize("seed", range(6))
def test_streams_never_use_memory_out_of_order(cuda: Callable[[int], FakeCuda], seed: int) -> None:
    """Fork from the first stream to all, a kernel on each, and join: with memory given out again at once."""
    fake = cuda(3)
    plan = chained(["cuda:0", "cuda:1", "cuda:2"], 6, seed)
    plain = Plain(plan.work)
    with Program(plan) as program:
        for step in range(2):
            assert_same(program.run(x=digits(step)), plain.run(x=digits(step)))
        program.time_spans()
        steps = [(program.submit(x=digits(step)), step) for step in range(3)]
        program.wait()
    assert len(steps) == 3
    assert fake.current == fake.defaults
    assert not fake.homes & set(fake.defaults)
    del program
    gc.collect()


@pytest.mark.parametrize("operation", get_args(Collective))
@pytest.mark.parametrize("kind", ["worker", "cuda"])
def test_values_that_turn_out_not_to_be_contiguous(operation: str, kind: str, cuda: Callable[[int], FakeCuda]) -> None:
    """x_k ── t_k, declared as contiguous ── an operation."""
    cuda(2)
    plan = turned(operation, kind)
    with Program(plan) as program:
        assert_same(program.run(), Plain(plan.work).run())


def test_a_missing_fork_is_a_race(cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch) -> None:
    cuda(2)
    plan = chained(["cuda:0", "cuda:1"], 2)
    wait = Stream.wait_event
    comm = {f"cuda:{k}/comm" for k in range(2)}
    with Program(plan) as program:
        own = {lane.stream for lane in program._cuda.values() if lane.name in comm}

        def deaf(stream: Stream, event: object) -> None:
            if stream not in own:
                wait(stream, event)  # type: ignore[arg-type]

        monkeypatch.setattr(Stream, "wait_event", deaf)
        with pytest.raises(TaskFailedError, match="is not yet written by"):
            program.run()


@pytest.mark.multigpu
@pytest.mark.parametrize("seed", range(4))
def test_two_gpus_give_the_numbers_of_plain_pytorch(seed: int) -> None:
    """Whole numbers, so that the order of additions does not matter; by NCCL, called once for both."""
    plan = chained(["cuda:0", "cuda:1"], 6, seed)
    plain = Plain(plan.work)
    with Program(plan) as program:
        for step in range(3):
            assert_same(program.run(x=digits(step)), plain.run(x=digits(step)))
    execute(plan, repeats=3)  # which proves that it obeyed the plan


def test_what_is_not_measured_is_estimated_and_says_so() -> None:
    plan = chained(WORKERS, 1)
    assert "sum0" in gs.predict(plan).estimated


def test_a_saved_plan_has_its_collectives(tmp_path: Path) -> None:
    """x0, x1 ──▶ sum: in another process its name is enough."""
    work = Workload()
    given = [work.input(f"x{k}", digits(k), device=device) for k, device in enumerate(WORKERS[:2])]
    work.collective("all_reduce", given, devices=WORKERS[:2], name="sum")
    plan = by_hand(work, machine(*WORKERS[:2]), {})
    save_plan(plan, tmp_path / "plan.pt")
    with Program(load_plan(tmp_path / "plan.pt")) as program:
        assert_same(program.run(), Plain(work).run())
