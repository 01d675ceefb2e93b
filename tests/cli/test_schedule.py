"""``schedule``: graph files on processors that are alike, and on platforms."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import pytest

from graphsched.formats.graph_files import write_graph
from graphsched.platform import Device, Dispatch, Link, Platform
from graphsched.schedulers import registry
from tests.cli.conftest import Call

FORK = """
4
0 0 0
1 3 1 0
2 2 1 0
3 2 1 0
4 1 2 2 3
5 0 2 1 4
"""


@pytest.fixture
def stg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """1 takes 3; 2 and 3 take 2 each, and 4, which comes after them, 1: on two processors 4 is the least."""
    monkeypatch.chdir(tmp_path)
    Path("fork.stg").write_text(FORK.lstrip())
    return "fork.stg"


def test_the_keys_that_are_relied_on(call: Call, stg: str) -> None:
    data = call("schedule", stg, "--processors", 2, "--scheduler", "heft", "--json").json
    keys = ("makespan", "lower_bound", "scheduler", "processors")
    assert {key: data[key] for key in keys} == {"makespan": 5, "lower_bound": 4, "scheduler": "heft", "processors": 2}
    assert data["bounds"]["critical path"] == 3
    assert data["bounds"]["work"] == 4
    assert data["schedules"] == [
        {"scheduler": "heft", "makespan": 5, "lower_bound": 4, "processors": 2, "gap": 0.25, "plan": "heft"}
    ]


def test_the_same_input_prints_the_same_bytes(call: Call, stg: str) -> None:
    words = ("schedule", stg, "--processors", 3, "--scheduler", "heft,wavefront,round_robin lanes=1", "--json")
    assert call(*words).out == call(*words).out


def test_more_processors_than_tasks_are_as_good_as_so_many(call: Call, stg: str) -> None:
    data = call("schedule", stg, "--processors", 10**9, "--json").json
    assert (data["makespan"], data["processors"]) == (3, 10**9)


def test_several_schedulers_are_listed_and_the_best_stands_in_front(call: Call, stg: str) -> None:
    data = call("schedule", stg, "--processors", 1, "--scheduler", "sequential", "--scheduler", "heft", "--json").json
    assert [row["scheduler"] for row in data["schedules"]] == ["sequential", "heft"]
    data = call("schedule", stg, "--processors", 2, "--scheduler", "sequential,heft", "--json").json
    assert (data["scheduler"], [row["makespan"] for row in data["schedules"]]) == ("heft", [8, 5])


def test_people_get_a_table_bounds_and_a_chart(call: Call, stg: str) -> None:
    called = call("schedule", stg, "--processors", 2, "--scheduler", "heft")
    lines = called.out.splitlines()
    assert lines[0].startswith("fork.stg, 6 tasks, on 2 processors")
    assert "lower bound: 4 (critical path 3, work 4" in called.out
    assert "times in the file's own unit" in called.out
    chart = [line for line in lines if line.startswith("worker:")]
    assert [line.split()[0] for line in chart] == ["worker:0/s0", "worker:1/s0"]
    assert all(len(line) == len("worker:0/s0 ") + 100 for line in chart)
    assert sum(line.count(f"[{task}-") for line in chart for task in "1234") == 4


def test_a_bound_that_a_scheduler_proves_is_named(call: Call, stg: str) -> None:
    pytest.importorskip("ortools")
    asked = ("schedule", stg, "--processors", 2, "--scheduler", "heft,optimal")
    data = call(*asked, "--json").json
    assert data["lower_bound"] == data["bounds"]["proven by optimal"] == data["makespan"] == 5
    assert [row["lower_bound"] for row in data["schedules"]] == [5, 5]
    assert "lower bound: 5 (critical path 3, work 4" in (out := call(*asked).out)
    assert "proven by optimal 5)" in out


def test_bytes_cost_nothing_between_processors_and_take_their_time_on_a_platform(call: Call, tmp_path: Path) -> None:
    """a ─▶ b: a runs on worker:0 only, b on worker:1 only; 100 bytes at 50 a second."""
    graph = nx.DiGraph()
    for name, device in (("a", "worker:0"), ("b", "worker:1")):
        graph.add_node(name, duration_s=1.0, devices=(device,))
    graph.add_edge("a", "b", nbytes=100)
    write_graph(graph, tmp_path / "pair.json")
    devices = Device("cpu", "cpu"), *(Device(f"worker:{k}", "worker", lanes=1) for k in range(2))
    links = tuple(Link(f"worker:{a}", f"worker:{b}", "peer", 0.0, 50.0) for a, b in ((0, 1), (1, 0)))
    Platform("two", devices, links).save(tmp_path / "two.json")
    words = ("schedule", tmp_path / "pair.json", "--json")
    assert call(*words, "--processors", 2).json["makespan"] == 2
    data = call(*words, "--platform", tmp_path / "two.json").json
    assert (data["makespan"], data["platform"], data["processors"], data["unit"]) == (4, "two", 2, "s")


def test_dispatch_costs_nothing_on_any_platform(call: Call, tmp_path: Path) -> None:
    """a ─▶ b on one GPU, 5 s and 1; c on the other, 6 s. A queue of one launch would hold c up."""
    graph = nx.DiGraph()
    for name, seconds, device in (("a", 5.0, "cuda:0"), ("b", 1.0, "cuda:0"), ("c", 6.0, "cuda:1")):
        graph.add_node(name, duration_s=seconds, devices=(device,))
    graph.add_edge("a", "b")
    write_graph(graph, tmp_path / "three.json")
    devices = tuple(Device(name, name.partition(":")[0]) for name in ("cuda:0", "cuda:1", "cpu"))  # type: ignore[arg-type]
    Platform("slow", devices, dispatch=Dispatch(queue_depth=1, run_s=0.5, launch_s=0.5)).save(tmp_path / "slow.json")
    words = ("--platform", tmp_path / "slow.json", "--scheduler", "one_stream")
    assert call("schedule", tmp_path / "three.json", *words, "--json").json["makespan"] == 6


def test_durations_by_device_make_machines_that_differ(call: Call, tmp_path: Path) -> None:
    """a is quick on worker:1, b on worker:0: each goes where it is quick."""
    graph = nx.DiGraph()
    graph.add_node("a", duration_s={"worker:0": 9, "worker:1": 1})
    graph.add_node("b", duration_s={"worker:0": 2, "worker:1": 9})
    write_graph(graph, tmp_path / "unlike.json", "node-link")
    data = call("schedule", tmp_path / "unlike.json", "--processors", 2, "--json").json
    assert (data["makespan"], data["lower_bound"]) == (2, 2)


def test_charts_are_drawn_one_a_scheduler(call: Call, stg: str) -> None:
    data = call("schedule", stg, "--processors", 2, "--out", "a/one.png", "--json").json
    assert data["files"] == ["a/one.png"]
    data = call("schedule", stg, "--processors", 2, "--scheduler", "heft,sequential", "--out", "b/g.svg", "--json").json
    assert data["files"] == ["b/g-1-heft.svg", "b/g-2-sequential.svg"]
    assert Path("a/one.png").read_bytes().startswith(b"\x89PNG")
    assert "own unit" not in Path("b/g-1-heft.svg").read_text()


@pytest.fixture
def plug_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedulers of others: one raises, one never ends, one forgets a task."""

    def raises(work, platform, costs):
        raise KeyError("lost")

    def endless(work, platform, costs):
        while True:
            pass

    def forgets(work, platform, costs):
        from graphsched.plan import Placement

        return Placement([], {})

    found = {"raises": raises, "endless": endless, "forgets": forgets}
    monkeypatch.setattr(registry, "_REGISTERED", registry._REGISTERED | found)


