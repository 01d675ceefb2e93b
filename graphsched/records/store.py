"""Recorded runs as files: one JSON file an experiment, spans of large plans compressed beside it.

``<experiment>.json`` holds the setup of the last run (environment, platform, seed, parameters, costs),
``cases``, and the tables ``workloads`` and ``plans`` that cases refer to by digest, so that what several
cases share is there once; what rows of costs repeat is once in ``repeated``. Cases kept from a run with
another setup refer to an entry of ``earlier``.
The columns of a plan with more than 200 actions, its text and its workload are in
``<experiment>.<digest>.spans.npz``, where the digest is of the file's bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from graphsched.costs import Costs
from graphsched.errors import FileFormatError, GraphschedError
from graphsched.executors.saved import costs_for
from graphsched.files import read_json, write_bytes, write_text
from graphsched.platform import Pace, Platform
from graphsched.platform.dispatch import TABLES
from graphsched.platform.pace import LANES
from graphsched.platform.points import checked_points
from graphsched.records.entries import check_case, check_plan, check_run
from graphsched.records.model import CaseRecord, RunRecord, Setup, columns_in
from graphsched.records.packing import packed, unpacked
from graphsched.records.repeated import Repeated, unfolded

SCHEMA = 1
INLINE_ACTIONS = 200


def run_file(folder: str | Path, experiment: str) -> Path:
    """The file in `folder` that holds the runs of `experiment`."""
    return Path(folder) / f"{experiment}.json"


def find_runs(folders: Iterable[str | Path]) -> list[Path]:
    """Files of recorded runs in `folders` and below, sorted; a file stands for itself, and is there once however named.

    Raises:
        FileFormatError: A folder or file does not exist.
    """
    found: list[Path] = []
    for folder in map(Path, folders):
        if folder.is_dir():
            found += sorted(p for p in folder.rglob("*.json") if not p.name.endswith(".perfetto.json"))
        elif folder.is_file():
            found.append(folder)
        else:
            raise FileFormatError(f"there is no file or folder {folder}: name recorded runs, or a folder of them")
    once: dict[Path, Path] = {}
    for path in found:
        once.setdefault(path.resolve(), path)
    return list(once.values())


# -- writing ---------------------------------------------------------------------------------


def save_run(run: RunRecord, folder: str | Path) -> Path:
    """Write `run` into `folder`; cases already there with other labels, schedulers or modes are kept.

    Returns:
        The file written.

    Raises:
        OutputError: It cannot be written.
        FileFormatError: A file is there that is no recorded run of this version.
    """
    path = run_file(folder, run.experiment)
    merged = merge(_with_own_costs(load_run(path)), run) if path.exists() else run
    latest = _united([case.setup for case in run.cases])
    data, spans = _to_dict(merged, latest)
    for name, content in spans.items():
        write_bytes(path.parent / name, content)
    write_text(path, _dump(data))
    for stale in path.parent.glob(f"{run.experiment}.*.spans.npz"):
        if stale.name not in spans:
            stale.unlink()
    return path


def merge(old: RunRecord, new: RunRecord) -> RunRecord:
    """`new`, with those cases of `old` that it does not replace, in the order of `old`."""
    fresh = {case.key: case for case in new.cases}
    cases = [fresh.pop(case.key, case) for case in old.cases]
    return replace(new, cases=(*cases, *fresh.values()))


def _with_own_costs(run: RunRecord) -> RunRecord:
    """`run`, each case with the costs of its own tasks: those of cases that are replaced go with them."""
    return replace(run, cases=tuple(map(_own_costs, run.cases)))


def _own_costs(case: CaseRecord) -> CaseRecord:
    platform = case.setup.platform
    try:
        costs = Costs() if case.workload is None else costs_for(case.work, platform, platform.costs)
    except FileFormatError:  # what cannot be read is kept as it is
        return case
    return replace(case, setup=replace(case.setup, platform=replace(platform, costs=costs)))


def _united(setups: Sequence[Setup]) -> list[Setup]:
    """Distinct setups, first come first; those that are the same become one with the costs of all."""
    united: list[Setup] = []
    for setup in setups:
        for i, other in enumerate(united):
            if other.same(setup):
                united[i] = replace(other, platform=other.platform.with_costs(setup.platform.costs))
                break
        else:
            united.append(setup)
    return united


def _to_dict(run: RunRecord, latest: list[Setup]) -> tuple[dict[str, Any], dict[str, bytes]]:
    setups = _united([*latest, *(case.setup for case in run.cases)])
    workloads: dict[str, Any] = {}
    plans: dict[str, str] = {}
    spans: dict[str, bytes] = {}
    cases = []
    for case in run.cases:
        number = next(i for i, setup in enumerate(setups) if setup.same(case.setup))
        data = case.figures() | ({"setup": number} if number else {}) | {"samples_s": list(case.samples_s)}
        if case.workload is not None:
            data |= _measured(case, run.experiment, workloads, plans, spans)
        cases.append(data)
    data = {"schema": SCHEMA, "experiment": run.experiment, "source": run.source}
    repeated = Repeated()
    data |= _setup_to_dict(setups[0], repeated) if setups else {}
    data |= {"cases": cases, "workloads": workloads, "plans": plans}
    data["earlier"] = [_setup_to_dict(setup, repeated) for setup in setups[1:]]
    return data | {"repeated": repeated.values}, spans


def _measured(
    case: CaseRecord, experiment: str, workloads: dict[str, Any], plans: dict[str, str], spans: dict[str, bytes]
) -> dict[str, Any]:
    columns, text = case.spans or {}, case.plan_text or ""
    data: dict[str, Any] = {
        "timed_makespan_s": case.timed_makespan_s,
        "clock_uncertainty_s": case.clock_uncertainty_s,
        "call_s": case.pace.call_s,
        "colds": list(case.pace.colds),
        "stamped": case.stamped,
        "notes": list(case.notes),
    }
    if case.pace.launches:
        data["launches"] = list(case.pace.launches)
    if case.pace.launch_colds:
        data["launch_colds"] = [list(points) for points in case.pace.launch_colds]
    data |= {name: seconds for name in LANES if (seconds := getattr(case.pace, name))}
    if len(columns.get("start_s", ())) > INLINE_ACTIONS:
        name, content = packed(case, experiment)
        spans[name] = content
        return data | {"spans": name}
    workload, plan = _digest(case.workload), _digest(text)
    workloads[workload], plans[plan] = case.workload, text
    listed = {name: np.asarray(columns[name]).tolist() for name in columns_in(columns)}
    return data | {"workload": workload, "plan": plan, "spans": listed}


def _setup_to_dict(setup: Setup, repeated: Repeated) -> dict[str, Any]:
    return {
        "environment": dict(setup.environment),
        "platform": replace(setup.platform, costs=Costs()).to_dict(),
        "seed": setup.seed,
        "parameters": dict(setup.parameters),
        "costs": repeated.folded(setup.platform.costs.to_dict()),
    }


def _digest(thing: Any) -> str:
    return hashlib.sha256(json.dumps(thing, sort_keys=True).encode()).hexdigest()[:16]


def _dump(data: Mapping[str, Any]) -> str:
    """JSON with a line for each entry of the top-level tables, so that a changed case is a changed line."""
    parts = []
    for key, value in data.items():
        if isinstance(value, list) and value:
            rows = ",\n".join(map(_line, value))
            parts.append(f"{_line(key)}: [\n{rows}\n]")
        elif isinstance(value, dict) and value:
            rows = ",\n".join(f"{_line(k)}: {_line(v)}" for k, v in value.items())
            parts.append(f"{_line(key)}: {{\n{rows}\n}}")
        else:
            parts.append(f"{_line(key)}: {_line(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _line(thing: Any) -> str:
    return json.dumps(thing, separators=(",", ":"))


# -- reading ---------------------------------------------------------------------------------


def load_run(path: str | Path) -> RunRecord:
    """The recorded run of a file; needs neither torch nor the experiment's code.

    Raises:
        FileFormatError: The file is truncated, of another version or no recorded run, or its spans are missing.
    """
    path = Path(path)
    data = read_json(path)
    if not isinstance(data, dict) or "schema" not in data:
        raise _of_others(path, data)
    if data["schema"] != SCHEMA:
        raise FileFormatError(
            f"{path} is no recorded run of schema {SCHEMA} (found {data['schema']!r}): run the experiment again"
        )
    if "cases" not in data:
        raise _of_others(path, data)
    try:
        check_run(data)
        repeated = data.get("repeated", ())
        setups = [_setup_from_dict(part, repeated) for part in (data, *data["earlier"])]
        cases = tuple(_case_from_dict(entry, data, setups, path.parent) for entry in data["cases"])
        return RunRecord(data["experiment"], data["source"], cases)
    except GraphschedError as error:
        raise FileFormatError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise FileFormatError(f"{path} is no recorded run: {type(error).__name__}: {error}") from error


def _of_others(path: Path, data: Any) -> FileFormatError:
    """What is said of a file that no run has written."""
    what = f"a {type(data).__name__}"
    if isinstance(data, dict):
        what = "a platform" if "devices" in data else f"an object of {', '.join(list(data)[:4]) or 'nothing'}"
    return FileFormatError(f"{path} is no recorded run but {what}: name a file that 'graphsched run' wrote")


def _setup_from_dict(data: Mapping[str, Any], repeated: Sequence[Any]) -> Setup:
    costs = Costs.from_dict(unfolded(data["costs"], repeated))
    platform = Platform.from_dict(data["platform"]).with_costs(costs)
    return Setup(data["environment"], platform, data["seed"], data["parameters"])


def _case_from_dict(
    entry: Mapping[str, Any], data: Mapping[str, Any], setups: Sequence[Setup], folder: Path
) -> CaseRecord:
    check_case(entry)
    case = CaseRecord(
        setup=setups[entry.get("setup", 0)],
        label=entry["label"],
        scheduler=entry["scheduler"],
        mode=entry["mode"],
        options=entry["options"],
        predicted_s=entry["predicted_s"],
        samples_s=tuple(entry["samples_s"]),
        measured_s=entry["measured_s"],
        spread=entry["spread"],
        reported_s=entry["reported_s"],
        estimated=tuple(entry["estimated"]),
        metrics=entry["metrics"],
    )
    if "spans" not in entry:
        return case
    if isinstance(entry["spans"], str):
        columns, workload, plan = unpacked(folder / entry["spans"])
    else:
        listed = entry["spans"]
        columns = {name: np.atleast_1d(np.asarray(listed[name], dtype=np.float64)) for name in columns_in(listed)}
        workload, plan = data["workloads"][entry["workload"]], data["plans"][entry["plan"]]
    check_plan(workload, plan, columns)
    return replace(
        case,
        workload=workload,
        plan_text=plan,
        timed_makespan_s=entry["timed_makespan_s"],
        clock_uncertainty_s=entry["clock_uncertainty_s"],
        pace=_pace(entry),
        stamped=_yes_or_no(entry.get("stamped"), "stamped"),
        notes=tuple(entry["notes"]),
        spans=columns,
    )


def _pace(entry: Mapping[str, Any]) -> Pace:
    """How fast the thread and CPU lanes were during the run, as far as it was taken."""
    launch_colds = entry.get("launch_colds", ())
    return Pace(
        call_s=entry.get("call_s", 0.0),
        **{name: entry.get(name, 0.0) for name in LANES},
        colds=checked_points(entry.get("colds", ()), "colds", TABLES["colds"]),
        launches=checked_points(entry.get("launches", ()), "launches", TABLES["graph_launches"]),
        launch_colds=tuple(checked_points(each, "launch_colds", TABLES["graph_colds"]) for each in launch_colds),
    )


def _yes_or_no(value: Any, name: str) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise FileFormatError(f"{name} is {value!r}: true, false or null is needed")
    return value
