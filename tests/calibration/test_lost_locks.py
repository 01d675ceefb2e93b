"""What calls lose to lanes that take the interpreter's lock from the thread that makes them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
import torch

from graphsched.calibration.lost_locks import LEAST, RESTS_US, Beside, Sample, found_of, lost_locks
from graphsched.executors.lanes import CpuLane, close_lanes
from graphsched.platform import Dispatch

SECONDS = 0.05


@pytest.fixture
def lane() -> Iterator[CpuLane]:
    found, threads = CpuLane("test", 1), torch.get_num_threads()
    yield found
    close_lanes({0: found})
    torch.set_num_threads(threads)


def samples(met: int, *, gains: bool = False) -> list[list[Sample]]:
    """Of four rests, behind which a row takes 2, 4, 8 and 6 s longer, tasks 1 s; `met` of them count."""
    longer = [-1.0] * 4 if gains else [2.0, 4.0, 8.0, 6.0]
    late_s = -1.0 if gains else 1.0
    return [[Sample(s, late_s, k < met) for s in longer] for k in range(40)]


def test_a_lane_takes_the_lock_twice_and_loses_more_behind_longer_rests() -> None:
    found = found_of(samples(LEAST))
    assert found == {"lock_losses": tuple(zip(RESTS_US, (1.0, 2.0, 4.0, 4.0), strict=True)), "lock_late_s": 1.0}
    assert Dispatch(**found).lock_lost_s(1e-3) == 4.0


def test_tasks_that_are_over_too_late_do_not_count_and_few_say_nothing() -> None:
    nothing = {"lock_losses": (), "lock_late_s": 0.0}
    assert found_of(samples(LEAST - 1)) == found_of([]) == nothing
    some = samples(LEAST)
    some[-1] = [Sample(900.0, 900.0, False)] * 4
    assert found_of(some) == found_of(samples(LEAST))


def test_nothing_is_won() -> None:
    found = found_of(samples(40, gains=True))
    assert found == {"lock_losses": tuple((us, 0.0) for us in RESTS_US), "lock_late_s": 0.0}


def test_what_a_row_takes_longer_is_what_it_waits(lane: CpuLane) -> None:
    """Calls that sleep without the lock while a task is under way take so much longer; the task as long as alone."""
    beside = Beside([lambda: time.sleep(1e-4)] * 10, lane)
    calm = beside.sample(1e-4)

    def waiting() -> None:
        until = time.perf_counter() + SECONDS
        while lane.at_work and time.perf_counter() < until:
            pass
        time.sleep(1e-4)

    busy = Beside([waiting, *[lambda: time.sleep(1e-4)] * 9], lane)
    busy._task = lambda: time.sleep(SECONDS)  # type: ignore[assignment]
    found = busy.sample(1e-4)
    assert found.met
    assert found.longer_s > calm.longer_s + SECONDS / 2
    assert abs(found.late_s) < SECONDS


def test_a_task_that_outlasts_the_row_has_not_met_it(lane: CpuLane) -> None:
    beside = Beside([lambda: None], lane)
    beside._task = lambda: time.sleep(0.1)  # type: ignore[assignment]
    assert not beside.sample(0.0).met


def test_the_lane_rests_while_the_thread_goes_on_calling(lane: CpuLane) -> None:
    calls, over = [], []
    beside = Beside([lambda: calls.append(time.perf_counter())], lane)
    beside._task = lambda: over.append(time.perf_counter())  # type: ignore[assignment]
    beside._rest(0.01)
    assert calls[-1] - over[0] >= 0.009
    assert len(calls) > 10


@pytest.mark.gpu
def test_beside_a_gpu_and_streams_and_threads_are_as_they_were() -> None:
    threads, alive, stream = torch.get_num_threads(), threading.active_count(), torch.cuda.current_stream(0)
    found = lost_locks(0, 2)
    assert (torch.get_num_threads(), threading.active_count()) == (threads, alive)
    assert torch.cuda.current_stream(0) == stream
    assert [us for us, _ in found["lock_losses"]] == list(RESTS_US)
    assert 1e-6 < found["lock_losses"][-1][1] < 1e-3
    assert 0.0 <= found["lock_late_s"] < 1e-3
