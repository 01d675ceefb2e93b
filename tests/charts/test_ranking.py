"""The picture of schedulers by workloads: figures, order of the rows, and the lower bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsched.charts.ranking import plot_ranking
from graphsched.errors import OutputError

COLUMNS = {
    "LeNet": {"one_stream": (4.0, None), "heft": (2.0, None), "optimal": (None, None)},
    "stencil": {"one_stream": (30.0, 24.0), "heft": (1.0, 1.2)},
}


def texts(columns: object = None, bounds: dict[str, float | None] | None = None) -> list[str]:
    axes = plot_ranking(columns or COLUMNS, bounds or {}).axes[0]  # type: ignore[arg-type]
    return [text.get_text() for text in axes.texts]


def test_a_cell_is_the_time_over_the_fastest_predicted_and_measured() -> None:
    assert texts() == ["1.00", "2.00", "1.00 | 1.00", "30 | 20"]


def test_the_best_scheduler_stands_on_top_and_the_bound_below() -> None:
    axes = plot_ranking(COLUMNS, {"LeNet": 1.5}).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["heft", "one_stream", "lower bound"]
    assert texts(bounds={"LeNet": 1.5})[-1] == "0.75"


def test_the_fastest_are_bold_all_of_them() -> None:
    """Those that are told to be as fast; where none are told, the fastest alone."""
    columns = {"net": {"heft": (1.0, 1.0), "etf": (1.1, 1.01), "one_stream": (2.0, 3.0)}}
    for told, bold in (({"net": ["heft", "etf"]}, ["1.00 | 1.00", "1.10 | 1.01"]), ({}, ["1.00 | 1.00"])):
        shown = plot_ranking(columns, {}, fastest=told).axes[0].texts
        assert [text.get_text() for text in shown if text.get_weight() == "bold"] == bold


def test_columns_say_what_the_fastest_takes() -> None:
    axes = plot_ranking(COLUMNS, {}).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["LeNet\n2 s", "stencil\n1 s | 1.2 s"]


def test_what_one_workload_lacks_is_a_dash() -> None:
    assert "–" in texts({"a": {"heft": (1.0, None)}, "b": {"etf": (1.0, None)}})


def test_it_is_written_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        plot_ranking(COLUMNS, {}, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_nothing_to_draw() -> None:
    with pytest.raises(OutputError, match="nothing to draw"):
        plot_ranking({"a": {"heft": (None, None)}}, {})
