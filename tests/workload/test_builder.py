"""Tasks, the edges between them, and what is refused."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

from graphsched.errors import DuplicateNameError, FileFormatError, ForeignValueError, WorkloadError
from graphsched.workload import Slot, Workload
from tests.workload.given import BYTES, MATRIX, edges, nothing


@pytest.mark.parametrize("name", [3, None, ["a"]])
def test_a_workloads_name_is_text(name: Any) -> None:
    """Given, or in a file: what writes it elsewhere takes it for one."""
    with pytest.raises(WorkloadError, match=r"a workload is called .*: text is needed"):
        Workload(name)
    with pytest.raises(FileFormatError, match=r"a workload is called .*: text is needed"):
        Workload.from_dict(Workload().to_dict() | {"name": name})


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


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("kind", ["input", "state"])
def test_what_is_no_dense_tensor(work: Workload, kind: str) -> None:
    x = torch.ones(3)
    nested = torch.nested.nested_tensor([x, x])
    for tensor, words in ((x.to_sparse(), "sparse_coo"), (x.to_mkldnn(), "mkldnn"), (nested, "nested")):
        with pytest.raises(WorkloadError, match=rf"{kind} 'x' must be dense, got a {words} tensor: call .to_"):
            getattr(work, kind)("x", tensor)
    assert not work.values
    assert not work.tensors


@pytest.mark.parametrize("device", [0, torch.device("cuda:0"), [torch.device("cpu")]])
def test_devices_are_names(work: Workload, device: Any) -> None:
    """Else the plan would look for a device that no platform has, or none could be made."""
    x = work.input("x", MATRIX)
    first = device[0] if isinstance(device, list) else device
    for make in (
        lambda: work.input("y", MATRIX, device=first),
        lambda: work.state("w", MATRIX, device=first),
        lambda: work.copy(x, to=first),
        lambda: work.task(nothing, x, device=device),
    ):
        with pytest.raises(WorkloadError, match=r"device .* a name such as 'cuda:0' or 'cpu' is needed"):
            make()
    assert list(work.values) == ["x"]
    assert not work.tensors
    assert not len(work)


@pytest.mark.parametrize("again", ["input", "state"])
def test_a_name_is_taken_once(work: Workload, again: str) -> None:
    work.input("x", MATRIX)
    with pytest.raises(DuplicateNameError, match="name 'x' is taken"):
        getattr(work, again)("x", MATRIX)
    with pytest.raises(DuplicateNameError, match="name 'x' is taken"):
        work.task(nothing, name="x")


@pytest.mark.parametrize("name", ["", "a b", "a@1", "a>b", "a,b", "a\n"])
def test_names_that_plans_reserve(work: Workload, name: str) -> None:
    x = work.input("x", MATRIX)
    for make in (lambda: work.input(name, MATRIX), lambda: work.state(name, MATRIX)):
        with pytest.raises(DuplicateNameError):
            make()
    if name:  # an empty one asks for a number
        for make in (lambda: work.task(nothing, x, name=name), lambda: work.copy(x, to="cpu", name=name)):
            with pytest.raises(DuplicateNameError):
                make()
    assert list(work.graph) == []


# -- data edges -----------------------------------------------------------------------------


def test_a_chain(work: Workload) -> None:
    """x ─▶ a ─▶ b"""
    x = work.input("x", MATRIX)
    a = work.task(torch.relu, x, name="a")
    b = work.task(torch.relu, a, name="b")
    assert edges(work) == {("a", "b"): BYTES}
    assert work.graph.edges["a", "b"]["values"] == ("a",)
    assert work["b"].reads[0].source == "a"
    assert (work["a"].reads[0].source, b.producer) == (None, "b")
    assert [t.name for t in work.tasks] == ["a", "b"]


def test_a_value_that_is_read_twice_is_one_read_and_counted_once(work: Workload) -> None:
    """a ═▶ b"""
    a = work.task(torch.relu, work.input("x", MATRIX), name="a")
    work.task(torch.mm, a, a, name="b")
    assert edges(work) == {("a", "b"): BYTES}
    assert work["b"].operation is not None
    assert work["b"].operation.args == (Slot(0), Slot(0))
    assert len(work["b"].reads) == 1


def test_numbered_names_skip_those_that_are_taken(work: Workload) -> None:
    x = work.input("mm0", MATRIX)
    names = [work.task(torch.mm, x, x).name for _ in range(2)]
    assert names == ["mm1", "mm2"]
    assert work.task(lambda x: x + 1, x).name == "lambda2"
    assert work.copy(x, to="cpu").name == "copy3"


def test_a_copy_after_one_value_or_several(work: Workload) -> None:
    """y ─▶ c, y ─▶ d: x is copied after y is made."""
    x = work.input("x", MATRIX)
    y = work.task(torch.relu, x, name="y")
    for name, after in (("c", y), ("d", [y])):
        work.copy(x, to="cuda:0", after=after, name=name)
        assert work[name].after == ("y",)


# -- what is refused ------------------------------------------------------------------------


def _other() -> Any:
    return Workload("other").input("x", MATRIX)


@pytest.mark.parametrize(
    "use",
    [
        lambda work, x: work.task(torch.relu, x),
        lambda work, x: work.task(torch.cat, [x]),
        lambda work, x: work.task(nothing, {"k": [(x,)]}),
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


# -- what is returned, and the graph --------------------------------------------------------------


def test_returned_are_unread_and_kept_values(work: Workload) -> None:
    x = work.input("x", MATRIX)
    a = work.task(torch.relu, x, name="a")
    b = work.task(torch.relu, a, name="b")
    work.task(nothing, b, name="sink")
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
