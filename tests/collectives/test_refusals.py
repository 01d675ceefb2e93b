"""Requests that are refused: what is said, and that nothing is added to the workload."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import graphsched as gs
from graphsched.collectives import all_gather, all_reduce, all_to_all, broadcast, choose, reduce, reduce_scatter
from graphsched.collectives.requests import named_members
from graphsched.errors import DuplicateNameError, ForeignValueError, WorkloadError
from graphsched.workload import TensorSpec
from tests.collectives.values import on_workers
from tests.executors.programs import WORKERS, machine

X = torch.zeros(4, 6)
ALL_OF_THEM = ["worker:0", "worker:1"]
ALL = [all_reduce, reduce, reduce_scatter, all_gather, all_to_all]


def assert_refused(
    error: type[Exception], message: str, request: Callable[[gs.Workload], Any], work: gs.Workload
) -> None:
    """Make sure that `request` fails with `message`, and leaves the workload as it was."""
    before = work.to_dict()
    with pytest.raises(error, match=re.escape(message)):
        request(work)
    assert work.to_dict() == before


@pytest.mark.parametrize("collective", ALL)
@pytest.mark.parametrize(
    ("other", "message"),
    [
        (torch.zeros(4, 5), "value 'x1' is float32[4,5], value 'x0' is float32[4,6]"),
        (X.double(), "value 'x1' is float64[4,6], value 'x0' is float32[4,6]: values of one element type"),
        (torch.zeros(6, 4).t(), "value 'x1' is float32[4,6]@(1,4), value 'x0' is float32[4,6]: values of one order"),
    ],
)
def test_values_that_differ(collective: Any, other: torch.Tensor, message: str) -> None:
    """Shape, type, order in memory; all_gather puts rows of any order together."""
    work, values = on_workers([X, other])
    if collective is all_gather and "@" in message:
        assert len(collective(work, values)) == 2
        return
    assert_refused(WorkloadError, message, lambda work: collective(work, values), work)


@pytest.mark.parametrize("collective", ALL)
def test_values_that_are_no_list_of_values_of_this_workload(collective: Any) -> None:
    work, values = on_workers([X, X])
    _, others = on_workers([X, X])
    twice = [values[0], work.input("y", X, device="worker:0")]
    open_ended = work.task(torch.neg, values[0], name="free")
    some_gpu = work.task(torch.neg, values[0], name="some", device="cuda")
    for given, error, message in (
        ([], WorkloadError, "values are []: a list of values is needed"),
        (values[0], WorkloadError, "values are Value(x0: float32[4,6]): a list of values is needed"),
        ([values[0], X], WorkloadError, "a Tensor is among the values: make it one with work.input"),
        ([values[0], others[1]], ForeignValueError, "value 'x1' belongs to another workload than 'collective'"),
        (twice, WorkloadError, "values 'x0' and 'y' are both on 'worker:0'"),
        ([values[0], values[0]], WorkloadError, "values 'x0' and 'x0' are both on 'worker:0'"),
        ([open_ended], WorkloadError, "where value 'free' is: give its task 'free' one device, as device='cuda:0'"),
        ([some_gpu], WorkloadError, "where value 'some' is: give its task 'some' one device"),
    ):
        assert_refused(error, message, lambda work, given=given: collective(work, given), work)  # type: ignore[misc]


def test_a_state_without_a_home_and_a_value_without_a_shape() -> None:
    work = gs.Workload()
    state = work.state("w", X)
    assert_refused(
        WorkloadError, "where value 'w' is: give its state one device", lambda w: all_reduce(w, [state]), work
    )
    bare = gs.Workload.from_dict(
        {
            "name": "bare",
            "given": [{"name": "v", "nbytes": 8, "kind": "input", "device": "cpu"}],
            "tasks": [],
            "kept": [],
        }
    )
    assert_refused(WorkloadError, "value 'v' has no shape", lambda w: all_reduce(w, [bare.values["v"]]), bare)


def test_types_that_torch_cannot_add() -> None:
    """They may be moved, though."""
    work, values = on_workers([TensorSpec((4,), "float8_e4m3fn")] * 2)
    assert_refused(WorkloadError, "float8_e4m3fn[4], which torch cannot add", lambda w: all_reduce(w, values), work)
    assert len(all_gather(work, values)) == 2


@pytest.mark.parametrize("collective", [reduce_scatter, all_gather, all_to_all])
def test_values_without_rows(collective: Any) -> None:
    """All of them, and the last one alone, where values may differ in their rows."""
    message = "is float32[], without rows: reshape it to [1] or more in a task"
    work, values = on_workers([torch.tensor(1.0)] * 2)
    assert_refused(WorkloadError, f"value 'x0' {message}", lambda work: collective(work, values), work)
    assert_refused(WorkloadError, f"value 'x0' {message}", lambda work: collective(work, values[:1]), work)
    if collective is all_gather:
        work, values = on_workers([torch.ones(2), torch.tensor(1.0)])
        assert_refused(WorkloadError, f"value 'x1' {message}", lambda work: collective(work, values), work)


@pytest.mark.parametrize("collective", ALL)
def test_unknown_algorithms(collective: Any) -> None:
    work, values = on_workers([X, X])
    for algorithm, said in (("rnig", "'rnig': did you mean ring"), (7, "7: there are ")):
        message = f"no algorithm of {collective.__name__} {said}"
        assert_refused(WorkloadError, message, lambda w, a=algorithm: collective(w, values, algorithm=a), work)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "gather", "blocks": 2}, "algorithm 'gather' takes no blocks: cpu, server, ring"),
        ({"algorithm": "ring", "server": "worker:0"}, "algorithm 'ring' takes no server: server do, leave it out here"),
        ({"algorithm": "ring", "blocks": 0}, "blocks is 0: a whole number, 1 or more, is needed"),
        ({"algorithm": "ring", "blocks": 2.0}, "blocks is 2.0: a whole number"),
        ({"algorithm": "ring", "blocks": True}, "blocks is True: a whole number"),
        (
            {"algorithm": "server", "server": "worker:7"},
            "no server among the devices of the values 'worker:7': did you mean",
        ),
        ({"algorithm": "hierarchical"}, "'hierarchical' needs groups"),
        ({"algorithm": "hierarchical", "groups": [["worker:0"]]}, "device 'worker:1' is in none of the groups"),
        (
            {"algorithm": "hierarchical", "groups": [["worker:0", "worker:1"], ["worker:0"]]},
            "'worker:0' is in 2 of the",
        ),
        ({"algorithm": "hierarchical", "groups": [["worker:0", "worker:9"]]}, "no device among the values 'worker:9'"),
        ({"algorithm": "hierarchical", "groups": ["worker:0", "worker:1"]}, "lists of one device or more are needed"),
        ({"algorithm": "hierarchical", "groups": [ALL_OF_THEM, []]}, "lists of one device or more"),
        ({"algorithm": "hierarchical", "groups": 5}, "groups are 5: lists of one device or more"),
        ({"algorithm": "hierarchical", "groups": [5]}, "groups are [5]: lists of one device or more"),
        ({"algorithm": "auto", "platform": "h200-x4"}, "platform is 'h200-x4': give a Platform, as gs.Platform.load"),
        (
            {"algorithm": "hierarchical", "groups": [["worker:0", "worker:1"]], "between": "tee"},
            "groups 'tee': did you mean tree",
        ),
        ({"algorithm": "auto"}, "algorithm 'auto' simulates all others: give platform="),
        ({"algorithm": "auto", "platform": WORKERS, "blocks": 4}, "'auto' chooses the number of blocks too"),
        ({"algorithm": "auto", "platform": WORKERS, "server": "worker:5"}, "no server among the devices"),
        (
            {"algorithm": "auto", "platform": machine("worker:0")},
            "'worker:1': did you mean worker:0",
        ),
        (
            {"algorithm": "ring", "platform": machine("worker:0")},
            "no device 'worker:1': did you mean worker:0?",
        ),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str) -> None:
    work, values = on_workers([X, X])
    assert_refused(WorkloadError, message, lambda work: all_reduce(work, values, **options), work)


def test_names() -> None:
    """A name that is taken, and ones that no task may have."""
    work, values = on_workers([X, X])
    all_reduce(work, values, name="first")
    assert_refused(DuplicateNameError, "name 'first' is taken", lambda w: all_reduce(w, values, name="first"), work)
    assert_refused(
        DuplicateNameError, "a name must be a non-empty string", lambda w: all_reduce(w, values, name=""), work
    )
    assert_refused(DuplicateNameError, "which plans reserve", lambda w: all_reduce(w, values, name="a b"), work)


def test_the_next_free_name_is_found_at_once_beside_thousands() -> None:
    """Each name is looked at once, not once for each number that is taken."""
    work = gs.Workload()
    for number in ("", *range(1, 6000)):
        work.input(f"reduce{number}.ring/x", TensorSpec((1,)))
    began = time.process_time()
    assert named_members(work, ["cpu"], None, "reduce", "ring").name == "reduce6000.ring"
    assert time.process_time() - began < 1.0


def test_reduce_to_and_broadcast_from_somewhere_else() -> None:
    work, values = on_workers([X, X])
    _, others = on_workers([X])
    for message, request in (
        ("no device among the values 'cpu': there are worker:0", lambda w: reduce(w, values, to="cpu")),
        ("blocks is -1", lambda w: reduce(w, values, blocks=-1)),
        ("belongs to another workload", lambda w: broadcast(w, others[0], ["worker:0"])),
        ("a Tensor is among the values", lambda w: broadcast(w, X, ["worker:0"])),  # type: ignore[arg-type]
        ("devices are []", lambda w: broadcast(w, values[0], [])),
        ("devices are 'worker:0'", lambda w: broadcast(w, values[0], "worker:0")),
        ("devices are 5", lambda w: broadcast(w, values[0], 5)),  # type: ignore[arg-type]
        ("devices are [5]", lambda w: broadcast(w, values[0], [5])),  # type: ignore[list-item]
        ("name one device or more, each once", lambda w: broadcast(w, values[0], ["cpu", "cpu"])),
        (
            "no algorithm of broadcast 'tee': did you mean tree",
            lambda w: broadcast(w, values[0], ["cpu"], algorithm="tee"),
        ),
        ("algorithm 'direct' takes no blocks", lambda w: broadcast(w, values[0], ["cpu"], blocks=2)),
    ):
        assert_refused(WorkloadError, message, request, work)


@pytest.mark.parametrize("collective", ALL)
def test_auto_needs_a_platform_that_has_the_devices(collective: Any) -> None:
    work, values = on_workers([X, X])
    for platform, message in (
        (None, "algorithm 'auto' simulates all others: give platform="),
        (machine("worker:0"), "no device 'worker:1': did you mean worker:0"),
    ):
        request = functools.partial(collective, values=values, algorithm="auto", platform=platform)
        assert_refused(WorkloadError, message, request, work)


def test_broadcast_by_itself_needs_a_platform_that_has_the_devices() -> None:
    work, values = on_workers([X])
    where = {"algorithm": "auto", "platform": machine("worker:0")}
    assert_refused(WorkloadError, "'worker:1'", lambda w: broadcast(w, values[0], ["worker:1"], **where), work)  # type: ignore[arg-type]
    where = {"algorithm": "auto", "platform": WORKERS, "blocks": 1}
    assert_refused(WorkloadError, "leave blocks= out", lambda w: broadcast(w, values[0], ["worker:1"], **where), work)  # type: ignore[arg-type]


def test_choose_refuses_what_all_reduce_refuses() -> None:
    work, values = on_workers([X, X.double()])
    assert_refused(WorkloadError, "values of one element type", lambda w: choose(w, values, platform=WORKERS), work)
