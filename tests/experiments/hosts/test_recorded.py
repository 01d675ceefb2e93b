"""What docs/multi-machine.md says of recorded steps between hosts; the present simulator predicts them again."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from experiments.hosts.namespaces import CHECKOUT
from experiments.hosts.table import ROWS
from graphsched.records import CaseRecord, load_run
from graphsched.simulator import Model

RECORDED = CHECKOUT / "experiments" / "hosts" / "recorded"


def cases_of(folder: Path) -> list[CaseRecord]:
    return load_run(folder / "multi_machine.json").cases


def errors(folder: Path, model: Model | None = None) -> list[float]:
    """Of the makespans, signed."""
    cases = cases_of(folder)
    return [case.repredict(model).makespan_s / case.measured.makespan_s - 1 for case in cases]


def test_every_network_of_the_table_is_recorded() -> None:
    assert {folder.name for folder in RECORDED.iterdir()} == {str(row) for row in ROWS}


def test_at_one_gigabit_all_are_within_five_per_cent() -> None:
    found = [abs(error) for folder in RECORDED.glob("1gbit-*") for error in errors(folder)]
    assert len(found) == 25
    assert max(found) <= 0.05
    assert statistics.median(found) <= 0.016


def test_at_ten_gigabit_the_memory_that_all_hosts_share_is_most_of_the_error() -> None:
    """On one machine of two cores, whose tasks move 15 and 30 MB at once."""
    folders = list(RECORDED.glob("10gbit-*"))
    found, without = ([abs(e) for folder in folders for e in errors(folder, Model(memory=m))] for m in (True, False))
    assert sum(error <= 0.05 for error in found) >= 9
    assert max(found) <= 0.12
    assert statistics.median(found) <= statistics.median(without) / 2


def test_more_servers_remove_the_bottleneck_of_one_as_predicted() -> None:
    """4 machines: one server takes 3.8 times as long as four, predicted and measured."""
    one, *_, four = cases_of(RECORDED / "1gbit-0.1ms-4x1")[:4]
    assert (one.label[:8], four.label[:9]) == ("1 server", "4 servers")
    measured = one.measured.makespan_s / four.measured.makespan_s
    assert measured > 3.5
    assert one.repredict().makespan_s / four.repredict().makespan_s == pytest.approx(measured, rel=0.05)
