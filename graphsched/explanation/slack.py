"""Slack: how much later an action could end without making the whole any longer.

All else stays as it is: the order on each lane, what waits for what, how long each action takes, the gaps
of some microseconds that starting leaves between measured actions, and in a prediction all that passes between
what an action waited for last and its start: stamps, joins, copies that an engine serves first.

Not modelled: room in the launch queue that a later end would take; that actions which move meet others
on their device or link, and so take longer or shorter.
"""

from __future__ import annotations

from graphsched.explanation.facts import Facts, is_wait
from graphsched.explanation.starts import possible_causes
from graphsched.simulator.lane_costs import CPU, CUDA
from graphsched.simulator.returns import given_way_s, return_s


def slacks(facts: Facts) -> list[float]:
    """Seconds by which the end of each action may move, by action; one backward pass over the plan."""
    n = len(facts)
    ends = facts.end_s
    last_s = max((*ends, *facts.issue_end_s), default=0.0)
    slack = [last_s - end for end in ends]
    thread = last_s - facts.issue_end_s[-1] if n else 0.0  # of the issue of what comes next
    for i in range(n - 1, -1, -1):
        thread = min(thread, last_s - facts.issue_end_s[i])
        if is_wait(facts, i):
            thread = _through_wait(facts, i, slack, thread)
        else:
            thread = _through_action(facts, i, slack, thread)
        if i:
            thread += _idle_s(facts, facts.issue_start_s[i] - facts.issue_end_s[i - 1])
    return [max(0.0, seconds) for seconds in slack]


def _through_wait(facts: Facts, i: int, slack: list[float], thread: float) -> float:
    """Hand the thread's slack on to what wait `i` waits for; returns the thread's before the wait."""
    slack[i] = thread
    over_s = facts.issue_start_s[i]
    for j in facts.columns.waits[i]:
        given_s = given_way_s(facts.columns, facts.end_s, facts.end_s[j], i)
        back_s = return_s(facts.columns, j, given_s)
        slack[j] = min(slack[j], thread + max(0.0, facts.end_s[i] - back_s - facts.end_s[j]))
        over_s = max(over_s, facts.end_s[j])
    return thread + over_s - facts.issue_start_s[i]


def _through_action(facts: Facts, i: int, slack: list[float], thread: float) -> float:
    """Hand the slack of action `i` on to all that it waited for; returns the thread's before its issue."""
    columns = facts.columns
    if facts.blocks(i):
        thread = slack[i] = min(slack[i], thread)
    waited_for = columns.waits[i]
    causes = [cause for cause in possible_causes(facts, i) if cause.kind != "wait" or cause.by in waited_for]
    held_s = facts.work_from_s(i)
    if facts.line.source == "predicted":
        held_s = min(held_s, max(cause.ready_s for cause in causes))
    for cause in causes:
        moves_s = slack[i] + _idle_s(facts, held_s - cause.ready_s)
        if cause.kind == "thread":
            thread = min(thread, moves_s)
        else:
            slack[cause.by] = min(slack[cause.by], moves_s)
    for j in waited_for:
        if columns.kind[j] == CPU and columns.kind[i] == CUDA:
            slack[j] = min(slack[j], thread + max(0.0, facts.there_s[i] - facts.end_s[j]))
    return thread


def _idle_s(facts: Facts, gap_s: float) -> float:
    """`gap_s`, if it is more than clocks and starts leave between measured actions: those would add up."""
    return gap_s if gap_s > facts.tolerance_s else 0.0
