"""Capacities that fall with load, in plans: copies between the host and GPUs, and among GPUs."""

from __future__ import annotations

import pytest

from graphsched.plan import Plan
from graphsched.platform import CapacityTable, Device, Link, Platform
from graphsched.simulator import Model, predict
from tests.builders import FREE, planned, workload

FALLS = {
    "in": CapacityTable(("in", "out"), ((1, 2), (0, 1)), (100.0, 50.0, 120.0, 60.0)),
    "out": CapacityTable(("out", "in"), ((1, 2), (0, 1)), (100.0, 80.0, 100.0, 80.0)),
}


def host(tables: dict[str, CapacityTable]) -> Platform:
    """A host and two GPUs; all copies into GPUs cross ``in``, all out of them ``out``."""
    devices = (Device("cpu", "cpu"), Device("cuda:0", "cuda"), Device("cuda:1", "cuda"))
    links = [Link("cpu", g, "pinned", 0.0, 100.0, ("in",)) for g in ("cuda:0", "cuda:1")]
    links += [Link(g, "cpu", "pinned", 0.0, 100.0, ("out",)) for g in ("cuda:0", "cuda:1")]
    return Platform("host", devices, tuple(links), {"in": 120.0, "out": 100.0}, dispatch=FREE, tables=tables)


def copies(*edges: tuple[str, str, str, str, int, float], tables: dict[str, CapacityTable] = FALLS) -> Plan:
    """Each edge (task, its lane, task, its lane, bytes, start): a task, and a copy of its result to the other."""
    tasks = {name: (start if i == 0 else 0.0) for a, _, b, _, _, start in edges for i, name in enumerate((a, b))}
    work = workload(tasks, [(a, b, nbytes) for a, _, b, _, nbytes, _ in edges])
    lanes = {name: lane for a, x, b, y, _, _ in edges for name, lane in ((a, x), (b, y))}
    return planned(work, host(tables), lanes)


def ends(plan: Plan, model: Model = Model()) -> list[float]:
    return [span.end_s for span in predict(plan, model=model) if ">" in span.action]


INTO = ("a", "cpu/w0", "b", "cuda:0/s0", 100, 0.0)
SECOND = ("c", "cpu/w1", "d", "cuda:1/s0", 100, 0.0)
OUT = ("e", "cuda:1/s0", "f", "cpu/w0", 80, 0.0)


def test_alone_nothing_falls():
    """a on the CPU -> b on cuda:0."""
    assert ends(copies(INTO)) == [1.0]


def test_a_transfer_the_other_way_costs_both():
    """a -> b into cuda:0 at 50 bytes/s while e -> f leaves cuda:1 at 80: f has it at 1; then a -> b has 100 again."""
    assert sorted(ends(copies(INTO, OUT))) == pytest.approx([1.0, 1.5])
    assert ends(copies(INTO, OUT), Model(load=False)) == pytest.approx([1.0, 0.8])


def test_two_links_share_what_the_table_gives_to_two():
    """a -> b into cuda:0 and c -> d into cuda:1: 120 bytes/s together."""
    assert ends(copies(INTO, SECOND)) == pytest.approx([100 / 60] * 2)


def test_a_load_that_comes_later_counts_from_then_on():
    """e -> f starts at 0.5: by then a -> b has half; the rest flows at 50 while e -> f needs 1 s."""
    later = ("e", "cuda:1/s0", "f", "cpu/w0", 80, 0.5)
    assert sorted(ends(copies(INTO, later))) == pytest.approx([1.5, 1.5])


def test_without_contention_tables_do_not_count():
    assert ends(copies(INTO, OUT), Model(contention=False)) == pytest.approx([1.0, 0.8])
