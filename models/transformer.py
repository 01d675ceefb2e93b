"""A transformer encoder block from dense layers, and a classifier that reads images row by row.

Heads are slices of the width: rows of the query, key and value weights, columns of the output weight. The hidden
units of the feed-forward part are rows of its first weight and columns of its second. Cut along these, a block splits
over devices with one sum after attention and one after the feed-forward part.

Not modelled: masks and sequences of unequal length.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from graphsched.errors import ExperimentError

__all__ = ["EncoderBlock", "RowTransformer", "SelfAttention"]


class SelfAttention(nn.Module):
    """Attention of each token to all tokens of its sequence, in `heads` heads of `width`/`heads` numbers.

    Args:
        width: Numbers of a token.
        heads: Number of heads; divides `width`.
        dropout: Probability of dropping an attention weight while training.

    Raises:
        ExperimentError: `heads` does not divide `width`.

    Source: Vaswani et al., NeurIPS 2017; d2l.ai 11.5.

    Example:
        >>> SelfAttention(width=8, heads=2)(torch.zeros(3, 5, 8)).shape
        torch.Size([3, 5, 8])
    """

    def __init__(self, width: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            raise ExperimentError(f"{heads} heads do not share a width of {width} evenly: choose a divisor of it")
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """From (batch, tokens, width) to the same shape."""
        query, key, value = self._in_heads(self.query(x)), self._in_heads(self.key(x)), self._in_heads(self.value(x))
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        mixed = self.dropout(torch.softmax(scores, dim=-1)) @ value
        joined: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return joined

    def _in_heads(self, x: Tensor) -> Tensor:
        """From (batch, tokens, width) to (batch, heads, tokens, width/heads)."""
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)


class EncoderBlock(nn.Module):
    """Self-attention, then two dense layers on each token; each is added to its input, and the sum normalised.

    Args:
        width: Numbers of a token.
        heads: Number of heads; divides `width`.
        hidden: Units between the two dense layers.
        dropout: Probability of dropping an attention weight or a number of a part's output while training.

    Raises:
        ExperimentError: `heads` does not divide `width`.

    Source: Vaswani et al., NeurIPS 2017; d2l.ai 11.7.

    Example:
        >>> EncoderBlock(width=8, heads=2, hidden=16)(torch.zeros(3, 5, 8)).shape
        torch.Size([3, 5, 8])
    """

    def __init__(self, width: int, heads: int, hidden: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads, dropout)
        self.norm1 = nn.LayerNorm(width)
        self.dense = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width))
        self.norm2 = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """From (batch, tokens, width) to the same shape."""
        h = self.norm1(x + self.dropout(self.attention(x)))
        out: Tensor = self.norm2(h + self.dropout(self.dense(h)))
        return out


class RowTransformer(nn.Module):
    """Encoder blocks over the rows of an image as tokens, and a dense layer on the mean token.

    From images (batch, 1, `side`, `side`) to scores (batch, `classes`). A row of pixels becomes a token by a dense
    layer; what is learned for each position is added to it.

    Args:
        classes: Number of classes.
        side: Rows of an image, and pixels of a row.
        width: Numbers of a token.
        heads: Number of heads; divides `width`.
        hidden: Units between the two dense layers of a block.
        blocks: Number of encoder blocks.
        dropout: As in `EncoderBlock`.

    Raises:
        ExperimentError: `heads` does not divide `width`.

    Example:
        >>> sum(p.numel() for p in RowTransformer().parameters())
        273546
    """

    def __init__(
        self,
        classes: int = 10,
        *,
        side: int = 28,
        width: int = 128,
        heads: int = 4,
        hidden: int = 256,
        blocks: int = 2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = nn.Linear(side, width)
        self.positions = nn.Parameter(torch.randn(side, width) * 0.02)
        self.blocks = nn.Sequential(*(EncoderBlock(width, heads, hidden, dropout) for _ in range(blocks)))
        self.output = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """From images (batch, 1, side, side) to scores (batch, classes)."""
        tokens = self.embedding(x.squeeze(1)) + self.positions
        scores: Tensor = self.output(self.blocks(tokens).mean(dim=1))
        return scores
