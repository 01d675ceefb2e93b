"""graphsched: schedule dependency graphs onto streams, GPUs and CPU workers; predict, run, compare.

::

    Workload ──schedule()──▶ Plan ──predict()──▶ Timeline ┐
                               └──execute()──▶ Timeline ──┴─compare()──▶ Comparison

Names are imported on first use, so that ``import graphsched`` is quick and needs neither torch nor
matplotlib.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from graphsched.environment import prepare

if TYPE_CHECKING:
    import graphsched.collectives as collectives  # noqa: F401
    import graphsched.kvstore as kvstore  # noqa: F401
    import graphsched.platform.topologies as topologies  # noqa: F401
    from graphsched.calibration import local_platform, profile
    from graphsched.cases import Case, Experiment, experiment
    from graphsched.charts import plot_links, plot_pairs
    from graphsched.comparison import Comparison, compare
    from graphsched.costs import Costs, TaskCost
    from graphsched.errors import GraphschedError
    from graphsched.executors import Program, execute, load_plan, save_plan
    from graphsched.explanation import Explanation, explain
    from graphsched.gantt import plot_gantt
    from graphsched.plan import Action, Lane, Placement, Plan
    from graphsched.platform import Device, Dispatch, Link, Platform
    from graphsched.schedulers import schedule
    from graphsched.simulator import Model, predict
    from graphsched.timeline import Span, Timeline
    from graphsched.tracing import trace
    from graphsched.workload import Task, TensorSpec, Value, Workload

prepare()

_HOMES = {
    "Action": "plan",
    "Case": "cases",
    "Comparison": "comparison",
    "Costs": "costs",
    "Device": "platform",
    "Dispatch": "platform",
    "Experiment": "cases",
    "Explanation": "explanation",
    "GraphschedError": "errors",
    "Lane": "plan",
    "Link": "platform",
    "Model": "simulator",
    "Placement": "plan",
    "Plan": "plan",
    "Platform": "platform",
    "Program": "executors",
    "Span": "timeline",
    "Task": "workload",
    "TaskCost": "costs",
    "TensorSpec": "workload",
    "Timeline": "timeline",
    "Value": "workload",
    "Workload": "workload",
    "compare": "comparison",
    "execute": "executors",
    "experiment": "cases",
    "explain": "explanation",
    "load_plan": "executors",
    "local_platform": "calibration",
    "plot_gantt": "gantt",
    "plot_links": "charts",
    "plot_pairs": "charts",
    "predict": "simulator",
    "profile": "calibration",
    "save_plan": "executors",
    "schedule": "schedulers",
    "trace": "tracing",
}

__all__ = [
    "Action",
    "Case",
    "Comparison",
    "Costs",
    "Device",
    "Dispatch",
    "Experiment",
    "Explanation",
    "GraphschedError",
    "Lane",
    "Link",
    "Model",
    "Placement",
    "Plan",
    "Platform",
    "Program",
    "Span",
    "Task",
    "TaskCost",
    "TensorSpec",
    "Timeline",
    "Value",
    "Workload",
    "compare",
    "execute",
    "experiment",
    "explain",
    "load_plan",
    "local_platform",
    "plot_gantt",
    "plot_links",
    "plot_pairs",
    "predict",
    "profile",
    "save_plan",
    "schedule",
    "trace",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in ("collectives", "kvstore"):  # packages, used as `gs.collectives.all_reduce`
        return importlib.import_module(f"graphsched.{name}")
    if name == "topologies":  # functions too: `gs.topologies.fat_tree`
        return importlib.import_module("graphsched.platform.topologies")
    if name not in _HOMES:
        raise AttributeError(f"module 'graphsched' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"graphsched.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
