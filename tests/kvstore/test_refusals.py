"""Requests that are refused: what is said, and that neither a workload nor a running store is changed."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import graphsched as gs
from graphsched.errors import (
    DuplicateNameError,
    ExecutionError,
    ForeignValueError,
    PlatformError,
    StuckError,
    TaskFailedError,
    WorkloadError,
)
from graphsched.kvstore import Builder, Store
from tests.kvstore.model import sgd

X = torch.zeros(4, 6)
Request = Callable[[Any], Any]


def in_place(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.add_(b)


def first_of(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a


def smaller(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a + b)[:1]


def into_the_sum(stored: torch.Tensor, aggregate: torch.Tensor) -> None:
    aggregate.add_(stored)


def functional(stored: torch.Tensor, aggregate: torch.Tensor) -> torch.Tensor:
    return stored - aggregate


class InWorkload:
    """A builder for two workers, whose tensors become inputs."""

    def __init__(self, **told: Any) -> None:
        self.work = gs.Workload()
        self.store = Builder(self.work, **({"servers": ["worker:0"], "workers": 2} | told))

    def push(self, key: Any, tensor: torch.Tensor, **more: Any) -> None:
        name = f"input{len(self.work.values)}"
        self.store.push(key, self.work.input(name, tensor, device="worker:0"), **more)

    def pull(self, key: Any) -> None:
        self.store.pull(key, "worker:1")

    def init(self, key: Any, tensor: Any) -> None:
        self.store.init(key, tensor)

    def tasks(self) -> int:
        return len(self.work)


class AtWork:
    """A running store for two workers."""

    def __init__(self, **told: Any) -> None:
        self.store = Store(**({"servers": ["worker:0"], "workers": 2, "timeout_s": 0.5} | told))
        self.push, self.pull, self.init = self.store.push, self.store.pull, self.store.init

    def tasks(self) -> int:
        return 0


@pytest.fixture(params=[InWorkload, AtWork])
def kind(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Makes stores of one of both kinds, which are closed at the end."""
    made: list[Any] = []

    def make(**told: Any) -> Any:
        made.append(request.param(**told))
        return made[-1]

    yield make
    for one in made:
        if isinstance(one, AtWork):
            one.store.close()


def assert_refused(store: Any, error: type[Exception], message: str, request: Request) -> None:
    """Make sure that `request` fails with `message`, and adds no task."""
    before = store.tasks()
    with pytest.raises(error, match=re.escape(message)):
        request(store)
    assert store.tasks() == before


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (torch.zeros(4, 5), "worker 1 has float32[4,5] for key 'w', which is float32[4,6]: values of one shape"),
        (X.double(), "worker 1 has float64[4,6] for key 'w', which is float32[4,6]: values of one element type"),
    ],
)
def test_values_that_differ(kind: Any, other: torch.Tensor, message: str) -> None:
    """In a round, in the next one, and from what was initialised; the right value may still be pushed."""
    store = kind()
    store.push("w", X, worker=0)
    assert_refused(store, WorkloadError, message, lambda store: store.push("w", other, worker=1))
    store.push("w", X, worker=1)
    store.pull("w")
    assert_refused(store, WorkloadError, message, lambda store: store.push("w", other, worker=1))
    store.init("v", X)
    assert_refused(store, WorkloadError, message.replace("'w'", "'v'"), lambda store: store.push("v", other, worker=1))


def test_the_order_of_memory_must_be_the_same_in_a_workload() -> None:
    store = InWorkload()
    store.push("w", X, worker=0)
    message = "worker 1 has float32[4,6]@(1,4) for key 'w', which is float32[4,6]: values of one order in memory"
    assert_refused(store, WorkloadError, message, lambda store: store.push("w", X.t().contiguous().t(), worker=1))


def test_a_key_that_nobody_pushed(kind: Any) -> None:
    store = kind()
    message = "no key 'w': nobody has pushed or initialised anything; push or init it first"
    assert_refused(store, WorkloadError, message, lambda store: store.pull("w"))
    store.push("weight", X, worker=0)
    message = "no key that was pushed or initialised 'wieght': did you mean weight? there are weight"
    assert_refused(store, WorkloadError, message, lambda store: store.pull("wieght"))


def test_a_key_pushed_twice_in_a_round(kind: Any) -> None:
    store = kind()
    store.push("w", X, worker=1)
    message = "worker 1 has pushed key 'w' in this round already"
    assert_refused(store, WorkloadError, message, lambda store: store.push("w", X, worker=1))
    store.push("w", X, worker=0)
    store.pull("w")
    store.push("w", X, worker=1)


