"""Where a plan is cut for graph mode: drawn cases, and that no order of a plan is lost."""

from __future__ import annotations

import networkx as nx
import pytest
import torch

from graphsched.errors import CaptureError
from graphsched.plan import OUTSIDE, Plan, check_capturable, launching_lane, segments_of
from graphsched.workload import TensorSpec, Value, Workload
from tests.executors.programs import by_hand, machine, random_plan, random_workload

TWO = TensorSpec((2,))


class Draft:
    """A workload of negations, in the order in which tasks are added, and their lanes."""

    def __init__(self) -> None:
        self.work, self.lanes = Workload(), {}
        self.here = self.work.input("x", TWO, device="cuda:0")
        self.there = self.work.input("h", TWO, device="cpu")

    def task(self, name: str, lane: str, *reads: Value) -> Value:
        """A task on `lane` ("s0" of the GPU or "w0" of the CPU) that reads these values."""
        self.lanes[name] = f"{'cpu' if lane[0] == 'w' else 'cuda:0'}/{lane}"
        start = self.there if lane[0] == "w" else self.here
        value: Value = self.work.task(_first, *(reads or (start,)), name=name, outputs=[TWO])
        return value

    def plan(self) -> Plan:
        """The plan of the tasks in the order in which they were added."""
        return by_hand(self.work, machine("cuda:0"), self.lanes)


def _first(*values: torch.Tensor) -> torch.Tensor:
    return -values[0]


def cut(plan: Plan) -> tuple[dict[str, int], list[list[str]], dict[str, int]]:
    """The segments of a plan by names: of, before, after."""
    found = segments_of(plan)
    name = plan.names
    return (
        {name[i]: k for i, k in enumerate(found.of)},
        [[name[j] for j in before] for before in found.before],
        {name[i]: k for i, k in found.after.items()},
    )


def test_a_plan_on_gpus_alone_is_one_segment_waits_included() -> None:
    """a (s0); a wait; b (s1)."""
    draft = Draft()
    draft.task("a", "s0")
    draft.work.barrier("gate")
    draft.task("b", "s1")
    assert cut(draft.plan()) == ({"a": 0, "gate": 0, "b": 0}, [[]], {})


def test_a_cpu_task_that_needs_nothing_of_the_gpu_cuts_nothing() -> None:
    """a (s0), c (cpu), b (s0)."""
    draft = Draft()
    draft.task("a", "s0")
    draft.task("c", "w0")
    draft.task("b", "s0")
    assert cut(draft.plan()) == ({"a": 0, "c": OUTSIDE, "b": 0}, [[]], {})


def test_what_a_cpu_task_needs_is_over_before_later_actions_of_the_gpu() -> None:
    """a (s0) ──▶ c (cpu); b (s1) stands behind c and begins a segment, for which nothing has to be waited for."""
    draft = Draft()
    draft.task("c", "w0", draft.task("a", "s0"))
    draft.task("b", "s1")
    assert cut(draft.plan()) == ({"a": 0, "a>cpu": 0, "c": OUTSIDE, "b": 1}, [[], []], {"c": 0})


def test_a_gpu_task_that_needs_a_cpu_task_begins_a_segment() -> None:
    """a (s0); c (cpu) ──▶ b (s0): the copy of c, out of pinned memory, is in the segment of b."""
    draft = Draft()
    draft.task("a", "s0")
    draft.task("b", "s0", draft.task("c", "w0"))
    plan = draft.plan()
    assert cut(plan) == ({"a": 0, "c": OUTSIDE, "c>cuda:0": 1, "b": 1}, [[], ["c"]], {})


def test_a_copy_out_of_pageable_memory_is_made_between_segments() -> None:
    """a (s0); c (cpu) ──▶ p, asked for ──▶ b (s0)."""
    draft = Draft()
    draft.task("a", "s0")
    draft.task("b", "s0", draft.work.copy(draft.task("c", "w0"), to="cuda:0", name="p"))
    assert cut(draft.plan()) == ({"a": 0, "c": OUTSIDE, "p": OUTSIDE, "b": 1}, [[], ["p"]], {})


def test_what_one_segment_waited_for_cuts_no_other() -> None:
    """a (s0); c (cpu) ──▶ b (s0), d (s1): d goes with b."""
    draft = Draft()
    draft.task("a", "s0")
    c = draft.task("c", "w0")
    draft.task("b", "s0", c)
    draft.task("d", "s1", c)
    of, before, _ = cut(draft.plan())
    assert (of["b"], of["d"], before) == (1, 1, [[], ["c"]])


