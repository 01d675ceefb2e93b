"""What must hold for every scheduler and every graph."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.costs import Costs
from graphsched.errors import ScheduleError
from graphsched.plan import Plan, allowed_devices
from graphsched.schedulers import lower_bound, schedule, schedulers
from graphsched.simulator import predict
from graphsched.workload import Workload, ancestors_first
from tests.schedulers.graphs import (
    ALL,
    LIST,
    MATRIX,
    SHORT,
    add,
    dags,
    graph,
    lanes_of,
    machine,
    measured,
    relabelled,
    workloads,
)
from tests.schedulers.ideal import durations, makespan

CHOICES = [
    ("sequential", {}),
    ("sequential", {"copies": "compute"}),
    ("one_stream", {}),
    ("one_stream", {"copies": "compute"}),
    ("round_robin", {"lanes": 3}),
    ("round_robin", {"copies": "compute"}),
    ("wavefront", {"lanes": 2}),
    ("wavefront", {"sync": True, "copies": "compute"}),
    ("heft", {}),
    ("heft", {"lanes": 3, "copies": "compute"}),
    ("streams", {}),
    ("streams", {"most_lanes": 2, "simulations": 5, "copies": "compute"}),
    ("auto", {"schedulers": ("one_stream", "etf", "peft")}),
    ("auto", {"schedulers": "work_stealing", "copies": "compute"}),
    *((name, {}) for name in LIST if name != "heft"),
    *((name, {"lanes": 3, "copies": "compute", "contention": False}) for name in LIST if name != "heft"),
    ("work_stealing", {"seed": 3, "lanes": 2}),
    *SHORT.items(),
    ("search", {"iterations": 30, "seed": 1, "lanes": 3, "copies": "compute"}),
    ("optimal", {"effort": 0.02, "seconds": 60.0, "lanes": 2, "copies": "compute"}),
]
choices = st.sampled_from(CHOICES)


def test_all_are_tested() -> None:
    """A new scheduler comes into this file."""
    assert set(schedulers()) == set(ALL) == {name for name, _ in CHOICES}


@settings(deadline=None, max_examples=300)
@given(work=workloads(), choice=choices)
def test_plans_are_right(work: Workload, choice: tuple[str, dict]) -> None:
    """Each plan passes its check, holds every task once in a topological order, and keeps constraints."""
    name, options = choice
    platform = machine(2)
    plan = schedule(work, platform, scheduler=name, **options)
    plan.check()
    assert ancestors_first(work.graph, [n for n in plan.names if n in work.graph])
    for action in plan:
        if action.kind == "run":
            assert action.task is not None
            assert action.lanes[0].device in allowed_devices(action.task, platform, work)
    assert Plan.from_text(plan.text, work, platform).text == plan.text


@settings(deadline=None, max_examples=200)
@given(dag=dags(), choice=choices, seed=st.integers(0, 9))
def test_names_change_nothing(dag: nx.DiGraph, choice: tuple[str, dict], seed: int) -> None:
    """The same graph under other names gets the same lanes, order and waits."""
    name, options = choice
    one, two = (
        schedule(Workload.from_graph(g), machine(2), scheduler=name, **options) for g in (dag, relabelled(dag, seed))
    )
    assert one.lanes == two.lanes
    assert (one.kinds, one.lane_of, one.waits) == (two.kinds, two.lane_of, two.waits)


@settings(deadline=None, max_examples=100)
@given(dag=dags(), choice=choices)
def test_makespan_is_between_the_bounds(dag: nx.DiGraph, choice: tuple[str, dict]) -> None:
    """Lower bound ≤ makespan ≤ one action after the other, on GPUs that their lanes share."""
    name, options = choice
    plan = schedule(Workload.from_graph(dag), machine(2), scheduler=name, **options)
    predicted = predict(plan).makespan_s
    assert lower_bound(plan.work, plan.platform) <= predicted * (1 + 1e-9)
    assert predicted <= sum(durations(plan)) * (1 + 1e-9)


@settings(deadline=None, max_examples=150)
@given(made=measured(), choice=choices, mode=st.sampled_from(["eager", "graph"]))
def test_no_plan_is_faster_than_the_bound_of_its_mode(made: tuple[Workload, Costs], choice: tuple, mode: str) -> None:
    """Measured operations that take another time inside a CUDA graph."""
    plan = schedule(made[0], machine(2), made[1], scheduler=choice[0], mode=mode, **choice[1])
    assert plan.costs is made[1]
    assert lower_bound(made[0], machine(2), made[1], mode=mode) <= predict(plan).makespan_s * (1 + 1e-9)


@settings(deadline=None, max_examples=50)
@given(made=measured(), choice=choices)
def test_what_tasks_take_in_graphs_is_nothing_to_eager_plans(made: tuple[Workload, Costs], choice: tuple) -> None:
    """The same text as without these figures."""
    work, costs = made
    plain = Costs({key: replace(costs[key], graph_s=None, graph_nodes=0) for key in costs})
    texts = {schedule(work, machine(2), each, scheduler=choice[0], **choice[1]).text for each in (costs, plain)}
    assert len(texts) == 1
    assert lower_bound(work, machine(2), costs) == lower_bound(work, machine(2), plain)


@settings(deadline=None, max_examples=100)
@given(dag=dags(kind="worker"), choice=choices)
def test_makespan_on_lanes_that_share_nothing(dag: nx.DiGraph, choice: tuple[str, dict]) -> None:
    """The same for workers with cores for all lanes; one action after the other if the thread waits after each."""
    name, options = choice
    plan = schedule(Workload.from_graph(dag), machine(2, kind="worker"), scheduler=name, **options)
    assert lower_bound(plan.work, plan.platform) <= makespan(plan) * (1 + 1e-9)
    assert makespan(plan) <= sum(durations(plan)) * (1 + 1e-9)
    if name == "sequential":
        assert makespan(plan) == pytest.approx(sum(durations(plan)) - _side_by_side(plan))


def _side_by_side(plan: Plan) -> float:
    """Seconds that inserted copies to one task save by being on several lanes."""
    saved, batch = 0.0, {}
    for i, seconds in enumerate(durations(plan)):
        if plan.kinds[i] == "copy":
            batch[plan.lane_of[i]] = batch.get(plan.lane_of[i], 0.0) + seconds
        elif plan.kinds[i] == "run":
            saved += sum(batch.values()) - max(batch.values(), default=0.0)
            batch = {}
    return saved


@pytest.mark.parametrize("name", ALL)
def test_nothing_to_do(name: str) -> None:
    """An empty workload has an empty plan."""
    assert len(schedule(Workload(), machine(1), scheduler=name)) == 0


@pytest.mark.parametrize("name", ALL)
def test_copies_and_barriers_alone(name: str) -> None:
    """No task runs anywhere.

    ::

        out(x) ─▶ wall ─▶ back(out)
    """
    work = Workload()
    out = work.copy(work.input("x", MATRIX, device="cuda:0"), to="cpu", name="out")
    work.barrier("wall")
    work.copy(out, to="cuda:1", name="back")
    plan = schedule(work, machine(2), scheduler=name)
    plan.check()
    assert [name for name in plan.names if name in work.graph] == ["out", "wall", "back"]
    assert predict(plan).makespan_s > 0.0


@pytest.mark.parametrize("name", ALL)
def test_durations_that_are_given_for_one_kind_bind_a_task_to_it(name: str) -> None:
    """A duration for the cpu only says that the task runs there."""
    plan = schedule(graph(a={"cpu": 1.0}, b={"cuda:1": 1.0}, c=1.0), machine(2), scheduler=name)
    assert lanes_of(plan)["a"] == "cpu/w0"
    assert lanes_of(plan)["b"] == "cuda:1/s0"


@pytest.mark.parametrize("name", ALL)
def test_tasks_of_one_state_share_its_home(name: str) -> None:
    """`w` and `v` are joined by `both`, so all tasks go where the last of them must.

    ::

        first(w) ─▶ both(w, v) ─▶ last(v)
    """
    work = Workload()
    w, v = work.state("w", MATRIX), work.state("v", MATRIX)
    add(work, "first", w, updates=w)
    add(work, "both", w, v, updates=[w, v])
    add(work, "last", v, updates=v, device="cuda:1")
    plan = schedule(work, machine(3), scheduler=name)
    plan.check()
    assert {lanes_of(plan)[task] for task in work.graph} <= {f"cuda:1/s{k}" for k in range(4)}


@pytest.mark.parametrize("name", ALL)
def test_state_that_must_be_in_two_places(name: str) -> None:
    """The error names both tasks and where they may run."""
    work = Workload()
    w = work.state("w", MATRIX)
    add(work, "here", w, updates=w, device="cuda:0")
    add(work, "there", w, updates=w, device="cuda:1")
    with pytest.raises(ScheduleError, match=r"'here' \(cuda:0\) and 'there' \(cuda:1\).*share a device"):
        schedule(work, machine(2), scheduler=name)


@pytest.mark.parametrize("name", ALL)
def test_view_of_a_state_is_made_at_its_home(name: str) -> None:
    """`view` looks into `w`, which `update` changes on cuda:1."""
    import torch

    work = Workload()
    w = work.state("w", torch.zeros(4, 4))
    view = work.task(torch.t, w, name="view")
    work.task(torch.mm, view, view, name="use")
    work.task(torch.Tensor.add_, w, 1.0, name="update", updates=w, device="cuda:1")
    plan = schedule(work, machine(2), scheduler=name)
    plan.check()
    assert lanes_of(plan)["view"] == "cuda:1/s0"


PRINT_PLANS = """
import random
from graphsched.schedulers import schedule
from graphsched.workload import Workload
from tests.schedulers.graphs import ALL, LIST, MATRIX, SHORT, add, machine
rng = random.Random(3)
work = Workload()
values = [work.input("x", MATRIX)]
states = [work.state(f"w{k}", MATRIX) for k in range(3)]
for i in range(60):
    s = rng.choice(states)
    if i % 5 == 0: add(work, f"u{i}", s, rng.choice(values), updates=s)
    elif i % 7 == 0: values.append(work.copy(rng.choice(values), to="cpu", name=f"c{i}"))
    else: values.append(add(work, f"t{i}", *rng.sample(values, min(2, len(values))), duration_s=rng.choice([1.0, 2.0])))
for name in ALL:
    print(schedule(work, machine(3), scheduler=name, **SHORT.get(name, {})).text)
"""


def test_plans_do_not_depend_on_hashes() -> None:
    """The same text under different PYTHONHASHSEED."""
    texts = set()
    for seed in ("0", "1", "4242"):
        env = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", PRINT_PLANS], env=env, capture_output=True, text=True, check=True)
        texts.add(done.stdout)
    assert len(texts) == 1
    assert texts.pop().count("graphsched plan") == len(ALL)
