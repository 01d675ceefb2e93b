"""Workloads as JSON files of this program's own: tasks, values, bytes, states and where tasks may run, without code."""

from __future__ import annotations

import json
import reprlib
import sys
from collections.abc import Mapping
from typing import Any

from graphsched.errors import FileFormatError
from graphsched.formats.graph_checks import check_total
from graphsched.formats.own_order import check_order, check_values
from graphsched.workload import Workload

SCHEMA = 1
MOST = sys.float_info.max  # seconds; a whole number may be larger


def own_workload(data: Any) -> Workload:
    """The workload of a file's object.

    Raises:
        FileFormatError: It is of another schema, an entry is missing or wrong, or a task refers to what does not stand
            above it, or is not as the task says.
        CostError: All durations together are too long to count with.
    """
    if not isinstance(data, Mapping):
        raise FileFormatError(f"no workload but a {type(data).__name__}: an object is needed")
    if data.get("schema", SCHEMA) != SCHEMA:
        raise FileFormatError(f"a workload of schema {data['schema']!r}: this version reads schema {SCHEMA}")
    check_order(data)
    work = Workload.from_dict(data)
    check_values(work)
    for task in work.tasks:
        given = task.duration_s
        for seconds in given.values() if isinstance(given, Mapping) and given else () if given is None else (given,):
            if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds <= MOST:
                raise FileFormatError(
                    f"duration_s of task {task.name!r} is {reprlib.repr(given)}: finite seconds, 0 or more, are "
                    "needed, or such by device"
                )
    check_total((task.name, task.duration_s) for task in work.tasks)
    return work


def own_text(work: Workload) -> str:
    """The file of a workload."""
    return json.dumps({"schema": SCHEMA} | work.to_dict(), indent=1, ensure_ascii=False) + "\n"
