"""Records of cases, made from what was predicted and measured."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from graphsched.costs import Costs
from graphsched.errors import ExperimentError
from graphsched.executors.saved import used_costs
from graphsched.plan import stamped
from graphsched.platform import Pace
from graphsched.records.model import CaseRecord, Setup
from graphsched.timeline import Timeline

DECIMALS = 10  # of spans in seconds: no clock tells less than a nanosecond


def record_case(
    setup: Setup,
    label: str,
    predicted: Timeline,
    measured: Timeline,
    *,
    scheduler: str,
    options: Mapping[str, Any] | None = None,
    reported_s: float | None = None,
    metrics: Mapping[str, float] | None = None,
) -> CaseRecord:
    """The record of a case that was predicted and run; its setup keeps the costs that the plan uses.

    Spans are kept to a tenth of a nanosecond.

    Raises:
        ExperimentError: A metric is no number.
    """
    plan = measured.plan
    return CaseRecord(
        setup=replace(setup, platform=replace(setup.platform, costs=used_costs(plan))),
        label=label,
        scheduler=scheduler,
        mode=plan.mode,
        options=json.loads(json.dumps(dict(options or {}), default=str)),  # as a file gives them back
        predicted_s=predicted.makespan_s,
        samples_s=measured.samples_s,
        measured_s=measured.makespan_s,
        spread=measured.spread,
        reported_s=reported_s,
        estimated=predicted.estimated,
        metrics=_figures(metrics or {}),
        workload=plan.work.to_dict(),
        plan_text=plan.text,
        timed_makespan_s=measured.timed_makespan_s,
        clock_uncertainty_s=measured.clock_uncertainty_s,
        pace=Pace.of(predicted.plan.platform.dispatch, graphs=plan.mode == "graph"),
        stamped=stamped(plan) if plan.mode == "graph" else None,
        notes=measured.notes,
        spans={name: column.round(DECIMALS) for name, column in measured.columns().items()},
    )


def record_baseline(
    setup: Setup,
    label: str,
    samples_s: Sequence[float],
    *,
    reported_s: float | None = None,
    metrics: Mapping[str, float] | None = None,
) -> CaseRecord:
    """The record of code of others: samples, no prediction.

    Raises:
        ExperimentError: A metric is no number.
    """
    low, middle, high = (float(x) for x in np.percentile(samples_s, (25, 50, 75)))
    return CaseRecord(
        setup=replace(setup, platform=replace(setup.platform, costs=Costs())),
        label=label,
        scheduler=None,
        mode="baseline",
        samples_s=tuple(samples_s),
        measured_s=middle,
        spread=(high - low) / 2 / middle if len(samples_s) >= 4 and middle else None,
        reported_s=reported_s,
        metrics=_figures(metrics or {}),
    )


def _figures(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """`metrics` as a file can hold them: numbers of NumPy and tensors of one element as Python's."""
    return {_name(name): _figure(name, value) for name, value in metrics.items()}


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise ExperimentError(f"a metric is called {name!r}: a text such as 'peak_bytes' is needed")
    return name


def _figure(name: str, value: Any) -> Any:
    found = value
    if hasattr(value, "item"):
        with contextlib.suppress(TypeError, ValueError, RuntimeError):  # of several elements
            found = value.item()
    if found is None or isinstance(found, (bool, int, float, str)):
        return found
    raise ExperimentError(f"metric {name!r} is a {type(value).__name__}: a number is needed")
