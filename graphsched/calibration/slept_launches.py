"""How much later tasks of a GPU are over that the thread launches behind a task of a CPU lane, for which it has waited.

The threads of the lane have filled the caches and are looking for work, and where the thread has slept its core has,
too: in schedules of one H200 it went on 46 to 72 µs behind such tasks and launched a graph for 44 to 72, where 12 to 14
and 11 to 25 were predicted from runs in which it waits for a GPU, or briefly (docs/readings.md).

A task of the lane goes through memory with all of its threads for the length of the wait; a graph of tiny tasks and
copies of all kinds waits for its result (`calibration.cold_launches` says why of all kinds). Of calls to streams only
the first count, the copy of the result and a tiny task: the GPU has begun by the time of what comes behind them, and
all kinds together lost 44 to 107 µs on a host on which a stencil's went on some 25 later. From the end of the lane's
task to that of the run it takes longer than behind one that is over at once, which is run in turn: the way of the
result, the thread's return from a brief wait and the tasks themselves are in both.

Not modelled: tasks of the lane that do not go through memory, or have waited themselves; several side by side; that
larger graphs may lose more; what calls behind the first lose; plans that leave the thread no core, in which it sleeps.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, ClassVar

from graphsched.calibration.cold_calls import colds_of
from graphsched.calibration.cpu_links import next_parts
from graphsched.calibration.launch_pace import sampled_in_turn
from graphsched.calibration.tiny_plans import Build, company_once, program_of
from graphsched.calibration.tiny_tasks import device_of
from graphsched.platform.pace import SLEPT_COLDS
from graphsched.platform.points import Points
from graphsched.workload import Value, Workload

WAITS_US = (300, 1000, 3000)
PAGE, PART = 2**24, 2**18  # numbers that the task goes through, so many at a time: all threads for a tenth of a ms
SAMPLES = 15


def slept_launches_on(gpus: Sequence[int], threads: int) -> dict[str, Points]:
    """`Dispatch.slept_colds`, `graph_slept_colds` and, where there are several GPUs, `graph_across_slept_colds`.

    Args:
        gpus: Numbers of the GPUs of this host.
        threads: Of a lane of the CPU.
    """
    launches = partial(SleptLaunches, threads=threads)
    calls = sampled_in_turn(gpus[:1], partial(launches, mode="eager"), SAMPLES)
    found = (*calls.values(), *sampled_in_turn(gpus, launches, SAMPLES).values())
    return {name: colds_of(samples, WAITS_US) for name, samples in zip(SLEPT_COLDS, found, strict=False)}


class _Going:
    """A task that goes through memory for some seconds, or not at all; `over_s` is when it was over."""

    operation_name: ClassVar = "going through memory"

    def __init__(self, seconds: float) -> None:
        import torch

        self._seconds, self.over_s = seconds, 0.0
        self._next, self._made = next_parts(torch.ones(PAGE)), torch.empty(PART)

    def __call__(self, result: Any) -> Any:
        import torch

        until_s = time.perf_counter() + self._seconds
        while time.perf_counter() < until_s:
            torch.neg(self._next(PART), out=self._made)
        made = result.clone()
        self.over_s = time.perf_counter()
        return made


class SleptLaunches:
    """Runs on one GPU or on two of what waits for a task of the CPU that takes some time."""

    def __init__(self, gpus: Sequence[int], threads: int, mode: str = "graph") -> None:
        """`gpus`: numbers of one GPU, or of two; `threads`: of a lane of the CPU; `mode`: of the plans."""
        with ExitStack() as stack:
            self._runs = []
            for us in (0, *WAITS_US):
                task = _Going(us * 1e-6)
                program = program_of(_behind(task, all_kinds=mode == "graph"), tuple(gpus), mode, threads)
                self._runs.append((stack.enter_context(program), task))
            self.sample_s()
            self._stack = stack.pop_all()

    def sample_s(self) -> tuple[float, ...]:
        """Seconds that a run is over later after each of `WAITS_US` than without a wait; all in about 6 ms."""
        behind_s = []
        # the first finds the caches as whatever ran before left them
        for program, task in (self._runs[0], *self._runs):
            program.time_once()
            behind_s.append(time.perf_counter() - task.over_s)
        return tuple(seconds - behind_s[1] for seconds in behind_s[2:])

    def close(self) -> None:
        """Give streams and memory back."""
        self._stack.close()


def _behind(task: _Going, *, all_kinds: bool) -> Build:
    def build(work: Workload, inputs: list[Value]) -> Mapping[str, str]:
        """going (CPU) ──▶ there (first GPU), and perhaps tasks and copies of all kinds."""
        import torch

        device, spec = device_of(inputs[0]), inputs[0].spec
        assert spec is not None
        small = work.input("small", torch.ones(spec.shape))
        result: Any = work.task(task, small, name="going", device="cpu", outputs=[spec])
        work.task(torch.neg, result, name="there", device=device, outputs=[spec])
        placed = {"going": "cpu/w0", "there": f"{device}/s0"}
        return placed | dict(company_once(work, inputs)) if all_kinds else placed

    return build
