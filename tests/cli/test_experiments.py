"""``list``, ``predict`` and ``run``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata

import pytest

import graphsched
from graphsched.records import load_run
from graphsched.schedulers import registry

KEYS = {"label", "scheduler", "mode", "predicted_s", "measured_s", "spread", "reported_s", "error"}
PREDICT = ("predict", "pair", "--platform", "two.json")
RUN = ("run", "pair", "--platform", "two.json", "--repeats", "4", "--out", "out")


def test_list_names_what_is_there(call, here):
    (found,) = call("list", "--json").json["experiments"]
    assert (found["name"], found["title"], found["source"]) == ("pair", "Multiply on two devices.", "a book")
    assert found["needs"] == "2 accelerators"
    assert found["parameters"] == {"size": 8, "fail": False}
    called = call("list", "experiments/pair.py")
    assert called.code == 0
    assert "Multiply on two devices." in called.out
    assert "size=8 fail=False" in called.out


def test_list_goes_on_after_a_broken_file(call, here):
    (here / "experiments" / "broken.py").write_text("def f(:\n")
    called = call("list")
    assert called.code == 2
    assert "Multiply on two devices." in called.out
    assert called.err.startswith("error: experiments/broken.py:1: syntax error")


def test_a_prediction_has_the_keys_that_are_relied_on(call, here):
    called = call(*PREDICT, "--json")
    assert called.code == 0
    assert called.err == ""
    data = called.json
    assert (data["experiment"], data["platform"]) == ("pair", "two")
    assert [case["label"] for case in data["cases"]] == ["sequential, 2 workers", "heft, 2 workers", "plain PyTorch"]
    first, _, plain = data["cases"]
    assert first.keys() >= KEYS
    assert first["predicted_s"] > 0
    assert first["estimated"] == ["mm_0", "mm_1"]
    assert (first["measured_s"], first["spread"], first["error"], first["reported_s"]) == (None, None, None, 0.5)
    assert (plain["predicted_s"], plain["scheduler"], plain["mode"]) == (None, None, "baseline")


def test_a_case_without_tasks_is_predicted_too(call, here):
    """Its plan has no action; the thread still learns that all is over."""
    words = "yield gs.Case('nothing', gs.Workload(), scheduler='heft')"
    code = f"import graphsched as gs\n\n\n@gs.experiment()\ndef empty(platform):\n    {words}\n"
    (here / "experiments" / "empty.py").write_text(code)
    (case,) = call("predict", "empty", "--platform", "two.json", "--json").json["cases"]
    assert case["predicted_s"] >= 0.0
    assert case["estimated"] == []


def test_a_prediction_is_the_same_to_the_byte(here):
    printed = []
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"}
        words = [sys.executable, "-m", "graphsched", *PREDICT, "--json"]
        printed.append(subprocess.run(words, capture_output=True, env=environment, check=True).stdout)
    assert printed[0] == printed[1]


def test_estimates_are_marked_in_the_table(call, here):
    out = call(*PREDICT).out
    assert "~" in out
    assert "~ rests on costs that are estimates" in out


def test_parameters_and_the_filter_choose_what_is_predicted(call, here):
    data = call(*PREDICT, "--json", "-p", "size=16", "--cases", "heft").json
    assert data["parameters"] == {"size": 16, "fail": False}
    assert [case["label"] for case in data["cases"]] == ["heft, 2 workers"]


MIXED = """
import torch
import graphsched as gs

@gs.experiment(source="a test")
def mixed(platform):
    \"\"\"One task on a GPU, one on the CPU.\"\"\"
    for device in ("cuda:0", "cpu"):
        work = gs.Workload()
        work.task(torch.neg, work.input("x", torch.ones(2), device=device), name=f"on-{device}", device=device)
        yield gs.Case(device, work, scheduler="one_stream")
