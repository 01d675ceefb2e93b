"""``verify``: our spans held against those of torch's profiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphsched.cli.options import AsJson, CaseFilter, ExperimentName, Mode, Parameters, PlatformName
from graphsched.cli.output import NONE, print_json, print_table, say
from graphsched.errors import ExperimentError

if TYPE_CHECKING:
    from graphsched.cli.verifying import Verified

FOLDER = Path("build/verify")
NAMED = 5  # actions that a note names
LEGEND = (
    "start: how much earlier an event span begins than its first kernel or copy; end: how much later it ends than the "
    "last; the median, and the largest\n"
    "judged: starts and ends in which nothing but timing events had a part\n"
    "starts apart: not judged, how many and the largest; launch: nothing is before it in its graph; engine: a copy "
    "behind a kernel in a graph, or a kernel behind a copy; shared: work of another lane kept the GPU busy\n"
    "clocks: the largest shift of a GPU, and its uncertainty"
)


def verify(
    experiment: ExperimentName,
    platform: PlatformName = None,
    params: Parameters = None,
    mode: Mode = "eager",
    cases: CaseFilter = None,
    repeats: Annotated[int, typer.Option(min=1, help="Timed runs a case before the one under the profiler.")] = 5,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder to write to; default build/verify/<platform>.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Hold our spans against torch's profiler: each case is run once under it, with timing events.

    Writes a trace for Perfetto a case: the prediction, our spans, and the profiler's kernels.
    """
    from graphsched.cli.refusals import check_cases, without_refused
    from graphsched.cli.request import Request, collect_cases, find_with_values, platform_to_run
    from graphsched.cli.verifying import failed, verify_cases
    from graphsched.files import check_folder

    found, values = find_with_values(experiment, params, mode)
    check_folder(out or FOLDER)
    on = platform_to_run(platform)
    folder = check_folder(out or FOLDER / on.name)
    request = Request(found, values, on, on.costs, collect_cases(found, values, on, mode=mode, only=cases))
    if all(case.is_baseline for _, case in request.cases):
        raise ExperimentError(f"{found.name!r} has no case with a plan here: there is nothing to verify")
    request, left_out = without_refused(request)
    check_cases(request)
    done = verify_cases(request, folder, repeats)
    if as_json:
        files = {"files": [str(one.file) for one in done if one.file]}
        rows = [one.figures() for one in done]
        data = {"experiment": found.name, "platform": on.name, "parameters": values, "cases": rows} | files
        print_json(data | ({"notes": left_out} if left_out else {}))
    else:
        _show(done, title=f"{found.name} on {on.name}, {mode} mode: event spans against the profiler", notes=left_out)
    return 1 if failed(done) else 0


def _show(done: Sequence[Verified], *, title: str, notes: Sequence[str]) -> None:
    from graphsched.comparison.profiler import TOLERANCE_S

    head = ("case", ">matched", "by", ">start", ">largest", ">end", ">largest", ">judged", "starts apart", ">clocks")
    print_table((*head, f"within {_micros(TOLERANCE_S)}"), [_row(one) for one in done], title=title)
    print(LEGEND)
    for one in done:
        for line in _notes(one):
            print(f"{one.case.label}: {line}")
    for note in notes:
        print(f"note: {note}")
    for one in done:
        if one.file:
            say(f"written: {one.file}")


def _row(one: Verified) -> tuple[str, ...]:
    if one.agreement is None:
        return (one.case.label, *[NONE] * 9, "failed")
    figures = one.agreement.figures()
    start, end = figures["start_difference_s"] or {}, figures["end_difference_s"] or {}
    shifts = [abs(shift) for shift in one.agreement.shifts_s.values()]
    return (
        one.case.label,
        f"{figures['matched']} of {figures['actions']}",
        figures["method"],
        *(_micros(part.get(key)) for part in (start, end) for key in ("median", "largest")),
        f"{start.get('judged', 0)} + {end.get('judged', 0)}",
        _apart(figures["starts_apart_s"]),
        f"{_micros(max(shifts, default=0.0))} ± {_micros(one.agreement.uncertainty_s)}",
        {True: "yes", False: "no", None: NONE}[figures["within"]],
    )


def _apart(found: Mapping[str, Any]) -> str:
    """Starts that are not judged: how many of each kind, and the largest.

    Example:
        >>> _apart({"launch": {"count": 1, "largest": 7.2e-6}, "engine": {"count": 2, "largest": 7e-6}})
        '1 launch: 7.20 µs, 2 engine: 7.00 µs'
    """
    return ", ".join(f"{part['count']} {why}: {_micros(part['largest'])}" for why, part in found.items()) or NONE


def _notes(one: Verified) -> list[str]:
    """What else a reader must know of a case: failures, what was expected, what was not matched."""
    from graphsched.cli.verifying import expected_gap_s

    if one.agreement is None:
        return [one.failure or "not run"]
    found = []
    if one.agreement.matching.work:
        gap = _micros(expected_gap_s(one.agreement.measured))
        found.append(f"expected: a span is longer than its kernels, by what its timing events take, about {gap}")
    if len(one.agreement.matching.work) < len(one.agreement.differences):
        found.append("expected: on CPU lanes a span is longer by what opening and closing the profiler's range takes")
    names, matching = one.agreement.measured.plan.names, one.agreement.matching
    reasons: dict[str, list[str]] = {}
    for i, why in sorted(matching.missing.items()):
        reasons.setdefault(why, []).append(names[i])
    for why, actions in reasons.items():
        more = f" and {len(actions) - NAMED} more" if len(actions) > NAMED else ""
        found.append(f"not matched, {why}: {', '.join(actions[:NAMED])}{more}")
    if matching.strays:
        found.append(f"{len(matching.strays)} kernels and copies of no matched action, on rows of their own")
    return found


def _micros(value_s: Any) -> str:
    """Microseconds for a table.

    Example:
        >>> _micros(-2.5e-6), _micros(None)
        ('-2.50 µs', '–')
    """
    return NONE if value_s is None else f"{value_s * 1e6:.2f} µs"


COMMANDS = {"verify": verify}
