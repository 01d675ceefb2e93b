"""What an explanation reads of a timeline: its spans, and what the plan's actions cost alone."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from graphsched.explanation.threads import find_issues, free_s
from graphsched.plan import Plan
from graphsched.simulator.columns import BLOCKS, Columns
from graphsched.simulator.graph_mode import inside, latencies_s
from graphsched.simulator.host_calls import with_events
from graphsched.simulator.lane_costs import CPU, CUDA, WAIT
from graphsched.simulator.model import EVERYTHING
from graphsched.simulator.tabulating import finish, tabulate
from graphsched.timeline import Timeline

NOISE_S = 3e-6  # what a measured time may be off within one clock
EXACT_S = 1e-9  # what rounding may set predicted times apart by
NOISE = 0.01  # share of its time alone by which a measured action may differ from it


@dataclass(frozen=True, eq=False)
class Facts:
    """Columns by action of one timeline, in seconds; read only.

    Attributes:
        line: The timeline.
        columns: What the plan's actions cost, as the simulator reads them.
        start_s, end_s: When each ran.
        issue_start_s, issue_end_s: When the thread issued each; what threads of several ranks issue, the last of them.
        there_s: When what the thread waited for before its issue was over on CPU lanes; else when that began.
        launched_s: When its kernels had all been launched, by its issue, and could run.
        rank_of: The rank whose thread that was.
        orders: By rank, what its thread issued, in order, as far as it is known when; one order without ranks.
        on_lane: Actions of each lane, in order; a collective is on several.
        crosses: Capacities that each copy takes part of.
        tolerance_s: Times that are no further apart are taken for equal.
    """

    line: Timeline
    columns: Columns
    start_s: list[float]
    end_s: list[float]
    issue_start_s: list[float]
    issue_end_s: list[float]
    there_s: list[float]
    launched_s: list[float]
    rank_of: list[int]
    orders: tuple[list[int], ...]
    on_lane: tuple[list[int], ...]
    crosses: dict[int, tuple[str, ...]]
    tolerance_s: float

    @property
    def plan(self) -> Plan:
        """The timeline's plan."""
        return self.line.plan

    def __len__(self) -> int:
        return len(self.start_s)

    def lane(self, i: int) -> str:
        """Name of the lane of action `i`."""
        return self.plan.lanes[self.plan.lane_of[i]].name

    def blocks(self, i: int) -> bool:
        """Whether the thread waits until action `i`, a pageable copy, is over."""
        return self.columns.flags[i] & BLOCKS != 0

    def work_from_s(self, i: int) -> float:
        """When the work of action `i` begins: its kernel cannot before it has been launched."""
        if self.columns.kind[i] != CUDA:
            return self.start_s[i]
        return min(max(self.start_s[i], self.launched_s[i]), self.end_s[i])

    def latency_s(self, i: int, j: int) -> float:
        """From the end of action `j` to when action `i`, which waits for it, knows; without `wake_s` of a CPU lane.

        In a prediction it is no longer than to the start, which chance may have drawn sooner.
        """
        c = self.columns
        latency_s = (c.lanes.latency_s[c.lane[i]] if c.graphs is None else latencies_s(c, i))[c.lane[j]]
        if self.line.source == "measured":
            return latency_s
        return min(latency_s, max(0.0, self.start_s[i] - self.end_s[j]))

    def own_issue_s(self, i: int) -> float:
        """What issuing action `i` takes the thread where nothing holds it up, timing events included.

        Of one that a CUDA graph holds it is the launch of that graph, in which it has no call of its own.
        """
        c = self.columns
        if c.graphs is not None and inside(c, i):
            k = c.graphs.of[i]
            return c.own_s[c.graphs.first[k]] + (c.graphs.longer_s[k] if c.graphs.longer_s else 0.0)
        if c.kind[i] == CPU:
            return c.call_s[i]
        events_s = 2 * c.dispatch.timed_record_s if c.kind[i] == CUDA else 0.0
        return c.own_s[i] + c.before_s[i] + c.call_s[i] + c.after_s[i] + events_s

    def calls(self, actions: Iterable[int]) -> list[int]:
        """What the thread issues of `actions`: a CUDA graph is launched once, with its first action."""
        c = self.columns
        calls = (i if c.graphs is None or not inside(c, i) else c.graphs.first[c.graphs.of[i]] for i in actions)
        return list(dict.fromkeys(calls))

    def issues_s(self, actions: Iterable[int]) -> float:
        """As `own_issue_s`, of several actions."""
        return sum(map(self.own_issue_s, self.calls(actions)))

    def begun_s(self, i: int, rank: int) -> float:
        """When the thread of `rank` began to issue action `i`."""
        half = self.line.halves_s.get((i, rank))
        return half[0] if half else float(self.line.issue_start_s[i])

    def free_s(self, i: int, begun_s: float) -> float:
        """See `threads.free_s`."""
        return free_s(self.columns, self.issue_end_s, i, begun_s)

    def issued_until(self, last: int, first: int = 0) -> list[int]:
        """What the thread that issued action `last` issued from action `first` to that, in order."""
        order = self.orders[self.rank_of[last]]
        return order[bisect_left(order, first) : bisect_right(order, last)]

    def of_rank(self, i: int) -> str:
        """Whose thread issued action `i`, where several ranks have one; else nothing."""
        return f" of rank {self.rank_of[i]}" if len(self.orders) > 1 else ""

    def waited_for(self, i: int) -> int:
        """What ended last of all that action `i` waits for, or -1; ties in plan order."""
        return max(self.columns.waits[i], key=lambda j: (self.end_s[j], -j), default=-1)


def gather(line: Timeline) -> Facts:
    """The facts of `line`.

    Raises:
        CostError: A task has durations for other devices only.
    """
    plan = line.plan
    columns, _ = tabulate(plan, EVERYTHING)
    finish(columns, {}, EVERYTHING)
    columns = with_events(columns, plan)
    on_lane: tuple[list[int], ...] = tuple([] for _ in plan.lanes)
    for i in range(len(plan)):
        for lane in plan.lanes_of(i):
            on_lane[lane].append(i)
    issues = find_issues(line, columns)
    return Facts(
        line=line,
        columns=columns,
        start_s=line.start_s.tolist(),
        end_s=line.end_s.tolist(),
        issue_start_s=issues.issue_start_s,
        issue_end_s=issues.issue_end_s,
        there_s=issues.there_s,
        launched_s=issues.launched_s,
        rank_of=issues.rank_of,
        orders=issues.orders,
        on_lane=on_lane,
        crosses={i: plan.platform.link(c.source, c.target, c.memory).crosses for i, c in plan.copies.items()},
        tolerance_s=EXACT_S if line.source == "predicted" else NOISE_S + line.clock_uncertainty_s,
    )


def is_wait(facts: Facts, i: int) -> bool:
    """Whether action `i` is a wait of the dispatching thread."""
    return facts.columns.kind[i] == WAIT
