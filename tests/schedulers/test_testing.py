"""The test kit finds what schedulers do wrong."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from graphsched.costs import Costs
from graphsched.errors import CaptureError, ScheduleError
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.schedulers import schedulers, testing
from graphsched.schedulers.benchmarks.samples import KINDS, samples
from graphsched.schedulers.sequential import one_stream
from graphsched.schedulers.testing import check_scheduler
from graphsched.workload import Workload


@pytest.mark.parametrize("name", [name for name in schedulers() if name not in ("search", "optimal")])
def test_ours_pass(name: str) -> None:
    """All kinds, on one platform or another."""
    check_scheduler(name, count=9 if name in ("auto", "streams") else 18)


def test_options_are_passed_on() -> None:
    """And checked before anything is tried."""
    check_scheduler("round_robin", options={"copies": "compute"}, count=9)
    with pytest.raises(ScheduleError, match="'round_robin' has no option 'speed'"):
        check_scheduler("round_robin", options={"speed": 2})


def test_samples_are_of_all_kinds_on_all_platforms_and_the_same_again() -> None:
    """36 have each pair once."""
    found = list(samples(36))
    assert len({sample.label.partition(" ")[2] for sample in found}) == 36
    assert set(KINDS) == {sample.label.partition("(")[2].partition(",")[0] for sample in found}
    for one, other, again in zip(found, samples(36, names="n{}".format), samples(36), strict=True):
        assert one.work.digest() == again.work.digest()
        assert list(other.work.graph) == [name.replace("t", "n") for name in one.work.graph]
    assert any(a.work.digest() != b.work.digest() for a, b in zip(found, samples(36, seed=1), strict=True))


def forgets_copies(work: Workload, platform: Platform, costs: Costs) -> Placement:
    """Places tasks only."""
    right = one_stream(work, platform, costs)
    return replace(right, order=[name for name in right.order if work[name].kind == "run"])


def ignores_devices(work: Workload, platform: Platform, costs: Costs) -> Placement:
    """All on the last device."""
    lane = f"{platform.devices[-1].name}/{'w' if platform.devices[-1].kind == 'cpu' else 's'}0"
    return Placement(list(work.graph), {task.name: lane for task in work.tasks if task.kind == "run"})


def goes_by_names(work: Workload, platform: Platform, costs: Costs) -> Placement:
    """A lane for tasks whose names begin with t, another for the rest."""
    right = one_stream(work, platform, costs)
    return replace(right, lanes={n: lane[:-1] + ("0" if n[0] == "t" else "1") for n, lane in right.lanes.items()})


ASKED = count()


def changes_its_mind(work: Workload, platform: Platform, costs: Costs) -> Placement:
    """Each second time it waits after all tasks."""
    right = one_stream(work, platform, costs)
    return replace(right, wait_after=frozenset(right.order if next(ASKED) % 2 else ()))


def meddles(work: Workload, platform: Platform, costs: Costs) -> Placement:
    """Adds a task of its own."""
    work.barrier(f"more{len(work)}")
    return one_stream(work, platform, costs)


def hangs(work: Workload, platform: Platform, costs: Costs) -> Placement:
    """On anything but nothing."""
    while len(work):
        pass
    return Placement([], {})


def crashes(work: Workload, platform: Platform, costs: Costs) -> Placement:
    """On an empty workload."""
    first = work.tasks[0]
    return Placement([first.name], {first.name: "cuda:0/s0"})


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        (forgets_copies, r"on sample \d+ \(copies, .*\), mode eager: scheduler 'forgets_copies' left out \d+ of"),
        (
            ignores_devices,
            r"\(bound to devices, .*task 't\d+' has no duration on worker:3: it has those of ",
        ),
        (goes_by_names, r"scheduler 'goes_by_names' decided otherwise when tasks had other names"),
        (changes_its_mind, r"scheduler 'changes_its_mind' gave two answers to one question"),
        (meddles, r"scheduler 'meddles' changed the workload, which it may only read"),
        (hangs, r"on sample 1 \(one task, .*scheduler 'hangs' was not done after 0.2 s"),
        (crashes, r"on sample 0 \(nothing, .*scheduler 'crashes' failed: IndexError"),
    ],
)
def test_what_is_wrong_is_found(scheduler: object, message: str) -> None:
    """The rule, the sample and the mode."""
    limit_s = 0.2 if scheduler is hangs else 60.0
    with pytest.raises(ScheduleError, match=message):
        check_scheduler(scheduler, time_limit_s=limit_s)  # type: ignore[arg-type]


def test_a_prediction_below_the_bound_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that is too high says that graphsched is wrong, not the scheduler."""
    monkeypatch.setattr(testing, "bound_of", lambda plan: 1e9)
    with pytest.raises(ScheduleError, match="less than the lower bound of 1e\\+09 s: this is an error of graphsched"):
        check_scheduler("one_stream", count=1)


def test_a_bound_that_a_scheduler_returns_must_hold() -> None:
    """Here it says that nothing takes less than a day."""

    def boasts(work: Workload, platform: Platform, costs: Costs) -> Placement:
        return replace(one_stream(work, platform, costs), bound_s=86400.0)

    with pytest.raises(ScheduleError, match="less than the lower bound of 86400 s: this is what it returned"):
        check_scheduler(boasts, count=2)


def test_a_scheduler_may_say_that_no_graph_can_hold_it() -> None:
    """In graph mode, in which it is asked too, and nothing comes of it."""
    asked: set[str] = set()

    def eager_only(work: Workload, platform: Platform, costs: Costs, mode: str) -> Placement:
        asked.add(mode)
        if mode == "graph":
            raise CaptureError("not for graphs")
        return one_stream(work, platform, costs)

    check_scheduler(eager_only, count=9)
    assert asked == {"eager", "graph"}
