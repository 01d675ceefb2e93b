"""An operation inside a CUDA graph behind tasks of other kinds: its code, and what else a row keeps near, is far then.

Two plans have the same calls, in two orders::

    o1 o2 … o12 *op*  o1 o2 … o12 *op*  …
    o1 o2 … o12  o1 o2 … o12  …  *op* *op* …

In the first each call of the operation follows those of other kinds, in the second all but the first follow one
another. Nothing is timed inside them: stamps are kernels of another kind, and would be company of their own.

Not modelled: that a call of the operation costs those behind it something; that less company costs less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from graphsched.calibration.graph_operations import rounds_wanted
from graphsched.calibration.graph_rows import Calls, replay_of, sequence_of

ROUNDS = 16
RUNS = 15
OTHERS = 128  # rows and columns that calls of other kinds work on

Call = Callable[[], Any]


def company_s(calls: Calls, device: int, alone_s: float, returned_bytes: int) -> float:
    """Seconds that an operation takes longer behind `COMPANY_KINDS` other kinds; 0 for a long or a large one.

    Args:
        calls: The same on different inputs.
        device: Number of the GPU.
        alone_s: Device seconds of one.
        returned_bytes: What one returns.

    Raises:
        TaskFailedError: It cannot be captured.
    """
    rounds = rounds_wanted(alone_s, returned_bytes, ROUNDS)
    if not rounds:
        return 0.0
    turns = [calls[k % len(calls)] for k in range(rounds)]
    among_s, behind_s = (_whole_s(order, device) for order in orders(turns, other_calls(device)))
    return max(0.0, among_s - behind_s) / (rounds - 1)


def orders(turns: Sequence[Call], others: Sequence[Call]) -> tuple[list[Call], list[Call]]:
    """The calls of `turns` each behind all `others`, and behind one another.

    Example:
        >>> orders(["a", "b"], ["x", "y"])
        (['x', 'y', 'a', 'x', 'y', 'b'], ['x', 'y', 'x', 'y', 'a', 'b'])
    """
    return [call for turn in turns for call in (*others, turn)], [*list(others) * len(turns), *turns]


def other_calls(device: int) -> list[Call]:
    """Operations of `COMPANY_KINDS` kinds, none like another, of types that few networks have.

    So none of their kernels is one of the operation's own, which would find its code there; that of products, sorts
    and scans is long.
    """
    import torch

    x = torch.full((OTHERS, OTHERS), 0.5, dtype=torch.float64, device=f"cuda:{device}")
    z, w = x.to(torch.complex64), x.to(torch.complex128)
    return [
        partial(torch.mm, x, x),
        partial(torch.sum, x, 0),
        partial(torch.mm, z, z),
        partial(torch.softmax, x, 1),
        partial(torch.sort, x, 1),
        partial(torch.cumsum, x, 1),
        partial(torch.mm, w, w),
        partial(torch.var, x, 1),
        partial(torch.layer_norm, x, [OTHERS]),
        partial(torch.bmm, x.view(4, OTHERS // 4, OTHERS), x.expand(4, OTHERS, OTHERS)),
        partial(torch.amax, x, 1),
        partial(torch.exp, x),
    ]


def _whole_s(order: Sequence[Call], device: int) -> float:
    with sequence_of(order, device) as sequence:
        return replay_of(sequence, RUNS).whole_s
