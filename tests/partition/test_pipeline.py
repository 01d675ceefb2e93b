from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import graphsched as gs
from graphsched.costs import Costs, TaskCost
from graphsched.errors import WorkloadError
from graphsched.partition.orders import Step, as_text, steps_of
from graphsched.partition.pipeline import pipeline
from graphsched.plan import peak_memory
from tests import builders
from tests.executors.programs import machine
from tests.partition.bubbles import bubble_fraction
from tests.partition.pipelines import (
    FOUR_WORKERS,
    NETWORKS,
    OPTIMIZERS,
    WORKERS,
    perceptron,
    plain,
    residual,
    run,
    traced,
)
from tests.tracing.steps import worst

ORDERS: list[tuple[str, int, int]] = [("gpipe", 3, 1), ("1f1b", 4, 1), ("interleaved", 2, 2)]
CASES = [(network, *order) for network, order in zip(NETWORKS, ORDERS, strict=True)]
"""Every network and every order once."""


def split(work: gs.Workload, order: str, devices: int, chunks: int, micro_batches: int = 4, **more: Any) -> gs.Workload:
    return pipeline(work, WORKERS[:devices], micro_batches=micro_batches, order=order, chunks=chunks, **more)  # type: ignore[arg-type]


# -- results ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("network", "order", "devices", "chunks"), CASES)
def test_one_step_in_float64_equals_the_unsplit_one(
    optimizer: str, network: str, order: str, devices: int, chunks: int
) -> None:
    work = traced(NETWORKS[network], OPTIMIZERS[optimizer], torch.float64)
    wanted, wanted_state = run(work)
    results, state = run(split(work, order, devices, chunks))
    assert results.keys() == wanted.keys() == {"loss", "output"}
    assert worst(results, wanted) < 1e-12
    names = [name for name in wanted_state if not name.startswith("constant")]
    assert worst(state, {name: wanted_state[name] for name in names}) < 1e-12


@pytest.mark.parametrize(("network", "order", "devices", "chunks"), CASES)
def test_ten_steps_in_float32_stay_with_the_unsplit_ones(network: str, order: str, devices: int, chunks: int) -> None:
    work = traced(NETWORKS[network], OPTIMIZERS["AdamW" if network == "LeNet-like" else "SGD"])
    results, state = run(split(work, order, devices, chunks), steps=10)
    wanted, wanted_state = plain(work, steps=10, micro_batches=1)
    assert worst(results, wanted) < 1e-4
    assert worst(state, wanted_state) < 1e-4


@pytest.mark.parametrize(("order", "devices", "chunks"), ORDERS)
def test_batch_norm_sees_each_micro_batch_by_itself(order: str, devices: int, chunks: int) -> None:
    """Running statistics too: one update for each micro-batch, in their order."""
    work = traced(lambda: residual(norm=True), dtype=torch.float64)
    results, state = run(split(work, order, devices, chunks), steps=2)
    wanted, wanted_state = plain(work, steps=2, micro_batches=4)
    assert worst(results, wanted) < 1e-12
    assert worst(state, wanted_state) < 1e-12
    assert int(state["1.norm.num_batches_tracked"]) == 8


def test_two_runs_are_equal_to_the_bit() -> None:
    made = split(traced(residual, OPTIMIZERS["AdamW"]), "1f1b", 4, 1)
    (one, state), (other, other_state) = run(made, steps=3), run(made, steps=3)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert all(torch.equal(state[name], other_state[name]) for name in state)


def test_orders_are_equal_to_the_bit() -> None:
    """Gradients are summed in the order of the micro-batches, whenever they are made."""
    work = traced(residual)
    _, wanted = run(split(work, "gpipe", 2, 1), steps=3)
    for order, devices, chunks in ORDERS:
        _, state = run(split(work, order, devices, chunks), steps=3)
        assert all(torch.equal(state[name], wanted[name]) for name in wanted if name in state)


def test_a_trace_of_whole_layers_can_be_split() -> None:
    work = traced(residual, dtype=torch.float64)
    layers = work.source.again(grain="module").trace()
    results, state = run(split(layers, "1f1b", 3, 1))
    wanted, wanted_state = plain(work, steps=1, micro_batches=4)
    assert worst(results, wanted) < 1e-12
    assert worst(state, wanted_state) < 1e-12


def test_a_function_that_trains_can_be_split() -> None:
    torch.manual_seed(3)
    net = perceptron().double()
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        loss = functional.cross_entropy(net(x), labels)
        loss.backward()
        sgd.step()
        return {"loss": loss}

    work = gs.trace(step, torch.rand(12, 64, dtype=torch.float64), torch.randint(0, 5, (12,)))
    (wanted, wanted_state), (results, state) = run(work), run(split(work, "1f1b", 3, 1))
    assert worst(results, wanted) < 1e-12
    assert worst(state, {name: wanted_state[name] for name, _ in net.named_parameters()}) < 1e-12


