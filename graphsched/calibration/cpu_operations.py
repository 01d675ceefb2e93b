"""An operation measured alone on a CPU lane.

Between two samples a lane of several threads rests, for in a plan its threads have slept before most tasks, and
waking them takes longer than handing on to threads that still spin.

Not modelled: other threads of the host that compete for cores and memory; they make samples longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from graphsched.calibration.cpu_links import torch_threads
from graphsched.calibration.sampling import cost_of, samples_wanted
from graphsched.costs import TaskCost

SHORT_S = 2e-5
SETS = 2
REST_S = 2e-3


def measure_on_cpu(calls: Sequence[Callable[[], Any]], threads: int, repeats: int) -> TaskCost:
    """Cost of one call in a thread with `threads` intra-op threads; `calls` are the same on different clones."""
    with ThreadPoolExecutor(1) as lane:
        return lane.submit(_measure, calls, threads, repeats).result()


def _measure(calls: Sequence[Callable[[], Any]], threads: int, repeats: int) -> TaskCost:
    import torch

    with torch_threads(threads), torch.no_grad():
        for call in [*calls, calls[0]]:
            first_s = _sample(call, 1)
        rest_s = REST_S if threads > 1 else 0.0
        batch = 1 if rest_s else max(1, int(SHORT_S / max(first_s, 1e-9)))
        count = samples_wanted(repeats, first_s * batch + rest_s)
        return cost_of([_sample(calls[i % len(calls)], batch, rest_s) for i in range(count)])


def _sample(call: Callable[[], Any], batch: int, rest_s: float = 0.0) -> float:
    if rest_s:
        time.sleep(rest_s)
    start = time.perf_counter()
    for _ in range(batch):
        kept = call()
    seconds = (time.perf_counter() - start) / batch
    del kept
    return seconds
