"""Norms wholly in half precision: statistics in single precision on every device, results to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import graphsched as gs
from graphsched.errors import FileFormatError, SignatureError
from graphsched.executors.operations import find_operation, name_of
from graphsched.executors.strict_shapes import strict
from graphsched.partition import data_parallel
from graphsched.workload import keeping_single, own_operator
from tests.executors.programs import by_hand, machine
from tests.tracing.steps import plain, run, worst

ATEN = torch.ops.aten
HALF = (torch.bfloat16, torch.float16)
NORMS = {
    "layer": lambda: nn.LayerNorm([4, 3, 3]),
    "layer, no weight": lambda: nn.LayerNorm([4, 3, 3], elementwise_affine=False),
    "batch": lambda: nn.BatchNorm2d(4),
    "batch, no weight": lambda: nn.BatchNorm2d(4, affine=False),
    "batch, no statistics": lambda: nn.BatchNorm2d(4, track_running_stats=False),
    "group": lambda: nn.GroupNorm(2, 4),
    "RMS": lambda: nn.RMSNorm([4, 3, 3]),
}


def network(norm: str, dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Conv2d(2, 4, 1), NORMS[norm](), nn.Flatten(), nn.Linear(36, 3)).to(dtype)


def batch(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(6)
    return torch.randn(8, 2, 3, 3).to(dtype), torch.randint(0, 3, (8,))


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def step(norm: str, dtype: torch.dtype) -> tuple[nn.Module, gs.Workload]:
    net, (x, y) = network(norm, dtype), batch(dtype)
    return net, gs.trace(net, x, target=y, loss=nn.functional.cross_entropy, optimizer=sgd(net.parameters()))


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Sums over a batch are added up in one order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def calls(dtype: torch.dtype) -> list[tuple[Any, tuple[Any, ...]]]:
    """Operators with arguments, their statistics in the type that CPUs keep."""
    x, w, mean = torch.randn(5, 4, 3).to(dtype), torch.rand(4).to(dtype), torch.randn(5, 4, 1).to(dtype)
    statistics = torch.zeros(4, dtype=dtype), torch.ones(4, dtype=dtype)
    mask = [True, True, True]
    return [
        (ATEN.native_layer_norm.default, (x, [3], w[:3], w[:3], 1e-5)),
        (ATEN.native_layer_norm_backward.default, (x, x, [3], mean, mean, w[:3], w[:3], mask)),
        (ATEN.native_batch_norm.default, (x, w, None, *statistics, True, 0.1, 1e-5)),
        (ATEN.native_batch_norm_backward.default, (x, x, w, *statistics, w, w, True, 1e-5, mask)),
        (ATEN._batch_norm_with_update.default, (x, w, w, *statistics, 0.1, 1e-5)),
    ]


@pytest.mark.parametrize("dtype", HALF)
def test_own_operators_return_what_those_of_torch_do(dtype: torch.dtype) -> None:
    for operator, args in calls(dtype):
        own = keeping_single(operator, args)
        assert own is not operator
        assert find_operation(str(name_of(own))) is own
        wanted = operator(*[arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args])
        for place, (tensor, like) in enumerate(zip(own(*args), wanted, strict=True)):
            assert torch.equal(tensor.to(like.dtype), like), operator
            single = place in (1, 2) and "backward" not in str(operator)
            assert tensor.dtype == (torch.float32 if single else like.dtype), operator


def test_mixed_and_whole_precision_stay_with_torch() -> None:
    x, w = torch.rand(2, 3), torch.rand(3)
    norm = ATEN.native_layer_norm.default
    for args in ((x, [3], w, w, 1e-5), (x.half(), [3], w, w, 1e-5), (x.double(), [3], None, None, 1e-5)):
        assert keeping_single(norm, args) is norm
    assert keeping_single(ATEN.mm.default, (x.half(), x.half())) is ATEN.mm.default
    assert own_operator("mm") is None


def test_files_name_no_other_operators_of_the_namespace() -> None:
    for name in (
        "torch.ops.graphsched.mm.default",
        "torch.ops.graphsched.native_layer_norm.out",
        "torch.ops.graphsched",
    ):
        with pytest.raises(FileFormatError, match="only functions over tensors"):
            find_operation(name)


def test_other_shapes_are_refused() -> None:
    x = torch.rand(4, 6).half()
    backward = own_operator("native_layer_norm_backward")
    with strict(), pytest.raises(SignatureError, match=r"mean of graphsched::native_layer_norm_backward is \[1\]"):
        backward(x, x, [6], torch.ones(1), torch.ones(4, 1), None, None, [True, False, False])


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.usefixtures("one_thread")
def test_steps_are_those_of_torch(norm: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """x ─ convolution ─ norm ─ dense ─ loss, gradients, updates: three steps, from a file too."""
    net, work = step(norm, dtype)
    found, states = run(work, steps=3)
    loss, output, after = plain(net, sgd, nn.functional.cross_entropy, *batch(dtype), steps=3)
    assert worst({**found, **states}, {"loss": loss, "output": output, **dict(after.named_parameters())}) == 0
    gs.save_plan(by_hand(work, machine(), "cpu/w0"), tmp_path / "half.plan")
    with gs.Program(gs.load_plan(tmp_path / "half.plan")) as program:
        assert torch.equal(program.run()["loss"], run(work)[0]["loss"])


@pytest.mark.parametrize("norm", [name for name in NORMS if name.startswith(("layer", "batch"))])
def test_statistics_are_the_same_values_on_every_device(norm: str) -> None:
    """A norm's task returns half, single, single (of a batch norm with statistics more), wherever it runs."""
    _, work = step(norm, torch.bfloat16)
    task = next(task for task in work.tasks if "norm" in task.name)
    assert [value.spec.dtype for value in task.outputs[:3] if value.spec] == ["bfloat16", "float32", "float32"]


def test_a_split_batch_has_them_too() -> None:
    _, work = step("layer", torch.bfloat16)
    split = data_parallel(work, ["worker:0", "worker:1"])
    assert sum("native_layer_norm_backward" in task.name for task in split.tasks) == 2


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("norm", NORMS)
def test_steps_on_a_gpu(norm: str, dtype: torch.dtype, mode: str) -> None:
    """The same step on a GPU, beside plain PyTorch there."""
    net, work = step(norm, dtype)
    with gs.Program(by_hand(work, machine("cuda:0"), "cuda:0/s0"), mode=mode) as program:
        for _ in range(3):
            found = program.run()
        states = program.state()
    x, y = batch(dtype)
    loss, output, after = plain(net.cuda(), sgd, nn.functional.cross_entropy, x.cuda(), y.cuda(), steps=3)
    torch.testing.assert_close(found["loss"].cpu(), loss.cpu(), rtol=0.02, atol=0.02)
    torch.testing.assert_close(found["output"].cpu(), output.cpu(), rtol=0.05, atol=0.05)
    wanted = {name: tensor.detach().cpu() for name, tensor in after.named_parameters()}
    assert worst({name: states[name].cpu() for name in wanted}, wanted) < 0.02
