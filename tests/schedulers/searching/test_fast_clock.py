"""The fast clock against the simulator, and problems in numbers."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.costs import Costs
from graphsched.errors import PlatformError
from graphsched.plan import Placement, Plan
from graphsched.platform import Platform
from graphsched.schedulers.placing.candidates import find_candidates
from graphsched.schedulers.placing.lanes import lane_counts
from graphsched.schedulers.scheduling import schedule
from graphsched.schedulers.searching.fast_clock import FREE, FastClock
from graphsched.schedulers.searching.instance import Instance, make_instance
from graphsched.simulator import predict
from graphsched.workload import Workload
from tests.schedulers.graphs import MATRIX, add, dags, graph, machine, workloads
from tests.schedulers.ideal import spans

NAMES = st.sampled_from(["heft", "round_robin", "wavefront", "etf", "one_stream"])


def open_machine(devices: int = 2) -> Platform:
    """Devices that send to all others at once."""
    platform = machine(devices)
    return replace(platform, devices=tuple(replace(d, peer_engines=0) for d in platform.devices))


def instance(work: Workload, platform: Platform, lanes: int = 1) -> Instance:
    counts = lane_counts(platform, find_candidates(work, platform).used(), lanes)
    return make_instance(work, platform, Costs(), counts, "own")


def timed(tasks: Instance, plan: Plan) -> FastClock:
    """The clock of a plan's placement."""
    lanes = {action.name: action.lanes[0].name for action in plan if action.kind == "run"}
    read = tasks.read(Placement([name for name in plan.names if name in plan.work.graph], lanes))
    assert read is not None
    return FastClock(tasks, *read)


def assert_same(work: Workload, name: str) -> None:
    platform = open_machine()
    plan = schedule(work, platform, scheduler=name, **({} if name == "one_stream" else {"lanes": 3}))
    tasks = instance(work, platform, 3)
    clock, expected = timed(tasks, plan), spans(plan)
    for i, task in enumerate(tasks.names):
        if tasks.kinds[i] != "barrier":
            assert (clock.start_s[i], clock.end_s[i]) == expected[task]
    assert clock.makespan_s == max((end for _, end in expected.values()), default=0.0)


@settings(deadline=None, max_examples=200)
@given(work=workloads(), name=NAMES)
def test_starts_and_ends_are_those_of_the_plan(work: Workload, name: str) -> None:
    """Inputs, states, views, updates, copies and barriers, to the bit."""
    assert_same(work, name)


@settings(deadline=None, max_examples=100)
@given(dag=dags(), name=NAMES)
def test_starts_and_ends_of_graphs(dag: nx.DiGraph, name: str) -> None:
    """Values that are copied once a device, in the order of their readers."""
    assert_same(Workload.from_graph(dag), name)


@settings(deadline=None, max_examples=100)
@given(dag=dags(kind="worker"), name=st.sampled_from(["heft", "etf", "dls"]))
def test_the_simulator_says_the_same(dag: nx.DiGraph, name: str) -> None:
    """On workers with cores for all, where nothing is shared and dispatch is free."""
    work = Workload.from_graph(dag)
    platform = machine(3, kind="worker")
    platform = replace(platform, devices=tuple(replace(d, peer_engines=0) for d in platform.devices))
    plan = schedule(work, platform, scheduler=name)
    assert timed(instance(work, platform), plan).makespan_s == pytest.approx(predict(plan).makespan_s)


def fan(order: tuple[str, ...], **bytes_to: int) -> tuple[Instance, Plan]:
    """a(1) on cuda:0 passes bytes to readers of no time on other GPUs."""
    dag = nx.DiGraph()
    dag.add_node("a", duration_s={"cuda:0": 1.0})
    for k, name in enumerate(order, 1):
        dag.add_node(name, duration_s={f"cuda:{k}": 0.0})
        dag.add_edge("a", name, nbytes=bytes_to[name])
    work, platform = Workload.from_graph(dag), machine(len(order) + 1, cpu=False)
    return instance(work, platform), schedule(work, platform)


def test_an_engine_makes_one_copy_at_a_time() -> None:
    """2 and 3 bytes from one GPU to two others: over at 3 and at 6, and not at 3 and at 4.

    ::

        a ─2─▶ b
          └─3─▶ c
    """
    tasks, plan = fan(("b", "c"), b=2, c=3)
    assert timed(tasks, plan).end_s == [1.0, 3.0, 6.0]
    assert predict(plan).makespan_s == 6.0


