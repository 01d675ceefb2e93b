"""How often the GPU that a graph over several is launched on looks whether the others are done, see `simulator.looks`.

The first GPU has one tiny task, the second spins: longer in each graph. However long, the graph is over at one of few
moments, a period from one to the next. In half of the graphs the spin waits for the tiny task, so that the first GPU
begins to look when that is over; in the others it does as soon as the graph is launched. When the first node starts is
told by chains on the first GPU beside a single task on the second.

Not modelled: more than two GPUs.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from graphsched.calibration.cuda_clock import Spinner
from graphsched.calibration.graph_across import long_on_first, program_of
from graphsched.calibration.graph_replays import each_s
from graphsched.calibration.graph_rows import TINY_ELEMENTS, replay_of
from graphsched.workload import TensorSpec, Workload

SPINS_S = tuple(float(k) * 1e-6 for k in np.arange(3.0, 33.0, 1.75))  # three periods of a bit over 9 µs
CHAINS = 30, 90  # tasks of the chains on the first GPU, long after the only one on the second
PERIODS_S = tuple(float(k) * 1e-6 for k in np.arange(7.0, 14.0, 0.01))  # that are tried; none is half of another
SURE = 0.6  # mean concentration of moments from which on they are a period's: 1 if all fall together, 0 if spread
LEAST = 0.4  # of each kind; noise of 4 µs about no period reached 0.53 (mean) and 0.50 (the lesser), in 400 trials
NONE_S = 1e-6  # before the end of a period: as good as at its start
RUNS = 40  # of a graph at least: a few of them take half a period longer than the others


def look_figures(spinners: Sequence[Spinner]) -> dict[str, float]:
    """Fields of `Dispatch` about looks, in seconds; none where there is one GPU, or where its ends have no period."""
    if len(spinners) < 2:
        return {}
    devices = [spinner.device for spinner in spinners[:2]]
    few_s, many_s = (_whole_s(devices, partial(long_on_first, tasks=tasks)) for tasks in CHAINS)
    node_s = each_s(few_s, many_s, CHAINS[1] - CHAINS[0])
    start_s = few_s - CHAINS[0] * node_s  # of a graph without nodes
    launched, told = (
        [_whole_s(devices, partial(with_a_spin, spinner=spinners[1], spin_s=spin_s, told=told)) for spin_s in SPINS_S]
        for told in (False, True)
    )
    return figures_of([seconds - start_s for seconds in launched], [seconds - start_s - node_s for seconds in told])


def figures_of(launched_s: Sequence[float], told_s: Sequence[float]) -> dict[str, float]:
    """The fields, from when graphs were over.

    Args:
        launched_s: Since the start of their first node.
        told_s: Since the end of a first task that was told another lane.

    Example:
        >>> found = figures_of([7e-6, 17e-6, 27e-6, 17e-6], [12e-6, 22e-6, 12e-6, 32e-6])  # every 10 µs
        >>> {name: round(seconds * 1e6, 1) for name, seconds in found.items()}
        {'graph_look_s': 10.0, 'graph_look_ahead_s': 5.0, 'graph_seen_s': 2.0}
    """
    found = moments([launched_s, told_s])
    if found is None:
        return {}
    period_s, (launch_s, tell_s) = found
    tell_s = 0.0 if tell_s > period_s - NONE_S else tell_s  # noise makes it less than nothing
    return {"graph_look_s": period_s, "graph_look_ahead_s": (tell_s - launch_s) % period_s, "graph_seen_s": tell_s}


def moments(kinds_s: Sequence[Sequence[float]]) -> tuple[float, list[float]] | None:
    """The period that times of several kinds are apart, and the first moment of each kind, from 0 to the period.

    None: they have no period, or are too few of it to tell.
    """
    kinds, periods = [np.array(times_s) for times_s in kinds_s], np.array(PERIODS_S)
    middles = np.array([np.exp(2j * math.pi * times[None, :] / periods[:, None]).mean(axis=1) for times in kinds])
    best = int(np.abs(middles).sum(axis=0).argmax())
    period_s = PERIODS_S[best]
    found = np.abs(middles[:, best])
    if found.mean() < SURE or found.min() < LEAST or min(map(np.ptp, kinds)) < period_s / 2:
        return None
    return period_s, [cmath.phase(middle) / (2 * math.pi) % 1.0 * period_s for middle in middles[:, best]]


def _whole_s(devices: Sequence[int], build: Any) -> float:
    with program_of(devices, build) as program:
        return replay_of(program, RUNS).whole_s


def with_a_spin(work: Workload, names: Sequence[str], spinner: Spinner, spin_s: float, *, told: bool) -> dict[str, str]:
    """A tiny task on the first GPU, a spin on the second, which waits for it if it is `told`."""
    import torch

    first, second = (work.input(f"x/{name}", torch.zeros(TINY_ELEMENTS), device=name) for name in names)
    work.task(torch.neg, first, name="tiny", device=names[0])
    if told:
        work.barrier("told")
    spun = TensorSpec((TINY_ELEMENTS,))
    work.task(partial(_spun, spinner, spin_s), second, name="spin", device=names[1], outputs=[spun])
    return {"tiny": f"{names[0]}/s0", "spin": f"{names[1]}/s0"}


def _spun(spinner: Spinner, spin_s: float, value: Any) -> Any:
    import torch

    spinner.spin(spin_s)
    return torch.neg(value)
