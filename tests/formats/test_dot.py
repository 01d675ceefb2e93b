"""Graphviz text of workloads and plans."""

from __future__ import annotations

import re
import shutil
import subprocess
from itertools import pairwise

import pytest

from graphsched.formats.dot import to_dot
from graphsched.workload import Workload
from tests.timelines import MATRIX, add, handover, plan_of

NAMES = ['a"b', "back\\", "\\N", "<b", "é{}|", "$x_1$", "subgraph", "a--b"]


def unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def test_plan_has_a_cluster_a_lane_and_edges_with_bytes() -> None:
    """a ─▶ a>cuda:1 ─▶ b, c; the thread's wait for b and c is dashed."""
    assert to_dot(handover()).splitlines() == [
        'digraph "handover" {',
        "  rankdir=LR",
        '  node [fontname="Helvetica"]',
        '  edge [fontname="Helvetica"]',
        '  subgraph "cluster_0" {',
        '    label="host/py"',
        '    "end" [label="end" shape=octagon style=filled fillcolor="#eeeeee"]',
        "  }",
        '  subgraph "cluster_1" {',
        '    label="cuda:0/s0"',
        '    "a" [label="a" shape=box style=filled fillcolor="#cfe2f3"]',
        "  }",
        '  subgraph "cluster_2" {',
        '    label="cuda:0>cuda:1"',
        '    "a>cuda:1" [label="a>cuda:1" shape=cds style=filled fillcolor="#fce5cd"]',
        "  }",
        '  subgraph "cluster_3" {',
        '    label="cuda:1/s0"',
        '    "b" [label="b" shape=box style=filled fillcolor="#cfe2f3"]',
        "  }",
        '  subgraph "cluster_4" {',
        '    label="cuda:1/s1"',
        '    "c" [label="c" shape=box style=filled fillcolor="#cfe2f3"]',
        "  }",
        '  "a" -> "a>cuda:1" [label="4 MB"]',
        '  "a>cuda:1" -> "b" [label="4 MB"]',
        '  "a>cuda:1" -> "c" [label="4 MB"]',
        '  "b" -> "end" [style=dashed]',
        '  "c" -> "end" [style=dashed]',
        "}",
    ]


def test_workload_has_its_edges() -> None:
    """a ─▶ b, c, and a barrier that all stand before."""
    text = to_dot(handover().work)
    edges = [line.strip() for line in text.splitlines() if "->" in line]
    assert edges == [
        '"a" -> "b" [label="4 MB" nbytes="4000000"]',
        '"a" -> "c" [label="4 MB" nbytes="4000000"]',
        '"b" -> "end" [style=dashed]',
        '"c" -> "end" [style=dashed]',
    ]
    assert "cluster" not in text


def test_order_of_a_lane_is_dotted() -> None:
    """Two independent tasks on one lane."""
    work = Workload()
    for name in "ab":
        add(work, name, work.input(f"x{name}", MATRIX, device="cuda:0"))
    text = to_dot(plan_of(work, dict.fromkeys("ab", "cuda:0/s0")))
    assert '"a" -> "b" [style=dotted arrowhead=none]' in text


def test_any_name_is_quoted() -> None:
    """A chain of tasks with names that mean something to Graphviz."""
    work = Workload('graph "0"\\')
    y = work.input("x", MATRIX)
    for name in NAMES:
        y = add(work, name, y)  # type: ignore[assignment]
    lines = to_dot(work).splitlines()
    string = r'"((?:[^"\\]|\\.)*)"'
    head = re.fullmatch(rf"digraph {string} \{{", lines[0])
    assert head is not None
    assert unquoted(head[1]) == work.name
    nodes = [re.fullmatch(rf"  {string} \[label={string} shape=.*\]", line) for line in lines[4 : 4 + len(NAMES)]]
    assert [(unquoted(m[1]), unquoted(m[2])) for m in nodes if m] == [(name, name) for name in NAMES]
    edge = rf'  {string} -> {string} \[label="4 MB" nbytes="4000000"\]'
    edges = [re.fullmatch(edge, line) for line in lines[4 + len(NAMES) : -1]]
    pairs = list(pairwise(NAMES))
    assert [(unquoted(m[1]), unquoted(m[2])) for m in edges if m] == pairs


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_reads_it() -> None:
    done = subprocess.run(["dot", "-Tplain"], input=to_dot(handover()), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
