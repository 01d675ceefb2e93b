"""What `schedule` accepts, and schedulers that others bring."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from graphsched.errors import CostError, ScheduleError
from graphsched.plan import Placement
from graphsched.platform import Platform
from graphsched.schedulers import register, registry, schedule, schedulers
from graphsched.workload import Workload
from tests.schedulers.graphs import graph, lanes_of, machine

WORK = graph([("a", "b")], a=1.0, b=1.0)


def backwards(
    work: Workload, platform: Platform, costs: object, *, device: str = "cuda:0", speed: float = 1
) -> Placement:
    """A scheduler of somebody else: all on one lane."""
    return Placement(list(work.graph), dict.fromkeys(work.graph, f"{device}/s7"))


def demanding(work: Workload, platform: Platform, costs: object, *, seed: int) -> Placement:
    """A scheduler with an option that must be given."""
    return backwards(work, platform, costs)


def broken(work: Workload, platform: Platform, costs: object) -> Placement:
    """A scheduler that returns nothing."""
    return None  # type: ignore[return-value]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[metadata.EntryPoint]]:
    """Entry points as if packages had brought them; names that they register are forgotten afterwards."""
    points: list[metadata.EntryPoint] = []

    def found(group: str) -> list[metadata.EntryPoint]:
        return [p for p in points if p.group == group]

    monkeypatch.setattr(registry.metadata, "entry_points", found)
    monkeypatch.setattr(registry, "_REGISTERED", dict(registry._REGISTERED))
    registry._entry_points.cache_clear()
    yield points
    registry._entry_points.cache_clear()


def point(name: str, target: str) -> metadata.EntryPoint:
    """An entry point for one of the schedulers above."""
    return metadata.EntryPoint(name, f"{__name__}:{target}" if ":" not in target else target, registry.GROUP)


def test_scheduler_by_entry_point(installed: list[metadata.EntryPoint]) -> None:
    """It is listed, found, and takes its own options."""
    installed.append(point("backwards", "backwards"))
    assert "backwards" in schedulers()
    plan = schedule(WORK, machine(2), scheduler="backwards", device="cuda:1", speed=2)
    assert plan.scheduler == "backwards device=cuda:1 speed=2"
    assert set(lanes_of(plan).values()) == {"cuda:1/s7"}
    assert len(schedule(WORK, machine(2), scheduler="backwards")) == 2


def test_same_entry_point_twice_is_one(installed: list[metadata.EntryPoint]) -> None:
    """As with a package that is found in two folders."""
    installed += [point("backwards", "backwards")] * 2
    assert len(schedule(WORK, machine(1), scheduler="backwards")) == 2


def test_broken_entry_point_hurts_only_who_asks(installed: list[metadata.EntryPoint]) -> None:
    """The error names the entry point and the cause."""
    installed.append(point("lost", "no_such_package:scheduler"))
    installed.append(point("text", "GROUP_NAME"))
    assert "lost" in schedulers()
    assert len(schedule(WORK, machine(1), scheduler="heft")) == 2
    with pytest.raises(ScheduleError, match=r"'lost' of entry point 'no_such_package:scheduler'.*No module named"):
        schedule(WORK, machine(1), scheduler="lost")
    with pytest.raises(ScheduleError, match=r"'text' of entry point .* is no function: 'not callable'"):
        schedule(WORK, machine(1), scheduler="text")


GROUP_NAME = "not callable"


def test_two_schedulers_of_one_name(installed: list[metadata.EntryPoint]) -> None:
    """One of ours, or of two packages: an error that names both."""
    installed.append(point("heft", "backwards"))
    installed += [point("twice", "backwards"), point("twice", "demanding")]
    words = "rename or remove the entry point 'heft = .*:backwards'"
    with pytest.raises(ScheduleError, match=rf"'heft': graphsched.schedulers.heft:heft and .*:backwards: {words}$"):
        schedule(WORK, machine(1), scheduler="heft")
    words = "rename or remove one, the entry point 'twice = .*:backwards' or the entry point 'twice = .*:demanding'"
    with pytest.raises(ScheduleError, match=rf"two schedulers 'twice': .*:backwards and .*:demanding: {words}"):
        schedule(WORK, machine(1), scheduler="twice")
    with pytest.raises(ScheduleError, match="two schedulers 'one_stream'"):
        register("one_stream")(backwards)


def test_the_package_of_a_wrong_entry_point_is_named(
    installed: list[metadata.EntryPoint], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As its metadata calls it."""
    folder = tmp_path / "theirs-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[{registry.GROUP}]\nheft = {__name__}:backwards\n")
    installed += metadata.Distribution.at(folder).entry_points
    with pytest.raises(ScheduleError, match=r"the entry point 'heft = .*:backwards' of package 'theirs'"):
        schedule(WORK, machine(1), scheduler="heft")


