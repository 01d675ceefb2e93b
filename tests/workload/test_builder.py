"""Tasks, the edges between them, and what is refused."""

from __future__ import annotations

import operator
from collections import namedtuple
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphsched.errors import DuplicateNameError, ForeignValueError, SignatureError, WorkloadError
from graphsched.workload import Slot, TensorSpec, Workload, ancestors_first

MATRIX = TensorSpec((4, 4))  # 64 bytes
BYTES = 64


def _nothing(*values: Any) -> None:
    """Reads, makes nothing."""


def _momentum(w: torch.Tensor, m: torch.Tensor) -> None:
    w.sub_(m.mul_(0.9))


def _add_to(w: torch.Tensor, b: torch.Tensor | float) -> None:
    w.add_(b)


def _edges(work: Workload) -> dict[tuple[str, str], int]:
    return {(u, v): nbytes for u, v, nbytes in work.graph.edges(data="nbytes")}


@pytest.fixture
def work() -> Workload:
    return Workload()


# -- values given ---------------------------------------------------------------------------


def test_inputs_and_states(work: Workload) -> None:
    tensor = torch.ones(4, 4)
    x = work.input("x", tensor)
    w = work.state("w", MATRIX)
    g = work.input("g", MATRIX, device="cuda:0")
    assert (x.kind, x.device, x.nbytes, x.spec) == ("input", "cpu", BYTES, MATRIX)
    assert (w.kind, w.device, g.device) == ("state", None, "cuda:0")
    assert work.tensors == {"x": tensor}
    assert len(work) == 0


@pytest.mark.parametrize("thing", [3.0, [1.0], "x", None, np.ones(3)])
def test_what_is_no_tensor(work: Workload, thing: Any) -> None:
    with pytest.raises(WorkloadError, match=r"input 'x' must be a tensor or a TensorSpec, got "):
        work.input("x", thing)
    assert not work.values


@pytest.mark.parametrize("again", ["input", "state"])
def test_a_name_is_taken_once(work: Workload, again: str) -> None:
    work.input("x", MATRIX)
    with pytest.raises(DuplicateNameError, match="name 'x' is taken"):
        getattr(work, again)("x", MATRIX)
    with pytest.raises(DuplicateNameError, match="name 'x' is taken"):
        work.task(_nothing, name="x")


@pytest.mark.parametrize("name", ["", "a b", "a@1", "a>b", "a,b", "a\n"])
def test_names_that_plans_reserve(work: Workload, name: str) -> None:
    x = work.input("x", MATRIX)
    for make in (lambda: work.input(name, MATRIX), lambda: work.state(name, MATRIX)):
        with pytest.raises(DuplicateNameError):
            make()
    if name:  # an empty one asks for a number
        for make in (lambda: work.task(_nothing, x, name=name), lambda: work.copy(x, to="cpu", name=name)):
            with pytest.raises(DuplicateNameError):
                make()
    assert list(work.graph) == []


# -- data edges -----------------------------------------------------------------------------


def test_a_chain(work: Workload) -> None:
    """x ─▶ a ─▶ b"""
    x = work.input("x", MATRIX)
    a = work.task(torch.relu, x, name="a")
    b = work.task(torch.relu, a, name="b")
    assert _edges(work) == {("a", "b"): BYTES}
    assert work.graph.edges["a", "b"]["values"] == ("a",)
    assert work["b"].reads[0].source == "a"
    assert (work["a"].reads[0].source, b.producer) == (None, "b")
    assert [t.name for t in work.tasks] == ["a", "b"]


def test_a_value_that_is_read_twice_is_one_read_and_counted_once(work: Workload) -> None:
    """a ═▶ b"""
    a = work.task(torch.relu, work.input("x", MATRIX), name="a")
    work.task(torch.mm, a, a, name="b")
    assert _edges(work) == {("a", "b"): BYTES}
    assert work["b"].operation is not None
    assert work["b"].operation.args == (Slot(0), Slot(0))
    assert len(work["b"].reads) == 1


def test_several_outputs(work: Workload) -> None:
    """a makes a.0 and a.1; b reads one of them, c both."""
    x = work.input("x", MATRIX)
    first, second = work.task(lambda x: (x + 1, x.sum()), x, name="a")
    work.task(_nothing, second, name="b")
    work.task(_nothing, first, second, name="c")
    assert (first.name, second.name, second.nbytes) == ("a.0", "a.1", 4)
    assert _edges(work) == {("a", "b"): 4, ("a", "c"): BYTES + 4}
    assert work.graph.edges["a", "c"]["values"] == ("a.0", "a.1")


