"""What `accuracy` prints for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphsched.cli.output import NONE, percent, print_table, seconds

Figures = Mapping[str, Any]

GROUPS = {"gpu_bound": "GPU-bound", "sm_sharing": "kernels share a GPU", "host_bound": "host-bound"}
KINDS = ("experiment", "scheduler", "mode")
CASE_COLUMNS = (
    "platform",
    "experiment",
    "case",
    "scheduler",
    "mode",
    ">predicted",
    ">measured",
    ">error",
    ">spread",
    "",
)
STEP_COLUMNS = ("platform", "experiment", "case", "mode", ">predicted", ">measured", ">error")
ERROR_COLUMNS = (
    "",
    ">runs",
    ">makespan median",
    ">p95",
    ">max",
    ">starts median",
    ">p95 ",
    ">ends median",
    ">p95  ",
    ">max ",
    ">inside",
)
NOISY = "noisy"


def print_accuracy(data: Figures, *, cases: bool) -> None:
    """Print the tables of `records.accuracy_of`; with `cases` every case first."""
    if cases:
        print_table(CASE_COLUMNS, map(_case_row, data["cases"]), title="every case, simulated again")
    print_table(
        ERROR_COLUMNS,
        _error_rows(data),
        title="absolute errors, starts and ends of actions as shares of the timed makespan; measured inside intervals",
    )
    if "ablation" in data:
        _print_ablation(data)
    _print_steps(data["steps"], cases=cases)
    _print_large_errors(data["large_errors"])
    _print_regrets(data["regret"])
    _print_goals(data["goals"], data["goals_by_mode"])
    print(f"schedules predicted in the measured order: {percent(data['concordant'])} of the pairs that differ")


def _print_steps(steps: Figures, *, cases: bool) -> None:
    """Print the errors of steps among many, if there are any; with `cases` each of them first."""
    if not steps["runs"]:
        return
    if cases:
        rows = [
            (c["platform"], c["experiment"], c["label"], c["mode"], *map(seconds, (c["predicted_s"], c["measured_s"])),
             percent(c["error"], signed=True))
            for c in steps["cases"]
        ]  # fmt: skip
        print_table(STEP_COLUMNS, rows, title="steps among many, simulated again")
    parts = {"": steps} | {f"mode {mode}": errors for mode, errors in steps["by_mode"].items()}
    print_table(
        ("", ">steps", ">median", ">p95", ">max"),
        [(name, str(part["runs"]), *map(percent, part["step_error"].values())) for name, part in parts.items()],
        title="absolute errors of steps among many, where the pace of their thread is known",
    )


def _case_row(case: Figures) -> tuple[str, ...]:
    return (
        case["platform"],
        case["experiment"],
        case["label"],
        case["scheduler"] or NONE,
        case["mode"],
        seconds(case["predicted_s"]),
        seconds(case["measured_s"]),
        percent(case["error"], signed=True),
        percent(case["spread"]),
        NOISY if case["noisy"] else "",
    )


def _error_rows(data: Figures) -> Iterator[tuple[str, ...]]:
    for group, name in GROUPS.items():
        yield _error_row(name, data[group])
        yield _error_row(f"{name}, not {NOISY}", data["quiet"][group])
    for kind in KINDS:
        for name, errors in data[f"by_{kind}"].items():
            yield _error_row(f"{kind} {name or NONE}", errors)


def _error_row(name: str, errors: Figures) -> tuple[str, ...]:
    starts = errors["task_start_error"]
    figures = [*errors["makespan_error"].values(), starts["median"], starts["p95"], *errors["task_end_error"].values()]
    return (name, str(errors["runs"]), *map(percent, figures), percent(errors["interval"]["share"]))


def _print_ablation(data: Figures) -> None:
    columns = ["switched off"]
    for name in GROUPS.values():
        columns += [f">{name}: median", ">p95" + " " * (len(columns) // 2)]
    print_table(
        (*columns, ">ends p95", ">in order", ">regret"),
        map(_ablation_row, data["ablation"]),
        title="errors of the makespan with one term of the model switched off; ends of actions of GPU-bound cases",
    )


def _ablation_row(row: Figures) -> tuple[str, ...]:
    figures = [row[group]["makespan_error"][key] for group in GROUPS for key in ("median", "p95")]
    more = (row["gpu_bound"]["task_end_error"]["p95"], row["concordant"], row["regret"]["beyond_noise"])
    return (row["off"] or "nothing", *map(percent, (*figures, *more)))


def _print_large_errors(large: Figures) -> None:
    if large["cases"]:
        rows = [(*_case_row(case), case["cause"] or "no cause written") for case in large["cases"]]
        print_table((*CASE_COLUMNS, "cause"), rows, title="GPU-bound cases over 5 %")


def _print_regrets(regret: Figures) -> None:
    if regret["over"]:
        columns = ("platform", "experiment", "mode", "predicted to be best", "the best", ">slower by")
        keys = ("platform", "experiment", "mode", "chosen", "best")
        rows = [(*(row[key] for key in keys), percent(row["regret"])) for row in regret["over"]]
        print_table(
            columns, rows, title="where the schedule predicted to be best is slower than the best, beyond noise"
        )


def _print_goals(goals: Sequence[Figures], by_mode: Mapping[str, Sequence[Figures]]) -> None:
    """One column of figures; where there are several modes, one more for each of them."""
    columns = {"figure": goals} if len(by_mode) < 2 else {"all": goals, **by_mode}
    rows = [
        (row["goal"], _limit(row), *(_value(own[i]["figure"]) for own in columns.values()), _verdict(row["reached"]))
        for i, row in enumerate(goals)
    ]
    title = "goals" if len(by_mode) < 2 else "goals, of all cases and of each mode alone; reached: by all cases"
    print_table(("goal", ">limit", *(f">{name}" for name in columns), "reached"), rows, title=title)


def _limit(row: Figures) -> str:
    return f"{'≥' if row['at_least'] else '≤'} {_value(row['limit'])}"


def _value(figure: float | None) -> str:
    return str(figure) if isinstance(figure, int) else percent(figure)


def _verdict(reached: bool | None) -> str:
    return {True: "yes", False: "no", None: NONE}[reached]
