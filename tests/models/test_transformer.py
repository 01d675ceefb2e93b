"""The transformer beside PyTorch's own layers with the same parameters."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphsched.errors import ExperimentError
from models.transformer import EncoderBlock, RowTransformer, SelfAttention


def reference(block: EncoderBlock, width: int, heads: int, hidden: int) -> nn.TransformerEncoderLayer:
    """PyTorch's encoder layer with the parameters of `block`, in fp64."""
    layer = nn.TransformerEncoderLayer(width, heads, hidden, dropout=0.0, batch_first=True).double()
    mine = block.state_dict()
    named = {
        "self_attn.out_proj": "attention.output", "linear1": "dense.0", "linear2": "dense.2",
        "norm1": "norm1", "norm2": "norm2",
    }  # fmt: skip
    state = {
        f"{theirs}.{kind}": mine[f"{ours}.{kind}"] for theirs, ours in named.items() for kind in ("weight", "bias")
    }
    for kind in ("weight", "bias"):
        parts = [mine[f"attention.{part}.{kind}"] for part in ("query", "key", "value")]
        state[f"self_attn.in_proj_{kind}"] = torch.cat(parts)
    layer.load_state_dict(state)
    return layer


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_a_block_is_pytorchs_encoder_layer(heads: int) -> None:
    """x ─ attention ─ + ─ norm ─ dense ─ relu ─ dense ─ + ─ norm"""
    torch.manual_seed(12)
    block = EncoderBlock(8, heads, 16).double()
    for p in block.parameters():
        nn.init.normal_(p)
    x = torch.randn(3, 5, 8, dtype=torch.float64)
    torch.testing.assert_close(block(x), reference(block, 8, heads, 16)(x), rtol=1e-10, atol=1e-12)


def test_heads_are_slices_of_the_width() -> None:
    """What the output weight does not read of a head does not matter."""
    attention = SelfAttention(8, 2)
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        attention.output.weight[:, 4:] = 0.0
        before = attention(x)
        for layer in (attention.query, attention.key, attention.value):
            layer.weight[4:] += 1.0
        torch.testing.assert_close(attention(x), before)
        attention.query.weight[:4] += 1.0
        assert not torch.allclose(attention(x), before)


def test_dropout_acts_in_training_only() -> None:
    block, x = EncoderBlock(8, 2, 16, dropout=0.5), torch.randn(2, 5, 8)
    assert not torch.equal(block(x), block(x))
    block.eval()
    assert torch.equal(block(x), block(x))


def test_the_order_of_rows_matters() -> None:
    net, x = RowTransformer(width=16, heads=2, hidden=16), torch.rand(2, 1, 28, 28)
    assert not torch.allclose(net(x), net(x.flip(2)))
    nn.init.zeros_(net.positions)
    torch.testing.assert_close(net(x), net(x.flip(2)))


@pytest.mark.parametrize("heads", [0, 3, -2])
def test_heads_that_do_not_divide_the_width_are_refused(heads: int) -> None:
    with pytest.raises(ExperimentError, match=f"^{heads} heads do not share a width of 8 evenly: choose a divisor"):
        RowTransformer(width=8, heads=heads)