def test_a_sum_over_the_batch_stays_a_sum() -> None:
    torch.manual_seed(3)
    net = perceptron().double()
    x, y = torch.rand(12, 64, dtype=torch.float64), torch.randint(0, 5, (12,))
    work = gs.trace(net, x, target=y, loss=nn.CrossEntropyLoss(reduction="sum"),
                    optimizer=torch.optim.SGD(net.parameters(), lr=0.01))  # fmt: skip
    (wanted, wanted_state), (results, state) = run(work), run(split(work, "1f1b", 3, 1, reduction="sum"))
    assert worst(results, wanted) < 1e-12
    assert worst(state, {name: wanted_state[name] for name, _ in net.named_parameters()}) < 1e-12


def test_a_parameter_of_two_stages_is_one_state() -> None:
    """0 -> relu -> 2 -> relu -> 4, and 0 is 4: its gradient is the sum of both, its home the first stage."""

    def tied() -> nn.Module:
        net = nn.Sequential(nn.Flatten(), *(nn.Sequential(nn.Linear(64, 64, bias=False), nn.ReLU()) for _ in range(3)))
        net[3][0].weight = net[1][0].weight
        return net

    work = traced(tied, dtype=torch.float64)
    made = split(work, "1f1b", 3, 1)
    assert sum(value.kind == "state" and value.name.endswith("weight") for value in made.values.values()) == 2
    (wanted, wanted_state), (results, state) = run(work), run(made)
    assert worst(results, wanted) < 1e-12
    assert worst(state, {name: wanted_state[name] for name in ("1.0.weight", "2.0.weight")}) < 1e-12


