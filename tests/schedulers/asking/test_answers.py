"""What schedulers may not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from graphsched.costs import Costs
from graphsched.errors import CostError, ScheduleError
from graphsched.plan import Placement, Plan
from graphsched.platform import Platform
from graphsched.schedulers import register, registry, schedule
from graphsched.schedulers.heft import heft
from graphsched.workload import Workload
from tests.schedulers.graphs import add, graph, machine

RIGHT = Placement(["a", "b"], {"a": "cuda:0/s0", "b": "cuda:0/s0"})
WORK = graph([("a", "b")], a=1.0, b=1.0)


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Schedulers that a test registers are forgotten after it."""
    monkeypatch.setattr(registry, "_REGISTERED", dict(registry._REGISTERED))
    return


def answered(answer: Any, work: Workload = WORK) -> Plan:
    """The plan of a scheduler that gives this answer."""
    register("mine")(lambda *asked: answer)
    return schedule(work, machine(1), scheduler="mine")


def test_a_right_answer() -> None:
    """Two tasks on one lane."""
    plan = answered(RIGHT)
    assert [(name, plan.lanes[lane].name) for name, lane in zip(plan.names, plan.lane_of, strict=True)] == [
        ("a", "cuda:0/s0"),
        ("b", "cuda:0/s0"),
    ]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "'mine' returned NoneType: a Placement is needed"),
        (Placement(None, RIGHT.lanes), "'mine' has an order of type NoneType: a list of names"),  # type: ignore[arg-type]
        (Placement([["a"], "b"], RIGHT.lanes), "'mine' has an order of type list: a list of names"),  # type: ignore[list-item]
        (Placement(iter("ab"), RIGHT.lanes), "'mine' has an order of type str_"),  # type: ignore[arg-type]
        (Placement(["a", "b"], None), "'mine' has lanes of type NoneType: a mapping"),  # type: ignore[arg-type]
        (Placement(["a", "b"], RIGHT.lanes, 5), "'mine' has wait_after=5: a set of names"),  # type: ignore[arg-type]
        (Placement(["a", "b"], RIGHT.lanes, bound_s=float("nan")), "'mine' has bound_s=nan: finite seconds"),
        (Placement(["a"], RIGHT.lanes), "'mine' left out 1 of 2 tasks, the first of them 'b'"),
        (Placement(["a", "b", "a"], RIGHT.lanes), "'mine' has 'a' 2 times in its order"),
        (Placement(["a", "b", "c"], RIGHT.lanes), "'mine' has 'c' in its order, which the workload does not have"),
        (Placement(["b", "a"], RIGHT.lanes), "'mine' has 'b' before 'a', on which it depends"),
        (Placement(["a", "b"], {"a": "cuda:0/s0"}), "'mine' gave task 'b' no lane"),
        (Placement(["a", "b"], {**RIGHT.lanes, "z": "cuda:0/s0"}), "'mine' gave 'z' a lane, which is no task"),
        (Placement(["a", "b"], {**RIGHT.lanes, "b": "cuda:0"}), "'mine' put 'b' on 'cuda:0': the name of a lane"),
        (Placement(["a", "b"], {**RIGHT.lanes, "b": 3}), "'mine' put 'b' on 3: the name of a lane"),  # type: ignore[dict-item]
        *(
            (Placement(["a", "b"], {**RIGHT.lanes, "b": f"cuda:0/{lane}"}), "'mine' put 'b' on .*, such as 'cuda:0/s0'")
            for lane in ("s-1", "sx", "s", "s00", "w0", "s\u0663", "s0\n", " s0", "S0", "s1_0", "s" + "1" * 5000)
        ),
        (Placement(["a", "b"], {**RIGHT.lanes, "b": "cpu/s0"}), "'mine' put 'b' on 'cpu/s0': .*, such as 'cpu/w0'"),
        (
            Placement(["a", "b"], {**RIGHT.lanes, "b": "cuda:0/s32"}),
            "'mine' put 'b' on 'cuda:0/s32': cuda:0 has the lanes cuda:0/s0 to cuda:0/s31",
        ),
        (Placement(["a", "b"], RIGHT.lanes, {"z"}), "'mine' waits after 'z', which the workload does not have"),
        (Placement(["a", "b"], RIGHT.lanes, copies="both"), "'mine' has copies='both': one of 'own', 'compute'"),  # type: ignore[arg-type]
        (Placement(["a", "b"], {**RIGHT.lanes, "b": "cuda:9/s0"}), "'mine': task 'b' may not run on lane 'cuda:9/s0'"),
        (
            Placement(["a", "b"], {**RIGHT.lanes, "b": "cuda:0/h2d"}),
            "'mine': task 'b' may not run on lane 'cuda:0/h2d'",
        ),
    ],
)
def test_wrong_answers(answer: Any, message: str) -> None:
    """The error names the scheduler, and what is wrong."""
    with pytest.raises(ScheduleError, match=f"scheduler {message}"):
        answered(answer)


def test_barriers_and_copies_have_no_lanes() -> None:
    """A placement that gives one to a barrier has misread the workload."""
    work = Workload()
    add(work, "a")
    work.barrier("wall")
    with pytest.raises(ScheduleError, match="'mine' gave 'wall' a lane, which is no task of kind run"):
        answered(Placement(["a", "wall"], {"a": "cuda:0/s0", "wall": "cuda:0/s0"}), work)