def test_a_free_task_goes_where_it_is_over_first() -> None:
    """b(1) reads 5 bytes from a on cuda:0; c(1) beside it reads nothing."""
    dag = nx.DiGraph([("a", "b")])
    dag.edges["a", "b"]["nbytes"] = 5
    dag.add_nodes_from("abc", duration_s=1.0)
    tasks = instance(Workload.from_graph(dag), open_machine(2))
    order = [tasks.names.index(name) for name in "abc"]
    place = [FREE] * 3
    clock = FastClock(tasks, order, place)
    lanes = {tasks.names[i]: tasks.lanes[place[i]] for i in order}
    assert lanes == {"a": "cuda:0/s0", "b": "cuda:0/s0", "c": "cuda:1/s0"}
    assert clock.makespan_s == 2.0


def test_what_has_no_link_takes_for_ever() -> None:
    dag = nx.DiGraph([("a", "b")])
    dag.edges["a", "b"]["nbytes"] = 5
    dag.add_nodes_from("ab", duration_s=1.0)
    tasks = instance(Workload.from_graph(dag), replace(open_machine(2), links=()))
    assert FastClock(tasks, [0, 1], [0, 1]).makespan_s == float("inf")
    assert FastClock(tasks, [0, 1], [1, 1]).makespan_s == 2.0


def test_placements_are_read_and_made() -> None:
    """Back and forth; not with lanes that are no places, or with waits."""
    work = graph([("a", "b")], a=1.0, b=2.0)
    tasks = instance(work, open_machine(2))
    placement = Placement(["a", "b"], {"a": "cuda:1/s0", "b": "cpu/w0"})
    read = tasks.read(placement)
    assert read == ([0, 1], [1, 2])
    assert tasks.placement(*read) == placement
    assert tasks.read(replace(placement, lanes={"a": "cuda:1/s1", "b": "cpu/w0"})) is None
    assert tasks.read(replace(placement, wait_after={"a"})) is None


def test_an_update_may_pass_a_reader_elsewhere_but_is_dispatched_after_it() -> None:
    """look(5) reads w on cuda:1, step(1) updates it on cuda:0 and starts first."""
    work = Workload()
    w, x = work.state("w", MATRIX, device="cuda:0"), work.input("x", MATRIX, device="cuda:1")
    add(work, "late", x, device="cuda:1", duration_s=300.0)
    add(work, "look", w, device="cuda:1", duration_s=5.0)
    add(work, "step", w, updates=w)
    tasks = instance(work, open_machine(2))
    place = [tasks.lanes.index(lane) for lane in ("cuda:1/s0", "cuda:1/s0", "cuda:0/s0")]
    clock = FastClock(tasks, [0, 1, 2], place)
    assert clock.start_s == [0.0, 300.0, 256.0]  # step waits for the copy of w's 256 bytes alone
    assert tasks.by_start(clock.start_s, [0, 1, 2]) == [0, 1, 2]


def test_a_copy_starts_no_earlier_than_what_it_copies() -> None:
    """a(4) ─▶ z(0) ─▶ copy(0.02): not at 3.9999999999999996, before z, where end less length would be.

    ::

        a ─▶ z ─▶ copy
    """
    work, platform = Workload(), open_machine(2)
    a = add(work, "a", device="cuda:0", duration_s=4.0)
    work.copy(add(work, "z", a, device="cuda:0", duration_s=0.0), to="cuda:0", name="copy")
    links = [replace(link, bandwidth_bytes_per_s=MATRIX.nbytes / 0.02) for link in platform.links]
    tasks = instance(work, replace(platform, links=tuple(links)))
    clock = FastClock(tasks, [0, 1, 2], [0, 0, FREE])
    assert clock.start_s == [0.0, 4.0, 4.0]
    assert tasks.by_start(clock.start_s, [0, 1, 2]) == [0, 1, 2]


def test_a_state_that_nobody_reads_needs_no_home() -> None:
    """Nor a cpu to live on."""
    work = Workload()
    work.state("w", MATRIX)
    add(work, "a")
    tasks = instance(work, machine(2, cpu=False))
    assert not tasks.anchors
    assert tasks.devices == ["cuda:0", "cuda:1"]


def test_a_state_that_only_copies_read_lives_on_the_cpu() -> None:
    """Where there is none that is said, and not that a list lacks it."""
    work = Workload()
    work.copy(work.state("w", MATRIX), to="cuda:1", name="copy")
    tasks = instance(work, machine(2))
    assert tasks.devices[tasks.needs[0][0].home.device] == "cpu"
    with pytest.raises(PlatformError, match="no device 'cpu'"):
        instance(work, machine(2, cpu=False))
