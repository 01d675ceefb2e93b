"""Traced steps beside plain PyTorch, and what a trace says where it cannot be."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphsched as gs
from graphsched.errors import DuplicateNameError, TraceError
from tests.executors.programs import by_hand
from tests.tracing.steps import HERE, Optimizer, plain, run, worst

SGD = functools.partial(torch.optim.SGD, lr=0.05)
OPTIMIZERS: dict[str, Optimizer] = {
    "sgd": SGD,
    "momentum": functools.partial(SGD, momentum=0.9, weight_decay=1e-3, nesterov=True),
    "adamw": functools.partial(torch.optim.AdamW, lr=1e-3),
    "rmsprop": functools.partial(torch.optim.RMSprop, lr=1e-3),
}


class Attention(nn.Module):
    """A transformer block, attention and all, over rows of the image."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.TransformerEncoderLayer(12, 3, 24, dropout=0.0, batch_first=True)
        self.head = nn.Linear(144, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(x[:, 0]).flatten(1))


class Tied(nn.Module):
    """A parameter that two layers share, and a buffer that changes in place."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(144, 5), nn.Linear(5, 144)
        self.decode.weight = nn.Parameter(torch.rand(144, 5) / 9)
        self.again = self.encode
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        hidden = torch.relu_(self.encode(x.flatten(1)))
        return self.again(self.decode(hidden)) + hidden


class Recurrent(nn.Module):
    """Rows of the image, one after another."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.head = nn.GRU(12, 5, batch_first=True), nn.Linear(5, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.rows(x[:, 0])[0][:, -1])


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(24, 5),
    )


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(144, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 5)),
    "convolutional": convolutional,
    "attention": Attention,
    "tied": Tied,
    "recurrent": Recurrent,
}


def case(network: str, dtype: torch.dtype) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    net = NETWORKS[network]().to(dtype)
    return net, torch.randn(6, 1, 12, 12, dtype=dtype), torch.randint(0, 5, (6,))


# -- equal to PyTorch ------------------------------------------------------------------------------


# Adam makes steps of rounding where gradients are 0: of biases before a batch norm, and of attention's keys.
STEPS = [
    *itertools.product(NETWORKS, ("sgd", "momentum")),
    *itertools.product(("mlp", "tied", "recurrent"), ("adamw",)),
]


@pytest.mark.parametrize("grain", ["operator", "module"])
@pytest.mark.parametrize(("network", "optimizer"), STEPS)
def test_one_step_in_double_precision(network: str, optimizer: str, grain: str) -> None:
    net, x, y = case(network, torch.float64)
    work = gs.trace(
        net, x, target=y, loss=F.cross_entropy, optimizer=OPTIMIZERS[optimizer](net.parameters()), grain=grain
    )
    found, states = run(work)
    loss, output, stepped = plain(net, OPTIMIZERS[optimizer], F.cross_entropy, x, y, 1)
    assert worst(found, {"loss": loss, "output": output}) < 1e-12
    assert worst(states, dict(stepped.named_parameters()) | dict(stepped.named_buffers())) < 1e-12


@pytest.mark.parametrize("optimizer", ["adamw", "rmsprop"])
@pytest.mark.parametrize("network", NETWORKS)
def test_one_step_where_gradients_are_not_0(network: str, optimizer: str) -> None:
    """Elements of parameters, of all networks."""
    net, x, y = case(network, torch.float64)
    work = gs.trace(net, x, target=y, loss=F.cross_entropy, optimizer=OPTIMIZERS[optimizer](net.parameters()))
    _, states = run(work)
    _, _, stepped = plain(net, OPTIMIZERS[optimizer], F.cross_entropy, x, y, 1)
    known = {name: p.grad.abs() > 1e-12 for name, p in stepped.named_parameters() if p.grad is not None}
    wanted = {name: p.detach()[known[name]] for name, p in stepped.named_parameters() if known[name].any()}
    assert len(wanted) >= len(known) - 1  # all of a bias before batch norm are 0
    assert worst({name: states[name][known[name]] for name in wanted}, wanted) < 1e-12


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("network", ["mlp", "tied"])
def test_ten_steps_in_single_precision(network: str, optimizer: str) -> None:
    net, x, y = case(network, torch.float32)
    work = gs.trace(net, x, target=y, loss=F.cross_entropy, optimizer=OPTIMIZERS[optimizer](net.parameters()))
    _, states = run(work, steps=10)
    _, _, stepped = plain(net, OPTIMIZERS[optimizer], F.cross_entropy, x, y, 10)
    assert worst(states, dict(stepped.named_parameters())) < 1e-4


