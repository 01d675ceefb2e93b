"""Tasks of our own files refer to what stands above them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from graphsched.errors import FileFormatError
from graphsched.formats.own_json import own_workload
from graphsched.workload import Workload
from tests.schedulers.graphs import workloads

A = {"name": "a", "kind": "run", "outputs": [{"name": "a", "nbytes": 4}], "duration_s": 1.0}
B = {"name": "b", "kind": "run", "reads": [["a", 0, "a"]], "duration_s": 2.0}
W = {"name": "w", "kind": "state", "nbytes": 4}
X = {"name": "x", "kind": "input", "nbytes": 4}


def file(*tasks: Any, given: Any = ()) -> dict[str, Any]:
    """The object of a file."""
    return {"schema": 1, "name": "graph", "given": list(given), "tasks": list(tasks), "kept": []}


@given(workloads())
def test_all_workloads_are_in_order(work: Workload) -> None:
    assert own_workload(work.to_dict()).digest() == work.digest()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (file(B, A), "task 'b' refers to value 'a', which task 'a' makes, and that does not stand above it: put it"),
        (file(B), "task 'b' refers to value 'a', and there is none: add it"),
        (file(A, B | {"reads": [["a", 0, "z"]]}), "task 'b' comes after task 'z', and there is no such task: add it"),
        (file(B | {"reads": [], "after": ["a"]}, A), "task 'b' comes after task 'a', which does not stand above it"),
        (file(A, B | {"updates": ["w"]}), "task 'b' refers to value 'w', and there is none"),
        (file(A, B | {"reads": ["a"]}), r"reads\[0\] of task 'b' is 'a': a value, its version, and a task or null"),
        (file(A, B | {"reads": 3}), "'reads' of task 'b' is 3: a list is needed"),
        (file(A, B | {"after": [3]}), r"after\[0\] of task 'b' is 3: text is needed"),
        (file(A | {"outputs": [{}]}), r"outputs\[0\] of task 'a' lacks 'name'"),
        (file(A, {}), r"tasks\[1\] lacks 'name'"),
        (file(A, given=[{"nbytes": 4}]), r"given\[0\] lacks 'name'"),
        (file(A, B, A), "name 'a' is taken"),
        (file(A, B | {"reads": [["a", 0, None]]}), "'a' in version 0 of what is there .* is version 0 of task 'a'"),
        (
            file(A, B | {"reads": [["w", 1, "a"]]}, given=[W]),
            "reads 'w' in version 1 of task 'a', and by then",
        ),
        (file(A, B | {"reads": [["x", 0, None]], "updates": ["x"]}, given=[X]), "changes 'x', which is no state"),
        (file(A, B | {"updates": ["w"]}, given=[W]), "task 'b' changes 'w' and does not read it"),
        (file(A, B | {"devices": "cuda"}), "'devices' of task 'b' is 'cuda': a list is needed"),
        (file(A, B | {"kind": "copy", "outputs": [{"name": "c", "nbytes": 4}]}), "copy 'b' does not say where to"),
        (file(A, given=[W | {"shape": [2], "dtype": "float32"}]), "value 'w' has 4 bytes, and its elements 8"),
        (file(A) | {"kept": ["z"]}, "'kept' of the file has 'z', and there is no such value"),
    ],
)
def test_what_is_wrong_is_named_with_its_task(data: dict[str, Any], message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        own_workload(data)
