"""Steps with the batch split, beside plain PyTorch and the unsplit step.

::

    0/x ─ 0/forward ─ 0/backward ─ 0/bucket ─┬─ 0/sum ─ 0/update
                                             ╳
    1/x ─ 1/forward ─ 1/backward ─ 1/bucket ─┴─ 1/sum ─ 1/update
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphsched as gs
from graphsched.errors import WorkloadError
from graphsched.partition import data_parallel, split
from graphsched.partition.batches import shard_sizes
from models.lenet import LeNet
from models.resnet import Residual
from models.transformer import RowTransformer
from tests.executors.programs import machine
from tests.partition.replicas import (
    adamw,
    momentum,
    of_replica,
    parameters,
    run_split,
    sgd,
    small,
    trained_apart,
    workers,
)
from tests.tracing.steps import Optimizer, run, worst


def _transformer() -> nn.Module:
    return RowTransformer(side=6, width=8, heads=2, hidden=12, blocks=1)


def _residual() -> nn.Module:
    return nn.Sequential(Residual(1, 4, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "LeNet": (LeNet, 28),
    "residual": (_residual, 6),
    "transformer": (_transformer, 6),
}


def _step(
    network: str, optimizer: Optimizer, rows: int, dtype: torch.dtype = torch.float64
) -> tuple[gs.Workload, nn.Module, dict[str, Any]]:
    make, side = NETWORKS[network]
    torch.manual_seed(5)
    net = make().to(dtype)
    x, y = torch.rand(rows, 1, side, side).to(dtype), torch.randint(0, 10, (rows,))
    work = gs.trace(net, x, target=y, loss=F.cross_entropy, optimizer=optimizer(net.parameters()))
    return work, net, {next(iter(work.source.inputs)): x, "target": y}


# -- results ---------------------------------------------------------------------------------------

CASES = [
    ("LeNet", 7, 2, "gather", sgd, 0),
    ("LeNet", 7, 3, "sharded", momentum, 400_000),
    ("LeNet", 7, 4, "gather", adamw, 1 << 20),
    ("transformer", 7, 2, "sharded", adamw, 1 << 20),
    ("transformer", 7, 3, "gather", momentum, 1000),
    ("transformer", 9, 4, "sharded", sgd, 0),
]


@pytest.mark.parametrize(("network", "rows", "k", "reduce", "optimizer", "bucket_bytes"), CASES)
def test_one_step_equals_the_unsplit_one(
    network: str, rows: int, k: int, reduce: str, optimizer: Optimizer, bucket_bytes: int
) -> None:
    """Uneven shards: seven rows are 4+3, 3+2+2 or 2+2+2+1, nine 3+2+2+2."""
    work, _, inputs = _step(network, optimizer, rows)
    found, states = run_split(data_parallel(work, workers(k), reduce=reduce, bucket_bytes=bucket_bytes), inputs, k)
    wanted, after = run(work)
    assert worst(found, {"loss": wanted["loss"]}) < 1e-12
    output = torch.cat([found[f"{i}/output"] for i in range(k)])
    assert worst({"output": output}, {"output": wanted["output"]}) < 1e-12
    for i in range(k):
        assert worst(of_replica(states, i), parameters(after)) < 1e-12


@pytest.mark.parametrize(("network", "k", "reduce", "optimizer"), [
    ("LeNet", 2, "sharded", adamw), ("transformer", 3, "gather", momentum), ("transformer", 4, "sharded", sgd),
])  # fmt: skip
def test_ten_steps_in_fp32(network: str, k: int, reduce: str, optimizer: Optimizer) -> None:
    work, _, inputs = _step(network, optimizer, rows=8, dtype=torch.float32)
    found, states = run_split(data_parallel(work, workers(k), reduce=reduce, bucket_bytes=5000), inputs, k, steps=10)
    wanted, after = run(work, steps=10)
    assert worst(found, {"loss": wanted["loss"]}) < 1e-4
    assert worst(of_replica(states, 0), parameters(after)) < 1e-4
    for i in range(1, k):
        for name, tensor in of_replica(states, i).items():
            assert name == "constant" or torch.equal(tensor, states[f"0/{name}"])


@pytest.mark.parametrize(
    ("k", "reduce", "optimizer"), [(2, "gather", momentum), (3, "sharded", sgd), (4, "gather", momentum)]
)
def test_batch_norm_of_each_shard(k: int, reduce: str, optimizer: Optimizer) -> None:
    """As DistributedDataParallel: own statistics, and running ones of which replica 0's are saved."""
    work, net, inputs = _step("residual", optimizer, rows=9)
    found, states = run_split(data_parallel(work, workers(k), reduce=reduce, bucket_bytes=600), inputs, k, steps=2)
    loss, apart = trained_apart(net, optimizer, inputs, shard_sizes(9, k), steps=2)
    assert float(found["loss"]) == pytest.approx(loss, rel=1e-12)
    for i in range(k):
        assert worst(of_replica(states, i), apart[i]) < 1e-11
    assert not torch.equal(states["0/0.bn1.running_mean"], states["1/0.bn1.running_mean"])
    assert torch.equal(states["0/0.bn1.weight"], states["1/0.bn1.weight"])