def test_a_package_that_leaves_when_it_is_imported(
    installed: list[metadata.EntryPoint], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not take the process with it."""
    (tmp_path / "leaves_at_once.py").write_text("raise SystemExit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    installed.append(point("leaves", "leaves_at_once:scheduler"))
    with pytest.raises(ScheduleError, match=r"'leaves' of entry point .* cannot be loaded \(SystemExit: 0\)"):
        schedule(WORK, machine(1), scheduler="leaves")


def test_one_without_a_signature(installed: list[metadata.EntryPoint]) -> None:
    """A class written in C."""
    installed.append(point("builtin", "builtins:dict"))
    with pytest.raises(ScheduleError, match=r"<class 'dict'> is no scheduler: no signature found"):
        schedule(WORK, machine(1), scheduler="builtin")


def test_registered_in_place(installed: list[metadata.EntryPoint]) -> None:
    """By the decorator."""
    assert register("mine")(backwards) is backwards
    assert "mine" in schedulers()
    assert schedule(WORK, machine(1), scheduler="mine").scheduler == "mine"


def test_unknown_scheduler() -> None:
    """The message offers the nearest name, and lists those there are."""
    with pytest.raises(ScheduleError, match=r"no scheduler 'hefty': did you mean 'heft'\? There are auto, .*"):
        schedule(WORK, machine(1), scheduler="hefty")
    with pytest.raises(ScheduleError, match=r"no scheduler 'quantum': there are auto, .*, wavefront"):
        schedule(WORK, machine(1), scheduler="quantum")


@pytest.mark.parametrize("name", [["heft"], None, 3, {"heft": 1}])
def test_a_scheduler_that_is_no_name(name: object) -> None:
    """The message shows it, and lists those there are."""
    message = rf"scheduler is {re.escape(repr(name))}: the name of one is needed: auto, "
    with pytest.raises(ScheduleError, match=message):
        schedule(WORK, machine(1), scheduler=name)  # type: ignore[arg-type]


def test_a_name_in_the_place_of_costs() -> None:
    """The third argument; the message says where the name goes."""
    with pytest.raises(CostError, match=r"costs are 'heft': gs.Costs are needed; .* goes to scheduler="):
        schedule(WORK, machine(1), "heft")  # type: ignore[arg-type]


def test_unknown_mode() -> None:
    """The message lists the modes."""
    with pytest.raises(ScheduleError, match="no mode 'graphs': there is eager"):
        schedule(WORK, machine(1), mode="graphs")


@pytest.mark.parametrize(
    ("scheduler", "options", "message"),
    [
        (
            "heft",
            {"lane": 2},
            r"'heft' has no option 'lane': its options are lanes: int = 1, copies: 'own' \| 'compute' =",
        ),
        (
            "one_stream",
            {"lanes": 2},
            r"'one_stream' has no option 'lanes': its options are copies: 'own' \| 'compute' = 'own'",
        ),
        ("heft", {"lanes": "2"}, r"option lanes='2' of scheduler 'heft': lanes: int = 1"),
        (
            "heft",
            {"lanes": (2, 3)},
            r"option lanes=\(2, 3\) of .*: lanes: int = 1 is needed, not several",
        ),
        ("heft", {"lanes": True}, r"option lanes=True of scheduler 'heft': lanes: int"),
        ("heft", {"lanes": 1.5}, r"option lanes=1.5"),
        ("round_robin", {"lanes": "x"}, r"lanes: int \| None = None"),
        ("wavefront", {"sync": 1}, r"option sync=1 of scheduler 'wavefront': sync: bool = False"),
        ("heft", {"copies": "both"}, r"option copies='both' of scheduler 'heft': copies: 'own' \| 'compute'"),
        ("heft", {"copies": ["own"]}, r"option copies=\['own'\]"),
    ],
)
def test_wrong_options(scheduler: str, options: dict[str, object], message: str) -> None:
    """What was wrong, the value, and what the scheduler has."""
    with pytest.raises(ScheduleError, match=message):
        schedule(WORK, machine(1), scheduler=scheduler, **options)


def test_options_of_other_schedulers(installed: list[metadata.EntryPoint]) -> None:
    """One that must be given, one of a wrong type, and none at all."""
    installed += [point("demanding", "demanding"), point("backwards", "backwards"), point("broken", "broken")]
    with pytest.raises(ScheduleError, match="'demanding' needs the option seed: int"):
        schedule(WORK, machine(1), scheduler="demanding")
    with pytest.raises(ScheduleError, match=r"option speed='fast' of scheduler 'backwards': speed: float = 1"):
        schedule(WORK, machine(1), scheduler="backwards", speed="fast")
    with pytest.raises(ScheduleError, match="'broken' has no option 'lanes': its options are none"):
        schedule(WORK, machine(1), scheduler="broken", lanes=1)
    with pytest.raises(ScheduleError, match="'broken' returned NoneType: a Placement is needed"):
        schedule(WORK, machine(1), scheduler="broken")


def test_text_names_options_that_are_not_the_default() -> None:
    """In the scheduler's order, whatever the order given; defaults are left out."""
    plan = schedule(WORK, machine(1), scheduler="wavefront", copies="compute", sync=False, lanes=2)
    assert plan.scheduler == "wavefront lanes=2 copies=compute"
    assert "scheduler wavefront lanes=2 copies=compute mode eager" in plan.text.splitlines()
    assert schedule(WORK, machine(1), lanes=1).scheduler == "heft"