def test_a_round_that_is_not_complete() -> None:
    """The builder says so at once, a running store after some time."""
    store = InWorkload(workers=4)
    store.push("w", X, worker=1)
    message = "key 'w' is pulled, but workers 0, 2, 3 have not pushed it in this round: push it first"
    assert_refused(store, WorkloadError, message, lambda store: store.pull("w"))
    assert_refused(store, WorkloadError, message, lambda store: store.store.pull_all(["worker:1"]))
    store.store.flush()
    assert not len(store.work)


def test_a_round_that_does_not_end() -> None:
    with Store(servers=["cpu"], workers=3, timeout_s=0.05) as store:
        for worker in range(3):
            store.push("w", X, worker=worker)
        store.push("w", X, worker=0)
        message = "key 'w', round 1: workers 1, 2 have not pushed it after 0.05 s: every worker must push each key"
        for worker in (0, None):
            with pytest.raises(StuckError, match=re.escape(message)):
                store.pull("w", worker=worker)
        assert store.pull("w", worker=1).shape == X.shape


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ({"worker": 2}, "key 'w': no worker 2: workers have numbers from 0 to 1"),
        ({"worker": -1}, "key 'w': no worker -1"),
        ({"worker": "a"}, "key 'w': no worker 'a'"),
        ({"worker": True}, "key 'w': no worker True"),
        ({"worker": 0, "priority": "high"}, "key 'w', worker 0: priority is 'high': a finite number is needed"),
        ({"worker": 0, "priority": float("nan")}, "key 'w', worker 0: priority is nan"),
    ],
)
def test_workers_and_priorities(kind: Any, what: dict[str, Any], message: str) -> None:
    assert_refused(kind(), WorkloadError, message, lambda store: store.push("w", X, **what))


@pytest.mark.parametrize("key", ["", "a b", "a@b", 3, ["a"]])
def test_keys_are_names(kind: Any, key: Any) -> None:
    assert_refused(kind(), DuplicateNameError, "name", lambda store: store.push(key, X, worker=0))
    assert_refused(kind(), DuplicateNameError, "name", lambda store: store.init(key, X))
    assert_refused(kind(), DuplicateNameError, "name", lambda store: store.pull(key))


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"servers": []}, "servers are []: a list of devices is needed"),
        ({"servers": "cpu"}, "servers are 'cpu': a list of devices is needed"),
        (
            {"servers": ["cpu", "cpu"]},
            "servers are ['cpu', 'cpu']: a list of devices is needed, one or more, each once",
        ),
        ({"servers": [["cpu"]]}, "servers are [['cpu']]: a list of devices is needed"),
        ({"update": "sgd"}, "update is 'sgd': give a function update(stored, aggregate)"),
        ({"workers": 0}, "workers is 0: their number is needed, 1 or more"),
        ({"workers": 2.0}, "workers is 2.0"),
        ({"aggregate": "maen"}, "no aggregate 'maen': did you mean mean"),
        ({"shard": "key"}, "no way to shard 'key': did you mean keys? there are keys, elements"),
        ({"cut_from_bytes": -1}, "cut_from_bytes is -1: a whole number of bytes, 0 or more, is needed"),
    ],
)
def test_stores_that_cannot_be(kind: Any, told: dict[str, Any], message: str) -> None:
    before = threading.active_count()
    with pytest.raises(WorkloadError, match=re.escape(message)):
        kind(**told)
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("told", "tensor", "message"),
    [
        ({"aggregate": "mean"}, X.long(), "key 'w': the mean of 2 values int64[4,6]: torch has none"),
        ({"aggregate": "max"}, X.to(torch.complex64), "key 'w': the max of 2 values complex64[4,6]: torch has none"),
        ({"aggregate": in_place}, X, "changes a value in place: return a new tensor instead"),
        ({"aggregate": first_of}, X, "of 2 values float32[4,6] is one of them: return a new tensor"),
        ({"aggregate": smaller}, X, "is float32[1,6]: return one tensor of their shape and type"),
        ({"aggregate": lambda a, b: None}, X, "is NoneType: return one tensor of their shape and type"),
        ({"aggregate": lambda a: a + 1}, X, "failed without data (TypeError"),
        ({"update": into_the_sum}, X, "changes the aggregate in place: change stored, and nothing else"),
        ({"update": functional}, X, "key 'w': update functional(stored, aggregate) of float32[4,6] changes nothing"),
        ({"update": torch.Tensor.addmm_}, X, "update addmm_(stored, aggregate) of float32[4,6] failed without data"),
    ],
)
def test_values_that_cannot_be_added_up_or_updated(kind: Any, told: Any, tensor: torch.Tensor, message: str) -> None:
    assert_refused(kind(**told), WorkloadError, message, lambda store: store.init("w", tensor))
    if "update" not in told:
        assert_refused(kind(**told), WorkloadError, message, lambda store: store.push("w", tensor, worker=0))


