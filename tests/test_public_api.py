"""``import graphsched`` is light, and offers what it says."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import graphsched
from graphsched.errors import GraphschedError

HEAVY = ("torch", "matplotlib", "simpy", "typer", "rich", "graphsched.executors", "graphsched.calibration")


def _modules_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_import_loads_nothing_heavy() -> None:
    assert not _modules_after("import graphsched") & set(HEAVY)


def test_planning_needs_no_torch() -> None:
    code = "import graphsched as gs; gs.Workload, gs.Platform, gs.Plan, gs.Placement, gs.Costs, gs.Timeline, gs.Device"
    assert not _modules_after(code) & set(HEAVY)


def test_all_is_sorted_and_has_a_home_for_each_name() -> None:
    assert graphsched.__all__ == sorted(graphsched.__all__)
    assert graphsched.__all__ == list(graphsched._HOMES)
    assert dir(graphsched) == graphsched.__all__


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(graphsched.__file__).read_text(encoding="utf-8"))
    guarded = next(n for n in tree.body if isinstance(n, ast.If))
    seen = {
        alias.name: str(node.module).removeprefix("graphsched.")
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == graphsched._HOMES


@pytest.mark.parametrize("name", graphsched.__all__)
def test_every_name_resolves_and_is_no_module(name: str) -> None:
    assert importlib.util.find_spec(f"graphsched.{graphsched._HOMES[name]}") is not None
    thing = getattr(graphsched, name)
    assert callable(thing)
    assert importlib.util.find_spec(f"graphsched.{name}") is None, "a module of a public function's name hides it"


@pytest.mark.parametrize("name", ["collectives", "kvstore"])
def test_packages_of_functions_and_classes_load_when_they_are_used(name: str) -> None:
    loaded = _modules_after(f"import graphsched as gs; gs.{name}.__all__")
    assert f"graphsched.{name}" in loaded
    assert "torch" not in loaded
    assert f"graphsched.{name}" not in _modules_after("import graphsched")


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'graphsched' has no attribute 'Workloads'"):
        graphsched.Workloads  # noqa: B018


HERE = graphsched.Platform("here", (graphsched.Device("cpu", "cpu"),))
PLAN = graphsched.schedule(graphsched.Workload(), HERE)
EMPTY = graphsched.Platform("empty", ())
ONE_TASK = graphsched.Workload.from_dict(
    {"name": "one", "given": [], "tasks": [{"name": "a", "kind": "run", "duration_s": 1.0}], "kept": []}
)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: graphsched.schedule(None, HERE), "a NoneType was given: a workload is needed"),
        (lambda: graphsched.schedule(graphsched.Workload(), "h200-x1"), "platform is 'h200-x1': a gs.Platform is"),
        (lambda: graphsched.schedule(ONE_TASK, EMPTY), "platform 'empty' has no device to run tasks on: add one"),
        (lambda: graphsched.profile(None, HERE), "a NoneType was given: a workload is needed"),
        (lambda: graphsched.profile(graphsched.Workload(), "h200-x1"), "platform is 'h200-x1': a gs.Platform is"),
        (lambda: graphsched.profile(PLAN, repeats=0), "repeats is 0: a whole number, 1 or more"),
        (lambda: graphsched.profile(PLAN, repeats=1.5), "repeats is 1.5: a whole number, 1 or more"),
        (
            lambda: graphsched.predict(graphsched.Workload()),
            "a Workload was given: a plan is needed, which gs.schedule",
        ),
        (
            lambda: graphsched.execute(graphsched.Workload()),
            "a Workload was given: a plan is needed, which gs.schedule",
        ),
        (lambda: graphsched.explain(PLAN), "a Plan was given: a timeline is needed, which gs.predict and"),
        (lambda: graphsched.compare(PLAN, PLAN), "a Plan was given: a timeline is needed, which gs.predict and"),
        (lambda: graphsched.compare(graphsched.predict(PLAN), None), "a NoneType was given: a timeline is needed"),
        (lambda: graphsched.plot_gantt(PLAN), "a Plan was given: a timeline is needed, which gs.predict and"),
    ],
)
def test_what_belongs_to_another_step_is_refused_in_words(call: Callable[[], object], said: str) -> None:
    with pytest.raises(GraphschedError, match=said):
        call()
