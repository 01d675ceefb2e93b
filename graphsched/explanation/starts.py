"""Why an action started when it did: what it was waiting for, and what was over last."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Literal

from graphsched.explanation.facts import Facts
from graphsched.plan import Plan
from graphsched.simulator.graph_mode import inside
from graphsched.simulator.lane_costs import CPU, CUDA
from graphsched.workload import Read

CauseKind = Literal["wait", "lane", "thread", "queue", "blocking", "result", "return", "start"]


@dataclass(frozen=True, slots=True)
class Cause:
    """What something was waiting for.

    Attributes:
        kind: Of an action: ``wait`` (for an action that it needs), ``lane`` (for the one before it, which it
            does not need), ``thread`` (to be issued). Of the thread: ``queue`` (for room in the launch queue),
            ``blocking`` (for a pageable copy), ``result`` (of a CPU lane), ``return`` (of a wait); ``start``: for
            nothing.
        by: The action that had to be over, or issued; -1 for none.
        ready_s: When that held nothing back any more, latency included.
        alone_s: How much longer it held back than all else.
    """

    kind: CauseKind
    by: int
    ready_s: float
    alone_s: float = 0.0


def start_cause(facts: Facts, i: int) -> Cause:
    """Why action `i`, which is no wait of the thread, did not start earlier: what was over last.

    Ties go to what it needs, then to the lane.
    """
    causes = possible_causes(facts, i)
    chosen = max(causes, key=lambda cause: cause.ready_s)
    rest = max((cause.ready_s for cause in causes if cause is not chosen), default=0.0)
    return Cause(chosen.kind, chosen.by, chosen.ready_s, max(0.0, chosen.ready_s - rest))


def start_latency_s(facts: Facts, i: int, cause: Cause) -> float:
    """How long action `i` takes to start once `cause` is over, as measured for the platform."""
    c = facts.columns
    if cause.kind == "lane":
        return 0.0
    wake_s = c.lanes.wake_s[c.lane[i]]
    if cause.kind == "wait":
        return facts.latency_s(i, cause.by) + wake_s
    return wake_s if c.kind[i] == CPU else c.dispatch.launch_s


def over_s(facts: Facts, i: int, cause: Cause) -> float:
    """When `cause`, what action `i` waited for last, was over: without the latency to the start.

    The thread comes to some of what a graph holds later than its launch of the first is over.
    """
    if cause.kind != "thread":
        return facts.end_s[cause.by]
    if inside(facts.columns, i):
        return max(facts.issue_end_s[i], facts.launched_s[i] - facts.columns.dispatch.launch_s)
    return facts.issue_end_s[i]


def possible_causes(facts: Facts, i: int) -> list[Cause]:
    """All that action `i` had to wait for: what it needs, the action before it on its lane, its issue.

    A CPU lane that has nothing to do sleeps, and takes time to wake. What a graph holds was launched by its start at
    the latest: where it seems not to have been, and something else was over shortly before, by the end of that.
    """
    needed = dict.fromkeys([*facts.columns.waits[i], *needs(facts.plan, i)])
    ready_s = {j: facts.end_s[j] + facts.latency_s(i, j) for j in needed}
    issued_s = _issued_s(facts, i)
    rested = _rested(facts, i, max([*ready_s.values(), issued_s]))
    wake_s = facts.columns.lanes.wake_s[facts.columns.lane[i]] if rested else 0.0
    causes = [Cause("wait", j, ready_s[j] + wake_s) for j in needed]
    before = facts.columns.previous[i]
    if before >= 0:
        causes.append(Cause("lane", before, facts.end_s[before]))
    if inside(facts.columns, i) and issued_s >= facts.start_s[i]:
        last_s = max((cause.ready_s for cause in causes), default=0.0)
        issued_s = min(issued_s, last_s) if last_s >= issued_s - facts.tolerance_s else issued_s
    return [*causes, Cause("thread", i, issued_s + wake_s)]


def needs(plan: Plan, i: int) -> list[int]:
    """Actions whose results action `i` reads, or that must come before it; not the thread's waits.

    A plan's waits leave out those that the order of its lanes implies.
    """
    copy, task = plan.copies.get(i), plan.task(i)
    reads: Iterable[tuple[Read, str]] = ()
    if copy is not None:
        reads = ((copy.read, copy.source),)
    elif task is not None:
        reads = task.reads_on(plan.lanes[plan.lane_of[i]].device)
    names = []
    for read, device in reads:
        here = plan.homes[read.value.name] == device
        names.append(read.source if here else f"{read}>{device}")
    names += task.after if task is not None else ()
    found = (plan.index_of.get(name) for name in names if name is not None)
    return [j for j in found if j is not None and j < i and plan.kinds[j] != "wait"]


def _issued_s(facts: Facts, i: int) -> float:
    """When action `i` could run at the earliest, by its issue, on a lane that is awake."""
    if facts.columns.kind[i] == CPU:
        return min(facts.issue_end_s[i], facts.start_s[i])
    return facts.launched_s[i]


def _rested(facts: Facts, i: int, ready_s: float) -> bool:
    """Whether the lane of action `i`, which was ready at `ready_s`, had nothing to do before it."""
    before = facts.columns.previous[i]
    free_s = facts.end_s[before] if before >= 0 else -inf
    return ready_s > free_s and facts.start_s[i] > free_s + facts.tolerance_s


class Queues:
    """The launch queues of the devices: who made room for whom.

    A queue counts as full from `FULL` of its measured depth on, as what a launch takes of it differs.
    """

    FULL = 0.9

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        c = facts.columns
        self._depth = c.queue_depth if c.queue_depth is not None else float("inf")
        self._before: list[int] = []  # launches that the queue had been given before each action
        given = [0] * c.lanes.queues
        for i, lane in enumerate(c.lane):
            queue = c.lanes.queue[lane]
            self._before.append(given[queue] if queue >= 0 else 0)
            if queue >= 0:
                given[queue] += c.launches[i]
        self._ends = {k: self._ordered(k) for k, launches in enumerate(given) if launches > self._depth}

    def _ordered(self, queue: int) -> tuple[list[float], list[int], list[int]]:
        """Ends in order, the actions that end then, and the launches that are over with each."""
        f, c = self._facts, self._facts.columns
        mine = [i for i, lane in enumerate(c.lane) if c.lanes.queue[lane] == queue and c.kind[i] == CUDA]
        mine.sort(key=lambda i: (f.end_s[i], i))
        over, total = [], 0
        for i in mine:
            total += c.launches[i]
            over.append(total)
        return [f.end_s[i] for i in mine], mine, over

    def made_room(self, i: int, until_s: float) -> int:
        """The action whose end made room for the launches of action `i`, or -1 if there was room."""
        f, c = self._facts, self._facts.columns
        found = self._ends.get(c.lanes.queue[c.lane[i]])
        late_s = f.issue_end_s[i] - f.issue_start_s[i] - f.own_issue_s(i)
        if found is None or late_s <= f.tolerance_s:
            return -1
        ends, actions, over = found
        done = bisect_right(ends, f.issue_start_s[i])
        held = self._before[i] - (over[done - 1] if done else 0)
        last = bisect_right(ends, until_s) - 1
        if held + c.launches[i] <= self.FULL * self._depth or last < done or actions[last] >= i:
            return -1
        return actions[last]