def test_parts_are_checked_as_they_are() -> None:
    """A function that needs rows works on whole keys, and is refused for parts of elements."""

    def by_rows(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a + b) - (a + b).mean(1, keepdim=True)

    told: dict[str, Any] = {"servers": ["worker:0", "worker:1"], "aggregate": by_rows, "cut_from_bytes": 0}
    InWorkload(**told).push("w", X, worker=0)
    message = "of 2 values float32[12] failed without data (IndexError"
    assert_refused(InWorkload(**told, shard="elements"), WorkloadError, message, lambda s: s.push("w", X, worker=0))


def test_initialising(kind: Any) -> None:
    store = kind(update=sgd)
    message = "worker 0 pushes key 'w', and nothing is stored to update: init it first"
    assert_refused(store, WorkloadError, message, lambda store: store.push("w", X, worker=0))
    store.init("w", X)
    message = "key 'w' is there already: initialise it once, before it is pushed"
    assert_refused(store, WorkloadError, message, lambda store: store.init("w", X))
    with pytest.raises(WorkloadError, match="list"):
        store.init("v", [1.0])


# -- the builder ---------------------------------------------------------------------------------


def test_values_of_no_one_device_or_another_workload() -> None:
    store = InWorkload()
    free = store.work.task(torch.neg, store.work.input("x", X), name="free")
    for given, error, message in (
        (free, WorkloadError, "the scheduler is to decide where value 'free' is"),
        (X, WorkloadError, "a Tensor is among the values: make it one"),
        (gs.Workload().input("x", X), ForeignValueError, "value 'x' belongs to another workload"),
    ):
        assert_refused(store, error, message, lambda store, given=given: store.store.push("w", given, worker=0))


def test_push_pull_takes_all_values_or_none() -> None:
    store = InWorkload()
    good = [store.work.input(f"x{k}", X, device="worker:0") for k in range(2)]
    odd = store.work.input("odd", X.double(), device="worker:0")
    for given, message in (
        ([good[0], odd], "worker 1 has float64[4,6] for key 'w'"),
        (good[:1], "for 2 workers: give a list of one value of each"),
        (good[0], "for 2 workers: give a list of one value of each"),
        (None, "for 2 workers: give a list of one value of each"),
    ):
        assert_refused(store, WorkloadError, message, lambda store, given=given: store.store.push_pull("w", given))
    assert len(store.store.push_pull("w", good)) == 2


def test_pulling_all() -> None:
    store = InWorkload()
    message = "all keys are pulled, but nobody has pushed one"
    assert_refused(store, WorkloadError, message, lambda store: store.store.pull_all(["worker:0"]))
    store.init("w", X)
    for request, message in (
        (lambda store: store.store.pull_all(["cpu", "cpu"]), "devices are ['cpu', 'cpu']"),
        (lambda store: store.store.pull_all(["cpu"], ahead=-1), "ahead is -1: a whole number of keys"),
    ):
        assert_refused(store, WorkloadError, message, request)


def test_a_name_that_is_taken() -> None:
    store = InWorkload(name="mine")
    store.init("w", X)
    store.pull("w")
    with pytest.raises(DuplicateNameError, match="name 'mine' is taken"):
        Builder(store.work, servers=["cpu"], workers=1, name="mine")


# -- the running store ---------------------------------------------------------------------------


def test_servers_that_are_not_here() -> None:
    for server in ("cuda:99", "cuda", "tpu:0", "worker:a"):
        with pytest.raises(PlatformError, match=f"no device '{server}' here: there are cpu, worker:0"):
            Store(servers=["cpu", server], workers=1)


@pytest.mark.parametrize("timeout_s", [0, -1, float("inf"), float("nan"), "1", True])
def test_seconds_that_make_no_sense(timeout_s: Any) -> None:
    with pytest.raises(WorkloadError, match=r"timeout_s is .*: seconds above 0 are needed"):
        Store(servers=["cpu"], workers=1, timeout_s=timeout_s)


