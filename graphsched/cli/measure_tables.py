"""What ``measure`` prints: links, capacities, dispatch, nominal figures, and what has drifted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from graphsched.cli.output import NONE, figure, print_json, print_rows, unit_free

if TYPE_CHECKING:
    from graphsched.platform import Dispatch, Link, Platform


def show_platform(platform: Platform, files: Sequence[Path], *, as_json: bool, notes: Sequence[str] = ()) -> None:
    """Print what was measured, beside what is nominal, and the names of `files`: the platform's, then pictures.

    JSON has `notes` too, where there are any.
    """
    from graphsched.calibration import nominal_rows
    from graphsched.calibration.kept import platform_path
    from graphsched.calibration.latencies import latency_rows

    nominal, times = ([asdict(row) for row in rows(platform)] for rows in (nominal_rows, latency_rows))
    if as_json:
        data = {"platform": platform.name, "file": str(files[0]), "pictures": list(map(str, files[1:]))}
        whole = platform.to_dict()
        data |= {key: whole[key] for key in ("devices", "links", "capacities", "dispatch", "cores")}
        print_json(data | {"nominal": nominal, "times": times} | ({"notes": list(notes)} if notes else {}))
        return
    print_rows(_link_rows(platform), title=f"{platform.name}: transfers, each kind alone")
    print_rows([{"capacity": key, "rate_bytes_per_s": value} for key, value in platform.capacities.items()])
    if patterns := pattern_rows(platform):
        print_rows(patterns, title="transfers together, predicted against measured")
    print_rows(dispatch_rows(platform.dispatch), title="dispatch and waits")
    print_rows([_nominal_row(row) for row in nominal], title="measured, and nominal")
    print_rows([_nominal_row(row) for row in times], title="times to know, and what the text gives")
    if files[0] == platform_path():
        print(f"kept in: {files[0]}")
    if written := [str(file) for file in files if file != platform_path()]:
        print(f"written: {', '.join(written)}")


def dispatch_rows(dispatch: Dispatch) -> list[dict[str, str]]:
    """A row a cost, and one for each point of those that are tables.

    Example:
        >>> from graphsched.platform import Dispatch
        >>> rows = dispatch_rows(Dispatch(launch_s=4e-6, colds=((20, 7e-7), (200, 2e-6))))
        >>> [" ".join(row.values()) for row in rows if row["cost"].startswith(("launch", "colds"))]
        ['launch 4 µs', 'colds, 20 microseconds 700 ns', 'colds, 200 microseconds 2 µs']
    """
    from graphsched.platform.dispatch import TABLES

    rows = []
    for key, value in asdict(dispatch).items():
        if key in TABLES:
            points = [(f"{unit_free(key)}, {number:,} {TABLES[key]}", "_s", seconds) for number, seconds in value]
        else:
            points = [(unit_free(key), key, value)]
        rows += [{"cost": cost, "figure": figure(unit, shown)} for cost, unit, shown in points]
    return rows


def _link_rows(platform: Platform) -> list[dict[str, Any]]:
    """One row for the links between two kinds of devices through one kind of memory."""
    kinds: dict[tuple[str, str], list[Link]] = {}
    for link in platform.links:
        ends = [platform.device(name).kind for name in (link.source, link.target)]
        here = "inside " + ends[0] if link.source == link.target else f"{ends[0]} to {ends[1]}"
        kinds.setdefault((here, link.memory), []).append(link)
    return [
        {
            "from_to": ends,
            "memory": memory,
            "links": len(links),
            "latency_s": median(link.latency_s for link in links),
            "slowest_bytes_per_s": min(link.bandwidth_bytes_per_s for link in links),
            "fastest_bytes_per_s": max(link.bandwidth_bytes_per_s for link in links),
        }
        for (ends, memory), links in kinds.items()
    ]


def pattern_rows(platform: Platform) -> list[dict[str, Any]]:
    """Errors of the patterns that capacities were fitted on, and of others, the worst of each named."""
    from graphsched.quantities import percent_text

    rows = []
    for fitted, what in ((True, "fitted on"), (False, "not fitted on")):
        found = [row for row in platform.provenance.get("patterns", ()) if row["fitted"] == fitted]
        errors = [row["predicted_bytes_per_s"] / row["measured_bytes_per_s"] - 1 for row in found]
        if found:
            worst = max(range(len(found)), key=lambda k: abs(errors[k]))
            row = {"patterns": what, "number": len(found), "median": percent_text(median(map(abs, errors)))}
            flows = [">".join(flow) for flow in found[worst]["flows"]]
            more = f" and {len(flows) - 4} more" if len(flows) > 4 else ""
            rows.append(row | {"worst": percent_text(errors[worst]), "of": ", ".join(flows[:4]) + more})
    return rows


def _nominal_row(row: dict[str, Any]) -> dict[str, str]:
    shown = {key: _scaled(row[key], row["unit"]) for key in ("measured", "nominal")}
    high = "" if row["nominal_high"] is None else f" to {_scaled(row['nominal_high'], row['unit'])}"
    return {"what": row["what"], "measured": shown["measured"], "nominal": shown["nominal"] + high} | {
        "source": row["source"]
    }


def _scaled(value: float | None, unit: str) -> str:
    if value is None:
        return NONE
    return figure("time_s", value * 1e-6) if unit == "µs" else f"{value:.4g} {unit}"


def drift_row(row: dict[str, Any]) -> dict[str, str]:
    """A figure that was kept beside the same measured again, for a table."""
    names = {"s": "seconds", "bytes/s": "rate_bytes_per_s"}
    shown = {
        key: figure(names[row["unit"]], row[key]) if row["unit"] in names else f"{row[key] / 1e12:.4g} TFLOP/s"
        for key in ("stored", "now")
    }
    drifted = "drifted" if row["drifted"] else ""
    ratio = "–" if row["ratio"] is None else f"{row['ratio']:.3f}"
    return {"figure": row["entry"], "kept": shown["stored"], "now": shown["now"], "ratio": ratio} | {
        "larger by at most": f"{row['tolerance'] * 100:.0f} %",
        "": drifted,
    }
