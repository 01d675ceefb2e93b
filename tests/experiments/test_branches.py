"""Networks with branches: one function is both plain PyTorch and a workload; ways are compared and summed up."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import networkx as nx
import pytest
import torch

import experiments._ways as ways
import experiments.branches as module
import graphsched as gs
from experiments._cells import HEADS, NETWORKS, Maker, Network, as_module, as_workload
from experiments._side_by_side import Entry, difference
from experiments._ways import plain_results, plain_ways, schedulers_there
from graphsched.errors import ExperimentError
from graphsched.executors import Program
from graphsched.platform import Platform
from graphsched.schedulers import schedule, schedulers
from tests.experiments.small import cases, hand_written


@pytest.mark.parametrize("name", NETWORKS)
def test_a_plan_returns_what_plain_pytorch_returns(name: str) -> None:
    host = hand_written("worker", 1)
    net = NETWORKS[name](2, 16)
    work = as_workload(net, "worker:0")
    (expected,) = plain_results(net, host, "worker:0")
    with Program(schedule(work, host, scheduler="heft", lanes=3)) as program:
        (found,) = program.run().values()
    assert torch.equal(found, expected)
    assert 0.1 < float(expected.std()) < 10


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_are_the_same_every_time_and_stay_on_the_cpu(name: str) -> None:
    first, second = NETWORKS[name](1, 16), NETWORKS[name](1, 16)
    as_workload(first, "cuda:0")
    as_module(second, "cpu")
    assert first.weights.keys() == second.weights.keys()
    assert all(torch.equal(tensor, second.weights[key]) for key, tensor in first.weights.items())


def test_a_weight_may_be_used_twice() -> None:
    def forward(make: Maker, x: Any) -> Any:
        return make.op(torch.mm, make.op(torch.mm, x, make.weight("w", 3, 3)), make.weight("w", 3, 3))

    net = Network(forward, torch.eye(3))
    assert list(as_workload(net, "worker:0").tensors) == ["x", "w"]
    assert torch.equal(as_module(net, "cpu")(net.x), net.weights["w"] @ net.weights["w"])


def test_sizes_are_those_of_the_sources() -> None:
    shapes = {name: as_workload(NETWORKS[name](1, 1), "cuda:0").returned()[0].spec for name in NETWORKS}
    assert {name: spec.shape for name, spec in shapes.items() if spec} == {
        "inception": (1, 64 + 128 + 32 + 32, 28, 28),
        "transformer": (128, 1024),
        "nas": (1, 6 * 44, 28, 28),
    }


def test_branches_are_independent() -> None:
    """Tasks on the longest path, and all."""
    graphs = {name: as_workload(NETWORKS[name](1, 16), "cuda:0").graph for name in NETWORKS}
    found = {name: (nx.dag_longest_path_length(g, default_weight=1) + 1, len(g)) for name, g in graphs.items()}
    assert found == {
        "inception": (5, 6 * 2 + 1 + 1),  # conv, relu, conv, relu, cat
        "transformer": (4 + 2 + 2 + 3 + 2, HEADS * 6 + 9),
        "nas": (2 + 6 + 1 + 1, 2 * 2 + 5 * 6 + 3 + 5 + 1),
    }


def test_cases_are_baselines_and_every_scheduler_there_is() -> None:
    made = cases("branches", hand_written("cuda", 1), networks=("nas",), lanes=4)
    there = [f"{name}, nas, 1 GPU" for name in ("one_stream", "streams") if name in schedulers()]
    there += [f"{name} 4 lanes, nas, 1 GPU" for name in ("round_robin", "wavefront", "heft")]
    assert list(made) == ["plain PyTorch, nas, 1 GPU", "one-stream CUDA graph, nas, 1 GPU", *there]
    few = cases("branches", hand_written("worker", 1, lanes=2), networks=("nas",), lanes=4)
    assert not any("lanes" in label for label in few)


def test_cases_check_their_results() -> None:
    for label, case in cases("branches", hand_written("worker", 1), networks=("inception",), lanes=2).items():
        if case.metrics is not None:
            assert case.metrics() == {"difference": 0.0}, label


def test_baselines_are_made_ready_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[object] = []
    monkeypatch.setattr(ways, "as_module", lambda *given: built.append(given) or as_module(*given))
    made = cases("branches", hand_written("worker", 1), networks=("inception",))
    baseline = made["plain PyTorch, inception, 1 worker"].baseline
    assert baseline is not None
    assert torch.equal(baseline(), baseline())
    assert len(built) == 1


def test_compiled_ways_compile_once_and_forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a compiler: what is compiled is the whole module, for its shapes alone."""
    compiled: list[object] = []
    forgotten: list[str] = []
    monkeypatch.setattr(torch, "compile", lambda made, **options: compiled.append(options) or made)
    dynamo = SimpleNamespace(reset=lambda: forgotten.append("all"), mark_static_address=lambda tensor: None)
    monkeypatch.setitem(vars(torch), "_dynamo", dynamo)  # torch imports it when it is first looked at
    monkeypatch.setattr(torch.compiler, "cudagraph_mark_step_begin", lambda: None)
    net = NETWORKS["inception"](1, 16)
    with ways._compiled(net, "cpu", "reduce-overhead") as running:
        assert running.time_s() > 0
        assert running.time_s() > 0
        assert difference(running.results(), plain_results(net, hand_written("worker", 1), "worker:0")) == 0
        assert not forgotten
    assert compiled == [{"mode": "reduce-overhead", "fullgraph": True, "dynamic": False}]
    assert forgotten == ["all"]


