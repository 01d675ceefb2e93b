"""Cases, experiments, their parameters and how they are found."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import numpy as np
import pytest

import graphsched as gs
from graphsched.cases import Parameter, discover, find, load_file
from graphsched.errors import ExperimentError, PlatformError
from graphsched.platform import Device, Platform

HERE = Platform("here", (Device("cpu", "cpu"), Device("worker:0", "worker")))

SIMPLE = '''
import graphsched as gs

@gs.experiment(source="a book", needs="nothing")
def simple(platform, size: int = 4, lanes: tuple[int, ...] = (1, 2), fast: bool = False, rate: float = 1.0):
    """Do little.

    More words.
    """
    yield gs.Case(f"size {size}", baseline=lambda: None)
'''


def idle() -> None:
    """A baseline that does nothing."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder ``experiments`` in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "experiments").mkdir()
    return tmp_path / "experiments"


# -- cases ------------------------------------------------------------------------------------


@pytest.mark.parametrize("both", [{}, {"work": gs.Workload(), "baseline": idle}])
def test_a_case_has_either_work_or_baseline(both):
    with pytest.raises(ExperimentError, match=r"'x' has (neither|both)"):
        gs.Case("x", **both)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"work": "work"}, "has work 'work': a gs.Workload is needed"),
        ({"work": gs.Workload(), "scheduler": max}, "has scheduler <built-in.*the name of a scheduler"),
        ({"work": gs.Workload(), "options": [("lanes", 2)]}, "has options .*a dict of"),
        ({"work": gs.Workload(), "reported_s": "0.5 s"}, "has reported_s '0.5 s': a number of seconds"),
        ({"work": gs.Workload(), "reported_s": float("nan")}, "has reported_s nan: seconds, 0 or more"),
        ({"work": gs.Workload(), "reported_s": -1}, "has reported_s -1.0: seconds, 0 or more"),
        ({"work": gs.Workload(), "metrics": {"a": 1}}, "has metrics {'a': 1}: a function"),
        ({"baseline": 3}, "has baseline 3: a function"),
        ({"baseline": idle, "group": 3}, "has group 3: a text"),
    ],
)
def test_a_field_of_another_type_is_named_with_its_case(fields, message):
    """What no recorded run can hold is found before anything is measured."""
    with pytest.raises(ExperimentError, match=f"case 'x' {message}"):
        gs.Case("x", **fields)


def test_a_figure_of_numpy_is_a_plain_number():
    """It is written into recorded runs."""
    assert type(gs.Case("x", baseline=idle, reported_s=np.float32(0.5)).reported_s) is float


def test_a_baseline_has_the_mode_baseline():
    case = gs.Case("x", baseline=idle)
    assert case.is_baseline
    assert case.mode == "baseline"
    assert case.in_mode("graph").mode == "baseline"
    with pytest.raises(ExperimentError, match="cannot have mode 'eager'"):
        gs.Case("x", baseline=idle, mode="eager")


def test_a_mode_of_its_own_wins_over_the_one_asked_for():
    assert gs.Case("x", gs.Workload()).in_mode("graph").mode == "graph"
    assert gs.Case("x", gs.Workload(), mode="eager").in_mode("graph").mode == "eager"
    with pytest.raises(ExperimentError, match="'quick'"):
        gs.Case("x", gs.Workload(), mode="quick")


@pytest.mark.parametrize("label", ["", "  ", 3])
def test_a_case_needs_a_label(label):
    with pytest.raises(ExperimentError, match="needs a label"):
        gs.Case(label, gs.Workload())


@pytest.mark.parametrize("name", ["label", "scheduler", "group"])
def test_halves_of_characters_are_refused_in_what_is_written(name):
    words = {"label": "x", "scheduler": "heft", "group": "ways"} | {name: "a\ud800b"}
    with pytest.raises(ExperimentError, match=rf"has '\\ud800' in its {name}, half of a character"):
        gs.Case(work=gs.Workload(), **words)


# -- parameters -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameter", "given", "value"),
    [
        (Parameter("n", int, 1), "12", 12),
        (Parameter("n", int, 1), 12, 12),
        (Parameter("x", float, 1.0), "1e-3", 1e-3),
        (Parameter("x", float, 1.0), 2, 2.0),
        (Parameter("s", str, "a"), "b", "b"),
        (Parameter("b", bool, True), "no", False),
        (Parameter("b", bool, False), "True", True),
        (Parameter("t", int, (1,), tuple), "1, 2,4", (1, 2, 4)),
        (Parameter("t", int, (1,), tuple), [3], (3,)),
        (Parameter("t", int, [1], list), "8", [8]),
        (Parameter("t", int, (1,), tuple), "", ()),
    ],
)
def test_values_are_read_as_the_parameters_type(parameter, given, value):
    read = parameter.read(given)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("parameter", "given"),
    [
        (Parameter("n", int, 1), "many"),
        (Parameter("n", int, 1), 1.5),
        (Parameter("n", int, 1), True),
        (Parameter("b", bool, True), "perhaps"),
        (Parameter("t", int, (1,), tuple), "1,b"),
        (Parameter("s", str, "a"), 3),
    ],
)
def test_a_value_of_another_type_is_named_with_what_is_needed(parameter, given):
    with pytest.raises(ExperimentError, match=f"parameter {parameter.name!r} is {given!r}: .* is needed"):
        parameter.read(given)


