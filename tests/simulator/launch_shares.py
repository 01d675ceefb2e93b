"""What copies and edges apart would change in runs that were recorded when a calibration did not tell them apart.

Both together are as measured on each host, the shares about those of four H200s (docs/readings.md). Prints the mean
error of what is bound by launches over several GPUs, and the order of schedules, with a half each and these shares.
Call: python -m tests.simulator.launch_shares
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from graphsched.platform import Dispatch
from graphsched.records.checked import Checked, check_again, check_runs
from graphsched.records.concordance import concordance
from graphsched.simulator import Model

RESULTS = Path(__file__).parents[2] / "experiments" / "results"
COPY_US, EDGE_US, LONG_EDGE_US = 1.2, 2.2, 3.6  # a copy, an edge over two GPUs, and over four
HOSTS = {"h100-80gb-hbm3-x2": 2, "h100-80gb-hbm3-x4": 4, "h200-x2": 2, "h200-x4": 4}  # GPUs that were calibrated


def told_apart(dispatch: Dispatch, gpus: int) -> Dispatch:
    """`dispatch`, whose copies and edges, alike as measured over so many GPUs, take the shares of their sum.

    Example:
        >>> found = told_apart(Dispatch(graph_across_edge_s=2.4), 4)
        >>> seconds = found.graph_across_copy_s, found.graph_across_edge_s, found.graph_across_more_s
        >>> [round(s, 6) for s in seconds]
        [1.2, 2.2, 0.7]
    """
    if dispatch.graph_across_copy_s:
        return dispatch
    more_us = (LONG_EDGE_US - EDGE_US) / 2
    unit_s = 2 * dispatch.graph_across_edge_s / (COPY_US + EDGE_US + more_us * (gpus - 2))
    return replace(
        dispatch,
        graph_across_copy_s=COPY_US * unit_s,
        graph_across_edge_s=EDGE_US * unit_s,
        graph_across_more_s=more_us * unit_s,
    )


def with_shares(entry: Checked, gpus: int) -> Checked:
    setup = entry.case.setup
    platform = replace(setup.platform, dispatch=told_apart(setup.platform.dispatch, gpus))
    return replace(entry, case=replace(entry.case, setup=replace(setup, platform=platform)))


def over_several(entries: Sequence[Checked]) -> list[Checked]:
    return [e for e in entries if sum(name.startswith("cuda") for name in {k.device for k in e.case.plan.lanes}) > 1]


def summary(entries: Sequence[Checked]) -> str:
    errors = [abs(e.makespan_error) for e in entries if e.group == "host_bound"]
    share = concordance(entries)
    order = "none to order" if share is None else f"{100 * share:.1f} % in order"
    return f"{len(errors)} cases, {100 * fmean(errors):.1f} %, {order}"


def main() -> None:
    for host, gpus in HOSTS.items():
        entries = over_several(check_runs([RESULTS / host], modes={"graph"}))
        apart = check_again([with_shares(e, gpus) for e in entries], Model())
        print(f"{host}: half each: {summary(entries)}; shares: {summary(apart)}", flush=True)


if __name__ == "__main__":
    main()
