"""`streams`: hand-made graphs whose best number of lanes is known, and what must hold for every graph."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.costs import Costs, TaskCost
from graphsched.errors import CaptureError, GraphschedError, PlatformError, ScheduleError
from graphsched.plan import Placement, Plan
from graphsched.platform import Device, Dispatch, Platform
from graphsched.schedulers import schedule, streams
from graphsched.schedulers.heft import heft
from graphsched.schedulers.searching import trials
from graphsched.schedulers.searching.lane_rules import Assigned
from graphsched.simulator import predict
from graphsched.workload import Workload
from tests.schedulers.graphs import FREE, MATRIX, dags, graph, lanes_of, machine, relabelled, stub

CURVE_FREE = ((2, 1.0), (4, 1.0), (8, 1.0))
"""As fast beside copies of itself as alone."""

CURVE_FULL = ((2, 2.0), (4, 4.0), (8, 8.0))
"""Fills the device alone."""

NO_GAPS = replace(FREE, graph_launch_s=0, graph_node_s=0, graph_wait_s=0)


def gpus(n: int = 1, dispatch: Dispatch = NO_GAPS, lanes: int = 32) -> Platform:
    """`n` GPUs and nothing else; dispatch is free unless given."""
    return replace(machine(n, cpu=False, lanes=lanes), dispatch=dispatch)


def kernels(edges: str, cost: TaskCost) -> tuple[Workload, Costs]:
    """Tasks and the tasks that they read, as ``a b:a c:a,b``, all of one cost."""
    work, values = Workload(), {}
    for task, _, reads in (part.partition(":") for part in edges.split()):
        read = [values[name] for name in reads.split(",") if name]
        values[task] = work.task(stub, *read, name=task, outputs=[MATRIX])
    return work, Costs({(task.signature, "chip"): cost for task in work.tasks})


def planned(made: tuple[Workload, Costs], platform: Platform | None = None, **options: object) -> Plan:
    """The checked plan of `streams`."""
    plan = schedule(made[0], platform or gpus(), made[1], scheduler="streams", **options)  # type: ignore[arg-type]
    plan.check()
    return plan


def used(plan: Plan) -> list[str]:
    """Compute lanes of a plan."""
    return sorted(lane.name for lane in plan.lanes if lane.kind == "compute")


# -- one GPU ---------------------------------------------------------------------------------


def test_small_kernels_go_side_by_side() -> None:
    """Four that slow each other by nothing: four lanes, the time of one."""
    plan = planned(kernels("a b c d", TaskCost(1.0, concurrency=CURVE_FREE)))
    assert used(plan) == [f"cuda:0/s{k}" for k in range(4)]
    assert predict(plan).makespan_s == pytest.approx(1.0)


def test_kernels_that_fill_the_device_go_to_one_stream() -> None:
    """The plan is that of `one_stream`."""
    made = kernels("a b c d", TaskCost(1.0, concurrency=CURVE_FULL))
    plan = planned(made)
    plain = schedule(made[0], gpus(), made[1], scheduler="one_stream")
    assert plan.text == plain.text.replace("scheduler one_stream", "scheduler streams")


def test_lanes_must_be_worth_a_margin() -> None:
    """Two lanes gain 0.5 %: not enough by default, enough with a smaller margin."""
    made = kernels("a b", TaskCost(1.0, concurrency=((2, 1.99),)))
    assert len(used(planned(made))) == 1
    assert len(used(planned(made, margin=0.004))) == 2
    assert len(used(planned(made, margin=0.006))) == 1


def test_what_the_search_finds_must_gain_more_than_the_doubt() -> None:
    """Eight on four lanes by round_robin take 2 s, on eight 1 s: worth a doubt of two fifths, not of three."""
    made = kernels("a b c d e f g h", TaskCost(1.0, concurrency=((8, 1.0),)))
    assert len(used(schedule(made[0], gpus(), made[1], scheduler="round_robin"))) == 4
    assert len(used(planned(made, doubt=0.4))) == 8
    assert len(used(planned(made, doubt=0.6))) == 4
    assert len(used(planned(made))) == 8


def test_fewer_lanes_need_no_gain() -> None:
    """Four at a time are as fast as two at a time: two lanes, however much the search is doubted."""
    made = kernels("a b c d", TaskCost(1.0, concurrency=((2, 1.0), (4, 2.0), (8, 4.0))))
    assert len(used(planned(made, doubt=0.9))) == 2


@pytest.mark.parametrize("four", [2.0, 1.998])
def test_no_more_lanes_than_pay(four: float) -> None:
    """Two at a time are as fast as four at a time, or slower by 0.1 %: two lanes."""
    plan = planned(kernels("a b c d", TaskCost(1.0, concurrency=((2, 1.0), (4, four), (8, 4.0)))))
    assert len(used(plan)) == 2
    assert predict(plan).makespan_s == pytest.approx(2.0)


def test_launches_bind_eager_mode_and_not_a_graph() -> None:
    """Eight launches of 10 s of kernels of 1 s: other lanes only cost switches, unless a graph launches them."""
    made = kernels("a b c d e f g h", TaskCost(1.0, dispatch_s=10.0, concurrency=CURVE_FREE))
    where = gpus(dispatch=replace(NO_GAPS, switch_s=1.0, record_s=1.0, wait_s=1.0))
    assert used(planned(made, where, mode="eager")) == ["cuda:0/s0"]
    graph = planned(made, where, mode="graph")
    assert len(used(graph)) == 8
    assert predict(graph).makespan_s < predict(planned(made, where), mode="graph").makespan_s / 4


def test_fork_and_join() -> None:
    """Each branch stays on a lane of its own, and the fork and the join on one of these.

    ::

           ┌─▶ b0 ─▶ b1 ─▶ b2 ─┐
        a ─┼─▶ c0 ─▶ c1 ─▶ c2 ─┼─▶ z
           └─▶ d0 ─▶ d1 ─▶ d2 ─┘
    """
    branches = " ".join(f"{k}0:a {k}1:{k}0 {k}2:{k}1" for k in "bcd")
    plan = planned(kernels(f"a {branches} z:b2,c2,d2", TaskCost(1.0, concurrency=CURVE_FREE)))
    lanes = lanes_of(plan)
    assert all(lanes[f"{k}0"] == lanes[f"{k}1"] == lanes[f"{k}2"] for k in "bcd")
    assert len(used(plan)) == 3
    assert predict(plan).makespan_s == pytest.approx(5.0)


def test_chains_are_moved_where_no_rule_puts_them() -> None:
    """With lanes that cost waits the simulation, not a rule, has the last word: better than without simulations."""
    made = kernels("a b c d e f g h", TaskCost(1.0, concurrency=CURVE_FREE))
    few, more = (planned(made, simulations=n) for n in (0, 20))
    assert (len(used(few)), predict(few).makespan_s) == (4, pytest.approx(2.0))  # round_robin's or wavefront's
    assert (len(used(more)), predict(more).makespan_s) == (8, pytest.approx(1.0))


def test_copies_keep_lanes_of_their_own() -> None:
    """As the other schedulers have them: on the lane down, or with `copies` on the lane of what they copy."""
    work = Workload()
    for k in range(8):
        made = work.task(stub, name=f"t{k}", outputs=[MATRIX], device="cuda")
        work.copy(made, to="cpu", pinned=True, name=f"c{k}")
    costs = Costs({(work["t0"].signature, "chip"): TaskCost(50_000.0, concurrency=CURVE_FREE)})
    own = lanes_of(planned((work, costs), machine(1)))
    assert {own[f"c{k}"] for k in range(8)} == {"cuda:0/d2h"}
    assert len({own[f"t{k}"] for k in range(8)}) > 4
    same = lanes_of(planned((work, costs), machine(1), copies="compute"))
    assert all(same[f"c{k}"] == same[f"t{k}"] for k in range(8))


# -- several GPUs ----------------------------------------------------------------------------


def test_two_gpus_with_two_lanes_each() -> None:
    """Eight independent kernels of which a GPU runs two at a time without loss: 4 × 2 lanes in 2 s, heft alone 4 s."""
    made = kernels("a b c d e f g h", TaskCost(1.0, concurrency=((2, 1.0), (4, 2.0), (8, 4.0))))
    plan = planned(made, gpus(2))
    assert used(plan) == ["cuda:0/s0", "cuda:0/s1", "cuda:1/s0", "cuda:1/s1"]
    assert predict(plan).makespan_s == pytest.approx(2.0)


def test_full_kernels_get_one_lane_on_each_gpu() -> None:
    """No lanes that do not pay, on any device."""
    plan = planned(kernels("a b c d e f", TaskCost(1.0, concurrency=CURVE_FULL)), gpus(2))
    assert used(plan) == ["cuda:0/s0", "cuda:1/s0"]
    assert predict(plan).makespan_s == pytest.approx(3.0)


def test_a_gpu_whose_copies_do_not_pay_stays_idle() -> None:
    """256 bytes at one byte a second are dearer than three more kernels: one stream on one GPU."""
    plan = planned(kernels("a b:a c:a z:b,c", TaskCost(1.0, concurrency=CURVE_FULL)), gpus(2))
    assert used(plan) == ["cuda:0/s0"]


def test_a_second_gpu_must_be_worth_the_margin() -> None:
    """It would take 0.4 s of 100.4 s away."""
    work = graph(a=100.0, b=0.4)
    assert used(schedule(work, gpus(2), scheduler="streams")) == ["cuda:0/s0"]
    assert len(used(schedule(work, gpus(2), scheduler="streams", margin=0.003))) == 2


def test_lanes_on_two_gpus_must_be_worth_the_margin() -> None:
    """Two GPUs are twice as fast as one, a second lane on each adds 0.5 %."""
    made = kernels("a b c d", TaskCost(1.0, concurrency=((2, 1.99), (4, 4.0))))
    assert used(planned(made, gpus(2))) == ["cuda:0/s0", "cuda:1/s0"]
    assert len(used(planned(made, gpus(2), margin=0.001))) == 4


# -- options and limits ----------------------------------------------------------------------


def test_most_lanes() -> None:
    """The option and what a device may have are limits alike."""
    made = kernels("a b c d e f g h", TaskCost(1.0, concurrency=CURVE_FREE))
    for most, lanes in ((1, 1), (2, 2), (3, 3), (7, 4), (8, 8), (32, 8)):
        assert len(used(planned(made, most_lanes=most))) == lanes
    assert len(used(planned(made, gpus(lanes=2)))) == 2
    assert len(used(planned(made, gpus(lanes=2), most_lanes=3))) == 2


def test_lanes_of_the_cpu_do_not_limit_those_of_a_gpu() -> None:
    """Eight lanes on the GPU beside a CPU of four; four where there is only that CPU."""
    work, chip = kernels("a b c d e f g h", TaskCost(1.0, concurrency=CURVE_FREE))
    costs = chip.merged(Costs({(task.signature, "processor"): TaskCost(9.0) for task in work.tasks}))
    assert used(planned((work, costs), machine(1))) == [f"cuda:0/s{k}" for k in range(8)]
    assert used(planned((work, costs), machine(0))) == [f"cpu/w{k}" for k in range(4)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"most_lanes": 0}, "most_lanes=0: each device needs 1 lane or more"),
        ({"margin": -0.1}, r"margin=-0.1: a part of the makespan, from 0 to below 1, is needed \(0.01 is 1 %\)"),
        ({"margin": 1}, "margin=1: a part"),
        ({"doubt": 1}, "doubt=1: a part"),
        ({"margin": float("nan")}, "margin=nan: a part"),
        ({"simulations": -1}, "simulations=-1: 0 or more are needed"),
        ({"simulations": 1.5}, r"option simulations=1.5 of scheduler 'streams': simulations: int \| None = None"),
        ({"lanes": 2}, r"'streams' has no option 'lanes': its options are most_lanes: int = 16, "),
    ],
)
def test_wrong_options(options: dict[str, object], message: str) -> None:
    """What was wrong, the value, and what is needed."""
    with pytest.raises(ScheduleError, match=message):
        planned(kernels("a", TaskCost(1.0)), **options)


@pytest.mark.parametrize(("tasks", "simulations"), [(1000, 20), (40, 200)])
def test_large_workloads_are_simulated_less_often(
    monkeypatch: pytest.MonkeyPatch, tasks: int, simulations: int
) -> None:
    """At most so many simulations beyond the five of the other schedulers; without a bound the search uses them up."""
    runs = []

    def fake(plan: Plan, **_: object) -> SimpleNamespace:
        runs.append(plan)
        return SimpleNamespace(makespan_s=1e9 * 0.99 ** len(runs))  # faster and faster: never done by itself

    monkeypatch.setattr(trials, "predict", fake)
    planned(kernels(" ".join(f"t{i}" for i in range(tasks)), TaskCost(1.0, concurrency=CURVE_FREE)))
    assert simulations <= len(runs) <= simulations + 5


def test_nothing_is_searched_where_one_stream_is_at_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that fill the device: only the other schedulers are simulated."""
    runs = []
    monkeypatch.setattr(trials, "predict", lambda plan, **more: runs.append(plan) or predict(plan, **more))
    planned(kernels("a b c d e f", TaskCost(1.0, concurrency=CURVE_FULL)))
    assert 1 < len(runs) <= 5


