"""What every network of `models` does: it learns, starts from a seed, works in fp64, and can be traced."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from models.data import batches, load
from tests.models.networks import NETWORKS, seeded

RATES = {"MLP": 0.1, "LeNet": 0.2, "AlexNet": 0.02, "AlexNet, split": 0.02, "ResNet-18": 0.02, "transformer": 0.05}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_loss_on_real_images_falls(name: str) -> None:
    data = load()
    images, labels = next(batches(data.train_images, data.train_labels, 8, seed=12))
    net = seeded(NETWORKS[name])
    optimizer = torch.optim.SGD(net.parameters(), lr=RATES[name])
    losses = []
    for _ in range(3):
        loss = nn.functional.cross_entropy(net(images), labels)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[0] > losses[1] > losses[2], losses


@pytest.mark.parametrize("name", NETWORKS)
def test_a_seed_decides_the_parameters(name: str) -> None:
    first, again, other = (next(seeded(NETWORKS[name], seed).parameters()) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("name", NETWORKS)
def test_fp64_gives_the_same_scores_more_exactly(name: str) -> None:
    net = seeded(NETWORKS[name]).eval()
    x = load().test_images[:2]
    with torch.no_grad():
        scores = net(x)
        exact = net.double()(x.double())
    assert exact.dtype == torch.float64
    assert exact.shape == (2, 10)
    torch.testing.assert_close(scores.double(), exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_trace_with_fake_tensors_holds_for_other_images(name: str) -> None:
    net = seeded(NETWORKS[name]).eval()
    x, other = load().test_images[:4].split(2)
    with torch.no_grad():
        traced = make_fx(net, tracing_mode="fake", _allow_non_fake_inputs=True)(x)
        torch.testing.assert_close(traced(other), net(other), rtol=0, atol=0)
