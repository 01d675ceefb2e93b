"""What launches cost on the device, and what CUDA graphs cost: their launches, nodes, edges, events and copies."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from graphsched.costs.points import between
from graphsched.platform.points import at_lanes

GRAPH_COPY_BYTES = 4096
"""What the copies of `GraphCosts.graph_copy_in_s` and its like carry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCosts:
    """The part of `Dispatch` that is about CUDA graphs, in seconds; measured by `calibration.cuda_graphs` and its kin.

    Attributes:
        launch_s: From a launch being issued to its start on an idle lane.
        graph_launches: The yardsticks of launches: launching a graph of tiny tasks on so many GPUs, when these figures
            were measured: (GPUs, seconds), ascending; empty: unknown, `Dispatch.call_s` counts.
        graph_colds, graph_across_colds: How much later the end of a CUDA graph on one GPU, over several, is where the
            thread has waited before its launch, by the length of the wait: (µs, seconds), ascending; empty: unknown,
            as `Dispatch.colds`. What else is told of launches is of such without a wait then.
        graph_slept_colds, graph_across_slept_colds: The same where it has waited for a CPU lane, beyond
            `Dispatch.result_s`; empty: unknown, as behind other waits.
        graph_launch_s, graph_launch_node_s: Launching a CUDA graph (host); what each node adds to that.
        graph_starts: From a launch of a CUDA graph to the start of its first node on an idle device, by the number
            of nodes, ascending: (nodes, seconds); empty: `graph_launch_s` and `launch_s` together.
        graph_root_s: What each further node that waits for nothing takes the thread on the GPU that a graph is launched
            on; it starts only once the thread has come to it; 0: unknown.
        graph_lane_s: What each lane after the first adds to the start of a graph where `graph_root_s` is unknown.
        graph_node_s: What a tiny node in a row adds to a replay on the device.
        graph_across_s: What launching a graph takes the thread longer for each of its GPUs beyond the first.
        graph_across_start_s: How much later its first node starts for that.
        graph_across_root_s: What each node that waits for nothing takes it on another GPU; where `graph_root_s` is
            unknown, on any of several. It starts only once the thread has come to it.
        graph_across_edge_s: What each edge between GPUs takes it there where a graph is on two.
        graph_across_copy_s: What each copy between GPUs takes it; 0: unknown, as long as an edge.
        graph_across_host_copy_s: What each copy with the host takes it; 0: unknown, as long as one between GPUs.
        graph_across_more_s: What an edge takes it longer with each GPU of the graph beyond two.
        graph_step_s: `Dispatch.step_s` in graph mode, on however many GPUs.
        graph_other_device_s: `Dispatch.other_device_s` inside a graph; 0: unknown, as outside.
        graph_look_s: How often the GPU that a graph over several is launched on looks whether the others are done; 0:
            unknown, it sees each one's end after `graph_other_device_s`.
        graph_known_s: From the end of its launch to when it knows what was over when it came to its last wait; 0:
            unknown, see `simulator.looks`.
        graph_look_again_s: From there to what its second look lets it know; 0: unknown, a `graph_look_s`.
        graph_wait_s: An edge of a graph to another lane where the lanes' nodes are one chain.
        graph_fork_s: An edge of a graph where a branch leaves a lane, or comes back to one.
        graph_copy_edge_s, graph_copies_edge_s, graph_peer_edge_s: `copy_edge_s`, `copies_edge_s` and `peer_edge_s`
            inside a graph; 0: unknown, as an edge between tasks.
        graph_beside_in_s: What an edge between GPUs, or to or from a copy, or a join with one takes longer inside a
            graph while a copy from the host into the GPU that waits is under way; 0: unknown, see `beside_in_s`.
        graph_beside_s: As measured before: the mean of copies into and out of each of two GPUs, over edges of both.
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

    launch_s: float = 4e-6
    graph_launches: tuple[tuple[int, float], ...] = ()
    graph_colds: tuple[tuple[int, float], ...] = ()
    graph_across_colds: tuple[tuple[int, float], ...] = ()
    graph_slept_colds: tuple[tuple[int, float], ...] = ()
    graph_across_slept_colds: tuple[tuple[int, float], ...] = ()
    graph_launch_s: float = 1e-5
    graph_launch_node_s: float = 0.0
    graph_starts: tuple[tuple[int, float], ...] = ()
    graph_root_s: float = 0.0
    graph_lane_s: float = 0.0
    graph_node_s: float = 1e-6
    graph_across_s: float = 0.0
    graph_across_start_s: float = 0.0
    graph_across_root_s: float = 0.0
    graph_across_edge_s: float = 0.0
    graph_across_copy_s: float = 0.0
    graph_across_host_copy_s: float = 0.0
    graph_across_more_s: float = 0.0
    graph_step_s: float = 0.0
    graph_other_device_s: float = 0.0
    graph_look_s: float = 0.0
    graph_known_s: float = 0.0
    graph_look_again_s: float = 0.0
    graph_copy_join_s: float = 0.0
    graph_peer_join_s: float = 0.0
    graph_wait_s: float = 2e-7
    graph_fork_s: float = 0.0
    graph_copy_edge_s: float = 0.0
    graph_copies_edge_s: float = 0.0
    graph_peer_edge_s: float = 0.0
    graph_beside_s: float = 0.0
    graph_beside_in_s: float = 0.0
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

    def graph_start_s(self, nodes: int) -> float:
        """From the launch of a CUDA graph of `nodes` nodes in one lane to the start of the first, on an idle device.

        Linear between the numbers of nodes that were measured and beyond the last, never falling there.

        Example:
            >>> costs = GraphCosts(graph_starts=((1, 1.0), (11, 2.0), (21, 2.5)))
            >>> costs.graph_start_s(1), costs.graph_start_s(6), costs.graph_start_s(41)
            (1.0, 1.5, 3.5)
            >>> GraphCosts(graph_launch_s=2.0, graph_launch_node_s=0.5, launch_s=1.0).graph_start_s(4)
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
            >>> costs = GraphCosts(graph_rates=((2, 3.0), (4, 1.0)))
            >>> costs.graph_rate_s(1), costs.graph_rate_s(3), costs.graph_rate_s(9)
            (0.0, 2.0, 1.0)
        """
        return at_lanes(self.graph_rates, lanes)

    def graph_event_rate_s(self, lanes: int) -> float:
        """Least time from one timing event of a graph to the next, of any of `lanes` lanes of a device; 0 in one lane.

        Read off as `graph_rate_s` is.

        Example:
            >>> costs = GraphCosts(graph_event_rates=((2, 2.0), (8, 3.5)))
            >>> costs.graph_event_rate_s(1), costs.graph_event_rate_s(4), GraphCosts().graph_event_rate_s(4)
            (0.0, 2.5, 0.0)
        """
        return at_lanes(self.graph_event_rates, lanes)

    @property
    def beside_in_s(self) -> float:
        """What an edge or a join takes longer beside a copy from the host into the GPU that waits.

        Where that was not measured by itself it is four times `graph_beside_s`: of the two directions only that into a
        GPU costs edges anything, and of the edges round two GPUs only those that wait on that one.

        Example:
            >>> GraphCosts(graph_beside_s=1.0).beside_in_s, GraphCosts(graph_beside_in_s=3.5).beside_in_s
            (4.0, 3.5)
        """
        return self.graph_beside_in_s or 4 * self.graph_beside_s

    def stamp_s(self, memory_bytes: int) -> float:
        """What a stamp takes in a lane of a graph that works on so much memory of its GPU.

        Example:
            >>> costs = GraphCosts(graph_stamp_s=1.0, graph_stamps=((100, 1.0), (300, 2.0)))
            >>> costs.stamp_s(0), costs.stamp_s(200), GraphCosts(graph_stamp_s=1.5).stamp_s(200)
            (1.0, 1.5, 1.5)
        """
        return between(self.graph_stamps, memory_bytes) if self.graph_stamps else self.graph_stamp_s