@pytest.mark.parametrize("reduce", ["gather", "sharded"])
def test_given_shards_count_by_their_rows(reduce: str) -> None:
    work, inputs = small(rows=7)
    found, states = run_split(data_parallel(work, workers(2), shards=[1, 6], reduce=reduce), inputs, [1, 6])
    wanted, after = run(work)
    assert worst(found, {"loss": wanted["loss"]}) < 1e-14
    assert max(worst(of_replica(states, i), parameters(after)) for i in range(2)) < 1e-14


def test_a_sum_over_the_batch_is_a_sum_over_shards() -> None:
    torch.manual_seed(3)
    net = nn.Linear(4, 3).double()
    x, y = torch.randn(7, 4).double(), torch.randn(7, 3).double()
    loss = nn.MSELoss(reduction="sum")
    work = gs.trace(net, x, target=y, loss=loss, optimizer=sgd(net.parameters()))
    split_work = data_parallel(work, workers(3), reduction="sum")
    found, states = run_split(split_work, {"input": x, "target": y}, 3)
    wanted, after = run(work)
    assert worst(found, {"loss": wanted["loss"]}) < 1e-14
    assert worst(of_replica(states, 2), parameters(after)) < 1e-14


@pytest.mark.parametrize("sizes", [[3, 3], [2, 4], [1, 1]])
def test_a_loss_of_each_row_is_a_result_like_others(sizes: list[int]) -> None:
    """It is no sum over replicas: ``0/loss`` and ``1/loss`` one after the other are the whole."""
    net = nn.Linear(4, 3)
    optimizer = sgd(net.parameters())

    def step(x: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
        loss = F.cross_entropy(net(x), target, reduction="none")
        loss.mean().backward()
        optimizer.step()
        return {"loss": loss}

    rows = sum(sizes)
    inputs = {"x": torch.randn(rows, 4), "target": torch.randint(0, 3, (rows,))}
    work = gs.trace(step, *inputs.values())
    found, _ = run_split(data_parallel(work, workers(2), shards=sizes), inputs, sizes)
    assert found.keys() == {"0/loss", "1/loss"}
    assert torch.allclose(torch.cat([found["0/loss"], found["1/loss"]]), run(work)[0]["loss"])


def test_one_device_has_the_tasks_of_the_unsplit_step() -> None:
    work, _ = small()
    split_work = data_parallel(work, workers(1))
    assert list(split_work.graph) == [f"0/{name}" for name in work.graph] + ["loss"]


def test_a_network_alone_needs_no_sums() -> None:
    torch.manual_seed(3)
    net, x = nn.Linear(4, 3), torch.randn(5, 4)
    split_work = data_parallel(gs.trace(net, x), workers(2))
    found, _ = run_split(split_work, {"input": x}, 2)
    assert torch.equal(torch.cat([found["0/output"], found["1/output"]]), net(x))
    assert list(split_work.graph) == ["0/output", "1/output"]


@pytest.mark.parametrize("options", [{"grain": "module"}, {"device": "worker:0"}])
def test_layers_as_tasks_and_inputs_that_are_there(options: dict[str, Any]) -> None:
    work, inputs = small(rows=6, **options)
    split_work = data_parallel(work, workers(2))
    homes = {v.name: v.device for v in split_work.values.values() if v.kind == "input"}
    there = "device" in options
    assert homes == {f"{i}/{name}": f"worker:{i}" if there else "cpu" for i in range(2) for name in inputs}
    plan = gs.schedule(split_work, machine(*workers(2)), scheduler="one_stream")
    with gs.Program(plan) as program:
        program.run()
        states = program.state()
    _, after = run(small(rows=6)[0])
    assert worst(of_replica(states, 1), parameters(after)) < 1e-14


def test_an_update_of_all_parameters_at_once_comes_after_the_last_sum() -> None:
    """foreach: one task that reads every gradient."""
    work, inputs = small(rows=6, optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1, foreach=True))
    split_work = data_parallel(work, workers(2), bucket_bytes=0)
    _, states = run_split(split_work, inputs, 2)
    _, after = run(work)
    assert worst(of_replica(states, 1), parameters(after)) < 1e-14


