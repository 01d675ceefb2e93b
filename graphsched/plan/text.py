"""Plans as text: one line an action, in dispatch order, that a person can read and edit."""

from __future__ import annotations

import re

from graphsched.costs import Costs
from graphsched.errors import PlanError
from graphsched.plan.dependencies import Columns, find_homes
from graphsched.plan.model import Copy, Lane, Plan
from graphsched.platform import Platform
from graphsched.workload import Workload

VERSION = 1
HEAD = 5  # lines before the first lane: version, workload, platform, scheduler, 'lanes'


def line_of(plan: Plan, index: int) -> int:
    """Line number of action `index` in the plan's text, from 1."""
    return HEAD + len(plan.lanes) + 2 + index


def to_text(plan: Plan) -> str:
    """The text of `plan`: what it is for, lanes, then one line an action."""
    lines = [
        f"graphsched plan {VERSION}",
        f"workload {plan.work.digest()} {plan.work.name}",
        f"platform {plan.platform.digest()} {plan.platform.name}",
        f"scheduler {plan.scheduler} mode {plan.mode}",
        "lanes",
        *(f"  {lane.name}" for lane in plan.lanes),
        "actions",
        *(_action_line(plan, i) for i in range(len(plan))),
    ]
    return "\n".join(lines) + "\n"


def _action_line(plan: Plan, i: int) -> str:
    words = ["  " + plan.kinds[i], plan.names[i]]
    copy = plan.copies.get(i)
    if copy is not None:
        words += ["from", copy.source, "to", copy.target, copy.memory]
    words += ["on", plan.lanes[plan.lane_of[i]].name]
    if plan.waits[i]:
        words += ["after", ",".join(plan.names[j] for j in plan.waits[i])]
    if plan.frees.get(i):
        words += ["free", ",".join(plan.frees[i])]
    return " ".join(words)


_LINE = re.compile(
    r"(?P<kind>run|copy|wait) (?P<name>\S+)"
    r"(?: from (?P<source>\S+) to (?P<target>\S+) (?P<memory>pinned|pageable|fresh))?"
    r" on (?P<lane>\S+)(?: after (?P<after>\S+))?(?: free (?P<free>\S+))?"
)


def from_text(text: str, work: Workload, platform: Platform, costs: Costs | None = None) -> Plan:
    """The plan of `to_text`, checked against `work` and `platform`.

    Raises:
        PlanError: A line cannot be read, or the plan is one of another workload or platform.
    """
    lines = text.splitlines()
    scheduler, mode = _check_head(lines, work, platform)
    try:
        end = lines.index("actions")
    except ValueError:
        raise PlanError("the line 'actions' is missing: the text is truncated", len(lines)) from None
    lanes = tuple(Lane.named(line.strip()) for line in lines[HEAD:end])
    plan = _read_actions(lines, end, lanes, work, platform, costs, scheduler, mode)
    plan.check()
    return plan


def _check_head(lines: list[str], work: Workload, platform: Platform) -> tuple[str, str]:
    heads = ("graphsched plan ", "workload ", "platform ", "scheduler ", "lanes")
    for number, head in enumerate(heads, 1):
        if len(lines) < number or not lines[number - 1].startswith(head):
            raise PlanError(f"a line that begins with {head.strip()!r} is expected", number)
    if lines[0] != f"graphsched plan {VERSION}":
        raise PlanError(f"version {lines[0].split()[-1]!r}, this is version {VERSION}: schedule again", 1)
    for number, what, owner in ((2, "workload", work), (3, "platform", platform)):
        digest = lines[number - 1].split()[1]
        if digest != owner.digest():  # type: ignore[attr-defined]
            raise PlanError(f"the plan is for another {what}: {digest}, given is {owner.digest()}", number)  # type: ignore[attr-defined]
    scheduler, _, mode = lines[3].removeprefix("scheduler ").rpartition(" mode ")
    return scheduler, mode


def _read_actions(
    lines: list[str],
    end: int,
    lanes: tuple[Lane, ...],
    work: Workload,
    platform: Platform,
    costs: Costs | None,
    scheduler: str,
    mode: str,
) -> Plan:
    numbers = {lane.name: i for i, lane in enumerate(lanes)}
    reads = {str(r): r for task in work.tasks for r in task.reads}
    columns, after, frees = Columns(), [], {}
    for number, line in enumerate(lines[end + 1 :], end + 2):
        found = _LINE.fullmatch(line.strip())
        if found is None:
            raise PlanError(
                f"cannot read {line.strip()!r}: 'run NAME on LANE [after A,B] [free C]' is expected", number
            )
        name, lane = found["name"], found["lane"]
        if lane not in numbers:
            raise PlanError(f"lane {lane!r} is not listed under 'lanes'", number)
        copy = None
        if found["kind"] == "copy":
            is_task = name in work.graph
            read = work[name].reads[0] if is_task else reads.get(name.partition(">")[0])
            if read is None or found["source"] is None:
                raise PlanError(f"copy {name!r} has no source: 'copy VALUE>DEVICE from DEVICE to DEVICE ...'", number)
            copy = Copy(read, found["source"], found["target"], found["memory"], is_task)  # type: ignore[arg-type]
        if found["free"]:
            frees[len(columns.names)] = tuple(found["free"].split(","))
        columns.add(found["kind"], name, numbers[lane], copy)  # type: ignore[arg-type]
        after.append((number, found["after"].split(",") if found["after"] else ()))
    index = {name: i for i, name in enumerate(columns.names)}
    waits = []
    for number, names in after:
        for name in names:
            if name not in index:
                raise PlanError(f"it waits for {name!r}, which is no action of this plan", number)
        waits.append(tuple(sorted(index[name] for name in names)))
    for task in work.tasks:
        if task.kind == "run" and task.name not in index:
            raise PlanError(f"task {task.name!r} of the workload is missing: add a line for it", len(lines))
    device_of = {n: lanes[columns.lane_of[i]].device for n, i in index.items() if columns.kinds[i] == "run"}
    homes = find_homes(work, device_of, platform)
    return Plan(
        work, platform, costs if costs is not None else platform.costs, scheduler, mode, lanes,
        columns.kinds, columns.names, columns.lane_of, waits, columns.copies, frees, homes, {},
    )  # fmt: skip
