"""Names of other programs' tasks as plans can bear them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graphsched.formats.plain_names import plain_names
from graphsched.workload import check_name
from tests.formats.plain import NAMES


@given(st.lists(NAMES, unique=True))
def test_names_differ_and_may_name_tasks(nodes: list[object]) -> None:
    names = plain_names(nodes)
    assert list(names) == nodes
    assert len(set(names.values())) == len(nodes)
    assert all(check_name(name) == name for name in names.values())


@given(st.lists(st.text("abc", min_size=1), unique=True))
def test_plain_names_stay(nodes: list[str]) -> None:
    assert plain_names(nodes) == {node: node for node in nodes}
    assert plain_names(["a b", "a_b", "a_b_2"]) == {"a b": "a_b", "a_b": "a_b_3", "a_b_2": "a_b_2"}


def test_no_name_is_that_of_a_value_of_another_task() -> None:
    """A task ``a`` of several outputs makes values ``a.0``, ``a.1``."""
    assert plain_names(["a", "a.0", "b.0", "a_0"]) == {"a": "a", "a.0": "a_0", "b.0": "b.0", "a_0": "a_0_2"}


def test_many_alike_names_are_numbered_quickly() -> None:
    names = plain_names([f"a{' ' * k}" for k in range(1, 3000)])
    assert len(set(names.values())) == 2999
