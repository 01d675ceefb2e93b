"""What a plan will take: `predict`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from graphsched.errors import DeadlockError, ScheduleError
from graphsched.garbage import collector_off
from graphsched.plan import MODES, Plan, check_capturable, check_plan
from graphsched.simulator.chance import with_chance
from graphsched.simulator.columns import Columns
from graphsched.simulator.host_calls import without_events
from graphsched.simulator.interval import interval
from graphsched.simulator.loaded_edges import with_loads
from graphsched.simulator.model import EVERYTHING, Model
from graphsched.simulator.repeated import run_again
from graphsched.simulator.steps import repeat
from graphsched.simulator.tabulating import finish, tabulate
from graphsched.simulator.timing_events import run_with_events
from graphsched.timeline import Timeline


def predict(plan: Plan, *, mode: str | None = None, steps: int = 1, model: Model = EVERYTHING) -> Timeline:
    """The timeline of `plan`, from the costs that it holds; nothing is measured.

    Args:
        mode: How it would be executed; default the plan's own mode.
        steps: Runs submitted one after another without waiting for their ends. The makespans are those
            of all of them, the spans those of the first.
        model: Which terms count.

    Returns:
        Seconds from time 0, when the dispatching thread begins the first action. `makespan_s` is without
        timing events; the spans and `timed_makespan_s` are with them.

    Raises:
        ScheduleError: `plan` is no plan, there is no such mode, or `steps` is not a whole number above 0.
        CaptureError: The mode is ``graph``, and the plan has what no CUDA graph can hold.
        CostError: A task has durations for other devices only.
        PlanError: The plan breaks a rule, so that it never ends.

    Example:
        >>> import networkx as nx
        >>> from graphsched.plan import Placement, build_plan
        >>> from graphsched.platform import Device, Dispatch, Platform
        >>> from graphsched.workload import Workload
        >>> graph = nx.DiGraph([("a", "b")])
        >>> nx.set_node_attributes(graph, {"a": 1.0, "b": 2.0}, "duration_s")
        >>> platform = Platform("two", (Device("cpu", "cpu"),), dispatch=Dispatch(sync_s=0, handoff_s=0, wake_s=0.5))
        >>> lanes = Placement(["a", "b"], {"a": "cpu/w0", "b": "cpu/w1"})
        >>> predict(build_plan(Workload.from_graph(graph), platform, None, lanes, scheduler="by hand"))
        Timeline(predicted, 2 actions, makespan 4 s)

    In mode ``graph`` the thread launches at once all that a CUDA graph can hold. In mode ``distributed`` each rank has
    a thread of its own, see `simulator.rank_threads`.

    Not modelled: caches left warm by the task before; memory allocation; clock frequencies that fall
    under load. What graph mode costs, and what of it is left out: see `simulator.graph_mode`.
    """
    check_plan(plan)
    mode = mode if mode is not None else plan.mode
    if mode not in MODES:
        raise ScheduleError(f"no mode {mode!r} to predict: there is {', '.join(MODES)}")
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ScheduleError(f"steps is {steps!r}: a whole number above 0 is needed")
    if mode == "distributed" and steps > 1:
        raise ScheduleError(f"steps is {steps} in mode 'distributed', which has one at a time: leave it out")
    plan = plan if mode == plan.mode else replace(plan, mode=mode)
    if mode == "graph":
        check_capturable(plan)
    columns, estimated = tabulated(plan, steps, model)
    try:
        return replace(_timeline(plan, columns, estimated, model), find_interval=partial(_interval, plan, steps, model))
    except DeadlockError:
        plan.check()
        raise


@collector_off()
def tabulated(plan: Plan, steps: int, model: Model) -> tuple[Columns, tuple[str, ...]]:
    """The columns of `steps` runs of `plan`, complete, and the names of tasks whose costs are estimates."""
    columns, estimated = tabulate(plan, model)
    finish(columns, repeat(columns, plan, steps) if steps > 1 else {}, model)
    return columns, estimated


def _interval(plan: Plan, steps: int, model: Model) -> tuple[float, float]:
    columns, chance_s = with_chance(with_loads(tabulated(plan, steps, model)[0]), model)
    return interval(plan, columns, chance_s)


def _timeline(plan: Plan, columns: Columns, estimated: tuple[str, ...], model: Model) -> Timeline:
    n = len(plan)
    columns, _ = with_chance(with_loads(columns), model)
    timed, makespan_s = run_again(without_events(columns))
    timed_makespan_s = makespan_s
    if model.timing:
        _, timed, timed_makespan_s = run_with_events(columns, plan)
    return Timeline(
        plan=plan,
        source="predicted",
        issue_start_s=np.array(timed.thread.issue_start_s[:n]),
        issue_end_s=np.array(timed.thread.issue_end_s[:n]),
        start_s=np.array(timed.start_s[:n]),
        end_s=np.array(timed.end_s[:n]),
        makespan_s=makespan_s,
        timed_makespan_s=timed_makespan_s,
        estimated=estimated,
        notes=plan.platform.notes,
        halves_s=timed.thread.halves_s,
    )
