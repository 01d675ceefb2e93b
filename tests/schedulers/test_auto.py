"""The portfolio: the best of several, and what fails on the way."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings

from graphsched.costs import Costs
from graphsched.errors import CaptureError, PlatformError, ScheduleError, ScheduleWarning
from graphsched.plan import Placement
from graphsched.platform import Device, Platform
from graphsched.schedulers import auto as module
from graphsched.schedulers import lookahead, register, registry, schedule, schedulers
from graphsched.schedulers.asking.answers import answer_of
from graphsched.schedulers.auto import PORTFOLIO, attempts
from graphsched.simulator import predict
from graphsched.workload import Workload
from tests.schedulers.graphs import MATRIX, add, dags, graph, lanes_of, machine

WORK = graph([("a", "b"), ("a", "c")], a=1.0, b=1.0, c=1.0)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Schedulers that fail in three ways."""
    monkeypatch.setattr(registry, "_REGISTERED", dict(registry._REGISTERED))

    def endless(work: object, platform: object, costs: object) -> Placement:
        while True:
            pass

    def raises(work: object, platform: object, costs: object) -> Placement:
        raise KeyError("lost")

    register("endless")(endless)
    register("raises")(raises)
    register("cyclic")(lambda work, *more: Placement(list(work.graph)[::-1], dict.fromkeys(work.graph, "cuda:0/s0")))


@settings(deadline=None, max_examples=20)
@given(dag=dags(most=8))
def test_none_of_the_portfolio_is_better(dag: nx.DiGraph) -> None:
    """By the simulator's word."""
    work, here = Workload.from_graph(dag), machine(2)
    best = predict(schedule(work, here, scheduler="auto")).makespan_s
    for name in PORTFOLIO:
        assert best <= predict(schedule(work, here, scheduler=name)).makespan_s


def test_the_plan_says_whose_it_is() -> None:
    """One lane takes 3 s, two devices 2: `etf` is told of, with the schedulers that were asked."""
    plan = schedule(WORK, machine(2, cpu=False), scheduler="auto", schedulers=["one_stream", "etf"])
    assert plan.scheduler == "auto schedulers=one_stream+etf (etf)"
    assert schedule(WORK, machine(1, cpu=False), scheduler="auto").scheduler == "auto (one_stream)"
    assert schedule(WORK, machine(2), scheduler="auto", schedulers="heft").scheduler == "auto schedulers=heft (heft)"


def test_all_of_the_portfolio_are_schedulers() -> None:
    """And none of them is asked twice."""
    assert set(PORTFOLIO) <= set(schedulers()) - {"auto"}
    assert len(set(PORTFOLIO)) == len(PORTFOLIO)


def test_large_workloads_do_without_lookahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three tasks are large here; so is one that reads 400 others."""
    asked: list[list[str]] = []
    real = attempts

    def spied(work: Workload, platform: Platform, costs: Costs, mode: str, names: list[str], **more: object) -> object:
        asked.append(names)
        return real(work, platform, costs, mode, names[:1], **more)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "attempts", spied)
    for most in (3, 2):
        monkeypatch.setattr(lookahead, "LOOKAHEAD_TASKS", most)
        schedule(WORK, machine(1), scheduler="auto")
    monkeypatch.undo()
    monkeypatch.setattr(module, "attempts", spied)
    for before in (300, 400):
        fan = nx.DiGraph([(f"t{i}", "end", {"nbytes": 1}) for i in range(before)])
        nx.set_node_attributes(fan, 1.0, "duration_s")
        schedule(Workload.from_graph(fan), machine(1), scheduler="auto")
    assert ["lookahead" in names for names in asked] == [True, False, True, False]
    assert "streams" in asked[1]


@pytest.mark.usefixtures("broken")
def test_those_that_fail_are_named_and_the_others_count() -> None:
    """A warning for each; the plan is of the one that is left."""
    with pytest.warns(ScheduleWarning) as caught:
        plan = schedule(
            WORK, machine(2), scheduler="auto", schedulers=("raises", "cyclic", "heft", "endless"), limit_s=0.2
        )
    assert plan.scheduler.endswith("(heft)")
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == 3
    assert "'raises' failed: KeyError: 'lost'" in texts[0]
    assert "'cyclic' has 'b' before 'a'" in texts[1]
    assert "'endless' was not done after 0.2 s" in texts[2]


@pytest.mark.usefixtures("broken")
def test_all_fail_for_reasons_of_their_own() -> None:
    """One error with all of them."""
    with pytest.raises(ScheduleError, match=r"no scheduler makes a plan: raises: .*KeyError.*; cyclic: .*before 'a'"):
        schedule(WORK, machine(1), scheduler="auto", schedulers=("raises", "cyclic"))


@pytest.mark.usefixtures("broken")
def test_schedulers_of_others_have_a_limit_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours have none, for what they say must not depend on a clock."""
    limits: dict[str, float | None] = {}
    real = module.within

    def spied(limit_s: float | None, name: str, call: Any) -> Any:
        limits[name] = limit_s
        return real(limit_s, name, call)

    monkeypatch.setattr(module, "OTHERS_LIMIT_S", 0.2)
    monkeypatch.setattr(module, "within", spied)
    with pytest.warns(ScheduleWarning, match=r"'endless' was not done after 0.2 s"):
        schedule(WORK, machine(2), scheduler="auto", schedulers=("endless", "heft"))
    assert limits == {"scheduler 'endless'": 0.2, "scheduler 'heft'": None}
    with pytest.warns(ScheduleWarning, match=r"'endless' was not done after 0.1 s"):
        schedule(WORK, machine(2), scheduler="auto", schedulers=("endless", "heft"), limit_s=0.1)


