"""Traced training steps on a GPU, in both modes, beside plain PyTorch there."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import graphsched as gs
from tests.executors.programs import by_hand, machine
from tests.tracing.steps import plain, worst
from tests.tracing.test_trace import OPTIMIZERS, STEPS, case

pytestmark = pytest.mark.gpu


@pytest.mark.filterwarnings("ignore:RNN module weights are not part of single contiguous chunk")  # of the plain copy
@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize(("network", "optimizer"), [step for step in STEPS if step[0] != "convolutional"])
def test_ten_steps(network: str, optimizer: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without dropout, whose random numbers a GPU draws by launch, and in plain fp32.

    cuDNN's recurrent layers, which plain PyTorch calls and a trace does not, round to TF32 unless told otherwise.
    """
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    net, x, y = case(network, torch.float32)
    work = gs.trace(
        net, x, target=y, loss=F.cross_entropy, optimizer=OPTIMIZERS[optimizer](net.parameters()), device="cuda:0"
    )
    with gs.Program(by_hand(work, machine("cuda:0"), "cuda:0/s0"), mode=mode) as program:
        for _ in range(10):
            found = program.run()
        states = program.state()
    there = net.to("cuda:0")
    loss, output, stepped = plain(there, OPTIMIZERS[optimizer], F.cross_entropy, x.to("cuda:0"), y.to("cuda:0"), 10)
    assert worst({k: v.cpu() for k, v in states.items()}, {k: v.cpu() for k, v in stepped.named_parameters()}) < 1e-4
    assert worst({k: v.cpu() for k, v in found.items()}, {"loss": loss.cpu(), "output": output.cpu()}) < 1e-3


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_batch_norm_and_dropout_train(mode: str) -> None:
    net, x, y = case("convolutional", torch.float32)
    work = gs.trace(
        net, x, target=y, loss=F.cross_entropy, optimizer=OPTIMIZERS["sgd"](net.parameters()), device="cuda:0"
    )
    with gs.Program(by_hand(work, machine("cuda:0"), "cuda:0/s0"), mode=mode) as program:
        losses = [float(program.run()["loss"]) for _ in range(60)]
        states = program.state()
    assert sum(losses[-10:]) < 0.8 * sum(losses[:10])
    assert int(states["1.num_batches_tracked"]) == 60
