"""HEFT against the example of its paper, and case by case."""

from __future__ import annotations

import math
from dataclasses import replace

import networkx as nx
import pytest

from graphsched.costs import Costs, TaskCost
from graphsched.errors import CostError, PlatformError
from graphsched.estimates import task_cost
from graphsched.plan import Plan
from graphsched.platform import Device, Link, Platform
from graphsched.schedulers import schedule
from graphsched.schedulers.heft import forecast_heft, heft, upward_ranks
from graphsched.schedulers.placing.candidates import find_candidates
from graphsched.schedulers.placing.durations import Durations, Transfers
from graphsched.schedulers.placing.forecast import Forecast
from graphsched.schedulers.placing.incoming import Alone
from graphsched.simulator import predict
from graphsched.workload import Task, Workload
from tests.schedulers.graphs import MATRIX, add, graph, lanes_of, machine, stub
from tests.schedulers.ideal import spans

PAPER_SECONDS = {
    "n1": (14, 16, 9), "n2": (13, 19, 18), "n3": (11, 13, 19), "n4": (13, 8, 17), "n5": (12, 13, 10),
    "n6": (13, 16, 9), "n7": (7, 15, 11), "n8": (5, 11, 14), "n9": (18, 12, 20), "n10": (21, 7, 16),
}  # fmt: skip
PAPER_EDGES = [
    ("n1", "n2", 18), ("n1", "n3", 12), ("n1", "n4", 9), ("n1", "n5", 11), ("n1", "n6", 14),
    ("n2", "n8", 19), ("n2", "n9", 16), ("n3", "n7", 23), ("n4", "n8", 27), ("n4", "n9", 23),
    ("n5", "n9", 13), ("n6", "n8", 15), ("n7", "n10", 17), ("n8", "n10", 11), ("n9", "n10", 13),
]  # fmt: skip


@pytest.fixture
def paper() -> Workload:
    """Figure 2 of Topcuoglu 2002: 10 tasks, their seconds on 3 processors, seconds (bytes) an edge.

    ::

        n1 ─▶ n2 n3 n4 n5 n6;  n2 n4 n6 ─▶ n8;  n2 n4 n5 ─▶ n9;  n3 ─▶ n7;  n7 n8 n9 ─▶ n10
    """
    dag = nx.DiGraph()
    for name, seconds in PAPER_SECONDS.items():
        dag.add_node(name, duration_s={f"cuda:{k}": s for k, s in enumerate(seconds)})
    dag.add_weighted_edges_from(PAPER_EDGES, weight="nbytes")
    return Workload.from_graph(dag)


def forecast(plan: Plan) -> Forecast:
    """The scheduler's own times for a plan of one lane a device: its tasks placed again, each where it is."""
    work, counts = plan.work, {device.name: 1 for device in plan.platform.devices}
    pinned = Workload.from_dict(
        {**work.to_dict(), "tasks": [t | {"devices": _device(plan, t)} for t in work.to_dict()["tasks"]]}
    )
    durations, transfers = Durations(plan.platform, None), Transfers(plan.platform, counts)
    candidates = find_candidates(pinned, plan.platform)
    times = Forecast(pinned, plan.platform, candidates, counts, durations, transfers, "own", Alone(transfers))
    for name in (name for name in plan.names if name in work.graph):
        times.place(pinned[name])
    return times


def ranks_of(work: Workload, platform: Platform, counts: dict[str, int]) -> dict[str, float]:
    """Upward ranks with so many lanes on each device."""
    durations, transfers = Durations(platform, None), Transfers(platform, counts)
    return upward_ranks(work, find_candidates(work, platform), counts, durations, transfers)


def _device(plan: Plan, task: dict[str, object]) -> list[str]:
    return [lanes_of(plan)[str(task["name"])].rpartition("/")[0]] if task["kind"] == "run" else []


def test_ranks_of_the_paper(paper: Workload) -> None:
    """Table 3 of the paper."""
    ranks = ranks_of(paper, machine(3, cpu=False), {f"cuda:{k}": 1 for k in range(3)})
    expected = [108.0, 77.0, 80.0, 80.0, 69.0, 63.333, 42.667, 35.667, 44.333, 14.667]
    assert [ranks[name] for name in PAPER_SECONDS] == pytest.approx(expected, abs=5e-4)


