"""What `compare` prints for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphsched.cli.output import NONE, print_table, seconds

Figures = Mapping[str, Any]

VERDICTS = {True: "yes", False: "no", None: NONE}


def print_comparison(data: Figures) -> None:
    """Print the object of `compare`: a table an experiment and platform, then mean ratios."""
    groups: dict[tuple[str, str], list[Figures]] = {}
    for row in data["rows"]:
        groups.setdefault((row["experiment"], row["platform"]), []).append(row)
    for (experiment, platform), rows in groups.items():
        _print_rows(rows, title=f"{experiment} on {platform}: measured, and behind it predicted (p)")
    print_table(
        ("ratio", "scheduler", ">cases", ">measured", ">predicted", ">agree"),
        map(_summary_row, data["summary"]),
        title="geometric mean of how many times as long the first takes",
    )
    if any(row["judged"] for row in data["summary"]):
        print("agree: where two modes differ beyond noise, the prediction names the faster one")
    for note in data["notes"]:
        print(f"note: {note}")
    ways = [way for row in data["rows"] for way in row["ways"]]
    if any(way["estimated"] for way in ways):
        print("~ rests on costs that are estimates, neither measured nor given")
    if any(way["noisy"] for way in ways):
        print("! spread too wide to judge by")


def _print_rows(rows: Sequence[Figures], *, title: str) -> None:
    ways = dict.fromkeys((way["way"], way["mode"]) for row in rows for way in row["ways"])
    ordered = sorted(ways, key=lambda way: way[1] == "baseline")
    pairs = list(dict.fromkeys((ratio["of"], _to(ratio, ordered)) for row in rows for ratio in row["ratios"]))
    pairs = [*(pair for pair in pairs if pair[1] != "best"), *(pair for pair in pairs if pair[1] == "best")]
    named = all(row["scheduler"] in row["label"] for row in rows)
    print_table(
        [*(("case",) if named else ("case", "scheduler")), *_heads(ordered), *_ratio_heads(pairs)],
        [
            (
                row["label"],
                *(() if named else (" ".join([row["scheduler"], *_options(row)]),)),
                *_times(row, ordered),
                *_ratios(row, pairs, ordered),
            )
            for row in rows
        ],
        title=title,
    )


def _options(row: Figures) -> Iterator[str]:
    return (f"{key}={value}" for key, value in row["options"].items())


def _heads(ways: Sequence[tuple[str, str]]) -> Iterator[str]:
    for name, mode in ways:
        yield f">{name}"
        if mode != "baseline":
            yield ">p"


def _times(row: Figures, ways: Sequence[tuple[str, str]]) -> Iterator[str]:
    found = {way["way"]: way for way in row["ways"]}
    for name, mode in ways:
        way = found.get(name)
        yield NONE if way is None else seconds(way["measured_s"]) + (" !" if way["noisy"] else "")
        if mode != "baseline":
            yield NONE if way is None else seconds(way["predicted_s"], estimated=way["estimated"])


def _to(ratio: Figures, ways: Sequence[tuple[str, str]]) -> str:
    """What a ratio is held against: a mode, or for code of others the best one."""
    return "best" if (ratio["of"], "baseline") in ways else ratio["to"]


def _ratio_heads(pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    for of, to in pairs:
        yield f">{of} ÷ {to}"
        if to != "best":
            yield ">p"
            yield "agree"


def _ratios(row: Figures, pairs: Sequence[tuple[str, str]], ways: Sequence[tuple[str, str]]) -> Iterator[str]:
    found = {(ratio["of"], _to(ratio, ways)): ratio for ratio in row["ratios"]}
    for of, to in pairs:
        ratio = found.get((of, to))
        yield _ratio(ratio["measured"]) + (" !" if ratio["noisy"] else "") if ratio else NONE
        if to != "best":
            yield _ratio(ratio["predicted"]) if ratio else NONE
            yield VERDICTS[ratio["agree"]] if ratio else NONE


def _summary_row(row: Figures) -> tuple[str, ...]:
    return (
        f"{row['of']} ÷ {row['to']}",
        row["scheduler"] or "all",
        str(row["cases"]),
        _ratio(row["measured"]),
        _ratio(row["predicted"]),
        f"{row['agree']} of {row['judged']}" if row["judged"] else NONE,
    )


def _ratio(value: float | None) -> str:
    """A ratio for a table.

    Example:
        >>> _ratio(1.2345), _ratio(None)
        ('1.23', '–')
    """
    return NONE if value is None else f"{value:.2f}"
