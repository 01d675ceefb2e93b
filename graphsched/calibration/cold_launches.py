"""How much later a CUDA graph is over where the thread has waited before it launches it.

As `calibration.cold_calls` tells of calls: while the thread polls, its core loses what a launch needs. That is less
than calls in streams lose, and more over several GPUs than on one (docs/readings.md). What counts is the run and not
the launch, whose last microseconds the GPU does not wait for.

A graph is launched behind one that spins for the length of the wait, as runs of a plan follow each other, and behind
one that does not spin: whatever else a change of graphs costs is in both. It holds tasks and copies of all kinds, one
of each, for a graph of one kind has little to lose: on a thread whose core others used, forty alike took no longer
behind 200 µs than without, while the sixteen actions of a network took 16 µs longer than on a quiet core.

Not modelled: that larger graphs may lose more; what the thread's return takes longer after a wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, ClassVar

from graphsched.calibration.cold_calls import WAITS_US, colds_of
from graphsched.calibration.cuda_clock import Spinner
from graphsched.calibration.launch_pace import sampled_in_turn
from graphsched.calibration.tiny_plans import company_once, program_of
from graphsched.calibration.tiny_tasks import device_of
from graphsched.platform.points import Points
from graphsched.workload import Value, Workload

SAMPLES = 25


class _Spin:
    """A task that keeps its lane busy for some cycles."""

    operation_name: ClassVar = "a spin"

    def __init__(self, cycles: int) -> None:
        self._cycles = cycles

    def __call__(self) -> None:
        import torch

        sleep: Any = torch.cuda._sleep
        sleep(self._cycles)


class ColdLaunches:
    """Launches of a graph of tiny tasks and copies of all kinds, on one GPU or on two, behind graphs of some length."""

    def __init__(self, gpus: Sequence[int]) -> None:
        """`gpus`: numbers of one GPU, or of two."""
        on, rate = tuple(gpus), Spinner(gpus[0]).cycles_per_s
        with ExitStack() as stack:
            graph = partial(program_of, gpus=on, mode="graph")
            self._program = stack.enter_context(graph(company_once))
            self._waits = [
                stack.enter_context(graph(partial(_spins, cycles=1 + round(us * 1e-6 * rate)))) for us in (0, *WAITS_US)
            ]
            self.sample_s()
            self._stack = stack.pop_all()

    def sample_s(self) -> tuple[float, ...]:
        """Seconds that a run is longer after each of `WAITS_US` than without a wait; all in about 2 ms."""
        behind_s = []
        for wait in (self._waits[0], *self._waits):  # the first finds the caches as whatever ran before left them
            wait.time_once()
            behind_s.append(self._program.time_once())
        return tuple(seconds - behind_s[1] for seconds in behind_s[2:])

    def close(self) -> None:
        """Give streams and memory back."""
        self._stack.close()


def _spins(work: Workload, inputs: list[Value], cycles: int) -> Mapping[str, str]:
    """A task on each GPU that spins."""
    placed = {}
    for i, device in enumerate(map(device_of, inputs)):
        work.task(_Spin(cycles), name=f"t{i}", outputs=[], device=device)
        placed[f"t{i}"] = f"{device}/s0"
    return placed


def launch_colds_on(
    gpus: Sequence[int], make: Callable[[Sequence[int]], ColdLaunches] = ColdLaunches
) -> tuple[Points, ...]:
    """`Dispatch.graph_colds` and, where there are several GPUs, `Dispatch.graph_across_colds` as they are now.

    Args:
        gpus: Numbers of the GPUs of this host.
        make: Makes what measures them on some GPUs.
    """
    return tuple(map(colds_of, sampled_in_turn(gpus, make, SAMPLES).values()))
