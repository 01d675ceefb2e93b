"""An operation inside a CUDA graph behind tasks of other kinds: the instruction cache holds no longer its code.

Of two kinds each is measured in a row, and both in turn::

    *op op op …*   *v v v …*   *v op v op …*   *o1 … o12 o1 … o12 …*   *o1 … o12 op o1 … o12 op …*

Twelve other kinds leave nothing of its code: what the last takes longer than the first and the fourth, it takes
without. What the third takes longer than the first and the second, each of the two loses to the other: the one its own
figure times the part of the cache that the other's code fills, and the other way round. Two probes, sums in all but
name and so of one size, tell first what they fill.

All is one graph, so that all is of one launch and one place in memory; stamps stand between the parts alone, for they
hide some of what is measured. The operation reads the same inputs every time, what it returns is given back at once,
and other kinds work on little: so data is where it was, and only code is lost.

Not modelled: what a call costs those behind it beside code; kernels whose code alone is more than the cache holds.

Source: that kernels evict each other's code, Jia et al., Dissecting the NVIDIA Volta GPU architecture via
microbenchmarking (2018), section 3.7, which measures the sizes of the instruction caches.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from graphsched.calibration.fitting import median
from graphsched.calibration.graph_operations import HELD, cache_bytes, rounds_wanted
from graphsched.calibration.graph_rows import COLD_RUNS, sequence_of
from graphsched.executors.stamp_kernel import StampMemory

ROUNDS = 16
CALLS = 3  # of the operation in a round
RUNS = 15
OTHERS = 128  # rows and columns that calls of other kinds work on
PROBED = 2048  # rows that probes work on

Call = Callable[[], Any]


class Code(NamedTuple):
    """What the instruction cache has to do with an operation.

    Attributes:
        company_s: What it takes longer where the cache holds none of its code.
        footprint: Part of the cache that its code takes; None: not known.
    """

    company_s: float = 0.0
    footprint: float | None = None


class Region(NamedTuple):
    """Calls that are timed together, and those right before them."""

    before: Sequence[Call]
    timed: Sequence[Call]


def code_of(call: Call, device: int, alone_s: float, nbytes: int) -> Code:
    """What the instruction cache has to do with an operation.

    Nothing for a long one, and for one that reads and writes more than the cache of data is sure to hold: there the
    others' data would count as code.

    Args:
        call: Of the operation.
        device: Number of the GPU.
        alone_s: Device seconds of one.
        nbytes: What one reads and returns.

    Raises:
        TaskFailedError: It cannot be captured.
        ExecutionError: There are no stamps here.
    """
    rounds = rounds_wanted(alone_s, 0, ROUNDS, CALLS)
    if not rounds or nbytes > HELD * cache_bytes(device):
        return Code()
    probe, known = reference(device)
    company_s, both_s = _losses_s(_dropping(call), probe, rounds, device)
    return Code(company_s, footprint(both_s, company_s, known))


def footprint(both_s: float, company_s: float, probe: Code) -> float | None:
    """Part of the instruction cache that an operation's code takes, from 0 to 1.

    Args:
        both_s: What it and a probe in turn take longer than each in a row.
        company_s: Of the operation.
        probe: Its code.

    Example:
        >>> footprint(1.5, 1.0, Code(2.0, 0.5)), footprint(9.0, 1.0, Code(2.0, 0.5)), footprint(1.5, 1.0, Code())
        (0.5, 1.0, None)
    """
    if not probe.company_s or probe.footprint is None:
        return None
    return min(1.0, max(0.0, (both_s - company_s * probe.footprint) / probe.company_s))


@functools.cache
def reference(device: int) -> tuple[Call, Code]:
    """A probe on a GPU, and its code: two of one size lose the same part to each other."""
    first, second = probes(device)
    (first_s, both_s), (second_s, _) = (_losses_s(a, b, ROUNDS, device) for a, b in ((first, second), (second, first)))
    lost_s = first_s + second_s
    return first, Code(first_s, min(1.0, both_s / lost_s) if lost_s else None)


def _losses_s(call: Call, probe: Call, rounds: int, device: int) -> tuple[float, float]:
    """Seconds that an operation takes longer behind all other kinds, and that it and a probe in turn do."""
    parts = regions(call, probe, other_calls(device), rounds)
    nothing_s, row_s, probe_s, both_s, others_s, among_s = regions_s(parts, device)
    company_s = among_s - others_s - row_s + nothing_s
    together_s = both_s - probe_s - row_s + nothing_s
    return max(0.0, company_s) / rounds, max(0.0, together_s) / rounds


def regions(call: Call, probe: Call, others: Sequence[Call], rounds: int) -> list[Region]:
    """Nothing, the operation in a row, the probe in a row, both in turn, all others, all others and it in turn.

    Each is behind a round of its own.

    Example:
        >>> [" ".join(timed) for before, timed in regions("o", "v", "xy", 2)]
        ['', 'o o', 'v v', 'v o v o', 'x y x y', 'x y o x y o']
        >>> [" ".join(before) for before, timed in regions("o", "v", "xy", 2)]
        ['o', 'o', 'v', 'v o', 'x y', 'x y o']
    """
    turns = [[call], [probe], [probe, call], [*others], [*others, call]]
    return [Region(turns[0], []), *(Region(turn, turn * rounds) for turn in turns)]


def regions_s(parts: Sequence[Region], device: int) -> list[float]:
    """Seconds of each region of one graph, from the stamp before to the stamp behind it; medians of replays."""
    memory, sequence = StampMemory(device, 2 * len(parts)), list[Call]()
    for k, part in enumerate(parts):
        begin, end = (partial(_mark, memory, place, device) for place in (2 * k, 2 * k + 1))
        sequence += [*part.before, begin, *part.timed, end]
    samples = []
    with sequence_of(sequence, device) as program:
        for _ in range(COLD_RUNS + RUNS):
            program.time_once()
            times = memory.read()
            samples.append([(end - start) * 1e-9 for start, end in zip(times[::2], times[1::2], strict=True)])
    return [median(found) for found in zip(*samples[COLD_RUNS:], strict=True)]


def _mark(memory: StampMemory, place: int, device: int) -> None:
    import torch

    memory.write(place, torch.cuda.current_stream(device))


def probes(device: int) -> tuple[Call, Call]:
    """Two operations whose code is much, and of one size, of a type that few networks have."""
    import torch

    x = torch.full((PROBED, OTHERS), 0.5, dtype=torch.float64, device=f"cuda:{device}")
    return _dropping(torch.prod, x, 0), _dropping(torch.nansum, x, 0)


def other_calls(device: int) -> list[Call]:
    """Operations of `COMPANY_KINDS` kinds, none like another, of types that few networks have.

    So none of their kernels is one of the operation's own, which would find its code there; that of products, sorts
    and scans is long.
    """
    import torch

    x = torch.full((OTHERS, OTHERS), 0.5, dtype=torch.float64, device=f"cuda:{device}")
    z, w = x.to(torch.complex64), x.to(torch.complex128)
    return [
        _dropping(torch.mm, x, x),
        _dropping(torch.sum, x, 0),
        _dropping(torch.mm, z, z),
        _dropping(torch.softmax, x, 1),
        _dropping(torch.sort, x, 1),
        _dropping(torch.cumsum, x, 1),
        _dropping(torch.mm, w, w),
        _dropping(torch.var, x, 1),
        _dropping(torch.layer_norm, x, [OTHERS]),
        _dropping(torch.bmm, x.view(4, OTHERS // 4, OTHERS), x.expand(4, OTHERS, OTHERS)),
        _dropping(torch.amax, x, 1),
        _dropping(torch.exp, x),
    ]


def _dropping(function: Callable[..., Any], *args: Any) -> Call:
    """A call that returns nothing, so that the next one may write to the same memory."""

    def call() -> None:
        function(*args)

    return call