@pytest.mark.parametrize("way", ["foreach", "fused"])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum"])
def test_all_parameters_in_one_operator(optimizer: str, way: str) -> None:
    net, x, y = case("convolutional", torch.float64)
    make = functools.partial(OPTIMIZERS[optimizer], **{way: True})
    work = gs.trace(net, x, target=y, loss=F.cross_entropy, optimizer=make(net.parameters()))
    assert len(work.tasks[-1].updates) >= len(list(net.parameters()))
    _, states = run(work, steps=3)
    _, _, stepped = plain(net, make, F.cross_entropy, x, y, 3)
    assert worst(states, dict(stepped.named_parameters())) < 1e-12


@pytest.mark.parametrize("network", NETWORKS)
def test_gradients_without_an_optimizer(network: str) -> None:
    net, x, y = case(network, torch.float64)
    found, _ = run(gs.trace(net, x, target=y, loss=F.cross_entropy))
    _, _, stepped = plain(net, SGD, F.cross_entropy, x, y, 1)
    wanted = {f"grad/{name}": p.grad for name, p in stepped.named_parameters()}
    assert found.keys() == {"loss", "output", *wanted}
    assert all(torch.allclose(found[name], grad, rtol=1e-12, atol=1e-14) for name, grad in wanted.items())


def test_training_goes_on_from_what_the_optimizer_has_kept() -> None:
    net, x, y = case("mlp", torch.float64)
    make = OPTIMIZERS["momentum"]
    optimizer = make(net.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    _, states = run(gs.trace(net, x, target=y, loss=F.cross_entropy, optimizer=optimizer), steps=2)
    for _ in range(2):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    assert worst(states, dict(net.named_parameters())) < 1e-12


def test_a_step_written_as_users_write_it() -> None:
    """Network and optimiser come from around the function, gradients are clipped, the inputs are renamed."""
    net, x, y = case("convolutional", torch.float64)
    net.eval()
    stepper = SGD(net.parameters())

    def step(image: torch.Tensor, label: torch.Tensor) -> dict[str, torch.Tensor]:
        stepper.zero_grad()
        loss = F.cross_entropy(net(image), label)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        stepper.step()
        return {"loss": loss, "norm": norm}

    before = copy.deepcopy(net.state_dict())
    found, states = run(gs.trace(step, x, y))
    assert worst(before, net.state_dict()) == 0.0
    wanted = step(x, y)
    assert worst(found, {name: tensor.detach() for name, tensor in wanted.items()}) < 1e-12
    assert worst(states, dict(net.named_parameters())) < 1e-12


def test_parameters_stepped_by_hand() -> None:
    net, x, y = case("mlp", torch.float64)

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        F.cross_entropy(net(x), y).backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter -= 0.05 * parameter.grad

    work = gs.trace(step, x, y)
    _, states = run(work)
    _, _, stepped = plain(net, SGD, F.cross_entropy, x, y, 1)
    assert worst(states, dict(stepped.named_parameters())) < 1e-12
    assert {work.graph.nodes[t.name]["phase"] for t in work.tasks if t.updates} == {"update"}


def test_the_user_has_what_was_there_before() -> None:
    net, x, y = case("convolutional", torch.float32)
    optimizer = OPTIMIZERS["adamw"](net.parameters())
    parameters, random = list(net.parameters()), torch.get_rng_state()
    before = copy.deepcopy(net.state_dict())
    gs.trace(net, x, target=y, loss=F.cross_entropy, optimizer=optimizer)
    assert all(a is b for a, b in zip(parameters, net.parameters(), strict=True))
    assert all(p.grad is None for p in parameters)
    assert worst(net.state_dict(), before) == 0.0
    assert not optimizer.state
    assert optimizer.param_groups[0]["params"][0] is parameters[0]
    assert optimizer.param_groups[0]["capturable"] is False
    assert torch.equal(torch.get_rng_state(), random)
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()


def test_other_inputs_in_later_runs() -> None:
    net, x, _ = case("mlp", torch.float64)
    found, _ = run(gs.trace(net, x), input=2 * x)
    assert torch.allclose(found["output"], net(2 * x).detach(), rtol=1e-12)


def test_an_operator_that_lays_its_result_out_otherwise_than_its_fake() -> None:
    """The gradient of a mean square error is contiguous, where its fake has the strides of the transposed output."""
    torch.manual_seed(3)
    net = nn.MultiheadAttention(8, 2, batch_first=True).double()
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    found, _ = run(gs.trace(net, x, x, x, target=x, loss=lambda output, target: F.mse_loss(output[0], target)))
    F.mse_loss(net(x, x, x)[0], x).backward()
    wanted = {f"grad/{name}": p.grad for name, p in net.named_parameters()}
    assert all(torch.allclose(found[name], grad, rtol=1e-12, atol=1e-14) for name, grad in wanted.items())


# -- what the workload looks like -----------------------------------------------------------------------


def test_names_phases_and_modules() -> None:
    """0 (conv) ─ 2 (relu) ─ 4 ─ loss ─ … ─ gradients ─ update"""
    net, x, y = case("convolutional", torch.float32)
    work = gs.trace(net, x, target=y, loss=F.cross_entropy, optimizer=SGD(net.parameters()))
    node = work.graph.nodes["0.backward/convolution_backward"]
    assert (node["phase"], node["module"], node["forward"]) == ("backward", "0", "0/convolution")
    assert work.graph.nodes["0/convolution"]["phase"] == "forward"
    assert work.graph.nodes["update/0.weight/add"] | {"task": None} == {"task": None, "phase": "update", "module": "0"}
    assert work["update/0.weight/add"].updates[0].name == "0.weight"
    assert {v.name for v in work.values.values() if v.kind == "input"} == {"input", "target"}
    assert [v.name for v in work.returned()] == ["output", "loss"]
    every = [work.graph.nodes[t.name] for t in work.tasks]
    assert {n["phase"] for n in every} == {"forward", "backward", "update"}
    assert all(n["forward"] in work.graph for n in every if n["phase"] == "backward" and n["module"])


def test_views_are_no_tasks() -> None:
    net = nn.Linear(4, 3)
    work = gs.trace(net, torch.rand(2, 5, 4))
    assert [t.name for t in work.tasks] == ["addmm", "output"]
    assert "torch.ops.aten.t.default($2)" in work["addmm"].signature


def test_attention_and_recurrent_layers_are_operators_of_all_devices() -> None:
    called = {}
    for network in ("attention", "recurrent"):
        net, x, y = case(network, torch.float32)
        work = gs.trace(net, x, target=y, loss=F.cross_entropy)
        called[network] = {t.operation.name.split(".")[-2] for t in work.tasks if t.operation is not None}
    assert {"attention", "attention_backward"} <= called["attention"]
    assert {"addmm", "sigmoid", "tanh"} <= called["recurrent"]
    kinds = ("scaled_dot_product", "gru", "rnn", "cudnn", "mkldnn", "miopen")
    assert not [name for names in called.values() for name in names if any(kind in name for kind in kinds)]


def test_one_task_a_layer_and_phase() -> None:
    net, x, y = case("convolutional", torch.float32)
    work = gs.trace(net, x, target=y, loss=F.cross_entropy, optimizer=SGD(net.parameters()), grain="module")
    names = [t.name for t in work.tasks]
    assert {"0", "1", "2", "0.backward", "1.backward", "update/0", "update/9"} <= set(names)
    assert len(names) < 30


def test_what_is_the_same_in_every_run_is_a_state() -> None:
    def masked(x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(4, 4).triu(1).bool()
        return x.masked_fill(mask, 0.0) + torch.arange(4)

    work = gs.trace(masked, torch.rand(4, 4))
    assert [t.name for t in work.tasks] == ["masked_fill", "output"]
    found, _ = run(work)
    assert torch.equal(found["output"], masked(work.tensors["x"]))


def test_random_numbers_that_nobody_uses_are_drawn_all_the_same() -> None:
    def twice(x: torch.Tensor) -> torch.Tensor:
        F.dropout(x, 0.5)
        return F.dropout(x, 0.5)

    x = torch.rand(64)
    found, _ = run(gs.trace(twice, x))
    torch.manual_seed(7)
    assert torch.equal(found["output"], twice(x))


def test_everything_on_one_device() -> None:
    net, x, y = case("mlp", torch.float32)
    work = gs.trace(net, x, target=y, loss=F.cross_entropy, optimizer=SGD(net.parameters()), device="cuda:0")
    assert {t.devices for t in work.tasks} == {("cuda:0",)}
    assert {v.device for v in work.values.values() if v.kind != "output"} == {"cuda:0"}


def test_devices_by_module() -> None:
    """A network cut between two devices: its parameters, moments and gradients go with the layers."""
    net, x, y = case("mlp", torch.float64)
    optimizer = OPTIMIZERS["momentum"](net.parameters())
    source = gs.trace(net, x, target=y, loss=F.cross_entropy, optimizer=optimizer).source
    work = source.trace(lambda path: "cuda:0" if path in ("0", "1", "2") else "cuda:1")
    assert work["1.backward/mm"].devices == ("cuda:0",)
    assert work["4.backward/mm"].devices == ("cuda:1",)
    assert work.values["4.weight/momentum_buffer"].device == "cuda:1"
    assert {t.devices for t in work.tasks if t.name.startswith("update/1.")} == {("cuda:0",)}


def test_the_same_trace_twice() -> None:
    net, x, y = case("convolutional", torch.float32)
    works = [gs.trace(net, x, target=y, loss=F.cross_entropy, optimizer=SGD(net.parameters())) for _ in range(2)]
    assert works[0].digest() == works[1].digest()


def test_again_with_another_batch() -> None:
    net, x, y = case("convolutional", torch.float32)
    source = gs.trace(net, x, target=y, loss=F.cross_entropy, optimizer=SGD(net.parameters())).source
    work = source.again(inputs={"input": x[:2], "target": y[:2]}).trace()
    assert work.values["output"].spec.shape == (2, 5)


def test_a_traced_plan_goes_to_a_file(tmp_path: Any) -> None:
    net, x, y = case("convolutional", torch.float64)
    work = gs.trace(net.eval(), x, target=y, loss=F.cross_entropy, optimizer=SGD(net.parameters()))
    gs.save_plan(by_hand(work, HERE, "cpu/w0"), tmp_path / "step.plan")
    loaded = gs.load_plan(tmp_path / "step.plan")
    with gs.Program(loaded) as program:
        found, states = program.run(), program.state()
    wanted, after = run(work)
    assert worst(found, wanted) == 0.0
    assert found.keys() == wanted.keys()
    assert worst(states, after) == 0.0


# -- what cannot be traced ---------------------------------------------------------------------------------


def depends(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        return x
    return -x


def writes_out(x: torch.Tensor) -> torch.Tensor:
    return torch.mul(x, x, out=torch.empty(0))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (depends, r"test_trace.py:\d+: `if x.sum\(\) > 0:.*depends on data.*torch.where"),
        (lambda x: x[x > 0], "depends on data"),
        (lambda x: x * x.sum().item(), "depends on data"),
        (lambda x: 3, "result 'output' is a int: the function must return tensors"),
        (lambda x: {"a": (x, 2.0)}, "result 'a.1' is a float"),
        (lambda x: {"a": (x,), "a.0": x * 2}, "two tensors by the name 'a.0'"),
        (lambda x: torch.tensor(x.numpy()), r"x.numpy\(\).*depends on data.*torch.where"),
        (lambda x: print(f"{x.sum():.3f}"), "depends on data"),
        (lambda x: {"a b": x}, "white space"),
        (writes_out, r"test_trace.py:\d+: .*shape \(4,\) to out= of shape \(0,\)"),
        (lambda x: x @ x.T @ x.view(3), r"RuntimeError: .*invalid for input"),
        (lambda x, y: x + y, "missing a required argument: 'y'"),
        (torch.neg, "no signature found for builtin .*neg.*: write a function that calls it"),
        (3, "3 is not a callable object: give a module"),
        (nn.LazyLinear(2), "'weight' has no shape yet, for its lazy module has not run: call the network once before"),
    ],
)
def test_functions_that_cannot_be_traced(function: Callable[..., Any], message: str) -> None:
    with pytest.raises((TraceError, DuplicateNameError), match=message):
        gs.trace(function, torch.rand(4))


def test_a_lazy_module_that_has_run_is_traced() -> None:
    """x ─ linear, whose shape its first call has found"""
    net, x = nn.LazyLinear(2), torch.rand(3, 4)
    wanted = net(x)
    assert torch.equal(run(gs.trace(net, x))[0]["output"], wanted)


@pytest.mark.parametrize("grain", ["operator", "module"])
def test_tensors_made_on_a_device_are_made_where_the_plan_says(grain: str) -> None:
    """A range on a GPU that need not be there ─ twice as much; x ─ ones beside it"""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.arange(3, device="cuda") * 2, torch.ones_like(x, device="cuda")

    found, _ = run(gs.trace(function, torch.rand(3), grain=grain))
    assert torch.equal(found["output.0"], torch.arange(3) * 2)
    assert torch.equal(found["output.1"], torch.ones(3))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target": torch.zeros(2)}, "target= was given without loss="),
        ({"optimizer": SGD([torch.zeros(2, requires_grad=True)])}, "optimizer= was given without loss="),
        (
            {"loss": torch.sum, "optimizer": SGD([torch.zeros(2, requires_grad=True)])},
            r"parameter of shape \(2,\) that no module of the trace owns",
        ),
        ({"grain": "layer"}, "grain is 'layer'"),
    ],
)
def test_arguments_that_do_not_fit(given: dict[str, Any], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        gs.trace(nn.Linear(4, 2), torch.rand(3, 4), **given)


@pytest.mark.parametrize(
    ("loss", "name"),
    [(F.cross_entropy, "cross_entropy"), (nn.CrossEntropyLoss(), "CrossEntropyLoss"), (lambda a, b: a + b, "<lambda>")],
)
def test_a_loss_without_its_target(loss: Callable[..., torch.Tensor], name: str) -> None:
    with pytest.raises(TraceError, match=f"the loss {name} takes the output and a target, and none was given: add tar"):
        gs.trace(nn.Linear(4, 2), torch.rand(3, 4), loss=loss)


@pytest.mark.parametrize("loss", [torch.sum, lambda y: y.sum(), lambda *y: y[0].sum(), lambda y, t=1.0: (y * t).sum()])
def test_a_loss_of_the_output_alone_needs_no_target(loss: Callable[..., torch.Tensor]) -> None:
    assert "loss" in gs.trace(nn.Linear(4, 2), torch.rand(3, 4), loss=loss).values


def test_a_function_with_a_loss_of_its_own() -> None:
    with pytest.raises(TraceError, match="go with a module"):
        gs.trace(depends, torch.rand(3), loss=torch.sum)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (functools.partial(F.cross_entropy, reduction="none"), r"the loss is shape \(4,\): a tensor with one element"),
        (lambda output, y: 3.0, "the loss is a float"),
        (lambda output, y: output.detach().sum(), "the loss depends on no parameter.*unfreeze.*torch.no_grad"),
    ],
)
def test_losses_without_a_gradient(loss: Callable[..., Any], message: str) -> None:
    net, x, y = nn.Linear(4, 3), torch.rand(4, 4), torch.arange(4) % 3
    with pytest.raises(TraceError, match=message):
        gs.trace(net, x, target=y, loss=loss, optimizer=SGD(net.parameters()))


