"""The memory that cuBLAS works in, which torch keeps by stream and takes again at the stream's next product.

A graph that was captured with torch's goes on to use it after torch has given it back: other tensors lie there then,
and each spoils the other. It is given back by ``torch.compile(mode="reduce-overhead")`` while it records, and in torch
2.11 and later by a CUDA graph of the same stream that is destroyed (pytorch/pytorch#193402).

Not modelled: products that other threads issue during a capture, whose memory is given back with the graph's; CUDA
graphs that were captured outside this package with torch's, as `torch.cuda.graph` does: each capture gives theirs back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_torchs = [False]


def give_back() -> None:
    """Let torch take new memory at the next product of each stream."""
    import torch

    torch._C._cuda_clearCublasWorkspaces()


@contextmanager
def graphs_own() -> Iterator[None]:
    """What is captured inside works in memory of the graph's, that nothing else uses as long as the graph lives."""
    if _torchs[0]:
        yield
        return
    give_back()
    try:
        yield
    finally:
        give_back()


@contextmanager
def torchs_own() -> Iterator[None]:
    """Captures inside work in torch's memory, as eager calls do: for graphs that are gone before that is given back."""
    before, _torchs[0] = _torchs[0], True
    try:
        yield
    finally:
        _torchs[0] = before
