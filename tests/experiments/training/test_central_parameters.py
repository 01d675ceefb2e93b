"""The graph of d2l.ai fig. 12.3.1, and its numbers: those of plain PyTorch on the whole minibatch."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphsched as gs
from experiments.training.central_parameters import central_parameters
from graphsched.charts.graph_layout import graph_of, within_a_step
from graphsched.errors import WorkloadError
from models.mlp import two_layer_mlp
from tests.executors.programs import machine

HERE = machine("worker:0", "worker:1", "worker:2")


def traced(
    rows: int = 8, grain: str = "operator", momentum: float = 0.0, net: nn.Module | None = None
) -> tuple[gs.Workload, nn.Module, torch.optim.SGD]:
    torch.manual_seed(7)
    net = (net or two_layer_mlp(4, 5, 3)).double()
    sgd = torch.optim.SGD(net.parameters(), lr=0.3, momentum=momentum)
    x, y = torch.rand(rows, 4, dtype=torch.float64), torch.randint(0, 3, (rows,))
    return gs.trace(net, x, target=y, loss=F.cross_entropy, optimizer=sgd, grain=grain), net, sgd


def on(work: gs.Workload, devices: int, scheduler: str = "one_stream") -> gs.Plan:
    whole = central_parameters(work, [f"worker:{i}" for i in range(devices)])
    return gs.schedule(whole, HERE, scheduler=scheduler)


def test_the_dependencies_are_those_of_the_figure() -> None:
    """Of each device i, over which parameters and gradients go to and fro::

    1 ─ 2 ─ output ─ loss ─ loss' ─ 3' ─ 2' ─ 1'        (' is backward)
                                    │          ╰─ sum/1.weight, sum/1.bias ─ update/1
                                    ╰─ sum/3.weight, sum/3.bias ─ update/3
    """
    plan = on(traced(grain="module")[0], 2)
    loss = "log_softmax+nll_loss_forward"
    back = "network.backward/nll_loss_backward+log_softmax_backward_data"
    edges = set()
    for i in (0, 1):
        chain = [("1", "2"), ("2", "output"), ("output", loss), (loss, back), (back, "3.backward")]
        chain += [("2", "3.backward"), ("2", "2.backward"), ("3.backward", "2.backward"), ("2.backward", "1.backward")]
        edges |= {(f"{i}/{a}", f"{i}/{b}") for a, b in chain}
        edges |= {(f"{i}/{k}.backward", f"sum/{k}.{which}") for k in (1, 3) for which in ("weight", "bias")}
    edges |= {(f"sum/{k}.{which}", f"update/{k}") for k in (1, 3) for which in ("weight", "bias")}
    data = {(a, b) for a, b, nbytes in plan.work.graph.edges(data="nbytes") if nbytes}
    assert data == edges
    order = {(a, b) for a, b, nbytes in plan.work.graph.edges(data="nbytes") if not nbytes}
    assert all(b.startswith("update/") for _, b in order)  # after what reads the parameter
    homes = {name: value.device for name, value in plan.work.values.items() if value.kind == "state"}
    assert {name for name, home in homes.items() if home == "cpu"} == {"1.bias", "1.weight", "3.bias", "3.weight"}
    brought = {plan.names[i] for i in plan.copies}
    for i in (0, 1):
        parameters = {f"{k}.{which}>worker:{i}" for k in (1, 3) for which in ("weight", "bias")}
        assert {name for name in brought if name.endswith(f">worker:{i}")} == parameters | {
            f"{i}/input>worker:{i}",
            f"{i}/target>worker:{i}",
        }
    assert sum(name.endswith(">cpu") for name in brought) == 8


@pytest.mark.parametrize("grain", ["operator", "module"])
def test_layer_2_is_summed_and_updated_while_layer_1_is_still_in_backward(grain: str) -> None:
    """In the plan with its lanes, nothing of the backward pass of layer 1 comes before the update of layer 2."""
    plan = on(traced(grain=grain)[0], 2)
    graph = nx.DiGraph(within_a_step(graph_of(plan)))
    last: dict[int, str] = {}
    for name, lane in zip(plan.names, plan.lane_of, strict=True):
        if lane in last:
            graph.add_edge(last[lane], name)
        last[lane] = name
    updates = [name for name in graph if name.startswith("update/3")]
    assert updates
    for update in updates:
        assert not any("/1.backward" in name or "/2.backward" in name for name in nx.ancestors(graph, update))


@pytest.mark.parametrize("scheduler", ["one_stream", "heft"])
@pytest.mark.parametrize("grain", ["operator", "module"])
@pytest.mark.parametrize(("devices", "rows"), [(1, 8), (2, 8), (2, 7), (3, 8)])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_parameters_are_those_of_plain_pytorch(
    devices: int, rows: int, grain: str, scheduler: str, momentum: float
) -> None:
    """fp64, after one step and after three; shards of one size and of two."""
    work, net, sgd = traced(rows, grain, momentum)
    x, y = work.source.inputs.values()
    with gs.Program(on(work, devices, scheduler)) as program:
        for _ in range(3):
            sgd.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            output = net(x).detach()
            sgd.step()
            results, states = program.run(), program.state()
            for name, parameter in net.named_parameters():
                assert float((states[name] - parameter.detach()).abs().max()) <= 1e-12
            outputs = torch.cat([results[f"{i}/output"] for i in range(devices)])
            assert float((outputs - output).abs().max()) <= 1e-12
            sizes = [len(results[f"{i}/output"]) for i in range(devices)]
            mean = sum(float(results[f"{i}/loss"]) * size / rows for i, size in enumerate(sizes))
            assert mean == pytest.approx(float(loss.detach()), abs=1e-12)


class ReadTwice(nn.Module):
    """The gradient of `layer` is there before the backward pass of its first use, which has none, reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.layer = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.layer(torch.relu(self.first(x) @ self.layer.weight.detach()))


def test_a_parameter_is_updated_after_all_that_reads_it() -> None:
    """::

    first ─ mm ─ relu ─ layer ─ layer' ─ relu' ─ mm' ─ first'       mm' reads layer.weight too
                                  ╰──────────────────┴─ sum, update
    """
    work, net, sgd = traced(net=ReadTwice())
    x, y = work.source.inputs.values()
    with gs.Program(on(work, 2)) as program:
        program.run()
        states = program.state()
    F.cross_entropy(net(x), y).backward()
    sgd.step()
    for name, parameter in net.named_parameters():
        assert float((states[name] - parameter.detach()).abs().max()) <= 1e-12


def test_it_is_the_same_graph_every_time() -> None:
    assert on(traced()[0], 2).text == on(traced()[0], 2).text


def test_what_cannot_be_split_is_refused() -> None:
    built = gs.Workload("built")
    with pytest.raises(WorkloadError, match="'built' was built by hand"):
        central_parameters(built, ["cpu"])
    net = nn.Linear(4, 3).double()
    forward = gs.trace(net, torch.rand(8, 4, dtype=torch.float64))
    with pytest.raises(WorkloadError, match="updates nothing: trace it with optimizer="):
        central_parameters(forward, ["worker:0"])
    normed = traced(net=nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)))[0]
    with pytest.raises(WorkloadError, match=r"updates '1.num_batches_tracked' on every device, which has no sum"):
        central_parameters(normed, ["worker:0", "worker:1"])
    with pytest.raises(WorkloadError, match="a batch of 2 rows cannot be split over 3 devices"):
        central_parameters(traced(rows=2)[0], ["worker:0", "worker:1", "worker:2"])
