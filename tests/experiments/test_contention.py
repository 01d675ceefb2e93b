"""Transfers that meet: which ways each pattern takes, that they may begin at once, and what waits for what."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import pytest

from experiments._transfers import PATTERNS, broadcast_tree, exchanged, handed_on, of_many_sizes, streamed
from graphsched.errors import ExperimentError
from graphsched.executors import Program
from graphsched.simulator import predict
from graphsched.workload import Workload
from tests.experiments.small import cases, hand_written, load, plan_of

FOUR = ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]
ALL = hand_written("cuda", 4)


def ways(pattern: str) -> list[str]:
    """The moves of a pattern on four GPUs, each as ``h0`` or ``01``."""
    moves = PATTERNS[pattern].moves(FOUR)
    return ["".join("h" if end == "cpu" else end[-1] for end in move) for move in moves]


def test_patterns_on_four_devices() -> None:
    assert ways("from the host") == ["h0", "h1", "h2", "h3"]
    assert ways("from and to the host") == ["h0", "h1", "h2", "h3", "0h", "1h", "2h", "3h"]
    assert ways("one to the host beside the others from it") == ["h0", "h1", "h2", "3h"]
    assert ways("half to the host beside half from it") == ["h0", "h1", "2h", "3h"]
    assert ways("fan-out") == ["01", "02", "03"]
    assert ways("fan-in") == ["10", "20", "30"]
    assert ways("ring") == ["01", "12", "23", "30"]
    assert len(ways("all to all")) == len(set(ways("all to all"))) == 12
    assert ways("ring beside copies to the host") == ["01", "12", "23", "30", "0h", "1h", "2h", "3h"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_transfers_of_a_pattern_begin_at_once_on_lanes_of_their_own(pattern: str) -> None:
    case = cases("contention", ALL)[f"{pattern}, one_stream, 4 GPUs"]
    plan = plan_of(case, ALL)
    assert not any(plan.waits)
    assert len(set(plan.lane_of)) == len(ways(pattern))
    assert set(Counter(plan.lane_of).values()) == {2}


def test_in_sequence_none_meets_another() -> None:
    made = cases("contention", ALL, mbytes=16.0)
    alone = predict(plan_of(made["ring, sequential, 4 GPUs"], ALL)).makespan_s
    together = predict(plan_of(made["ring, one_stream, 4 GPUs"], ALL)).makespan_s
    assert together < 0.5 * alone


def test_a_pattern_is_left_out_where_it_would_be_another() -> None:
    labels = "\n".join(cases("contention", hand_written("cuda", 2)))
    assert "fan-out" in labels
    assert "fan-in" not in labels
    assert "broadcast tree" not in labels
    assert "of many sizes" not in "\n".join(cases("contention", hand_written("cuda", 1)))


def test_transfers_of_many_sizes_start_at_different_times() -> None:
    work = of_many_sizes(FOUR, 1.0, seed=1)
    assert len({task.nbytes for task in work.tasks}) > 2
    case = next(c for label, c in cases("contention", ALL, mbytes=8.0).items() if label.startswith("of many sizes 1"))
    line = predict(plan_of(case, ALL))
    copies = [i for i, kind in enumerate(line.plan.kinds) if kind == "copy"]
    assert len({round(float(line.start_s[i]), 9) for i in copies}) == len(copies)
    digests = [of_many_sizes(FOUR, 1.0, seed=seed).digest() for seed in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]


def edges(work: Workload) -> list[tuple[str, str]]:
    """Those of the first round, without its number."""
    return [(a[:-1], b[:-1]) for a, b in work.graph.edges if a[-1] == b[-1] == "0"]


def test_a_broadcast_tree_doubles_its_holders() -> None:
    """0 ─┬─ 1 ─ 3
    ╰─ 2
    """
    work = broadcast_tree(FOUR, 0.01, 2)
    assert sorted(task.name for task in work.tasks if task.name.endswith("0")) == [
        "gpu0-gpu1/0",
        "gpu0-gpu2/0",
        "gpu1-gpu3/0",
    ]
    assert edges(work) == [("gpu0-gpu1/", "gpu1-gpu3/")]


def test_blocks_are_streamed_through_each_device() -> None:
    work = streamed(FOUR[:2], 8, 2)
    assert nx.number_weakly_connected_components(work.graph) == 4
    assert ("gpu0/in", "gpu0/mm") in edges(work)
    assert ("gpu0/mm", "gpu0/out") in edges(work)


def test_blocks_are_handed_on() -> None:
    """mm on 0 ─ copy ─ mm on 1 ─ copy ─ mm on 2"""
    assert edges(handed_on(FOUR[:3], 8, 2)) == [
        ("gpu0/mm", "gpu1/in"),
        ("gpu1/in", "gpu1/mm"),
        ("gpu1/mm", "gpu2/in"),
        ("gpu2/in", "gpu2/mm"),
    ]


def test_neighbours_exchange_what_they_made() -> None:
    work = exchanged(FOUR[:2], 8, 2)
    assert set(work.graph.pred["gpu0/add0"]) == {"gpu0/mm0", "gpu0/in0"}
    assert set(work.graph.pred["gpu0/in0"]) == {"gpu1/mm0"}
    assert set(work.graph.pred["gpu0/mm1"]) == {"gpu0/add0"}


def test_transfers_run_on_workers_and_keep_their_data() -> None:
    platform = hand_written("worker", 2)
    for label, case in cases("contention", platform, patterns=("from and to the host", "exchanged")).items():
        assert case.work is not None
        with Program(plan_of(case, platform)) as program:
            returned = program.run()
        for value in case.work.returned():
            source = case.work[value.name].reads[0].value
            if source.kind == "input":
                assert returned[value.name].equal(case.work.tensors[source.name]), label


def test_an_unknown_pattern_is_named() -> None:
    with pytest.raises(ExperimentError, match="no pattern 'star': there are from the host, to the host"):
        load("contention").cases(hand_written("worker", 1), patterns=("star",))
