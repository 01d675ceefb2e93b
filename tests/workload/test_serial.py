"""Workloads in and out of JSON."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import given

from graphsched.errors import FileFormatError
from graphsched.workload import TensorSpec, Workload
from tests.workload.test_ordering import build, programs

MATRIX = TensorSpec((4, 4))


def full() -> Workload:
    """
    x ─▶ a ─▶ copy     w ─▶ r ─▶ u (updates w) ─▶ v (a view) │ stop │ last
    """
    work = Workload("full")
    x = work.input("x", torch.ones(4, 4).t(), device="cuda:0")
    w = work.state("w", TensorSpec((4, 4), "float16"), device="cuda:1")
    a = work.task(torch.mm, x, x, name="a", device=["cuda:0", "cpu"])
    work.copy(a, to="cpu", pinned=True, name="copy")
    work.task(torch.relu, w, name="r", duration_s={"cuda": 1.0, "cpu": 2})
    work.task(torch.Tensor.mul_, w, 2, name="u", updates=w, duration_s=0.5)
    work.task(torch.t, w, name="v")
    work.task(lambda x: (x + 1, x + 2), x, name="two")
    work.barrier("stop")
    work.task(torch.relu, a, name="last")
    work.keep(a)
    return work


def assert_same(one: Workload, other: Workload) -> None:
    assert one.digest() == other.digest()
    assert one.to_dict() == other.to_dict()
    assert list(one.graph) == list(other.graph)
    assert {(u, v): d for u, v, d in one.graph.edges(data=True)} == {
        (u, v): d for u, v, d in other.graph.edges(data=True)
    }
    assert [v.name for v in one.returned()] == [v.name for v in other.returned()]


def test_json_round_trip() -> None:
    work = full()
    again = Workload.from_dict(json.loads(json.dumps(work.to_dict())))
    assert_same(work, again)
    assert not again.runnable
    assert again["a"].operation is not None
    assert again["a"].operation.flops == 2 * 4**3
    assert str(again.values["x"].spec) == "float32[4,4]@(1,4)"
    assert again["r"].duration_s == {"cuda": 1.0, "cpu": 2.0}
    assert again["copy"].memory == "pinned"


def test_what_is_read_can_be_built_upon() -> None:
    work = full()
    again = Workload.from_dict(work.to_dict())
    for grown in (work, again):
        grown.task(torch.Tensor.mul_, grown.values["v"], 2, name="u2", updates=grown.values["v"])
        grown.barrier("stop2")
        grown.task(torch.relu, grown.values["a"], name="later")
    assert_same(work, again)


@given(programs())
def test_any_workload_round_trips(steps: list[tuple[Any, ...]]) -> None:
    work = build(steps)
    assert_same(work, Workload.from_dict(json.loads(json.dumps(work.to_dict()))))


def test_a_bare_graph_round_trips() -> None:
    graph = nx.gn_graph(30, seed=1).reverse()
    nx.set_node_attributes(graph, 1.0, "duration_s")
    nx.set_edge_attributes(graph, 8, "nbytes")
    work = Workload.from_graph(graph)
    assert_same(work, Workload.from_dict(json.loads(json.dumps(work.to_dict()))))


def test_the_digest_is_of_the_graph_and_not_of_the_tensors() -> None:
    def work(tensor: torch.Tensor, k: float = 1.0, name: str = "a", **more: Any) -> str:
        made = Workload()
        made.task(torch.add, made.input("x", tensor), k, name=name, **more)
        return made.digest()

    base = work(torch.zeros(4, 4))
    assert base == work(torch.ones(4, 4))
    others = [
        work(torch.zeros(4, 5)),
        work(torch.zeros(4, 4, dtype=torch.float64)),
        work(torch.zeros(4, 4).t()),
        work(torch.zeros(4, 4), 2.0),
        work(torch.zeros(4, 4), name="b"),
        work(torch.zeros(4, 4), device="cpu"),
        work(torch.zeros(4, 4), duration_s=1.0),
    ]
    assert len({base, *others}) == 1 + len(others)


def test_other_processes_find_the_same_digest() -> None:
    code = "from tests.workload.test_serial import full; print(full().digest())"
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("0", "7")
    }
    assert digests == {full().digest()}


def _break(change: Any) -> Any:
    data = copy.deepcopy(full().to_dict())
    change(data)
    return data


def _copy(data: Any) -> Any:
    return next(task for task in data["tasks"] if task["kind"] == "copy")


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        "workload",
        _break(lambda d: d.pop("tasks")),
        _break(lambda d: d.pop("given")),
        _break(lambda d: d["tasks"].pop(0)),
        _break(lambda d: d["tasks"].reverse()),
        _break(lambda d: d["tasks"].append(d["tasks"][0])),
        _break(lambda d: d["given"].append(d["given"][0])),
        _break(lambda d: d["tasks"][0].pop("name")),
        _break(lambda d: d["tasks"][0].update(name="x")),
        _break(lambda d: d["tasks"][0].update(name="a b")),
        _break(lambda d: d["tasks"][0].update(reads=[["x"]])),
        _break(lambda d: d["tasks"][1].update(reads=[["nowhere", 0, None]])),
        _break(lambda d: d["tasks"][1].update(reads=[["a", 0, "nowhere"]])),
        _break(lambda d: d["tasks"][1].update(reads=[["a", 0, 0]])),
        _break(lambda d: d["tasks"][0].update(kind="running")),
        _break(lambda d: d["tasks"][0].update(memory="paged")),
        _break(lambda d: d["given"][0].update(kind="output")),
        _break(lambda d: d["tasks"][0].update(after=["nowhere"])),
        _break(lambda d: d["tasks"][0].update(outputs=[{"name": "a"}])),
        _break(lambda d: d["given"][0].update(dtype="float33")),
        _break(lambda d: d["given"][0].update(nbytes="many")),
        _break(lambda d: d["given"][0].update(nbytes=-1)),
        _break(lambda d: d["given"][0].update(nbytes=float("inf"))),
        _break(lambda d: d["given"][0].update(nbytes=float("nan"))),
        _break(lambda d: d["given"][0].update(nbytes=0.5)),
        _break(lambda d: d["given"][0].update(nbytes=True)),
        _break(lambda d: d["given"][0].update(nbytes=10**19)),
        _break(lambda d: d["given"][0].update(shape=[2**40, 2**40])),
        _break(lambda d: d["given"][0].update(shape=[0.5])),
        _break(lambda d: d["tasks"][1]["reads"][0].__setitem__(1, -1)),
        _break(lambda d: d["tasks"][1]["reads"][0].__setitem__(1, 0.5)),
        _break(lambda d: d["given"][0].update(device=["cpu"])),
        _break(lambda d: d["tasks"][0].update(signature=None)),
        _break(lambda d: d["tasks"][0].update(devices=[["cpu"]])),
        _break(lambda d: d["tasks"][3].update(updates=["nowhere"])),
        _break(lambda d: _copy(d).pop("reads")),
        _break(lambda d: _copy(d).update(outputs=[])),
    ],
)
def test_data_that_is_no_workload(data: Any) -> None:
    with pytest.raises(FileFormatError, match="not a workload"):
        Workload.from_dict(data)


def test_an_entry_that_is_missing_is_named() -> None:
    data = Workload("w").to_dict()
    del data["kept"]
    with pytest.raises(FileFormatError, match="not a workload: an entry has no 'kept'"):
        Workload.from_dict(data)
