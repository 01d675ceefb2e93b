"""Where a training step of PyTorch spends its time: what the thread does, and what each GPU does meanwhile.

One step is watched by torch's profiler, in a process of its own: the profiler makes launches slower until the process
ends. The thread's stages are those of `nn.DataParallel`: images to the first GPU, a part for each (scatter), a copy of
the network for each (replicate), forward, scores to the first (gather), loss, backward with the sum of gradients on
the first, update, and the wait for all GPUs. What a GPU does counts to the stage in which it was launched.

Not modelled: that a watched step takes longer than others.

Source: d2l.ai 12.6.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import record_function

from experiments._shared import called, threads_of, torch_device
from experiments.training.baselines import Setting, synchronize
from graphsched.cases.loading import import_paths
from graphsched.charts.stages import Stage
from graphsched.errors import ExecutionError
from graphsched.executors.profiled import trace_of
from graphsched.explanation.parts import merge, total
from graphsched.formats.profiler_trace import ProfilerTrace, read_trace

STEP, THREAD = "step", "thread"
STAGES = ("images", "scatter", "replicate", "forward", "gather", "loss", "backward", "update", "wait")
STEPS_BEFORE = 5
OUTSIDE = "other"  # launched outside of all stages


class Staged(nn.DataParallel):  # type: ignore[misc]
    """`nn.DataParallel` whose stages are ranges that a profiler sees; computes the same."""

    def scatter(self, *given: Any) -> Any:
        """A part of the batch for each GPU."""
        with record_function("scatter"):
            return super().scatter(*given)

    def replicate(self, *given: Any) -> Any:
        """A copy of the network for each GPU."""
        with record_function("replicate"):
            return super().replicate(*given)

    def parallel_apply(self, *given: Any) -> Any:
        """All copies forward, a thread each."""
        with record_function("forward"):
            return super().parallel_apply(*given)

    def gather(self, *given: Any) -> Any:
        """The scores to the first GPU."""
        with record_function("gather"):
            return super().gather(*given)


def watched(setting: Setting) -> list[Stage]:
    """The stages of one step, from its beginning, by start; rows are the thread, and each GPU's kernels and copies.

    Raises:
        ExecutionError: The process that takes the step ended, or the step failed there.
    """
    with (
        import_paths(Path(__file__).resolve().parent),  # its folder lies beside the experiments
        ProcessPoolExecutor(1, torch.multiprocessing.get_context("spawn")) as processes,
    ):
        try:
            return processes.submit(watch, setting).result()
        except (BrokenProcessPool, RuntimeError, OSError) as error:
            raise ExecutionError(f"a step could not be watched: {type(error).__name__}: {error}") from error


def watch(setting: Setting) -> list[Stage]:
    """As `watched`, in this process."""
    step = _step_of(setting)
    with threads_of(setting.platform, setting.devices[0]):
        for _ in range(STEPS_BEFORE):
            step()
        trace = trace_of(record_function(STEP)(step))
    return stages_of(read_trace(trace).during(STEP))


def stages_of(trace: ProfilerTrace) -> list[Stage]:
    """The stages of the one step in `trace`.

    Example:
        >>> from graphsched.formats.profiler_trace import DeviceWork, HostSpan
        >>> ranges = HostSpan("loss", "1/1", 2.0, 3.0), HostSpan("backward", "1/1", 3.0, 9.0)
        >>> launch = HostSpan("cudaLaunchKernel", "1/2", 4.0, 5.0, 7)
        >>> work = DeviceWork("sum", "kernel", 1, 7, 8.0, 11.0, 7)
        >>> for stage in stages_of(ProfilerTrace((work,), (launch,), ranges)):
        ...     print(stage)
        Stage(row='thread', name='loss', start_s=0.0, end_s=1.0)
        Stage(row='thread', name='backward', start_s=1.0, end_s=7.0)
        Stage(row='GPU 1', name='backward', start_s=6.0, end_s=9.0)
    """
    thread = [span for span in trace.ranges if span.name in STAGES]
    if not thread:
        raise ExecutionError("the profiler has seen no stage of the step")
    first_s = thread[0].start_s
    launched_s = {call.correlation: call.start_s for call in trace.calls if call.correlation is not None}
    starts = [span.start_s for span in thread]

    def stage_at(time_s: float | None) -> str:
        place = -1 if time_s is None else bisect_right(starts, time_s) - 1
        return thread[place].name if place >= 0 and time_s is not None and time_s <= thread[place].end_s else OUTSIDE

    found = [Stage(THREAD, span.name, span.start_s - first_s, span.end_s - first_s) for span in thread]
    for work in sorted(trace.work, key=lambda work: (work.device, work.kind == "copy", work.start_s)):
        row = called(f"cuda:{work.device}") + (" copies" if work.kind == "copy" else "")
        stage = stage_at(launched_s.get(work.correlation))
        found.append(Stage(row, stage, work.start_s - first_s, work.end_s - first_s))
    return found


def seconds_of(stages: Sequence[Stage]) -> dict[str, float]:
    """Figures of a watched step: the thread's seconds in each stage, and the share of the step that GPUs compute.

    Example:
        >>> step = [Stage("thread", "forward", 0.0, 3.0), Stage("thread", "wait", 3.0, 4.0)]
        >>> gpus = [Stage("GPU 0", "forward", 1.0, 3.0), Stage("GPU 0", "forward", 2.0, 4.0)]
        >>> seconds_of([*step, *gpus])
        {'watched_forward_s': 3.0, 'watched_wait_s': 1.0, 'watched_step_s': 4.0, 'watched_busy_share': 0.75}
    """
    thread = [stage for stage in stages if stage.row == THREAD]
    step_s = max(stage.end_s for stage in thread)
    found: dict[str, float] = {}
    for stage in thread:
        name = f"watched_{stage.name}_s"
        found[name] = found.get(name, 0.0) + stage.end_s - stage.start_s
    found["watched_step_s"] = step_s
    rows = {stage.row for stage in stages if stage.row != THREAD and not stage.row.endswith(" copies")}
    if rows:
        busy = [merge((stage.start_s, stage.end_s) for stage in stages if stage.row == row) for row in rows]
        found["watched_busy_share"] = sum(map(total, busy)) / len(rows) / step_s
    return found


def _step_of(setting: Setting) -> Callable[[], None]:
    """A step of the network of `setting` with stages, waited for; in `nn.DataParallel` on several GPUs."""
    first = torch.device(torch_device(setting.devices[0]))
    net: nn.Module = setting.network().to(first)
    optimizer = torch.optim.SGD(net.parameters(), lr=setting.lr)
    if first.type == "cuda" and len(setting.devices) > 1:
        net = Staged(net, device_ids=[torch.device(torch_device(name)).index for name in setting.devices])
    images, labels = setting.batch()

    def step() -> None:
        with record_function("images"):
            x, y = images.to(first), labels.to(first)
        optimizer.zero_grad()
        scores = net(x) if isinstance(net, Staged) else _forward(net, x)
        with record_function("loss"):
            loss = functional.cross_entropy(scores, y)
        with record_function("backward"):
            loss.backward()  # type: ignore[no-untyped-call]
        with record_function("update"):
            optimizer.step()
        with record_function("wait"):
            synchronize(setting.devices)

    return step


def _forward(net: nn.Module, x: Tensor) -> Tensor:
    with record_function("forward"):
        return net(x)  # type: ignore[no-any-return]
