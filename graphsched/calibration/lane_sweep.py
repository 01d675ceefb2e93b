"""How fast a CPU lane of several threads gets through memory just now, and what of an operation's time goes with that.

Who else uses the host's memory, and the cores that share something with the lane's, changes within seconds: on hosts of
an H200 a `lerp` of 4.2 M numbers took 0.53 or 0.68 ms for a second or so each, and by turns with sweeps it took what
these said within 2 %, where products were off by 5 and constant figures by 13 (docs/readings.md).

Not modelled: operations whose operands lie in a cache, though they read many bytes.
"""

from __future__ import annotations

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

from graphsched.calibration.cpu_links import torch_threads
from graphsched.executors.own_team import end_own_team

OPERANDS, ELEMENTS = 3, 2**22  # of a sweep: two are read, one is written
SWEPT_BYTES = OPERANDS * 4 * ELEMENTS
SETS = 5  # that it goes round
TURNS, ROUNDS = 7, 2  # of sweeps that go round fewer
ROW_S = 0.01  # of a row of sweeps, wherever one is taken: those of one sweep were a tenth longer (docs/readings.md)


class Sweep:
    """Goes through memory, several times what the cores' own caches hold."""

    def __init__(self) -> None:
        import torch

        place: Any = {"dtype": torch.float32, "device": "cpu"}
        self._weight = 0.5
        self._operands = [[torch.ones(ELEMENTS, **place) for _ in range(OPERANDS)] for _ in range(SETS)]
        self.go_round(SETS)

    def go_round(self, sets: int) -> None:
        """Go round the first so many sets of operands from now on, and through less memory."""
        self._sets = itertools.cycle(self._operands[:sets])

    def __call__(self) -> Any:
        """Once through `SWEPT_BYTES`."""
        import torch

        first, second, made = next(self._sets)
        return torch.lerp(first, second, self._weight, out=made)


def sweeps_by_bytes(threads: int) -> tuple[tuple[int, float], ...]:
    """`Dispatch.sweeps`: (bytes, seconds) of sweeps that go round 1 to `SETS` sets of operands on a lane.

    They take turns, for others change how fast it is; none that go round more take less. Empty for one thread.
    """
    if threads == 1:
        return ()
    end_own_team()
    with ThreadPoolExecutor(1) as lane:
        return lane.submit(_by_bytes, threads).result()


def _by_bytes(threads: int) -> tuple[tuple[int, float], ...]:
    sweep = Sweep()
    found: dict[int, list[float]] = {sets: [] for sets in range(1, SETS + 1)}
    with torch_threads(threads):
        for _ in range(TURNS + 1):
            for sets, samples in found.items():
                samples.append(_round_s(sweep, sets))
    seconds = itertools.accumulate([median(samples[1:]) for samples in found.values()], max)
    return tuple((sets * SWEPT_BYTES, each_s) for sets, each_s in zip(found, seconds, strict=True))


def _round_s(sweep: Sweep, sets: int) -> float:
    """Seconds of a sweep that goes round so many, behind a round that does not count."""
    sweep.go_round(sets)
    for _ in range(sets):
        sweep()
    count = ROUNDS * sets
    began = time.perf_counter()
    for _ in range(count):
        sweep()
    return (time.perf_counter() - began) / count


def shares_of(device_s: float, nbytes: int, sweep_s: float, least_s: float) -> tuple[float, float]:
    """What of an operation's time goes with products and with sweeps.

    With sweeps goes what its bytes take at their rate, with neither what any operation takes, with products the rest.

    Args:
        device_s: What it takes.
        nbytes: What it reads and writes.
        sweep_s: What `SWEPT_BYTES` take.
        least_s: What an operation takes that does nothing.

    Example:
        >>> shares_of(4e-3, SWEPT_BYTES // 2, 2e-3, 1e-3), shares_of(1e-3, SWEPT_BYTES, 2e-3, 0.25e-3)
        ((0.5, 0.25), (0.0, 0.75))
        >>> shares_of(1e-5, 0, 2e-3, 2e-5)
        (0.0, 0.0)
    """
    if device_s <= least_s:
        return 0.0, 0.0
    own_s = device_s - least_s
    swept_s = min(sweep_s * nbytes / SWEPT_BYTES, own_s)
    return (own_s - swept_s) / device_s, swept_s / device_s
