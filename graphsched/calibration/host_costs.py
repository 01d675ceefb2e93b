"""What one call of an operation costs the host: in a row of its own, after others, and where the stream changes.

All are taken in units of the yardstick beside them, for the speed of a core changes within minutes.

Not modelled: a call's arguments that no cache holds, where it is called again and again.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

from graphsched.calibration.cold_calls import SHORT_WAITS_US, ColdCalls
from graphsched.calibration.cuda_calls import Yardstick
from graphsched.calibration.cuda_clock import new_stream
from graphsched.calibration.tiny_plans import other_functions, other_operators, program_of
from graphsched.executors.program import Program

COLD_CALLS = 2
LONGEST_ROW, LONGEST_SWITCHING = 400, 64
ROW_S, ROW_BYTES = 0.03, 2 * 10**9
ROWS, SWITCHING_ROWS, COMPANY_SAMPLES = 7, 5, 15
SHORT_S = 2e-4  # operations that take longer keep the device busy while streams change

Calls = Sequence[Callable[[], Any]]


@dataclass(frozen=True)
class HostCosts:
    """Host seconds of one call; the fields of `TaskCost`."""

    dispatch_s: float
    call_s: float
    company_s: float
    recent_s: float
    cold_s: float
    switching_s: float


@dataclass(frozen=True)
class Company:
    """What an operation is timed beside: the yardstick of its thread, and calls of other kinds.

    Attributes:
        device: Number of the CUDA device.
        cold_calls: What calls take longer after waits.
        functions: Calls of functions such as ``torch.relu``.
        operators: Calls of operators such as ``torch.ops.aten.relu.default``, which go another way.
    """

    device: int
    yardstick: Yardstick
    cold_calls: ColdCalls
    functions: Program
    operators: Program

    def of(self, function: Callable[..., Any]) -> Program:
        """Others that are called in the same way as `function`, as most of a plan are."""
        import torch

        operators = torch._ops.OpOverload, torch._ops.OpOverloadPacket
        return self.operators if isinstance(function, operators) else self.functions


@contextmanager
def company_on(device: int) -> Iterator[Company]:
    """The company of operations on CUDA device `device`, made once for all of them."""
    with (
        closing(Yardstick(device)) as yardstick,
        program_of(other_functions, (device,)) as functions,
        program_of(other_operators, (device,)) as operators,
    ):
        yield Company(device, yardstick, ColdCalls(device), functions, operators)


def host_costs(
    calls: Calls, function: Callable[..., Any], company: Company, alone_s: float, returned_bytes: int
) -> HostCosts:
    """Host costs of an operation.

    Args:
        calls: The same on different inputs.
        function: What they call.
        company: On its device.
        alone_s: Device seconds of one.
        returned_bytes: What one returns.
    """
    row, device, yardstick = row_length(alone_s, returned_bytes), company.device, company.yardstick
    dispatch_s, tiny_s = in_a_row_s(calls, device, row, yardstick)
    far, near, cold = in_company(calls, company.of(function), company)
    switching_s = switching(calls, device, row, yardstick) * tiny_s if alone_s < SHORT_S else 0.0
    company_s, recent_s = (max(0.0, beside * tiny_s - dispatch_s) for beside in (far, near))
    return HostCosts(dispatch_s, tiny_s, company_s, recent_s, max(0.0, cold * tiny_s), max(0.0, switching_s))


def row_length(alone_s: float, returned_bytes: int) -> int:
    """Calls in a row: as many as take 30 ms on the device and return 2 GB, between 10 and 402.

    Example:
        >>> row_length(1e-6, 4), row_length(1e-3, 4), row_length(1e-6, 10**9)
        (402, 32, 10)
    """
    most = min(LONGEST_ROW, int(ROW_S / max(alone_s, 1e-6)), ROW_BYTES // max(returned_bytes, 1))
    return COLD_CALLS + max(8, most)


def in_a_row_s(calls: Calls, device: int, row: int, yardstick: Yardstick) -> tuple[float, float]:
    """Host seconds of one call among many in a row, as a thread that only dispatches makes them; and the yardstick.

    What they return is kept until the end of the row, as a plan keeps what it returns. The first calls
    of a row, which find the processor's caches cold, are left out. The figure is the mean of a row, for
    now and then a call takes longer, in units of the yardstick beside it, and the median of several rows.
    """
    import torch

    order, ratios, units = [calls[i % len(calls)] for i in range(row)], [], []
    stream = new_stream(device)
    for _ in range(ROWS):
        before_s = yardstick.sample_s()
        with torch.cuda.stream(stream):
            mean_s = _row_s(order, COLD_CALLS) / (row - COLD_CALLS)
        torch.cuda.synchronize(device)
        units.append((before_s + yardstick.sample_s()) / 2)
        ratios.append(mean_s / units[-1])
    return median(ratios) * median(units), median(units)


def in_company(calls: Calls, others: Program, company: Company) -> tuple[float, float, float]:
    """Host time of a call after tiny operations of many kinds, twice, and what a call takes longer after a wait.

    All in units of the yardstick. The last says how cold calls were meanwhile, see `TaskCost.cold_pace_at`.

    In a plan of many operations each finds in the processor's caches what the others left. A wait for the device lies
    in between too, as between two runs of a plan: it is the first call of a kind in a run that is met so.

    Where neighbours use the same caches, a call is the colder the longer its last one lies back (a cell of GoogLeNet
    took 442 µs behind a run of its own and 725 behind 5 ms of yardsticks). So it is timed behind the yardsticks and the
    others, some milliseconds back (the first figure), and once more behind the others alone, as in a small plan.
    """
    stream, ratios = new_stream(company.device), []
    for number in range(COMPANY_SAMPLES + 1):
        cold_s = company.cold_calls.sample_s(SHORT_WAITS_US)[-1]
        unit_s, call = company.yardstick.sample_s(), calls[number % len(calls)]
        far_s, near_s = (_behind_s(others, call, stream, company.device) for _ in range(2))
        ratios.append([seconds / unit_s for seconds in (far_s, near_s, cold_s)])
    far, near, cold = (median(found) for found in zip(*ratios[1:], strict=True))
    return far, near, cold


def _behind_s(others: Program, call: Callable[[], Any], stream: Any, device: int) -> float:
    """Host seconds of a call behind a run of others."""
    import torch

    others.time_once()
    with torch.cuda.stream(stream):
        began = time.perf_counter()
        kept = call()
        seconds = time.perf_counter() - began
    torch.cuda.synchronize(device)
    del kept
    return seconds


def switching(calls: Calls, device: int, row: int, yardstick: Yardstick) -> float:
    """What calls on two streams in turn take longer than on one, beyond making a stream current, in yardsticks."""
    import torch

    row = min(row, LONGEST_SWITCHING)
    first, second = new_stream(device), new_stream(device)
    order, more = [calls[i % len(calls)] for i in range(row)], []
    with torch.cuda.stream(first):
        for _ in range(SWITCHING_ROWS):
            unit_s, rows = yardstick.sample_s(), []
            for streams in ((first, first), (first, second)):
                switches = [functools.partial(torch.cuda.set_stream, streams[i % 2]) for i in range(row)]
                steps = [step for pair in zip(switches, order, strict=True) for step in pair]
                rows.append(_row_s(steps, 2 * COLD_CALLS))
                torch.cuda.synchronize(device)
            more.append((rows[1] - rows[0]) / (row - COLD_CALLS) / unit_s)
    return median(more)


def _row_s(steps: Calls, cold: int) -> float:
    """Seconds of the steps after the first `cold` ones; what they return is kept."""
    kept = [step() for step in steps[:cold]]
    began = time.perf_counter()
    for step in steps[cold:]:
        kept.append(step())
    return time.perf_counter() - began