@pytest.mark.filterwarnings("ignore")  # TorchScript is deprecated
def test_a_compiled_module() -> None:
    with pytest.raises(TraceError, match=r"RecursiveScriptModule is compiled: trace the module"):
        gs.trace(torch.jit.script(nn.Linear(4, 3)), torch.rand(2, 4))


def test_sparse_gradients_are_refused_by_name() -> None:
    net = nn.Sequential(nn.Embedding(9, 4, sparse=True), nn.Flatten(), nn.Linear(8, 3))
    with pytest.raises(TraceError, match=r"returned a sparse tensor, which .* without sparse=True"):
        gs.trace(net, torch.ones(4, 2, dtype=torch.int64), target=torch.arange(4) % 3, loss=F.cross_entropy,
                 optimizer=SGD(net.parameters()))  # fmt: skip


def test_anomaly_detection_reads_no_numbers_of_a_trace() -> None:
    net, x, y = nn.Linear(4, 3), torch.rand(4, 4), torch.arange(4) % 3
    step = functools.partial(gs.trace, net, x, target=y, loss=F.cross_entropy, optimizer=SGD(net.parameters()))
    plain_tasks = [task.name for task in step().tasks]
    with torch.autograd.set_detect_anomaly(True):
        assert [task.name for task in step().tasks] == plain_tasks


