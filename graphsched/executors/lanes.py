"""Lanes as they are: threads for CPU lanes, streams for CUDA lanes."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from queue import SimpleQueue
from typing import Any

from graphsched import hanging
from graphsched.errors import ExecutionError, ScheduleError
from graphsched.executors.lane_cores import lane_cores
from graphsched.executors.own_team import end_own_team
from graphsched.plan import Plan

STREAMS_PER_DEVICE = 32
_streams: dict[int, list[Any]] = {}


class CpuLane:
    """A thread that runs what it is given, in order, with its own number of intra-op threads.

    With `core` it stays on that hardware thread.

    Attributes:
        name: Of the lane.
        threads: Intra-op threads.
        core: As given.
        thread: Its thread.
    """

    def __init__(self, name: str, threads: int, core: int | None = None) -> None:
        self.name = name
        self.threads = threads
        self.core = core
        self._queue: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._given = self._over = 0  # jobs; one not counted, as two threads put at once, leaves the lane at work
        self.thread = threading.Thread(target=self._work, name=f"graphsched {name}", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        import torch

        if self.core is not None:
            os.sched_setaffinity(0, {self.core})
        torch.get_num_threads()  # else the first operation sets the number that another thread set last
        torch.set_num_threads(self.threads)
        with torch.no_grad(), contextlib.suppress(SystemExit):
            while (job := self._queue.get()) is not None:
                job()
                self._over += 1

    def put(self, job: Callable[[], object] | None) -> None:
        """Run `job` after all that was put before; None ends the thread."""
        self._given += 1
        self._queue.put(job)

    @property
    def at_work(self) -> bool:
        """Whether something that was put is not done yet."""
        return self._given != self._over

    def drain(self, timeout_s: float) -> bool:
        """Wait until all that was put before is done; False if it lasts too long."""
        done = threading.Event()
        self.put(done.set)
        return done.wait(timeout_s)

    def close(self) -> None:
        """End the thread after what it was given."""
        self.put(None)


def cpu_lanes(plan: Plan) -> dict[int, CpuLane]:
    """Threads for the CPU lanes of `plan`, by lane number; the calling thread's intra-op threads stay as they are."""
    import torch

    threads, cores = torch.get_num_threads(), lane_cores(plan)
    lanes = {
        number: CpuLane(lane.name, plan.platform.device(lane.device).threads, cores.get(number))
        for number, lane in enumerate(plan.lanes)
        if lane.kind != "host" and not is_cuda(lane.device)
    }
    for lane in lanes.values():
        lane.drain(10.0)
    torch.set_num_threads(threads)  # the number that new threads begin with is the last one set
    return lanes


def end_teams(lanes: Iterable[CpuLane], timeout_s: float) -> None:
    """End the OpenMP teams of lanes at rest that have several threads; the next operation of each makes another.

    What computes on the host's cores next has them then: while there are more threads than cores, none looks for work
    between two parallel parts (`executors.own_team`).
    """
    several = [lane for lane in lanes if lane.threads > 1]
    for lane in several:
        lane.put(end_own_team)
    for lane in several:
        lane.drain(timeout_s)


def close_lanes(lanes: dict[int, CpuLane], timeout_s: float = 1.0, until: float = 0.0) -> None:
    """End the threads of all lanes and wait for them; one that hangs is interrupted, or left: `leave_lanes`."""
    for lane in lanes.values():
        lane.close()
    hanging.end([lane.thread for lane in lanes.values()], timeout_s, until)


def leave_lanes(lanes: dict[int, CpuLane], until: float) -> None:
    """End the threads of all lanes as they are done, without waiting; at exit until then (of `time.perf_counter`)."""
    for lane in lanes.values():
        lane.close()
    hanging.leave([lane.thread for lane in lanes.values()], until)


def lanes_at_rest(cpu: dict[int, CpuLane], cuda: dict[int, CudaLane], until: float) -> bool:
    """Wait, no longer than `until` (of `time.perf_counter`), for what lanes still do; whether they are done."""
    rests = [lane.drain(max(0.0, until - time.perf_counter())) for lane in cpu.values()]
    with contextlib.suppress(RuntimeError):  # CUDA's errors stay: the next run meets them again
        for lane in cuda.values():
            while not lane.stream.query() and time.perf_counter() < until:
                time.sleep(1e-4)
            rests.append(lane.stream.query())
    return all(rests)


class CudaLane:
    """A CUDA lane: its stream, and one on every other device it copies to, used for nothing else.

    Such a copy allocates on its target under that device's current stream. What the lane gives back
    must not go to another lane there, which need not be past the copy's readers.
    """

    def __init__(self, name: str, stream: Any) -> None:
        self.name = name
        self.stream = stream
        self.targets: dict[str, Any] = {}