def test_rules_and_heft_are_asked_for_several_numbers_of_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules on heft's devices (`x` of 3 s on one GPU, `y` and `z` of 2 s on the other) and on those of round_robin."""
    work = Workload()
    for name in "yzx":
        work.task(stub, name == "x", name=name, outputs=[MATRIX])
    costs = Costs(
        {(work[n].signature, "chip"): TaskCost(s, concurrency=CURVE_FREE) for n, s in (("x", 3.0), ("y", 2.0))}
    )
    asked: list[int] = []
    devices: list[dict[str, str]] = []

    def heft_for(*args: object, lanes: int = 1, copies: str = "own") -> Placement:
        asked.append(lanes)
        assert copies == "compute"
        return heft(*args, lanes=lanes, copies=copies)  # type: ignore[arg-type]

    def rules_for(tasks: Assigned, lanes: list[int]) -> list[Placement]:
        asked.extend(lanes)
        devices.append(dict(tasks.device_of))
        return []

    monkeypatch.setattr(streams, "heft", heft_for)
    monkeypatch.setattr(streams, "placements", rules_for)
    planned((work, costs), gpus(2), most_lanes=5, copies="compute")
    assert asked == [1, 1, *[2, 3, 4, 5] * 3]
    assert devices == [
        {"x": "cuda:0", "y": "cuda:1", "z": "cuda:1"},
        {"x": "cuda:0", "y": "cuda:0", "z": "cuda:1"},
    ]


