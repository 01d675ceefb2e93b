"""Steps among many of recorded runs, simulated again: what each adds to a run of several, (T(n) - T(1)) / (n - 1).

A case has one where its figures hold ``step_s``; how many steps were run in a row is a parameter of its experiment.
Where its figures say how fast the thread was meanwhile (``step_call_s``), it is predicted at that pace; else in graph
mode at that of the case's own runs.

Not modelled: the pace of a thread that no figure tells, on which steps in eager mode rest; such cases are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graphsched.plan import Plan
from graphsched.records.checked import Checked
from graphsched.records.model import CaseRecord
from graphsched.records.summaries import cases_by, summary

MEASURED, PACE, NUMBER = "step_s", "step_call_s", "steps"


def step_errors(checked: Sequence[Checked]) -> dict[str, Any]:
    """Errors of steps among many, simulated again with this version.

    Returns:
        ``runs`` (steps compared), ``step_error`` (median, p95 and max of absolute fractions), the same ``by_mode``, and
        all ``cases``.
    """
    told = [entry for entry in checked if can_be_predicted(entry.case)]
    rows = {id(entry): _row(entry) for entry in told}

    def errors(entries: Sequence[Checked]) -> dict[str, Any]:
        return {"runs": len(entries), "step_error": summary([abs(rows[id(entry)]["error"]) for entry in entries])}

    by_mode = {mode: errors(entries) for mode, entries in cases_by(told, lambda entry: entry.case.mode).items()}
    return errors(told) | {"by_mode": by_mode, "cases": list(rows.values())}


def can_be_predicted(case: CaseRecord) -> bool:
    """Whether a case has a measured step among many, and what its prediction rests on is known."""
    number = case.setup.parameters.get(NUMBER)
    if case.workload is None or not _told_s(case, MEASURED) or not isinstance(number, int) or number < 2:
        return False
    return case.mode == "graph" or _told_s(case, PACE) is not None


def _told_s(case: CaseRecord, name: str) -> float | None:
    """A metric in seconds; None where the experiment has told none, for a metric may be text or empty too."""
    value: object = case.metrics.get(name)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0 else None


def _row(entry: Checked) -> dict[str, Any]:
    case = entry.case
    predicted_s, measured_s = _step_s(_at_pace(case), case.setup.parameters[NUMBER]), case.metrics[MEASURED]
    return {
        "experiment": entry.experiment,
        "platform": case.setup.platform.name,
        "label": case.label,
        "mode": case.mode,
        "predicted_s": predicted_s,
        "measured_s": measured_s,
        "error": predicted_s / measured_s - 1,
    }


def _step_s(plan: Plan, steps: int) -> float:
    from graphsched.simulator import Model, predict

    untimed = Model(timing=False)  # spans are not asked for, and makespans are the same
    one_s, all_s = (predict(plan, mode=plan.mode, steps=number, model=untimed).makespan_s for number in (1, steps))
    return (all_s - one_s) / (steps - 1)


def _at_pace(case: CaseRecord) -> Plan:
    """The plan of a case on a thread as fast as it was while its steps were measured, as far as that is known."""
    call_s = _told_s(case, PACE)
    return replace(case, pace=replace(case.pace, call_s=call_s, launches=())).plan if call_s else case.plan
