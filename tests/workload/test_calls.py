"""Calls of functions as tasks: what they return and change, found or declared, and what is refused."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch

from graphsched.errors import SignatureError
from graphsched.workload import Slot, TensorSpec, Workload
from tests.workload.given import BYTES, MATRIX, edges, nothing


def test_several_outputs(work: Workload) -> None:
    """a makes a.0 and a.1; b reads one of them, c both."""
    x = work.input("x", MATRIX)
    first, second = work.task(lambda x: (x + 1, x.sum()), x, name="a")
    work.task(nothing, second, name="b")
    work.task(nothing, first, second, name="c")
    assert (first.name, second.name, second.nbytes) == ("a.0", "a.1", 4)
    assert edges(work) == {("a", "b"): 4, ("a", "c"): BYTES + 4}
    assert work.graph.edges["a", "c"]["values"] == ("a.0", "a.1")


@pytest.mark.parametrize("outputs", [MATRIX, (4, 4), [MATRIX, None, 3], "ab"])
def test_outputs_that_are_no_list_of_specifications(work: Workload, outputs: Any) -> None:
    with pytest.raises(SignatureError, match=r"task 'a' declares outputs .*a list such as outputs=\[TensorSpec"):
        work.task(nothing, work.input("x", MATRIX), name="a", outputs=outputs)


def test_no_function(work: Workload) -> None:
    function: Any = None
    with pytest.raises(SignatureError, match="task 'a' calls None: give a function over tensors, or declare"):
        work.task(function, work.input("x", MATRIX), name="a")


def test_a_task_that_returns_nothing(work: Workload) -> None:
    assert work.task(nothing, work.input("x", MATRIX), name="a") is None
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


def test_a_graph_of_a_thousand_equal_tasks_is_inferred_once(work: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    from graphsched.workload import calls as made_of

    calls: list[Any] = []
    real = made_of.infer
    monkeypatch.setattr(made_of, "infer", lambda *args: calls.append(args) or real(*args))
    x = work.input("x", MATRIX)
    for _ in range(1000):
        work.task(torch.relu, x)
    assert len(calls) == 1
