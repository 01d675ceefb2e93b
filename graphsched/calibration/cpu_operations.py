"""An operation measured alone on a CPU lane.

Between two samples a lane of several threads rests, for in a plan its threads have slept before most tasks, and
waking them takes longer than handing on to threads that still spin. Rests of other lengths, and none, take turns with
that: tasks of LeNet that came 0.02 and 0.16 ms behind the one before took 0.6 times what they take behind 0.3
(docs/readings.md). Beside a GPU its rest ends with the GPU's bringing the operands (`calibration.fetched_operands`);
its results go to memory that no cache holds.

Other threads of the host that compete for cores, and for memory, make samples longer. Those of a lane of several
threads, of which one that is held up holds up the operation, count in rows (`sampling.in_a_row_s`), and the yardsticks
of the lane's speed are taken between the samples, its products in rows as long as a sample, or one where that takes
longer. What goes with sweeps counts at the speed of those around it: a median of samples may be of one of a lane's two
speeds and that of sweeps of the other, and costs of one operation were 0.77 to 0.98 sweeps on three hosts where, with
its way into pinned memory, it took 1.81 to 1.85 in plans on all of them (docs/readings.md).

Then the same is timed on one set of operands, its results in the memory of those before: what it takes in a plan that
goes through less memory than caches hold (`TaskCost.near_s`, `simulator.host_cache`).

Not modelled: operands that the lane has just read or written, and on hosts without a GPU those that it has not.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from statistics import median
from threading import Event
from typing import Any, NamedTuple

from graphsched.calibration.cpu_links import torch_threads
from graphsched.calibration.lane_pace import LONGEST_ROW_S, Row, Yardsticks, middle_s
from graphsched.calibration.lane_sweep import shares_of
from graphsched.calibration.sampling import cost_of, in_a_row_s, samples_wanted
from graphsched.costs import BRIEF_REST_S, LONG_REST_S, NO_REST_S, REST_S, TaskCost
from graphsched.executors.own_team import end_own_team
from graphsched.workload import returned_tensors

SHORT_S = 2e-5
SETS, MOST_SETS, CACHED_BYTES = 2, 8, 2**28
LEAST_ROWS, ROWS_S = 7, 0.05  # of the yardstick: more where they are short, for some of these meet others and some not
FIRST_S = 0.05
OTHER_RESTS_S = NO_REST_S, BRIEF_REST_S, LONG_REST_S  # than the usual one
EVERY_LONG = 2  # samples of the others have one behind a long rest
LEAST_SAMPLES = 9  # of what any operation takes
LONGEST_WOKEN_S = 1e-2  # operations that take longer do not mind how deep their threads slept
WARM_S = 1e-3  # operations that take longer do not mind what the caches hold
ROUNDS = 4  # in which shares of what an operation takes at the middle speed, which they say, settle
FAR_BYTES, FAR_TIMES = 2**24, 2  # what moves so many goes with the host's memory, and has so many times the samples
NEAR_BYTES = 2**20  # what moves less is in caches anyway
NEAR_SAMPLES, NEAR_FIRST = 15, 3  # on one set of operands, the first of which do not count


class Sampled(NamedTuple):
    """A call on operands of its own.

    Attributes:
        call: What is timed.
        fetch: What brings its operands anew at the end of a rest.
        fetch_s: How long that takes, as part of the rest.
    """

    call: Callable[[], Any]
    fetch: Callable[[], object] = int
    fetch_s: float = 0.0


def measure_on_cpu(calls: Sequence[Sampled], yardsticks: Yardsticks, repeats: int, nbytes: int = 0) -> TaskCost:
    """Cost of one call in a thread with as many intra-op threads as the yardsticks are for.

    Args:
        calls: The same call on different clones.
        yardsticks: Of such a lane.
        repeats: Least number of samples.
        nbytes: What a call reads and writes.
    """
    end_own_team()
    stop = Event()
    with ThreadPoolExecutor(1) as lane:
        try:
            return lane.submit(_measure, calls, yardsticks, repeats, nbytes, stop).result()
        finally:
            stop.set()  # an interrupt waits for the sample that is being taken, not for all


def _measure(calls: Sequence[Sampled], yardsticks: Yardsticks, repeats: int, nbytes: int, stop: Event) -> TaskCost:
    import torch

    threads = yardsticks.threads
    with torch_threads(threads), torch.no_grad():
        lane = _Lane(calls, held=MOST_SETS if threads > 1 else 0, stop=stop)
        first_s = lane.first_s()
        rest_s = REST_S if threads > 1 else 0.0
        rests_s = (rest_s, *(OTHER_RESTS_S if rest_s and first_s < LONGEST_WOKEN_S else ()))
        batch = 1 if rest_s else max(1, int(SHORT_S / max(first_s, 1e-9)))
        count, row_s = samples_wanted(repeats, first_s * batch + rest_s), min(first_s * batch, LONGEST_ROW_S)
        every = count // rows_wanted(max(row_s, yardsticks.one_s), count)
        if len(rests_s) > 1 and nbytes >= FAR_BYTES:
            count *= FAR_TIMES
        samples = _Samples(every, {each_s: [] for each_s in rests_s}, [])
        for i in range(count):
            if i % every == 0:
                samples.rows.append(yardsticks.row(row_s))
                if row_s < WARM_S:
                    lane.sample_s(batch, rest_s)
            for each_s in rests_s:
                if each_s < LONG_REST_S or i % EVERY_LONG == 0:
                    samples.seconds[each_s].append((i, lane.sample_s(batch, each_s)))
        moved = (nbytes, _least_s(rest_s)) if rest_s else None
        cost = samples.cost(row_s, lane.fetch_s, moved)
        if len(rests_s) == 1 or nbytes < NEAR_BYTES:
            return cost
        near = _near(calls[0], yardsticks, row_s).cost(row_s, lane.fetch_s, moved)
        return replace(cost, near_s=min(cost.device_s, near.on_lane_at(cost.product_s, cost.sweep_s)))


def _near(sampled: Sampled, yardsticks: Yardsticks, row_s: float) -> _Samples:
    """Samples in a row on one set of operands behind the usual rest, between two rows of the yardsticks."""
    lane = _Lane([sampled], held=1)
    before = yardsticks.row(row_s)
    seconds = [lane.sample_s(1, REST_S) for _ in range(NEAR_FIRST + NEAR_SAMPLES)][NEAR_FIRST:]
    return _Samples(1, {REST_S: [(0, each_s) for each_s in seconds]}, [before, yardsticks.row(row_s)])


class _Samples(NamedTuple):
    """Of an operation and of the yardsticks, taken by turns.

    Attributes:
        every: How many turns there are for each of the yardsticks' rows, which come first.
        seconds: By the rest before them, turns and what the operation took; the first of them is the usual rest.
        rows: Of the yardsticks.
    """

    every: int
    seconds: dict[float, list[tuple[int, float]]]
    rows: list[Row]

    def cost(self, row_s: float, fetch_s: float, moved: tuple[int, float] | None) -> TaskCost:
        """What they say.

        Args:
            row_s: Seconds that rows of products stand for.
            fetch_s: Of a rest, what it takes to bring operands.
            moved: On several threads, how many bytes it reads and writes, and what one takes that does nothing.
        """
        usual, *_ = self.seconds.values()  # a turn each
        product_s, sweep_s, *_ = (middle_s(means_s, row_s) for means_s in zip(*self.rows, strict=True))
        cost = replace(cost_of([seconds for _, seconds in usual]), product_s=product_s)
        if moved is None:
            return cost
        cost = replace(cost, device_s=in_a_row_s(self._at_middle(usual, cost)))
        for _ in range(ROUNDS if sweep_s else 0):
            shares = shares_of(cost.device_s, moved[0], sweep_s, moved[1])
            cost = replace(cost, sweep_s=sweep_s, shares=shares)
            cost = replace(cost, device_s=in_a_row_s(self._at_middle(usual, cost)))
        rests = {
            max(rest_s, fetch_s): in_a_row_s(self._at_middle(found, cost))
            for rest_s, found in reversed(self.seconds.items())  # the usual one last, for it counts where two are one
        }
        quartiles_s = cost_of(self._at_middle(usual, cost)).quartiles_s
        rests_known = tuple(sorted(rests.items())) if len(self.seconds) > 1 else ()
        return replace(cost, quartiles_s=quartiles_s, rests=rests_known)

    def _at_middle(self, found: list[tuple[int, float]], cost: TaskCost) -> list[float]:
        """What those of `found` would have taken, had sweeps taken then what they do at `cost`.

        What they took then is the middle of two before and two behind, for one of these may be held up alone.
        """
        sweeps_s = [row.sweep_s for row in self.rows]
        now_s = [median(sweeps_s[max(0, k - 1) : k + 3]) for k in range(len(sweeps_s))]
        paces = [cost.on_lane_at(cost.product_s, sweep_s) / cost.device_s for sweep_s in now_s]
        return [seconds / paces[turn // self.every] for turn, seconds in found]


def _least_s(rest_s: float) -> float:
    """What an operation on one number takes behind a rest."""
    import torch

    lane = _Lane([Sampled(partial(torch.neg, torch.zeros(1)))], held=0)
    return median([lane.sample_s(1, rest_s) for _ in range(LEAST_SAMPLES)])


class _Lane:
    """Takes samples of `calls` in turn.

    At most `held` results are kept for a while, as those of a plan are, so that the next are written to memory that no
    cache holds. Once `stop` is set no more are taken.
    """

    def __init__(self, calls: Sequence[Sampled], *, held: int, stop: Event | None = None) -> None:
        self.fetch_s = max(sampled.fetch_s for sampled in calls)
        made = returned_tensors(calls[0].call())
        held = min(held, sets_on_cpu(sum(t.nbytes for t in made)))
        self._calls, self._kept = itertools.cycle(calls), deque[Any](maxlen=held)
        self._sets = max(len(calls), held)
        self._stop = stop or Event()

    def first_s(self) -> float:
        """The shortest of the first samples, which meet all operands and all memory of results, if that is not long."""
        first_s = min([self.sample_s(1) for _ in range(3)])
        return min([first_s, *(self.sample_s(1) for _ in range(min(self._sets, int(FIRST_S / max(first_s, 1e-9)))))])

    def sample_s(self, batch: int, rest_s: float = 0.0) -> float:
        """Seconds of a call, the mean of a batch, behind a rest of `rest_s`."""
        if self._stop.is_set():
            raise CancelledError
        call, fetch, fetch_s = next(self._calls)
        if rest_s:
            if rest_s - fetch_s > NO_REST_S:
                time.sleep(rest_s - fetch_s)
            fetch()
        start = time.perf_counter()
        for _ in range(batch):
            made = call()
        seconds = (time.perf_counter() - start) / batch
        self._kept.append(made)
        return seconds


def sets_on_cpu(set_bytes: int) -> int:
    """Sets of operands, or of results, to go round, so that caches do not hold them: 2 to 8.

    Example:
        >>> sets_on_cpu(10**4), sets_on_cpu(5 * 10**7), sets_on_cpu(10**9)
        (8, 6, 2)
    """
    return max(SETS, min(MOST_SETS, CACHED_BYTES // max(set_bytes, 1) + 1))


def rows_wanted(row_s: float, samples: int) -> int:
    """Rows of the yardsticks, about: at least 7; more, up to one a sample, while all take less than 50 ms.

    Example:
        >>> rows_wanted(1e-5, 100), rows_wanted(1e-3, 100), rows_wanted(0.04, 20), rows_wanted(0.04, 3)
        (100, 50, 7, 3)
    """
    return min(samples, max(LEAST_ROWS, int(ROWS_S / max(row_s, 1e-9))))