"""


def test_graph_mode_leaves_out_what_no_graph_can_hold_and_says_so(call, here):
    (here / "mixed.py").write_text(MIXED)
    words = ("predict", "mixed.py", "--platform", "h200-x1", "--mode", "graph", "--json")
    data = call(*words).json
    assert [(case["label"], case["mode"]) for case in data["cases"]] == [("cuda:0", "graph")]
    assert data["notes"][0].startswith("left out: case 'cpu': graph mode needs tasks on GPUs")
    called = call(*words, "--cases", "cpu")
    assert called.code == 2
    assert "no case can be run in graph mode" in called.err
    assert "this plan has 'on-cpu'" in called.err


def test_a_prediction_can_be_drawn(call, here):
    assert call(*PREDICT, "--out", "pictures").code == 0
    names = sorted(path.name for path in (here / "pictures").iterdir())
    assert names == [
        "pair-1-sequential-2-workers.perfetto.json",
        "pair-1-sequential-2-workers.png",
        "pair-2-heft-2-workers.perfetto.json",
        "pair-2-heft-2-workers.png",
    ]


def test_a_run_is_predicted_measured_recorded_and_drawn(call, here):
    called = call(*RUN, "--json")
    assert called.code == 0, called.err
    data = called.json
    first, _, plain = data["cases"]
    assert first.keys() >= KEYS
    assert first["error"] == pytest.approx(first["predicted_s"] / first["measured_s"] - 1)
    assert first["estimated"] == []
    assert plain["measured_s"] > 0
    assert (plain["predicted_s"], plain["error"], plain["metrics"]) == (None, None, {"peak_bytes": 7})
    assert data["files"][0] == "out/pair.json"
    assert all((here / file).is_file() for file in data["files"])
    assert {file.rpartition(".")[2] for file in data["files"]} == {"json", "png"}

    recorded = load_run(here / "out" / "pair.json")
    bounds = [case.pop("lower_bound_s") for case in data["cases"]]
    assert [bound is not None for bound in bounds] == [True, True, False]
    assert [case.figures() for case in recorded.cases] == data["cases"]
    case = recorded.cases[0]
    assert len(case.samples_s) == 4
    assert case.repredict().makespan_s == case.predicted_s
    assert case.setup.environment["torch"]
    assert case.setup.environment["graphsched"] == graphsched.__version__
    assert case.setup.parameters == {"size": 8, "fail": False}


def test_a_case_that_fails_does_not_stop_the_others(call, here):
    called = call(*RUN, "--json", "-p", "fail=true")
    assert called.code == 1
    cases = called.json["cases"]
    assert [case["measured_s"] is not None for case in cases] == [True, False, True]
    assert "out of luck" in cases[1]["failure"]
    assert "failed: heft, 2 workers" in called.err
    assert [case.label for case in load_run(here / "out" / "pair.json").cases] == [
        "sequential, 2 workers",
        "plain PyTorch",
    ]
    assert not list((here / "out").glob("pair-2-*"))


ODD = """
import sys
import graphsched as gs

def draw(platform, folder):
    raise RuntimeError("no pen")

def ends():
    sys.exit(0)

def figures():
    import beside
    return {"loss": beside.LOSS}

@gs.experiment(pictures=draw)
def odd(platform, exits: bool = False, limit: float = 1.0):
    if exits:
        yield gs.Case("ends", baseline=ends)
    yield gs.Case("plain", baseline=int, metrics=figures)

@gs.experiment()
def alike(platform, mode: str = ""):
    work = gs.Workload()
    work.task(int, name="a", outputs=[], device="cpu", duration_s=1.0)
    yield gs.Case("x", work, scheduler="one_stream", mode=mode or None)
    yield gs.Case("x", work, scheduler="one_stream", mode="eager")