def test_tensors_that_are_none() -> None:
    store = AtWork()
    assert_refused(store, WorkloadError, "worker 0 gives a list for key 'w'", lambda s: s.push("w", [1.0], worker=0))
    sparse = torch.eye(3).to_sparse()
    message = "worker 0 gives a sparse_coo tensor for key 'w': a dense one is needed, as of to_dense()"
    assert_refused(store, WorkloadError, message, lambda s: s.push("w", sparse, worker=0))
    empty = torch.empty(4, 6, device="meta")
    message = "worker 0 gives a tensor without data for key 'w': give one with elements"
    assert_refused(store, WorkloadError, message, lambda s: s.push("w", empty, worker=0))
    store.push("w", X[:2], worker=0)  # of another shape: the key is not there yet
    store.store.close()


def test_push_pull_into_what_does_not_fit_pushes_nothing() -> None:
    with Store(servers=["cpu"], workers=1, update=lambda stored, given: stored.sub_(given)) as store:
        store.init("w", torch.zeros(4))
        for out, message in ((torch.empty(5), "out has float32"), (torch.empty(4, device="meta"), "without data")):
            with pytest.raises(WorkloadError, match=message):
                store.push_pull("w", torch.ones(4), worker=0, out=out)
        assert store.push_pull("w", torch.ones(4), worker=0, out=torch.empty(4)).tolist() == [-1.0] * 4


def test_a_pull_of_a_worker_that_has_not_pushed() -> None:
    with Store(servers=["cpu"], workers=2) as store:
        store.push("w", X, worker=0)
        with pytest.raises(WorkloadError, match="worker 1 pulls key 'w', which it has not pushed: push it first"):
            store.pull("w", worker=1)


def test_tensors_that_a_pull_cannot_fill() -> None:
    with Store(servers=["cpu"], workers=1) as store:
        store.push("w", X, worker=0)
        for more, message in (
            ({"out": X.double()}, "out has float64[4,6] for key 'w', which is float32[4,6]"),
            ({"out": X, "device": "cpu"}, "is pulled to device 'cpu' and into out: give one of them"),
            ({"out": torch.zeros(6).expand(4, 6)}, "into out, whose elements share memory: give its clone()"),
            ({"out": torch.zeros(9).as_strided((4, 6), (1, 1))}, "into out, whose elements share memory"),
            ({"out": 3}, "out gives a int for key 'w': a tensor is needed"),
        ):
            with pytest.raises(WorkloadError, match=re.escape(message)):
                store.pull("w", **more)
        with pytest.raises(PlatformError, match="no device 'cuda:99' here"):
            store.pull("w", device="cuda:99")
        with pytest.raises(PlatformError, match="no device 3 here"):
            store.pull("w", device=3)  # type: ignore[arg-type]


def at_most_5(stored: torch.Tensor, aggregate: torch.Tensor) -> None:
    stored.sub_(aggregate)
    if type(aggregate) is torch.Tensor and float(aggregate.sum()) > 5:
        raise ValueError("too much")


def test_a_server_that_fails() -> None:
    """The pull says why, and so does every later request for this key; other keys go on, and the end says no more."""
    with Store(servers=["cpu"], workers=1, update=at_most_5) as store:
        for key in ("w", "v"):
            store.init(key, torch.zeros(2))
        store.push("w", torch.full((2,), 9.0), worker=0)
        message = "key 'w', round 0: server 'cpu' could not take the sum or update with it: ValueError: too much"
        for request in (lambda: store.pull("w"), lambda: store.push("w", torch.zeros(2), worker=0)):
            with pytest.raises(TaskFailedError, match=re.escape(message)):
                request()
        store.push("v", torch.ones(2), worker=0)
        assert store.pull("v").tolist() == [-1, -1]


