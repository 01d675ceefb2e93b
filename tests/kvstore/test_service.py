"""The running store: what a dictionary would hold, from one thread and from many; what waits for what; its end."""

from __future__ import annotations

import concurrent.futures
import contextlib
import gc
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import graphsched as gs
from graphsched.kvstore import Builder, Store
from graphsched.kvstore.aggregates import checked_aggregate
from graphsched.kvstore.entries import Shard
from graphsched.kvstore.servers import Placed, Server
from tests.executors.programs import Plain
from tests.kvstore.model import AGGREGATES, KEYS, Model, Round, expected, median, rounds, sgd, stores, value

quickly = settings(max_examples=60, deadline=None)


def push_all(store: Store, key: str, tensors: list[torch.Tensor], **more: Any) -> None:
    """A push of each worker."""
    for worker, tensor in enumerate(tensors):
        store.push(key, tensor, worker=worker, **more)


def together(workers: int, work: Callable[[int], Any]) -> list[Any]:
    """What each worker returns, each in a thread."""
    with ThreadPoolExecutor(workers) as threads:
        return list(threads.map(work, range(workers)))


@quickly
@given(stores().flatmap(lambda told: st.tuples(st.just(told), rounds(told["workers"]))))
def test_pulls_are_what_a_dictionary_holds(drawn: tuple[dict[str, Any], list[Round]]) -> None:
    """Rounds of pushes in any order ──▶ pulls, to the bit, from one thread."""
    told, played = drawn
    model = Model(told["aggregate"], told["update"])
    with Store(**told, timeout_s=10) as store:
        if told["update"] is not None:
            for key in KEYS:
                model.stored[key] = value(key, 0, 99)
                store.init(key, model.stored[key])
        for number, played_round in enumerate(played):
            given = {(key, worker): value(key, worker, number) for key, worker, _ in played_round.pushes}
            for key, worker, priority in played_round.pushes:
                store.push(key, given[key, worker], worker=worker, priority=priority)
            for key in {key for key, _ in given}:
                model.round(key, {worker: tensor for (k, worker), tensor in given.items() if k == key})
            for i, key in enumerate(played_round.pulls):
                assert torch.equal(store.pull(key, worker=i % told["workers"]), model.stored[key])
                assert torch.equal(store.pull(key), model.stored[key])


@settings(max_examples=20, deadline=None)
@given(stores(), st.integers(1, 6), st.randoms(use_true_random=False))
def test_a_training_loop_of_threads(told: dict[str, Any], steps: int, shuffled: Any) -> None:
    """Each worker pushes all keys in an order of its own, as fast as it can: all get the same in each step."""
    model = Model(told["aggregate"], told["update"])
    orders = [shuffled.sample(list(KEYS), len(KEYS)) for _ in range(told["workers"])]
    with Store(**told, timeout_s=10) as store:
        for key in KEYS:
            model.stored[key] = value(key, 0, 99)
            store.init(key, model.stored[key])

        def work(worker: int) -> list[dict[str, torch.Tensor]]:
            found = []
            for step in range(steps):
                for key in orders[worker]:
                    store.push(key, value(key, worker, step), worker=worker, priority=step)
                found.append({key: store.pull(key, worker=worker) for key in KEYS})
            return found

        found = together(told["workers"], work)
    for step in range(steps):
        for key in KEYS:
            model.round(key, {worker: value(key, worker, step) for worker in range(told["workers"])})
            assert all(torch.equal(own[step][key], model.stored[key]) for own in found)


@pytest.mark.parametrize("shard", ["keys", "elements"])
@pytest.mark.parametrize("aggregate", [*AGGREGATES, median])
def test_bits_are_those_of_the_builder(shard: str, aggregate: Any) -> None:
    """The same pushes into a workload and into a running store, with an update."""
    servers, weight = ["worker:0", "worker:1"], value("fc", 0, 7)
    tensors = [value("fc", worker, 8) for worker in range(3)]
    told: dict[str, Any] = {"workers": 3, "aggregate": aggregate, "update": sgd, "shard": shard, "cut_from_bytes": 0}
    work = gs.Workload()
    builder = Builder(work, servers=servers, **told)
    builder.init("w", weight)
    pulled = builder.push_pull("w", [work.input(f"x{k}", x, device=f"worker:{k}") for k, x in enumerate(tensors)])[0]
    work.keep(pulled)
    with Store(servers=servers, **told) as store:
        store.init("w", weight)
        push_all(store, "w", tensors)
        assert torch.equal(store.pull("w"), Plain(work).run()[pulled.name])


def test_any_order_of_pushes_gives_the_same_bits_unless_the_order_of_arrival_is_asked_for() -> None:
    tensors = [value("fc", worker, 3) for worker in range(3)]
    orders = list(itertools.permutations(range(3)))
    for deterministic in (True, False):
        with Store(servers=["cpu"], workers=3, deterministic=deterministic) as store:
            for order in orders:
                for worker in order:
                    store.push("fc", tensors[worker], worker=worker)
                added = range(3) if deterministic else order
                assert torch.equal(store.pull("fc"), expected("sum", [tensors[worker] for worker in added]))
    assert not torch.equal(expected("sum", tensors), expected("sum", tensors[::-1]))