def test_one_that_cannot_be_loaded_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is there, its package is broken."""
    lost = metadata.EntryPoint("lost", "no_such_package:scheduler", registry.GROUP)
    monkeypatch.setattr(registry, "_entry_points", lambda: {"lost": (lost,)})
    with pytest.warns(ScheduleWarning, match=r"'lost' of entry point 'no_such_package:scheduler' cannot be loaded"):
        plan = schedule(WORK, machine(2), scheduler="auto", schedulers=("lost", "heft"))
    assert plan.scheduler.endswith("(heft)")


def test_all_fail_for_one_reason() -> None:
    """Just that."""
    work = Workload()
    add(work, "t", work.input("x", MATRIX, device="cuda:0"), device="cuda:1")
    apart = Platform("apart", (Device("cuda:0", "cuda"), Device("cuda:1", "cuda")))
    with pytest.raises(PlatformError, match=r"^no link from 'cuda:0' to 'cuda:1'"):
        schedule(work, apart, scheduler="auto")
    with pytest.raises(CaptureError, match=r"^graph mode needs tasks on GPUs"):
        schedule(WORK, machine(2, kind="worker"), scheduler="auto", mode="graph")


def test_each_is_simulated_in_the_mode_of_the_plan() -> None:
    """What `predict` says in that mode."""
    for mode in ("eager", "graph"):
        found = attempts(WORK, machine(2, cpu=False), Costs(), mode, ["heft"])
        plan = schedule(WORK, machine(2, cpu=False), scheduler="heft", mode=mode)
        assert found[0].trial is not None
        assert found[0].trial.makespan_s == predict(plan).makespan_s


def test_simulations_are_told_to_those_that_have_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """`streams` has, `heft` has not; none given, neither is told any."""
    told: dict[str, object] = {}

    def answer(name: str, function: object, *given: Any) -> Placement:
        told[name] = dict(given[-1])
        return answer_of(name, function, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "answer_of", answer)
    for simulations in ({"simulations": 3}, {}):
        schedule(WORK, machine(2), scheduler="auto", schedulers=("streams", "heft"), **simulations)
        assert told == {"streams": {"copies": "own", **simulations}, "heft": {"copies": "own"}}


def test_copies_are_told_to_those_that_have_the_option() -> None:
    """On the compute lane that made the value."""
    work = Workload()
    work.copy(add(work, "p", device="cuda:0"), to="cpu", pinned=True, name="copy")
    plan = schedule(work, machine(1), scheduler="auto", copies="compute")
    assert lanes_of(plan)["copy"] == "cuda:0/s0"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("hefty", "no scheduler 'hefty': did you mean 'heft'"),
        (("heft", *(f"wrong{k}" for k in range(16))), "no scheduler 'wrong0'"),
        (("heft", "auto"), "auto not among them"),
        ((), "one or more are needed"),
        (("heft", 3), r"option schedulers=\('heft', 3\) of scheduler 'auto': schedulers: str \| several of str"),
    ],
)
def test_wrong_names(names: object, message: str) -> None:
    """Before any of them is asked."""
    with warnings.catch_warnings(), pytest.raises(ScheduleError, match=message):
        schedule(WORK, machine(1), scheduler="auto", schedulers=names)