def test_an_input_without_rows_goes_whole_to_every_micro_batch() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(8, 6), nn.Linear(6, 3)

        def forward(self, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
            return self.two(torch.tanh(self.one(x)) * scale)

    torch.manual_seed(3)
    net = Scaled().double()
    work = gs.trace(net, torch.rand(8, 8).double(), torch.rand(6).double(), target=torch.rand(8, 3).double(),
                    loss=functional.mse_loss, optimizer=torch.optim.SGD(net.parameters(), lr=0.1))  # fmt: skip
    (wanted, _), (results, _) = run(work), run(split(work, "gpipe", 2, 1))
    assert worst(results, wanted) < 1e-12


@pytest.mark.multigpu
@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize(("order", "chunks"), [("gpipe", 1), ("1f1b", 1), ("interleaved", 2)])
def test_gpus_train_as_plain_pytorch_does(mode: str, order: str, chunks: int) -> None:
    work = traced(lambda: residual(norm=True), dtype=torch.float64)
    names = ["cuda:0", "cuda:1"]
    made = pipeline(work, names, micro_batches=4, order=order, chunks=chunks)  # type: ignore[arg-type]
    with gs.Program(gs.schedule(made, machine(*names), scheduler="one_stream", mode=mode)) as program:
        for _ in range(3):
            results = {name: tensor.cpu() for name, tensor in program.run().items()}
        state = {name: tensor.cpu() for name, tensor in program.state().items()}
    wanted, wanted_state = plain(work, steps=3, micro_batches=4)
    assert worst(results, wanted) < 1e-9
    assert worst(state, wanted_state) < 1e-9


# -- order -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("order", "devices", "chunks"), [*ORDERS, ("1f1b", 1, 1), ("gpipe", 4, 1)])
def test_one_stream_runs_the_steps_in_their_order(order: str, devices: int, chunks: int) -> None:
    made = split(traced(residual), order, devices, chunks)
    plan = gs.schedule(made, FOUR_WORKERS, scheduler="one_stream")
    rows: dict[str, list[Step]] = {name: [] for name in WORKERS[:devices]}
    for action in plan:
        node = made.graph.nodes[action.name] if action.kind == "run" else {}
        if "micro_batch" in node:
            kind: Any = "F" if node["phase"] == "forward" else "B"
            step = Step(kind, node["stage"], node["micro_batch"])
            row = rows[action.lanes[0].device]
            if row[-1:] != [step]:
                row.append(step)
    assert as_text(list(rows.values())) == as_text(steps_of(order, devices, 4, chunks))  # type: ignore[arg-type]


# -- prediction ------------------------------------------------------------------------------------


def equal_layers(devices: int, chunks: int, micro_batches: int, order: str) -> tuple[gs.Workload, Costs]:
    """A dense layer a stage; 1 s forward, 2 s for what the stage before waits for, everything else takes no time."""
    torch.manual_seed(3)
    stages = devices * chunks
    net = nn.Sequential(*(nn.Linear(8, 8, bias=False) for _ in range(stages)))
    x = torch.rand(2 * micro_batches, 8)
    work = gs.trace(net, x, target=torch.ones_like(x), loss=functional.mse_loss,
                    optimizer=torch.optim.SGD(net.parameters(), lr=0.1))  # fmt: skip

    def costs(of: gs.Workload) -> Costs:
        found: dict[tuple[str, str], TaskCost] = {}
        for task in of.tasks:
            phase, read = of.graph.nodes[task.name]["phase"], {read.value.name for read in task.reads}
            is_layer = phase != "update" and ("input" in read or any(name.endswith("weight") for name in read))
            found[task.signature, "GPU"] = TaskCost(is_layer * (2.0 if phase == "backward" else 1.0))
        return Costs(found)

    names = [f"cuda:{k}" for k in range(devices)]
    made = pipeline(work, names, micro_batches=micro_batches, order=order, chunks=chunks, costs=costs(work))  # type: ignore[arg-type]
    return made, costs(made)


@pytest.mark.parametrize("micro_batches", [4, 8])
@pytest.mark.parametrize(("order", "devices", "chunks"), [("gpipe", 4, 1), ("1f1b", 4, 1), ("interleaved", 4, 2)])
def test_the_predicted_bubble_is_the_published_one(order: str, devices: int, chunks: int, micro_batches: int) -> None:
    made, costs = equal_layers(devices, chunks, micro_batches, order)
    where = builders.platform(gpus=devices, bandwidth=1e15)
    timeline = gs.predict(gs.schedule(made, where, costs, scheduler="one_stream"))
    busy_s = 3.0 * micro_batches * chunks
    bubble = 1 - busy_s / timeline.makespan_s
    assert bubble == pytest.approx(bubble_fraction(devices, micro_batches, chunks), abs=1e-9)


def test_1f1b_needs_less_memory_than_gpipe() -> None:
    """Stage 0 of 3 keeps 3 micro-batches of 12, the last keeps 1."""
    torch.manual_seed(3)
    net = residual()
    x, y = torch.rand(960, 1, 8, 8), torch.randint(0, 5, (960,))
    work = gs.trace(net, x, target=y, loss=functional.cross_entropy,
                    optimizer=torch.optim.SGD(net.parameters(), lr=0.1))  # fmt: skip
    peaks = {}
    for order in ("gpipe", "1f1b"):
        made = pipeline(work, ["cuda:0", "cuda:1", "cuda:2"], micro_batches=12, order=order)  # type: ignore[arg-type]
        peaks[order] = peak_memory(gs.schedule(made, builders.platform(gpus=3), scheduler="one_stream"))
    for device, most in (("cuda:0", 0.6), ("cuda:1", 0.4)):
        assert peaks["1f1b"][device].nbytes < most * peaks["gpipe"][device].nbytes


# -- stages ----------------------------------------------------------------------------------------


def stages_of(made: gs.Workload) -> dict[str, int]:
    """Stage of each forward task of the first micro-batch."""
    nodes = made.graph.nodes
    names = [name for name in made.graph if nodes[name].get("micro_batch") == 0 and nodes[name]["phase"] == "forward"]
    return {name.removeprefix("m0/"): nodes[name]["stage"] for name in names}


@pytest.mark.parametrize("micro_batch_costs", [True, False])
def test_stages_are_balanced_by_measured_costs(micro_batch_costs: bool) -> None:
    """The first layer takes as long as all that follow: measured on one micro-batch or on the whole batch."""
    work = traced()
    measured = work.source.again(inputs={k: t[:3] for k, t in work.source.inputs.items()}).trace()
    of = measured if micro_batch_costs else work
    seconds = {"1/addmm": 10.0, "3/addmm": 4.0}
    costs = Costs({(t.signature, "any"): TaskCost(seconds.get(t.name, 1e-3)) for t in of.tasks})
    found = stages_of(split(work, "1f1b", 2, 1, costs=costs))
    assert found["1/addmm"] == 0
    assert set(found.values()) == {0, 1}
    assert all(stage == 1 for name, stage in found.items() if name != "1/addmm" and "relu" not in name)


def test_stages_are_not_cut_inside_a_residual_block_for_nothing() -> None:
    """Only the convolutions of blocks take time, two a block: any cut between these of two blocks is as fast.

    Before the addition two values would cross forward; after it one does.
    """
    work = traced(residual)
    convolution = work["1.conv1/convolution"].signature
    costs = Costs({(t.signature, "any"): TaskCost(float(t.signature == convolution)) for t in work.tasks})
    found = stages_of(split(work, "1f1b", 3, 1, costs=costs))
    first = {stage: name for name, stage in reversed(found.items())}
    assert first[1] in ("1/relu.2", "2.conv1/convolution")
    assert first[2] in ("2/relu.2", "3.conv1/convolution")


@pytest.mark.parametrize(
    ("order", "memory_bytes", "first_stage"),
    [("1f1b", 1 << 20, 3), ("1f1b", 12720, 2), ("1f1b", 12719, 1), ("gpipe", 13008, 2), ("gpipe", 13007, 1)],
)
def test_memory_moves_the_cut(order: str, memory_bytes: int, first_stage: int) -> None:
    """Of 7 tasks that take equally long, the first 3 or 4 are half.

    The first dense layer and the ReLU after it hold 3 × 3120 bytes (parameters, gradients, momentum), 3072 of the input
    and 144 for each micro-batch in flight, of which 1F1B has 2 and GPipe 4.
    """
    work = traced()
    costs = Costs({(task.signature, "any"): TaskCost(1.0) for task in work.tasks})
    found = stages_of(split(work, order, 2, 1, costs=costs, memory_bytes=memory_bytes))
    assert sum(stage == 0 for stage in found.values()) == first_stage


def test_memory_of_a_stage_counts_its_own_micro_batches_in_flight() -> None:
    """The last of two stages keeps 200 kB for each micro-batch: with 1F1B of one, with GPipe of four."""
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 512), nn.ReLU(), nn.Linear(512, 5))
    x, y = torch.rand(400, 4), torch.randint(0, 5, (400,))
    work = gs.trace(net, x, target=y, loss=functional.cross_entropy,
                    optimizer=torch.optim.SGD(net.parameters(), lr=0.1))  # fmt: skip
    assert set(stages_of(split(work, "1f1b", 2, 1, memory_bytes=350_000)).values()) == {0, 1}
    with pytest.raises(WorkloadError, match="do not fit"):
        split(work, "gpipe", 2, 1, memory_bytes=350_000)


