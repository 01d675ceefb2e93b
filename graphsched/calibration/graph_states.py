"""An operation inside a CUDA graph by what the cache holds: inputs just written, or lost.

One sequence of calls is a plan, with stamps around every call. A round of it:

    op, *op*, write inputs, *op*, write inputs, fill the cache, *op*, fill the cache, write an input, *op*, …

The first of those between asterisks finds what one in a row finds: inputs that it read just before, or of several
sets some that the cache has lost. The cache is filled in every round, so no output's lines are there for any
of them, and differences are of inputs alone. The last, one for each input of some size, tells which of them it waits
for: pooling backwards is given what it pooled, of four times the size, and reads no more than the gradient.

What is pushed out of the cache must be written to memory where it was written before, which makes an operation up to a
tenth longer. In plans some of it was written and some only read, so fills of both kinds take turns, and each figure is
the mean of both. Tasks of other kinds: see `calibration.graph_company`.

Not modelled: inputs that overlap themselves, which are not written; caches of several levels told apart; how much of
what an action pushes out of the cache was written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean, median
from typing import Any, NamedTuple

from graphsched.calibration.graph_operations import SPILL, cache_bytes, rounds_wanted
from graphsched.calibration.graph_rows import STAMPS, sequence_of, stamped_spans_s
from graphsched.calibration.serial_run import Step, bind, clone
from graphsched.costs import CacheStates

ROUNDS = 6
CALLS = 4  # of the operation in a round, beside one for each input of some size
OVERLAPS = 1  # says torch
COUNTS = 0.05  # of the bytes of all inputs: a smaller one is not looked at by itself
TOLD_S = 1e-6  # that an operation must lose with its inputs for it to be told which they are

Call = Callable[[], Any]


class Round(NamedTuple):
    """Places, in a sequence, of the calls that are told apart; the last are those that find one input only."""

    row: int
    written: int
    lost: int
    only: tuple[int, ...] = ()


class Fills(NamedTuple):
    """Fills of the cache by what they leave there: lines that must go to memory first, and such that need not."""

    written: Call
    read: Call


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
    each = that_count([tensor.nbytes for tensor in step.tensors])
    each = each if rounds_wanted(alone_s, returned_bytes, ROUNDS, CALLS + len(each)) else []
    rounds = rounds_wanted(alone_s, returned_bytes, ROUNDS, CALLS + len(each))
    if not rounds or not cache_bytes(device):
        return None
    try:
        pools = [[clone(t) for t in step.tensors] for _ in range(sets)]
        calls = [bind(step.task, tensors) for tensors in pools]
        writes = [[writing([tensor]) for tensor in tensors] for tensors in pools]
        sequence, places = sequence_and_places(calls, writes, filling(device), rounds, each)
        with sequence_of(sequence, device, STAMPS) as program:
            return states_of(stamped_spans_s(program), places, each, len(step.tensors))
    except Exception:  # it has run in a stream: what it raises is about the capture, stamps or memory
        return None


def that_count(nbytes: Sequence[int]) -> list[int]:
    """Which of several inputs are looked at one by one: those of some size, if they are more than one.

    Args:
        nbytes: Of each input.

    Example:
        >>> that_count([100, 4, 50]), that_count([100, 4]), that_count([0]), that_count([])
        ([0, 2], [], [], [])
    """
    found = [k for k, size in enumerate(nbytes) if size > COUNTS * sum(nbytes)]
    return found if len(found) > 1 else []


def sequence_and_places(
    calls: Sequence[Call],
    writes: Sequence[Sequence[Sequence[Call]]],
    fills: Fills,
    rounds: int,
    each: Sequence[int] = (),
) -> tuple[list[Call], list[Round]]:
    """The calls of all rounds in order, and where in it those of each round are that are told apart.

    Args:
        calls: The operation on each set of inputs.
        writes: What writes each input of each set.
        fills: Fill the cache, in turns from round to round.
        rounds: How many.
        each: Numbers of the inputs that are looked at one by one.
    """
    sequence: list[Call] = []
    places: list[Round] = []

    def add(*more: Call) -> int:
        sequence.extend(more)
        return len(sequence) - 1

    for number in range(rounds):
        fill, turn = fills[number % len(fills)], number // len(fills)
        k, after = turn % len(calls), (turn + 1) % len(calls)
        call, write = calls[k], [one for tensor in writes[k] for one in tensor]
        add(*[fill] * (len(calls) > 1), calls[after])
        row = add(call)
        written = add(*write, call)
        lost = add(*write, fill, call)
        places.append(Round(row, written, lost, tuple(add(fill, *writes[k][i], call) for i in each)))
    return sequence, places


def states_of(
    seconds: Sequence[float], places: Sequence[Round], each: Sequence[int] = (), inputs: int = 0
) -> CacheStates:
    """The states that the seconds of a sequence's calls show: medians of the rounds of each fill, and their mean.

    Args:
        seconds: Of the calls of the sequence.
        places: Of those that are told apart; fills take turns from one to the next.
        each: Numbers of the inputs that `Round.only` is about.
        inputs: How many there are.

    Example:
        >>> rounds = [Round(1, 3, 6)] * 2
        >>> states_of([9.0, 5.0, 1.0, 6.5, 1.0, 2.0, 8.0], rounds) == CacheStates(written_s=1.5, lost_s=3.0)
        True
        >>> states_of([5.0, 6.0, 5.5], [Round(0, 1, 2)]) == CacheStates(written_s=1.0, lost_s=1.0)
        True
        >>> states_of([5.0, 1.0, 9.0, 3.0, 7.0], [Round(0, 1, 2, (3, 4))], [0, 2], 3).shares
        (0.75, 0.0, 0.25)
    """
    beyond_s = [[seconds[place] - seconds[one.row] for place in (one.written, one.lost, *one.only)] for one in places]
    by_fill = [zip(*beyond_s[k :: len(Fills._fields)], strict=True) for k in range(len(Fills._fields))]
    medians = [[median(column) for column in columns] for columns in by_fill]
    written_s, lost_s, *only_s = (fmean(column) for column in zip(*filter(None, medians), strict=True))
    told = lost_s - written_s >= TOLD_S
    shares = shares_of([lost_s - each_s for each_s in only_s], each, inputs) if told else ()
    return CacheStates(written_s, max(lost_s, written_s), shares=shares)


def shares_of(gains_s: Sequence[float], each: Sequence[int], inputs: int) -> tuple[float, ...]:
    """Part of each input in what an operation loses without them; empty: not known.

    Args:
        gains_s: What it gains where it finds one of them.
        each: Which these are.
        inputs: How many there are; those not named have no part.

    Example:
        >>> shares_of([3.0, -0.5], [0, 2], 3), shares_of([0.0], [0], 1)
        ((1.0, 0.0, 0.0), ())
    """
    gained = {k: max(0.0, gain_s) for k, gain_s in zip(each, gains_s, strict=True)}
    whole_s = sum(gained.values())
    return tuple(gained.get(k, 0.0) / whole_s for k in range(inputs)) if whole_s else ()


def filling(device: int) -> Fills:
    """Calls that fill the L2 cache of a GPU with what no other call reads or writes."""
    import torch

    held = torch.zeros(int(SPILL * cache_bytes(device)), dtype=torch.uint8, device=f"cuda:{device}")
    return Fills(written=held.zero_, read=held.view(torch.int64).sum)


def writing(tensors: Sequence[Any]) -> list[Call]:
    """Calls of kernels that write what the tensors hold into them again."""
    import torch

    found: list[Call] = []
    for tensor in tensors:
        if tensor.numel() and torch._debug_has_internal_overlap(tensor) != OVERLAPS:
            held, always = clone(tensor), torch.ones((), dtype=torch.bool, device=tensor.device)
            found.append(partial(torch.where, always, held, held, out=tensor))
    return found
