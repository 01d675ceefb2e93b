"""What came of one case of a request."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphsched.cases import Case
from graphsched.plan import Plan
from graphsched.records import CaseRecord
from graphsched.timeline import Timeline

LONG_PLAN = 50_000  # actions


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of one case.

    Attributes:
        number, case: Which.
        predicted: The predicted timeline, where that is all; None for a baseline.
        record: Of a real run that succeeded.
        failure: What went wrong, in a line or a few; beside a record: that its pictures could not be written.
        files: Pictures and traces written.
        explanation: The three most useful lines about the measured timeline.
        plan: What was predicted.
    """

    number: int
    case: Case
    predicted: Timeline | None = None
    record: CaseRecord | None = None
    failure: str | None = None
    files: tuple[Path, ...] = ()
    explanation: tuple[str, ...] = ()
    plan: Plan | None = None

    @property
    def peak_bytes(self) -> int | None:
        """Predicted peak memory of the GPU that needs the most; None without GPUs, or where finding it takes long."""
        if self.plan is None or len(self.plan) > LONG_PLAN:
            return None
        gpus = [peak.nbytes for device, peak in self.plan.peak_memory.items() if device.startswith("cuda")]
        return max(gpus, default=None)

    @property
    def lower_bound_s(self) -> float | None:
        """No plan takes less; None for a baseline, or where finding it takes long."""
        if self.plan is None or len(self.plan) > LONG_PLAN:
            return None
        from graphsched.schedulers.bounds import bound_of

        return bound_of(self.plan)

    def figures(self) -> dict[str, Any]:
        """For JSON: the keys of a recorded case, null where a figure is absent."""
        case, line = self.case, self.predicted
        if self.record is not None:
            return self.record.figures()
        figures = {
            "label": case.label,
            "scheduler": None if case.is_baseline else case.scheduler,
            "mode": case.mode,
            "predicted_s": None if line is None else line.makespan_s,
            "measured_s": None,
            "spread": None,
            "reported_s": case.reported_s,
            "error": None,
            "options": dict(case.options),
            "metrics": {},
            "estimated": [] if line is None else list(line.estimated),
        }
        return figures | ({"failure": self.failure} if self.failure else {})