def test_stages_that_no_cut_makes_fit_are_refused() -> None:
    with pytest.raises(WorkloadError, match=r"2 stages do not fit in memory_bytes=1000: the largest needs 12432 bytes"):
        split(traced(), "1f1b", 2, 1, memory_bytes=1000)
    with pytest.raises(WorkloadError, match=r"worker:\d needs \d+ bytes for its 2 stages, memory_bytes is 12900"):
        split(traced(), "interleaved", 2, 2, memory_bytes=12900)


# -- bad input -------------------------------------------------------------------------------------


def test_what_cannot_be_split_is_refused() -> None:
    work = traced()
    by_hand = gs.Workload("hand")
    with pytest.raises(WorkloadError, match="a Linear was given: a workload is needed"):
        pipeline(nn.Linear(2, 2), WORKERS[:2], micro_batches=2)  # type: ignore[arg-type]
    with pytest.raises(WorkloadError, match="'hand' was built by hand"):
        split(by_hand, "1f1b", 2, 1)
    with pytest.raises(WorkloadError, match="12 rows does not divide into 5 equal micro-batches"):
        split(work, "1f1b", 2, 1, micro_batches=5)
    with pytest.raises(WorkloadError, match=r"7 forward tasks cannot be cut into 8 stages \(4 devices, 2 each\)"):
        split(work, "interleaved", 4, 2)
    with pytest.raises(WorkloadError, match="different devices"):
        pipeline(work, ["worker:0", "worker:0"], micro_batches=2)
    with pytest.raises(WorkloadError, match="different devices"):
        pipeline(work, "worker:0", micro_batches=2)
    with pytest.raises(WorkloadError, match="reduction is 'max'"):
        split(work, "1f1b", 2, 1, reduction="max")


@pytest.mark.parametrize("result", [lambda x: x.t() @ x, lambda x: x @ x.t()], ids=["4x4", "rows by rows"])
def test_a_result_without_rows_of_the_batch_is_refused(result: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Also where it has as many rows as a micro-batch, by chance or by what it is."""
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 5))
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        functional.cross_entropy(net(x), labels).backward()
        sgd.step()
        return {"products": result(x)}

    work = gs.trace(step, torch.rand(8, 4), torch.randint(0, 5, (8,)))
    with pytest.raises(
        WorkloadError, match=r"result 'products' of shape \(4, 4\) is no scalar and has no row for each"
    ):
        split(work, "1f1b", 2, 1, micro_batches=2)


def test_a_network_without_an_optimizer_is_no_training_step() -> None:
    net = perceptron()
    x, y = torch.rand(4, 64), torch.zeros(4, dtype=torch.int64)
    for work in (gs.trace(net, x), gs.trace(net, x, target=y, loss=functional.cross_entropy)):
        with pytest.raises(WorkloadError, match="no training step"):
            split(work, "1f1b", 2, 1)