def test_a_cpu_task_after_a_wait_of_lanes_waits_for_their_segment() -> None:
    """a (s0); a wait; c (cpu), which reads nothing of a; b (s0)."""
    draft = Draft()
    draft.task("a", "s0")
    draft.work.barrier("gate")
    draft.task("c", "w0")
    draft.task("b", "s0")
    assert cut(draft.plan()) == ({"a": 0, "gate": 0, "c": OUTSIDE, "b": 1}, [[], []], {"c": 0})


def test_a_wait_for_a_cpu_task_is_the_threads_own() -> None:
    """a (s0), c (cpu); a wait for both; another for none; b (s0), d (cpu): both know that a and c are over."""
    draft = Draft()
    draft.task("a", "s0")
    draft.task("c", "w0")
    draft.work.barrier("gate")
    draft.work.barrier("again")
    draft.task("b", "s0")
    draft.task("d", "w1")
    of, before, after = cut(draft.plan())
    assert of == {"a": 0, "c": OUTSIDE, "gate": OUTSIDE, "again": OUTSIDE, "b": 1, "d": OUTSIDE}
    assert (before, after) == ([[], []], {"gate": 0})


@pytest.mark.parametrize(("pinned", "lane"), [(True, "cuda:0/h2d"), (False, "cuda:0/s0")])
def test_graphs_are_launched_on_a_lane_without_copies_outside(pinned: bool, lane: str) -> None:
    """h ──▶ in (h2d, pinned or pageable) ──▶ a (s0): the first lane, unless what it does is outside."""
    draft = Draft()
    draft.task("a", "s0", draft.work.copy(draft.there, to="cuda:0", pinned=pinned, name="in"))
    plan = draft.plan()
    assert plan.lanes[launching_lane(plan, segments_of(plan))].name == lane


def test_graphs_are_launched_on_the_first_lane_where_all_have_copies_outside() -> None:
    """h ──▶ in ──▶ out, both pageable, on a lane of their own each; a pinned copy behind each."""
    draft = Draft()
    for k, memory in enumerate(("pageable", "pinned")):
        there = draft.work.copy(draft.there, to="cuda:0", pinned=memory == "pinned", name=f"in{k}")
        draft.work.copy(there, to="cpu", pinned=memory == "pinned", name=f"out{k}")
    plan = draft.plan()
    assert set(segments_of(plan).of) > {OUTSIDE}
    assert plan.lanes[launching_lane(plan, segments_of(plan))].name == "cuda:0/h2d"


def test_a_pageable_copy_stands_outside_and_what_follows_on_its_lane_waits_for_it() -> None:
    """x ──▶ out (pageable, d2h); x ──▶ kept (pinned, d2h), on the same lane."""
    draft = Draft()
    draft.task("a", "s0")
    draft.work.copy(draft.here, to="cpu", name="out")
    draft.work.copy(draft.here, to="cpu", name="kept", pinned=True)
    assert cut(draft.plan()) == ({"a": 0, "out": OUTSIDE, "kept": 1}, [[], ["out"]], {})


def test_what_the_thread_has_waited_for_no_segment_waits_for() -> None:
    """x ──▶ out (pageable, d2h); a wait; x ──▶ kept (pinned, d2h), on the same lane."""
    draft = Draft()
    draft.work.copy(draft.here, to="cpu", name="out")
    draft.work.barrier("gate")
    draft.work.copy(draft.here, to="cpu", name="kept", pinned=True)
    assert cut(draft.plan()) == ({"out": OUTSIDE, "gate": OUTSIDE, "kept": 0}, [[]], {})


def test_two_tasks_of_one_cpu_lane_wait_for_a_segment_once() -> None:
    """a (s0) ──▶ c (cpu), d (cpu): the lane knows."""
    draft = Draft()
    a = draft.task("a", "s0")
    draft.task("c", "w0", a)
    draft.task("d", "w0", a)
    assert cut(draft.plan())[2] == {"c": 0}