def test_schedule_of_the_paper(paper: Workload) -> None:
    """Figure 3 a of the paper: where each task goes, when it starts, and a makespan of 80."""
    plan = schedule(paper, machine(3, cpu=False), scheduler="heft", contention=False)
    plan.check()
    where = {name: int(lanes_of(plan)[name][5]) + 1 for name in PAPER_SECONDS}
    assert list(where.values()) == [3, 1, 3, 2, 3, 2, 3, 1, 2, 2]
    times = forecast(plan)
    assert [times.start_s[name] for name in PAPER_SECONDS] == [0, 27, 9, 18, 28, 26, 38, 57, 56, 73]
    assert times.makespan_s == 80


def test_schedule_of_the_paper_where_copies_queue(paper: Workload) -> None:
    """On a real platform the copies between two devices go one after the other: 91 in place of 80.

    The values of n1 for n4 (9) and n6 (14) share a lane, so n6 starts at 9 + 9 + 14 = 32, not 26; its value for n8
    (15) stands behind that of n4 (27): n8 starts at 18 + 8 + 27 + 15 = 68, not 57, and n10 at 68 + 5 + 11 = 84.
    """
    here = machine(3, cpu=False)
    here = replace(here, devices=tuple(replace(device, peer_engines=0) for device in here.devices))
    plan = schedule(paper, here, contention=False)
    assert spans(plan)["n6"] == (32, 48)
    assert spans(plan)["n8"] == (68, 73)
    assert spans(plan)["n10"] == (84, 91)
    assert predict(plan).makespan_s == pytest.approx(91)


def fan() -> Workload:
    """Three tasks after one, each with a value of its own to bring.

    ::

        a (1, cuda:0) ─6 bytes─▶ b (10)
          ├───────────6 bytes─▶ c (10)
          └───────────6 bytes─▶ d (10)
    """
    dag = nx.DiGraph()
    dag.add_node("a", duration_s={"cuda:0": 1.0})
    for name in "bcd":
        dag.add_node(name, duration_s=10.0)
        dag.add_edge("a", name, nbytes=6)
    return Workload.from_graph(dag)


@pytest.mark.parametrize(("contention", "where", "makespan_s"), [(False, [0, 1, 2], 23), (True, [0, 1, 0], 21)])
def test_copies_that_queue_on_one_engine(contention: bool, where: list[int], makespan_s: float) -> None:
    """b stays on cuda:0 until 11, c is on cuda:1 from 7 to 17.

    As if its copy were alone d goes to cuda:2, to be over at 17; but cuda:0 makes one copy at a time, so it begins
    there at 1 + 6 + 6 = 13 and is over at 23. Behind b it is over at 21.
    """
    plan = schedule(fan(), machine(3, cpu=False), contention=contention)
    assert [lanes_of(plan)[name] for name in "bcd"] == [f"cuda:{k}/s0" for k in where]
    assert predict(plan).makespan_s == pytest.approx(makespan_s)


def test_a_start_is_that_of_the_copies_agreed() -> None:
    """x (9 bytes, cuda:0) and y (9 bytes, cuda:1) share the way into cuda:2, where t must run: at 18, not at 9."""
    names = [f"cuda:{k}" for k in range(3)]
    links = tuple(Link(a, b, "peer", 0.0, 1.0, (f"{b}/in",)) for a in names for b in names if a != b)
    ports = {f"{name}/in": 1.0 for name in names}
    here = Platform("ports", tuple(Device(name, "cuda") for name in names), links, ports)
    dag = nx.DiGraph([("x", "t", {"nbytes": 9}), ("y", "t", {"nbytes": 9})])
    seconds = {"x": {"cuda:0": 0.0}, "y": {"cuda:1": 0.0}, "t": {"cuda:2": 1.0}}
    nx.set_node_attributes(dag, seconds, "duration_s")
    times = forecast_heft(Workload.from_graph(dag), here, Costs(), lanes=2, copies="own", contention=True)
    assert times.start_s == {"x": 0, "y": 0, "t": 18}


def test_ranks_average_over_lanes() -> None:
    """Three lanes of 1 s and one of 5 s; b's bytes cross between 12 - 6 = 6 of the 12 pairs of distinct lanes.

    ::

        a ─8 bytes─▶ b
    """
    dag = nx.DiGraph([("a", "b", {"nbytes": 8})])
    nx.set_node_attributes(dag, {"a": {"cuda": 1.0, "cpu": 5.0}, "b": 0.0}, "duration_s")
    ranks = ranks_of(Workload.from_graph(dag), machine(1), {"cuda:0": 3, "cpu": 1})
    assert ranks == {"a": (3 * 1 + 5) / 4 + 8 * 6 / 12, "b": 0.0}


