"""How often the GPU that a graph over several is launched on looks whether the others are done, see `simulator.looks`.

The first GPU has one tiny task, the second spins: longer in each graph. However long, the graph is over at one of few
moments, a period from one to the next. In half of the graphs a copy of the first task's result goes to the second GPU,
so that the first one begins to look when its task is over; in the others it does as soon as the graph is launched. When
the first node starts is told by chains on the first GPU beside a single task on the second.

Not modelled: more than two GPUs.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from graphsched.calibration.cuda_clock import Spinner
from graphsched.calibration.graph_across import long_on_first, program_of
from graphsched.calibration.graph_replays import each_s
from graphsched.calibration.graph_rows import TINY_ELEMENTS, replay_of
from graphsched.workload import TensorSpec, Workload

SPINS_S = tuple(float(k) * 1e-6 for k in np.arange(3.0, 33.0, 1.25))  # three periods of a bit over 9 µs
CHAINS = 30, 90  # tasks of the chains on the first GPU, long after the only one on the second
PERIODS_S = tuple(float(k) * 1e-6 for k in np.arange(6.0, 14.0, 0.01))  # that are tried; none is half of another
SURE = 0.8  # concentration of moments from which on they are a period's: 1 if all fall together, 0 if evenly spread


class Moments(NamedTuple):
    """Moments that are a period apart.

    Attributes:
        period_s: From one to the next.
        first_s: The first that is not below 0.
    """

    period_s: float
    first_s: float


def look_figures(spinners: Sequence[Spinner]) -> dict[str, float]:
    """Fields of `Dispatch` about looks, in seconds; none where there is one GPU, or where its ends have no period."""
    if len(spinners) < 2:
        return {}
    devices = [spinner.device for spinner in spinners[:2]]
    few_s, many_s = (_whole_s(devices, partial(long_on_first, tasks=tasks)) for tasks in CHAINS)
    node_s = each_s(few_s, many_s, CHAINS[1] - CHAINS[0])
    start_s = few_s - CHAINS[0] * node_s  # of a graph without nodes
    launched, told = (
        [_whole_s(devices, partial(beside_a_spin, spinner=spinners[1], spin_s=spin_s, sent=sent)) for spin_s in SPINS_S]
        for sent in (False, True)
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
    launched, told = moments(launched_s), moments(told_s)
    if launched is None or told is None:
        return {}
    period_s = (launched.period_s + told.period_s) / 2
    ahead_s = (told.first_s - launched.first_s) % period_s
    return {"graph_look_s": period_s, "graph_look_ahead_s": ahead_s, "graph_seen_s": told.first_s}


def moments(times_s: Sequence[float]) -> Moments | None:
    """What these times are moments of; None: they have no period, or are too few of it to tell."""
    times, periods = np.array(times_s), np.array(PERIODS_S)
    middles = np.exp(2j * math.pi * times[None, :] / periods[:, None]).mean(axis=1)
    best = int(np.abs(middles).argmax())
    period_s = PERIODS_S[best]
    if abs(middles[best]) < SURE or np.ptp(times) < period_s / 2:
        return None
    return Moments(period_s, cmath.phase(middles[best]) / (2 * math.pi) % 1.0 * period_s)


def _whole_s(devices: Sequence[int], build: Any) -> float:
    with program_of(devices, build) as program:
        return replay_of(program).whole_s


def beside_a_spin(
    work: Workload, names: Sequence[str], spinner: Spinner, spin_s: float, *, sent: bool
) -> dict[str, str]:
    """A tiny task on the first GPU, its result copied to the second if it is `sent`; a spin on the second."""
    import torch

    first, second = (work.input(f"x/{name}", torch.zeros(TINY_ELEMENTS), device=name) for name in names)
    made = work.task(torch.neg, first, name="tiny", device=names[0])
    if sent:
        work.copy(made, to=names[1], name="told")
    spun = TensorSpec((TINY_ELEMENTS,))
    work.task(partial(_spun, spinner, spin_s), second, name="spin", device=names[1], outputs=[spun])
    return {"tiny": f"{names[0]}/s0", "spin": f"{names[1]}/s0"}


def _spun(spinner: Spinner, spin_s: float, value: Any) -> Any:
    import torch

    spinner.spin(spin_s)
    return torch.neg(value)
