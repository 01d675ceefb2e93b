"""The demonstration: its sizes fit the experiments, and it leaves what it promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphsched import demo
from graphsched.cases import discover
from graphsched.errors import ExperimentError
from graphsched.platform import Device, Platform
from graphsched.records import load_run

CHECKOUT = Path(__file__).parents[1]
EXPERIMENT = '''
import torch
import graphsched as gs
from graphsched.errors import ExperimentError

@gs.experiment()
def tiny(platform, size: int = 512):
    """One product."""
    work = gs.Workload("tiny")
    x = work.input("x", torch.rand(size, size))
    work.task(torch.mm, x, x, name="mm", device=platform.accelerators(1)[0])
    yield gs.Case("one", work)

@gs.experiment(needs="two moons")
def lacking(platform):
    """What this host has not."""
    raise ExperimentError("no moon")
    yield

@gs.experiment()
def unknown(platform):
    """Without a size for the demonstration."""
    raise AssertionError
'''


@pytest.mark.parametrize("kind", ["cuda", "worker"])
def test_every_experiment_of_the_checkout_has_a_size(kind):
    found = discover(CHECKOUT / "experiments").experiments
    platform = Platform("p", (Device("cpu", "cpu"), Device(f"{kind}:0", kind)))
    assert found
    for experiment in found:
        assert demo.sizes(experiment, platform) is not None, experiment.name
    assert {experiment.name for experiment in found} == set(demo.SIZES)


def test_each_case_leaves_a_picture_a_trace_and_its_figures(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "tiny.py").write_text(EXPERIMENT)
    monkeypatch.setattr(demo, "SIZES", {"tiny": ({"size": 8}, {"size": 8}), "lacking": ({}, {})})
    assert demo.run_demo(Path("build/demo")) == 0
    names = sorted(path.name for path in Path("build/demo").iterdir())
    assert names == ["tiny-1-one.perfetto.json", "tiny-1-one.png", "tiny.json"]
    printed = capsys.readouterr()
    assert "predicted" in printed.out
    assert "unknown: no demonstration size" in printed.err
    assert "lacking: left out, for it needs two moons" in printed.err
    (case,) = load_run("build/demo/tiny.json").cases
    assert case.setup.parameters == {"size": 8}
    assert case.error is not None


def test_without_a_checkout_it_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ExperimentError, match="in a checkout of graphsched"):
        demo.run_demo(tmp_path / "out")
    assert not (tmp_path / "out").exists()
