"""A plan as one CUDA graph over all its GPUs, replayed by one launch: graph mode.

The calls of eager mode are made once while the streams are captured: the stream of the first lane forks to all
others and joins them again. Results lie in memory that belongs to the graph, so that nothing is given back while
it lives; inputs and states are the program's own, and replays read what lies there. A wait of the thread becomes
a wait of every lane. Spans come from timing events inside the graph, in a graph of their own, so that they cost
nothing where none are asked for.

Random numbers come from torch's generators of the GPUs, which are told of the graph: every replay draws new ones.

Not modelled: plans with CPU tasks, pageable copies or states on the host, which are refused.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from graphsched.errors import TaskFailedError
from graphsched.executors.buffers import Buffers
from graphsched.executors.calls import Call, failure_of
from graphsched.executors.clocks import new_event
from graphsched.executors.collector import no_collector
from graphsched.executors.eager import Calls, EagerCompiler, Stamps
from graphsched.executors.lanes import CudaLane, device_index
from graphsched.executors.watch import Watch
from graphsched.plan import Plan, check_capturable


class CapturedCalls(EagerCompiler):
    """The calls of a plan as they are made while its streams are captured."""

    def compile(self, stamps: Stamps | None = None) -> Calls:
        """The calls; with `stamps`, timing events stand around every action."""
        calls = Calls()
        current: int | None = None
        for i, kind in enumerate(self.plan.kinds):
            if kind == "wait":
                for wait in self._joins(i):
                    calls.add(i, wait)
            else:
                self._cuda_action(calls, i, current, stamps)
                current = self.plan.lane_of[i]
        return calls

    def _joins(self, i: int) -> list[Call]:
        """Every lane waits for what the thread would wait for."""
        waited = [self.events[j] for j in self.plan.waits[i]]
        return [partial(lane.stream.wait_event, event) for lane in self.cuda.values() for event in waited]

    def _free(self, _: int) -> Call:
        return _nothing

    def _timing_event(self) -> Any:
        return new_event(timing=True, external=True)


def _nothing() -> None:
    """What the graph's memory holds stays."""


@dataclass
class Captured:
    """A graph, what it needs to live, and where its results are.

    Attributes:
        graph: Its ``replay`` launches it on the current stream.
        slots: The program's slots as they were filled during the capture.
        pools: Memory of the other devices.
    """

    graph: Any
    slots: list[Any]
    pools: list[Any] = field(default_factory=list)