def test_steps_with_backward_passes_after_an_update() -> None:
    """Two networks in turns: the second's gradients depend on sums of the first's, so they are not put together."""
    torch.manual_seed(3)
    one, two = nn.Linear(4, 4).double(), nn.Linear(4, 3).double()
    first, second = sgd(one.parameters()), sgd(two.parameters())

    def step(x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        F.mse_loss(one(x), x).backward()
        torch.nn.utils.clip_grad_norm_(one.parameters(), 0.1)
        first.step()
        loss = F.cross_entropy(two(one(x).detach()), y)
        loss.backward()
        second.step()
        return {"loss": loss}

    x, y = torch.randn(6, 4).double(), torch.randint(0, 3, (6,))
    work = gs.trace(step, x, y)
    for k, reduce, bucket_bytes in ((2, "gather", 0), (2, "gather", 1 << 20), (3, "sharded", 1 << 20)):
        split_work = data_parallel(work, workers(k), reduce=reduce, bucket_bytes=bucket_bytes)
        found, states = run_split(split_work, {"x": x, "y": y}, k)
        wanted, after = run(work)
        assert worst(found, {"loss": wanted["loss"]}) < 1e-12
        assert worst(of_replica(states, k - 1), parameters(after)) < 1e-12


# -- order -----------------------------------------------------------------------------------------


def _tasks(work: gs.Workload, i: int) -> list[str]:
    return [name.removeprefix(f"{i}/") for name in work.graph if name.startswith(f"{i}/")]


def _norm(gradient: torch.Tensor) -> torch.Tensor:
    return (gradient.norm(2, 1) - 1).pow(2).mean()


def _total(gradient: torch.Tensor) -> torch.Tensor:
    return (gradient.sum(1) - 1).pow(2).mean()


@pytest.mark.parametrize("penalty", [_norm, _total])
@pytest.mark.parametrize("grain", ["operator", "module"])
def test_a_penalty_on_gradients_is_that_of_each_replicas_rows(penalty: Callable[..., Any], grain: str) -> None:
    """x ─ network ─ gradient for x ─ penalty ─ loss: nothing is summed before the loss; clipping comes after sums."""
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    optimizer = momentum(net.parameters())

    def step(x: torch.Tensor, target: torch.Tensor) -> dict[str, torch.Tensor]:
        optimizer.zero_grad()
        given = x.clone().requires_grad_()
        output = net(given)
        (gradient,) = torch.autograd.grad(output.sum(), given, create_graph=True)
        loss = F.cross_entropy(output, target) + penalty(gradient)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        return {"loss": loss}

    inputs = {"x": torch.randn(7, 4).double(), "target": torch.randint(0, 3, (7,))}
    work = gs.trace(step, *inputs.values(), grain=grain)
    found, states = run_split(data_parallel(work, workers(2)), inputs, 2, steps=2)
    wanted, after = run(work, steps=2)
    assert worst({"loss": found["loss"]}, {"loss": wanted["loss"]}) < 1e-12
    for i in range(2):
        assert worst(of_replica(states, i), parameters(after)) < 1e-12


def test_gradients_are_scaled_without_a_task() -> None:
    work, _ = small(rows=7)
    split_work = data_parallel(work, workers(2))
    for i in range(2):
        assert sorted(name for name in _tasks(split_work, i) if "bucket" not in name) == sorted(work.graph)
    shares = [float(split_work.tensors[f"{i}/constant"]) for i in range(2)]
    assert shares == [4 / 7, 3 / 7]


def test_a_bucket_comes_after_its_last_gradient_and_its_sum_after_the_next_bucket() -> None:
    """Buckets: (2.weight, 2.bias), then (0.weight, 0.bias)."""
    work, _ = small()
    order = _tasks(data_parallel(work, workers(2), bucket_bytes=320), 0)
    place = {name: i for i, name in enumerate(order)}
    read = [name for name in order if name.startswith("2.backward/")]
    assert place["bucket.0/flat"] in (place[read[-1]] + 1, place[read[-1]])
    backward = [name for name in order[place["bucket.0/flat"] :] if ".backward/" in name]
    assert backward
    assert order[place["bucket.1/flat"] :] == [
        "bucket.1/flat", "bucket.0/sum", "update/2.weight/add", "update/2.bias/add",
        "bucket.1/sum", "update/0.weight/add", "update/0.bias/add",
    ]  # fmt: skip


def test_sums_run_beside_the_backward_pass() -> None:
    """On one lane a device: the copies of the first bucket are over before the last gradient is made."""
    work, _, _ = _step("LeNet", sgd, rows=256, dtype=torch.float32)
    platform = gs.Platform.load("h200-x4")
    plan = gs.schedule(
        data_parallel(work, ["cuda:0", "cuda:1"], bucket_bytes=430_000), platform, scheduler="one_stream"
    )
    predicted = gs.predict(plan, mode="graph")
    ends = dict(zip(plan.names, predicted.end_s, strict=True))
    assert ends["1/bucket.0/flat>cuda:0"] < ends["0/network.backward/convolution_backward.3"]


def test_the_same_graph_every_time() -> None:
    work, _ = small()
    one, other = (data_parallel(work, workers(3), reduce="sharded", bucket_bytes=100) for _ in range(2))
    assert one.digest() == other.digest()
    assert one.returned()
    assert [v.name for v in one.returned()] == [v.name for v in other.returned()]


@pytest.mark.parametrize("reduce", ["gather", "sharded"])
def test_predicted_lenet_is_faster_on_more_gpus(reduce: str) -> None:
    """Batch 256 as one CUDA graph, by estimates of the kernels and measured copies."""
    work, _, _ = _step("LeNet", sgd, rows=256, dtype=torch.float32)
    platform = gs.Platform.load("h200-x4")
    predicted = []
    for k in (1, 2, 4):
        split_work = data_parallel(work, [f"cuda:{i}" for i in range(k)], reduce=reduce, bucket_bytes=430_000)
        plan = gs.schedule(split_work, platform, scheduler="one_stream", mode="graph")
        predicted.append(gs.predict(plan, mode="graph").makespan_s)
    assert predicted == sorted(predicted, reverse=True)


@pytest.mark.multigpu
@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("reduce", ["gather", "sharded"])
@pytest.mark.parametrize("k", [2, 4])
def test_on_gpus(k: int, reduce: str, mode: str) -> None:
    if torch.cuda.device_count() < k:
        pytest.skip(f"needs {k} GPUs")
    work, _, inputs = _step("LeNet", momentum, rows=10)
    names = [f"cuda:{i}" for i in range(k)]
    split_work = data_parallel(work, names, reduce=reduce, bucket_bytes=430_000)
    plan = gs.schedule(split_work, machine(*names), scheduler="one_stream", mode=mode)
    with gs.Program(plan) as program:
        for _ in range(3):
            found = program.run(**split(inputs, k))
        states = program.state()
    wanted, after = run(work, steps=3)
    assert worst({"loss": found["loss"].cpu()}, {"loss": wanted["loss"]}) < 1e-10
    for i in range(k):
        here = {name: tensor.cpu() for name, tensor in of_replica(states, i).items()}
        assert worst(here, parameters(after)) < 1e-10
        assert all(torch.equal(here[name], states[f"0/{name}"].cpu()) for name in parameters(after))


# -- refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "message"), [
    ({"devices": []}, "one device or more"),
    ({"devices": "cuda:0"}, "one device or more"),
    ({"devices": workers(8)}, "7 rows cannot be split over 8 devices"),
    ({"shards": [3, 3]}, "do not make a batch of 7"),
    ({"shards": [3, 3, 1]}, "3 shards were given for 2 devices"),
    ({"reduce": "star"}, "'star': one of gather, sharded"),
    ({"reduction": "none"}, "'none': one of mean, sum"),
    ({"bucket_bytes": -1}, "-1: a whole number, 0 or more"),
])  # fmt: skip
def test_requests_that_cannot_be(options: dict[str, Any], message: str) -> None:
    work, _ = small()
    with pytest.raises(WorkloadError, match=message):
        data_parallel(work, **({"devices": workers(2)} | options))