def test_a_momentum_made_in_the_call_without_data() -> None:
    """It is none in the first round: w does not just stay as it is."""
    kept: list[torch.Tensor] = []

    def momentum(stored: torch.Tensor, aggregate: torch.Tensor) -> None:
        kept[:] = kept or [torch.zeros_like(stored)]
        stored.sub_(kept[0].mul_(0.9).add_(aggregate))

    with Store(servers=["cpu"], workers=1, update=momentum) as store:
        store.init("w", X)
        store.push("w", X, worker=0)
        with pytest.raises(TaskFailedError, match="computes with a tensor kept from the call, without data"):
            store.pull("w")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"aggregate": lambda x: x[:1].clone() if type(x) is torch.Tensor else x.clone()},
            "the aggregate is float32[1]",
        ),
        ({"aggregate": lambda x: None if type(x) is torch.Tensor else x.clone()}, "the aggregate is NoneType"),
        ({"aggregate": lambda x: x.double() if type(x) is torch.Tensor else x.clone()}, "the aggregate is float64[2]"),
        (
            {"update": lambda w, x: w.resize_(1) if type(w) is torch.Tensor else w.sub_(x)},
            "what is stored is float32[1]",
        ),
    ],
)
def test_a_round_that_comes_to_another_shape_or_type_than_its_call_without_data(how: Any, message: str) -> None:
    with Store(servers=["cpu"], workers=1, **how) as store:
        store.init("w", torch.zeros(2))
        store.push("w", torch.ones(2), worker=0)
        with pytest.raises(TaskFailedError, match=re.escape(f"{message}, and values are float32[2]: keep")):
            store.pull("w")


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_a_server_whose_update_would_end_its_thread(kind: type[BaseException]) -> None:
    """The pull says so at once, and other keys go on."""

    def leave(stored: torch.Tensor, aggregate: torch.Tensor) -> None:
        stored.sub_(aggregate)
        if type(aggregate) is torch.Tensor and float(aggregate.sum()) > 5:
            raise kind(3)

    with Store(servers=["cpu"], workers=1, update=leave, timeout_s=20.0) as store:
        for key in ("w", "v"):
            store.init(key, torch.zeros(2))
        store.push("w", torch.full((2,), 9.0), worker=0)
        with pytest.raises(TaskFailedError, match=f"key 'w', round 0: .* with it: {kind.__name__}: 3"):
            store.pull("w")
        store.push("v", torch.ones(2), worker=0)
        assert store.pull("v").tolist() == [-1, -1]


def test_the_end_says_what_nobody_has_been_told() -> None:
    """A round of v that nobody pulls; a with block that failed says its own error."""

    def failed() -> Store:
        store = Store(servers=["cpu"], workers=1, update=at_most_5)
        for key in ("w", "v"):
            store.init(key, torch.zeros(2))
        store.push("v", torch.full((2,), 9.0), worker=0)
        return store

    message = "key 'v', round 0: server 'cpu' could not take the sum or update with it: ValueError: too much"
    with pytest.raises(TaskFailedError, match=re.escape(message)), failed():
        pass
    with pytest.raises(KeyError, match="another"), failed():
        raise KeyError("another")
    store = failed()
    with pytest.raises(TaskFailedError, match=re.escape(message)):
        store.close()
    store.close()


def test_the_end_says_of_all_keys_what_nobody_has_been_told() -> None:
    """The first is raised, the others are in its notes; another end says nothing more."""
    store = Store(servers=["cpu"], workers=1, update=at_most_5)
    for key in ("w", "v"):
        store.init(key, torch.zeros(2))
        store.push(key, torch.full((2,), 9.0), worker=0)
    with pytest.raises(TaskFailedError, match="key 'w', round 0") as caught:
        store.close()
    assert [note.partition(":")[0] for note in caught.value.__notes__] == ["key 'v', round 0"]
    store.close()


def test_the_end_does_not_wait_without_end_for_an_update() -> None:
    """close() names the server that hangs; a with block that failed says its own error."""
    go = threading.Event()

    def update(stored: torch.Tensor, aggregate: torch.Tensor) -> None:
        stored.sub_(aggregate)
        if type(aggregate) is torch.Tensor:
            go.wait(30)

    def hung() -> Store:
        store = Store(servers=["cpu"], workers=1, update=update, timeout_s=0.2)
        store.init("w", X)
        store.push("w", X, worker=0)
        return store

    message = "server 'cpu' of the store has not ended after 0.2 s: its aggregate or update does not return"
    try:
        with pytest.raises(StuckError, match=re.escape(message)):
            hung().close()
        with pytest.raises(StuckError, match=re.escape(message)), hung():
            pass
        with pytest.raises(StuckError, match="the servers have not added it up"), hung() as store:
            store.pull("w")
    finally:
        go.set()


def test_a_closed_store() -> None:
    """Whoever waits is told, and nothing can be pushed."""
    store = Store(servers=["cpu"], workers=2)
    store.push("w", X, worker=0)
    told: list[Exception] = []

    def wait() -> None:
        try:
            store.pull("w", worker=0)
        except ExecutionError as error:
            told.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    store.close()
    thread.join(10)
    assert [str(error).partition(":")[0] for error in told] == ["the store is closed"]
    for request in (lambda: store.push("w", X, worker=1), lambda: store.pull("w"), lambda: store.init("v", X)):
        with pytest.raises(ExecutionError, match="the store is closed"):
            request()
