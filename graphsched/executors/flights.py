"""A step under way: its handle, the side that it is on, and what is known of its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphsched.executors.buffers import Buffers
from graphsched.executors.cuda_graph import GraphCompiler
from graphsched.executors.eager import EagerCompiler
from graphsched.executors.spinning import Done
from graphsched.executors.stamps import Calls
from graphsched.executors.watch import Watch

if TYPE_CHECKING:
    from graphsched.executors.program import Program


class Submitted:
    """The result of a step to come: see `Program.submit`.

    Example:
        >>> import torch
        >>> from graphsched.executors import Program
        >>> from graphsched.plan import Placement, build_plan
        >>> from graphsched.platform import Device, Platform
        >>> from graphsched.workload import Workload
        >>> work = Workload()
        >>> y = work.task(torch.neg, work.input("x", torch.zeros(1)), name="y")
        >>> here = Platform("here", (Device("cpu", "cpu"),))
        >>> plan = build_plan(work, here, None, Placement(["y"], {"y": "cpu/w0"}), scheduler="by hand")
        >>> with Program(plan) as program:
        ...     steps = [program.submit(x=torch.tensor([float(k)])) for k in range(4)]
        >>> [step.result()["y"].item() for step in steps]
        [-0.0, -1.0, -2.0, -3.0]
    """

    def __init__(self, program: Program) -> None:
        self._program: Program | None = program
        self._results: dict[str, Any] | None = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Whether the step is over or has failed, so that `result` does not wait."""
        program = self._program
        return program is None or program._steps is None or program._steps.is_over(self)

    def result(self) -> dict[str, Any]:
        """Wait for the end of the step.

        Returns:
            What `Program.run` returns, the same each time.

        Raises:
            TaskFailedError: A task raised, of this step or of another that was under way with it.
            StuckError: The step did not end within the time-out.
            ExecutionError: Another thread is using the program, and the end of the step has not been seen yet.
        """
        program = self._program
        if program is not None:
            program.wait(self)
        if self._error is not None:
            raise self._error
        assert self._results is not None
        return self._results

    @property
    def is_open(self) -> bool:
        """Whether nobody has seen the end of the step yet."""
        return self._program is not None

    def end(self, results: dict[str, Any] | None, error: BaseException | None = None) -> None:
        """Take what came out of the step."""
        self._results, self._error, self._program = results, error, None


@dataclass(eq=False)
class Side:
    """The buffers of even steps, or of odd ones, and the calls of a step on them.

    Attributes:
        tails: What is done with the last task of each CPU lane, and what that is.
        ends: For each lane of a GPU that is waited for at the end: its stream, an event there, and what that is.
    """

    compiler: EagerCompiler | GraphCompiler
    buffers: Buffers
    calls: Calls
    tails: list[tuple[Done, str]]
    ends: list[tuple[Any, Any, str]]

    def is_over(self) -> bool:
        """Whether all that the step did is over."""
        return all(done.is_set() for done, _ in self.tails) and all(event.query() for _, event, _ in self.ends)

    def wait(self, watch: Watch) -> None:
        """Wait until it is."""
        for _, event, what in self.ends:
            watch.see(event, what)
        for done, what in self.tails:
            watch.spin(done, what)


@dataclass(eq=False)
class Flight:
    """A step under way, and who wants to know."""

    side: Side
    handle: Callable[[], Submitted | None]
    issued: int = 0  # actions

    def unfinished(self) -> list[str]:
        """What the step hangs on."""
        return self.side.compiler.unfinished(self.issued)
