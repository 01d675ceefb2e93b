"""What the call of a copy takes the host longer after calls of other kinds: as `host_costs` measures it of operations.

Not modelled: copies that block; what a copy's size has to do with its call.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from statistics import median

from graphsched.calibration.cuda_calls import Yardstick
from graphsched.calibration.single_plans import one_copy_across, one_copy_in, one_copy_out
from graphsched.calibration.tiny_plans import Build, other_functions, program_of
from graphsched.executors.collector import no_collector

SAMPLES = 25
HOT_RUNS = 3  # of the same copy, of which the last is as in a row


def company_calls(gpus: Sequence[int]) -> dict[str, float]:
    """Fields ``…_company_s`` of `Dispatch`, in yardsticks (`Dispatch.call_s`); that between GPUs if there are two.

    Args:
        gpus: Numbers of the GPUs.
    """
    figures = {
        "copy_company_s": _company_calls(one_copy_in, gpus[:1]),
        "copy_out_company_s": _company_calls(one_copy_out, gpus[:1]),
    }
    if len(gpus) > 1:
        figures["peer_company_s"] = _company_calls(one_copy_across, gpus[:2])
    return figures


def _company_calls(build: Build, gpus: Sequence[int]) -> float:
    """What issuing the copy takes longer after a run of tiny operations of many kinds, in yardsticks."""
    more: list[float] = []
    with ExitStack() as stack:
        stack.enter_context(no_collector())
        yardstick = stack.enter_context(closing(Yardstick(gpus[0])))
        others = stack.enter_context(program_of(other_functions, tuple(gpus[:1])))
        copy = stack.enter_context(program_of(build, tuple(gpus)))
        for _ in range(SAMPLES + 1):
            unit_s = yardstick.sample_s()
            others.time_once()
            copy.time_once()
            cold_s = copy.issue_s
            for _ in range(HOT_RUNS):
                copy.time_once()
            more.append((cold_s - copy.issue_s) / unit_s)
    return max(0.0, median(more[1:]))