def test_a_task_that_returns_nothing(work: Workload) -> None:
    assert work.task(_nothing, work.input("x", MATRIX), name="a") is None
    assert work["a"].outputs == ()


def test_a_list_of_one_is_one_value(work: Workload) -> None:
    value = work.task(lambda x: [x + 1], work.input("x", MATRIX), name="a")
    assert value.name == "a"


def test_values_in_lists_keywords_and_named_tuples(work: Workload) -> None:
    pair = namedtuple("pair", "left right")
    a, b, c = (work.input(n, MATRIX) for n in "abc")
    joined = work.task(torch.cat, [a, b], dim=1, name="cat")
    assert joined.spec == TensorSpec((4, 8))
    summed = work.task(lambda p, *, scale: p.left + p.right * scale["by"], pair(a, b), scale={"by": c}, name="sum")
    assert summed.spec == MATRIX
    assert [r.value.name for r in work["sum"].reads] == ["a", "b", "c"]
    assert work["sum"].operation is not None
    assert work["sum"].operation.args == (pair(Slot(0), Slot(1)),)
    assert work["sum"].operation.kwargs == {"scale": {"by": Slot(2)}}


@pytest.mark.parametrize("length", [1, 3])
def test_constants_make_different_shapes(work: Workload, length: int) -> None:
    x = work.input("x", MATRIX)
    for number in (np.int64(1), np.int64(3)):
        value = work.task(torch.narrow, x, 0, np.int64(0), number)
        assert value.spec == TensorSpec((int(number), 4))


def test_objects_as_constants_make_different_shapes(work: Workload) -> None:
    class Rows:
        def __init__(self, n: int) -> None:
            self.n = n

    x = work.input("x", MATRIX)
    shapes = [work.task(lambda x, rows: x[: rows.n], x, Rows(n)).spec.shape for n in (1, 2)]
    assert shapes == [(1, 4), (2, 4)]


def test_callables_that_cannot_be_hashed(work: Workload) -> None:
    class Double:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    assert work.task(Double(), work.input("x", MATRIX), name="a").spec == MATRIX


def test_numbered_names_skip_those_that_are_taken(work: Workload) -> None:
    x = work.input("mm0", MATRIX)
    names = [work.task(torch.mm, x, x).name for _ in range(2)]
    assert names == ["mm1", "mm2"]
    assert work.task(lambda x: x + 1, x).name == "lambda2"
    assert work.copy(x, to="cpu").name == "copy3"


# -- what is refused ------------------------------------------------------------------------


def _other() -> Any:
    return Workload("other").input("x", MATRIX)


@pytest.mark.parametrize(
    "use",
    [
        lambda work, x: work.task(torch.relu, x),
        lambda work, x: work.task(torch.cat, [x]),
        lambda work, x: work.task(_nothing, {"k": [(x,)]}),
        lambda work, x: work.task(lambda x=None: None, x=x),
        lambda work, x: work.copy(x, to="cpu"),
        lambda work, x: work.copy(work.values["x"], to="cpu", after=[x]),
        lambda work, x: work.keep(x),
        lambda work, x: work.task(torch.Tensor.add_, work.values["x"], 1, updates=x),
    ],
)
def test_values_of_another_workload(work: Workload, use: Any) -> None:
    work.state("x", MATRIX)  # of the same name
    with pytest.raises(ForeignValueError, match="value 'x' belongs to another workload"):
        use(work, _other())
    assert (len(work), work.kept) == (0, set())


@pytest.mark.parametrize(
    "use",
    [
        lambda work: work.copy(torch.ones(2), to="cpu"),
        lambda work: work.keep("x"),
        lambda work: work.task(torch.Tensor.add_, work.values["x"], 1, updates="x"),
        lambda work: work.task(torch.add, work.values["x"], torch.ones(4, 4)),
    ],
)
def test_what_is_no_value(work: Workload, use: Any) -> None:
    work.state("x", MATRIX)
    with pytest.raises(WorkloadError, match=r"work\.input"):
        use(work)
    assert len(work) == 0