def cuda_lanes(plan: Plan) -> dict[int, CudaLane]:
    """Streams for the CUDA lanes of `plan`, by lane number; all of a device are distinct.

    Raises:
        ScheduleError: A device has more lanes than the stream pool holds.
        ExecutionError: A device of the plan does not exist here.
    """
    _check_gpus(plan)
    taken: dict[str, int] = {}
    lanes = {
        number: CudaLane(lane.name, _next_stream(lane.device, taken))
        for number, lane in enumerate(plan.lanes)
        if is_cuda(lane.device)
    }
    for i, copy in plan.copies.items():
        lane = plan.lanes[plan.lane_of[i]]
        if not (is_cuda(copy.source) and is_cuda(copy.target)) or copy.source == copy.target:
            continue
        if lane.device != copy.source:
            raise ScheduleError(f"copy {plan.names[i]!r} is on lane {lane.name}: use a lane of {copy.source}")
        targets = lanes[plan.lane_of[i]].targets
        if copy.target not in targets:
            targets[copy.target] = _next_stream(copy.target, taken)
    return lanes


def is_cuda(device: str) -> bool:
    """Whether a device of this name is a GPU.

    Example:
        >>> is_cuda("cuda:0"), is_cuda("worker:0")
        (True, False)
    """
    return device.partition(":")[0] == "cuda"


def _check_gpus(plan: Plan) -> None:
    """Make sure that all GPUs that `plan` needs are visible, before anything of any is taken.

    Raises:
        ExecutionError: Some are not; all of them are named.
    """
    used = [lane.device for lane in plan.lanes if lane.kind != "host"]
    missing = []
    for device in dict.fromkeys([*used, *plan.homes.values()]):
        if plan.platform.device(device).kind == "cuda":
            try:
                device_index(device)
            except ExecutionError:
                missing.append(device)
    if missing:
        raise _not_here(missing)


def device_index(name: str) -> int:
    """Number of CUDA device `name` on this host.

    Raises:
        ExecutionError: There is no such device here.
    """
    kind, _, number = name.partition(":")
    if kind != "cuda" or not number.isdecimal() or int(number) >= visible_gpus():
        raise _not_here([name])
    return int(number)


def visible_gpus() -> int:
    """How many GPUs this process sees."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _not_here(devices: list[str]) -> ExecutionError:
    here, shown = visible_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES")
    names = ", ".join(f"cuda:{i}" for i in range(here)) or "none"
    return ExecutionError(
        f"the plan runs on {', '.join(devices)}, this host has {here} CUDA devices ({names}) and not "
        f"{'this one' if len(devices) == 1 else 'these'}, CUDA_VISIBLE_DEVICES is "
        f"{'not set' if shown is None else repr(shown)}: run where all are visible, or schedule for gs.local_platform()"
    )


def _next_stream(device: str, taken: dict[str, int]) -> Any:
    number = taken.get(device, 0)
    if number >= STREAMS_PER_DEVICE:
        raise ScheduleError(
            f"the plan needs more than {STREAMS_PER_DEVICE} streams on {device}, where torch's pool begins to "
            "repeat: use fewer lanes (each compute lane, copy lane and way to or from another GPU takes one)"
        )
    taken[device] = number + 1
    return stream_pool(device_index(device))[number]


def stream_pool(device: int) -> list[Any]:
    """The distinct streams of CUDA device `device` that all programs of this process share."""
    import torch

    if device not in _streams:
        found: dict[int, Any] = {}
        make: Any = torch.cuda.Stream
        for _ in range(2 * STREAMS_PER_DEVICE):
            stream = make(device)
            found.setdefault(stream.cuda_stream, stream)
        _streams[device] = list(found.values())
    return _streams[device]


@contextlib.contextmanager
def streams_as_they_were(devices: list[int]) -> Iterator[dict[int, Any]]:
    """Put the thread's current device, and its streams on `devices`, back afterwards; yields these, by device."""
    if not devices:
        yield {}
        return
    import torch

    device = torch.cuda.current_device()
    before = {i: torch.cuda.current_stream(i) for i in devices}
    try:
        yield before
    except BaseException:
        with contextlib.suppress(RuntimeError):  # CUDA repeats the error that ended the run
            _make_current(before.values(), device)
        raise
    _make_current(before.values(), device)


def _make_current(streams: Iterable[Any], device: int) -> None:
    import torch

    for stream in streams:
        torch.cuda.set_stream(stream)
    torch.cuda.set_device(device)