def test_a_captured_way_replays_what_it_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA played: three calls before the capture, one inside it on the same stream with workspaces of the graph's own,
    and replays."""
    log: list[str] = []

    class Graph:
        def replay(self) -> None:
            log.append("replay")

    def played(name: str) -> Any:
        return lambda *given, **named: log.append(name) or nullcontext()

    stream = SimpleNamespace(wait_stream=played("wait"))
    names = {name: played(name) for name in ("stream", "graph", "device", "current_stream")}
    monkeypatch.setattr(ways, "cuda", SimpleNamespace(CUDAGraph=Graph, Stream=lambda _: stream, **names))
    monkeypatch.setattr(ways, "graphs_own", played("workspaces"))
    with ways._captured(NETWORKS["inception"](1, 16), "cpu") as running:
        assert log == ["current_stream", "wait", "device", "stream", "workspaces", "graph"]
        assert running.time_s() > 0
        assert running.results()[0].shape == (1, 16, 4, 4)
    assert log[6:] == ["replay"]


def test_ways_on_a_gpu_include_those_of_pytorch() -> None:
    net = NETWORKS["nas"](1, 16)
    names = [way.name for way in plain_ways(net, hand_written("cuda", 1), "cuda:0")]
    compiled = ["torch.compile, default", "torch.compile, reduce-overhead"]
    assert names == ["plain PyTorch", *compiled, "one-stream CUDA graph"]
    assert schedulers_there(hand_written("cuda", 1, lanes=2), "cuda:0", 4).keys() <= {"one_stream", "streams"}


def test_side_by_side_on_workers(capsys: pytest.CaptureFixture[str]) -> None:
    host = hand_written("worker", 1, lanes=2)
    (data,) = module.bench(host, quick=True, networks=("inception",), lanes=(2, 2), shrink=16)
    assert capsys.readouterr().err == "branches: inception …\n"
    (row,), timed = data["branches"], data["branches_ways"]
    names = [way["way"] for way in timed]
    assert names[0] == "plain PyTorch"
    assert {f"graphsched, eager, {name} 2 lanes" for name in ("round_robin", "wavefront", "heft")} <= set(names)
    assert len(names) == len(set(names))
    assert all(way["note"] == "" and way["rounds"] == module.QUICK_ROUNDS for way in timed)
    assert all(way["q1_s"] <= way["median_s"] <= way["q3_s"] for way in timed)
    assert all((way["predicted_s"] is None) == (way["way"] == "plain PyTorch") for way in timed)
    ours = min(way["median_s"] for way in timed[1:])
    assert row["plan_s"] == ours
    assert row["other_over_plan"] == pytest.approx(timed[0]["median_s"] / ours)
    assert row["one_stream_graph_over_plan"] is None
    assert row["limit_s"] > 0


def test_networks_are_finished_one_after_the_other() -> None:
    host = hand_written("worker", 1, lanes=2)
    first, both = module.bench(host, quick=True, networks=("nas", "inception"), lanes=(2,), shrink=16)
    assert [row["network"] for row in first["branches"]] == ["nas"]
    assert {way["network"] for way in first["branches_ways"]} == {"nas"}
    assert [row["network"] for row in both["branches"]] == ["nas", "inception"]
    assert both["branches_ways"][: len(first["branches_ways"])] == first["branches_ways"]


def test_networks_are_checked_before_the_first_is_measured() -> None:
    with pytest.raises(ExperimentError, match=r"no network 'ns': did you mean 'nas'\? There are inception"):
        module.bench(hand_written("worker", 1), networks=("nas", "ns"))


def test_a_plan_that_cannot_be_made_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers have no graph mode: asked for in the place of eager mode, each plan is refused."""
    host = hand_written("worker", 1, lanes=2)
    work = as_workload(NETWORKS["inception"](1, 16), "worker:0")
    monkeypatch.setattr(gs, "schedule", lambda *a, **k: schedule(*a, **(k | {"mode": "graph"})), raising=False)
    plans, refused = module._plans(work, host, "worker:0", gs.Costs(), (2, 2))
    assert not plans
    assert len(refused) == len(schedulers_there(host, "worker:0", 2))
    assert all(entry.failure.startswith("CaptureError: graph mode needs tasks on GPUs") for entry in refused)


