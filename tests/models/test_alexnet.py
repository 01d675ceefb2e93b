"""AlexNet: sizes after each stage, halves that read only what they should, and the split beside the whole."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from graphsched.errors import ExperimentError
from models.alexnet import AlexNet, AlexNetSplit
from models.data import load
from tests.models.networks import gradients, seeded


def whole_and_split(*devices: str) -> tuple[AlexNet, AlexNetSplit]:
    """Both in fp64, with the same parameters, none of them from the constructor of the split."""
    net, split = AlexNet(dropout=0.0).double(), AlexNetSplit(devices, dropout=0.0)
    split.load_whole(net)
    return net, split


def test_pools_leave_2_by_2_pixels() -> None:
    x, shapes = torch.zeros(1, 1, 28, 28), []
    for stage in AlexNet().stages:
        for layer in stage:
            x = layer(x)
            shapes.append(tuple(x.shape[1:]))
    assert list(dict.fromkeys(shapes)) == [
        (96, 28, 28), (96, 13, 13), (256, 13, 13), (256, 6, 6), (384, 6, 6), (256, 2, 2), (1024,), (4096,),
    ]  # fmt: skip


def test_convolutions_have_the_groups_of_2012() -> None:
    shapes = [tuple(p.shape) for p in AlexNet().parameters() if p.ndim == 4]
    assert shapes == [(96, 1, 5, 5), (256, 48, 5, 5), (384, 256, 3, 3), (384, 192, 3, 3), (256, 192, 3, 3)]


def test_weights_start_with_variance_1_by_inputs_and_biases_with_zero() -> None:
    for values in seeded(AlexNet).parameters():
        values = values.detach()
        if values.ndim == 1:
            assert not values.any()
        else:
            assert float(values.var()) * values[0].numel() == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize("stage", [0, 1])
def test_a_half_reads_no_channel_of_the_other_within_a_stage(stage: int) -> None:
    """conv1 ─ conv2 and conv3 ─ conv4 ─ conv5: what differs in the other half's first layer does not arrive."""
    layers = AlexNet().stages[stage]
    x = torch.rand(2, *((1, 28, 28), (256, 6, 6))[stage])
    with torch.no_grad():
        before = layers(x)
        layers[0].bias[layers[0].bias.numel() // 2 :] += 1.0
        after = layers(x)
    half = before.shape[1] // 2
    torch.testing.assert_close(after[:, :half], before[:, :half])
    assert not torch.allclose(after[:, half:], before[:, half:])


def assert_split(*devices: str) -> None:
    """Scores and gradients of the split are those of the whole network, in fp64."""
    net, split = whole_and_split(*devices)
    images, labels = load().train_images[:2].double(), load().train_labels[:2]
    with torch.no_grad():
        scores = split(images)
        assert scores.device == torch.device(devices[0])
        torch.testing.assert_close(scores.cpu(), net(images), rtol=1e-10, atol=1e-12)
    expected, given = gradients(net, images, labels), gradients(split, images, labels.to(devices[0]))
    for name, gradient in expected.items():
        stage = name.removeprefix("stages.")
        parts = [given[name]] if stage == name else [given[f"halves.{i}.{stage}"] for i in (0, 1)]
        torch.testing.assert_close(torch.cat([p.cpu() for p in parts]), gradient, rtol=1e-9, atol=1e-12)


def test_the_split_computes_what_the_whole_does() -> None:
    assert_split("cpu", "cpu")


@pytest.mark.multigpu
def test_the_split_computes_what_the_whole_does_on_two_gpus() -> None:
    assert_split("cuda:0", "cuda:1")


def test_both_start_from_the_same_parameters() -> None:
    x = torch.rand(2, 1, 28, 28)
    nets = [seeded(lambda: AlexNet()).eval(), seeded(lambda: AlexNetSplit(("cpu", "cpu"))).eval()]
    with torch.no_grad():
        torch.testing.assert_close(nets[0](x), nets[1](x))


def test_the_split_shares_no_memory_with_the_whole() -> None:
    net, split = AlexNet(), AlexNetSplit(("cpu", "cpu"))
    split.load_whole(net)
    mine = {p.data_ptr() for p in net.parameters()}
    assert not mine & {p.data_ptr() for p in split.parameters()}


def test_each_half_stays_on_its_device() -> None:
    """Fake tensors, which need no GPU and refuse an operation on tensors of two devices."""
    devices = torch.device("cuda:0"), torch.device("cpu")
    with FakeTensorMode(), torch.no_grad():
        split = AlexNetSplit(devices)
        assert split(torch.empty(4, 1, 28, 28)).device == devices[0]
        for half, device in zip(split.halves, devices, strict=True):
            assert {p.device for p in half.parameters()} == {device}
    weights = [sum(p.numel() for p in half.parameters()) for half in split.halves]
    assert weights == [(23_322_314 - 40_970) // 2] * 2


@pytest.mark.parametrize("devices", [("cpu",), ("cpu", "cpu", "cpu")])
def test_other_than_two_devices_are_refused(devices: tuple[str, ...]) -> None:
    with pytest.raises(ExperimentError, match=rf"^{len(devices)} devices for AlexNet's 2 halves: name two"):
        AlexNetSplit(devices)
