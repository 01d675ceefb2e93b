"""A plan made ready to run many times."""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Callable
from typing import Any

from graphsched.errors import ExecutionError
from graphsched.executors.buffers import Buffers
from graphsched.executors.capture import settle
from graphsched.executors.cuda_graph import GraphCompiler
from graphsched.executors.eager import EagerCompiler
from graphsched.executors.failing import come_to_rest, end_lanes, failure_in_run
from graphsched.executors.flights import Submitted
from graphsched.executors.kept_memory import give_memory_back, keep_memory
from graphsched.executors.lane_cores import step_aside
from graphsched.executors.lanes import CpuLane, cpu_lanes, cuda_lanes, end_teams, leave_lanes, streams_as_they_were
from graphsched.executors.memory import check_memory
from graphsched.executors.own_team import end_own_team
from graphsched.executors.requests import checked
from graphsched.executors.segments import GRAPH
from graphsched.executors.spinning import spins
from graphsched.executors.stamps import Calls, Stamps
from graphsched.executors.submitting import Steps
from graphsched.executors.turns import ForOneThread, alone
from graphsched.executors.watch import Watch
from graphsched.plan import Plan, spares_a_core
from graphsched.processes import cores

GRACE_S = 1.0  # for what still runs when a run is stuck or interrupted