def test_only_traced_steps_with_an_optimizer_are_split() -> None:
    with pytest.raises(WorkloadError, match="built by hand"):
        data_parallel(gs.Workload(), workers(2))
    net, x = nn.Linear(4, 3), torch.ones(6, 4)
    gradients = gs.trace(net, x, target=torch.ones(6, 3), loss=F.mse_loss)
    with pytest.raises(WorkloadError, match="returns 'grad/weight' of the backward pass"):
        data_parallel(gradients, workers(2))


def test_gradients_that_no_input_changes_are_refused() -> None:
    """d mean(output) / d bias is known when it is traced."""
    net, x = nn.Linear(4, 3), torch.ones(6, 4)
    work = gs.trace(net, x, loss=lambda output: output.mean(), optimizer=sgd(net.parameters()))
    with pytest.raises(WorkloadError, match="does not depend on the inputs"):
        data_parallel(work, workers(2))


def _by_the_loss(net: nn.Linear, loss: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return loss * net.get_parameter("weight").grad


def _by_noise(net: nn.Linear, loss: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return net.get_parameter("weight").grad + torch.randn(3, 4)


def _by_hand(net: nn.Linear, loss: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return net(x).t() @ x


@pytest.mark.parametrize("change", [_by_the_loss, _by_noise, _by_hand])
@pytest.mark.parametrize("grain", ["operator", "module"])
def test_updates_that_would_differ_between_replicas_are_refused(change: Callable[..., Any], grain: str) -> None:
    net = nn.Linear(4, 3)

    def step(x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        loss = F.mse_loss(net(x), y)
        loss.backward()
        with torch.no_grad():
            net.get_parameter("weight").sub_(0.1 * change(net, loss, x))
        return {"loss": loss}

    work = gs.trace(step, torch.randn(6, 4), torch.randn(6, 3), grain=grain)
    data_parallel(work, workers(1))
    with pytest.raises(WorkloadError, match="changes 'weight' by what each replica makes of its own rows"):
        data_parallel(work, workers(2))


def test_networks_that_compute_otherwise_on_fewer_rows_are_refused() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x * self.weight) if len(x) > 3 else x * self.weight

    net, x = Odd(), torch.ones(6, 4)
    work = gs.trace(net, x, loss=lambda output: (output**2).mean(), optimizer=sgd(net.parameters()))
    with pytest.raises(WorkloadError, match="with 3 of the rows the network computes otherwise"):
        data_parallel(work, workers(2))


@pytest.mark.parametrize("grain", ["operator", "module"])
def test_shards_that_call_other_operators_are_refused(grain: str) -> None:
    """Parts of one row, whose gradients may come in another order; tasks of whole layers hide it."""
    net = nn.Sequential(nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), nn.Flatten(), nn.Linear(12, 3))
    work = gs.trace(net, torch.randn(6, 3, 4), target=torch.arange(6) % 3, loss=F.cross_entropy,
                    optimizer=sgd(net.parameters()), grain=grain)  # fmt: skip
    with pytest.raises(WorkloadError, match="shards of 1 and 5 rows have other tasks"):
        data_parallel(work, workers(2), shards=[1, 5])


def test_split_and_data_parallel_name_the_same_inputs() -> None:
    work, inputs = small()
    split_work = data_parallel(work, workers(3))
    parts = split(inputs, 3)
    assert {v.name for v in split_work.values.values() if v.kind == "input"} == set(parts)
    assert all(torch.equal(split_work.tensors[name], part) for name, part in parts.items())