# -- what cannot be planned ------------------------------------------------------------------


def test_work_that_no_graph_can_hold() -> None:
    """The error is the one that the others raise."""
    work = Workload()
    work.task(stub, name="a", outputs=[MATRIX], duration_s=1.0, device="cpu")
    with pytest.raises(CaptureError) as streams_says:
        schedule(work, machine(1), scheduler="streams", mode="graph")
    with pytest.raises(CaptureError) as one_stream_says:
        schedule(work, machine(1), scheduler="one_stream", mode="graph")
    assert str(streams_says.value) == str(one_stream_says.value)


def test_schedulers_that_find_no_link_are_left_out() -> None:
    """The GPUs have no link: `b` follows `a` on the same one, whatever round_robin would do."""
    where = Platform("apart", (Device("cuda:0", "cuda"), Device("cuda:1", "cuda")), dispatch=NO_GAPS)
    made = kernels("a b:a", TaskCost(1.0))
    with pytest.raises(PlatformError):
        schedule(made[0], where, made[1], scheduler="round_robin")
    assert used(planned(made, where)) == ["cuda:0/s0"]


def test_heft_may_find_no_link() -> None:
    """It puts `a` on the faster GPU, from which no link leads to that of `b`."""
    where = Platform("apart", (Device("cuda:0", "cuda"), Device("cuda:1", "cuda")), dispatch=NO_GAPS)
    work = Workload()
    made = work.task(stub, name="a", outputs=[MATRIX], duration_s={"cuda:0": 2.0, "cuda:1": 1.0})
    work.task(stub, made, name="b", outputs=[MATRIX], duration_s={"cuda:0": 1.0})
    with pytest.raises(PlatformError):
        schedule(work, where, scheduler="heft")
    assert used(schedule(work, where, scheduler="streams")) == ["cuda:0/s0"]


