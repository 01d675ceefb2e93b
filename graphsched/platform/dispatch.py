"""What dispatch costs a host: calls of its thread, waits between lanes; of CUDA graphs, see `platform.graph_costs`."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import sqrt

from graphsched.costs.points import between
from graphsched.platform.checks import check_number, check_seconds
from graphsched.platform.graph_costs import GraphCosts
from graphsched.platform.pace import Pace, at_pace
from graphsched.platform.points import after_wait, checked_points


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch(GraphCosts):
    """What the dispatching thread and the waits between lanes cost, in seconds; also what `GraphCosts` says.

    Attributes:
        call_s: The yardstick: issuing one tiny operation in a row, when these figures were measured; 0 if unknown.
        mixed_calls: How many times as long as `call_s` a call takes in a row of tiny operations of several kinds, while
            the thread's core is quiet; 0: unknown, `MIXED_CALLS`, and a thread's pace is told by `call_s` alone.
        product_s: The yardstick of CPU lanes: a small product on one of them, just before a run; 0 if unknown.
        sweep_s: The other one of those of several threads: 50 MB read and written that no cache holds; 0 if unknown.
        sweeps: The same by how many bytes these go round, one after the other: (bytes, seconds) pairs; empty: unknown,
            and taken to be in no cache.
        fetch_s: What a copy of 16.8 MB to a GPU takes longer where such a lane has just written them, just before a
            run; 0 if unknown: as `Link.written_s` says.
        pinned_s: What it takes such a lane to copy as much of what it has just written into pinned memory, just before
            a run; 0 if unknown: as the link says.
        run_s: Own time of the executor for one task beside the task's calls.
        copy_s, copy_out_s: Issuing one copy from the host to a GPU; to the host (0: unknown, as from it).
        blocking_in_s, blocking_out_s, fresh_out_s: A copy of 4 KiB that blocks the thread, from its call to its return:
            from pageable memory, to it, to new memory; 0: unknown, it is the call, a launch and the link's time.
        peer_copy_s: Issuing one copy between GPUs.
        copy_company_s, copy_out_company_s, peer_company_s: What issuing a copy to a GPU, to the host, between GPUs
            takes longer after calls of `COMPANY_KINDS` other kinds; 0: unknown, as `changes` say.
        change_s: What a call takes longer after one of another kind than after one of its own.
        changes: The same by the number of other kinds that were called in between, ascending: (kinds, seconds);
            empty where only `change_s` is known.
        free_s: Giving a value's memory back.
        record_s, wait_s: Recording an event; making a lane wait for one.
        device_wait_s: Making a lane wait for an event of another GPU.
        switch_s, device_switch_s: Making another stream current, of the same GPU; of another.
        timed_record_s: Recording a timing event (host); two an action when spans are measured.
        timed_gap_s: What two timing events around an action add to its lane.
        timed_edge_s: What a wait for another lane takes longer where timing events stand around both actions.
        timed_beside_s: What a timing event takes longer while a copy from pinned memory of the host goes into its GPU.
        sync_s: The thread's return from waiting for one finished device.
        result_s: The thread's return from waiting for a CPU lane, as for a result that a GPU needs; 0: unknown, at the
            end of a run or a wait it is `sync_s` then.
        spun_s: The same of a thread that stays awake, as it does where a plan leaves it a core
            (`plan.spares_a_core`); it need not let lanes run either then. 0: unknown, it sleeps.
        look_s: Letting CPU lanes run between two questions whether a device is done, while one of them is at work.
        yield_s: The same of programs that did so whether or not one was, as platforms were measured before.
        handoff_s: Giving a task to a worker lane that sleeps (host).
        put_s: Giving one to a worker lane that is busy or has been given others; 0: unknown, as `handoff_s`.
        lock_signal_s: What a CPU lane's operation takes longer where another thread waits for the interpreter's
            lock, which it lets go: the call that wakes that thread; 0: unknown.
        lock_wake_s: From a lane's letting the lock go to the return of a thread that waited for it; 0: unknown.
        lock_losses: What the dispatching thread loses, between calls that let the lock go, each time a CPU lane takes
            it, by how long that has rested before its task: (µs, seconds), ascending; empty: unknown.
        lock_late_s: What an operation of a CPU lane takes longer beside such calls, for it finds the lock taken; 0:
            unknown.
        tell_s: What the end of a task takes a CPU lane longer for each lane that sleeps until then; 0: unknown, as
            `handoff_s`.
        told_s: From there to the start of a task on that lane; 0: unknown, as `wake_s`.
        wake_s: From a worker task being ready to its start.
        wakes: The same where all that it reads is there when it is handed over, by how long the lane has slept until
            then: (µs, seconds), ascending; empty: unknown, as `wake_s`.
        job_s: What a CPU lane takes for a task beside its operation: taking it, saying that it is done, giving memory
            back.
        same_device_s, other_device_s: Latency of a wait on another lane of the device, of another device.
        copy_edge_s, copies_edge_s: Latency of a wait between a lane of tasks and one of copies with the host, either
            way; between the two lanes of such copies; 0: unknown, as `same_device_s`.
        peer_edge_s: Between a lane of tasks and one of copies from its GPU to another, either way; 0: unknown, as
            `same_device_s`.
        queue_depth: Launches that a device's queue holds before the thread blocks.
        start_s: What the first calls of a timed run take longer, for the processor's caches are cold.
        first_s: What a run that follows one like it takes longer than its first call, launch and return add up to.
        first_in_s, first_out_s, first_peer_s: The same of a run that begins with a copy to a GPU, to the host, between
            GPUs; 0: unknown, as one that begins with a task.
        cold_s: What the call after a wait of more than 20 µs takes longer, however long it was, where `colds` is empty.
        slept_colds: What the first calls after a wait for a CPU lane take longer, by the length of the wait, beyond
            `result_s`: (µs, seconds), ascending; empty: unknown, as after other waits.
        colds: What a tiny call after a wait of the thread takes longer than in a row, by the length of the wait: (µs,
            seconds), ascending; empty: unknown. `cold_call_s` says it of others.
        query_s: Asking once whether a lane is done, when it is.
        asked_s: The thread's return from waiting for what is over already; 0: unknown, as `sync_s`.
        step_s, step_gpu_s: What a step takes the thread beyond the calls of its plan where steps follow one another;
            what each GPU of the plan after the first adds to that.
        message_s: Sending or receiving a message between GPUs of two ranks, or a rank's part of a collective of GPUs;
            0: unknown, as a copy between GPUs in one process.
        first_message_s: What the first of these takes a rank's thread longer in a run.
        meeting_s: What it takes all ranks to meet at the end of a run, or a wait of all, beyond each thread's return.
    """

    call_s: float = 0.0
    mixed_calls: float = 0.0
    product_s: float = 0.0
    sweep_s: float = 0.0
    fetch_s: float = 0.0
    pinned_s: float = 0.0
    run_s: float = 2e-6
    copy_s: float = 8e-6
    copy_out_s: float = 0.0
    blocking_in_s: float = 0.0
    blocking_out_s: float = 0.0
    fresh_out_s: float = 0.0
    peer_copy_s: float = 2.5e-5
    copy_company_s: float = 0.0
    copy_out_company_s: float = 0.0
    peer_company_s: float = 0.0
    change_s: float = 0.0
    changes: tuple[tuple[int, float], ...] = ()
    free_s: float = 0.0
    record_s: float = 1.2e-6
    wait_s: float = 1.3e-6
    device_wait_s: float = 1.3e-6
    switch_s: float = 1.1e-6
    device_switch_s: float = 1.1e-6
    timed_record_s: float = 2.2e-6
    timed_gap_s: float = 2e-6
    timed_edge_s: float = 0.0
    timed_beside_s: float = 0.0
    sync_s: float = 1e-5
    result_s: float = 0.0
    spun_s: float = 0.0
    look_s: float = 0.0
    yield_s: float = 0.0
    handoff_s: float = 1e-5
    put_s: float = 0.0
    lock_signal_s: float = 0.0
    lock_wake_s: float = 0.0
    lock_losses: tuple[tuple[int, float], ...] = ()
    lock_late_s: float = 0.0
    tell_s: float = 0.0
    told_s: float = 0.0
    wake_s: float = 3e-5
    wakes: tuple[tuple[int, float], ...] = ()
    job_s: float = 0.0
    same_device_s: float = 4e-7
    other_device_s: float = 5.7e-6
    copy_edge_s: float = 0.0
    copies_edge_s: float = 0.0
    peer_edge_s: float = 0.0
    queue_depth: int = 1024
    start_s: float = 0.0
    first_s: float = 0.0
    first_in_s: float = 0.0
    first_out_s: float = 0.0
    first_peer_s: float = 0.0
    cold_s: float = 0.0
    colds: tuple[tuple[int, float], ...] = ()
    slept_colds: tuple[tuple[int, float], ...] = ()
    sweeps: tuple[tuple[int, float], ...] = ()
    query_s: float = 0.0
    asked_s: float = 0.0
    step_s: float = 0.0
    step_gpu_s: float = 0.0
    message_s: float = 0.0
    first_message_s: float = 0.0
    meeting_s: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name in TABLES:
                points = checked_points(getattr(self, field.name), field.name, TABLES[field.name])
                object.__setattr__(self, field.name, points)
            elif field.name in NUMBERS:
                positive = field.name == "queue_depth"
                check_number(getattr(self, field.name), f"dispatch {field.name}", positive=positive)
            else:
                check_seconds(getattr(self, field.name), f"dispatch {field.name}")

    def change_after_s(self, others: int) -> float:
        """What a call takes longer after calls of `others` other kinds, linear between those measured.

        Example:
            >>> Dispatch(changes=((4, 1.0), (8, 3.0))).change_after_s(6)
            2.0
            >>> Dispatch(change_s=1e-6).change_after_s(1), Dispatch(change_s=1e-6).change_after_s(0)
            (1e-06, 0.0)
        """
        return between(((0, 0.0), *(self.changes or ((1, self.change_s),))), others)

    def cold_after_s(self, waited_s: float) -> float:
        """What a call takes longer after the thread has waited for `waited_s`: it finds its caches colder.

        Linear from no wait to the first that was measured, between those measured, and on up to `COLDEST_S`.

        Example:
            >>> costs = Dispatch(colds=((20, 1e-6), (200, 4e-6)))
            >>> [round(costs.cold_after_s(us * 1e-6) * 1e6, 3) for us in (0, 10, 110, 380, 1000, 5000)]
            [0.0, 0.5, 2.5, 7.0, 17.333, 17.333]
            >>> Dispatch(cold_s=1e-6).cold_after_s(1e-5), Dispatch(cold_s=1e-6).cold_after_s(1e-4)
            (0.0, 1e-06)
        """
        if not self.colds:
            return self.cold_s if waited_s > LONG_WAIT_S else 0.0
        return after_wait(self.colds, waited_s)

    def cold_call_s(self, waited_s: float, call_s: float, slept_s: float = 0.0) -> float:
        """What a call that takes `call_s` in a row takes longer after the thread has waited for `waited_s`.

        `colds` tell of tiny calls, which take `mixed_calls` times `call_s` each. A longer call has more code and data
        to lose, though not in proportion: it loses more as the square root of its time. Where it has waited for a CPU
        lane, for `slept_s`, what is colder of the two counts.

        Example:
            >>> costs = Dispatch(call_s=1e-5, colds=((200, 4e-6),))
            >>> [round(costs.cold_call_s(2e-4, call_s) * 1e6, 3) for call_s in (0.0, 1.3e-5, 5.2e-5)]
            [0.0, 4.0, 8.0]
            >>> Dispatch(colds=((200, 4e-6),)).cold_call_s(2e-4, 5.2e-5)  # what a tiny call takes is unknown
            4e-06
            >>> round(Dispatch(colds=((200, 4e-6),), slept_colds=((200, 6e-5),)).cold_call_s(2e-4, 0.0, 1e-4) * 1e6)
            30
        """
        cold_s = self.cold_after_s(waited_s)
        tiny_s = (self.mixed_calls or MIXED_CALLS) * self.call_s
        cold_s = cold_s * sqrt(call_s / tiny_s) if self.colds and tiny_s else cold_s
        return max(cold_s, self.slept_cold_s(slept_s))

    def slept_cold_s(self, slept_s: float) -> float:
        """What the first calls take longer after the thread has waited for a CPU lane for `slept_s`.

        Example:
            >>> round(Dispatch(slept_colds=((200, 6e-5),)).slept_cold_s(1e-4) * 1e6)
            30
        """
        return after_wait(self.slept_colds, slept_s)

    def woken_s(self, slept_s: float) -> float:
        """From handing a task over to its start on a lane that has slept for `slept_s`, if it waits for nothing.

        Example:
            >>> costs = Dispatch(wake_s=8e-6, wakes=((100, 1e-5), (300, 2e-5)))
            >>> [round(costs.woken_s(us * 1e-6) * 1e6, 3) for us in (0, 200, 5000)]
            [10.0, 15.0, 20.0]
            >>> Dispatch(wake_s=8e-6).woken_s(1e-3)
            8e-06
        """
        return between(self.wakes, round(slept_s * 1e6)) if self.wakes else self.wake_s

    def lock_lost_s(self, rested_s: float) -> float:
        """What a call takes longer in which a CPU lane takes the lock that has rested for `rested_s` before its task.

        Example:
            >>> costs = Dispatch(lock_losses=((100, 1e-5), (300, 2e-5)))
            >>> [round(costs.lock_lost_s(us * 1e-6) * 1e6, 3) for us in (0, 100, 200, 5000)]
            [10.0, 10.0, 15.0, 20.0]
            >>> Dispatch().lock_lost_s(1e-3)
            0.0
        """
        return between(self.lock_losses, round(rested_s * 1e6)) if self.lock_losses else 0.0

    def launch_cold_s(self, waited_s: float, gpus: int, slept_s: float = 0.0) -> float:
        """How much later a CUDA graph on so many GPUs starts where the thread has waited before it launches it.

        As `cold_after_s` where that was not measured of graphs. Where it has waited for a CPU lane, for `slept_s`, what
        is colder of the two counts.

        Example:
            >>> costs = Dispatch(colds=((20, 4e-6),), graph_colds=((20, 1e-6),))
            >>> costs.launch_cold_s(1e-5, 1), costs.launch_cold_s(1e-5, 2), costs.launch_cold_s(2e-5, 1)
            (5e-07, 2e-06, 1e-06)
            >>> slept = Dispatch(colds=((20, 1e-6),), graph_slept_colds=((2000, 8e-5),))
            >>> [round(slept.launch_cold_s(2e-5, 1, slept_s) * 1e6) for slept_s in (1e-3, 1e-6)]
            [40, 1]
        """
        slept = self.graph_across_slept_colds if gpus > 1 else self.graph_slept_colds
        if not slept:
            waited_s = max(waited_s, slept_s)
        points = self.graph_across_colds if gpus > 1 else self.graph_colds
        cold_s = after_wait(points, waited_s) if points else self.cold_after_s(waited_s)
        return max(cold_s, after_wait(slept, slept_s))

    def awake(self) -> Dispatch:
        """These figures for a thread that stays awake while CPU lanes are at work; as they are where that is unknown.

        Example:
            >>> awake = Dispatch(result_s=1e-5, look_s=2e-5, spun_s=3e-6).awake()
            >>> awake.result_s, awake.look_s
            (3e-06, 0.0)
            >>> Dispatch(result_s=1e-5).awake().result_s
            1e-05
        """
        return replace(self, result_s=self.spun_s, look_s=0.0, yield_s=0.0) if self.spun_s else self

    def at(self, now: Pace) -> Dispatch:
        """These figures for a thread and CPU lanes at this pace: a core's speed changes within minutes.

        All host time of calls is scaled by the ratio of `Pace.call_s` to `call_s`, or a power of it (`pace.POWERS`); as
        it is where either is unknown (0). So are launches of CUDA graphs, by the ratio of `Pace.launches` to
        `graph_launches` where both were measured: they slow down by more. A graph starts later by what its launch takes
        longer. What calls and launches take longer after waits changes otherwise, and is as measured now where it was.

        Example:
            >>> Dispatch(call_s=6e-6, device_wait_s=1e-6).at(Pace(9e-6)).device_wait_s
            1.5e-06
            >>> Dispatch(call_s=6e-6, graph_launch_s=4e-6, graph_starts=((1, 9e-6),)).at(Pace(9e-6)).graph_start_s(1)
            1.1e-05
            >>> Dispatch(call_s=6e-6, colds=((200, 1e-6),)).at(Pace(9e-6, colds=((200, 5e-6),))).colds
            ((200, 5e-06),)
        """
        return at_pace(self, now)


TABLES = {
    "changes": "kinds",
    "colds": "microseconds",
    "slept_colds": "microseconds",
    "lock_losses": "microseconds",
    "wakes": "microseconds",
    "graph_colds": "microseconds",
    "graph_across_colds": "microseconds",
    "graph_slept_colds": "microseconds",
    "graph_across_slept_colds": "microseconds",
    "graph_launches": "GPUs",
    "graph_starts": "nodes",
    "graph_stamps": "bytes",
    "sweeps": "bytes",
    "graph_rates": "lanes",
    "graph_event_rates": "lanes",
}
"""Fields of `Dispatch` that are tables: pairs of a number of what is named, and seconds."""

LONG_WAIT_S = 2e-5
"""Length of wait from which on `Dispatch.cold_s` counts."""

MIXED_CALLS = 1.3
"""`Dispatch.mixed_calls` of an H200's host: 1.28 to 1.30, while others use its core up to 1.6 (docs/readings.md)."""

NUMBERS = "mixed_calls", "queue_depth"
"""Fields of `Dispatch` that are no seconds."""

COMPANY_WAIT_S = 2e-4
"""Length of the wait that `TaskCost.cold_s` was measured after."""

BLOCKING_BYTES = 4096
"""What the copies of `Dispatch.blocking_in_s` and its like carry."""
