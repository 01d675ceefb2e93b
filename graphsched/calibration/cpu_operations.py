"""An operation measured alone on a CPU lane.

Between two samples a lane of several threads rests, for in a plan its threads have slept before most tasks, and
waking them takes longer than handing on to threads that still spin. Rests of other lengths are timed, too.

Other threads of the host that compete for cores make samples longer: the yardstick of the lane's speed is taken
between the samples, in rows as long as a sample, or a product where that takes longer.

Not modelled: other threads of the host that compete for memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from statistics import median
from typing import Any

from graphsched.calibration.cpu_links import torch_threads
from graphsched.calibration.lane_pace import LONGEST_ROW_S, middle_s, product_s, small_product
from graphsched.calibration.sampling import cost_of, samples_wanted
from graphsched.costs import BRIEF_REST_S, LONG_REST_S, REST_S, TaskCost
from graphsched.executors.own_team import end_own_team

SHORT_S = 2e-5
SETS = 2
LEAST_ROWS, ROWS_S = 7, 0.05  # of the yardstick: more where they are short, for some of these meet others and some not
LONG_RESTS = 30  # samples, at most
LONGEST_WOKEN_S = 1e-2  # operations that take longer do not mind how deep their threads slept
WARM_S = 1e-3  # operations that take longer do not mind what the caches hold


def measure_on_cpu(calls: Sequence[Callable[[], Any]], threads: int, repeats: int) -> TaskCost:
    """Cost of one call in a thread with `threads` intra-op threads; `calls` are the same on different clones."""
    end_own_team()
    with ThreadPoolExecutor(1) as lane:
        return lane.submit(_measure, calls, threads, repeats).result()


def _measure(calls: Sequence[Callable[[], Any]], threads: int, repeats: int) -> TaskCost:
    import torch

    with torch_threads(threads), torch.no_grad():
        first_s = min([_sample(call, 1) for call in [*calls, calls[0]]])
        rest_s = REST_S if threads > 1 else 0.0
        batch = 1 if rest_s else max(1, int(SHORT_S / max(first_s, 1e-9)))
        count = samples_wanted(repeats, first_s * batch + rest_s)
        product = small_product(threads)
        row_s, one_s = min(first_s * batch, LONGEST_ROW_S), min([product_s(product, 0.0) for _ in range(3)])
        samples, paces, every = [], [], count // rows_wanted(max(row_s, one_s), count)
        for i in range(count):
            if i % every == 0:
                paces.append(product_s(product, row_s))
                if row_s < WARM_S:
                    _sample(calls[i % len(calls)], batch, rest_s)
            samples.append(_sample(calls[i % len(calls)], batch, rest_s))
        cost = replace(cost_of(samples), product_s=middle_s(paces, row_s))
        if rest_s and first_s < LONGEST_WOKEN_S:
            cost = replace(cost, rests=_rests(calls, cost))
        return cost


def _rests(calls: Sequence[Callable[[], Any]], cost: TaskCost) -> tuple[tuple[float, float], ...]:
    """What it takes after rests of other lengths than `REST_S`, with that."""
    found = {REST_S: cost.device_s}
    for rest_s, samples in ((BRIEF_REST_S, cost.samples), (LONG_REST_S, min(cost.samples, LONG_RESTS))):
        found[rest_s] = median([_sample(calls[i % len(calls)], 1, rest_s) for i in range(samples)])
    return tuple(sorted(found.items()))


def rows_wanted(row_s: float, samples: int) -> int:
    """Rows of the yardstick, about: at least 7; more, up to one a sample, while all take less than 50 ms.

    Example:
        >>> rows_wanted(1e-5, 100), rows_wanted(1e-3, 100), rows_wanted(0.04, 20), rows_wanted(0.04, 3)
        (100, 50, 7, 3)
    """
    return min(samples, max(LEAST_ROWS, int(ROWS_S / max(row_s, 1e-9))))


def _sample(call: Callable[[], Any], batch: int, rest_s: float = 0.0) -> float:
    if rest_s:
        time.sleep(rest_s)
    start = time.perf_counter()
    for _ in range(batch):
        kept = call()
    seconds = (time.perf_counter() - start) / batch
    del kept
    return seconds