# -- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shard", ["keys", "elements"])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("aggregate", ["sum", "max"])
def test_tensors_are_the_users_own(shard: str, workers: int, aggregate: str) -> None:
    """What went in may be changed at once, and what came out too."""
    with Store(servers=["worker:0", "worker:1"], workers=workers, aggregate=aggregate, shard=shard) as store:
        first = torch.ones(4, 2)
        store.init("w", first)
        first.zero_()
        store.pull("w").zero_()
        assert store.pull("w").sum() == 8
        given = [torch.ones(4, 2) for _ in range(workers)]
        for worker, tensor in enumerate(given):
            store.push("w", tensor, worker=worker)
            tensor.zero_()
        store.pull("w").zero_()
        assert store.pull("w").sum() == 8 * (workers if aggregate == "sum" else 1)


def test_tensors_with_gaps_and_gradients() -> None:
    """A transposed parameter and every second column of a tensor: contiguous in the store, and no graph is kept."""
    weight = torch.nn.Parameter(value("fc", 0, 1).t())
    other = value("fc", 1, 1).t().repeat_interleave(2, dim=1)[:, ::2]
    for shard in ("keys", "elements"):
        with Store(servers=["worker:0", "worker:1"], workers=2, shard=shard, cut_from_bytes=0) as store:
            push_all(store, "w", [weight, other])
            found = store.pull("w")
        assert torch.equal(found, weight.detach() + other)
        assert found.is_contiguous()
        assert not found.requires_grad


@pytest.mark.parametrize("shard", ["keys", "elements"])
def test_a_pull_may_fill_a_tensor(shard: str) -> None:
    """A parameter too, whose strides stay as they are."""
    with Store(servers=["worker:0", "worker:1"], workers=1, shard=shard, cut_from_bytes=0) as store:
        out = torch.nn.Parameter(torch.zeros(7, 5).t())
        store.push("w", value("fc", 0, 1).t(), worker=0)
        assert store.pull("w", out=out) is out
        assert torch.equal(out, value("fc", 0, 1).t())
        assert out.stride() == (1, 5)


def test_updates_leave_what_pulls_are_reading() -> None:
    """An update makes a new tensor: a pull may be copying the old one."""
    with contextlib.closing(Server("cpu")) as server:
        before = Placed.made(torch.ones(2))
        shard = Shard(server, 2, value=before)
        shard.rounds.append([Placed.made(torch.full((2,), 10.0))])
        assert shard.next_value(checked_aggregate("sum"), sgd).tensor.tolist() == pytest.approx([0, 0], abs=1e-6)
        assert before.tensor.tolist() == [1, 1]


def test_servers_keep_no_gradients() -> None:
    seen = []

    def update(stored: torch.Tensor, aggregate: torch.Tensor) -> None:
        stored.add_(aggregate)
        seen.append(torch.is_grad_enabled())

    with Store(servers=["cpu"], workers=1, update=update) as store:
        store.init("w", torch.zeros(1))
        store.push("w", torch.ones(1), worker=0)
        store.pull("w")
    assert seen == [False, False]  # without data, and with


@pytest.mark.parametrize("aggregate", ["mean", "max"])
def test_in_inference_mode(aggregate: str) -> None:
    """Tensors of that mode go in and come out; the servers' threads are not in it."""
    with torch.inference_mode(), Store(servers=["cpu"], workers=2, aggregate=aggregate, update=sgd) as store:
        store.init("w", torch.ones(1))
        for _ in range(2):
            push_all(store, "w", [torch.full((1,), 5.0), torch.full((1,), 5.0)])
        assert store.pull("w").item() == pytest.approx(0, abs=1e-6)


def test_push_pull_of_threads() -> None:
    with Store(servers=["cpu"], workers=2, aggregate="mean", timeout_s=10) as store:
        found = together(2, lambda worker: store.push_pull("w", torch.tensor([worker * 2.0]), worker=worker))
    assert [one.tolist() for one in found] == [[1.0], [1.0]]


# -- rounds --------------------------------------------------------------------------------------


def test_a_worker_that_is_late_gets_its_own_round() -> None:
    """Worker 0 is in round 1 already when worker 1 pulls what it pushed in round 0."""
    with Store(servers=["cpu"], workers=2, timeout_s=10) as store:
        push_all(store, "w", [torch.ones(1), torch.ones(1)])
        assert store.pull("w", worker=0).item() == 2
        store.push("w", torch.ones(1), worker=0)
        assert store.pull("w", worker=1).item() == 2


