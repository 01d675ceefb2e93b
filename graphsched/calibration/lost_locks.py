"""What the thread that makes calls of GPUs loses to CPU lanes that take the interpreter's lock from it, and they to it.

A call lets the lock go while it computes. A lane that begins a task takes it then, or that says that one is over: the
thread finds it taken, sleeps, and makes its next calls on a core that has slept. The longer the lane has rested, the
colder are its core and its caches, and the longer it keeps the lock: on a host of an H200 6 to 12 µs behind tasks that
follow at once, 20 after 1 ms, 26 after 3 (docs/readings.md). Calls of one kind alone lose less than those of several.

In return an operation of the lane may find the lock taken when it is over.

Not modelled: operations that keep the lock; what several lanes lose to each other beside such calls; calls that
compute for long, in which a lane may take the lock and give it back unnoticed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any, NamedTuple

from graphsched.calibration.cold_calls import colds_of, tiny_calls
from graphsched.executors.clocks import new_event
from graphsched.executors.collector import no_collector
from graphsched.executors.lanes import CpuLane, close_lanes, stream_pool, streams_as_they_were
from graphsched.executors.own_team import end_own_team
from graphsched.executors.spinning import Done

RESTS_US = (100, 300, 1000, 3000)
TAKEN = 2  # times that a lane takes the lock for a task: to begin it, and to say that it is over
SAMPLES, FIRST = 30, 5  # of each rest; of all, those that do not count
LEAST = 15  # samples: fewer say nothing
ROUNDS, BEFORE = 8, 1  # of the calls in a row, which last longer than the task; those before it is handed over
NUMBERS = 2**18  # that a task goes through: all threads of a lane have a part
LONGEST_S = 10.0  # of a wait

Call = Callable[[], object]


class Sample(NamedTuple):
    """Seconds that a row of calls takes longer with a task beside, and the task beside calls; whether it was over."""

    longer_s: float
    late_s: float
    met: bool


def lost_locks(gpu: int, threads: int) -> dict[str, Any]:
    """`Dispatch.lock_losses` and `lock_late_s`, beside a lane of so many `threads`."""
    import torch

    end_own_team()
    own = torch.get_num_threads()
    lane = CpuLane("calibration", threads)
    lane.drain(LONGEST_S)
    torch.set_num_threads(own)  # the number that new threads begin with is the last one set
    try:
        with no_collector(), streams_as_they_were([gpu]):
            beside = Beside(_calls(gpu), lane)
            samples = [beside.samples() for _ in range(SAMPLES + FIRST)][FIRST:]
    finally:
        close_lanes({0: lane})
    return found_of(samples)


def found_of(samples: Sequence[Sequence[Sample]]) -> dict[str, Any]:
    """What samples say, each of which has one of every rest; nothing where few tasks were over before the calls were.

    Example:
        >>> found = found_of([[Sample(2e-5, 4e-6, True)] * 2 + [Sample(6e-5, 8e-6, True)] * 2] * 15)
        >>> found["lock_losses"], found["lock_late_s"]
        (((100, 1e-05), (300, 1e-05), (1000, 3e-05), (3000, 3e-05)), 6e-06)
        >>> found_of([[Sample(2e-5, 4e-6, False)] * 4] * 15)
        {'lock_losses': (), 'lock_late_s': 0.0}
    """
    met = [[one for one in column if one.met] for column in zip(*samples, strict=True)]
    if min(map(len, met), default=0) < LEAST:
        return {"lock_losses": (), "lock_late_s": 0.0}
    middle_s = [median([one.longer_s for one in column]) / TAKEN for column in met]
    late_s = sum(median([one.late_s for one in column]) for column in met) / len(met)
    return {"lock_losses": colds_of([tuple(middle_s)], RESTS_US), "lock_late_s": max(0.0, late_s)}


class Beside:
    """Rows of calls with a task of a lane beside, which has rested while the thread went on calling."""

    def __init__(self, calls: Sequence[Call], lane: CpuLane, numbers: int = NUMBERS) -> None:
        """`calls`: made again and again; `numbers`: that the lane's task goes through."""
        import torch

        self._calls, self._lane = calls, lane
        self._task = partial(torch.neg, torch.ones(numbers))

    def samples(self) -> list[Sample]:
        """One behind each of `RESTS_US`."""
        return [self.sample(us * 1e-6) for us in RESTS_US]

    def sample(self, rest_s: float) -> Sample:
        """One behind a rest of `rest_s`."""
        alone_s = self._row_s(ROUNDS)
        self._rest(rest_s)
        task_alone_s = self._computed(self._put())
        self._rest(rest_s)
        beside_s = self._row_s(BEFORE)
        put = self._put()
        beside_s += self._row_s(ROUNDS - BEFORE)
        met = put.done.is_set()
        return Sample(beside_s - alone_s, self._computed(put) - task_alone_s, met)

    def _row_s(self, rounds: int) -> float:
        began = time.perf_counter()
        for _ in range(rounds):
            for call in self._calls:
                call()
        return time.perf_counter() - began

    def _rest(self, rest_s: float) -> None:
        """Go on calling until the lane's last task has been over for so long."""
        self._computed(self._put())
        until_s = time.perf_counter() + rest_s
        while time.perf_counter() < until_s:
            self._row_s(1)

    def _put(self) -> _Put:
        put = _Put(Done(), [])
        self._lane.put(partial(self._run, put))
        return put

    def _run(self, put: _Put) -> None:
        began = time.perf_counter()
        made = self._task()
        put.took_s.append(time.perf_counter() - began)
        del made
        put.done.set()

    @staticmethod
    def _computed(put: _Put) -> float:
        """What a task took, once it is over; the thread waits without the lock, and awake."""
        until_s = time.perf_counter() + LONGEST_S
        while not put.done.spin() and time.perf_counter() < until_s:
            pass
        return put.took_s[0]


class _Put(NamedTuple):
    """A task that was handed to the lane: whether it is over, and what it took then."""

    done: Done
    took_s: list[float]


def _calls(gpu: int) -> list[Call]:
    """As a plan makes them of tiny tasks on two lanes in turn, each of which waits for the one before."""
    import torch

    streams, events = stream_pool(gpu)[:2], (new_event(), new_event())
    torch.cuda.set_device(gpu)
    for stream, event in zip(streams, events, strict=True):
        event.record(stream)
    calls: list[Call] = []
    for k, call in enumerate(tiny_calls(gpu)):
        stream = streams[k % 2]
        calls.append(partial(torch.cuda.set_stream, stream))
        calls.append(partial(stream.wait_event, events[1 - k % 2]))
        calls.append(call)
        calls.append(partial(events[k % 2].record, stream))
    return calls
