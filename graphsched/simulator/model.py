"""What the simulator takes into account: one switch a term."""

from __future__ import annotations

from dataclasses import dataclass, replace

from graphsched.platform import Dispatch
from graphsched.platform.pace import LANES, LAUNCH_COLDS, SLEPT_COLDS


@dataclass(frozen=True, slots=True)
class Model:
    """Terms of the model; a switch that is off removes its term, so that its share of an error can be named.

    Attributes:
        dispatch: Host time of the thread that issues (calls, waits, records, hand-offs), and from a
            launch to its start; of a CUDA graph its launch. Off: everything is issued at time 0, or when a wait ends.
        launch_queue: A device's queue of launches is finite, the thread blocks when it is full.
        waits: Latency of a wait on another lane, and of waking a worker lane; edges of a CUDA graph.
        contention: Transfers share capacities, max-min fair. Off: each takes the time it takes alone.
        engines: Copies from one GPU to others go one after another, where the platform says so. Off: side by side.
        load: Capacities with a table fall with the number of busy links. Off: each is its highest rate.
        sharing: Tasks side by side on one device, or on the host's cores, slow each other; nodes of a CUDA graph
            start one after another. Off: each runs as if alone.
        pairs: Of tasks side by side, what was measured of the pair counts. Off: curves only.
        block_queue: Blocks of kernels are placed first come, first served. Off: rates alone.
        traffic: Copies slow kernels that fill their device's memory rate, and these slow copies, where a platform
            says by how much.
        lanes: Copies between a GPU and the host take longer beside kernels on several of its lanes, where a platform
            says by how much.
        written: Copies to a GPU take longer of what a CPU lane has just written, and others beside them, where a link
            says how much.
        memory: Tasks on CPU lanes that want more of the host's memory together than it gives slow each other.
        timing: Timing events cost time in the run that spans are taken from.
        blocking: Pageable copies, and results of CPU lanes that a GPU task needs, hold up the thread.
        joins: Tasks in CUDA graphs start later where they wait for a copy of another engine beside their lane's last.
        beside: Edges of CUDA graphs between GPUs, and to and from copies, and joins with copies, take longer beside
            copies from the host into the GPU that waits.
        looks: The GPU that a graph over several is launched on sees that the others are done when it looks, now and
            then. Off: after the latency of an edge between GPUs.
        chance: What tasks in CUDA graphs wait for on another GPU is seen sooner or later by chance; the median of
            several simulations stands for all. Off: always as on average.
        cache: Tasks in CUDA graphs take longer or shorter where their inputs were just written, or have left the cache.
        company: They take longer behind tasks of other kinds.
        fetches: They take longer where they start together with others, and all of them have to fetch their code.
        interpreter: Threads of CPU lanes and the one that hands them tasks hold the interpreter's lock in turn, where
            a platform says what that costs. Off: each goes on as if it were alone.
        slept: CUDA graphs, and first calls to streams, start later where the thread that issues them has waited for a
            CPU lane, where that was measured. Off: as after other waits.
        rests: Tasks on CPU lanes of several threads take the longer the longer these have rested, where that was
            measured. Off: as after a rest of 2 ms.
        host_cache: Tasks on CPU lanes of several threads, and their way into pinned memory, take less where caches of
            the host hold what a run goes through there, where that was measured. Off: as if they held nothing.
        pace: Tasks on CPU lanes take as much longer as the yardstick of these does, where it was taken when their costs
            were measured and before the run.

    Example:
        >>> Model(contention=False).contention
        False
    """

    dispatch: bool = True
    launch_queue: bool = True
    waits: bool = True
    contention: bool = True
    engines: bool = True
    load: bool = True
    sharing: bool = True
    pairs: bool = True
    block_queue: bool = True
    traffic: bool = True
    lanes: bool = True
    written: bool = True
    memory: bool = True
    timing: bool = True
    blocking: bool = True
    joins: bool = True
    beside: bool = True
    looks: bool = True
    chance: bool = True
    cache: bool = True
    company: bool = True
    fetches: bool = True
    interpreter: bool = True
    slept: bool = True
    rests: bool = True
    host_cache: bool = True
    pace: bool = True


EVERYTHING = Model()


def switched(costs: Dispatch, model: Model) -> Dispatch:
    """The costs of dispatch that `model` leaves on, in seconds; the rest are 0."""
    off: tuple[str, ...] = ()
    if not model.dispatch:
        off += ("run_s", "copy_s", "peer_copy_s", "record_s", "wait_s", "device_wait_s", "switch_s", "device_switch_s")
        off += ("timed_record_s", "sync_s", "handoff_s", "change_s", "free_s", "cold_s", "query_s", "copy_out_s")
        off += ("start_s", "first_s", "first_in_s", "first_out_s", "first_peer_s", "result_s", "look_s", "launch_s")
        off += ("yield_s", "job_s", "put_s", "blocking_in_s", "blocking_out_s", "fresh_out_s", "asked_s")
        off += ("copy_company_s", "copy_out_company_s", "peer_company_s", "message_s", "first_message_s", "meeting_s")
        off += ("graph_launch_s", "graph_launch_node_s", "graph_lane_s", "graph_across_s", "graph_across_start_s")
        off += ("step_s", "step_gpu_s", "graph_step_s", "graph_root_s", "graph_launch_event_s")
        off += ("graph_across_root_s", "graph_across_edge_s", "graph_across_copy_s", "graph_across_host_copy_s")
        off += ("graph_across_more_s", "spun_s")
    if not model.waits:
        off += ("wake_s", "told_s", "same_device_s", "other_device_s", "graph_wait_s", "graph_fork_s")
        off += ("copy_edge_s", "copies_edge_s", "graph_copy_edge_s", "graph_copies_edge_s")
        off += ("peer_edge_s", "graph_peer_edge_s", "graph_other_device_s")
    if not (model.waits and model.beside):
        off += ("graph_beside_s", "graph_beside_in_s")
    if not (model.waits and model.looks):
        off += ("graph_look_s",)
    if not (model.waits and model.joins):
        off += ("graph_copy_join_s", "graph_peer_join_s")
    if not model.timing:
        off += ("timed_record_s", "timed_gap_s", "timed_edge_s", "timed_beside_s")
    if not (model.dispatch and model.interpreter):
        off += ("lock_signal_s", "lock_wake_s", "lock_late_s", "tell_s")
    if not model.pace:
        off += LANES
    tables = {} if model.dispatch else dict.fromkeys(("changes", "colds", *LAUNCH_COLDS, "graph_starts"), ())
    if not (model.dispatch and model.interpreter):
        tables["lock_losses"] = ()
    if not model.waits:
        tables["wakes"] = ()
    if not model.host_cache:
        tables["sweeps"] = ()
    if not (model.dispatch and model.slept):
        tables |= dict.fromkeys(SLEPT_COLDS, ())
    return replace(costs, **dict.fromkeys(off, 0.0), **tables)  # type: ignore[arg-type]  # seconds, and tables of them
