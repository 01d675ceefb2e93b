"""Priorities that never change, on lanes that are alike: the same steps as looking at all tasks that are ready."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.costs import Costs
from graphsched.platform import Device, Platform
from graphsched.schedulers import critical_path as module
from graphsched.schedulers import schedule
from graphsched.schedulers.etf import SAME
from graphsched.schedulers.placing.priority_list import place_by_priority
from graphsched.schedulers.placing.ready_list import Ready, place_ready
from graphsched.schedulers.placing.timetable import Timetable
from graphsched.workload import Workload
from tests.schedulers.processors import processors, random_dag

SECONDS = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.1 + 0.2, 0.7, 1.0, 1.0 + 1e-13])
"""Sums of some differ by rounding alone."""


@st.composite
def wide_dags(draw: st.DrawFn) -> nx.DiGraph:
    """Up to 25 tasks, each after up to three before it."""
    dag = nx.DiGraph()
    for i in range(draw(st.integers(0, 25))):
        dag.add_node(f"t{i}", duration_s=draw(SECONDS))
        dag.add_edges_from((f"t{j}", f"t{i}") for j in (draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else ()))
    return dag


def alike(devices: int, lanes: int) -> Platform:
    """Devices of one kind and so many lanes."""
    return Platform("alike", tuple(Device(f"worker:{k}", "worker", lanes=lanes) for k in range(devices)))


@settings(deadline=None, max_examples=200)
@given(dag=wide_dags(), devices=st.integers(1, 4), lanes=st.integers(1, 3), data=st.data())
def test_each_step_is_that_of_a_look_at_all(dag: nx.DiGraph, devices: int, lanes: int, data: st.DataObject) -> None:
    """Order, lanes and starts, to the bit, for any priorities."""
    priorities = np.array(data.draw(st.permutations(range(len(dag)))), dtype=float)

    def choose(ready: Ready) -> tuple[int, int]:
        first = ready.start_s.min(axis=1) <= ready.start_s.min() * SAME
        row = int(np.argmax(np.where(first, priorities[ready.tasks], -1)))
        return row, int((ready.start_s[row] + ready.seconds[row]).argmin())

    work, here = Workload.from_graph(dag), alike(devices, lanes)
    slow, quick = (Timetable(work, here, Costs(), lanes=lanes, copies="own", contention=True) for _ in range(2))
    place_ready(slow, choose)
    place_by_priority(quick, priorities.tolist(), SAME)
    assert list(quick.start_s.items()) == list(slow.start_s.items())
    assert quick.placement() == slow.placement()


def test_critical_path_looks_at_all_only_where_lanes_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that wide graphs do not take the square of their tasks."""
    looked = []
    monkeypatch.setattr(module, "place_ready", lambda *asked: looked.append(asked) or place_ready(*asked))
    dag = random_dag(30, 0)
    schedule(Workload.from_graph(dag), processors(3), scheduler="critical_path")
    assert not looked
    dag.nodes["t0"]["duration_s"] = {"worker:0": 1.0, "worker:1": 2.0, "worker:2": 1.0}
    schedule(Workload.from_graph(dag), processors(3), scheduler="critical_path")
    assert looked
