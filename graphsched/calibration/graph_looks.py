"""How often the GPU that a graph over several is launched on looks whether the others are done, see `simulator.looks`.

The first GPU has one tiny task, the second spins: longer in each graph. However long, the graph is over at one of few
moments after the thread has launched it, a period from one to the next. In half of the graphs the spin waits for the
tiny task. What is known at once is told by a graph of one tiny task on each GPU, which are over when the launch is.

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
from graphsched.calibration.graph_across import on_each, program_of
from graphsched.calibration.graph_rows import TINY_ELEMENTS, replay_of
from graphsched.workload import TensorSpec, Workload

SPINS_S = tuple(float(k) * 1e-6 for k in np.arange(3.0, 33.0, 1.75))  # three periods of a bit over 9 µs
PERIODS_S = tuple(float(k) * 1e-6 for k in np.arange(7.0, 14.0, 0.01))  # that are tried; none is half of another
SURE = 0.6  # concentration of moments from which on they are a period's: 1 if all fall together, 0 if spread
RUNS = 40  # of a graph at least: a few of them take half a period longer than the others


def look_figures(spinners: Sequence[Spinner], sync_s: float) -> dict[str, float]:
    """Fields of `Dispatch` about looks, in seconds; none where there is one GPU, or where its ends have no period.

    Args:
        spinners: Of all GPUs; the first two are used.
        sync_s: `Dispatch.sync_s`.
    """
    if len(spinners) < 2:
        return {}
    devices = [spinner.device for spinner in spinners[:2]]
    known_s = max(0.0, _after_launch_s(devices, on_each) - sync_s)
    spins = [
        partial(with_a_spin, spinner=spinners[1], spin_s=spin_s, told=told)
        for told in (False, True)
        for spin_s in SPINS_S
    ]
    return figures_of(known_s, [_after_launch_s(devices, spin) - sync_s for spin in spins])


def figures_of(known_s: float, over_s: Sequence[float]) -> dict[str, float]:
    """The fields, from when graphs were over after their launches.

    Args:
        known_s: Of one whose GPUs were done by then.
        over_s: Of others.

    Example:
        >>> found = figures_of(4e-6, [15e-6, 25e-6, 35e-6, 25e-6])  # every 10 µs
        >>> {name: round(seconds * 1e6, 1) for name, seconds in found.items()}
        {'graph_look_s': 10.0, 'graph_known_s': 4.0, 'graph_look_again_s': 11.0}
    """
    found = moments(over_s)
    if found is None:
        return {}
    period_s, first_s = found
    later_s = (first_s - known_s + period_s / 2) % period_s - period_s / 2  # than a period after what is known at once
    return {"graph_look_s": period_s, "graph_known_s": known_s, "graph_look_again_s": period_s + later_s}


def moments(times_s: Sequence[float]) -> tuple[float, float] | None:
    """The period that times are apart, and the first moment, from 0 to the period.

    None: they have no period, or are too few of it to tell.
    """
    periods, times = np.array(PERIODS_S), np.array(times_s)
    middles = np.exp(2j * math.pi * times[None, :] / periods[:, None]).mean(axis=1)
    best = int(np.abs(middles).argmax())
    period_s = PERIODS_S[best]
    if abs(middles[best]) < SURE or np.ptp(times) < period_s / 2:
        return None
    return period_s, cmath.phase(middles[best]) / (2 * math.pi) % 1.0 * period_s


def _after_launch_s(devices: Sequence[int], build: Any) -> float:
    """From the end of the launch to when the thread sees that all is over, of a graph of what `build` adds."""
    with program_of(devices, build) as program:
        found = replay_of(program, RUNS)
        return found.whole_s - found.host_s


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
