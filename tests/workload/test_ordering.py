"""The order of tasks: versions of states, views, barriers."""

from __future__ import annotations

import operator
from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphsched.errors import SignatureError
from graphsched.workload import TensorSpec, Workload, ancestors_first
from tests.workload.given import BYTES, MATRIX, add_to, edges, momentum


def _step(work: Workload, name: str, w: Any, **more: Any) -> Any:
    return work.task(torch.Tensor.add_, w, 1.0, name=name, updates=w, **more)


def test_read_after_write_write_after_read_write_after_write(work: Workload) -> None:
    """
    r0 ──▶ u1 ──▶ r1 ──▶ u2        r0, r1 read w; u1, u2 update it
            └──────────▶ u2
    """
    w = work.state("w", MATRIX)
    work.task(torch.relu, w, name="r0")
    _step(work, "u1", w)
    work.task(torch.relu, w, name="r1")
    _step(work, "u2", w)
    assert edges(work) == {("r0", "u1"): 0, ("u1", "r1"): BYTES, ("r1", "u2"): 0, ("u1", "u2"): BYTES}
    assert work["u1"].after == ("r0",)
    assert work["u2"].after == ("r1",)
    assert [str(work[t].reads[0]) for t in ("r0", "u1", "r1", "u2")] == ["w", "w", "w@1", "w@1"]


def test_readers_of_an_old_version_do_not_hold_back_the_next_but_one(work: Workload) -> None:
    w = work.state("w", MATRIX)
    work.task(torch.relu, w, name="r0")
    _step(work, "u1", w)
    _step(work, "u2", w)
    assert ("r0", "u2") not in work.graph.edges
    assert nx.has_path(work.graph, "r0", "u2")


def test_a_view_that_is_read_after_an_update_reads_the_new_version(work: Workload) -> None:
    """view ──▶ u1 ──▶ r"""
    w = work.state("w", MATRIX)
    v = work.task(operator.getitem, w, 0, name="view")
    _step(work, "u1", w)
    work.task(torch.relu, v, name="r")
    assert (v.root, v.born) == ("w", 0)
    assert str(work["r"].reads[0]) == "view@1"
    assert work["r"].reads[0].source == "u1"
    assert edges(work) == {("view", "u1"): 0, ("u1", "r"): 16}


def test_a_view_that_is_made_after_an_update_is_read_from_its_maker(work: Workload) -> None:
    """u ──▶ view ──▶ r"""
    w = work.state("w", MATRIX)
    _step(work, "u", w)
    v = work.task(operator.getitem, w, 0, name="view")
    work.task(torch.relu, v, name="r")
    assert edges(work) == {("u", "view"): BYTES, ("view", "r"): 16}
    assert str(work["r"].reads[0]) == "view@1"


def test_an_update_through_a_view_of_a_view(work: Workload) -> None:
    """v ──▶ vv ──▶ u ──▶ r; r reads w itself"""
    w = work.state("w", MATRIX)
    v = work.task(torch.t, w, name="v")
    vv = work.task(operator.getitem, v, 1, name="vv")
    _step(work, "u", vv)
    work.task(torch.relu, w, name="r")
    assert (vv.root, vv.spec) == ("w", TensorSpec((4,), stride=(4,)))
    assert {("vv", "u"), ("u", "r"), ("v", "u")} <= set(work.graph.edges)
    assert str(work["r"].reads[0]) == "w@1"


def test_a_reader_of_a_view_holds_back_an_update_of_the_whole(work: Workload) -> None:
    w = work.state("w", MATRIX)
    v = work.task(operator.getitem, w, 0, name="v")
    work.task(torch.relu, v, name="r")
    _step(work, "u", w)
    assert work["u"].after == ("v", "r")


def test_a_task_that_returns_what_it_updated(work: Workload) -> None:
    """u1 ──▶ r, u1 ──▶ u2; the value is w after u1"""
    w = work.state("w", MATRIX)
    new = _step(work, "u1", w)
    assert (new.root, new.born) == ("w", 1)
    work.task(torch.relu, new, name="r")
    assert work["r"].reads[0].source == "u1"
    _step(work, "u2", new)
    work.task(torch.relu, new, name="late")
    assert work["late"].reads[0].source == "u2"
    assert str(work["late"].reads[0]) == "u1@2"


def test_two_states_in_one_update(work: Workload) -> None:
    w, m = work.state("w", MATRIX), work.state("m", MATRIX)
    work.task(torch.relu, m, name="r")
    work.task(momentum, w, m, name="sgd", updates=[w, m])
    work.task(torch.relu, w, name="after")
    assert work["sgd"].after == ("r",)
    assert edges(work) == {("r", "sgd"): 0, ("sgd", "after"): BYTES}


def test_a_task_that_updates_a_state_and_reads_its_view(work: Workload) -> None:
    w = work.state("w", MATRIX)
    v = work.task(operator.getitem, w, 0, name="v")
    work.task(add_to, w, v, name="u", updates=w)
    assert edges(work) == {("v", "u"): 16}
    _step(work, "u2", v)
    assert str(work["u2"].reads[0]) == "v@1"