def test_too_many_lanes_name_the_scheduler() -> None:
    """The third where there are two."""
    work = graph(a=1.0, b=1.0, c=1.0)
    register("wide")(lambda *asked: Placement(["a", "b", "c"], {n: f"cuda:0/s{k}" for k, n in enumerate("abc")}))
    message = "scheduler 'wide' put 'c' on 'cuda:0/s2': cuda:0 has the lanes cuda:0/s0 to cuda:0/s1"
    with pytest.raises(ScheduleError, match=message):
        schedule(work, machine(1, lanes=2), scheduler="wide")


def test_what_a_scheduler_raises() -> None:
    """What is not graphsched's is named with its place; what is, stays what it is."""

    def divides(work: object, platform: object, costs: object) -> Placement:
        return Placement([1 / 0], {})  # type: ignore[list-item]

    def refuses(work: object, platform: object, costs: object) -> Placement:
        raise CostError("a cost is missing")

    def leaves(work: object, platform: object, costs: object) -> Placement:
        raise SystemExit(3)

    register("leaves")(leaves)
    with pytest.raises(ScheduleError, match="scheduler 'leaves' failed: SystemExit: 3"):
        schedule(WORK, machine(1), scheduler="leaves")
    register("divides")(divides)
    register("refuses")(refuses)
    message = r"scheduler 'divides' failed: ZeroDivisionError: division by zero \(.*test_answers.py:\d+, in divides\)"
    with pytest.raises(ScheduleError, match=message) as caught:
        schedule(WORK, machine(1), scheduler="divides")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(CostError, match=r"^a cost is missing$"):
        schedule(WORK, machine(1), scheduler="refuses")


def test_an_error_that_cannot_be_shown_is_named_by_its_type() -> None:
    class DumbError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    def mumbles(work: object, platform: object, costs: object) -> Placement:
        raise DumbError

    register("mumbles")(mumbles)
    with pytest.raises(ScheduleError, match=r"scheduler 'mumbles' failed: DumbError \(.*, in mumbles\)"):
        schedule(WORK, machine(1), scheduler="mumbles")


@pytest.mark.parametrize("limit_s", [None, 60.0])
def test_what_no_exception_is_fails_its_scheduler_only(limit_s: float | None) -> None:
    """Frameworks raise such things to end their own loops."""

    def cancels(work: object, platform: object, costs: object) -> Placement:
        raise asyncio.CancelledError("over")

    register("cancels")(cancels)
    with pytest.raises(ScheduleError, match=r"scheduler 'cancels' failed: CancelledError: over \("):
        schedule(WORK, machine(1), scheduler="cancels", time_limit_s=limit_s)


def test_an_interrupt_is_the_users_on_the_main_thread_only() -> None:
    """Ctrl-C arrives there; on the thread of a scheduler with a time limit the scheduler made it up."""

    def interrupts(work: object, platform: object, costs: object) -> Placement:
        raise KeyboardInterrupt

    register("interrupts")(interrupts)
    with pytest.raises(KeyboardInterrupt):
        schedule(WORK, machine(1), scheduler="interrupts")
    with pytest.raises(ScheduleError, match="scheduler 'interrupts' failed: KeyboardInterrupt"):
        schedule(WORK, machine(1), scheduler="interrupts", time_limit_s=60.0)


def test_the_note_stands_behind_the_name() -> None:
    """In the plan, and in its text."""
    register("noted")(lambda *asked: Placement(RIGHT.order, RIGHT.lanes, note="by hand"))
    plan = schedule(WORK, machine(1), scheduler="noted")
    assert plan.scheduler == "noted (by hand)"
    assert "scheduler noted (by hand) mode eager" in plan.text.splitlines()


def test_a_scheduler_that_changes_the_workload_harms_no_other() -> None:
    """It takes b away and places a: an error that names it, and the graph is as it was."""

    def takes(work: Workload, *more: object) -> Placement:
        work.graph.remove_node("b")
        return Placement(["a"], {"a": "cuda:0/s0"})

    register("takes")(takes)
    work = graph([("a", "b")], a=1.0, b=1.0)
    before = work.digest()
    with pytest.raises(ScheduleError, match="scheduler 'takes' changed the workload, which it may only read"):
        schedule(work, machine(1), scheduler="takes")
    assert work.digest() == before
    assert len(schedule(work, machine(1), scheduler="heft")) == 2


def test_a_scheduler_that_changes_the_platform_harms_no_other() -> None:
    """It makes a port faster than it is, and asks ours."""

    def cheats(work: Workload, platform: Any, costs: Costs) -> Placement:
        platform.capacities["host/h2d"] = 1e30
        return heft(work, platform, costs)

    register("cheats")(cheats)
    here = Platform.load("h200-x2")
    before = here.digest()
    with pytest.raises(ScheduleError, match="scheduler 'cheats' changed the platform, which it may only read"):
        schedule(WORK, here, scheduler="cheats")
    assert here.digest() == before


def test_a_scheduler_that_breaks_the_workload_is_named() -> None:
    """So that it cannot even be told what was changed."""

    def breaks(work: Workload, *more: object) -> Placement:
        work.graph = None  # type: ignore[assignment]
        return RIGHT

    register("breaks")(breaks)
    with pytest.raises(ScheduleError, match="scheduler 'breaks' failed: AttributeError"):
        schedule(WORK, machine(1), scheduler="breaks")
