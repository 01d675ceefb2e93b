"""A plan simulated with measured times in place of modelled ones, one class of them or several.

The measured spans are those of the run with timing events, so that is the run that is simulated. With all
classes replaced it comes out as measured.

========== =====================================================================================
compute    work of tasks; a measured task shares nothing, what others and their events cost it is in its span
transfers  work of copies, likewise
dispatch   the thread's time for each action and between two; where a result, a blocking copy or a full
           launch queue held it up, only what it did besides
waits      from the last thing that an action waited for to its start; the thread's return from waits
========== =====================================================================================

Not modelled: what measured tasks and copies cost modelled ones beside them, but that copies feel whether CPU lanes
compute and several lanes of a GPU are busy; steps of a repeated program; see also `simulator.readings`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Literal

from graphsched.simulator.chance import with_chance
from graphsched.simulator.columns import ALONE, Columns
from graphsched.simulator.graph_joins import join_of_s
from graphsched.simulator.graph_mode import inside
from graphsched.simulator.interpreter_lock import without_lock
from graphsched.simulator.lane_costs import CUDA
from graphsched.simulator.loaded_edges import with_loads
from graphsched.simulator.locked_engine import engine_of
from graphsched.simulator.model import EVERYTHING, Model
from graphsched.simulator.pools import watch_cores, watch_lanes
from graphsched.simulator.readings import Readings
from graphsched.simulator.returns import finished_s
from graphsched.simulator.tabulating import finish, tabulate
from graphsched.simulator.timing_events import run_with_events
from graphsched.timeline import Timeline

Term = Literal["compute", "transfers", "dispatch", "waits"]
TERMS: tuple[Term, ...] = ("compute", "transfers", "dispatch", "waits")


class Substitution:
    """The model of a plan and the measured figures that can take the place of parts of it.

    Example:
        >>> import networkx as nx
        >>> from graphsched.plan import Placement, build_plan
        >>> from graphsched.platform import Device, Dispatch, Platform
        >>> from graphsched.simulator import predict
        >>> from graphsched.workload import Workload
        >>> graph = nx.DiGraph()
        >>> graph.add_node("a", duration_s=1.0)
        >>> platform = Platform("one", (Device("cpu", "cpu"),), dispatch=Dispatch(sync_s=0, handoff_s=0, wake_s=0.5))
        >>> lanes = Placement(["a"], {"a": "cpu/w0"})
        >>> line = predict(build_plan(Workload.from_graph(graph), platform, None, lanes, scheduler="by hand"))
        >>> slower = replace(line, end_s=line.end_s + 0.25, timed_makespan_s=line.timed_makespan_s + 0.25)
        >>> swap = Substitution(slower)
        >>> swap.makespan_s(()), swap.makespan_s(("compute",)), swap.makespan_s(("waits",))
        (1.5, 1.75, 1.5)
    """

    def __init__(self, measured: Timeline, model: Model = EVERYTHING) -> None:
        """`model`: which terms of the model count where nothing measured takes their place.

        Raises:
            PlanError: An action is of a kind that is not simulated.
        """
        columns, _ = tabulate(measured.plan, model)
        finish(columns, {}, model)
        columns, _ = with_chance(with_loads(columns), model)
        self.columns, engine, _ = run_with_events(columns, measured.plan)
        self._found = Readings(measured.plan, self.columns, measured)
        self._look_s = sum(finished_s(self.columns, engine)) - sum(finished_s(_without_looks(self.columns), engine))

    def makespan_s(self, terms: Collection[Term]) -> float:
        """Simulated makespan, timing events included, with what was measured of `terms`."""
        found, columns = self._found, self.columns
        if "compute" in terms or "waits" in terms:  # the interpreter's lock is in what was measured
            columns = without_lock(columns)
        columns = _with_work(columns, found, terms)
        if "dispatch" in terms:
            columns = replace(columns, dispatch=replace(columns.dispatch, put_s=0.0, lock_losses=(), lock_late_s=0.0))
            columns = replace(columns, own_s=found.own_s, call_s=found.call_s, after_s=found.after_s)
            columns.halves = found.halves.halves
            if columns.graphs:
                columns.graphs = replace(
                    columns.graphs, later_s=found.later_s, spread_s=found.spread_s, longer_s=found.longer_s
                )
        if "waits" not in terms:
            return engine_of(columns, timed=True).run()
        columns = _without_looks(_with_pauses(columns, found))  # they are in the measured return
        return engine_of(columns, timed=True, late_s=found.late_s).run() + found.return_s

    def issue_s(self) -> dict[int, float]:
        """By action, the thread's time measured for it and the gap before it, less the modelled one."""
        found, columns = self._found, self.columns
        pairs = [(found.own_s, columns.own_s), (found.call_s, columns.call_s), (found.after_s, columns.after_s)]
        longer_s = {i: sum(mine[i] - model[i] for mine, model in pairs) for i in range(len(columns))}
        if columns.graphs and columns.graphs.longer_s:
            pieces_s = zip(columns.graphs.first, found.longer_s, columns.graphs.longer_s, strict=True)
            for first, mine_s, model_s in pieces_s:
                longer_s[first] += mine_s - model_s
        longer_s |= dict.fromkeys(found.halves.called_s, 0.0)
        for (i, rank), half in found.halves.halves.items():
            longer_s[i] += sum(half) - sum(columns.half(i, rank))
        return longer_s

    def late_s(self) -> dict[int, float]:
        """By action, its measured start less the modelled one after the same causes."""
        columns, event_s = self.columns, dict.fromkeys(self.columns.events_of, self.columns.event_s)
        return {i: s - join_of_s(columns, i) - event_s.get(i, 0.0) for i, s in self._found.late_s.items()}

    def return_s(self) -> float:
        """What the thread took to go on after all its waits, measured less modelled."""
        return (
            self._found.return_s
            - self._look_s
            + sum(self._found.pause_s.values())
            + sum(self._found.halves.pause_s.values())
        )

    def loaded(self, predicted: Timeline) -> frozenset[int]:
        """Actions that are predicted to take longer than alone, because of what runs beside them."""
        columns = self.columns
        return frozenset(
            i for i in range(len(columns)) if columns.slowed_by_others(i, predicted[i].duration_s - columns.behind_s(i))
        )