def test_parameters_come_from_the_signature():
    def made(platform, size: int = 4, rate: float = 1, name="a", many: list[int] = [], few=(1.5,)):  # noqa: B006
        yield gs.Case("x", baseline=idle)

    parameters = gs.experiment()(made).parameters
    assert [(p.name, p.kind, p.sequence) for p in parameters] == [
        ("size", int, None),
        ("rate", float, None),
        ("name", str, None),
        ("many", int, list),
        ("few", float, tuple),
    ]


def test_a_parameter_without_a_default_is_refused():
    def made(platform, size: int):
        yield gs.Case("x", baseline=idle)

    with pytest.raises(ExperimentError, match="'made': parameter 'size' has no default"):
        gs.experiment()(made)


def test_a_parameter_that_no_text_can_give_is_refused():
    def made(platform, table={}):  # noqa: B006
        yield gs.Case("x", baseline=idle)

    with pytest.raises(ExperimentError, match=r"'table' has default {}"):
        gs.experiment()(made)


# -- experiments ------------------------------------------------------------------------------


def test_an_unknown_parameter_lists_those_that_there_are(folder):
    (folder / "simple.py").write_text(SIMPLE)
    with pytest.raises(ExperimentError, match=r"no parameter 'sise'.*size=4, lanes=1,2, fast=False, rate=1"):
        find("simple").cases(HERE, sise=3)


def test_two_cases_of_one_label_are_refused_unless_scheduler_or_mode_differ():
    @gs.experiment()
    def twice(platform, other: str = "heft"):
        yield gs.Case("x", gs.Workload())
        yield gs.Case("x", gs.Workload(), scheduler=other)

    with pytest.raises(ExperimentError, match="two cases 'x'"):
        twice.cases(HERE)
    assert len(twice.cases(HERE, other="sequential")) == 2


def test_two_baselines_of_one_label_are_refused_whatever_their_schedulers():
    """Recorded runs know baselines by their label alone."""

    @gs.experiment()
    def twice(platform):
        yield gs.Case("x", baseline=idle)
        yield gs.Case("x", baseline=idle, scheduler="sequential")

    with pytest.raises(ExperimentError, match="two cases 'x' in baseline mode: labels must differ"):
        twice.cases(HERE)


def test_code_of_an_experiment_that_fails_is_named_with_its_line(folder):
    (folder / "bad.py").write_text(SIMPLE.replace("yield gs.Case", "size / 0\n    yield gs.Case"))
    with pytest.raises(ExperimentError, match=r"'simple' \(.*bad.py:10\): ZeroDivisionError"):
        find("simple").cases(HERE)


def test_an_experiment_that_exits_is_an_error():
    """Else the command would end without a word, as if all were done."""

    @gs.experiment()
    def script(platform):
        yield gs.Case("x", baseline=idle)
        sys.exit(0)

    with pytest.raises(ExperimentError, match=r"'script' \(.*\): SystemExit: 0"):
        script.cases(HERE)


def test_what_no_exception_is_fails_an_experiment_too():
    """Frameworks raise such things to end their own loops."""

    @gs.experiment()
    def cancelled(platform):
        yield gs.Case("x", baseline=idle)
        raise asyncio.CancelledError("over")

    with pytest.raises(ExperimentError, match=r"'cancelled' \(.*\): CancelledError: over"):
        cancelled.cases(HERE)


def test_an_interrupt_is_no_failure_of_an_experiment():
    @gs.experiment()
    def interrupted(platform):
        yield gs.Case("x", baseline=idle)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted.cases(HERE)


def test_errors_of_ours_pass_unchanged():
    @gs.experiment()
    def greedy(platform):
        platform.accelerators(7)
        yield gs.Case("x", baseline=idle)

    with pytest.raises(PlatformError, match="7 accelerators asked for"):
        greedy.cases(HERE)


def test_no_cases_and_things_that_are_no_cases_are_refused():
    @gs.experiment()
    def empty(platform):
        return []

    @gs.experiment()
    def wrong(platform):
        return [3]

    expected = r"yields no case with .* on platform .*, which has \d devices? besides the host: ask for what is there"
    with pytest.raises(ExperimentError, match=expected):
        empty.cases(HERE)
    with pytest.raises(ExperimentError, match="yields 3"):
        wrong.cases(HERE)