"""


@pytest.fixture
def odd(here):
    """Experiments ``odd`` and ``alike`` in ``odd/odd.py``, with a module ``beside`` that is imported while it runs."""
    (here / "odd").mkdir()
    (here / "odd" / "odd.py").write_text(ODD)
    (here / "odd" / "beside.py").write_text("LOSS = float('nan')")
    yield "odd/odd.py::odd"
    sys.modules.pop("beside", None)


def test_a_script_that_exits_is_a_case_that_fails(call, here, odd):
    """Else the command would end as if all were done, with the cases behind it lost."""
    called = call("run", odd, *RUN[2:], "--no-pictures", "--json", "-p", "exits=true")
    assert called.code == 1
    assert [case.get("failure") for case in called.json["cases"]] == ["SystemExit: 0", None]


def test_numbers_that_json_has_not_are_null(call, here, odd):
    """Losses of a training that diverged, a limit without end; what code imports while it runs lies beside it."""
    called = call("run", odd, *RUN[2:], "--no-pictures", "--json", "-p", "limit=inf")
    assert called.code == 0, called.err
    assert called.json["cases"][0]["metrics"] == {"loss": None}
    assert called.json["parameters"]["limit"] is None


def test_pictures_that_fail_are_told_with_what_was_written(call, here, odd):
    called = call("run", odd, *RUN[2:])
    assert called.code == 1
    assert "pictures of experiment 'odd' cannot be drawn: RuntimeError: no pen; what was measured is in" in called.err
    assert len(load_run(here / "out" / "odd.json").cases) == 1


def test_cases_that_become_one_in_the_mode_asked_for_are_refused(call, here, odd):
    """One would take the other's place in the recorded run."""
    words = ("predict", "odd/odd.py::alike", "--platform", "two.json", "--mode")
    called = call(*words, "eager")
    assert called.code == 2
    assert "two cases 'x' with scheduler 'one_stream' in eager mode: labels must differ" in called.err
    assert call(*words, "eager", "-p", "mode=graph").code == 0


def test_a_run_adds_to_what_is_recorded(call, here):
    call(*RUN, "--cases", "sequential")
    call(*RUN, "--cases", "heft")
    labels = [case.label for case in load_run(here / "out" / "pair.json").cases]
    assert labels == ["sequential, 2 workers", "heft, 2 workers"]