def test_the_summary_sets_the_fastest_beside_each_other() -> None:
    entries = [
        Entry("plain PyTorch", (9.0,)),
        Entry("one-stream CUDA graph", (3.0,)),
        Entry("torch.compile, default", failure="no compiler"),
        Entry("graphsched, graph, heft", (2.0,)),
        Entry("graphsched, graph, one_stream", (4.0,)),
    ]
    row = module._summary("nas", entries, 1.5, 7)
    assert (row["fastest_plan"], row["fastest_other"]) == ("graph, heft", "one-stream CUDA graph")
    assert (row["other_over_plan"], row["one_stream_graph_over_plan"]) == (1.5, 1.5)
    assert (row["limit_s"], row["one_stream_graph_over_limit"], row["goal"]) == (1.5, 2.0, 1.5)
    slow = module._summary("nas", [Entry("plain PyTorch", (1.0,)), Entry("graphsched, eager, heft", (2.0,))], 1.0, 7)
    assert (slow["fastest_plan"], slow["plan_s"], slow["other_over_plan"]) == ("eager, heft", 2.0, 0.5)
    none = module._summary("nas", [Entry("plain PyTorch", failure="broken")], 1.5, 7)
    assert none["fastest_plan"] is none["plan_s"] is none["other_over_plan"] is None


@pytest.mark.gpu
def test_side_by_side_on_a_gpu() -> None:
    """Every way runs, torch.compile where there is a compiler, and equals plain PyTorch."""
    from graphsched.calibration import local_platform

    platform: Platform = local_platform()
    (data,) = module.bench(platform, quick=True, networks=("inception",), lanes=(4,), depth=1)
    notes = {way["way"]: way["note"] for way in data["branches_ways"] if not way["way"].startswith("torch.compile")}
    assert set(notes.values()) == {""}
    assert data["branches"][0]["one_stream_graph_over_plan"] > 0
