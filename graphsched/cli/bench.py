"""``bench``: speed of simulator, schedulers and dispatch on this host."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from graphsched.cli.options import AsJson
from graphsched.cli.output import print_json, print_rows, say

ACTIONS, QUICK_ACTIONS = (10_000, 100_000), (10_000,)
TASKS, QUICK_TASKS = (1_000, 10_000), (1_000,)


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes, within a few seconds.")] = False,
    as_json: AsJson = False,
) -> int:
    """Measure the speed of simulator, schedulers and dispatch on this host."""
    from graphsched.executors.bench import bench_dispatch
    from graphsched.schedulers.bench import bench_schedulers
    from graphsched.simulator.bench import bench_simulator

    say("simulator …")
    data: dict[str, Any] = {"simulator": bench_simulator(QUICK_ACTIONS if quick else ACTIONS)}
    say("schedulers …")
    data["schedulers"] = bench_schedulers(QUICK_TASKS if quick else TASKS)
    say("dispatch …")
    data["dispatch"] = bench_dispatch(quick=quick)
    if as_json:
        print_json(data)
        return 0
    for name in ("simulator", "schedulers"):
        print_rows(data[name], title=name)
    print_rows([data["dispatch"]], title="dispatch")
    return 0


COMMANDS = {"bench": bench}
