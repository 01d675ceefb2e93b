"""Which recorded cases stand in one row, and what is said of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsched.platform import Device
from graphsched.records import CaseRecord, Setup, record_baseline
from graphsched.records.modes import Row, comparable, side_by_side
from graphsched.records.ratios import summary
from tests.records.examples import PLATFORM, SETUP, case_of, chain, run_of, two

FASTER = Device("cuda:0", "cuda", "a faster GPU")


def modes(eager_s: float = 3.0, graph_s: float = 2.0, *, label: str = "one GPU", **more) -> tuple[CaseRecord, ...]:
    """The chain in both modes; predictions are right."""
    times = (("eager", eager_s), ("graph", graph_s))
    return tuple(case_of(chain(), label=label, mode=m, predicted_s=s, measured_s=s, **more) for m, s in times)


def only_row(*cases: CaseRecord) -> Row:
    (row,) = comparable(side_by_side([run_of(*cases)]))
    return row


def test_modes_come_in_their_order_whatever_was_recorded_first():
    eager, graph = modes()
    assert list(only_row(graph, eager).ways) == ["eager", "graph"]


def test_rows_come_in_recorded_order():
    cases = [case for label in ("b", "a", "c") for case in modes(label=label)]
    assert [row.label for row in side_by_side([run_of(*cases)])] == ["b", "a", "c"]


@pytest.mark.parametrize(
    "changes",
    [
        {"work": two()},
        {"label": "two GPUs"},
        {"scheduler": "round_robin", "lanes": 1},
        {"setup": Setup(SETUP.environment, replace(PLATFORM, name="other"))},
        {"setup": Setup(SETUP.environment, replace(PLATFORM, devices=(PLATFORM.devices[0], FASTER)))},
    ],
)
def test_what_differs_in_more_than_the_mode_is_another_row(changes):
    eager, _ = modes()
    graph = case_of(**{"work": chain(), "mode": "graph"} | changes)
    rows = side_by_side([run_of(eager, graph)])
    assert [list(row.ways) for row in rows] == [["eager"], ["graph"]]
    assert comparable(rows) == []


def test_options_are_part_of_what_is_held_against_each_other():
    cases = [case_of(chain(), scheduler="round_robin", mode=m, lanes=n) for n in (1, 2) for m in ("eager", "graph")]
    assert [dict(row.options) for row in comparable(side_by_side([run_of(*cases)]))] == [{"lanes": 1}, {"lanes": 2}]


def test_a_platform_measured_anew_is_the_same():
    eager, _ = modes()
    anew = Setup(SETUP.environment, replace(PLATFORM, cores=7), 0, SETUP.parameters)
    assert list(only_row(eager, case_of(chain(), mode="graph", setup=anew)).ways) == ["eager", "graph"]


def test_a_part_of_the_label_that_names_the_mode_does_not_count():
    cases = [case_of(chain(), label=f"LeNet, {mode} mode, 1 GPU", mode=mode) for mode in ("eager", "graph")]
    row = only_row(*cases)
    assert (row.label, list(row.ways)) == ("LeNet, 1 GPU", ["eager", "graph"])


def test_a_label_of_nothing_but_the_mode_stays():
    assert only_row(
        case_of(chain(), label="graph mode", mode="graph"),
        case_of(chain(), label="graph mode", mode="eager"),
    ).label == "graph mode"  # fmt: skip


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("plain PyTorch, small, 1 GPU", "plain PyTorch"),
        ("small, DDP, 1 GPU", "DDP"),
        ("plain PyTorch, large, 1 GPU", None),
        ("plain PyTorch, small, 2 GPUs", None),
        ("small, 1 GPU", None),
        ("plain PyTorch", None),
    ],
)
def test_code_of_others_stands_beside_the_same_problem(label, name):
    row = only_row(*modes(label="heft, small, 1 GPU"), record_baseline(SETUP, label, (1.0,)))
    assert list(row.others) == ([name] if name else [])


def test_further_parts_of_a_label_say_how_a_case_was_run_unless_code_of_others_has_them_too():
    """Steps are held against steps, by whatever way gradients are summed, and an accuracy against nothing."""
    baselines = [
        record_baseline(SETUP, label, (9.0,))
        for label in ("DDP, 1 GPU", "DDP, 2 GPUs", "accuracy, plain PyTorch, 1 GPU")
    ]
    labels = ("one graph, gather, 2 GPUs", "accuracy, one graph, 2 GPUs", "accuracy, one graph, 1 GPU")
    rows = side_by_side([run_of(*(case for label in labels for case in modes(label=label)), *baselines)])
    assert [list(row.others) for row in rows] == [["DDP"], [], ["plain PyTorch"]]


def test_parts_that_code_of_others_has_in_another_experiment_alone_do_not_count():
    here = run_of(*modes(label="accuracy, one graph, 1 GPU"), record_baseline(SETUP, "DDP, 1 GPU", (9.0,)))
    there = run_of(record_baseline(SETUP, "accuracy, plain PyTorch, 1 GPU", (9.0,)), experiment="other")
    assert [list(row.others) for row in side_by_side([here, there])] == [["DDP"]]


def with_devices(*models: str) -> Setup:
    """A platform of the same name with a CPU and GPUs of these models."""
    names = ("cpu", *(f"cuda:{i}" for i in range(len(models) - 1)))
    devices = tuple(
        Device(name, "cpu" if name == "cpu" else "cuda", model) for name, model in zip(names, models, strict=True)
    )
    return replace(SETUP, platform=replace(PLATFORM, devices=devices))


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        (("Xeon, 32 threads", "H200"), ("Xeon, 64 threads", "H200"), "cpu: 32 threads or 64 threads"),
        (("Xeon, 64 threads", "H200"), ("Xeon, 32 threads", "H200"), "cpu: 32 threads or 64 threads"),
        (("Xeon", "H200"), ("Xeon", "H100"), "cuda:0: H100 or H200"),
        (("Xeon", "H200"), ("Xeon", "H200", "H200"), "cuda:1: H200 or none"),
        (("Xeon", "H200"), ("Xeon", "H200"), ""),
    ],
)
def test_what_was_recorded_on_other_devices_is_known_and_how_they_differ(one, other, difference):
    eager, graph = (case_of(chain(), mode=m, setup=with_devices(*d)) for m, d in (("eager", one), ("graph", other)))
    rows = side_by_side([run_of(eager, graph)])
    assert [row.other_devices for row in rows] == ([difference] * 2 if difference else [""])


def test_code_of_others_may_have_been_recorded_on_other_devices_too():
    baseline = record_baseline(with_devices("Xeon, 64 threads", "H200"), "DDP, 1 GPU", (9.0,))
    case = case_of(chain(), label="one graph, 1 GPU", setup=with_devices("Xeon, 32 threads", "H200"))
    (row,) = side_by_side([run_of(case, baseline)])
    assert (row.others, row.elsewhere) == ({}, [baseline])


@pytest.mark.parametrize(
    "changes",
    [
        {"work": two()},
        {"mode": "eager"},
        {"label": "two GPUs"},
        {"scheduler": "round_robin", "lanes": 1},
        {"setup": replace(SETUP, platform=replace(PLATFORM, name="other"))},
    ],
)
def test_what_differs_in_more_than_mode_and_devices_or_not_in_the_mode_is_no_other_way(changes):
    graph = case_of(**{"work": chain(), "mode": "graph", "setup": with_devices("", "H200")} | changes)
    assert not any(row.elsewhere for row in side_by_side([run_of(modes()[0], graph)]))


def test_code_of_others_with_other_parameters_or_of_another_platform_does_not():
    cases = modes(label="small, 1 GPU")
    setups = (Setup({}, PLATFORM, 0, {"sizes": (3,)}), Setup({}, replace(PLATFORM, name="other"), 0, SETUP.parameters))
    for setup in setups:
        assert not only_row(*cases, record_baseline(setup, "plain, small, 1 GPU", (1.0,))).others


def test_code_of_others_is_held_against_the_best_mode():
    row = only_row(*modes(3.0, 2.0, label="small, 1 GPU"), record_baseline(SETUP, "plain, small, 1 GPU", (4.0,)))
    assert row.best == "graph"
    assert list(row.pairs()) == [("eager", "graph"), ("plain", "graph")]
    assert row.ratio("plain", "graph") == 2.0
    assert row.predicted_ratio("plain", "graph") is None
    assert row.agrees("plain", "graph") is None


def test_of_a_case_in_several_runs_the_last_counts():
    (row,) = side_by_side([run_of(*modes(3.0)), run_of(*modes(5.0))])
    assert row.ratio("eager", "graph") == 2.5


def test_cases_without_a_measured_time_are_left_out():
    eager, graph = modes()
    assert list(side_by_side([run_of(eager, replace(graph, measured_s=None))])[0].ways) == ["eager"]


@pytest.mark.parametrize(
    ("predicted", "measured", "spread", "agrees"),
    [
        ((3.0, 2.0), (3.0, 2.0), 0.0, True),
        ((2.0, 3.0), (3.0, 2.0), 0.0, False),
        ((2.0, 3.0), (2.0, 3.0), 0.0, True),
        ((3.0, 2.0), (1.005, 1.0), 0.0, None),
        ((3.0, 2.0), (1.1, 1.0), 0.06, None),
        ((3.0, 2.0), (1.2, 1.0), 0.06, True),
    ],
)
def test_whether_the_prediction_names_the_faster_mode(predicted, measured, spread, agrees):
    row = only_row(
        *(
            case_of(chain(), mode=mode, predicted_s=p, measured_s=m, spread=spread)
            for mode, p, m in zip(("eager", "graph"), predicted, measured, strict=True)
        )
    )
    assert row.agrees("eager", "graph") is agrees
    assert row.noisy() == (spread > 0.02)


def test_means_are_geometric_by_pair_and_scheduler():
    fast, slow = modes(4.0, 1.0, label="a"), modes(1.0, 1.0, label="b")
    other = modes(2.0, 1.0, label="c", scheduler="sequential")
    found = summary(comparable(side_by_side([run_of(*fast, *slow, *other)])))
    assert [(part["scheduler"], part["cases"]) for part in found] == [(None, 3), ("one_stream", 2), ("sequential", 1)]
    assert [part["measured"] for part in found] == pytest.approx([2.0, 2.0, 2.0])
    assert [part["predicted"] for part in found] == pytest.approx([2.0, 2.0, 2.0])
    assert [(part["judged"], part["agree"]) for part in found] == [(2, 2), (1, 1), (1, 1)]


def test_no_mean_prediction_where_one_is_missing():
    eager, graph = modes(label="a")
    rows = side_by_side([run_of(eager, graph, replace(eager, label="b", predicted_s=None), replace(graph, label="b"))])
    assert [part["predicted"] for part in summary(rows)] == [None, None]


def test_code_of_others_is_summed_over_best_modes():
    rows = []
    for label, eager_s, graph_s in (("a", 1.0, 4.0), ("b", 4.0, 1.0)):
        rows += [*modes(eager_s, graph_s, label=f"{label}, 1 GPU")]
        rows += [record_baseline(SETUP, f"plain, {label}, 1 GPU", (2.0,))]
    found = summary(side_by_side([run_of(*rows)]))
    assert [(part["of"], part["to"], part["cases"]) for part in found] == [
        ("eager", "graph", 2),
        ("eager", "graph", 2),
        ("plain", "best mode", 2),
        ("plain", "best mode", 2),
    ]
    assert found[2]["measured"] == pytest.approx(2.0)
    assert found[2]["predicted"] is None


@given(st.permutations(range(4)))
def test_the_order_of_files_changes_no_row(order: list[int]) -> None:
    """Cases that are all different stand in the same rows, whatever comes first."""
    cases = [*modes(label="a"), *modes(label="b")]
    rows = side_by_side([run_of(cases[k]) for k in order])
    assert {(row.label, tuple(row.ways), row.ratio("eager", "graph")) for row in rows} == {
        ("a", ("eager", "graph"), 1.5),
        ("b", ("eager", "graph"), 1.5),
    }
