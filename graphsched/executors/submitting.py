"""Steps of a program that are under way together: two at most, on sides of their own: inputs, results, calls.

A step waits for what the one before does to states, as `plan.steps` says, and the thread for all of the step before
that one, so that it may fill, set and record again what that used. Inputs are copied by the thread, or by the
caller's current stream where they live on a GPU; what such streams hold when a step is submitted comes before it. So
the given tensors may be changed as soon as `submit` returns, those on a GPU by work of the same stream.

In eager mode all else overlaps, and the caller's current streams on all GPUs come before a step, for results are the
tensors themselves. In graph mode there is a graph of each side, so that the memory of results is taken
twice; graphs follow one another on one stream. While one runs, the inputs of the next are copied, it is launched, and
tasks on CPU lanes run that need nothing of it. No step begins before the last one is over where the plan returns a
state, which must be read before it changes, or where graphs draw random numbers on several GPUs.

A step that somebody holds keeps its results. If they are asked for before the step after next is submitted, a tensor
that a copy brought to the host is the buffer itself, which that step may write, as with `run`; else it is a clone.

Not modelled: a task that returns a state, or a view of one, as an output declared by hand; its result may be that of
the step after. Random numbers that tasks on several CPU lanes draw. A program that nobody holds while steps are under
way. The second side's memory in `plan.memory`.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from graphsched.errors import ExecutionError
from graphsched.executors.buffers import Buffers
from graphsched.executors.capture import settle
from graphsched.executors.clocks import new_event
from graphsched.executors.cuda_graph import GraphCompiler
from graphsched.executors.eager import EagerCompiler
from graphsched.executors.flights import Flight, Side, Submitted
from graphsched.executors.lanes import streams_as_they_were
from graphsched.executors.segments import GRAPH
from graphsched.executors.stamps import Calls

if TYPE_CHECKING:
    from graphsched.executors.program import Program

IN_FLIGHT = 2  # steps, and buffers for inputs and results


class Steps:
    """The steps of `program` that are under way, oldest first, and the two sides that they take turns on.

    The second side is made when the first step finds another under way, and all are over.
    """

    def __init__(self, program: Program) -> None:
        self.plan, self.watch, self.flights = program.plan, program.watch, deque[Flight]()
        self._program: Any = weakref.proxy(program)
        self._devices = program._devices
        used = program._compiler.used_lanes()
        self._streams = [stream for lane in used for stream in (lane.stream, *lane.targets.values())]
        self._changing = sorted({stream.device.index for stream in self._streams})
        self._gives_clones = program.mode == "graph"
        self._asked = {device: new_event() for device in self._devices}
        self._read: list[Any] = []  # events after which results are read
        self._carry = program._compiler.carry()
        calls = program._compiler.compile_step(self._carry) if self._carry else program._calls
        self._first = self._side(program._compiler, program.buffers, calls)
        self._second: Side | None = None
        values = self.plan.work.values
        returns_state = any(values[v.root].kind == "state" for v in self.plan.work.returned())
        self._alone = returns_state or program._compiler.draws_elsewhere

    # -- two sides ----------------------------------------------------------------------------------------

    def _side(self, compiler: EagerCompiler | GraphCompiler, buffers: Buffers, calls: Calls) -> Side:
        lanes = {i: self._program._cpu[lane].name for lane, i in self._program._tails.items()}
        tails = [(compiler.done[i], f"{self.plan.names[i]!r} on lane {name}") for i, name in lanes.items()]
        final = compiler.final_lanes()
        ends = [(lane.stream, new_event(), f"the end of lane {lane.name}") for lane in final]
        return Side(compiler, buffers, calls, tails, ends)

    def _make_second(self) -> None:
        """Make the second side; all is at rest."""
        buffers = self._first.buffers.twin()
        try:
            compiler = self._program._new_compiler(buffers)
            with streams_as_they_were(self._devices):
                self._second = self._side(compiler, buffers, compiler.compile_step(self._carry))
        except BaseException as error:
            raise self._fail(error)  # noqa: B904 - it has its cause

    def _free_side(self) -> Side:
        """One that no step is on."""
        if self.flights and (self._alone or self._second is None):
            self.wait()
            if not self._alone:
                self._make_second()
        if len(self.flights) == IN_FLIGHT:
            self._finish_oldest()
        on_first = bool(self.flights) and self.flights[-1].side is self._first
        return self._second if on_first and self._second else self._first

    # -- a step -------------------------------------------------------------------------------------------

    def submit(self, inputs: dict[str, Any] | None, handle: Submitted | None = None) -> None:
        """Issue a step on these inputs, default for None those in place; its results go to `handle`.

        Raises:
            WorkloadError: See `Program.run`.
            TaskFailedError: This step failed while it was issued, or one before; none is under way then.
            StuckError: The step before the last did not end, or the thread waited too long.
        """
        side = self._free_side()
        loading = set[int]() if inputs is None else side.buffers.load(inputs)
        flight = Flight(side, _nobody if handle is None else weakref.ref(handle))
        self._issue(flight, loading)

    def _issue(self, flight: Flight, loading: set[int]) -> None:
        import torch

        calls, position = flight.side.calls, 0
        with streams_as_they_were(self._changing) as current, torch.no_grad():
            try:
                if self.watch.failure is not None:
                    raise self.watch.failure
                devices = self._read_and_written(loading)
                self._begin(flight)
                self._follow_caller(devices, current)
                for position, call in enumerate(calls.calls):  # noqa: B007
                    call()
                flight.issued, position = len(self.plan), len(calls.calls)
                for stream, event, _ in flight.side.ends:
                    event.record(stream)
            except BaseException as error:
                action = calls.owner[position] if position < len(calls.owner) else GRAPH
                flight.issued = max(flight.issued, action)
                raise self._fail(error, action)  # noqa: B904 - it has its cause

    def _begin(self, flight: Flight) -> None:
        self._program._at_rest = False
        flight.side.compiler.begin()
        if self.flights:
            self.watch.prolong()
        else:
            self.watch.begin()
        self.flights.append(flight)

    def _read_and_written(self, loading: set[int]) -> Iterable[int]:
        """GPUs whose current streams may do something with inputs, results or states, where inputs go to `loading`.

        What a graph computes nobody but the program reads while steps are under way.
        """
        return loading if self._gives_clones and self.flights else self._devices

    def _follow_caller(self, devices: Iterable[int], current: dict[int, Any]) -> None:
        """Let all lanes begin after what the current streams of `devices`, of which some are known, still do there."""
        import torch

        before, self._read = [event for event in self._read if not event.query()], []
        for device in devices:
            stream, event = current.get(device) or torch.cuda.current_stream(device), self._asked[device]
            if not stream.query():
                event.record(stream)
                before.append(event)
        for event in before:
            for stream in self._streams:
                stream.wait_event(event)

    def time(self, steps: int, inputs: dict[str, Any]) -> float:
        """Seconds of so many steps on the same inputs, with nothing under way before and after."""
        self.wait()
        if self._second is None and not self._alone:
            self._make_second()
        for side in (self._first, self._second):
            if side is not None:
                side.buffers.load(inputs)
        settle(self._devices)
        began = time.perf_counter()
        for _ in range(steps):
            self.submit(None)
        self.wait()
        return time.perf_counter() - began

    # -- ends ---------------------------------------------------------------------------------------------

    def is_over(self, handle: Submitted) -> bool:
        """Whether the step of `handle` is over or has failed; any thread may ask."""
        flight = next((flight for flight in tuple(self.flights) if flight.handle() is handle), None)
        try:
            return flight is None or self.watch.failure is not None or flight.side.is_over()
        except RuntimeError:  # of CUDA: `result` says more
            return True

    def wait(self, handle: Submitted | None = None) -> None:
        """Finish all steps, or those up to that of `handle`."""
        while self.flights if handle is None else handle.is_open:
            self._finish_oldest(handle)

    def _finish_oldest(self, asking: Submitted | None = None) -> None:
        flight = self.flights[0]
        try:
            flight.side.wait(self.watch)
        except BaseException as error:
            raise self._fail(error)  # noqa: B904 - it has its cause
        if (handle := flight.handle()) is not None:
            handle.end(self._results(flight.side, for_long=handle is not asking))
        self.flights.popleft()
        flight.side.buffers.clear()
        self._program._at_rest = not self.flights

    def _results(self, side: Side, *, for_long: bool) -> dict[str, Any]:
        """What the step on `side` returns; nobody has asked yet for what is kept `for_long`."""
        import torch

        found = side.compiler.results()
        if for_long:
            found = {name: t.clone() if t.device.type == "cpu" else t for name, t in found.items()}
        for device in side.buffers.gpus(found):
            self._read.append(new_event())
            self._read[-1].record(torch.cuda.current_stream(device))
        return found

    def _fail(self, error: BaseException, action: int = GRAPH) -> BaseException:
        """Bring all to rest after `error`; what to raise for it."""
        failure: BaseException = error
        try:
            failure = self._program._failed(error, action, self._unfinished)
        finally:  # interrupted again
            self._drop(failure)
        return failure

    def _drop(self, failure: BaseException) -> None:
        told = (
            failure if isinstance(failure, Exception) else ExecutionError("the step was interrupted: submit it again")
        )
        for flight in self.flights:
            if (handle := flight.handle()) is not None:
                handle.end(None, told)
            flight.side.buffers.clear()
        self.flights.clear()
        self._program._steps = None  # events and tokens are as the failure left them

    def _unfinished(self, _: int) -> list[str]:
        """What a stuck step hangs on."""
        return list(dict.fromkeys(what for flight in self.flights for what in flight.unfinished()))


def _nobody() -> None:
    """No handle asks for the result."""
