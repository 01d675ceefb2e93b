"""A plan made ready to run many times by several processes, of which this is one."""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from graphsched.errors import ExecutionError, StuckError
from graphsched.executors.capture import settle
from graphsched.executors.distributed.agreement import agree
from graphsched.executors.distributed.blame import missed
from graphsched.executors.distributed.board import Report
from graphsched.executors.distributed.local_plans import local_plan
from graphsched.executors.distributed.lost import LostRankError, ended_by
from graphsched.executors.distributed.messages import Messages, last_tasks, told
from graphsched.executors.distributed.rank_buffers import RankBuffers
from graphsched.executors.distributed.rank_calls import RankCompiler, streams_of_lanes, threads_of_lanes
from graphsched.executors.distributed.rank_watch import GRACE_S, SLICE_S, RankWatch
from graphsched.executors.distributed.termination import stand_by
from graphsched.executors.distributed.world import ALL_HEARD_S, join
from graphsched.executors.failing import failure_in_run
from graphsched.executors.kept_memory import give_memory_back, keep_memory
from graphsched.executors.lanes import CpuLane, close_lanes, end_teams, streams_as_they_were
from graphsched.executors.own_team import end_own_team
from graphsched.executors.requests import checked
from graphsched.executors.segments import GRAPH
from graphsched.executors.stamps import Calls, Stamps
from graphsched.executors.turns import ForOneThread, alone
from graphsched.plan import Plan
from graphsched.plan.ranks import compile_ranks


