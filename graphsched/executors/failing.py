"""What is raised when a run or a capture fails: the error of an action names it, its lane and its inputs' shapes."""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Callable

from graphsched.errors import ExecutionError, StuckError, TaskFailedError
from graphsched.executors.calls import failure_of
from graphsched.executors.lanes import CpuLane, CudaLane, close_lanes, lanes_at_rest
from graphsched.executors.stamps import Calls
from graphsched.executors.watch import Watch
from graphsched.plan import Plan
from graphsched.workload import Task

EAGER = "run the plan in eager mode"


def failure_in_run(
    error: BaseException,
    first: BaseException | None,
    plan: Plan,
    action: int | None,
    unfinished: Callable[[int], list[str]],
) -> BaseException:
    """What to raise for `error`, which came while `action` was issued (None: while graphs ran, or at the end).

    Args:
        error: What the thread met.
        first: What failed before on another lane, which is then the cause.
        plan: Its action names what failed.
        action: By number.
        unfinished: What is not over of that many actions; for runs that hang.
    """
    if not isinstance(error, Exception):
        return error
    found = first or error
    if isinstance(found, StuckError):
        return _stuck(found, unfinished, len(plan) if action is None else action)
    if isinstance(found, ExecutionError) or not isinstance(found, Exception):
        return found
    if action is not None:
        lane = plan.lanes[plan.lane_of[action]].name
        return failure_of(found, plan.names[action], plan.task(action), lane)
    failed = TaskFailedError(
        f"a task on a CUDA lane failed: {type(found).__name__}: {found}: "
        "run with CUDA_LAUNCH_BLOCKING=1 in the environment to have it named"
    )
    failed.__cause__ = found
    return failed


def failure_on_lane(error: BaseException, name: str, task: Task | None, lane: str) -> BaseException:
    """As `failure_of`, on a lane's own thread: what would end a script there, as `sys.exit` does, is a failure."""
    if isinstance(error, (SystemExit, GeneratorExit)):
        ends = RuntimeError(f"it ends the script ({type(error).__name__}: {error}): raise an error instead")
        ends.__cause__ = error
        error = ends
    return failure_of(error, name, task, lane)


def come_to_rest(
    failure: BaseException, watch: Watch, cpu: dict[int, CpuLane], cuda: dict[int, CudaLane], grace_s: float
) -> bool:
    """Wait for what still runs after `failure`: as long as a run may last, or `grace_s` if it is stuck or interrupted.

    Returns:
        Whether all can be used again. An interrupt may have left a lock taken that CPU lanes share with the thread
        (that of a `threading.Event` which it was about to clear), and what waits for that would do so without end.
    """
    watch.fail(failure)
    waits = isinstance(failure, Exception) and not isinstance(failure, StuckError)
    until = time.perf_counter() + grace_s
    at_rest = lanes_at_rest(cpu, cuda, max(until, watch.deadline) if waits else until)
    if at_rest:
        watch.failure = None  # its traceback holds tensors
    return at_rest and (isinstance(failure, Exception) or not cpu)


def end_lanes(cpu: dict[int, CpuLane], watches: list[Watch]) -> None:
    """End the threads of all lanes; one that hangs is interrupted, one that is at a step goes on within its time."""
    close_lanes(cpu, until=max((watch.deadline for watch in watches if watch.failure is None), default=0.0))


def _stuck(error: StuckError, unfinished: Callable[[int], list[str]], issued: int) -> StuckError:
    hanging: list[str] = []
    with contextlib.suppress(RuntimeError):  # of CUDA
        hanging = unfinished(issued)
    return StuckError(f"{error}; not over: {', '.join(hanging)}") if hanging else error


def make(calls: Calls, plan: Plan, when: str = "") -> None:
    """Make `calls` outside a run; what a call of no action raises is left as it is.

    Raises:
        TaskFailedError: One failed: names its action, and says `when` it failed and what to do.
    """
    for owner, call in zip(calls.owner, calls.calls, strict=True):
        try:
            call()
        except ExecutionError:
            raise
        except Exception as error:
            if owner < 0:
                raise
            raise _failure_of_capture(error, plan, owner, when) from error


def _failure_of_capture(error: Exception, plan: Plan, action: int, when: str) -> TaskFailedError:
    import torch

    lane = plan.lanes[plan.lane_of[action]].name
    failed = failure_of(error, plan.names[action], plan.task(action), lane)
    if not when:
        return TaskFailedError(str(failed))
    if isinstance(error, torch.OutOfMemoryError):
        traceback.clear_frames(error.__traceback__)  # which hold tensors
        return TaskFailedError(
            f"{failed}: graph mode keeps all results of the plan (known: {_results_bytes(plan) / 1e9:.3g} GB): "
            f"{EAGER}, which gives memory back, or make the plan or its tensors smaller"
        )
    if "synchronizing" in str(error):
        return TaskFailedError(f"{failed}: no CUDA graph holds what waits for the GPU: {EAGER}")
    return TaskFailedError(f"{failed}{when}: {EAGER}")


def _results_bytes(plan: Plan) -> int:
    values = [v for v in plan.work.values.values() if v.kind == "output" and v.root == v.name]
    return sum(v.spec.nbytes for v in values if v.spec is not None)