def test_an_interrupt_keeps_the_cases_that_are_done(call, here, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("graphsched.executors.time_callable", interrupted)
    called = call(*RUN)
    assert (called.code, called.out) == (130, "")
    assert called.err.splitlines()[-1] == "interrupted"
    labels = [case.label for case in load_run(here / "out" / "pair.json").cases]
    assert labels == ["sequential, 2 workers", "heft, 2 workers"]


def test_a_damaged_record_is_found_before_anything_runs(call, here):
    (here / "out").mkdir()
    (here / "out" / "pair.json").write_text('{"schema": 1, "cas')
    called = call(*RUN)
    assert called.code == 2
    assert "pair.json is no complete JSON file" in called.err
    assert "[1]" not in called.err


def test_gpus_that_are_not_here_cannot_be_run_on(call, here):
    platform = json.loads((here / "two.json").read_text())
    platform["devices"].append(platform["devices"][0] | {"name": "cuda:99", "kind": "cuda"})
    (here / "two.json").write_text(json.dumps(platform))
    called = call(*RUN, "--out", "new")
    assert called.code == 2
    assert "platform 'two' has cuda:99" in called.err
    assert not (here / "new").exists()


def test_a_graph_of_durations_cannot_be_run(call, here):
    (here / "experiments" / "bare.py").write_text(
        "import networkx as nx\nimport graphsched as gs\n@gs.experiment()\ndef bare(platform):\n"
        "    graph = nx.DiGraph()\n    graph.add_node('a', duration_s=0.25)\n"
        "    yield gs.Case('bare', gs.Workload.from_graph(graph))\n"
    )
    assert call("predict", "bare", "--platform", "two.json", "--json").json["cases"][0]["predicted_s"] >= 0.25
    called = call("run", "bare", "--platform", "two.json", "--out", "out")
    assert called.code == 2
    assert "use predict instead of run" in called.err


def test_random_numbers_are_the_same_every_time(call, here):
    (here / "experiments" / "luck.py").write_text(
        "import random\nimport networkx as nx\nimport numpy\nimport torch\nimport graphsched as gs\n"
        "@gs.experiment()\ndef luck(platform):\n    graph = nx.DiGraph()\n"
        "    for i, r in enumerate((random.random(), numpy.random.rand(), torch.rand(1).item())):\n"
        "        graph.add_node(f't{i}', duration_s=r)\n    yield gs.Case('luck', gs.Workload.from_graph(graph))\n"
    )
    first, second = (call("predict", "luck", "--platform", "two.json", "--json").out for _ in range(2))
    assert first == second


def test_a_wrong_option_is_found_before_anything_runs(call, here):
    text = (here / "experiments" / "pair.py").read_text()
    text = text.replace(
        "scheduler=scheduler,", "scheduler=scheduler, options={'heft': {'lanse': 2}}.get(scheduler, {}),"
    )
    (here / "experiments" / "pair.py").write_text(text)
    called = call(*RUN)
    assert called.code == 2
    assert "no option 'lanse'" in called.err
    assert "[1]" not in called.err
    assert not list((here / "out").iterdir())


def test_a_wrong_scheduler_is_reported_with_its_case(call, tmp_path):
    (tmp_path / "odd.py").write_text(
        "import graphsched as gs, torch\n"
        "@gs.experiment(source='here')\n"
        "def odd(platform):\n"
        "    work = gs.Workload()\n"
        "    work.task(torch.relu, work.input('x', torch.rand(2)), name='y')\n"
        "    yield gs.Case('the odd one', work, scheduler='hefty')\n"
    )
    done = call("predict", tmp_path / "odd.py", "--platform", "h200-x1")
    assert done.code == 2
    assert "case 'the odd one'" in done.err
    assert "hefty" in done.err


def test_several_modes_in_one_go(call, here):
    """Each case once in each mode; pictures of graph mode lie beside those of eager mode; code of others once."""
    (here / "mixed.py").write_text(f"{MIXED}    yield gs.Case('plain', baseline=list)\n")
    words = ("predict", "mixed.py", "--platform", "h200-x1", "--out", "pictures")
    data = call(*words, "--mode", "eager, graph", "--json").json
    assert [(case["label"], case["mode"]) for case in data["cases"]] == [
        ("cuda:0", "eager"),
        ("cuda:0", "graph"),
        ("cpu", "eager"),
        ("plain", "baseline"),
    ]
    assert sorted(path.name for path in (here / "pictures").glob("*.png")) == [
        "mixed-1-cuda-0-graph.png",
        "mixed-1-cuda-0.png",
        "mixed-2-cpu.png",
    ]
    assert {here / name for name in data["files"]} == set((here / "pictures").iterdir())
    trace = json.loads((here / "pictures" / "mixed-1-cuda-0-graph.perfetto.json").read_text())
    assert trace["otherData"]["title"] == "cuda:0, graph mode"


def test_a_case_with_a_mode_of_its_own_stands_once(call, here):
    (here / "mixed.py").write_text(MIXED.replace("scheduler=", "mode='eager', scheduler="))
    data = call("predict", "mixed.py", "--platform", "h200-x1", "--mode", "eager,graph", "--json").json
    assert [(case["label"], case["mode"]) for case in data["cases"]] == [("cuda:0", "eager"), ("cpu", "eager")]


def test_an_unknown_mode_among_several_is_named(call, here):
    called = call("predict", "pair", "--platform", "two.json", "--mode", "eager,grpah")
    assert called.code == 2
    assert called.err == "error: no mode 'grpah': one of eager, graph, distributed, or several between commas\n"


BAD = """
import torch
import graphsched as gs
from graphsched.errors import CostError
from graphsched.schedulers import register

def raises(work, platform, costs):
    raise KeyError("lost")

def refuses(work, platform, costs):
    raise CostError("no cost of that")

def takes(work, platform, costs):
    work.graph.remove_node(list(work.graph)[-1])

def endless(work, platform, costs, *, speed: int = 1):
    while True:
        pass

for each in (raises, refuses, takes, endless):
    register(f"bad_{each.__name__}")(each)

@gs.experiment()
def bad(platform, schedulers: tuple[str, ...] = ("heft",), speed: int = 0):
    work = gs.Workload()
    x = work.input("x", torch.ones(2, 2))
    work.task(torch.mm, x, work.task(torch.mm, x, x, name="a"), name="b")
    for name in schedulers:
        yield gs.Case(f"by {name}", work, scheduler=name, options={"speed": speed} if speed else {})
"""


@pytest.fixture
def bad(here, monkeypatch):
    """Schedulers that fail in four ways, and an experiment that asks them; they are forgotten afterwards."""
    monkeypatch.setattr(registry, "_REGISTERED", dict(registry._REGISTERED))
    (here / "experiments" / "bad.py").write_text(BAD)
    return ("bad", "--platform", "two.json", "--time-limit", 0.5)


ALL_BAD = "bad_raises,bad_refuses,bad_takes,bad_endless"
TOLD = [
    "left out: case 'by bad_raises': scheduler 'bad_raises' failed: KeyError: 'lost'",
    "left out: case 'by bad_refuses': no cost of that",
    "left out: case 'by bad_takes': scheduler 'bad_takes' changed the workload",
    "left out: case 'by bad_endless': scheduler 'bad_endless' was not done after 0.5 s",
]


@pytest.mark.parametrize("command", ["predict", "run"])
def test_a_scheduler_that_fails_is_told_and_hides_no_other(call, bad, command):
    more = ("--out", "out", "--repeats", 4, "--no-pictures") if command == "run" else ()
    called = call(command, *bad, *more, "-p", f"schedulers=heft,{ALL_BAD},etf", "--json")
    assert called.code == 0, called.err
    assert [case["label"] for case in called.json["cases"]] == ["by heft", "by etf"]
    told = [note for note in called.json["notes"] if note.startswith("left out")]
    assert len(told) == len(TOLD)
    assert all(note.startswith(words) for note, words in zip(told, TOLD, strict=True))


def test_a_request_whose_schedulers_all_fail_is_wrong(call, bad):
    called = call("predict", *bad, "-p", f"schedulers={ALL_BAD}")
    assert (called.code, called.out) == (2, "")
    lines = called.err.splitlines()
    assert lines[0] == "error: no case can be run in eager mode"
    assert all(line.startswith(words) for line, words in zip(lines[1:], TOLD, strict=True))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-p", "schedulers=heft,hefty"), "case 'by hefty': no scheduler 'hefty': did you mean 'heft'?"),
        (("-p", "schedulers=bad_endless,heft", "-p", "speed=2"), "scheduler 'heft' has no option 'speed'"),
        (("--time-limit", "0"), "'--time-limit': seconds above 0 are needed, got 0"),
    ],
)
def test_a_wrong_name_ends_the_request_whatever_else_there_is(call, bad, words, message):
    called = call("predict", *bad, *words)
    assert (called.code, called.out) == (2, "")
    assert message in called.err


def test_a_scheduler_that_cannot_be_loaded_hides_no_other(call, bad, monkeypatch):
    lost = metadata.EntryPoint("lost", "no_such_package:scheduler", registry.GROUP)
    monkeypatch.setattr(registry, "_entry_points", lambda: {"lost": (lost,)})
    called = call("predict", *bad, "-p", "schedulers=lost,heft", "--json")
    assert [case["label"] for case in called.json["cases"]] == ["by heft"]
    assert called.json["notes"][0].startswith("left out: case 'by lost': scheduler 'lost' of entry point")
