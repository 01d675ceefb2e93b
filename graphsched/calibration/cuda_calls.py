"""Host time of the calls that the executors make for a plan on CUDA devices, measured in plans.

A call takes longer among others than in a row of itself, and a record beside a launch longer than one beside
records. So small plans of tiny operations are run that differ in one thing only, and what each has more of
host time than another is what that thing costs. The plans take turns, and each is measured in units of the
plainest, for the speed of a core changes while they run.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from statistics import fmean, median
from typing import Any

from graphsched.calibration import tiny_plans
from graphsched.calibration.cold_calls import ColdCalls, colds_on
from graphsched.calibration.cuda_clock import new_stream
from graphsched.calibration.tiny_plans import (
    MIXED,
    Build,
    company_actions,
    company_order,
    plain_row,
    plans_on,
    program_of,
)
from graphsched.calibration.tiny_tasks import KINDS
from graphsched.costs import company_share
from graphsched.executors.collector import no_collector
from graphsched.executors.program import Program
from graphsched.executors.watch import Watch
from graphsched.platform import Dispatch

ROUNDS = 25
FIRST_CALLS = 6
CALLS = 200  # of a question whether a lane is done
LONGEST_S = 60.0  # of waiting for what is over
RECORD_SHARE = 0.5  # of what a wait and the record that it waits for take together


class Yardstick:
    """A row of tiny operations on one stream: how fast the dispatching thread is at present."""

    def __init__(self, gpu: int = 0) -> None:
        self._program = program_of(plain_row, (gpu,))
        for _ in range(3):
            self.sample_s()

    def sample_s(self) -> float:
        """Host seconds of one of the operations, in the second of two runs of some milliseconds.

        The first one finds the processor's caches as whatever ran before left them, and takes longer the more that was.
        """
        return _issue_s(self._program)

    def close(self) -> None:
        """Give streams and memory back."""
        self._program.close()


def tiny_call_s(gpu: int = 0, samples: int = 7) -> float:
    """Host seconds of a tiny operation in a row, at present; median of the samples."""
    with no_collector(), contextlib.closing(Yardstick(gpu)) as yardstick:
        return median([yardstick.sample_s() for _ in range(samples)])


def mixed_calls(gpu: int = 0, samples: int = 25) -> float:
    """`Dispatch.mixed_calls`: the first quartile of the samples, for others on the core make it more."""
    with no_collector(), contextlib.closing(Yardstick(gpu)) as yardstick:
        mixed = ColdCalls(gpu)
        ratios = sorted(mixed.sample(()).row_s / yardstick.sample_s() for _ in range(samples))
    return ratios[len(ratios) // 4]


@dataclass(frozen=True)
class Taken:
    """Host seconds of issuing an action of each plan, and what timing events add to the plainest.

    Attributes:
        seconds: By plan; medians.
        start_s: What the first actions of a run take longer than later ones.
        timed_s: What the timing events of one action take.
    """

    seconds: Mapping[str, float]
    start_s: float
    timed_s: float


def call_figures(gpus: Sequence[int], company: Mapping[str, float]) -> dict[str, Any]:
    """Fields of `Dispatch` that are host time of calls, in seconds; those between GPUs if there are two.

    Args:
        gpus: Numbers of the GPUs.
        company: See `copy_company.company_calls`.
    """
    taken = _in_turns(plans_on(tuple(gpus)))
    seconds = taken.seconds
    base_s = seconds["row"]
    free_s = max(0.0, seconds["chain"] - base_s)
    waits_s = max(0.0, seconds["to and fro"] - seconds["lanes"] - free_s)
    figures: dict[str, Any] = {
        "call_s": base_s,
        "start_s": taken.start_s,
        "timed_record_s": taken.timed_s / 2,
        "switch_s": max(0.0, seconds["lanes"] - base_s),
        "record_s": RECORD_SHARE * waits_s,
        "wait_s": (1 - RECORD_SHARE) * waits_s,
        "free_s": free_s,
        "copy_s": seconds["copies in"],
        "copy_out_s": seconds["copies out"],
        "blocking_in_s": seconds["blocking in"],
        "blocking_out_s": seconds["blocking out"],
        "fresh_out_s": seconds["fresh out"],
        "colds": colds_on(gpus[0]),
        "mixed_calls": mixed_calls(gpus[0]),
        "query_s": _query_s(gpus[0]),
        "asked_s": _asked_s(gpus[0]),
    }
    figures |= {name: yardsticks * base_s for name, yardsticks in company.items()}
    if len(gpus) > 1:
        figures |= {
            "device_switch_s": max(0.0, seconds["gpus"] - base_s),
            "peer_copy_s": seconds["copies across"],
        }
    figures["changes"] = _changes(seconds, figures, len(gpus))
    figures["change_s"] = figures["changes"][0][1]
    if len(gpus) > 1:
        figures["device_wait_s"] = _device_wait_s(seconds, figures)
    return figures


def _changes(seconds: Mapping[str, float], known: Mapping[str, Any], gpus: int) -> tuple[tuple[int, float], ...]:
    """What calls take longer after others of other kinds than in a row of their own, by the number of kinds between.

    It does not fall: what is less than after fewer kinds is noise.
    """
    found = [(count - 1, seconds[f"{count} kinds"] - fmean([seconds[k] for k in KINDS[:count]])) for count in MIXED]
    found.append((len(company_order(gpus)) - 1, seconds["company"] - _company_s(seconds, known, gpus)))
    rising, last_s = [], 0.0
    for others, more_s in found:
        last_s = max(last_s, more_s)
        rising.append((others, last_s))
    return tuple(rising)


def _company_s(seconds: Mapping[str, float], known: Mapping[str, Any], gpus: int) -> float:
    """Host seconds of an action of the plan of all kinds, if each call took what it does in a row."""
    order, actions, sums, before = company_order(gpus), company_actions(gpus), 0.0, None
    for kind, gpu, other in [order[i % len(order)] for i in range(actions)]:
        lane = (gpu, other, kind if kind.startswith("copies") else "")
        sums += seconds[kind]
        if gpu != other:
            sums += known["switch_s"] + known["device_switch_s"]
        elif before is None or before[0] == gpu:
            sums += known["switch_s"] if lane != before else 0.0
        else:
            sums += known["device_switch_s"]
        before = lane
    return sums / actions


def _device_wait_s(seconds: Mapping[str, float], known: Mapping[str, Any]) -> float:
    """What waiting for another GPU's event takes; of that plan a task and a copy make a pair.

    A pair has two switches to another GPU and one to the copy's stream, a wait and a record each, and gives the
    result of a task and of a copy back. Between two tasks there is a copy one way, between two copies one way a task
    and a copy the other, and what they take longer for that is no part of the wait.
    """
    change_s = Dispatch(changes=known["changes"]).change_after_s
    company_s = known["peer_company_s"] * company_share(2) or change_s(2)
    calls_s = known["call_s"] + change_s(1) + known["peer_copy_s"] + company_s
    calls_s += 2 * known["device_switch_s"] + known["switch_s"]
    waits_s = known["wait_s"] + 2 * known["record_s"] + 2 * known["free_s"]
    return float(max(known["wait_s"], 2 * seconds["between gpus"] - calls_s - waits_s))


def _in_turns(plans: Mapping[str, tuple[Build, tuple[int, ...]]]) -> Taken:
    """Run the plans in turn; each figure is the median over rounds of its ratio to the round's plainest plan."""
    rounds: list[dict[str, float]] = []
    starts, timed = [], []
    with ExitStack() as stack:
        stack.enter_context(no_collector())
        programs = {name: stack.enter_context(program_of(*plan)) for name, plan in plans.items()}
        plain = programs[next(iter(plans))]
        for number in range(ROUNDS + 2):
            found = {name: _issue_s(program) for name, program in programs.items()}
            base_s = 0.5 * (next(iter(found.values())) + _issue_s(plain))
            row = _timed_issue_s(plain)
            if number >= 2:  # the first ones take first calls of libraries
                rounds.append({"": base_s} | {name: seconds / base_s for name, seconds in found.items()})
                start_s = sum(row[:FIRST_CALLS]) - FIRST_CALLS * median(row[FIRST_CALLS:])
                starts.append(start_s / base_s)
                timed.append((sum(row) - start_s) / tiny_plans.ACTIONS / base_s - 1)
    unit_s = median([r[""] for r in rounds])
    seconds = {name: unit_s * median([r[name] for r in rounds]) for name in plans}
    return Taken(seconds, unit_s * max(0.0, median(starts)), unit_s * max(0.0, median(timed)))


def _query_s(gpu: int) -> float:
    """Host seconds of asking a stream that is done whether it is."""
    return _repeated_s(new_stream(gpu).query)


def _asked_s(gpu: int) -> float:
    """Host seconds of waiting for a stream that is done, as the executors wait."""
    watch, query = Watch(LONGEST_S), new_stream(gpu).query
    watch.begin()
    return _repeated_s(partial(watch.poll, query, "a stream that is done"))


def _repeated_s(call: Callable[[], Any]) -> float:
    """Seconds of one of many calls in a row."""
    samples = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(CALLS):
            call()
        samples.append((time.perf_counter() - began) / CALLS)
    return median(samples)


def _issue_s(program: Program) -> float:
    """Host seconds of issuing an action of a program, in a run that follows one like it, as repeated runs do."""
    for _ in range(2):
        program.time_once()
    return program.issue_s / len(program.plan)


def _timed_issue_s(program: Program) -> list[float]:
    """Host seconds of issuing each action, in one run with timing events."""
    stamps, _, _ = program.time_spans()
    return [end - start for start, end in zip(stamps.issue_start, stamps.issue_end, strict=True)]