def test_ranks_of_copies_barriers_and_states() -> None:
    """A copy is as long as its link takes (256 s); a barrier and the way to a state's other user take nothing.

    ::

        a (1) ─▶ copy ║ wall ║ u (1) ─▶ v (1)     u and v update w
    """
    work = Workload()
    w = work.state("w", MATRIX)
    work.copy(add(work, "a", device="cuda:0"), to="cpu", name="copy")
    work.barrier("wall")
    add(work, "u", w, updates=w)
    add(work, "v", w, updates=w)
    ranks = ranks_of(work, machine(1), {"cuda:0": 1, "cpu": 1})
    assert ranks == {"a": 259, "copy": 258, "wall": 2, "u": 2, "v": 1}


def test_ranks_that_differ_by_rounding_are_equal() -> None:
    """0.3 + 0.2 + 0.1 is less than 0.1 + 0.2 + 0.3; the order of the workload decides."""
    first, second = ({f"cuda:{k}": s for k, s in enumerate(row)} for row in ((0.3, 0.2, 0.1), (0.1, 0.2, 0.3)))
    assert schedule(graph(first=first, second=second), machine(3, cpu=False)).names == ["first", "second"]


def test_fills_a_gap() -> None:
    """A short task goes before one that was placed earlier and waits for data.

    ::

        a (1 s, cuda:0) ─5 bytes─▶ b (9 s, cuda:1)        c (2 s, cuda:1)
    """
    dag = nx.DiGraph([("a", "b", {"nbytes": 5})])
    dag.add_node("c")
    seconds = {"a": {"cuda:0": 1.0}, "b": {"cuda:1": 9.0}, "c": {"cuda:1": 2.0}}
    nx.set_node_attributes(dag, seconds, "duration_s")
    plan = schedule(Workload.from_graph(dag), machine(2))
    assert [name for name in plan.names if name in dag] == ["a", "c", "b"]
    assert forecast(plan).makespan_s == 15


def test_dispatches_by_predicted_start() -> None:
    """The long chain has the higher ranks; the short task that can start at once is not left to the end.

    ::

        a (4) ─▶ b (4)        c (1)        on two devices
    """
    plan = schedule(graph([("a", "b")], a=4.0, b=4.0, c=1.0), machine(2, cpu=False))
    assert plan.names == ["a", "c", "b"]


@pytest.mark.parametrize(("bandwidth", "devices"), [(1.0, {"cuda:0"}), (1e6, {"cuda:0", "cuda:1"})])
def test_link_times_decide(bandwidth: float, devices: set[str]) -> None:
    """Two tasks after one share its device where the link is slow, and part where it is quick.

    ::

        a ─▶ b (10)
          └▶ c (10)      100 bytes each
    """
    dag = nx.DiGraph([("a", "b", {"nbytes": 100}), ("a", "c", {"nbytes": 100})])
    nx.set_node_attributes(dag, 10.0, "duration_s")
    names = ("cuda:0", "cuda:1")
    links = tuple(Link(a, b, "peer", 0.0, bandwidth) for a, b in (names, names[::-1]))
    platform = Platform("pair", tuple(Device(name, "cuda") for name in names), links)
    plan = schedule(Workload.from_graph(dag), platform)
    assert {plan.lanes[k].device for k, kind in zip(plan.lane_of, plan.kinds, strict=True) if kind == "run"} == devices


@pytest.mark.parametrize(("pinned", "device"), [(1.0, "cuda:0"), (0.01, "cpu")])
def test_results_of_cpu_tasks_go_by_pinned_memory(pinned: float, device: str) -> None:
    """b goes to the quicker GPU only if the pinned link, not the pageable one, is quick enough.

    ::

        a (1, cpu) ─10 bytes─▶ b (cpu: 100, cuda: 1)
    """
    dag = nx.DiGraph([("a", "b", {"nbytes": 10})])
    nx.set_node_attributes(dag, {"a": {"cpu": 1.0}, "b": {"cpu": 100.0, "cuda": 1.0}}, "duration_s")
    links = tuple(Link("cpu", "cuda:0", m, 0.0, rate) for m, rate in (("pinned", pinned), ("pageable", 1e3)))
    platform = Platform("pair", (Device("cpu", "cpu"), Device("cuda:0", "cuda")), links)
    plan = schedule(Workload.from_graph(dag), platform)
    assert lanes_of(plan)["b"].startswith(device)


def test_input_on_its_device_draws_its_reader() -> None:
    """`x` lies on cuda:1 before time 0, so its reader goes there."""
    work = Workload()
    add(work, "t", work.input("x", MATRIX, device="cuda:1"))
    assert lanes_of(schedule(work, machine(2)))["t"] == "cuda:1/s0"


