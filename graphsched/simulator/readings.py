"""Measured spans in the terms of the simulator's columns: what each class of time took.

What the spans cannot tell apart stays as modelled: of a kernel that its lane waited for, the span holds the
rest of the launch and the kernel; its work is changed only as far as the span leaves no other choice. What
the timing events of two actions take between their spans on a busy lane belongs to the second. What the events of
other lanes of a CUDA graph cost an action is in its span.

Not modelled: which part of a call launches the kernel (all that a measured call takes longer counts as
before the launch, unless the kernel's start or end contradicts that); what the thread takes between the launch of a
CUDA graph and a wait; where threads of other ranks than the first came to a wait of all, and left it.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphsched.plan import Plan
from graphsched.simulator.columns import BLOCKS, NEEDS_CPU, Columns
from graphsched.simulator.crowded_queues import crowded
from graphsched.simulator.graph_joins import join_of_s
from graphsched.simulator.graph_mode import held, inside, latencies_s
from graphsched.simulator.half_readings import HalfReadings
from graphsched.simulator.host_calls import queries_s
from graphsched.simulator.lane_costs import CPU, CUDA, WAIT
from graphsched.simulator.returns import NOTHING, given_way_s, last_over, return_s
from graphsched.simulator.woken_lanes import awake_s
from graphsched.timeline import Timeline


class Readings:
    """What the measured spans say of each action.

    Attributes:
        runs, copies: Actions by what they are.
        work_s: Seconds of work that the spans allow, next to the modelled ones.
        own_s, call_s, after_s: Columns of the thread's time.
        late_s: By action, start beyond what the model has from the last thing waited for.
        later_s: By CUDA graph, as `Replays.later_s`: less where something started sooner.
        spread_s: By action, as `Replays.spread_s`: less where it started sooner; empty as there.
        longer_s: By CUDA graph, as `Replays.longer_s`: no longer than the launch took; empty as there.
        pause_s: By action, the thread's time before it beyond the model's, after it was held up.
        return_s: The same after the last action, until the end of the run.
        halves: What ranks' halves of messages took their threads; the columns have these as modelled.
    """

    def __init__(self, plan: Plan, columns: Columns, measured: Timeline) -> None:
        self.runs = [i for i, kind in enumerate(plan.kinds) if kind in ("run", "collective")]
        self.copies = [i for i, kind in enumerate(plan.kinds) if kind == "copy"]
        self._columns, self._dispatch = columns, columns.dispatch
        self._start_s: list[float] = measured.start_s.tolist()
        self._end_s: list[float] = measured.end_s.tolist()
        self._begun_s: list[float] = measured.issue_start_s.tolist()
        self._issued_s: list[float] = measured.issue_end_s.tolist()
        self._crowded = crowded(columns, self._begun_s, self._end_s)
        self.halves = HalfReadings(columns, measured)
        self.work_s = list(columns.work_s)
        self.own_s, self.call_s, self.after_s = list(columns.own_s), list(columns.call_s), list(columns.after_s)
        self.late_s: dict[int, float] = {}
        self.pause_s: dict[int, float] = {}
        self._free_s: list[float] = []
        self._waited_s = self._slept_s = 0.0  # since the thread's last call to a stream or launch of a graph
        self._held = held(columns)
        self.later_s = list(columns.graphs.later_s) if columns.graphs else []
        self.spread_s = list(columns.graphs.spread_s) if columns.graphs else []
        self.longer_s = list(columns.graphs.longer_s) if columns.graphs else []
        self._read()
        self._read_return(measured.timed_makespan_s)

    def _read(self) -> None:
        n = len(self._columns)
        for rank, order in enumerate(self._columns.orders or [range(n)]):
            self._free_s.append(self._read_thread(rank, order))
        for i, called_s in self.halves.called_s.items():
            left_s = self._over_s(i) - self.work_s[i] - called_s - self._dispatch.launch_s
            self.call_s[i] = min(self.call_s[i], max(0.0, left_s))
            self._read_lane(i, called_s, movable=False)

    def _read_thread(self, rank: int, order: Sequence[int]) -> float:
        """Read what a thread issued; when it was free after that, but for its time beyond the model's after a wait.

        Of a wait of all ranks it is known when rank 0 came and went: the others are taken to go on as modelled.
        """
        kind, stream, before, pause_s, time = self._columns.kind, -1, -1, 0.0, 0.0
        self._waited_s = self._slept_s = 0.0
        self._first_s, modelled = self._dispatch.first_message_s, False
        for i in order:
            if kind[i] == WAIT and rank:
                time, modelled = self._returned_s(i, time), True
                continue
            if modelled:
                begun_s = self.halves.begun_s(i, rank, time) if i in self.halves else self._begun_s[i]
                pause_s, time, modelled = begun_s - time, begun_s, False
            if i in self.halves:
                self.halves.pause_s[i, rank], pause_s = pause_s, 0.0
                time, stream, before = *self._read_half(i, rank, time, stream), i
                continue
            gap_s = self._begun_s[i] - time
            if inside(self._columns, i):
                if self._is_launch(i):
                    if pause_s:
                        self.pause_s[i], pause_s = pause_s, 0.0
                    self._read_replay(i, time)
                    stream, before, time = -1, i, self._issued_s[i]
                continue
            if kind[i] == WAIT:
                if before >= 0:  # the wait itself may swallow it
                    self._delay_after(before, rank, gap_s)
                pause_s += self._issued_s[i] - self._returned_s(i, self._begun_s[i])
            else:
                if pause_s:
                    self.pause_s[i], pause_s = pause_s, 0.0
                if kind[i] == CPU:
                    self._read_hand_over(i, gap_s)
                else:
                    self._read_launch(i, gap_s, stream)
                    stream = self._columns.lane[i]
                before = i
            time = self._issued_s[i]
        return time - pause_s

    def _read_half(self, i: int, rank: int, time: float, stream: int) -> tuple[float, int]:
        """Read a half, the thread free at `time` and last at `stream`; both after it."""
        if self.halves.hands_on(i, rank):
            return self.halves.read_handed(i, rank, time), stream
        lead_s = self._lead_s(i, stream)
        if i in self._columns.messages:
            lead_s, self._first_s = lead_s + self._first_s, 0.0
        return self.halves.read(i, rank, time, lead_s, self._results_s), self._columns.lane[i]

    def _delay_after(self, i: int, rank: int, seconds: float) -> None:
        if i in self.halves:
            self.halves.delay_after((i, rank), seconds)
        elif self._columns.kind[i] == CUDA:
            self.after_s[i] += seconds
        else:
            self.call_s[i] += seconds

    def _returned_s(self, i: int, begun_s: float) -> float:
        """When the model has the thread return from wait `i`, to which it came at `begun_s`."""
        waits = self._columns.waits[i]
        over_s = max((self._end_s[j] for j in waits), default=0.0)
        last = next((j for j in waits if self._end_s[j] == over_s > begun_s), NOTHING)
        waited_s = max(0.0, over_s - begun_s)
        self._waited_s += waited_s
        if last >= 0 and self._columns.kind[last] == CPU:
            self._slept_s += waited_s
        given_s = given_way_s(self._columns, self._end_s, over_s, i) if last != NOTHING else 0.0
        return max(begun_s, over_s) + return_s(self._columns, last, given_s)

    def _read_return(self, makespan_s: float) -> None:
        """The last return: the thread knows that all lanes are done."""
        issued_s, c = max(self._free_s), self._columns
        ends = [0.0 if c.kind[i] == WAIT and not inside(c, i) else end for i, end in enumerate(self._end_s)]
        known_s, last = max(max(ends, default=0.0), issued_s), last_over(ends, issued_s)
        back_s = return_s(c, last, given_way_s(c, ends, known_s) if last != NOTHING else 0.0)
        self.return_s = makespan_s - known_s - back_s - queries_s(c, self._end_s)

    # -- worker lanes --------------------------------------------------------------------------

    def _read_hand_over(self, i: int, gap_s: float) -> None:
        self.call_s[i] = gap_s + self._issued_s[i] - self._begun_s[i]
        self.work_s[i] = self._end_s[i] - self._start_s[i]
        self._read_lateness(i, self._issued_s[i])

    # -- CUDA graphs ---------------------------------------------------------------------------

    def _is_launch(self, i: int) -> bool:
        """Whether action `i` is the first that a graph holds."""
        graphs = self._columns.graphs
        return graphs is not None and graphs.first[graphs.of[i]] == i

    def _read_replay(self, first: int, time: float) -> None:
        """The launch of the graph that begins with action `first`, and all that it holds, the thread free at `time`.

        What starts before the model lets it shows that the launch took effect earlier; of a graph that is launched
        piece after piece, that the thread came to this piece earlier.
        """
        graphs = self._columns.graphs
        assert graphs is not None
        k, pause_s = graphs.of[first], self.pause_s.get(first, 0.0)
        begun_s = self._there_s(graphs.needs[k], time - pause_s)
        slept_s = max(self._slept_s, begun_s - (time - pause_s))
        cold_s = self._dispatch.launch_cold_s(self._waited_s, graphs.gpus[k], slept_s)
        self._waited_s = self._slept_s = 0.0
        first_s = self._issued_s[first]
        if self.longer_s:
            self.longer_s[k] = min(self.longer_s[k], max(0.0, first_s - begun_s - pause_s))
            first_s -= self.longer_s[k]
        ready_s = first_s + self._dispatch.launch_s + graphs.later_s[k]
        self.own_s[first] = first_s - begun_s - pause_s - cold_s
        modelled_s = ready_s
        ready_s = min(modelled_s, *(self._start_s[i] for i in self._held[k]))
        came_s = min(begun_s + pause_s, self._begun_s[first])  # it may have gone on sooner than the model has it
        ready_s = max(ready_s, came_s)  # its events were launched sooner than the model has it
        self.later_s[k] += ready_s - modelled_s
        for i in self._held[k]:
            apart_s = 0.0
            if self.spread_s:
                apart_s = self.spread_s[i] = min(self.spread_s[i], self._start_s[i] - ready_s)
            self._read_lane(i, ready_s + apart_s - self._dispatch.launch_s, movable=False)

    # -- streams -------------------------------------------------------------------------------

    def _read_launch(self, i: int, gap_s: float, stream: int) -> None:
        c, timed_s = self._columns, self._dispatch.timed_record_s
        free_s = self._begun_s[i] + c.own_s[i] + self._lead_s(i, stream)
        there_s = self._results_s(i, free_s)
        called_s = there_s + c.before_s[i] + timed_s
        excess_s = self._issued_s[i] - called_s - c.call_s[i] - timed_s - c.after_s[i]
        if i in self._crowded:
            self._read_lane(i, called_s + max(0.0, excess_s), movable=False)
            return
        self.own_s[i] += gap_s
        own_s = self.own_s[i]
        if c.flags[i] & BLOCKS:
            self._read_lane(i, called_s, movable=True)
            self.after_s[i] = self._issued_s[i] - self._end_s[i] - timed_s
        else:
            before_s = self._lengthen(i, called_s, excess_s)
            self.own_s[i] += before_s
            self._read_lane(i, called_s + before_s, movable=True)
        if there_s > free_s:  # held up until then: what it takes more or less before its calls comes behind that
            self.pause_s[i] = self.pause_s.get(i, 0.0) + self.own_s[i] - own_s
            self.own_s[i] = own_s

    def _lead_s(self, i: int, stream: int) -> float:
        """What the model has before the calls of action `i`, the thread last at `stream`, besides its own time."""
        c = self._columns
        switch_s = c.lanes.switch_s[c.lane[i]][stream] if c.lane[i] != stream else 0.0
        cold_s = self._dispatch.cold_call_s(self._waited_s, c.row_s[i], self._slept_s)
        self._waited_s = self._slept_s = 0.0
        return cold_s + switch_s

    def _read_lane(self, i: int, called_s: float, *, movable: bool) -> None:
        """What the lane did with an action whose calls began at `called_s`, if `movable` give or take."""
        ready_s = called_s + self._dispatch.launch_s
        self._start_s[i] -= self._between_events_s(i, ready_s)
        self._read_work(i, ready_s)
        if movable:
            ready_s = self._place_launch(i, ready_s)
        self._read_lateness(i, ready_s)

    def _results_s(self, i: int, time: float) -> float:
        """When the results of worker lanes that action `i` needs had been there."""
        if not self._columns.flags[i] & NEEDS_CPU:
            return time
        there_s = self._there_s(self._columns.waits[i], time)
        return there_s + self._dispatch.slept_cold_s(there_s - time)

    def _there_s(self, actions: Sequence[int], time: float) -> float:
        """When those of `actions` that are CPU lanes' were over, and the thread had gone on, as modelled."""
        for j in actions:
            if self._columns.kind[j] == CPU and self._end_s[j] > time:
                time = self._end_s[j] + self._dispatch.result_s
        return time

    def _lengthen(self, i: int, called_s: float, excess_s: float) -> float:
        """Lengthen the calls of action `i` by what the thread took longer, but for what it took before them."""
        before_s = min(max(0.0, self._issue_lateness_s(i, called_s)), max(0.0, excess_s))
        call_s = self._columns.call_s[i] + excess_s - before_s
        self.call_s[i] = max(0.0, call_s)
        return before_s + min(0.0, call_s)

    def _issue_lateness_s(self, i: int, called_s: float) -> float:
        """How much later than modelled the event before action `i` was recorded, if its start shows that."""
        before, start_s = self._columns.previous[i], self._start_s[i]
        if start_s <= max(self._caused_s(i, 0.0), self._end_s[before] if before >= 0 else 0.0):
            return 0.0
        return start_s - self._dispatch.launch_s - called_s

    def _read_work(self, i: int, ready_s: float) -> None:
        """The work of action `i` nearest the modelled one that its span allows."""
        over_s, launches = self._over_s(i), self._columns.launches[i]
        launched_s = max(self._start_s[i], ready_s + self.call_s[i] / launches)
        after_last_s = launches * (over_s - ready_s - self.call_s[i])
        least_s, most_s = min(over_s - launched_s, after_last_s), over_s - self._start_s[i]
        self.work_s[i] = min(max(self._columns.work_s[i], least_s), most_s)

    def _over_s(self, i: int) -> float:
        """End of the work of action `i`, before the timing event behind it."""
        return self._end_s[i] - self._columns.behind_s(i) - self._columns.late_events_s.get(i, 0.0)

    def _place_launch(self, i: int, ready_s: float) -> float:
        """Split the thread's time for action `i` where its launches must have been; when it was ready then."""
        launches, left_s = self._columns.launches[i], self._over_s(i) - ready_s
        first_s, last_s = left_s - self.work_s[i], left_s - self.work_s[i] / launches
        call_s = min(launches * first_s, last_s)
        if call_s >= self.call_s[i]:
            return ready_s
        early_s = max(0.0, -first_s, -last_s)
        call_s = max(0.0, min(launches * (first_s + early_s), last_s + early_s))
        self.own_s[i] -= early_s
        self.after_s[i] += early_s + self.call_s[i] - call_s
        self.call_s[i] = call_s
        return ready_s - early_s

    def _between_events_s(self, i: int, ready_s: float) -> float:
        """On a busy lane the events of two actions take time between the spans, too: it belongs to the second."""
        before = self._columns.previous[i]
        if before < 0 or self._end_s[before] < self._caused_s(i, ready_s) or i in self._columns.events_of:
            return 0.0
        late_s = self._start_s[i] - self._end_s[before] - join_of_s(self._columns, i)
        return min(max(0.0, late_s), self._dispatch.timed_gap_s)

    def _caused_s(self, i: int, ready_s: float) -> float:
        """When action `i` was ready and its waits were over, latencies included."""
        lane, latency_s = self._columns.lane, latencies_s(self._columns, i)
        return max([ready_s, *(self._end_s[j] + latency_s[lane[j]] for j in self._columns.waits[i])])

    def _read_lateness(self, i: int, ready_s: float) -> None:
        """How much later than its causes have it action `i` started."""
        columns, earliest_s = self._columns, self._caused_s(i, ready_s)
        before = columns.previous[i]
        if before >= 0 and self._end_s[before] >= earliest_s:
            earliest_s = self._end_s[before]
        else:
            earliest_s = awake_s(columns, i, ready_s, earliest_s, self._end_s)
        self.late_s[i] = self._start_s[i] - earliest_s
