"""An operation inside a CUDA graph by what the cache holds: inputs just written, or lost.

One sequence of calls is a plan, with stamps around every call. A round of it:

    op, *op*, write inputs, *op*, write inputs, fill the cache, *op*

The first of the three between asterisks finds what one in a row finds: inputs that it read just before, or of several
sets some that the cache has lost. The cache is filled in every round, so no output's lines are there for any
of them, and differences are of inputs alone. Tasks of other kinds: see `calibration.graph_company`.

Not modelled: inputs that overlap themselves, which are not written; caches of several levels told apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any, NamedTuple

from graphsched.calibration.graph_operations import SPILL, cache_bytes, rounds_wanted
from graphsched.calibration.graph_rows import STAMPS, sequence_of, stamped_spans_s
from graphsched.calibration.serial_run import Step, bind, clone
from graphsched.costs import CacheStates

ROUNDS = 6
CALLS = 4  # of the operation in a round
OVERLAPS = 1  # says torch

Call = Callable[[], Any]


class Round(NamedTuple):
    """Places, in a sequence, of the calls that are told apart."""

    row: int
    written: int
    lost: int


def cache_states(step: Step, device: int, alone_s: float, returned_bytes: int, sets: int) -> CacheStates | None:
    """What a step's operation takes longer than in a row, by the state of the cache; None where that is not known.

    That is: for a long one, one that returns so much that no sequence has room, a GPU whose cache or stamps are not
    known, and one that cannot be captured.

    Args:
        step: Its operation, and tensors like those that it reads.
        device: Number of the GPU.
        alone_s: Device seconds of one.
        returned_bytes: What one returns.
        sets: Of inputs that a row goes round.
    """
    rounds = rounds_wanted(alone_s, returned_bytes, ROUNDS, CALLS)
    if not rounds or not cache_bytes(device):
        return None
    try:
        pools = [[clone(t) for t in step.tensors] for _ in range(sets)]
        calls = [bind(step.task, tensors) for tensors in pools]
        writes = [writing(tensors) for tensors in pools]
        sequence, places = sequence_and_places(calls, writes, filling(device), rounds)
        with sequence_of(sequence, device, STAMPS) as program:
            return states_of(stamped_spans_s(program), places)
    except Exception:  # it has run in a stream: what it raises is about the capture, stamps or memory
        return None


def sequence_and_places(
    calls: Sequence[Call], writes: Sequence[Sequence[Call]], fill: Call, rounds: int
) -> tuple[list[Call], list[Round]]:
    """The calls of all rounds in order, and where in it those of each round are that are told apart.

    Args:
        calls: The operation on each set of inputs.
        writes: What writes each set.
        fill: Fills the cache.
        rounds: How many.
    """
    sequence: list[Call] = []
    places: list[Round] = []

    def add(*more: Call) -> int:
        sequence.extend(more)
        return len(sequence) - 1

    for number in range(rounds):
        k, after = number % len(calls), (number + 1) % len(calls)
        add(*[fill] * (len(calls) > 1), calls[after])
        row = add(calls[k])
        written = add(*writes[k], calls[k])
        places.append(Round(row, written, lost=add(*writes[k], fill, calls[k])))
    return sequence, places


def states_of(seconds: Sequence[float], places: Sequence[Round]) -> CacheStates:
    """The states that the seconds of a sequence's calls show: medians of the rounds.

    Example:
        >>> states_of([9.0, 5.0, 1.0, 6.5, 1.0, 2.0, 8.0], [Round(1, 3, 6)]) == CacheStates(written_s=1.5, lost_s=3.0)
        True
        >>> states_of([5.0, 6.0, 5.5], [Round(0, 1, 2)]) == CacheStates(written_s=1.0, lost_s=1.0)
        True
    """
    written_s, lost_s = (
        median([seconds[place] - seconds[each.row] for each, place in zip(places, column, strict=True)])
        for column in list(zip(*places, strict=True))[1:]
    )
    return CacheStates(written_s, max(lost_s, written_s))


def filling(device: int) -> Call:
    """A call that fills the L2 cache of a GPU with what no other call reads or writes."""
    import torch

    return torch.empty(int(SPILL * cache_bytes(device)), dtype=torch.uint8, device=f"cuda:{device}").zero_


def writing(tensors: Sequence[Any]) -> list[Call]:
    """Calls of kernels that write what the tensors hold into them again."""
    import torch

    found: list[Call] = []
    for tensor in tensors:
        if tensor.numel() and torch._debug_has_internal_overlap(tensor) != OVERLAPS:
            held, always = clone(tensor), torch.ones((), dtype=torch.bool, device=tensor.device)
            found.append(partial(torch.where, always, held, held, out=tensor))
    return found