def test_copies_of_the_workload_queue_for_their_lane() -> None:
    """Each copy (256 s) waits for the one before it.

    ::

        p0 (1) ─▶ c0        p1 (1) ─▶ c1      both cuda:0 to cpu
    """
    work = Workload()
    for k in range(2):
        work.copy(add(work, f"p{k}", device="cuda:0"), to="cpu", pinned=True, name=f"c{k}")
    plan = schedule(work, machine(1))
    assert plan.names == ["p0", "p1", "c0", "c1"]
    assert forecast(plan).start_s == {"p0": 0, "p1": 1, "c0": 1, "c1": 257}


def test_copies_on_the_compute_lane_hold_up_its_tasks() -> None:
    """As above, with copies on the lane that made the value."""
    work = Workload()
    for k in range(2):
        work.copy(add(work, f"p{k}", device="cuda:0"), to="cpu", pinned=True, name=f"c{k}")
    plan = schedule(work, machine(1), copies="compute")
    plan.check()
    assert set(lanes_of(plan).values()) == {"cuda:0/s0"}
    assert plan.names == ["p0", "p1", "c0", "c1"]


def test_copies_on_compute_lanes_of_their_producers() -> None:
    """c0 and c1 run side by side, each behind its product, long before z1 (at 100 s).

    ::

        p0 (1) ─▶ c0      p1 (1) ─▶ c1      on two lanes of cuda:0;      z0 (100) ─▶ z1 (1) on cuda:1
    """
    work = Workload()
    for k in range(2):
        work.copy(add(work, f"p{k}", device="cuda:0"), to="cpu", pinned=True, name=f"c{k}")
    add(work, "z1", add(work, "z0", device="cuda:1", duration_s=100.0), device="cuda:1")
    plan = schedule(work, machine(2), lanes=2, copies="compute")
    assert [lanes_of(plan)[name] for name in ("p0", "c0", "p1", "c1")] == ["cuda:0/s0"] * 2 + ["cuda:0/s1"] * 2
    assert plan.names[-1] == "z1"


def test_a_task_follows_its_predecessor_onto_its_lane() -> None:
    """At 3 s both lanes are free, the first since 1 s: a1 stays behind a0 on the second.

    ::

        x (1) ─▶ y (9, cpu)        a0 (3) ─▶ a1 (3)
    """
    edges = [("x", "y"), ("a0", "a1")]
    work = graph(edges, x={"cuda": 1.0}, y={"cpu": 9.0}, a0={"cuda": 3.0}, a1={"cuda": 3.0})
    lanes = lanes_of(schedule(work, machine(1), lanes=2))
    assert [lanes[name] for name in ("x", "a0", "a1")] == ["cuda:0/s0", "cuda:0/s1", "cuda:0/s1"]


def test_a_chain_stays_on_its_lane() -> None:
    """Of lanes that are free in time the one where the chain is already is taken: no waits.

    ::

        a0 ─▶ a1 ─▶ a2        b0 ─▶ b1 ─▶ b2
    """
    edges = [(f"{c}{k}", f"{c}{k + 1}") for c in "ab" for k in range(2)]
    durations = {f"{c}{k}": s for c, s in (("a", 2.0), ("b", 3.0)) for k in range(3)}
    plan = schedule(graph(edges, **durations), machine(1, cpu=False), lanes=4)
    chains = [{lanes_of(plan)[f"{c}{k}"] for k in range(3)} for c in "ab"]
    assert [len(lanes) for lanes in chains] == [1, 1]
    assert chains[0] != chains[1]
    assert plan.waits == [()] * 6


def test_free_state_lives_where_it_is_first_used() -> None:
    """Readers and updaters of `w` share a device, so that nothing is copied; those of `v` may be elsewhere.

    ::

        w ─▶ forward ─▶ step(w)        v ─▶ other ─▶ step_v(v)
    """
    work = Workload()
    w, v = work.state("w", MATRIX), work.state("v", MATRIX)
    add(work, "step", w, add(work, "forward", w), updates=w)
    add(work, "step_v", v, add(work, "other", v), updates=v)
    plan = schedule(work, machine(2))
    plan.check()
    assert set(plan.kinds) == {"run"}
    assert plan.homes["w"] != plan.homes["v"]


def test_state_that_is_updated_elsewhere_is_not_free() -> None:
    """`reader` goes first, but `w` must live on cuda:1, where its update may run: the read costs a copy."""
    work = Workload()
    w = work.state("w", MATRIX)
    add(work, "reader", w, device="cuda:0")
    add(work, "update", w, updates=w, device="cuda:1")
    plan = schedule(work, machine(2))
    plan.check()
    assert plan.homes["w"] == "cuda:1"
    assert plan.names == ["w>cuda:0", "reader", "update"]