def test_a_count_of_outputs_that_is_wrong(work: Workload) -> None:
    x = work.input("x", MATRIX)
    with pytest.raises(SignatureError, match="task 'a' declares 2 outputs, its function returns 1"):
        work.task(torch.relu, x, name="a", outputs=2)
    assert work.task(torch.relu, x, name="a", outputs=1).spec == MATRIX


def test_a_function_that_fails_says_on_what(work: Workload) -> None:
    x = work.input("x", TensorSpec((2, 3)))
    with pytest.raises(SignatureError, match=r"task 'a': torch.mm failed on tensors of shapes float32\[2,3\]"):
        work.task(torch.mm, x, x, name="a")
    assert len(work) == 0


def test_a_function_that_returns_a_number(work: Workload) -> None:
    with pytest.raises(SignatureError, match=r"task 'a': .*returned a int, a task returns tensors only$"):
        work.task(lambda x: 3, work.input("x", MATRIX), name="a")


def test_a_function_that_needs_data_declares_what_it_returns(work: Workload) -> None:
    x = work.input("x", MATRIX)
    with pytest.raises(SignatureError, match=r"declare outputs=\[TensorSpec"):
        work.task(lambda x: x[: int(x.sum())], x, name="a")
    y = work.task(lambda x: x[: int(x.sum())], x, name="a", outputs=[TensorSpec((2, 4))])
    assert (y.spec, y.nbytes) == (TensorSpec((2, 4)), 32)


def test_an_undeclared_change_in_place(work: Workload) -> None:
    w, x = work.state("w", MATRIX), work.input("x", MATRIX)
    with pytest.raises(SignatureError, match="task 'a' changes its argument 'w' in place: declare updates=w"):
        work.task(torch.Tensor.add_, w, x, name="a")
    with pytest.raises(SignatureError, match="changes its argument 'x' in place"):
        work.task(lambda w, x: (w.add_(1), x.add_(1)), w, x, name="a", updates=w)
    assert len(work) == 0


def test_only_states_that_are_read_can_be_updated(work: Workload) -> None:
    w, x = work.state("w", MATRIX), work.input("x", MATRIX)
    with pytest.raises(SignatureError, match="updates 'x', which is no state"):
        work.task(torch.Tensor.add_, x, 1, updates=x)
    with pytest.raises(SignatureError, match="updates 'w', which is not among its arguments"):
        work.task(torch.relu, x, updates=w)


def test_an_output_name_that_is_taken_leaves_nothing_behind(work: Workload) -> None:
    x = work.input("a.1", MATRIX)
    with pytest.raises(DuplicateNameError, match=r"name 'a.1' is taken"):
        work.task(lambda x: (x + 1, x + 2), x, name="a")
    assert list(work.graph) == []
    assert list(work.values) == ["a.1"]


def test_a_copy_is_pinned_or_fresh(work: Workload) -> None:
    x = work.input("x", MATRIX)
    with pytest.raises(WorkloadError, match="not both"):
        work.copy(x, to="cpu", pinned=True, fresh=True)


def test_a_copy_may_come_after_other_values(work: Workload) -> None:
    """
    x ─▶ a ─▶ c, after b: an edge without bytes; what is given, and the task whose value it copies, add none
    └──▶ b ──▶┘
    """
    x = work.input("x", MATRIX)
    a, b = (work.task(torch.relu, x, name=name) for name in "ab")
    work.copy(a, to="cpu", after=[b, b, x, a], name="c")
    assert work["c"].after == ("b",)
    assert dict(work.graph["b"]["c"]) == {"values": (), "nbytes": 0}
    assert work.graph["a"]["c"]["nbytes"] == a.nbytes
    assert Workload.from_dict(work.to_dict()).digest() == work.digest()


# -- states -----------------------------------------------------------------------------------


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
    assert _edges(work) == {("r0", "u1"): 0, ("u1", "r1"): BYTES, ("r1", "u2"): 0, ("u1", "u2"): BYTES}
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
    assert _edges(work) == {("view", "u1"): 0, ("u1", "r"): 16}