# -- discovery --------------------------------------------------------------------------------


def test_an_experiment_is_found_by_name_file_or_both(folder):
    (folder / "things.py").write_text(SIMPLE + SIMPLE.replace("simple", "other"))
    for name in ("simple", "experiments/things.py::simple"):
        found = find(name)
        assert (found.name, found.title, found.source, found.needs) == ("simple", "Do little.", "a book", "nothing")
        assert found.path == (folder / "things.py").resolve()
    with pytest.raises(ExperimentError, match="there are simple, other"):
        find("experiments/things.py")


def test_a_file_with_one_experiment_is_enough(folder):
    (folder / "simple.py").write_text(SIMPLE)
    assert find("experiments/simple.py").name == find("./experiments").name == "simple"


@pytest.mark.parametrize("look", [find, discover])
def test_an_empty_name_runs_no_file_of_the_folder_that_one_is_in(folder, look):
    """As where a variable of a shell is not set."""
    (folder.parent / "clean_up.py").write_text("raise SystemExit('all is gone')\n")
    with pytest.raises(ExperimentError, match="an empty text names no experiment: give its name, its file or"):
        look("")


def test_near_names_are_suggested(folder):
    (folder / "simple.py").write_text(SIMPLE)
    with pytest.raises(ExperimentError, match="no single experiment 'simpel': did you mean simple"):
        find("simpel")


def test_files_are_listed_in_order_and_those_with_an_underscore_left_out(folder):
    (folder / "b.py").write_text(SIMPLE.replace("simple", "one"))
    (folder / "a.py").write_text(SIMPLE.replace("simple", "two"))
    (folder / "_c.py").write_text("1 / 0")
    found = discover("experiments")
    assert [made.name for made in found.experiments] == ["two", "one"]
    assert not found.errors


def test_a_broken_file_does_not_hide_the_others(folder):
    (folder / "simple.py").write_text(SIMPLE)
    (folder / "broken.py").write_text("x = 1\ndef f(:\n")
    (folder / "lost.py").write_text("\n\nimport no_such_module_anywhere\n")
    (folder / "stopped.py").write_text("raise BaseException('over')\n")
    assert find("simple").name == "simple"
    found = discover("experiments")
    assert [made.name for made in found.experiments] == ["simple"]
    assert str(found.errors[0]) == "experiments/broken.py:2: syntax error: invalid syntax\n    def f(:"
    assert str(found.errors[1]).startswith("experiments/lost.py:3: cannot be loaded: ModuleNotFoundError")
    assert str(found.errors[2]) == "experiments/stopped.py:1: cannot be loaded: BaseException: over"
    with pytest.raises(ExperimentError, match=r"not loaded: experiments/broken.py:2"):
        find("missing")


def test_a_name_that_is_there_twice_lists_both_places(folder):
    (folder / "a.py").write_text(SIMPLE)
    (folder / "b.py").write_text(SIMPLE)
    with pytest.raises(ExperimentError, match=r"more than once: .*a.py::simple, .*b.py::simple"):
        find("simple")


def test_experiments_import_what_lies_beside_them_and_beside_their_folder(folder):
    (folder / "_helper_beside.py").write_text("WORD = 'beside'\n")
    (folder.parent / "helper_above.py").write_text("WORD = 'above'\n")
    (folder / "simple.py").write_text(
        "import _helper_beside, helper_above\nassert _helper_beside.WORD + helper_above.WORD == 'besideabove'\n"
        + SIMPLE
    )
    before = list(sys.path)
    assert find("simple").name == "simple"
    assert sys.path == before
    for name in ("_helper_beside", "helper_above"):
        del sys.modules[name]


def test_imported_experiments_belong_to_the_file_that_defines_them(folder):
    (folder / "one_of_two.py").write_text(SIMPLE)
    (folder / "two_of_two.py").write_text(
        "from experiments.one_of_two import simple\n" + SIMPLE.replace("simple", "own")
    )
    assert [made.name for made in load_file(folder / "two_of_two.py")] == ["own"]


def test_files_of_the_same_name_are_different_modules(folder, tmp_path):
    (folder / "same_stem.py").write_text(SIMPLE)
    other = tmp_path / "elsewhere" / "same_stem.py"
    other.parent.mkdir()
    other.write_text(SIMPLE)
    (first,), (second,) = load_file(folder / "same_stem.py"), load_file(other)
    assert first.function.__module__ == "experiments.same_stem"
    assert second.function.__module__.startswith("experiments.same_stem_")
    assert sys.modules[first.function.__module__].simple.function is first.function


@pytest.mark.parametrize("name", ["nowhere", "nowhere.py", "nowhere.py::x", "no/where"])
def test_what_is_not_there_is_named(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ExperimentError, match=r"nowhere|no/where"):
        find(name)