def test_tasks_after_a_barrier_start_after_all_before_it() -> None:
    """The barrier keeps the quick second chain from starting early.

    ::

        long (9)    short (1)    ║ barrier ║    next (1)
    """
    work = Workload()
    add(work, "long", duration_s=9.0)
    add(work, "short")
    work.barrier("wall")
    add(work, "next")
    plan = schedule(work, machine(2, cpu=False))
    assert plan.names == ["long", "short", "wall", "next"]
    assert forecast(plan).start_s["next"] == 9


def test_no_link_to_where_a_task_must_run() -> None:
    """The error names both ends."""
    work = Workload()
    add(work, "t", work.input("x", MATRIX, device="cuda:0"), device="cuda:1")
    platform = Platform("apart", (Device("cuda:0", "cuda"), Device("cuda:1", "cuda")))
    with pytest.raises(PlatformError, match="no link from 'cuda:0' to 'cuda:1'"):
        heft(work, platform, platform.costs)


def test_a_device_without_a_link_is_avoided() -> None:
    """x lies on cuda:1, to which no link leads: its readers stay there, though cuda:0 is idle."""
    work = Workload()
    x = work.input("x", MATRIX, device="cuda:1")
    for k in range(3):
        add(work, f"t{k}", x)
    plan = schedule(work, Platform("apart", (Device("cuda:0", "cuda"), Device("cuda:1", "cuda"))))
    assert set(lanes_of(plan).values()) == {"cuda:1/s0"}


def test_measured_points_of_a_link_count() -> None:
    """A link whose small transfers are measured as slow keeps the second task at home.

    ::

        a ─▶ b, a ─▶ c
    """
    work = Workload()
    a = add(work, "a")
    add(work, "b", a)
    add(work, "c", a)
    names = ("cuda:0", "cuda:1")
    devices = tuple(Device(name, "cuda") for name in names)
    for seconds, count in ((0.5, 2), (5.0, 1)):
        links = tuple(Link(*ends, "peer", 0.0, 1e9, (), False, (256,), (seconds,)) for ends in (names, names[::-1]))
        plan = schedule(work, Platform("pair", devices, links))
        used = {plan.lanes[plan.lane_of[plan.index_of[t]]].device for t in "abc"}
        assert len(used) == count


@pytest.mark.parametrize(("mode", "device"), [("eager", "cuda:0"), ("graph", "cuda:1")])
def test_mode_decides_which_device_is_fastest(mode: str, device: str) -> None:
    """1 or 2 s in streams, 3 or 0.5 s inside a CUDA graph."""
    work = Workload()
    work.task(stub, name="t", outputs=[MATRIX], device="cuda")
    figures = {"one": TaskCost(1.0, graph_s=3.0), "two": TaskCost(2.0, graph_s=0.5)}
    costs = Costs({(work["t"].signature, model): cost for model, cost in figures.items()})
    platform = Platform("pair", (Device("cuda:0", "cuda", "one"), Device("cuda:1", "cuda", "two")))
    plan = schedule(work, platform, costs, mode=mode)
    assert plan.lanes[plan.lane_of[0]].device == device


@pytest.mark.parametrize("given", [2.0, {"cuda:0": 1.0, "cuda:1": 3.0, "cpu": 5.0}, {"cuda": 1.0, "cpu": 5.0}, None])
def test_durations_by_device(given: float | dict[str, float] | None) -> None:
    """Of one task on other devices than before, and of two tasks of one name."""
    names, durations = ("cuda:0", "cuda:1", "cpu"), Durations(machine(2), None)
    for _ in range(2):
        work = Workload()
        work.task(stub, name="t", outputs=[MATRIX], duration_s=given)
        task = work["t"]
        each = [task_cost(task, machine(2).device(name), None).device_s for name in names]
        assert durations.row(task, names) == tuple(each)
        assert [durations.row(task, (name,)) for name in names] == [(s,) for s in each]
        given = 4.0


@pytest.mark.parametrize("given", [-1.0, math.nan, math.inf, {"cuda:0": -1.0, "cuda:1": 1.0}])
def test_durations_that_are_none(given: float | dict[str, float]) -> None:
    """A task made by hand, unchecked."""
    with pytest.raises(CostError, match="duration of task 't' on cuda:0"):
        Durations(machine(2), None).row(Task("t", duration_s=given), ("cuda:0", "cuda:1"))