class Program(ForOneThread):
    """A plan with memory, streams and threads of its own, to be run many times.

    It owns clones of inputs and states: the user's tensors never change. Inputs are in place before
    time 0; those on the CPU lie in pinned memory where the plan uses CUDA. A tensor that a copy
    brought to the host is written again by the run after next. Random numbers come from torch's
    global generators. In mode ``graph`` the plan is captured when the program is made, into one CUDA graph or, where
    tasks on a CPU or copies through pageable memory cut it, several: see `executors.cuda_graph`. `run` then returns
    copies of what lies in the graphs' memory. A program is for one thread at a time: a call while another thread is in
    one raises `ExecutionError`, and so does one in a process that was forked since.

    Raises:
        ScheduleError: There is no such mode, or nothing for a graph to hold.
        WorkloadError: A task has no code, or a state no tensor.
        ExecutionError: A device of the plan does not exist here.
        OutOfMemoryError: The plan needs more memory than a device has; nothing has been taken yet.
        TaskFailedError: In mode ``graph`` a task failed in a run before the capture, or cannot be captured.

    Example:
        >>> import torch
        >>> from graphsched.platform import Device, Link, Platform
        >>> from graphsched.plan import Placement, build_plan
        >>> from graphsched.workload import Workload
        >>> work = Workload()
        >>> x = work.input("x", torch.ones(2, 2))
        >>> y = work.task(torch.mm, x, x, name="y")
        >>> here = Platform("here", (Device("cpu", "cpu"),))
        >>> plan = build_plan(work, here, None, Placement(["y"], {"y": "cpu/w0"}), scheduler="by hand")
        >>> with Program(plan) as program:
        ...     program.run(x=2 * torch.ones(2, 2))["y"]
        tensor([[8., 8.],
                [8., 8.]])

    Not modelled: a run after a failed one starts from the states that the failed one left; see `reset`. Programs that
    run at the same time from several threads: they share streams. Allocators other than torch's own
    (``cudaMallocAsync``), which give memory back by other rules.
    """

    def __init__(self, plan: Plan, *, mode: str | None = None, timeout_s: float = 60.0) -> None:
        keep_memory()
        super().__init__()
        self.plan = checked(plan, mode, timeout_s)
        self.mode = self.plan.mode
        self._cuda = cuda_lanes(plan)
        check_memory(self.plan)
        self.buffers = Buffers(plan)
        self._cpu: dict[int, CpuLane] = {}
        self._watches: list[Watch] = []  # the one in use
        self._end = weakref.finalize(self, end_lanes, self._cpu, self._watches)
        self._timeout_s = timeout_s
        self._initial = self.buffers.states()
        self._start()

    def _start(self) -> None:
        """Make the CPU lanes and the calls that hand work to them."""
        self._cpu.update(cpu_lanes(self.plan))
        awake = bool(self._cpu) and spins() and spares_a_core(self.plan, cores())
        self.watch = Watch(self._timeout_s, tuple(self._cpu.values()), spins=awake)
        self._watches[:] = [self.watch]
        self._compiler = self._new_compiler(self.buffers)
        try:
            with streams_as_they_were(self._devices):
                self._calls = self._compiler.compile()
        except BaseException as error:
            self.watch.fail(error)
            self._end()
            raise
        self._timed: tuple[Stamps, Calls] | None = None
        self._steps: Steps | None = None
        self._tails = {lane: i for i, lane in enumerate(self.plan.lane_of) if lane in self._cpu}
        self._final = self._compiler.final_lanes()
        self._at_rest = True
        self.issue_s = 0.0  # of the last run: until all actions were issued

    def _new_compiler(self, buffers: Buffers) -> EagerCompiler | GraphCompiler:
        make = GraphCompiler if self.mode == "graph" else EagerCompiler
        return make(self.plan, buffers, self._cpu, self._cuda, self.watch)

    def _make_ready(self) -> None:
        """Wait for submitted steps; leave lanes that a stuck or interrupted run still occupies and start others.

        Raises:
            ExecutionError: The program is closed.
        """
        if not self._end.alive:
            raise ExecutionError("this program is closed: make a new one")
        self.wait()
        if not self._at_rest:
            leave_lanes(self._cpu, until=0.0)
            self.buffers = self.buffers.renewed()
            self._start()
        if self._cpu:
            end_own_team()
        if self.watch.spins:
            step_aside(self._cpu.values())

    # -- running -----------------------------------------------------------------------------------

    @alone
    def run(self, /, **inputs: Any) -> dict[str, Any]:
        """Run once with these inputs (default: those given to the workload) and wait for the end.

        Returns:
            The returned values by name: those that no task reads, and those kept.

        Raises:
            WorkloadError: An input is unknown, missing, of another shape or type, or neither on the device of the
                workload's nor on the host.
            TaskFailedError: A task raised; the program can be run again.
            StuckError: The run did not end within the time-out.
        """
        self.load(inputs)
        self.time_once()
        results = self._compiler.results()
        self.buffers.clear()
        return results

    @alone
    def submit(self, /, **inputs: Any) -> Submitted:
        """Run once as `run` does, without waiting for the end: one step can overlap the next.

        Two steps can be under way; a third call waits for the first. The given tensors may be changed as soon as this
        returns. What overlaps, how results are kept and what is not modelled: see `executors.submitting`.

        Raises:
            WorkloadError: As in `run`; nothing has changed.
            TaskFailedError: A step failed: this one as it was issued, or one before. None is under way then, `result`
                of each raises the same, and the program can be run again.
            StuckError: A step did not end within the time-out.
        """
        handle = Submitted(self)
        self._ready_steps().submit(inputs, handle)
        return handle

    def _ready_steps(self) -> Steps:
        if self._steps is None or not self._steps.flights:
            self._make_ready()
        self._steps = self._steps or Steps(self)
        return self._steps

    @alone
    def wait(self, step: Submitted | None = None) -> None:
        """Wait for all submitted steps, or for `step` and those before it; raises what `submit` does."""
        if self._steps is not None:
            self._steps.wait(step)

    @alone
    def load(self, inputs: dict[str, Any]) -> None:
        """Put inputs in place; they stay for further runs."""
        self._make_ready()
        self.buffers.load(inputs)

    @alone
    def time_once(self) -> float:
        """Run once and return the makespan in seconds; results stay in the buffers."""
        self._make_ready()
        return self._go(self._calls)

    @alone
    def time_steps(self, steps: int, inputs: dict[str, Any]) -> float:
        """Submit so many steps on the same inputs, wait for them, and return the makespan of all in seconds."""
        return self._ready_steps().time(steps, inputs)

    @alone
    def time_spans(self) -> tuple[Stamps, float, float]:
        """Run once with timing events: the stamps, time 0 on the host's clock, the makespan."""
        self._make_ready()
        if self._timed is None:
            stamps = Stamps(len(self.plan))
            with streams_as_they_were(self._devices):
                self._timed = stamps, self._compiler.compile(stamps)
        stamps, calls = self._timed
        seconds = self._go(calls)
        self._compiler.complete(stamps)
        return stamps, self._began, seconds

    @alone
    def at_rest(self, function: Callable[[], object]) -> None:
        """Call `function`, which may compute on all of the host's cores: no lane looks for work meanwhile."""
        self._make_ready()
        end_teams(self._cpu.values(), self._timeout_s)
        function()

    def _go(self, calls: Calls) -> float:
        import torch

        self.buffers.clear()
        position = 0
        with streams_as_they_were(self._devices), torch.no_grad():
            settle(self._devices)
            self._at_rest = False
            self._compiler.begin()
            self.watch.begin()
            self._began = time.perf_counter()
            try:
                for position, call in enumerate(calls.calls):  # noqa: B007
                    call()
                position = len(calls.calls)
                self.issue_s = time.perf_counter() - self._began
                self._finish()
                seconds = time.perf_counter() - self._began
            except BaseException as error:
                action = calls.owner[position] if position < len(calls.owner) else GRAPH
                raise self._failed(error, action, self._compiler.unfinished)  # noqa: B904 - it has its cause
        self._at_rest = True
        return seconds

    @property
    def gpus(self) -> list[int]:
        """Numbers of the CUDA devices in use."""
        return list(self._devices)

    @functools.cached_property
    def _devices(self) -> list[int]:
        """The same; asked for in every run."""
        streams = [s for lane in self._cuda.values() for s in (lane.stream, *lane.targets.values())]
        return sorted({s.device.index for s in streams})

    def _finish(self) -> None:
        """Wait for all lanes; one whose last action another waits for is done when that is."""
        for lane in self._final:
            self.watch.see(lane.stream, f"the end of lane {lane.name}")
        for number, i in self._tails.items():
            self.watch.spin(self._compiler.done[i], f"{self.plan.names[i]!r} on lane {self._cpu[number].name}")

    # -- failing -----------------------------------------------------------------------------------

    def _failed(self, error: BaseException, action: int, unfinished: Callable[[int], list[str]]) -> BaseException:
        """Bring the lanes to rest after `error` in `action`, or in none of them (`GRAPH`); what to raise for it."""
        at = None if action == GRAPH else action
        failure = failure_in_run(error, self.watch.failure, self.plan, at, unfinished)
        self._at_rest = come_to_rest(failure, self.watch, self._cpu, self._cuda, GRACE_S)
        self.buffers.clear()
        return failure

    # -- state -------------------------------------------------------------------------------------

    @alone
    def state(self) -> dict[str, Any]:
        """Clones of the states as they are now, by name."""
        self._make_ready()
        return self.buffers.states()

    @alone
    def reset(self, states: dict[str, Any] | None = None) -> None:
        """Set states back to `states`, default to what they were when the program was made.

        Raises:
            WorkloadError: A name is no state, shape or type differ, it has no data, or it is on another device than the
                state and the host.
        """
        self._make_ready()
        self.buffers.restore(self._initial if states is None else states)

    @alone
    def _close(self) -> None:
        if not self._end.alive:
            return
        try:
            self.wait()
        finally:
            self._end()
            self._calls, self._timed, self._steps, self._initial = Calls(), None, None, {}
            del self._compiler, self.buffers
            give_memory_back()
