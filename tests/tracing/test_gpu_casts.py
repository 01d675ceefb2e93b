"""``torch.autocast("cuda")`` in a traced step, beside torch's own rules for GPUs on tensors without data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import graphsched as gs
from graphsched.errors import TraceError
from graphsched.tracing.gpu_casts import LOWER, WIDEST, gpu_casts
from graphsched.workload import fake_mode
from tests.executors.programs import by_hand, machine
from tests.tracing.steps import run

Make = Callable[..., torch.Tensor]
KINDS = ((torch.float32, torch.float32), (torch.bfloat16, torch.bfloat16), (torch.bfloat16, torch.float32))
CALLS: dict[str, Callable[[Make, Make], Any]] = {
    "linear": lambda a, b: F.linear(a(4, 4), b(4, 4), b(4)),
    "matmul": lambda a, b: a(4, 4) @ b(4, 4),
    "mm": lambda a, b: torch.mm(a(4, 4), b(4, 4)),
    "mv": lambda a, b: torch.mv(a(4, 4), b(4)),
    "bmm": lambda a, b: torch.bmm(a(2, 4, 4), b(2, 4, 4)),
    "addmm": lambda a, b: torch.addmm(b(4), a(4, 4), b(4, 4)),
    "addmv": lambda a, b: torch.addmv(b(4), a(4, 4), b(4)),
    "addr": lambda a, b: torch.addr(a(4, 4), b(4), b(4)),
    "addbmm": lambda a, b: torch.addbmm(a(4, 4), b(2, 4, 4), b(2, 4, 4)),
    "baddbmm": lambda a, b: torch.baddbmm(a(2, 4, 4), b(2, 4, 4), b(2, 4, 4)),
    "chain_matmul": lambda a, b: torch.linalg.multi_dot([a(4, 4), b(4, 4), b(4, 4)]),
    "linalg_multi_dot": lambda a, b: torch.linalg.multi_dot([a(4, 4), b(4, 4)]),
    "linalg_vecdot": lambda a, b: torch.linalg.vecdot(a(4, 4), b(4, 4)),
    "einsum": lambda a, b: torch.einsum("ij,jk->ik", a(4, 4), b(4, 4)),
    "_convolution": lambda a, b: F.conv2d(a(1, 3, 5, 5), b(4, 3, 3, 3), padding=1),
    "convolution": lambda a, b: torch.ops.aten.convolution(a(1, 3, 5), b(4, 3, 3), None, [1], [0], [1], False, [0], 1),
    "conv1d": lambda a, b: F.conv1d(a(1, 3, 5), b(4, 3, 3), b(4)),
    "conv2d": lambda a, b: F.conv2d(a(1, 3, 5, 5), b(4, 3, 3, 3)),
    "conv3d": lambda a, b: F.conv3d(a(1, 3, 5, 5, 5), b(4, 3, 3, 3, 3)),
    "conv_tbc": lambda a, b: torch.conv_tbc(a(5, 1, 3), b(3, 3, 4), b(4)),
    "conv_transpose1d": lambda a, b: F.conv_transpose1d(a(1, 3, 5), b(3, 4, 3)),
    "conv_transpose2d": lambda a, b: F.conv_transpose2d(a(1, 3, 5, 5), b(3, 4, 3, 3)),
    "conv_transpose3d": lambda a, b: F.conv_transpose3d(a(1, 3, 5, 5, 5), b(3, 4, 3, 3, 3)),
    "prelu": lambda a, b: F.prelu(a(4, 4), b(4)),
    "rnn_tanh_cell": lambda a, b: torch.rnn_tanh_cell(a(4, 4), b(4, 4), b(4, 4), b(4, 4)),
    "rnn_relu_cell": lambda a, b: torch.rnn_relu_cell(a(4, 4), b(4, 4), b(4, 4), b(4, 4)),
    "scaled_dot_product_attention": lambda a, b: F.scaled_dot_product_attention(
        a(1, 1, 4, 8), b(1, 1, 4, 8), b(1, 1, 4, 8)
    ),
    "addcdiv": lambda a, b: torch.addcdiv(a(4), b(4), b(4)),
    "addcmul": lambda a, b: torch.addcmul(a(4), b(4), b(4)),
    "atan2": lambda a, b: torch.atan2(a(4), b(4)),
    "bilinear": lambda a, b: F.bilinear(a(2, 3), b(2, 4), b(5, 3, 4)),
    "cross": lambda a, b: torch.cross(a(4, 3), b(4, 3), dim=1),
    "dot": lambda a, b: torch.dot(a(4), b(4)),
    "vdot": lambda a, b: torch.vdot(a(4), b(4)),
    "index_put": lambda a, b: torch.index_put(a(4), [torch.zeros_like(a(2), dtype=torch.long)], b(2)),
    "scatter_add": lambda a, b: torch.scatter_add(a(4), 0, torch.zeros_like(a(2), dtype=torch.long), b(2)),
    "tensordot": lambda a, b: torch.tensordot(a(4, 4), b(4, 4), dims=1),
    "layer_norm": lambda a, b: F.layer_norm(a(4, 4), [4], b(4), b(4)),
    "group_norm": lambda a, b: F.group_norm(a(2, 4, 3), 2, b(4), b(4)),
    "softmax": lambda a, _: F.softmax(a(4, 4), -1),
    "softmax, typed": lambda a, _: F.softmax(a(4, 4), -1, dtype=torch.bfloat16),
    "log_softmax": lambda a, _: F.log_softmax(a(4, 4), -1),
    "sum": lambda a, _: a(4, 4).sum(),
    "sum over rows": lambda a, _: a(4, 4).sum(0),
    "sum, typed": lambda a, _: a(4, 4).sum(0, dtype=torch.float64),
    "sum of integers": lambda a, _: torch.zeros_like(a(4), dtype=torch.int32).sum(),
    "prod": lambda a, _: a(4, 4).prod(0),
    "cumsum": lambda a, _: a(4, 4).cumsum(0),
    "cumprod": lambda a, _: a(4, 4).cumprod(0),
    "linalg_vector_norm": lambda a, _: torch.linalg.vector_norm(a(4, 4)),
    "linalg_matrix_norm": lambda a, _: torch.linalg.matrix_norm(a(4, 4)),
    "norm": lambda a, _: torch.norm(a(4, 4)),
    "normalize": lambda a, _: F.normalize(a(4, 4)),
    "logsumexp": lambda a, _: a(4, 4).logsumexp(0),
    "pow": lambda a, _: a(4) ** 2,
    "pow, tensors": lambda a, b: a(4) ** b(4),
    "pow of a number": lambda a, _: 2 ** a(4),
    "exp": lambda a, _: a(4).exp(),
    "log": lambda a, _: a(4).log(),
    "rsqrt": lambda a, _: a(4).rsqrt(),
    "reciprocal": lambda a, _: 1 / a(4),
    "softplus": lambda a, _: F.softplus(a(4)),
    "cdist": lambda a, b: torch.cdist(a(4, 4), b(4, 4)),
    "cosine_similarity": lambda a, b: F.cosine_similarity(a(4, 4), b(4, 4)),
    "mse_loss": lambda a, b: F.mse_loss(a(4), b(4)),
    "l1_loss": lambda a, b: F.l1_loss(a(4), b(4)),
    "smooth_l1_loss": lambda a, b: F.smooth_l1_loss(a(4), b(4)),
    "huber_loss": lambda a, b: F.huber_loss(a(4), b(4)),
    "kl_div": lambda a, b: F.kl_div(a(4), b(4), reduction="sum"),
    "cross entropy": lambda a, _: F.cross_entropy(a(4, 4), torch.zeros_like(a(4), dtype=torch.long)),
    "nll_loss": lambda a, _: F.nll_loss(a(4, 4), torch.zeros_like(a(4), dtype=torch.long)),
    "with logits": lambda a, b: F.binary_cross_entropy_with_logits(a(4), b(4)),
    "upsample": lambda a, _: F.interpolate(a(1, 1, 4, 4), scale_factor=2, mode="bilinear"),
    "relu": lambda a, _: F.relu(a(4)),
    "add": lambda a, b: a(4) + b(4),
    "mean": lambda a, _: a(4, 4).mean(),
    "gelu": lambda a, _: F.gelu(a(4)),
    "max_pool2d": lambda a, _: F.max_pool2d(a(1, 1, 4, 4), 2),
    "max_pool3d": lambda a, _: F.max_pool3d(a(1, 1, 4, 4, 4), 2),
    "cat": lambda a, b: torch.cat([a(4), b(4)]),
    "stack": lambda a, b: torch.stack([a(4), b(4)]),
    "double": lambda a, _: F.linear(a(4, 4).double(), a(4, 4).double()),
}  # fmt: skip


@pytest.fixture
def as_with_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Regions for GPUs open on a host without one; it has torch's rules for them."""
    monkeypatch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    yield
    with torch.autocast("cpu", dtype=torch.bfloat16):  # torch's rules for CPUs are back
        assert F.linear(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")


def region(dtype: torch.dtype = torch.bfloat16, **kwargs: Any) -> torch.autocast:
    return torch.autocast("cuda", dtype=dtype, **kwargs)


def found(call: Callable[[Make, Make], Any], kinds: tuple[torch.dtype, torch.dtype], device: str) -> str:
    """Type of what `call` returns in a region, of tensors of these types; of a failure its own."""
    first, second = (lambda *shape, dtype=dtype: torch.ones(shape, dtype=dtype, device=device) for dtype in kinds)
    try:
        with region():
            return str(call(first, second).dtype)
    except (RuntimeError, NotImplementedError) as error:
        return type(error).__name__


@pytest.mark.usefixtures("as_with_a_gpu")
@pytest.mark.parametrize("name", CALLS)
def test_types_are_those_of_torch_on_a_gpu(name: str) -> None:
    for kinds in KINDS:
        with FakeTensorMode(), torch.no_grad(), torch.backends.cudnn.flags(enabled=False):
            wanted = found(CALLS[name], kinds, "cuda")
        with fake_mode(), torch.no_grad(), gpu_casts():
            assert found(CALLS[name], kinds, "cpu") == wanted, kinds


@pytest.mark.usefixtures("as_with_a_gpu")
def test_grid_sampler() -> None:
    """Torch has it on a GPU's tensors only where it is built for GPUs."""

    def sample(a: Make, b: Make) -> torch.Tensor:
        return F.grid_sample(a(1, 1, 4, 4), b(1, 4, 4, 2), align_corners=False)

    with fake_mode(), torch.no_grad(), gpu_casts():
        types = [found(sample, kinds, "cpu") for kinds in KINDS]
    assert types == ["torch.float32", "torch.bfloat16", "torch.float32"]


def test_operators_listed_are_called_here() -> None:
    assert {*LOWER, *WIDEST} - {*CALLS} == {"grid_sampler", "gru_cell", "lstm_cell"}  # which have tests of their own


@pytest.mark.usefixtures("as_with_a_gpu")
@pytest.mark.parametrize("layer", [nn.LSTMCell, nn.GRUCell])
def test_recurrent_cells(layer: Any) -> None:
    cell = layer(4, 4)

    def step(x: torch.Tensor) -> Any:
        with region():
            return cell(x)

    returned, _ = run(gs.trace(step, torch.ones(2, 4)))
    assert {str(tensor.dtype) for tensor in returned.values()} == {"torch.bfloat16"}


def training(device: str) -> tuple[nn.Module, Callable[..., Any], tuple[torch.Tensor, ...]]:
    """A step under a region, that calls one layer twice: the network, the step, images and labels."""
    torch.manual_seed(4)
    layers = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 8), nn.LayerNorm(8)
    both = nn.ModuleDict({"net": nn.Sequential(*layers), "head": nn.Linear(8, 8)}).to(device)
    net, head = both["net"], both["head"]
    sgd = torch.optim.SGD(both.parameters(), lr=0.05, momentum=0.9)

    def step(x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        sgd.zero_grad()
        with region():
            output = head(F.gelu(head(net(x))))
            loss = F.cross_entropy(output, y)
        loss.backward()
        sgd.step()
        return {"output": output, "loss": loss}

    return both, step, (torch.randn(16, 1, 8, 8), torch.randint(0, 8, (16,)))


@pytest.mark.usefixtures("as_with_a_gpu")
def test_a_parameter_is_cast_once_in_a_region() -> None:
    """head is called twice: its weight is cast once, and its gradient once back."""
    both, step, batch = training("cpu")
    work = gs.trace(step, *batch)
    casts = [task for task in work.tasks if "to_copy" in task.name and task.reads[0].value.name == "head.weight"]
    back = [task for task in work.tasks if "backward/to_copy" in task.name and task.outputs[0].spec.shape == (8, 8)]
    assert len(casts) == len(back) == 1
    assert both["head"].weight.dtype == torch.float32


@pytest.mark.usefixtures("as_with_a_gpu")
def test_regions_in_regions() -> None:
    """float32 │ bfloat16 │ float32 within it │ float16 within it │ float32 again"""
    layer = nn.Linear(2, 2, bias=False)

    def step(x: torch.Tensor) -> dict[str, torch.Tensor]:
        made = {"before": layer(x)}
        with region():
            made["inside"] = layer(x)
            with region(enabled=False):
                made["off"] = layer(x)
            with region(torch.float16, cache_enabled=False):
                made["half"] = layer(x)
            made["again"] = layer(x)
        made["after"] = layer(x)
        return made

    returned, _ = run(gs.trace(step, torch.ones(2, 2)))
    types = ["float32", "bfloat16", "float32", "float16", "bfloat16", "float32"]
    assert [str(tensor.dtype) for tensor in returned.values()] == [f"torch.{name}" for name in types]


@pytest.mark.usefixtures("as_with_a_gpu")
def test_a_region_around_the_trace_counts() -> None:
    with region():
        work = gs.trace(nn.Linear(2, 2), torch.ones(1, 2))
        assert not torch.is_autocast_enabled("cpu")
    assert run(work)[0]["output"].dtype == torch.bfloat16


@pytest.mark.usefixtures("as_with_a_gpu")
def test_after_an_error_torch_is_as_before() -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        with region():
            return x if F.linear(x, x).sum() > 0 else -x

    with pytest.raises(TraceError, match=r"if F\.linear"):
        gs.trace(step, torch.ones(2, 2))


@pytest.mark.usefixtures("as_with_a_gpu")
def test_what_pytorch_refuses_on_gpus() -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        with region():
            return F.binary_cross_entropy(x, x)

    with pytest.raises(TraceError, match="use binary_cross_entropy_with_logits"):
        gs.trace(step, torch.rand(4))


@pytest.mark.usefixtures("as_with_a_gpu")
def test_attention_computes_in_half_precision() -> None:
    """x ─ attention in a region, by the project's own operator."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        with region():
            return F.scaled_dot_product_attention(x, x, x)

    x = torch.randn(2, 3, 5, 8)
    work = gs.trace(forward, x)
    (task,) = (task for task in work.tasks if "torch.ops.graphsched." in task.signature)
    assert [value.spec.dtype for value in task.outputs if value.spec] == ["bfloat16", "float32"]
    wanted = F.scaled_dot_product_attention(*[x.bfloat16()] * 3)
    torch.testing.assert_close(run(work)[0]["output"], wanted, rtol=0.02, atol=0.02)


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_steps_on_a_gpu(mode: str) -> None:
    """Ten steps beside plain PyTorch on that GPU."""
    _, step, batch = training("cpu")
    with gs.Program(by_hand(gs.trace(step, *batch), machine("cuda:0"), "cuda:0/s0"), mode=mode) as program:
        for _ in range(10):
            returned = program.run()
        states = program.state()
    both, plain, batch = training("cuda")
    batch = tuple(tensor.cuda() for tensor in batch)
    for _ in range(10):
        wanted = plain(*batch)
    assert returned["output"].dtype == wanted["output"].dtype == torch.bfloat16
    torch.testing.assert_close(returned["loss"].cpu(), wanted["loss"].detach().cpu(), rtol=0.02, atol=0.02)
    for name, tensor in both.named_parameters():
        torch.testing.assert_close(states[name].cpu(), tensor.detach().cpu(), rtol=0.05, atol=0.02)