def test_nothing_to_do() -> None:
    """An empty workload has an empty plan."""
    assert len(planned(kernels("", TaskCost(1.0)))) == 0


# -- laws ------------------------------------------------------------------------------------

modes = st.sampled_from(["eager", "graph"])
curves = st.sampled_from([(), CURVE_FREE, CURVE_FULL, ((2, 1.3), (4, 2.1), (8, 3.9))])


@st.composite
def measured(draw: st.DrawFn) -> tuple[Workload, Costs]:
    """Random graphs of kernels with measured costs: of up to three kinds, each with a curve; launches take time."""
    work, values, kinds = Workload(), [], draw(st.integers(1, 3))
    for i in range(draw(st.integers(1, 10))):
        reads = draw(st.lists(st.sampled_from(values), max_size=2, unique=True)) if values else []
        values.append(work.task(stub, *reads, draw(st.integers(1, kinds)), name=f"t{i}", outputs=[MATRIX]))
    seconds = st.sampled_from([0.0, 1.0, 3.0, 10.0])
    signatures = dict.fromkeys(task.signature for task in work.tasks)
    return work, Costs(
        {(s, "chip"): TaskCost(draw(seconds), draw(seconds), concurrency=draw(curves)) for s in signatures}
    )


def makespan_s(made: tuple[Workload, Costs], platform: Platform, mode: str, scheduler: str, **options: object) -> float:
    """Predicted seconds of a scheduler's plan."""
    return predict(schedule(*made[:1], platform, made[1], scheduler=scheduler, mode=mode, **options)).makespan_s  # type: ignore[arg-type]


