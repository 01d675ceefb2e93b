"""``explain``: why the cases of a recorded run took as long as they did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphsched.cli.choosing import planned_cases
from graphsched.cli.options import AsJson, CaseFilter, RunFile
from graphsched.cli.output import print_json
from graphsched.errors import PlanError

if TYPE_CHECKING:
    from graphsched.explanation import Explanation
    from graphsched.records import CaseRecord


def explain(
    run: RunFile,
    action: Annotated[str | None, typer.Argument(metavar="[ACTION]", help="Explain this action instead.")] = None,
    other: Annotated[
        str | None, typer.Argument(metavar="[OTHER]", help="Say why ACTION and this one did not overlap.")
    ] = None,
    cases: CaseFilter = None,
    as_json: AsJson = False,
) -> int:
    """Explain a recorded run: what binds it, where its time went, what could be won.

    Of an action: why it started when it did, what it waited for, what ran beside it, its slack.
    """
    from graphsched.explanation import explain as explain_timeline
    from graphsched.records import load_run

    record = load_run(run)
    chosen = [case for _, case in planned_cases(record, cases, run)]
    if action is not None:
        chosen = _with_actions(chosen, [name for name in (action, other) if name is not None])
    rows = []
    for case in chosen:
        both = {"predicted": case.repredict(), "measured": case.measured}
        rows.append((case, {source: explain_timeline(line) for source, line in both.items()}))
    if as_json:
        data = [
            {"label": case.label, "scheduler": case.scheduler, "mode": case.mode}
            | {source: _figures(found, action, other) for source, found in made.items()}
            for case, made in rows
        ]
        print_json({"experiment": record.experiment, "platform": record.platform, "cases": data})
        return 0
    texts = [
        f"{case.label} ({case.scheduler}, {case.mode}), {source}\n{_indented(str(_asked(found, action, other)))}\n"
        for case, made in rows
        for source, found in made.items()
    ]
    print("\n".join(texts))  # all or, where one cannot be answered, nothing
    return 0


def _with_actions(cases: Sequence[CaseRecord], actions: Sequence[str]) -> list[CaseRecord]:
    """Those cases that have all of `actions`.

    Raises:
        PlanError: None has; the nearest names of the cases are offered.
    """
    from graphsched.explanation.names import offer_names

    chosen = [case for case in cases if all(name in case.plan.index_of for name in actions)]
    if chosen:
        return chosen
    missing = next((n for n in actions if not any(n in case.plan.index_of for case in cases)), None)
    if missing is None:
        raise PlanError(f"no case has both {' and '.join(map(repr, actions))}: they are of different cases")
    names = dict.fromkeys(name for case in cases for name in case.plan.names)
    raise PlanError(f"no action {missing!r} in any of these cases: {offer_names(names, missing)}")


def _asked(found: Explanation, action: str | None, other: str | None) -> Any:
    if action is None:
        return found
    return found.action(action) if other is None else found.why_not(action, other)


def _figures(found: Explanation, action: str | None, other: str | None) -> dict[str, Any]:
    figures: dict[str, Any] = _asked(found, action, other).to_dict()
    return figures


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())


COMMANDS = {"explain": explain}
