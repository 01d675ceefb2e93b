"""Plans as text: one line an action, in dispatch order, that a person can read and edit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from graphsched.costs import Costs
from graphsched.errors import PlanError, PlatformError, ScheduleError
from graphsched.plan.check import check_tasks
from graphsched.plan.dependencies import Columns, find_homes
from graphsched.plan.model import HEAD_LINES, Copy, Lane, Plan, line_of
from graphsched.platform import Platform
from graphsched.workload import Read, Workload

__all__ = ["VERSION", "from_text", "line_of", "to_text"]

VERSION = 1


def to_text(plan: Plan) -> str:
    """The text of `plan`: what it is for, lanes, then one line an action."""
    lines = [
        f"graphsched plan {VERSION}",
        f"workload {plan.work.digest()} {plan.work.name}",
        f"platform {plan.platform.digest()} {plan.platform.name}",
        f"scheduler {plan.scheduler} mode {plan.mode}",
    ]
    lines = [" ".join(line.split()) for line in lines]  # whatever the names hold, they stay one line
    lines += ["lanes", *(f"  {lane.name}" for lane in plan.lanes)]
    lines += ["actions", *(_action_line(plan, i) for i in range(len(plan)))]
    return "\n".join(lines) + "\n"


def _action_line(plan: Plan, i: int) -> str:
    words = ["  " + plan.kinds[i], plan.names[i]]
    copy = plan.copies.get(i)
    if copy is not None:
        words += ["from", copy.source, "to", copy.target, copy.memory]
    words += ["on", "+".join(plan.lanes[k].name for k in plan.lanes_of(i))]
    if plan.waits[i]:
        words += ["after", ",".join(plan.names[j] for j in plan.waits[i])]
    if plan.frees.get(i):
        words += ["free", ",".join(plan.frees[i])]
    return " ".join(words)


_LINE = re.compile(
    r"(?P<kind>run|copy|wait|collective) (?P<name>\S+)"
    r"(?: from (?P<source>\S+) to (?P<target>\S+) (?P<memory>pinned|pageable|fresh))?"
    r" on (?P<lane>\S+)(?: after (?P<after>\S+))?(?: free (?P<free>\S+))?"
)


class _Row(NamedTuple):
    number: int  # of the line, from 1
    words: dict[str, str | None]


def from_text(text: str, work: Workload, platform: Platform, costs: Costs | None = None) -> Plan:
    """The plan of `to_text`, checked against `work` and `platform`.

    Raises:
        PlanError: A line cannot be read, or the plan is one of another workload or platform.
    """
    lines = text.splitlines()
    scheduler, mode = _read_head(lines, work, platform)
    try:
        end = lines.index("actions")
    except ValueError:
        raise PlanError("the line 'actions' is missing: the text is truncated", len(lines)) from None
    lanes = _read_lanes(lines[HEAD_LINES:end])
    rows = [_read_row(line, number) for number, line in enumerate(lines[end + 1 :], end + 2)]
    columns = _read_columns(rows, lanes, work)
    plan = Plan(
        work=work,
        platform=platform,
        costs=costs if costs is not None else platform.costs,
        scheduler=scheduler,
        mode=mode,
        lanes=lanes,
        kinds=columns.kinds,
        names=columns.names,
        lane_of=columns.lane_of,
        waits=_read_waits(rows, columns.names),
        copies=columns.copies,
        frees={i: tuple(free.split(",")) for i, row in enumerate(rows) if (free := row.words["free"])},
        homes=_homes(columns, lanes, work, platform),
        more_lanes=columns.more_lanes,
    )
    plan.check()
    return plan


def _read_head(lines: list[str], work: Workload, platform: Platform) -> tuple[str, str]:
    if lines and lines[0].startswith("graphsched plan") and lines[0] != f"graphsched plan {VERSION}":
        raise PlanError(f"version {lines[0].split()[-1]!r}, this is version {VERSION}: schedule again", 1)
    heads = (
        (f"graphsched plan {VERSION}", "graphsched plan"),
        (r"workload \S+( .*)?", "workload"),
        (r"platform \S+( .*)?", "platform"),
        (r"scheduler \S.* mode \S+", "scheduler"),
        ("lanes", "lanes"),
    )
    for number, (pattern, head) in enumerate(heads, 1):
        if len(lines) < number or not re.fullmatch(pattern, lines[number - 1]):
            raise PlanError(f"a line that begins with {head!r} is expected", number)
    for number, what, here in ((2, "workload", work.digest()), (3, "platform", platform.digest())):
        digest = lines[number - 1].split()[1]
        if digest != here:
            raise PlanError(f"the plan is for another {what}: {digest}, given is {here}", number)
    scheduler, _, mode = lines[3].removeprefix("scheduler ").rpartition(" mode ")
    return scheduler, mode


def _read_lanes(lines: Sequence[str]) -> tuple[Lane, ...]:
    lanes: dict[str, Lane] = {}
    for number, line in enumerate(lines, HEAD_LINES + 1):
        name = line.strip()
        if name in lanes:
            raise PlanError(f"lane {name!r} is listed twice", number)
        try:
            lanes[name] = Lane.named(name)
        except PlanError as error:
            raise PlanError(str(error), number) from None
    return tuple(lanes.values())


def _read_row(line: str, number: int) -> _Row:
    found = _LINE.fullmatch(line.strip())
    if found is None:
        raise PlanError(f"cannot read {line.strip()!r}: 'run NAME on LANE [after A,B] [free C]' is expected", number)
    words = found.groupdict()
    if words["kind"] == "copy" and words["source"] is None:
        raise PlanError(
            f"copy {words['name']!r} has no source: 'copy VALUE>DEVICE from DEVICE to DEVICE pinned on LANE' "
            "is expected",
            number,
        )
    if words["kind"] != "copy" and words["source"] is not None:
        raise PlanError(f"{words['kind']} {words['name']!r} has a source: only copies have one", number)
    return _Row(number, words)


def _read_columns(rows: Sequence[_Row], lanes: Sequence[Lane], work: Workload) -> Columns:
    numbers = {lane.name: i for i, lane in enumerate(lanes)}
    reads = {str(r): r for task in work.tasks for r in task.reads}
    columns = Columns()
    for row in rows:
        lane, *more = _read_lanes_of(row, numbers)
        copy = _read_copy(row, work, reads) if row.words["kind"] == "copy" else None
        columns.add(row.words["kind"], row.words["name"], lane, copy, tuple(more))  # type: ignore[arg-type]
    check_tasks(work, columns.kinds, columns.names, HEAD_LINES + len(lanes) + 2)
    return columns


def _read_lanes_of(row: _Row, numbers: dict[str, int]) -> list[int]:
    """Numbers of the lanes of an action: one, but for collectives."""
    lanes = str(row.words["lane"]).split("+") if row.words["kind"] == "collective" else [str(row.words["lane"])]
    for lane in lanes:
        if lane not in numbers:
            raise PlanError(f"lane {lane!r} is not listed under 'lanes'", row.number)
    if row.words["kind"] == "collective" and len(lanes) < 2:
        raise PlanError(
            f"collective {row.words['name']!r} has one lane: 'collective NAME on LANE+LANE' is expected", row.number
        )
    return [numbers[lane] for lane in lanes]


def _read_copy(row: _Row, work: Workload, reads: dict[str, Read]) -> Copy:
    name = str(row.words["name"])
    is_task = name in work.graph and work[name].kind == "copy"
    read = work[name].reads[0] if is_task else reads.get(name.partition(">")[0])
    if read is None:
        raise PlanError(f"copy {name!r} has no source: no task reads {name.partition('>')[0]!r}", row.number)
    return Copy(read, row.words["source"], row.words["target"], row.words["memory"], is_task)  # type: ignore[arg-type]


def _read_waits(rows: Sequence[_Row], names: Sequence[str]) -> list[tuple[int, ...]]:
    index = {name: i for i, name in enumerate(names)}
    waits = []
    for row in rows:
        after = row.words["after"].split(",") if row.words["after"] else []
        for name in after:
            if name not in index:
                raise PlanError(f"it waits for {name!r}, which is no action of this plan", row.number)
        waits.append(tuple(sorted(index[name] for name in after)))
    return waits


def _homes(columns: Columns, lanes: Sequence[Lane], work: Workload, platform: Platform) -> dict[str, str]:
    device_of = {
        name: lanes[lane].device
        for kind, name, lane in zip(columns.kinds, columns.names, columns.lane_of, strict=True)
        if kind == "run"
    }
    try:
        return find_homes(work, device_of, platform)
    except (PlatformError, ScheduleError) as error:
        raise PlanError(str(error)) from error
