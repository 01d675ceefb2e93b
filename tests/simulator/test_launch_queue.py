"""A device's queue of launches: what blocks the thread, and when it goes on."""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush

from hypothesis import given
from hypothesis import strategies as st

from graphsched.costs import TaskCost
from graphsched.simulator import Model, predict
from graphsched.simulator.launch_queue import UNKNOWN, LaunchQueue
from graphsched.workload import TensorSpec, Workload
from tests.builders import FREE, NO_CALLS, chain, nothing, operations, planned, platform, spans_of, workload


def test_full_launch_queue_blocks_the_thread():
    """t0 -> t1 -> … of 10 s, a queue of 2: the thread issues t2 when t0 is over, and so on."""
    plan = planned(
        chain(5, 10.0), platform(dispatch=replace(FREE, queue_depth=2)), {f"t{i}": "cuda:0/s0" for i in range(5)}
    )
    assert [s.issue_end_s for s in predict(plan)] == [0, 0, 10, 20, 30]
    assert [s.issue_end_s for s in predict(plan, model=Model(launch_queue=False))] == [0] * 5


def test_launch_queue_counts_launches_of_all_streams():
    """Tasks of 2 launches on two streams, a queue of 4: c is issued when a or b is over."""
    work, costs = operations({"a": 0, "b": 1, "c": 0}, [TaskCost(10.0, launches=2), TaskCost(6.0, launches=2)])
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s1", "c": "cuda:0/s0"}
    here = platform(dispatch=replace(FREE, queue_depth=4))
    alone = Model(sharing=False)
    assert predict(planned(work, here, lanes, costs=costs), model=alone)[2].issue_end_s == 6
    # Sharing by halves: b ends at 12, a at 16. The thread learns of it through the clock.
    assert predict(planned(work, here, lanes, costs=costs))[2].issue_end_s == 12


def test_full_queue_with_timing_events_goes_on_at_the_event_after():
    """Chains of shared tasks on two streams behind a queue of 2, a gap of 1 s each: nothing gets stuck."""
    work = workload({f"{lane}{i}": 2.0 for i in range(4) for lane in "ab"})
    here = platform(dispatch=replace(FREE, queue_depth=2, timed_gap_s=1.0))
    lanes = {t: f"cuda:0/s{int(t[0] == 'b')}" for t in work.graph}
    timeline = predict(planned(work, here, lanes))
    assert [s.issue_end_s for s in timeline] == [0, 0, 5, 5, 10, 10, 15, 15]
    assert timeline.timed_makespan_s == 20
    assert timeline.makespan_s == 16


def test_thread_goes_on_at_an_end_that_is_known_while_others_are_not():
    """back: a copy of 5 s; a, b of 10 s share the device; a queue of 3 makes d, of 10 s, wait for the copy.

    a and b run at halves until 5 s, then all three at thirds: a, b to 27.5, and d, with 2.5 s left, to 30.
    """
    work = Workload()
    x = work.input("x", TensorSpec((500,), "uint8"), device="cuda:0")
    work.copy(x, to="cpu", pinned=True, name="back")
    for name in "abd":
        work.task(nothing, name=name, outputs=[], duration_s=10.0)
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s1", "d": "cuda:0/s2"}
    plan = planned(work, platform(dispatch=replace(FREE, queue_depth=3)), lanes, costs=NO_CALLS)
    assert spans_of(predict(plan)) == {
        "back": (0, 0, 0, 5), "a": (0, 0, 0, 27.5), "b": (0, 0, 0, 27.5), "d": (0, 5, 5, 30),
    }  # fmt: skip


def test_a_full_queue_where_the_first_call_begins_before_time_0():
    """Tasks of 2 s on two streams that share a GPU, a queue of 2: the run without events is as if no start had been.

    What the first call takes longer is in its call, and is taken off before it.
    """
    lanes = {"a": "cuda:0/s0", "b": "cuda:0/s1", "c": "cuda:0/s0", "d": "cuda:0/s1"}
    dispatch = replace(FREE, queue_depth=2)
    plain, started = (
        predict(planned(workload(dict.fromkeys("abcd", 2.0)), platform(dispatch=costs), lanes))
        for costs in (dispatch, replace(dispatch, start_s=3.0))
    )
    assert started.makespan_s == plain.makespan_s == 8
    assert started.timed_makespan_s > plain.timed_makespan_s


def test_queue_waits_for_an_end_that_is_not_known():
    queue = LaunchQueue(2)
    assert queue.admit(1, 0.0, 0.0) == 0.0
    assert queue.admit(1, 0.0, 0.0) == 0.0
    assert queue.admit(1, 1.0, 0.0) == UNKNOWN
    queue.over(1, 9.0)
    assert queue.admit(1, 1.0, 3.0) == UNKNOWN  # the other may end between 3 and 9
    assert not queue.moves(3.0)
    assert queue.next_end_s(3.0) == 9.0
    assert queue.moves(9.0)
    assert queue.admit(1, 1.0, 9.0) == 9.0


class Heap:
    """A launch queue that keeps all ends in a heap."""

    def __init__(self, depth: int) -> None:
        self.depth, self.held, self.ends = depth, 0, list[tuple[float, int]]()

    def admit(self, launches: int, at: float) -> float:
        """When so many launches fit in; all ends in the queue are known."""
        while self.held and self.held + launches > self.depth:
            end, over = heappop(self.ends)
            self.held, at = self.held - over, max(at, end)
        self.held += launches
        return at


@given(st.integers(1, 6), st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.integers(0, 9)), max_size=40))
def test_ends_in_any_order_make_room_in_the_order_of_time(depth: int, steps: list[tuple[int, int, int]]):
    """Actions of so many launches, issued so long after one another, over so long after their issue."""
    queue, heap, at = LaunchQueue(depth), Heap(depth), 0.0
    for launches, later_s, seconds in steps:
        admitted = queue.admit(launches, at + later_s, now=0.0)
        assert admitted == heap.admit(launches, at + later_s)
        at = admitted
        queue.over(launches, at + seconds)
        heappush(heap.ends, (at + seconds, launches))
        assert queue.next_end_s(-1.0) == heap.ends[0][0]