def test_an_error_names_the_line_of_the_users_code() -> None:
    """Where the package itself looks at what the user's code gave it."""
    net = nn.Linear(4, 3).double()

    def gradients(x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        def loss(given: dict[str, torch.Tensor]) -> torch.Tensor:
            return F.mse_loss(torch.func.functional_call(net, given, (x,)), y)

        return dict(torch.func.grad(loss)(dict(net.named_parameters())))

    with pytest.raises(TraceError, match=r"test_trace.py:\d+: .*shape \(3, 4\) that requires a gradient"):
        gs.trace(lambda x, y: gradients(x, y), torch.rand(5, 4).double(), torch.rand(5, 3).double())


def test_a_parameter_that_was_not_given() -> None:
    holder = {"net": nn.Linear(4, 2)}
    with pytest.raises(TraceError, match=r"shape \(2, 4\) that requires a gradient.*module="):
        gs.trace(lambda x: holder["net"](x), torch.rand(3, 4))
    work = gs.trace(lambda x: holder["net"](x), torch.rand(3, 4), module=holder["net"])
    assert {v.name for v in work.values.values() if v.kind == "state"} == {"weight", "bias"}


def test_a_number_is_no_input() -> None:
    with pytest.raises(TraceError, match="input 'x' is a float"):
        gs.trace(lambda x: x, 2.0)