class RankProgram(ForOneThread):
    """The part of a plan that this process does, among those that torchrun started.

    All of them make it of the same plan and call the same methods in the same order. It owns clones of the inputs and
    states that lie here. Random numbers come from torch's global generators of this process. It is for one thread at a
    time, as `Program` is.

    Attributes:
        issue_s: How long this rank's thread was at its calls in the last run, in seconds.

    Raises:
        ScheduleError: torchrun did not start this process, or the plan needs more ranks than there are.
        RankError: The ranks did not meet, or do not have the same plan, workload or software.
        WorkloadError: A task has no code.
    """

    def __init__(self, plan: Plan, *, timeout_s: float = 60.0) -> None:
        keep_memory()
        super().__init__()
        self.whole = checked(plan, "distributed", timeout_s, ("distributed",))
        self.world = join(timeout_s)
        stand_by(self.world)
        self._timeout_s, self.issue_s = timeout_s, 0.0
        agree(self.world, self.whole, timeout_s)
        self.lists = compile_ranks(self.whole, self.world.size)
        with self.world.telling():
            self._prepare()

    def _prepare(self) -> None:
        self._local = local_plan(self.lists, self.world.rank, self.world.address.local_rank)
        self.plan, self.mode = self._local.plan, "distributed"
        self._cuda = streams_of_lanes(self.plan)
        self.buffers = RankBuffers(self.plan, self.lists.places, self.world.rank)
        self._cpu: dict[int, CpuLane] = threads_of_lanes(self.plan, self.whole)
        self._end = weakref.finalize(self, close_lanes, self._cpu)
        self._initial = self.buffers.states()
        self.watch = RankWatch(self._timeout_s, tuple(self._cpu.values()))
        messages = Messages(self.world, self.lists, self._local, self.buffers, self.watch)
        with streams_as_they_were(self._devices()):
            self._compiler = RankCompiler(self.plan, self.buffers, self._cpu, self._cuda, self.watch, messages)
            self._calls = self._compiler.compile()
        self._tails = {lane: i for i, lane in enumerate(self.plan.lane_of) if lane in self._cpu}
        self._final = self._compiler.final_lanes()
        self._timed: tuple[Stamps, Calls] | None = None

    # -- running -------------------------------------------------------------------------------------

    @alone
    def load(self, inputs: dict[str, Any]) -> None:
        """Put inputs in place; they stay for further runs.

        Raises:
            WorkloadError: As `run`; all other ranks are told and end too.
        """
        self._check()
        with self.world.telling():
            self.buffers.load(inputs)

    @alone
    def run(self, /, **inputs: Any) -> dict[str, Any]:
        """Run once with these inputs, which every rank gives alike (default: those given to the workload).

        Returns:
            The returned values by name, in host memory, on rank 0; nothing on the others.

        Raises:
            WorkloadError: An input is unknown, missing, or of another shape or type.
            TaskFailedError: A task of this rank raised.
            RankError: Another rank failed, is gone, or did not answer within the time-out; or a run failed before.
        """
        self.load(inputs)
        self.time_once()
        found = self._gathered(self.buffers.results(), "the results of all ranks")
        self.buffers.clear()
        return found

    def _gathered(self, mine: dict[str, Any], what: str) -> dict[str, Any]:
        """What all ranks have by name, on rank 0."""
        everyone = self.world.collect({name: t.cpu() for name, t in mine.items()}, self._timeout_s, what)
        return {name: tensor for found in everyone for name, tensor in found.items()}

    @alone
    def state(self) -> dict[str, Any]:
        """The states as they are now, by name, on rank 0; nothing on the others."""
        self._check()
        return self._gathered(self.buffers.own_states(), "the states of all ranks")

    @alone
    def reset(self, states: Mapping[str, Any] | None = None) -> None:
        """Set states to these, which every rank gives alike; default: what all were when the program was made.

        Raises:
            WorkloadError: A name is no state, or shape or type differ; all other ranks are told and end too.
        """
        self._check()
        with self.world.telling():
            self.buffers.restore(self._initial if states is None else states)

    @alone
    def time_once(self) -> float:
        """Run once; the makespan in seconds by rank 0's clock, on all ranks. Results stay in the buffers."""
        return self._go(self._calls)

    @alone
    def at_rest(self, function: Callable[[], object]) -> None:
        """Call `function`, which may be another one on each rank, once all ranks are done with the run before.

        A rank that has nothing to do meanwhile waits for the next run, without a core.
        """
        self._check()
        self.buffers.clear()
        with self.world.heeding():
            self.world.barrier(self._timeout_s, lambda _: "the rest between two runs")
        end_teams(self._cpu.values(), self._timeout_s)
        function()

    @alone
    def time_spans(self) -> tuple[Stamps, float, float]:
        """Run once with timing: this rank's stamps and beginning by its own clock, and the makespan."""
        self._check()
        if self._timed is None:
            stamps = Stamps(len(self.plan))
            with streams_as_they_were(self._devices()):
                self._timed = stamps, self._compiler.compile(stamps)
        stamps, calls = self._timed
        seconds = self._go(calls)
        self._compiler.complete(stamps)
        return stamps, self._began, seconds

    def _go(self, calls: Calls) -> float:
        import torch

        self._check()
        self.buffers.clear()
        position = 0
        self.watch.begin()
        if self._cpu:
            end_own_team()
        unwatch = self.world.board.watch(self._hear)
        with streams_as_they_were(self._devices()), torch.no_grad(), self.world.waiting(self._end_run):
            try:
                settle(self._devices())
                self._compiler.begin()
                self._barrier(lambda _: "the beginning of a run")
                self.watch.begin()
                self._began = time.perf_counter()
                for position, call in enumerate(calls.calls):  # noqa: B007
                    call()
                position = len(calls.calls)
                self.issue_s = time.perf_counter() - self._began
                self._finish()
                self._barrier(lambda peer: f"the end of the run{last_tasks(self.lists, peer, self.world.rank)}")
                seconds = time.perf_counter() - self._began
            except BaseException as error:
                action = calls.owner[position] if position < len(calls.owner) else GRAPH
                raise self._failed(error, action)  # noqa: B904 - it has its cause
            finally:
                unwatch()
        return float(self.world.share(seconds, self._timeout_s, "the time of a run"))

    def _check(self) -> None:
        """Make sure that this program can run, before it does anything."""
        if not self._end.alive:
            raise ExecutionError("this program is closed: make a new one")
        self.world.check()

    def _barrier(self, what: Callable[[int], str]) -> None:
        self.world.barrier(self.watch.left_s() + GRACE_S, what)

    def _devices(self) -> list[int]:
        """Numbers of the CUDA devices in use."""
        return sorted({lane.stream.device.index for lane in self._cuda.values()})

    def _finish(self) -> None:
        """Wait for all lanes of this rank."""
        for lane in self._final:
            self.watch.see(lane.stream, f"the end of lane {lane.name}")
        for number, i in self._tails.items():
            self.watch.spin(self._compiler.done[i], f"{self.plan.names[i]!r} on lane {self._cpu[number].name}")

    # -- failing -------------------------------------------------------------------------------------

    def _hear(self, report: Report) -> None:
        """Another rank has said why it ends: so does this one. Where that waits for this one, it says what it is at."""
        if report.blames == self.world.rank:
            self._let_lanes_tell()
            self._end_run(StuckError(f"rank {report.rank} waited in vain for this one"))
        else:
            self._end_run(ended_by(report))

    def _end_run(self, error: ExecutionError) -> None:
        self.watch.fail(error)
        time.sleep(ALL_HEARD_S)
        self.world.abort()

    def _failed(self, error: BaseException, action: int) -> BaseException:
        if isinstance(error, LostRankError):
            self._let_lanes_tell()
        at = None if action == GRAPH else action
        issued = len(self.plan) if at is None else at
        found = failure_in_run(error, self.watch.failure, self.plan, at, self._compiler.unfinished)
        try:
            if not isinstance(found, Exception):
                return self.world.fail(found, self._under_way(issued))
            return self.world.fail(self._with_own_tasks(self._with_other_rank(found, issued), issued))
        finally:  # interrupted again
            self.world.abort()  # what lanes still wait for: a process that ends meanwhile aborts

    def _under_way(self, issued: int) -> str:
        hanging: list[str] = []
        with contextlib.suppress(RuntimeError):  # of CUDA
            hanging = self._compiler.under_way(issued, ("run", "copy"))
        return f"; not over: {', '.join(hanging)}" if hanging else ""

    def _with_other_rank(self, error: BaseException, issued: int) -> BaseException:
        """`error`; where a lane waits in vain for another rank, one that names that and what it should have done."""
        row = None
        with contextlib.suppress(RuntimeError):  # of CUDA
            row = self._compiler.waits_for(issued) if isinstance(error, StuckError) else None
        if row is None:
            return error
        part = self._local.parts[row]
        others = self.lists.places.members[part.action] if part.kind == "collective" else [part.peer]
        return missed([k for k in others if k != self.world.rank], told(part, self.lists), self.world.pulses)

    def _with_own_tasks(self, error: BaseException, issued: int) -> BaseException:
        """`error`; where tasks of this rank are not over in time, one that names them: others may wait for these.

        It may wait for others too, as all do in a ring, and would take one of them for the cause.
        """
        if not isinstance(error, LostRankError) or self.watch.left_s() > GRACE_S:
            return error
        time.sleep(2 * SLICE_S)  # what waits in lanes ends
        hanging = self._compiler.under_way(issued, ("run", "copy"))
        return StuckError(f"{error}; not over: {', '.join(hanging)}") if hanging else error

    def _let_lanes_tell(self) -> None:
        """Give a message that does not pass the time to say so, which tells more than that two ranks did not meet."""
        until = time.perf_counter() + 2 * GRACE_S
        while self.watch.failure is None and time.perf_counter() < until:
            time.sleep(GRACE_S / 10)

    @alone
    def _close(self) -> None:
        if self._end.alive:
            self._end()
            self._calls, self._timed = Calls(), None
            del self._compiler, self.buffers
            give_memory_back()