def test_rounds_may_be_pushed_ahead_and_keep_their_order() -> None:
    """Five rounds before the first pull, each more urgent than the one before: updates are made in order."""

    def double_and_add(stored: torch.Tensor, aggregate: torch.Tensor) -> None:
        stored.mul_(2).add_(aggregate)

    with Store(servers=["cpu"], workers=1, update=double_and_add) as store:
        store.init("w", torch.zeros(1))
        for number in range(5):
            store.push("w", torch.tensor([float(number)]), worker=0, priority=number)
        assert store.pull("w", worker=0).item() == (((0 * 2 + 1) * 2 + 2) * 2 + 3) * 2 + 4


def test_a_pull_waits_for_the_last_push() -> None:
    """Worker 0 pulls before worker 1 pushes."""
    with Store(servers=["cpu"], workers=2, timeout_s=10) as store, ThreadPoolExecutor(2) as threads:
        store.push("w", torch.ones(1), worker=0)
        waiting = [threads.submit(store.pull, "w", worker=0), threads.submit(store.pull, "w")]
        assert not any(one.done() for one in waiting)
        store.push("w", torch.ones(1), worker=1)
        assert [one.result().item() for one in waiting] == [2, 2]


def test_parts_of_two_rounds_are_never_put_together() -> None:
    """One server is in round 2 when the other ends round 0: who waits for round 0 gets a later one, as a whole."""
    turns, far_ahead, begun = threading.Semaphore(0), threading.Event(), threading.Event()

    def update(stored: torch.Tensor, aggregate: torch.Tensor) -> None:
        stored.copy_(aggregate)
        if threading.current_thread().name == "kvstore worker:1":
            begun.set()
            assert turns.acquire(timeout=10)
        elif type(aggregate) is torch.Tensor and aggregate[0] == 2:
            far_ahead.set()

    told: dict[str, Any] = {"servers": ["worker:0", "worker:1"], "shard": "elements", "cut_from_bytes": 0}
    with Store(**told, workers=1, update=update, timeout_s=10) as store, ThreadPoolExecutor(1) as threads:
        store.init("w", torch.zeros(8))
        store.push("w", torch.zeros(8), worker=0)
        assert begun.wait(10)
        waiting = threads.submit(store.pull, "w")
        concurrent.futures.wait([waiting], timeout=0.1)  # until it waits for round 0
        for number in (1, 2):
            store.push("w", torch.full((8,), float(number)), worker=0)
        assert far_ahead.wait(10)
        turns.release()
        concurrent.futures.wait([waiting], timeout=0.1)
        turns.release(2)
        assert len(set(waiting.result().tolist())) == 1


def test_what_waits_at_a_server_goes_by_priority() -> None:
    """While the server is busy with one key, three more become complete."""
    busy, go, seen = threading.Event(), threading.Event(), []

    def update(stored: torch.Tensor, aggregate: torch.Tensor) -> None:
        stored.copy_(aggregate)
        if type(aggregate) is torch.Tensor:  # not one without data
            seen.append(int(aggregate))
            busy.set()
            go.wait(10)

    with Store(servers=["cpu"], workers=1, update=update) as store:
        for key in range(4):
            store.init(f"key{key}", torch.tensor(0))
        store.push("key0", torch.tensor(0), worker=0)
        assert busy.wait(10)
        for key, priority in ((1, 0), (2, 7), (3, 7)):
            store.push(f"key{key}", torch.tensor(key), worker=0, priority=priority)
        go.set()
        for key in range(4):
            store.pull(f"key{key}", worker=0)
    assert seen == [0, 2, 3, 1]


def test_closing_finishes_complete_rounds_and_ends_the_threads() -> None:
    seen = []

    def update(stored: torch.Tensor, aggregate: torch.Tensor) -> None:
        stored.copy_(aggregate)
        if type(aggregate) is torch.Tensor:
            seen.append(int(aggregate))

    before = threading.active_count()
    with Store(servers=["worker:0", "worker:1"], workers=1, update=update) as store:
        for key in range(6):
            store.init(f"key{key}", torch.tensor(0))
            store.push(f"key{key}", torch.tensor(key), worker=0)
    assert sorted(seen) == list(range(6))
    assert threading.active_count() == before
    store.close()


@pytest.mark.parametrize("busy", [False, True])
def test_a_store_that_nobody_holds_ends_its_threads(busy: bool) -> None:
    """Where a server is at its last job, that is what holds it."""
    go, begun = threading.Event(), threading.Event()

    def update(stored: torch.Tensor, aggregate: torch.Tensor) -> None:
        stored.copy_(aggregate)
        if busy and type(aggregate) is torch.Tensor:
            begun.set()
            assert go.wait(20)

    before = set(threading.enumerate())
    store = Store(servers=["worker:0", "worker:1"], workers=1, update=update)
    store.init("w", torch.zeros(1))
    store.push("w", torch.ones(1), worker=0)
    if busy:
        assert begun.wait(20)
    else:
        store.pull("w")
    del store
    gc.collect()
    threads = set(threading.enumerate()) - before
    assert len(threads) == 2 or not busy
    go.set()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
