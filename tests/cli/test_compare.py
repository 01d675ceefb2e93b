"""``compare``: recorded cases side by side by mode."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.records import Setup, record_baseline, save_run
from tests.records.examples import PLATFORM, SETUP, case_of, chain, run_of, two

OTHER_SETUP = Setup({"torch": "2.14.0"}, PLATFORM, 0, SETUP.parameters)
FASTER = replace(PLATFORM, devices=(PLATFORM.devices[0], replace(PLATFORM.devices[1], model="faster GPU")))
FASTER_SETUP = replace(SETUP, platform=FASTER)
ELSEWHERE = Setup(SETUP.environment, replace(PLATFORM, name="desk"), 0, SETUP.parameters)


@pytest.fixture
def recorded(here):
    """``chain`` eager and graph beside plain PyTorch, ``two`` eager alone, in ``runs/exp.json``."""
    graph = case_of(chain(), label="chain, 1 GPU", mode="graph", predicted_s=2.2, measured_s=2.0, spread=0.05)
    cases = (
        case_of(chain(), label="chain, 1 GPU", predicted_s=3.3, measured_s=3.0),
        graph,
        record_baseline(SETUP, "plain PyTorch, chain, 1 GPU", (4.0,) * 5),
        case_of(two(), label="two, 1 GPU"),
    )
    return save_run(run_of(*cases), here / "runs")


def cells(out: str, label: str) -> list[str]:
    """The cells of the row that begins with `label`."""
    line = next(line for line in out.splitlines() if line.strip().startswith(label))
    return line.replace(label, "").split("  ")


def test_modes_stand_side_by_side(call, recorded):
    called = call("compare", recorded)
    assert called.code == 0
    found = [cell.strip() for cell in cells(called.out, "chain, 1 GPU") if cell.strip()]
    assert found == ["one_stream", "3 s", "3.3 s", "2 s !", "2.2 s", "4 s", "1.50 !", "1.50", "yes", "2.00 !"]
    assert "exp on bench: measured" in called.out
    assert "note: cases left out, as they were run in one way alone: 1" in called.out
    assert "! spread too wide to judge by" in called.out
    assert "two, 1 GPU" not in called.out


def test_mean_ratios_are_below(call, recorded):
    out = call("compare", recorded).out
    found = [cell.strip() for cell in cells(out, "eager ÷ graph               all") if cell.strip()]
    assert found == ["1", "1.50", "1.50", "1 of 1"]
    assert "plain PyTorch ÷ best mode" in out


def test_json(call, recorded):
    data = call("compare", recorded, "--json").json
    (row,) = data["rows"]
    assert (row["experiment"], row["platform"], row["label"]) == ("exp", "bench", "chain, 1 GPU")
    assert [(way["way"], way["mode"]) for way in row["ways"]] == [
        ("eager", "eager"),
        ("graph", "graph"),
        ("plain PyTorch", "baseline"),
    ]
    first, second = row["ratios"]
    assert (first["of"], first["to"], first["measured"], first["noisy"]) == ("eager", "graph", 1.5, True)
    assert (second["of"], second["to"], second["measured"]) == ("plain PyTorch", "graph", 2.0)
    assert (second["predicted"], second["agree"]) == (None, None)
    assert [part["scheduler"] for part in data["summary"]] == [None, "one_stream"] * 2


def test_modes_may_lie_in_several_files_and_folders(call, here):
    for mode in ("eager", "graph"):
        save_run(run_of(case_of(chain(), mode=mode)), here / mode)
    (row,) = call("compare", "eager/exp.json", "graph", "--json").json["rows"]
    assert [way["way"] for way in row["ways"]] == ["eager", "graph"]


def test_platforms_are_never_in_one_row_and_that_is_said(call, here):
    for setup in (SETUP, ELSEWHERE):
        cases = [case_of(chain(), mode=mode, setup=setup) for mode in ("eager", "graph")]
        save_run(run_of(*cases), here / setup.platform.name)
    data = call("compare", "bench", "desk", "--json").json
    assert [row["platform"] for row in data["rows"]] == ["bench", "desk"]
    assert data["notes"] == ["runs of 2 platforms (bench, desk), each beside its own alone"]


def test_different_software_and_different_workloads_are_said(call, here):
    cases = (
        case_of(chain(), label="same"),
        case_of(chain(), label="same", mode="graph", setup=OTHER_SETUP),
        case_of(chain(), label="other"),
        case_of(two(), label="other", mode="graph"),
        case_of(two(), label="alone"),
    )
    notes = call("compare", save_run(run_of(*cases), here), "--json").json["notes"]
    assert notes == [
        "cases left out, as they were run in one way alone: 3",
        "of these, with the same label in another mode but another workload: 2; run both modes again",
        "cases whose ways were run with different software: 1",
    ]


def test_what_was_recorded_on_other_devices_than_the_rest_is_said(call, here):
    cases = (
        *(case_of(chain(), label="same", mode=mode) for mode in ("eager", "graph")),
        case_of(chain(), label="apart"),
        case_of(chain(), label="apart", mode="graph", setup=FASTER_SETUP),
        case_of(two(), label="alone"),
    )
    assert call("compare", save_run(run_of(*cases), here), "--json").json["notes"] == [
        "cases left out, as they were recorded on other devices than the rest (cuda:0: GPU or faster GPU): 2",
        "cases left out, as they were run in one way alone: 1",
    ]


def test_where_all_was_recorded_on_other_devices_that_is_the_reason(call, here):
    cases = [case_of(chain(), mode=mode, setup=setup) for mode, setup in (("eager", SETUP), ("graph", FASTER_SETUP))]
    called = call("compare", save_run(run_of(*cases), here))
    assert called.code == 2
    assert "was run in two modes on the same devices (cuda:0: GPU or faster GPU), nor beside" in called.err


@pytest.mark.parametrize("columns", ["80", "200"])
def test_labels_and_figures_stay_readable_beside_many_columns(call, here, monkeypatch, columns):
    """Headings give way: they are broken, at spaces where that is enough."""
    monkeypatch.setenv("COLUMNS", columns)
    label = "one graph, gather, batch 256, 4 GPUs"
    others = [record_baseline(SETUP, f"somebody's {k}th train_batch, {label[11:]}", (4.0,)) for k in range(5)]
    cases = [case_of(chain(), label=label, mode=mode, spread=0.05) for mode in ("eager", "graph")]
    table = call("compare", save_run(run_of(*cases, *others), here)).out.partition("geometric")[0]
    assert "…" not in table
    assert [line[:17].strip() for line in table.splitlines() if line[:17].strip()][-3:] == [
        "one graph,",
        "gather, batch",
        "256, 4 GPUs",
    ]
    assert [line.count("4 s") for line in table.splitlines() if " one graph," in line] == [5]


def test_a_filter_chooses_cases(call, here):
    cases = [case_of(chain(n), label=f"chain {n}", mode=mode) for n in (2, 3) for mode in ("eager", "graph")]
    run = save_run(run_of(*cases), here)
    assert [row["label"] for row in call("compare", run, "--cases", "3", "--json").json["rows"]] == ["chain 3"]
    called = call("compare", run, "--cases", "GPU 9")
    assert called.code == 2
    assert "has 'GPU 9' in its label; there are:\n  chain 2\n  chain 3\n" in called.err


def test_a_picture_is_drawn_where_that_is_asked_for(call, here, recorded):
    called = call("compare", recorded, "--out", "all.png")
    assert (called.code, called.err) == (0, "written: all.png\n")
    assert (here / "all.png").read_bytes().startswith(b"\x89PNG")


def test_pictures_of_several_runs_name_them(call, here, recorded):
    save_run(run_of(case_of(chain()), case_of(chain(), mode="graph"), experiment="more"), here / "runs")
    assert call("compare", "runs", "--out", "all.svg").code == 0
    text = (here / "all.svg").read_text()
    assert "exp, bench: chain, 1 GPU (one_stream)" in text
    assert "more, bench: one GPU (one_stream)" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["two.json"], "is no recorded run but a platform"),
        (["experiments/pair.py"], "no complete JSON"),
        (["nowhere"], "there is no file or folder nowhere"),
        (["experiments"], "there is no recorded run in experiments: name files that 'graphsched run' wrote"),
        (["nowhere", "--out", "all.bmp"], "ends in .png, .svg or .pdf"),
    ],
)
def test_what_is_no_run_is_a_wrong_request(call, here, recorded, words, message):
    called = call("compare", *words)
    assert (called.code, called.out) == (2, "")
    assert message in called.err


@pytest.mark.parametrize(("mode", "missing"), [("eager", "graph"), ("graph", "eager")])
def test_one_mode_alone_is_told_what_to_run(call, here, mode, missing):
    run = save_run(run_of(case_of(chain(), mode=mode)), here)
    called = call("compare", run)
    assert called.code == 2
    assert f"(modes there: {mode}): call 'graphsched run exp --mode {missing}' too" in called.err


def test_estimates_are_marked(call, here):
    cases = [replace(case_of(chain(), mode=mode), estimated=("t0",)) for mode in ("eager", "graph")]
    out = call("compare", save_run(run_of(*cases), here)).out
    assert "~3.3 s" in out
    assert "~ rests on costs that are estimates" in out


def test_graph_mode_is_not_advised_where_there_is_no_gpu(call, here):
    """No plan can be run in it there."""
    alone = replace(SETUP, platform=replace(PLATFORM, devices=PLATFORM.devices[:1], links=(), capacities={}))
    run = save_run(run_of(record_baseline(alone, "plain PyTorch", (4.0,) * 5, reported_s=None)), here)
    assert "call 'graphsched run exp --mode distributed' too" in call("compare", run).err