def test_one_that_fails_hides_no_other(call: Call, stg: str, plug_ins: None) -> None:
    names = "raises,heft,endless,forgets,round_robin lanes=9"
    called = call("schedule", stg, "--processors", 2, "--scheduler", names, "--time-limit", 0.3, "--json")
    assert called.code == 1
    assert (called.json["scheduler"], called.json["makespan"]) == ("heft", 5)
    errors = {row["scheduler"]: row.get("error") for row in called.json["schedules"]}
    assert errors["heft"] is None
    assert "raises" in errors["raises"]
    assert "lost" in errors["raises"]
    assert "endless" in errors["endless"]
    assert "0.3 s" in errors["endless"]
    assert "forgets" in errors["forgets"]
    assert "lanes=9" in errors["round_robin lanes=9"]
    assert called.err.count("error: ") == 4


def test_a_bound_that_a_plan_disproves_is_dropped(call: Call, stg: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither others nor the one that claims it are held against it."""
    from dataclasses import replace

    from graphsched.schedulers.heft import heft

    def liar(work, platform, costs):
        return replace(heft(work, platform, costs), bound_s=1e9)

    def modest(work, platform, costs):
        return replace(heft(work, platform, costs), bound_s=4.5)

    monkeypatch.setattr(registry, "_REGISTERED", registry._REGISTERED | {"liar": liar, "modest": modest})
    called = call("schedule", stg, "--processors", 2, "--scheduler", "liar,heft,modest", "--out", "g.svg", "--json")
    assert called.code == 0
    assert "1000000000" not in Path("g-1-liar.svg").read_text()
    assert called.json["lower_bound"] == called.json["bounds"]["proven by modest"] == 4.5
    assert "proven by liar" not in called.json["bounds"]
    assert [row["lower_bound"] for row in called.json["schedules"]] == [4.5] * 3
    assert "scheduler 'liar' claims that no plan takes less than 1000000000: a plan here does" in called.err
    assert "modest" not in called.err.replace("g-3-modest.svg", "")


def test_where_all_fail_figures_are_null(call: Call, stg: str, plug_ins: None) -> None:
    called = call("schedule", stg, "--processors", 2, "--scheduler", "raises", "--json")
    assert called.code == 1
    assert called.json["makespan"] is called.json["scheduler"] is None
    table = call("schedule", stg, "--processors", 2, "--scheduler", "raises")
    assert "failed" in table.out


BAD = [
    ("t.stg", "3\n0 0 0\n1 2 1 0\n", "truncated"),
    ("t.stg", "2\n0 0 0\n1 2 1 2\n2 2 1 1\n3 0 1 2\n", "circle"),
    ("t.stg", "1\n0 0 0\n1 2 1 9\n2 0 1 1\n", "after 9"),
    ("t.stg", "1\n0 0 0\n1 -2 1 0\n2 0 1 1\n", "-2"),
    ("t.stg", "1\n0 0 0\n1 1 0\n2 0 1 1\n3 0 1 1", "announced"),
    ("t.stg", "0\n", "0 tasks"),
    ("t.stg", "1000000 " + "1 2 0 " * 10**6, "number of tasks"),
    ("t.stg", "1\n0 0 0\n1 1e308 1 0\n2 1e308 1 1\n", "all durations add up to more than 1e+300"),
    ("t.json", '{"workflow": {"specification": {"tasks": []}}}', "lacks 'execution'"),
    ("t.dot", "digraph { a }", "no duration"),
    ("t.xyz", "", "suffix '.xyz'"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD)
def test_bad_files_are_named_with_what_is_wrong(call: Call, tmp_path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    called = call("schedule", tmp_path / name, "--processors", 2, "--json")
    assert (called.code, called.out) == (2, "")
    assert name in called.err
    assert message in called.err
    assert "Traceback" not in called.err
    assert len(called.err) < 600


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "Give --processors M, or a platform"),
        (("--processors", 0), "'--processors': Input should be greater than or equal to 1, got '0'"),
        (("--processors", -1), "got '-1'"),
        (("--processors", "two"), "got 'two'"),
        (("--processors", 2, "--platform", "h200-x2"), "contradict"),
        (("--platform", "nowhere"), "no platform 'nowhere'"),
        (("--processors", 2, "--scheduler", ""), "names no scheduler"),
        (("--processors", 2, "--scheduler", "heft lanes"), "NAME=VALUE"),
        (("--processors", 2, "--scheduler", "heft,hefd"), "no scheduler 'hefd': did you mean 'heft'"),
        (("--processors", 2, "--scheduler", "heft,heft scheduler=cpop"), "'heft' has no option 'scheduler'"),
        (("--processors", 2, "--scheduler", "heft,heft work=3"), "'heft' has no option 'work'"),
        (("--processors", 2, "--time-limit", 0), "'--time-limit': seconds above 0 are needed, got 0"),
        (("--processors", 2, "--time-limit", "inf"), "'--time-limit': seconds above 0 are needed, got inf"),
        (("--processors", 2, "--time-limit", "nan"), "'--time-limit': seconds above 0 are needed, got nan"),
        (("--processors", 2, "--time-limit", "long"), "got 'long'"),
        (("--processors", 2, "--format", "xml"), "no format 'xml'"),
        (("--processors", 2, "--out", "g.xyz"), "g.xyz"),
        (("--processors", 2, "--out", "fork.stg/g.png"), "fork.stg"),
    ],
)
def test_wrong_requests_are_refused(call: Call, stg: str, words: tuple[object, ...], message: str) -> None:
    called = call("schedule", stg, *words)
    assert (called.code, called.out) == (2, "")
    assert message in called.err


def test_exported_graphs_of_a_recorded_run_are_scheduled(call: Call, here: Path) -> None:
    """t0 ─▶ t1 ─▶ t2, each of 1 s as measured."""
    from graphsched.records import save_run
    from tests.records.examples import case_of, chain, run_of

    recorded = save_run(run_of(case_of(chain(), label="a chain", measured_s=3.0)), here / "runs")
    for form, ending in (
        ("json", "json"),
        ("wfformat", "wfformat.json"),
        ("stg", "stg"),
        ("node-link", "node-link.json"),
    ):
        assert call("export", recorded, "--format", form, "--out", "out").code == 0
        data = call("schedule", f"out/exp-1-a-chain.{ending}", "--processors", 2, "--json").json
        assert data["makespan"] == pytest.approx(3.0, rel=1e-6)
    assert json.loads(Path("out/exp-1-a-chain.wfformat.json").read_text())["schemaVersion"] == "1.5"


def test_a_search_shows_on_a_terminal_how_far_it_is(
    call: Call, stg: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The scheduler runs on a thread of its own, and is heard all the same."""
    from rich.progress import Progress as Bar

    from graphsched.schedulers.asking.progress import Progress, report
    from graphsched.schedulers.heft import heft

    shown = []

    def searching(work, platform, costs):
        report(Progress("searching", 0.5, 7.0, 4.0))
        return heft(work, platform, costs)

    monkeypatch.setattr(registry, "_REGISTERED", registry._REGISTERED | {"searching": searching})
    monkeypatch.setattr(Bar, "update", lambda self, task, **figures: shown.append(figures))
    words = ("schedule", stg, "--processors", 2, "--scheduler", "searching")
    assert call(*words).code == 0
    assert shown == []
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert call(*words).code == 0
    assert shown == [{"description": "searching: 7, bound 4", "completed": 0.5}]
