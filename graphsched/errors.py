"""Every error that graphsched raises on purpose, in one tree.

::

    GraphschedError
    ├── WorkloadError            a task graph that cannot be built
    │   ├── CycleError           a cycle, printed as a path
    │   ├── DuplicateNameError   a name taken, empty, or with reserved characters
    │   ├── ForeignValueError    a value of another workload
    │   ├── SignatureError       a function that returns something else than declared
    │   └── TraceError           a function or module that cannot be traced; names the line
    ├── PlatformError            devices, links or capacities that do not exist or contradict
    ├── CostError                a duration that is missing, negative or not finite
    ├── ScheduleError            a scheduler or option that does not exist or cannot work
    │   ├── CaptureError         a plan that no CUDA graph can hold; names the actions
    │   └── OutOfMemoryError     a plan that needs more memory than a device has; names what is alive
    ├── PlanError                a plan that breaks a rule; names the line
    │   └── DeadlockError        actions that wait for each other across lanes
    ├── FileFormatError          a file that is truncated, of another version, or not ours
    ├── ExperimentError          an experiment that cannot be found, loaded or called
    ├── OutputError              an output that cannot be written
    └── ExecutionError           a run that failed
        ├── TaskFailedError      a task raised; names task, lane and input shapes
        ├── ObedienceError       spans that contradict the plan
        ├── RankError            ranks that died, failed, hang or disagree; names rank, lane and action
        └── StuckError           a run that the watchdog ended

All but `ExecutionError` mean that the request was wrong (command-line exit code 2);
`ExecutionError` means that the work failed (exit code 1).

Warnings: `EstimateWarning` (a cost is an estimate), `PlatformWarning` (a platform file no
longer describes this host), `ScheduleWarning` (a scheduler of several failed), all under `GraphschedWarning`.
"""

from __future__ import annotations

__all__ = [
    "CaptureError",
    "CostError",
    "CycleError",
    "DeadlockError",
    "DuplicateNameError",
    "EstimateWarning",
    "ExecutionError",
    "ExperimentError",
    "FileFormatError",
    "ForeignValueError",
    "GraphschedError",
    "GraphschedWarning",
    "ObedienceError",
    "OutOfMemoryError",
    "OutputError",
    "PlanError",
    "PlatformError",
    "PlatformWarning",
    "RankError",
    "ScheduleError",
    "ScheduleWarning",
    "SignatureError",
    "StuckError",
    "TaskFailedError",
    "TraceError",
    "WorkloadError",
]


class GraphschedError(Exception):
    """Base of every error raised on purpose."""


class WorkloadError(GraphschedError):
    """A task graph that cannot be built."""


class CycleError(WorkloadError):
    """Tasks that depend on each other in a circle; the message prints the path."""


class DuplicateNameError(WorkloadError):
    """A task or value name that is taken, empty, or holds reserved characters."""


class ForeignValueError(WorkloadError):
    """A value that belongs to another workload."""


class SignatureError(WorkloadError):
    """A function whose results differ from what the task declares."""


class TraceError(WorkloadError):
    """A function or module that cannot be traced into a workload."""


class PlatformError(GraphschedError):
    """A device, link or capacity that does not exist, or a platform that contradicts itself."""


class CostError(GraphschedError):
    """A duration that is missing, negative or not finite."""


class ScheduleError(GraphschedError):
    """A scheduler, option or placement that does not exist or cannot work."""


class CaptureError(ScheduleError):
    """A plan that no CUDA graph can hold."""


class OutOfMemoryError(ScheduleError):
    """A plan whose peak is more than a device's memory."""


class PlanError(GraphschedError):
    """A plan that breaks one of its rules; `line` is the plan's text line, if known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.line = line


class DeadlockError(PlanError):
    """Actions that wait for each other across lanes, so that none can start."""


class FileFormatError(GraphschedError):
    """A file that is truncated, of another version, or not one of ours."""


class ExperimentError(GraphschedError):
    """An experiment that cannot be found, loaded or called with these parameters."""


class OutputError(GraphschedError):
    """An output file or folder that cannot be written."""


class ExecutionError(GraphschedError):
    """A run that failed."""


class TaskFailedError(ExecutionError):
    """A task raised while it ran."""


class ObedienceError(ExecutionError):
    """Measured spans that contradict the plan's order or waits."""


class RankError(ExecutionError):
    """A distributed run in which a rank died, failed, hangs or disagrees with the others."""


class StuckError(ExecutionError):
    """A run that made no progress and was ended by the watchdog."""


class GraphschedWarning(UserWarning):
    """Base of every warning."""


class EstimateWarning(GraphschedWarning):
    """A cost is an estimate, neither measured nor given."""


class PlatformWarning(GraphschedWarning):
    """The platform file no longer describes this host."""


class ScheduleWarning(GraphschedWarning):
    """One of several schedulers failed and was left out."""


def error_text(error: BaseException) -> str:
    """What went wrong, for people: a message of ours as it is, another's behind its type; without one, the type alone.

    Example:
        >>> error_text(PlanError("no such lane", 7)), error_text(KeyError("x")), error_text(StopIteration())
        ('line 7: no such lane', "KeyError: 'x'", 'StopIteration')
    """
    kind = type(error).__name__
    try:
        text = str(error).encode(errors="backslashreplace").decode()  # halves of characters cannot be printed
    except Exception:  # its `__str__` fails, too
        return kind
    if not text or isinstance(error, GraphschedError):
        return text or kind
    return f"{kind}: {text}"