class GraphCompiler:
    """Turns a plan into one call that replays its graph.

    Raises:
        CaptureError: The plan has actions that no graph can hold.
    """

    def __init__(self, plan: Plan, buffers: Buffers, cuda: dict[int, CudaLane], watch: Watch) -> None:
        check_capturable(plan)
        self.plan, self.buffers, self.cuda, self.watch = plan, buffers, cuda, watch
        self.done: dict[int, Any] = {}
        self.origin = next(iter(cuda.values())).stream
        self.slots: list[Any] = []
        self._warm = False
        self._failure: TaskFailedError | None = None

    def begin(self) -> None:
        """Nothing is to be reset before a replay."""

    def unfinished(self, _: int) -> list[str]:
        """The graph, as long as its stream is busy."""
        return [] if self.origin.query() else [f"the graph of {len(self.plan)} actions"]

    def compile(self, stamps: Stamps | None = None) -> Calls:
        """Capture the plan, with timing events if `stamps` are given; the calls of a replay.

        Raises:
            TaskFailedError: A task failed, or cannot be captured.
        """
        import torch

        if not self._warm:
            self._run_once()
            self._warm = True
        taken = CapturedCalls(self.plan, self.buffers, {}, self.cuda, self.watch)
        captured = self._capture(taken.compile(stamps))
        calls = Calls()
        calls.add(0, partial(torch.cuda.set_stream, self.origin))
        if stamps is None:
            calls.add(0, partial(self._replay, captured))
        else:
            calls.add(0, partial(self._timed_replay, captured, stamps))
        return calls

    def _replay(self, captured: Captured) -> None:
        captured.graph.replay()
        self.slots = captured.slots

    def _timed_replay(self, captured: Captured, stamps: Stamps) -> None:
        began = time.perf_counter()
        self._replay(captured)
        ended = time.perf_counter()
        stamps.issue_start[:] = [began] * stamps.size
        stamps.issue_end[:] = [ended] * stamps.size

    # -- before and during a capture ---------------------------------------------------------------

    def _run_once(self) -> None:
        """Run the plan without a graph, states and random numbers kept: first calls of libraries, checks of tasks."""
        states, kept = self.buffers.states(), _random_states(self._devices())
        self._settle()  # they were cloned on other streams
        calls = CapturedCalls(self.plan, self.buffers, {}, self.cuda, self.watch).compile()
        self._make(calls, "")
        self._settle()
        self.buffers.clear()
        self.buffers.restore(states)
        _set_random_states(kept)
        self._settle()

    def _capture(self, calls: Calls) -> Captured:
        import torch

        self._failure = None
        graph: Any = torch.cuda.CUDAGraph()
        _tell_generators(graph, self._devices())
        pools = []
        self._settle()
        try:
            with ExitStack() as stack:
                for device in self._devices():
                    if device != self.origin.device.index:
                        pools.append(stack.enter_context(_own_memory(device)))
                stack.enter_context(_capturing(graph, self.origin))
                stack.callback(torch.cuda.set_stream, self.origin)  # a capture ends on the stream that it began on
                self._fork()
                self._make(calls, " while it was captured into a CUDA graph: run the plan in eager mode")
                self._join()
        except RuntimeError as error:  # of the end of a capture that a failed call left broken
            raise self._failure or error from error
        finally:
            self._settle()
        captured = Captured(graph, list(self.buffers.slots), pools)
        self.buffers.clear()
        return captured

    def _make(self, calls: Calls, what: str) -> None:
        """Make the calls, streams as they were afterwards; an error names its action."""
        import torch

        with torch.no_grad():
            for owner, call in zip(calls.owner, calls.calls, strict=True):
                try:
                    call()
                except Exception as error:
                    raise self._failed(error, owner, what) from error

    def _failed(self, error: Exception, i: int, what: str) -> TaskFailedError:
        lane = self.plan.lanes[self.plan.lane_of[i]].name
        failed = failure_of(error, self.plan.names[i], self.plan.task(i), lane)
        self._failure = TaskFailedError(f"{failed}{what}")
        return self._failure

    def _fork(self) -> None:
        event = new_event()
        event.record(self.origin)
        for lane in self.cuda.values():
            if lane.stream is not self.origin:
                lane.stream.wait_event(event)

    def _join(self) -> None:
        for lane in self.cuda.values():
            if lane.stream is not self.origin:
                event = new_event()
                event.record(lane.stream)
                self.origin.wait_event(event)

    def _devices(self) -> list[int]:
        return sorted({lane.stream.device.index for lane in self.cuda.values()} | self._target_devices())

    def _target_devices(self) -> set[int]:
        return {device_index(name) for lane in self.cuda.values() for name in lane.targets}

    def _settle(self) -> None:
        import torch

        for device in self._devices():
            torch.cuda.synchronize(device)


# -- torch ------------------------------------------------------------------------------------------


@contextmanager
def _capturing(graph: Any, stream: Any) -> Iterator[None]:
    """All that is issued on streams that follow `stream` goes into `graph`; other threads may go on with CUDA.

    Memory of a capture that fails is given back, which torch leaves to a graph that there is none of. The collector
    rests: a tensor that it found in the middle might record an event that is then never over.
    """
    import torch

    pool, device = torch.cuda.graph_pool_handle(), stream.device.index
    with no_collector():
        try:
            with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="relaxed"):
                yield
        except BaseException:
            with suppress(RuntimeError):  # of a pool that is ended: the capture went well, what was in it did not
                torch._C._cuda_endAllocateToPool(device, pool)
                torch._C._cuda_releasePool(device, pool)
            raise


@contextmanager
def _own_memory(device: int) -> Iterator[Any]:
    """Memory of `device` that this thread takes belongs to a pool of its own, which is yielded."""
    import torch

    pool: Any = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool, device):
        yield pool


def _tell_generators(graph: Any, devices: list[int]) -> None:
    import torch

    for device in devices:
        graph.register_generator_state(torch.cuda.default_generators[device])


def _random_states(devices: list[int]) -> dict[int, Any]:
    import torch

    return {device: torch.cuda.get_rng_state(device) for device in devices}


def _set_random_states(states: dict[int, Any]) -> None:
    import torch

    for device, state in states.items():
        torch.cuda.set_rng_state(state, device)