def _with_work(columns: Columns, found: Readings, terms: Collection[Term]) -> Columns:
    before = columns.resource
    work_s, resource, known = list(columns.work_s), list(before), set(columns.events_known)
    for term, actions in (("compute", found.runs), ("transfers", found.copies)):
        for i in actions if term in terms else ():
            work_s[i], resource[i] = found.work_s[i], ALONE
            known.add(i)
    rested = {i: rests for i, rests in columns.rested.items() if i not in known}
    columns = replace(columns, work_s=work_s, resource=resource, events_known=frozenset(known), rested=rested)
    if columns.written:
        columns.moved = {i: rate for i, rate in columns.moved.items() if i not in known}
        columns.shares = {i: share for i, share in columns.shares.items() if i not in known}
        columns.threads_of = dict(columns.threads_of)
        watch_cores(columns)  # copies still feel that lanes compute
    if columns.several and "compute" in terms and "transfers" not in terms:
        watch_lanes(columns, before)  # and that several of a GPU do
    return columns


def _without_looks(columns: Columns) -> Columns:
    return replace(columns, dispatch=replace(columns.dispatch, graph_look_s=0.0))


def _with_pauses(columns: Columns, found: Readings) -> Columns:
    """What the thread takes to go on after a wait, before the calls of the next action."""
    own_s, before_s, call_s = list(columns.own_s), list(columns.before_s), list(columns.call_s)
    for i, pause in found.pause_s.items():
        into = before_s if columns.kind[i] == CUDA else call_s
        into = own_s if inside(columns, i) else into  # of the launch of a graph
        into[i] += pause
    halves = dict(columns.halves)
    for half, pause in found.halves.pause_s.items():
        model = columns.half(*half)
        halves[half] = model._replace(before_s=model.before_s + pause)
    return replace(columns, own_s=own_s, before_s=before_s, call_s=call_s, halves=halves)
