"""Merging lanes and moving chains, by simulation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.costs import Costs, TaskCost
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.schedulers.searching.lane_moves import chains_moved, lanes_merged
from graphsched.schedulers.searching.lane_rules import Assigned, assigned
from graphsched.schedulers.searching.trials import Trial, Trials
from graphsched.workload import Workload
from tests.schedulers.graphs import FREE, MATRIX, graph, machine, stub

CURVE_FREE = ((2, 1.0), (4, 1.0), (8, 1.0))


def two_chains() -> Workload:
    """a0 ─▶ a1 ─▶ a2 and b0 ─▶ b1, a second each."""
    work = Workload()
    for chain, length in (("a", 3), ("b", 2)):
        read: tuple[object, ...] = ()
        for i in range(length):
            read = (work.task(stub, *read, name=f"{chain}{i}", outputs=[MATRIX], device="cuda"),)
    return work


def begun(
    lanes: str, left: int = 100, curve: tuple[tuple[int, float], ...] = CURVE_FREE
) -> tuple[Trials, Assigned, Trial]:
    """The two chains with their tasks on lanes of these numbers, simulated, and `left` simulations."""
    work = two_chains()
    where: Platform = replace(machine(1), dispatch=FREE)
    costs = Costs({(task.signature, "chip"): TaskCost(1.0, concurrency=curve) for task in work.tasks})
    placement = Placement(list(work.graph), dict(zip(work.graph, (f"cuda:0/s{n}" for n in lanes), strict=True)))
    trials = Trials(work, where, costs, "eager", left)
    return trials, assigned(work, where, costs, placement), Trial(placement, trials.makespan_s(placement))


def lanes_of(trial: Trial) -> str:
    """Numbers of the lanes of a0 a1 a2 b0 b1."""
    return "".join(trial.placement.lanes[name][-1] for name in ("a0", "a1", "a2", "b0", "b1"))


def test_lanes_merge_as_long_as_nothing_is_lost() -> None:
    """Each task on a lane of its own: the second of `b` fits behind the first, all of `a` on one."""
    trials, tasks, best = begun("01234")
    merged = lanes_merged(trials, tasks, best)
    assert (merged.lanes_each, merged.makespan_s) == (2, pytest.approx(3.0))
    assert lanes_of(merged) in ("00011", "00101", "01011", "01001", "01100", "01110", "00001")


def test_one_lane_is_enough_for_kernels_that_fill_the_device() -> None:
    """All merge."""
    trials, tasks, best = begun("01234", curve=((2, 2.0), (4, 4.0)))
    assert lanes_of(lanes_merged(trials, tasks, best)) == "00000"


def test_chains_move_to_where_they_run_side_by_side() -> None:
    """All behind each other take 5 s; the chain of `b` on a lane of its own runs beside `a`: 3 s."""
    trials, tasks, best = begun("00000")
    assert best.makespan_s == pytest.approx(5.0)
    moved = chains_moved(trials, tasks, best, lanes=2)
    assert (lanes_of(moved), moved.makespan_s) == ("00011", pytest.approx(3.0))


def test_moves_need_lanes_simulations_and_something_to_gain() -> None:
    """With one lane, no simulation left or a makespan that is enough, the best stays."""
    trials, tasks, best = begun("00000")
    assert chains_moved(trials, tasks, best, lanes=1) is best
    assert chains_moved(trials, tasks, best, lanes=2, enough_s=5.0) is best
    trials, tasks, best = begun("00000", left=0)
    assert chains_moved(trials, tasks, best, lanes=2) is best
    trials, tasks, best = begun("01234", left=0)
    assert lanes_merged(trials, tasks, best) is best


def test_a_move_must_pay() -> None:
    """0.1 % is not worth a lane."""
    trials, tasks, best = begun("00000", curve=((2, 1.9985), (4, 4.0)))
    assert lanes_of(chains_moved(trials, tasks, best, lanes=2)) == "00000"
    trials, tasks, best = begun("00000", curve=((2, 1.98), (4, 4.0)))
    assert lanes_of(chains_moved(trials, tasks, best, lanes=2)) == "00011"


def test_the_longest_chain_moves_first() -> None:
    """With one simulation left `long` leaves the lane of all three: 5 s beside 4 s, and not 8 s beside 1 s."""
    work, where = graph(short=1.0, long=5.0, other=3.0), machine(1, kind="worker", cpu=False)
    placement = Placement(list(work.graph), dict.fromkeys(work.graph, "worker:0/s0"))
    trials = Trials(work, where, Costs(), "eager", 1)
    best = Trial(placement, trials.makespan_s(placement))
    moved = chains_moved(trials, assigned(work, where, Costs(), placement), best, lanes=2)
    assert (best.makespan_s, moved.makespan_s) == (pytest.approx(9.0), pytest.approx(5.0))