def test_a_copy_reads_the_version_of_its_place(work: Workload) -> None:
    """copy0 ──▶ u ──▶ copy1"""
    w = work.state("w", MATRIX)
    work.copy(w, to="cpu", name="copy0")
    _step(work, "u", w)
    work.copy(w, to="cpu", name="copy1")
    assert edges(work) == {("copy0", "u"): 0, ("u", "copy1"): BYTES}
    assert [work[t].reads[0].version for t in ("copy0", "copy1")] == [0, 1]


def test_a_view_of_an_input_or_an_output_shares_its_root(work: Workload) -> None:
    x = work.input("x", MATRIX)
    a = work.task(torch.relu, x, name="a")
    v = work.task(torch.t, a, name="v")
    assert (v.root, work.task(torch.t, x, name="xt").root) == ("a", "x")
    with pytest.raises(SignatureError, match="no state"):
        _step(work, "u", v)


def test_a_barrier_stands_between(work: Workload) -> None:
    """
    a ──▶ b ─┐         ┌─▶ d ──▶ e
             ├▶ stop ──┤
    c ───────┘         └─▶ f
    """
    x = work.input("x", MATRIX)
    a = work.task(torch.relu, x, name="a")
    work.task(torch.relu, a, name="b")
    work.task(torch.relu, x, name="c")
    work.barrier("stop")
    d = work.task(torch.relu, a, name="d")
    work.task(torch.relu, d, name="e")
    work.task(torch.relu, x, name="f")
    assert work["stop"].after == ("b", "c")
    assert {t for t in work.graph if nx.has_path(work.graph, "stop", t)} == {"stop", "d", "e", "f"}
    assert ("stop", "e") not in work.graph.edges
    assert ("a", "d") in work.graph.edges


def test_barriers_first_last_several_and_empty(work: Workload) -> None:
    """first ──▶ second ──▶ a ──▶ third ──▶ last"""
    work.barrier("first")
    work.barrier("second")
    work.task(torch.relu, work.input("x", MATRIX), name="a")
    work.barrier("third")
    work.barrier("last")
    assert list(work.graph.edges) == [("first", "second"), ("second", "a"), ("a", "third"), ("third", "last")]
    assert not any(edges(work).values())


def test_barriers_number_themselves(work: Workload) -> None:
    work.barrier()
    work.barrier()
    assert list(work.graph) == ["barrier0", "barrier1"]


def test_ancestors_first() -> None:
    graph = nx.DiGraph([("a", "b"), ("a", "c")])
    assert ancestors_first(graph, ["a", "c", "b"])
    for wrong in (["b", "a", "c"], ["a", "b"], ["a", "b", "c", "d"], ["a", "a", "b", "c"], ["a", "b", "d"]):
        assert not ancestors_first(graph, wrong)


@st.composite
def programs(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Steps over an input, two states and what was made so far."""
    kinds = st.sampled_from(["read", "update", "view", "copy", "barrier"])
    return [
        (draw(kinds), draw(st.integers(0, 100)), draw(st.integers(0, 100))) for _ in range(draw(st.integers(0, 12)))
    ]


def build(steps: list[tuple[Any, ...]]) -> Workload:
    """The workload of `programs`."""
    work = Workload()
    values: list[Any] = [work.input("x", MATRIX), work.state("w", MATRIX), work.state("m", MATRIX)]
    states = values[1:]
    for i, (kind, p, q) in enumerate(steps):
        a, b, name = values[p % len(values)], values[q % len(values)], f"{kind}{i}"
        if kind == "read":
            values.append(work.task(torch.add, a, b, name=name))
        elif kind == "update":
            w = states[p % len(states)]
            arguments = (w, b) if b is not w else (w, 1.0)
            work.task(add_to, *arguments, name=name, updates=w)
        elif kind == "view":
            values.append(work.task(torch.t, a, name=name))
            if values[-1].root in ("w", "m"):
                states.append(values[-1])
        elif kind == "copy":
            values.append(work.copy(a, to="cpu", name=name))
        else:
            work.barrier(name)
    return work


@given(programs())
def test_node_order_is_topological_and_bytes_are_the_sum_of_values(steps: list[tuple[Any, ...]]) -> None:
    work = build(steps)
    assert ancestors_first(work.graph, list(work.graph))
    for _, _, data in work.graph.edges(data=True):
        assert len(set(data["values"])) == len(data["values"])
        assert data["nbytes"] == sum(work.values[v].nbytes for v in data["values"])


@given(programs())
def test_conflicting_accesses_are_ordered(steps: list[tuple[Any, ...]]) -> None:
    """Of two tasks that touch one storage, one of them changing it, the earlier is an ancestor of the later."""
    work = build(steps)
    reachable = nx.transitive_closure_dag(work.graph)
    tasks = work.tasks
    for i, late in enumerate(tasks):
        for early in tasks[:i]:
            written = [{v.root for v in t.updates} | {v.name for v in t.outputs} for t in (early, late)]
            read = [{n for r in t.reads for n in (r.value.name, r.value.root)} for t in (early, late)]
            touched = [w | r for w, r in zip(written, read, strict=True)]
            if written[0] & touched[1] or written[1] & touched[0]:
                assert reachable.has_edge(early.name, late.name), (early, late)
