"""The store in a workload: what a dictionary would hold, whatever the order of pushes; what is dispatched when."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import graphsched as gs
from graphsched.kvstore import Builder
from graphsched.workload import TensorSpec
from tests.executors.programs import Plain, machine
from tests.kvstore.model import AGGREGATES, KEYS, Model, Round, expected, median, rounds, sgd, stores, value

WORKERS = ["worker:0", "worker:1", "worker:2"]
quickly = settings(max_examples=60, deadline=None)


def pushed(work: gs.Workload, tensors: list[torch.Tensor], name: str = "x") -> list[gs.Value]:
    """An input on each worker."""
    return [work.input(f"{name}{k}", tensor, device=f"worker:{k}") for k, tensor in enumerate(tensors)]


def really(work: gs.Workload, k: int = 3, scheduler: str = "one_stream") -> dict[str, torch.Tensor]:
    """What a run on workers returns."""
    plan = gs.schedule(work, machine(*(f"worker:{i}" for i in range(k))), scheduler=scheduler)
    plan.check()
    with gs.Program(plan) as program:
        return program.run()


@quickly
@given(stores().flatmap(lambda told: st.tuples(st.just(told), rounds(told["workers"]))))
def test_pulls_are_what_a_dictionary_holds(drawn: tuple[dict[str, Any], list[Round]]) -> None:
    """Rounds of pushes in any order ──▶ pulls, to the bit."""
    told, played = drawn
    work = gs.Workload()
    store, model = Builder(work, **told), Model(told["aggregate"], told["update"])
    if told["update"] is not None:
        for key in KEYS:
            model.stored[key] = value(key, 0, 99)
            store.init(key, model.stored[key])
    found = []
    for number, played_round in enumerate(played):
        given = {}
        for key, worker, priority in played_round.pushes:
            given[key, worker] = value(key, worker, number)
            tensor = work.input(f"{key}/{number}/{worker}", given[key, worker], device=f"worker:{worker % 3}")
            store.push(key, tensor, worker=worker, priority=priority)
        for key in {key for key, _ in given}:
            model.round(key, {worker: tensor for (k, worker), tensor in given.items() if k == key})
        for i, key in enumerate(played_round.pulls):
            found.append((store.pull(key, WORKERS[i % 3]), model.stored[key]))
    work.keep(*(pulled for pulled, _ in found))
    results = Plain(work).run()
    for pulled, kept in found:
        assert torch.equal(results[pulled.name], kept)


@pytest.mark.parametrize("shard", ["keys", "elements"])
@pytest.mark.parametrize("scheduler", ["one_stream", "sequential", "heft", "round_robin"])
def test_every_order_of_pushes_gives_the_same_bits_for_real(shard: str, scheduler: str) -> None:
    """x0, x1, x2 ──▶ sum on three workers, pushed in all six orders."""
    tensors = [value("fc", worker, 0) for worker in range(3)]
    for order in itertools.permutations(range(3)):
        work = gs.Workload()
        values = pushed(work, tensors)
        store = Builder(work, servers=WORKERS[:2], workers=3, shard=shard, cut_from_bytes=0)
        for worker in order:
            store.push("fc", values[worker], worker=worker)
        sums = store.pull_all(WORKERS)["fc"]
        work.keep(*sums)
        found = really(work, scheduler=scheduler)
        assert all(torch.equal(found[one.name], tensors[0] + tensors[1] + tensors[2]) for one in sums)


@pytest.mark.parametrize("shard", ["keys", "elements"])
@pytest.mark.parametrize("aggregate", [*AGGREGATES, median])
def test_aggregates_for_real(shard: str, aggregate: Any) -> None:
    tensors = [value("fc", worker, 1) for worker in range(3)]
    work = gs.Workload()
    store = Builder(work, servers=WORKERS, workers=3, aggregate=aggregate, shard=shard, cut_from_bytes=0)
    sums = store.push_pull("fc", pushed(work, tensors))
    work.keep(*sums)
    found = really(work)
    assert all(torch.equal(found[one.name], expected(aggregate, tensors)) for one in sums)


@pytest.mark.parametrize("shard", ["keys", "elements"])
@pytest.mark.parametrize("turned", [False, True])
def test_what_is_stored_lives_across_runs(shard: str, turned: bool) -> None:
    """w on the servers, x0, x1 ──▶ w -= 0.1 (x0 + x1) in each of two runs; also where w is transposed in memory."""
    weight, *tensors = [value("fc", worker, 2) for worker in range(3)]
    if turned:
        weight, *tensors = [tensor.t().contiguous().t() for tensor in (weight, *tensors)]
    work = gs.Workload()
    store = Builder(work, servers=WORKERS[:2], workers=2, update=sgd, shard=shard, cut_from_bytes=0)
    store.init("w", weight)
    before = store.pull("w", "worker:1")
    after = store.push_pull("w", pushed(work, tensors))
    work.keep(before, *after)
    with gs.Program(gs.schedule(work, machine(*WORKERS), scheduler="one_stream")) as program:
        program.run()
        found = program.run()
    once = weight.sub(tensors[0] + tensors[1], alpha=0.1)
    assert torch.equal(found[before.name], once)
    assert all(torch.equal(found[one.name], once.sub(tensors[0] + tensors[1], alpha=0.1)) for one in after)


def test_without_an_update_the_sum_is_stored() -> None:
    """w ──▶ pull, x0 + x1 ──▶ w: the second run begins with the sum of the first."""
    work = gs.Workload()
    store = Builder(work, servers=["worker:0"], workers=2)
    store.init("w", torch.zeros(3))
    before = store.pull("w", "worker:0")
    store.push_pull("w", pushed(work, [torch.ones(3), torch.ones(3)]))
    work.keep(before)
    with gs.Program(gs.schedule(work, machine(*WORKERS), scheduler="one_stream")) as program:
        assert program.run()[before.name].tolist() == [0, 0, 0]
        assert program.run()[before.name].tolist() == [2, 2, 2]


def test_a_pulled_value_stays_where_the_next_round_changes_what_is_stored() -> None:
    """w ─ pull ─ round ─ pull, all on the server: the first pull is not the state itself."""
    work = gs.Workload()
    store = Builder(work, servers=["worker:0"], workers=1, update=sgd)
    store.init("w", torch.ones(2))
    before = store.pull("w", "worker:0")
    (after,) = store.push_pull("w", pushed(work, [torch.full((2,), 20.0)]))
    work.keep(before, after)
    found = really(work)
    assert found[before.name].tolist() == [1, 1]
    assert found[after.name].tolist() == [-1, -1]


# -- where ---------------------------------------------------------------------------------------


def test_keys_go_to_servers_by_their_bytes_whatever_the_order_of_pushes() -> None:
    """a 10, b 50, c 60 elements on two servers: c alone, a and b together."""
    sizes = {"a": 10, "b": 50, "c": 60}
    for order in itertools.permutations(sizes):
        work = gs.Workload()
        store = Builder(work, servers=WORKERS[:2], workers=1)
        for key in order:
            store.push(key, work.input(key, torch.zeros(sizes[key]), device="worker:2"), worker=0)
        store.pull(order[0], "worker:2")
        assert [store.servers_of(key) for key in sizes] == [("worker:1",), ("worker:1",), ("worker:0",)]


def test_parts_travel_alone_and_add_up_on_their_servers() -> None:
    """48 elements of two workers on three servers: 16 each, from every worker to each of the others."""
    work = gs.Workload()
    values = [work.input(f"x{k}", TensorSpec((48,)), device=f"worker:{k}") for k in range(2)]
    store = Builder(work, servers=WORKERS, workers=2, shard="elements", cut_from_bytes=0)
    store.push_pull("w", values)
    adds = [task for task in work.tasks if "/add/" in task.name]
    assert [task.devices for task in adds] == [("worker:0",), ("worker:1",), ("worker:2",)]
    plan = gs.schedule(work, machine(*WORKERS), scheduler="one_stream")
    sent = Counter(f"{copy.source[-1]}>{copy.target[-1]}" for copy in plan.copies.values())
    assert {copy.read.value.nbytes for copy in plan.copies.values()} == {64}
    assert sent == {"0>1": 2, "1>0": 2, "0>2": 1, "1>2": 1, "2>0": 1, "2>1": 1}


def test_small_keys_stay_whole() -> None:
    work = gs.Workload()
    store = Builder(work, servers=WORKERS, workers=1, shard="elements", cut_from_bytes=400)
    for key, elements in (("small", 99), ("large", 100)):
        store.push(key, work.input(key, TensorSpec((elements,)), device="worker:0"), worker=0)
    assert len(store.servers_of("small")) == 1
    assert len(store.servers_of("large")) == 3


def test_servers_may_be_the_cpu_and_workers_share_a_device() -> None:
    work = gs.Workload()
    values = [work.input(f"x{k}", torch.ones(5), device="worker:0") for k in range(3)]
    store = Builder(work, servers=["cpu"], workers=3)
    for worker, one in enumerate(values):
        store.push("w", one, worker=worker)
    pulled = store.pull("w", "worker:1")
    assert really(work)[pulled.name].tolist() == [3] * 5


# -- when ----------------------------------------------------------------------------------------


def added(work: gs.Workload) -> list[str]:
    """Keys in the order in which they are added up."""
    return [task.name.split("/")[1] for task in work.tasks if "/add/" in task.name]


def with_keys(priorities: dict[str, int], workers: int = 1) -> tuple[gs.Workload, Builder]:
    """A store in which every key was pushed by all workers with its priority."""
    work = gs.Workload()
    store = Builder(work, servers=["worker:0"], workers=workers)
    for key, priority in priorities.items():
        for worker in range(workers):
            given = work.input(f"{key}/{worker}", torch.zeros(4), device=f"worker:{worker + 1}")
            store.push(key, given, worker=worker, priority=priority)
    return work, store


def test_all_keys_are_added_up_by_priority_and_else_as_they_were_pushed() -> None:
    work, store = with_keys({"d": 0, "c": 1, "b": 2, "a": 1})
    store.flush()
    assert added(work) == ["b", "c", "a", "d"]


def test_a_pull_adds_up_what_has_a_higher_priority_before_and_leaves_the_rest() -> None:
    work, store = with_keys({"low": 0, "same": 1, "pulled": 1, "high": 2})
    store.pull("pulled", "worker:0")
    assert added(work) == ["high", "pulled"]
    store.pull("low", "worker:0")
    assert added(work) == ["high", "pulled", "same", "low"]


def test_the_highest_priority_of_a_key_counts() -> None:
    work = gs.Workload()
    store = Builder(work, servers=["worker:0"], workers=2)
    for key, priorities in (("first", (1, 1)), ("second", (0, 5))):
        for worker, priority in enumerate(priorities):
            given = work.input(f"{key}/{worker}", torch.zeros(4), device="worker:1")
            store.push(key, given, worker=worker, priority=priority)
    store.flush()
    assert added(work) == ["second", "first"]


def test_the_order_of_pushes_is_that_of_the_present_round() -> None:
    work, store = with_keys({"a": 9, "b": 0})
    store.flush()
    for key in ("b", "a"):
        store.push(key, work.input(f"{key}/again", torch.zeros(4), device="worker:1"), worker=0)
    store.flush()
    assert added(work) == ["a", "b", "b", "a"]


@pytest.mark.parametrize(
    ("ahead", "order"),
    [
        (0, "add a, pull a, add b, pull b, add c, pull c"),
        (1, "add a, add b, pull a, add c, pull b, pull c"),
        (4, "add a, add b, add c, pull a, pull b, pull c"),
    ],
)
def test_keys_are_copied_so_many_keys_after_they_are_added_up(ahead: int, order: str) -> None:
    work, store = with_keys({"a": 3, "b": 2, "c": 1})
    pulled = store.pull_all(["worker:1"], ahead=ahead)
    assert list(pulled) == ["a", "b", "c"]
    parts = [task.name.split("/") for task in work.tasks]
    assert ", ".join(f"{what} {key}" for _, key, _, what, *_ in parts) == order


def test_copies_of_what_goes_first_are_dispatched_first() -> None:
    """By one stream, which keeps the order of tasks."""
    work, store = with_keys({"last": 0, "first": 1})
    store.pull_all(["worker:1"])
    plan = gs.schedule(work, machine(*WORKERS), scheduler="one_stream")
    copies = [action.name for action in plan if action.kind == "copy"]
    assert copies[0] == "first/0>worker:0"


def test_flushed_sums_come_before_later_tasks() -> None:
    work, store = with_keys({"a": 0})
    store.flush()
    work.task(torch.neg, work.values["a/0"], name="later", device="worker:1")
    store.pull("a", "worker:1")
    names = list(work.graph)
    assert names.index("kvstore.keys/a/1/add/0") < names.index("later")


# -- among other things -------------------------------------------------------------------------


def test_pulls_of_one_round_share_a_copy() -> None:
    work, store = with_keys({"a": 0})
    assert store.pull("a", "worker:1") is store.pull("a", "worker:1")
    (again,) = store.push_pull("a", [work.input("more", torch.ones(4), device="worker:1")])
    assert again is not store.pull("a", "worker:2")
    assert again is store.pull("a", "worker:1")


def test_several_stores_in_one_workload() -> None:
    """Each has names of its own, also where none has a task yet when the next is made."""
    work = gs.Workload()
    values = pushed(work, [torch.ones(2)])
    first, second = Builder(work, servers=["worker:0"], workers=1), Builder(work, servers=["worker:0"], workers=1)
    named = Builder(work, servers=["worker:0"], workers=1, name="mine")
    for store in (first, second, named):
        store.push_pull("w", values)
    assert [name.partition("/")[0] for name in work.graph] == ["kvstore.keys", "kvstore1.keys", "mine.keys"]


def test_a_saved_plan_gives_the_same_sums(tmp_path: Path) -> None:
    tensors = [value("fc", worker, 4) for worker in range(3)]
    work = gs.Workload()
    store = Builder(work, servers=WORKERS, workers=3, aggregate="mean", shard="elements", cut_from_bytes=0)
    sums = store.push_pull("fc", pushed(work, tensors))
    work.keep(*sums)
    gs.save_plan(gs.schedule(work, machine(*WORKERS), scheduler="one_stream"), tmp_path / "plan.pt")
    with gs.Program(gs.load_plan(tmp_path / "plan.pt")) as program:
        found = program.run()
    assert all(torch.equal(found[one.name], expected("mean", tensors)) for one in sums)


def test_what_tasks_make_is_pushed_and_what_is_pulled_is_read_by_tasks() -> None:
    """x0 ─ neg ─╮          ╭─ exp
    x1 ─ neg ─┴─ store ─┴─ exp
    """
    tensors = [value("bias", worker, 5) for worker in range(2)]
    work = gs.Workload()
    made = [work.task(torch.neg, x, device=f"worker:{k}") for k, x in enumerate(pushed(work, tensors))]
    store = Builder(work, servers=["worker:2"], workers=2)
    ends = [work.task(torch.exp, x, device=f"worker:{k}") for k, x in enumerate(store.push_pull("b", made))]
    found = really(work)
    assert all(torch.equal(found[end.name], torch.exp(-tensors[0] - tensors[1])) for end in ends)


@pytest.mark.parametrize("shard", ["keys", "elements"])
def test_specifications_may_stand_for_tensors(shard: str) -> None:
    """So that a store is predicted without memory."""
    work = gs.Workload()
    store = Builder(work, servers=["cuda:0", "cuda:1"], workers=2, update=sgd, shard=shard)
    store.init("w", TensorSpec((1_000_000,)))
    values = [work.input(f"x{k}", TensorSpec((1_000_000,)), device=f"cuda:{k}") for k in range(2)]
    store.push_pull("w", values)
    plan = gs.schedule(work, gs.Platform.load("h200-x2"), scheduler="one_stream")
    assert gs.predict(plan).makespan_s > 0