@pytest.mark.parametrize("lanes", [{"y": "cpu/w0"}, {}])
def test_a_plan_without_anything_to_capture_is_refused(lanes: dict[str, str]) -> None:
    work = Workload()
    x = work.input("x", torch.ones(2), device="cuda:0" if not lanes else "cpu")
    if lanes:
        work.task(torch.neg, x, name="y")
    else:
        work.copy(x, to="cpu", name="y")
    with pytest.raises(CaptureError, match=r"this plan has 'y': schedule tasks for GPUs, or run in eager mode"):
        check_capturable(by_hand(work, machine("cuda:0"), lanes))


# -- whatever the plan ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_what_the_plan_orders_stays_ordered(seed: int) -> None:
    """Every wait, the order of lanes, and what comes after a wait of the thread, on random plans of CPU and GPUs."""
    names = tuple(f"cuda:{k}" for k in range(1 + seed % 2))
    work = random_workload(seed, (*names, "cpu"), tasks=30)
    plan = random_plan(work, machine(*names), seed, 1 + seed % 3, waits=seed % 2 == 0)
    segments, order = segments_of(plan), Order(plan)
    assert len(segments) > 2
    assert sorted(set(segments.of) - {OUTSIDE}) == list(range(len(segments)))
    for j, i in required(plan):
        assert order.keeps(j, i), (plan.names[j], plan.names[i])


def test_the_order_is_lost_without_the_waits_between_segments() -> None:
    """What finds lost orders finds these."""
    draft = Draft()
    draft.task("b", "s0", draft.task("c", "w0", draft.task("a", "s0")))
    plan = draft.plan()
    number = plan.names.index
    order = Order(plan)
    assert order.keeps(number("a>cpu"), number("c"))
    order.graph.remove_edge("segment 0 ends", f"{number('c')} starts")
    assert not order.keeps(number("a>cpu"), number("c"))


def required(plan: Plan) -> list[tuple[int, int]]:
    """Pairs of actions of which the first must be over before the second starts."""
    pairs, last, gate = [], {}, None
    for i, lane in enumerate(plan.lane_of):
        pairs += [(j, i) for j in plan.waits[i]]
        if plan.kinds[i] == "wait":
            gate = i
            continue
        pairs += [(last[lane], i)] if lane in last else []
        pairs += [(gate, i)] if gate is not None else []
        last[lane] = i
    return pairs


class Order:
    """What graph mode keeps in order, as a graph of what starts and ends.

    Segments follow each other; the thread goes through the plan, and goes on from its own waits when these are over.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan, self.segments = plan, segments_of(plan)
        self.graph = nx.DiGraph()
        for k, before in enumerate(self.segments.before):
            self.graph.add_edge(f"segment {k} starts", f"segment {k} ends")
            self.graph.add_edges_from((f"{j} ends", f"segment {k} starts") for j in before)
            if k:
                self.graph.add_edge(f"segment {k - 1} ends", f"segment {k} starts")
        self._walk()

    def _walk(self) -> None:
        thread, last, launched = "the run starts", {}, OUTSIDE
        for i, segment in enumerate(self.segments.of):
            if segment > launched:
                launched = segment
                self.graph.add_edge(thread, f"segment {segment} starts")
            if segment != OUTSIDE:
                continue
            waits = self.plan.kinds[i] == "wait"
            before = [j for j in self.plan.waits[i] if self.segments.of[j] == OUTSIDE]
            before += [] if waits else last.get(self.plan.lane_of[i], [])
            edges = [thread, *(f"{j} ends" for j in before)]
            edges += [f"segment {self.segments.after[i]} ends"] if i in self.segments.after else []
            self.graph.add_edges_from((edge, f"{i} starts") for edge in edges)
            self.graph.add_edge(f"{i} starts", f"{i} ends")
            last[self.plan.lane_of[i]] = [i]
            thread = f"{i} ends" if waits else thread

    def keeps(self, j: int, i: int) -> bool:
        """Whether `j` is over before `i` starts; inside a segment streams see to that."""
        a, b = self.segments.of[j], self.segments.of[i]
        waits_for_nothing = self.plan.kinds[j] == "wait" and not self.plan.waits[j]
        if a == b != OUTSIDE or (a != OUTSIDE and waits_for_nothing):
            return True
        end = f"{j} ends" if a == OUTSIDE else f"segment {a} ends"
        return bool(nx.has_path(self.graph, end, f"{i} starts" if b == OUTSIDE else f"segment {b} starts"))
