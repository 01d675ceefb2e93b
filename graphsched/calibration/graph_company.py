"""An operation inside a CUDA graph behind tasks of other kinds: the instruction cache holds no longer its code.

Of two kinds each is measured in a row, and both in turn::

    *op op op …*   *v v v …*   *v op v op …*   *o1 … o12 o1 … o12 …*   *o1 … o12 op o1 … o12 op …*

Twelve other kinds leave nothing of its code: what the last takes longer than the first and the fourth, it takes
without. What the third takes longer than the first and the second, each of the two loses to the other: the one its own
figure times the part of the cache that the other's code fills, and the other way round. Two probes, sums in all but
name and so of one size, tell first what they fill.

An operation that works on much makes the others longer too, for it takes room from their lines in the cache of data;
that must not count as its own. So the same is measured once more with a fill of that cache at the start of each round:
there the others have lost theirs in any case. Then code is lost to that cache as well and comes from memory: what the
operation takes longer there than without fills is `Code.code_lost_s`, and what it takes longer in both `company_s`.

All is one graph, so that all is of one launch and one place in memory; stamps stand between the parts alone, for they
hide some of what is measured. The operation reads the same inputs every time, what it returns is given back at once,
and other kinds work on little: so data is where it was. Behind a fill inputs are written again right before the
operation, for to wait for data would hide a wait for code.

Not modelled: what a call costs those behind it beside code; kernels whose code alone is more than the cache holds.

Source: that kernels evict each other's code, Jia et al., Dissecting the NVIDIA Volta GPU architecture via
microbenchmarking (2018), section 3.7, which measures the sizes of the instruction caches.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

from graphsched.calibration.graph_operations import HELD, cache_bytes, rounds_wanted
from graphsched.calibration.graph_rows import COLD_RUNS, sequence_of
from graphsched.calibration.graph_states import filling
from graphsched.executors.stamp_kernel import StampMemory

ROUNDS = 16
FILLED_ROUNDS = 8  # of those with a fill of the cache, which takes longer than the rest of a round
CALLS = 3  # of the operation in a round
RUNS = 15
OTHERS = 128  # rows and columns that calls of other kinds work on
PROBED = 2048  # rows that probes work on
TURNS = 5  # regions of turns, behind the one of nothing and before those with fills
SUM = 1  # place of a sum among the other kinds

Call = Callable[[], Any]


class Code(NamedTuple):
    """What the instruction cache has to do with an operation.

    Attributes:
        company_s: What it takes longer where the cache holds none of its code.
        footprint: Part of the cache that its code takes; None: not known.
        code_lost_s: What it takes longer beyond that where the cache of data has lost its code too.
    """

    company_s: float = 0.0
    footprint: float | None = None
    code_lost_s: float = 0.0

    @property
    def lost_s(self) -> float:
        """What it takes longer where its code comes from memory."""
        return self.company_s + self.code_lost_s


class Losses(NamedTuple):
    """Seconds that an operation takes longer behind all other kinds; also where the cache of data was filled since; and
    that it and a probe in turn take longer than each in a row."""

    others_s: float
    filled_s: float
    both_s: float

    @property
    def company_s(self) -> float:
        """Of the operation alone: what others lose to it is in one of the two figures."""
        return min(self.others_s, self.filled_s)


class Region(NamedTuple):
    """Calls that are timed together, and those right before them."""

    before: Sequence[Call]
    timed: Sequence[Call]


def code_of(call: Call, writes: Sequence[Call], device: int, alone_s: float, nbytes: int) -> Code:
    """What the instruction cache has to do with an operation.

    Nothing for a long one. One that reads and writes more than the cache of data is sure to hold takes the others' data
    from there, which without fills would count as code: of it only what it takes longer where its code comes from
    memory is told, as `Code.company_s`, for so large ones leave little code there.

    Args:
        call: Of the operation.
        writes: What writes its inputs again.
        device: Number of the GPU.
        alone_s: Device seconds of one.
        nbytes: What one reads and returns.

    Raises:
        TaskFailedError: It cannot be captured.
        ExecutionError: There are no stamps here.
    """
    rounds = rounds_wanted(alone_s, 0, ROUNDS, CALLS)
    if not rounds:
        return Code()
    probe, known = reference(device)
    if nbytes > HELD * cache_bytes(device):
        return Code(_filled_s(_dropping(call), probe, writes, rounds, device))
    losses = _losses(_dropping(call), probe, writes, rounds, device)
    company_s = losses.company_s
    return Code(company_s, footprint(losses.both_s, company_s, known), losses.filled_s - company_s)


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
    one, other = (_losses(a, b, (), ROUNDS, device) for a, b in ((first, second), (second, first)))
    lost_s = one.company_s + other.company_s
    return first, Code(one.company_s, min(1.0, one.both_s / lost_s) if lost_s else None)


def _losses(call: Call, probe: Call, writes: Sequence[Call], rounds: int, device: int) -> Losses:
    """What an operation takes longer; nothing is below 0."""
    parts = _regions(call, probe, writes, rounds, device)
    nothing_s, *found_s = regions_s(parts, device)
    row_s, probe_s, both_s, others_s, among_s = ((seconds - nothing_s) / rounds for seconds in found_s[:TURNS])
    return Losses(
        others_s=max(0.0, among_s - others_s - row_s),
        filled_s=_behind_fills_s(found_s[TURNS:], rounds),
        both_s=max(0.0, both_s - probe_s - row_s),
    )


def _filled_s(call: Call, probe: Call, writes: Sequence[Call], rounds: int, device: int) -> float:
    """`Losses.filled_s` alone."""
    parts = _regions(call, probe, writes, rounds, device)
    return _behind_fills_s(regions_s(parts[1 + TURNS :], device), rounds)


def _regions(call: Call, probe: Call, writes: Sequence[Call], rounds: int, device: int) -> list[Region]:
    often = rounds, min(rounds, FILLED_ROUNDS)
    return regions(call, probe, other_calls(device), [filling(device).written], writes, often)


def _behind_fills_s(found_s: Sequence[float], rounds: int) -> float:
    """What an operation takes longer behind fills and all others than behind fills, from the regions with fills."""
    fill_s, after_s, fill_others_s, fill_among_s = found_s
    return max(0.0, (fill_among_s - fill_others_s) - (after_s - fill_s)) / min(rounds, FILLED_ROUNDS)


def regions(
    call: Call,
    probe: Call,
    others: Sequence[Call],
    fill: Sequence[Call],
    writes: Sequence[Call],
    rounds: tuple[int, int],
) -> list[Region]:
    """Nothing; the operation in a row, the probe in a row, both in turn, all others, all others and it in turn; then
    behind fills of the cache nothing, the operation, all others, all others and it.

    Each is behind a round of its own.

    Args:
        call, probe, others, fill, writes: What the rounds are made of.
        rounds: Without fills, and with them.

    Example:
        >>> found = regions("o", "v", "xy", "f", "w", (2, 1))
        >>> [" ".join(timed) for before, timed in found]
        ['', 'o o', 'v v', 'v o v o', 'x y x y', 'x y o x y o', 'f w', 'f w o', 'f x y w', 'f x y w o']
        >>> [" ".join(before) for before, timed in found]
        ['o', 'o', 'v', 'v o', 'x y', 'x y o', 'f w', 'f w o', 'f x y w', 'f x y w o']
    """
    turns = [[call], [probe], [probe, call], [*others], [*others, call]]
    ready = [[*fill, *writes], [*fill, *others, *writes]]
    filled = [ready[0], [*ready[0], call], ready[1], [*ready[1], call]]
    often = [rounds[0]] * len(turns) + [rounds[1]] * len(filled)
    return [Region(turns[0], []), *(Region(turn, turn * n) for turn, n in zip([*turns, *filled], often, strict=True))]


def regions_s(parts: Sequence[Region], device: int) -> list[float]:
    """Seconds of each region of one graph, from the stamp before to the stamp behind it; medians of replays."""
    memory, sequence = StampMemory(device, 2 * len(parts)), list[Call]()
    for k, part in enumerate(parts):
        begin, end = (marking(memory, place, device) for place in (2 * k, 2 * k + 1))
        sequence += [*part.before, begin, *part.timed, end]
    samples = []
    with sequence_of(sequence, device) as program:
        for _ in range(COLD_RUNS + RUNS):
            program.time_once()
            times = memory.read()
            samples.append([(end - start) * 1e-9 for start, end in zip(times[::2], times[1::2], strict=True)])
    return [median(found) for found in zip(*samples[COLD_RUNS:], strict=True)]


def marking(memory: StampMemory, place: int, device: int) -> Call:
    """A call that writes the GPU's clock to a place."""
    import torch

    return lambda: memory.write(place, torch.cuda.current_stream(device))


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