@settings(deadline=None, max_examples=60)
@given(made=measured(), mode=modes, n=st.integers(1, 2), margin=st.sampled_from([0.0, 0.01]))
def test_never_slower_than_the_others(made: tuple[Workload, Costs], mode: str, n: int, margin: float) -> None:
    """By prediction, beyond the margin; the plan passes its check."""
    where = gpus(n, replace(NO_GAPS, switch_s=0.5, record_s=0.25, wait_s=0.25, same_device_s=0.5, other_device_s=2.0))
    plan = planned(made, where, mode=mode, margin=margin)
    for other in ("one_stream", "round_robin", "wavefront", "heft", "sequential"):
        limit_s = makespan_s(made, where, mode, other) / (1.0 - margin)
        assert predict(plan).makespan_s <= limit_s * (1 + 1e-12)


@settings(deadline=None, max_examples=40)
@given(dag=dags(), seed=st.integers(0, 9))
def test_the_same_for_the_same(dag: nx.DiGraph, seed: int) -> None:
    """Twice the same text; under other names the same lanes, order and waits; never slower than one_stream."""
    plans = [
        schedule(Workload.from_graph(g), machine(2), scheduler="streams", margin=0.0)
        for g in (dag, dag, relabelled(dag, seed))
    ]
    assert plans[0].text == plans[1].text
    assert (plans[0].lanes, plans[0].kinds, plans[0].lane_of) == (plans[2].lanes, plans[2].kinds, plans[2].lane_of)
    assert plans[0].waits == plans[2].waits
    plain = schedule(plans[0].work, machine(2), scheduler="one_stream")
    assert predict(plans[0]).makespan_s <= predict(plain).makespan_s * (1 + 1e-12)


def test_errors_are_of_the_tree() -> None:
    """What is caught is only what a wrong placement raises."""
    assert all(issubclass(error, GraphschedError) for error in trials.REFUSED)
