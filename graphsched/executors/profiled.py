"""Plans run once under torch's profiler, with timing events: both tell the times of the same run.

All runs share one session of the profiler: it may lose kernels when it is started often in one process. A plan that
runs as a CUDA graph is also run in eager mode, where ranges tell what each of its actions launches. The clocks
are brought together by ranges that stand between readings of the host's clock.

Not modelled: the profiler makes every call of the dispatching thread longer, so that a run under it is no measure of
the makespan.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from graphsched.errors import ExecutionError
from graphsched.executors import waking
from graphsched.executors.collector import no_collector
from graphsched.executors.program import Program
from graphsched.executors.ranges import marked_by, profiler_range
from graphsched.executors.timed_runs import timed_run
from graphsched.plan import Plan
from graphsched.timeline import Timeline

CLOCK_READINGS = 20  # before a run, and after it
WARM_RUNS = 2

Reading = tuple[float, float, float]
"""Host seconds (`time.perf_counter`) before a range, in it, and after it."""


@dataclass(frozen=True, eq=False)
class ProfiledRun:
    """One run under the profiler.

    Attributes:
        timeline: Spans by timing events, of this run; the makespan is that of the runs before, without the profiler.
        began_s: Time 0 of the timeline on the host's clock.
        readings: Of the host's clock, around each of the ranges called `clock`.
        name: Of the range in the trace that holds the run.
        clock: Name of the ranges for the clock.
        eager: Of a CUDA graph, a run of the same plan in eager mode.
    """

    timeline: Timeline
    began_s: float
    readings: tuple[Reading, ...]
    name: str
    clock: str
    eager: ProfiledRun | None = None


def run_profiled(
    measured: Sequence[Timeline], *, timeout_s: float = 60.0
) -> tuple[list[ProfiledRun | ExecutionError], Any]:
    """Run the plan of each measured timeline once under the profiler.

    Returns:
        For each a run, or the error that ended it; and the trace of all, in Chrome's format.

    Raises:
        ExecutionError: The profiler cannot work here.
    """
    runs: list[ProfiledRun | ExecutionError] = []

    def run_all() -> None:
        for number, line in enumerate(measured, 1):
            runs.append(_attempt(number, line, timeout_s))

    data = trace_of(run_all, **_settings(measured))
    return runs, data


def trace_of(call: Callable[[], object], **settings: Any) -> Any:
    """What happens on CPU and GPUs while `call` runs, as a trace in Chrome's format.

    Args:
        call: What to watch.
        settings: Further ones of `torch.profiler.profile`.

    Raises:
        ExecutionError: The profiler cannot work here, or `call` failed by PyTorch.
    """
    import torch
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")  # of the profiler
        try:
            with profile(activities=activities, **settings) as session:
                call()
            path = Path(folder) / "trace.json"
            session.export_chrome_trace(str(path))
            return json.loads(path.read_text(encoding="utf-8", errors="replace"))
        except (RuntimeError, OSError, ValueError) as error:
            raise ExecutionError(f"torch's profiler failed: {type(error).__name__}: {error}") from error


def _settings(measured: Sequence[Timeline]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if any(_has_threads(line.plan) for line in measured):
        from torch._C._profiler import _ExperimentalConfig

        with contextlib.suppress(
            TypeError
        ):  # an older torch sees the dispatching thread alone: ranges are told as lost
            settings["experimental_config"] = _ExperimentalConfig(profile_all_threads=True)
    return settings


def _has_threads(plan: Plan) -> bool:
    return any(plan.platform.device(lane.device).kind != "cuda" for lane in plan.lanes if lane.kind != "host")


def _attempt(number: int, measured: Timeline, timeout_s: float) -> ProfiledRun | ExecutionError:
    try:
        return _run(number, measured, timeout_s)
    except ExecutionError as error:
        return error


def _run(number: int, measured: Timeline, timeout_s: float) -> ProfiledRun:
    name = f"run {number}"
    with marked_by(profiler_range):
        if measured.plan.mode == "eager":
            return _once(measured, "eager", name, timeout_s)
        eager = _once(measured, "eager", f"{name} in eager mode", timeout_s)
        return replace(_once(measured, measured.plan.mode, name, timeout_s), eager=eager)


def _once(measured: Timeline, mode: str, name: str, timeout_s: float) -> ProfiledRun:
    """Run with timing events, in a range of its own, the clock read before and after."""
    from torch.profiler import record_function

    clock, name = f"graphsched clock of {name}", f"graphsched {name}"
    with Program(measured.plan, mode=mode, timeout_s=timeout_s) as program, no_collector():
        waking.wake(program.gpus)
        for _ in range(WARM_RUNS):
            program.time_once()
        program.time_spans()
        readings = _readings(clock)
        with record_function(name):
            makespan_s = statistics.median(measured.samples_s)
            timeline = replace(timed_run(program), makespan_s=makespan_s, samples_s=measured.samples_s)
        readings += _readings(clock)
        return ProfiledRun(timeline, program._began, tuple(readings), name, clock)


def _readings(clock: str) -> list[Reading]:
    from torch.profiler import record_function

    found = []
    for _ in range(CLOCK_READINGS):
        before = time.perf_counter()
        with record_function(clock):
            inside = time.perf_counter()
        found.append((before, inside, time.perf_counter()))
    return found
