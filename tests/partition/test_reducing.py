"""Sums of gradients: in which order, and what moves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import graphsched as gs
from graphsched.partition import data_parallel
from graphsched.partition.reducing import METHODS, summed
from graphsched.workload import fill
from tests.executors.programs import machine
from tests.partition.replicas import adamw, momentum, of_replica, parameters, run_split, small, workers
from tests.tracing.steps import run, worst


def test_a_sum_goes_from_first_to_last() -> None:
    """((big + small) - big) is not (big - big) + small in float32."""
    parts = [torch.full((4,), value) for value in (1.0, 2.0**-24, 2.0**-24, -1.0)]
    assert fill(summed(parts), ()).tolist() == [0.0] * 4
    assert fill(summed(parts[::-1]), ()).tolist() == [2.0**-23] * 4
    assert [part[0].item() for part in parts] == [1.0, 2.0**-24, 2.0**-24, -1.0]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_sums_are_new_tensors(count: int) -> None:
    parts = [torch.ones(3) for _ in range(count)]
    assert fill(summed(parts), ()).tolist() == [float(count)] * 3
    assert all(part.tolist() == [1.0] * 3 for part in parts)


BYTES = {  # that all devices receive from each other and the host, as multiples of the gradients
    "gather": lambda k: k * (k - 1),
    "sharded": lambda k: 2 * (k - 1),
    "server": lambda k: 2 * (k - 1),
    "cpu": lambda k: 2 * k,
    "ring": lambda k: 2 * (k - 1),
    "none": lambda k: 0,
    "library": lambda _: 0,
}


@pytest.mark.parametrize(("k", "bucket_bytes"), [(2, 0), (3, 200), (4, 1 << 20)])
@pytest.mark.parametrize("reduce", METHODS)
def test_bytes_that_are_moved(reduce: str, k: int, bucket_bytes: int) -> None:
    """Batches come from the host, losses (8 bytes) go to the first device; all else that moves is gradients."""
    work, _ = small(rows=8)
    whole = sum(
        value.nbytes for value in work.values.values() if value.name in ("0.weight", "0.bias", "2.weight", "2.bias")
    )
    split_work = data_parallel(work, workers(k), reduce=reduce, bucket_bytes=bucket_bytes)
    plan = gs.schedule(split_work, machine(*workers(k)), scheduler="one_stream")
    moved = [copy.read.value for copy in plan.copies.values() if copy.read.value.kind == "output"]
    assert sum(value.nbytes for value in moved if not value.name.endswith("/loss")) == BYTES[reduce](k) * whole


SUMS = [name for name in METHODS if name != "none"]


@pytest.mark.parametrize("optimizer", [momentum, adamw])
@pytest.mark.parametrize(("k", "bucket_bytes"), [(2, 1 << 20), (3, 200), (4, 0)])
def test_all_ways_train_as_the_unsplit_step_does(
    k: int, bucket_bytes: int, optimizer: Callable[..., torch.optim.Optimizer]
) -> None:
    """Three steps. In order of replicas the bits are the same for all ways; a ring adds in another order."""
    work, inputs = small(rows=7, optimizer=optimizer)
    _, after = run(work, steps=3)
    found = {}
    for reduce in SUMS:
        split_work = data_parallel(work, workers(k), reduce=reduce, bucket_bytes=bucket_bytes)
        _, found[reduce] = run_split(split_work, inputs, k, steps=3)
        for i in range(k):
            assert worst(of_replica(found[reduce], i), parameters(after)) < 1e-12
            for name in parameters(after):
                assert torch.equal(found[reduce][f"{i}/{name}"], found[reduce][f"0/{name}"])
                assert reduce == "ring" or torch.equal(found[reduce][f"{i}/{name}"], found["gather"][f"{i}/{name}"])


def test_without_sums_every_replica_goes_its_own_way() -> None:
    """Each by its share of the gradients: the steps of the replicas together are that of the whole."""
    work, inputs = small(rows=7)
    _, states = run_split(data_parallel(work, workers(2), reduce="none"), inputs, 2)
    _, after = run(work)
    for name, ended in parameters(after).items():
        began = work.tensors[name]
        moves = [states[f"{i}/{name}"] - began for i in range(2)]
        assert not torch.equal(*moves)
        assert torch.allclose(began + sum(moves), ended, rtol=0, atol=1e-15)


@pytest.mark.parametrize("reduce", SUMS)
def test_tasks_of_sums_say_so_and_run_where_the_way_has_them(reduce: str) -> None:
    work, _ = small(rows=8)
    split_work = data_parallel(work, workers(3), reduce=reduce, bucket_bytes=1 << 20)
    tasks = [task for task in split_work.tasks if "bucket.0" in task.name]
    assert {split_work.graph.nodes[task.name]["phase"] for task in tasks} == {"reduce"}
    assert not [name for name, phase in split_work.graph.nodes(data="phase") if phase is None]
    adds = [task for task in tasks if task.operation and task.operation.name.startswith("torch.ops.aten.add")]
    where = {device for task in adds for device in task.devices}
    elsewhere: dict[str, set[str]] = {"server": {"worker:0"}, "cpu": {"cpu"}, "library": set()}
    assert where == elsewhere.get(reduce, set(workers(3)))


@pytest.mark.parametrize(("reduce", "added"), [
    ("gather", "2/bucket.{}/sum"), ("server", "bucket.{}/sum"), ("cpu", "bucket.{}/sum"),
    ("ring", "bucket.{}/up/add/0.1"),
])  # fmt: skip
def test_what_is_on_its_way_has_other_tasks_to_hide_behind(reduce: str, added: str) -> None:
    """Each gradient alone, of the second layer and then of the first: bucket 0 is added up once bucket 1 is full."""
    work, _ = small(rows=8)
    order = list(data_parallel(work, workers(3), reduce=reduce, bucket_bytes=0).graph)
    place = {name: i for i, name in enumerate(order)}
    assert place["2/2.backward/sum"] < place[added.format(0)] < place["0/0.backward/mm"]
    if reduce != "gather":  # which has nothing to send back
        assert place[added.format(3)] < place["0/update/0.weight/add"]
