"""Arguments as JSON and back: equal, of the same types, and nothing else is taken."""

from __future__ import annotations

import json
import math
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from graphsched.errors import FileFormatError, WorkloadError
from graphsched.executors.arguments import from_json, to_json
from graphsched.workload import Slot

READS = ("a", "b", "c")
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.complex_numbers(allow_nan=False),
    st.sampled_from([Slot(0), Slot(2), Ellipsis, torch.float16, torch.strided, torch.channels_last]),
    st.sampled_from([torch.device("cuda", 1), slice(1, None, 2), slice(None)]),
)
ARGUMENTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(), inner, max_size=3),
    ),
)


def again(thing: Any) -> Any:
    return from_json(json.loads(json.dumps(to_json(thing), allow_nan=False)), READS)


def types(thing: Any) -> Any:
    if isinstance(thing, (list, tuple)):
        return type(thing), [types(item) for item in thing]
    return type(thing)


@given(ARGUMENTS)
def test_an_argument_comes_back_as_it_was(thing: Any) -> None:
    assert again(thing) == thing
    assert types(again(thing)) == types(thing)


def test_what_is_no_number_comes_back() -> None:
    assert math.isnan(again(float("nan")))


def test_sizes_come_back_as_tuples() -> None:
    assert again(torch.Size([2, 3])) == (2, 3)


@pytest.mark.parametrize(
    ("thing", "kind"),
    [(len, "builtin_function_or_method"), ({1: 2}, "dict"), ({"a", "b"}, "set"), (torch.Generator(), "Generator")],
)
def test_what_needs_code_is_refused(thing: Any, kind: str) -> None:
    with pytest.raises(WorkloadError, match=f"of type {kind} cannot be written to a file without code"):
        to_json([thing])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"slot": 3}, "stands for read number 3 of 3"),
        ({"slot": -1}, "stands for read number -1 of 3"),
        ({"slot": True}, "stands for read number True of 3"),
        ({"slot": 0, "tuple": []}, "is no argument of a task"),
        ({"code": "print()"}, "is no argument of a task"),
        ({"dtype": "load"}, "torch.load is no dtype"),
        ({"layout": "float32"}, "torch.float32 is no layout"),
        ({"memory_format": None}, "torch.None is no memory_format"),
        ({"device": "nowhere"}, "'nowhere' is no device"),
        ({"device": []}, r"\[\] is no device"),
        ({"tuple": 1}, "1 is no list"),
    ],
)
def test_what_no_argument_becomes_is_refused(data: Any, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        from_json([data], READS)