def test_a_view_that_is_made_after_an_update_is_read_from_its_maker(work: Workload) -> None:
    """u ──▶ view ──▶ r"""
    w = work.state("w", MATRIX)
    _step(work, "u", w)
    v = work.task(operator.getitem, w, 0, name="view")
    work.task(torch.relu, v, name="r")
    assert _edges(work) == {("u", "view"): BYTES, ("view", "r"): 16}
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
    work.task(_momentum, w, m, name="sgd", updates=[w, m])
    work.task(torch.relu, w, name="after")
    assert work["sgd"].after == ("r",)
    assert _edges(work) == {("r", "sgd"): 0, ("sgd", "after"): BYTES}


def test_a_task_that_updates_a_state_and_reads_its_view(work: Workload) -> None:
    w = work.state("w", MATRIX)
    v = work.task(operator.getitem, w, 0, name="v")
    work.task(_add_to, w, v, name="u", updates=w)
    assert _edges(work) == {("v", "u"): 16}
    _step(work, "u2", v)
    assert str(work["u2"].reads[0]) == "v@1"


def test_a_copy_reads_the_version_of_its_place(work: Workload) -> None:
    """copy0 ──▶ u ──▶ copy1"""
    w = work.state("w", MATRIX)
    work.copy(w, to="cpu", name="copy0")
    _step(work, "u", w)
    work.copy(w, to="cpu", name="copy1")
    assert _edges(work) == {("copy0", "u"): 0, ("u", "copy1"): BYTES}
    assert [work[t].reads[0].version for t in ("copy0", "copy1")] == [0, 1]


def test_a_view_of_an_input_or_an_output_shares_its_root(work: Workload) -> None:
    x = work.input("x", MATRIX)
    a = work.task(torch.relu, x, name="a")
    v = work.task(torch.t, a, name="v")
    assert (v.root, work.task(torch.t, x, name="xt").root) == ("a", "x")
    with pytest.raises(SignatureError, match="no state"):
        _step(work, "u", v)


# -- barriers -----------------------------------------------------------------------------------


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
    assert not any(_edges(work).values())


def test_barriers_number_themselves(work: Workload) -> None:
    work.barrier()
    work.barrier()
    assert list(work.graph) == ["barrier0", "barrier1"]


# -- what is returned, and the graph --------------------------------------------------------------


def test_returned_are_unread_and_kept_values(work: Workload) -> None:
    x = work.input("x", MATRIX)
    a = work.task(torch.relu, x, name="a")
    b = work.task(torch.relu, a, name="b")
    work.task(_nothing, b, name="sink")
    c = work.copy(a, to="cpu", name="c")
    assert work.returned() == [c]
    work.keep(a)
    assert work.returned() == [a, c]


def test_runnable(work: Workload) -> None:
    work.task(torch.relu, work.input("x", MATRIX))
    work.barrier()
    assert work.runnable
    bare = Workload.from_graph(_durations(nx.DiGraph([("a", "b")])))
    assert not bare.runnable


def _durations(graph: nx.DiGraph) -> nx.DiGraph:
    nx.set_node_attributes(graph, 1.0, "duration_s")
    return graph


def test_ancestors_first() -> None:
    graph = nx.DiGraph([("a", "b"), ("a", "c")])
    assert ancestors_first(graph, ["a", "c", "b"])
    for wrong in (["b", "a", "c"], ["a", "b"], ["a", "b", "c", "d"], ["a", "a", "b", "c"], ["a", "b", "d"]):
        assert not ancestors_first(graph, wrong)


def test_a_graph_of_a_thousand_equal_tasks_is_inferred_once(work: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    from graphsched.workload import builder

    calls: list[Any] = []
    real = builder.infer
    monkeypatch.setattr(builder, "infer", lambda *args: calls.append(args) or real(*args))
    x = work.input("x", MATRIX)
    for _ in range(1000):
        work.task(torch.relu, x)
    assert len(calls) == 1


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
            work.task(_add_to, *arguments, name=name, updates=w)
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


@pytest.mark.parametrize("make", ["task", "copy", "barrier"])
def test_an_empty_name_is_refused_everywhere(make: str) -> None:
    work = Workload()
    x = work.input("x", torch.rand(2, 2))
    calls = {
        "task": lambda: work.task(torch.mm, x, x, name=""),
        "copy": lambda: work.copy(x, to="cpu", name=""),
        "barrier": lambda: work.barrier(name=""),
    }
    with pytest.raises(DuplicateNameError, match="non-empty"):
        calls[make]()
    assert len(work) == 0
