"""What dispatch costs a host: the calls of its thread, waits between lanes, launches of CUDA graphs."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, fields

from graphsched.platform.checks import check_number
from graphsched.platform.pace import at_pace
from graphsched.platform.points import at_lanes, between, checked_points


@dataclass(frozen=True, slots=True)
class Dispatch:
    """What the dispatching thread and the waits between lanes cost, in seconds.

    Attributes:
        call_s: The yardstick: issuing one tiny operation in a row, when these figures were measured; 0 if unknown.
        product_s: The yardstick of CPU lanes: a small product on one of them, just before a run; 0 if unknown.
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
        yield_s: Letting CPU lanes run between two questions whether a device is done.
        handoff_s: Giving a task to a worker lane that sleeps (host).
        put_s: Giving one to a worker lane that is busy or has been given others; 0: unknown, as `handoff_s`.
        lock_signal_s: What a CPU lane's operation takes longer where another thread waits for the interpreter's
            lock, which it lets go: the call that wakes that thread; 0: unknown.
        lock_wake_s: From a lane's letting the lock go to the return of a thread that waited for it; 0: unknown.
        tell_s: What the end of a task takes a CPU lane longer for each lane that sleeps until then; 0: unknown, as
            `handoff_s`.
        told_s: From there to the start of a task on that lane; 0: unknown, as `wake_s`.
        wake_s: From a worker task being ready to its start.
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
        colds: What the call after a wait of the thread takes longer than in a row, by the length of the wait: (µs,
            seconds), ascending; empty: unknown.
        query_s: Asking once whether a lane is done, when it is.
        asked_s: The thread's return from waiting for what is over already; 0: unknown, as `sync_s`.
        launch_s: From a launch being issued to its start on an idle lane.
        item_s: Host time of one launch inside a task of several.
        graph_launch_s, graph_launch_node_s: Launching a CUDA graph (host); what each node adds to that.
        graph_starts: From a launch of a CUDA graph to the start of its first node on an idle device, by the number
            of nodes, ascending: (nodes, seconds); empty: `graph_launch_s` and `launch_s` together.
        graph_lane_s: What each lane of the graph after the first adds to that.
        graph_node_s: What a tiny node in a row adds to a replay on the device.
        graph_across_s: What launching a graph takes the thread longer for each of its GPUs beyond the first.
        graph_across_start_s: How much later its first node starts for that.
        graph_across_root_s, graph_across_edge_s: What each node that waits for nothing, and each copy between GPUs and
            edge between them, takes the thread where a graph is on several GPUs; a node starts only once the thread
            has come to it.
        graph_other_device_s: `other_device_s` inside a graph; 0: unknown, as outside.
        graph_look_s: How often the GPU that a graph over several is launched on looks whether the others are done; 0:
            unknown, it sees each one's end after `graph_other_device_s`.
        graph_look_ahead_s: How long before the graph's first node may start it looks for the first time.
        graph_seen_s: From the look that finds the last of them done to the end of the graph.
        graph_wait_s: An edge of a graph to another lane where the lanes' nodes are one chain.
        graph_fork_s: An edge of a graph where a branch leaves a lane, or comes back to one.
        graph_copy_edge_s, graph_copies_edge_s, graph_peer_edge_s: `copy_edge_s`, `copies_edge_s` and `peer_edge_s`
            inside a graph; 0: unknown, as an edge between tasks.
        graph_copy_join_s, graph_peer_join_s: How much later a task in a graph starts for each copy with the host, or
            between GPUs, that it waits for beside its lane's last task, even if the copy was over before.
        graph_event_s: What a timing event takes in a lane of a graph; 0: unknown, `timed_gap_s` counts for two.
        graph_launch_event_s: What each timing event adds to the thread's launch of a graph on one GPU.
        graph_stamp_s: What a stamp takes in a lane of a graph: a kernel in the place of a timing event, which writes
            down the GPU's clock; 0: unknown, there are events.
        graph_stamps: `graph_stamp_s` by the memory that the graph works on, which a cache may hold or not: (bytes,
            seconds), ascending; empty: `graph_stamp_s`, whatever that is.
        graph_timed_edge_s: What an edge of `graph_fork_s` takes longer where timing events stand around its ends.
        graph_rates: Device seconds a node where tiny nodes run in so many lanes of a graph at once: (lanes,
            seconds), ascending; empty: they do not hold each other up.
        graph_event_rates: Device seconds a timing event where so many lanes of a graph have them at once: (lanes,
            seconds), ascending; empty: those of different lanes do not hold each other up.
        graph_copy_in_s, graph_copy_out_s, graph_peer_copy_s: A copy of 4 KB in a row inside a graph, from pinned
            memory, to it, between GPUs; 0: unknown, as long as in a stream.
    """

    call_s: float = 0.0
    product_s: float = 0.0
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
    yield_s: float = 0.0
    handoff_s: float = 1e-5
    put_s: float = 0.0
    lock_signal_s: float = 0.0
    lock_wake_s: float = 0.0
    tell_s: float = 0.0
    told_s: float = 0.0
    wake_s: float = 3e-5
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
    query_s: float = 0.0
    asked_s: float = 0.0
    launch_s: float = 4e-6
    item_s: float = 4e-6
    graph_launch_s: float = 1e-5
    graph_launch_node_s: float = 0.0
    graph_starts: tuple[tuple[int, float], ...] = ()
    graph_lane_s: float = 0.0
    graph_node_s: float = 1e-6
    graph_across_s: float = 0.0
    graph_across_start_s: float = 0.0
    graph_across_root_s: float = 0.0
    graph_across_edge_s: float = 0.0
    graph_other_device_s: float = 0.0
    graph_look_s: float = 0.0
    graph_look_ahead_s: float = 0.0
    graph_seen_s: float = 0.0
    graph_copy_join_s: float = 0.0
    graph_peer_join_s: float = 0.0
    graph_wait_s: float = 2e-7
    graph_fork_s: float = 0.0
    graph_copy_edge_s: float = 0.0
    graph_copies_edge_s: float = 0.0
    graph_peer_edge_s: float = 0.0
    graph_event_s: float = 0.0
    graph_launch_event_s: float = 0.0
    graph_stamp_s: float = 0.0
    graph_stamps: tuple[tuple[int, float], ...] = ()
    graph_timed_edge_s: float = 0.0
    graph_rates: tuple[tuple[int, float], ...] = ()
    graph_event_rates: tuple[tuple[int, float], ...] = ()
    graph_copy_in_s: float = 0.0
    graph_copy_out_s: float = 0.0
    graph_peer_copy_s: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name in TABLES:
                points = checked_points(getattr(self, field.name), field.name, TABLES[field.name])
                object.__setattr__(self, field.name, points)
            else:
                check_number(getattr(self, field.name), f"dispatch {field.name}", positive=field.name == "queue_depth")

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
        waited_us, slope = min(max(0.0, waited_s), COLDEST_S) * 1e6, 0.0
        x0, y0 = 0, 0.0
        for x1, y1 in self.colds:
            slope = (y1 - y0) / (x1 - x0)
            if waited_us <= x1:
                break
            x0, y0 = x1, y1
        return y0 + slope * (waited_us - x0)

    def graph_start_s(self, nodes: int) -> float:
        """From the launch of a CUDA graph of `nodes` nodes in one lane to the start of the first, on an idle device.

        Linear between the numbers of nodes that were measured and beyond the last, never falling there.

        Example:
            >>> costs = Dispatch(graph_starts=((1, 1.0), (11, 2.0), (21, 2.5)))
            >>> costs.graph_start_s(1), costs.graph_start_s(6), costs.graph_start_s(41)
            (1.0, 1.5, 3.5)
            >>> Dispatch(graph_launch_s=2.0, graph_launch_node_s=0.5, launch_s=1.0).graph_start_s(4)
            5.0
        """
        points = self.graph_starts
        if not points:
            return self.graph_launch_s + self.graph_launch_node_s * nodes + self.launch_s
        if nodes <= points[0][0] or len(points) == 1:
            return points[0][1]
        after = min(bisect_left(points, (nodes, 0.0)), len(points) - 1)
        (x0, y0), (x1, y1) = points[after - 1 : after + 1]
        slope = (y1 - y0) / (x1 - x0)
        return y0 + slope * (nodes - x0) if nodes <= x1 else y1 + max(0.0, slope) * (nodes - x1)

    def graph_rate_s(self, lanes: int) -> float:
        """Least time from one node of a graph to the next, of any of `lanes` lanes of a device; 0 in one lane.

        Linear between the numbers of lanes that were measured; the last also for more.

        Example:
            >>> costs = Dispatch(graph_rates=((2, 3.0), (4, 1.0)))
            >>> costs.graph_rate_s(1), costs.graph_rate_s(3), costs.graph_rate_s(9)
            (0.0, 2.0, 1.0)
        """
        return at_lanes(self.graph_rates, lanes)

    def graph_event_rate_s(self, lanes: int) -> float:
        """Least time from one timing event of a graph to the next, of any of `lanes` lanes of a device; 0 in one lane.

        Read off as `graph_rate_s` is.

        Example:
            >>> costs = Dispatch(graph_event_rates=((2, 2.0), (8, 3.5)))
            >>> costs.graph_event_rate_s(1), costs.graph_event_rate_s(4), Dispatch().graph_event_rate_s(4)
            (0.0, 2.5, 0.0)
        """
        return at_lanes(self.graph_event_rates, lanes)

    def stamp_s(self, memory_bytes: int) -> float:
        """What a stamp takes in a lane of a graph that works on so much memory of its GPU.

        Example:
            >>> costs = Dispatch(graph_stamp_s=1.0, graph_stamps=((100, 1.0), (300, 2.0)))
            >>> costs.stamp_s(0), costs.stamp_s(200), Dispatch(graph_stamp_s=1.5).stamp_s(200)
            (1.0, 1.5, 1.5)
        """
        return between(self.graph_stamps, memory_bytes) if self.graph_stamps else self.graph_stamp_s

    def at(self, call_s: float, colds: tuple[tuple[int, float], ...] = ()) -> Dispatch:
        """These figures for a thread whose tiny operation takes `call_s` now: a core's speed changes within minutes.

        All host time of calls, and of launches of CUDA graphs, is scaled by the ratio to the yardstick; as it is where
        either is unknown (0). A graph starts later by what its launch takes longer. What calls take longer after waits
        changes otherwise: `colds` as measured now, where it was.

        Example:
            >>> Dispatch(call_s=6e-6, record_s=1e-6).at(9e-6).record_s
            1.5e-06
            >>> Dispatch(call_s=6e-6, graph_launch_s=4e-6, graph_starts=((1, 9e-6),)).at(9e-6).graph_start_s(1)
            1.1e-05
            >>> Dispatch(call_s=6e-6, colds=((200, 1e-6),)).at(9e-6, ((200, 5e-6),)).colds
            ((200, 5e-06),)
        """
        return at_pace(self, call_s, colds)


TABLES = {
    "changes": "kinds",
    "colds": "microseconds",
    "graph_starts": "nodes",
    "graph_stamps": "bytes",
    "graph_rates": "lanes",
    "graph_event_rates": "lanes",
}
"""Fields of `Dispatch` that are tables: pairs of a number of what is named, and seconds."""

LONG_WAIT_S = 2e-5
"""Length of wait from which on `Dispatch.cold_s` counts."""

COLDEST_S = 1e-3
"""Length of wait beyond which no call is taken to be colder: none was seen after longer ones."""

BLOCKING_BYTES = 4096
"""What the copies of `Dispatch.blocking_in_s` and its like carry."""
