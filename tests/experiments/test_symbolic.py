"""Row 9: networks that are the same in every way of calling them, curves of many calls, and plans from files."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

import experiments._calls as calls_module
import experiments._curves as curves_module
import experiments.symbolic as module
import graphsched as gs
from experiments._calls import missing_for_compile
from experiments._curves import LEAST_GAIN, Curve, Curves, crossing, measure, table
from experiments._networks import NETWORKS, example, workload
from experiments._networks import module as network
from experiments._reloading import reloaded
from experiments._shared import threads_of
from graphsched.errors import ExecutionError, ExperimentError, GraphschedWarning
from graphsched.executors import Program
from graphsched.schedulers import schedule
from models.lenet import SHAPES
from tests.experiments.small import cases, hand_written

WORKER = hand_written("worker", 1)


def labels(platform: gs.Platform, **params: Any) -> list[str]:
    return [case.label for case in module.symbolic.cases(platform, **({"calls": (1, 2)} | params))]


# -- networks --------------------------------------------------------------------------------


def test_lenet_has_the_parameters_of_the_text() -> None:
    shapes = {name: tuple(p.shape) for name, p in network("LeNet").named_parameters()}
    assert shapes == SHAPES
    given = dict(network("LeNet").named_parameters())
    assert all(not given[f"b{i}"].any() for i in (1, 2, 3, 4))
    assert float(given["W3"].detach().std()) == pytest.approx(0.01, rel=0.02)


def test_the_mlp_is_that_of_the_text() -> None:
    assert [tuple(p.shape) for p in network("MLP").parameters()] == [
        (256, 512),
        (256,),
        (128, 256),
        (128,),
        (2, 128),
        (2,),
    ]


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_the_same_every_time_and_leave_random_numbers_alone(name: str) -> None:
    before = torch.get_rng_state()
    first, second = network(name).state_dict(), network(name).state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_plan_returns_what_the_network_returns(name: str, batch: int) -> None:
    """To the bit, for the default input and for another, where PyTorch has as many threads as the plan."""
    plan = schedule(workload(name, batch, "worker:0"), WORKER, scheduler="one_stream")
    net, x = network(name), torch.rand(example(name, batch).shape)
    with Program(plan) as program, torch.no_grad(), threads_of(WORKER, "worker:0"):
        for found, expected in ((program.run(), net(example(name, batch))), (program.run(x=x), net(x))):
            assert [*map(torch.equal, found.values(), [expected])] == [True]


# -- curves ----------------------------------------------------------------------------------


def line(first_s: float, later_s: float, count: int = 50) -> Curve:
    return Curve(tuple(first_s + later_s * n for n in range(count)))


def test_crossings() -> None:
    plain = line(1.0, 1.0)
    assert crossing(plain, line(0.5, 0.5)) == 1
    assert crossing(plain, line(10.0, 0.5)) == 20  # behind until both took 10 s at the 19th
    assert crossing(plain, line(100.25, 0.5)) == 200  # 1 + n < 100.25 + n/2 until n = 198
    assert crossing(plain, line(1.0, 1.0)) is None
    assert crossing(plain, line(2.0, 1.0 - LEAST_GAIN / 2)) is None
    assert crossing(plain, line(2.0, 2.0)) is None


def test_a_crossing_is_the_last() -> None:
    """Ahead by chance at the second call, behind at the third."""
    assert crossing(Curve((1.0, 5.0, 6.0, 7.0)), Curve((2.0, 3.0, 6.5, 6.9))) == 4


@given(st.floats(0.5, 50), st.floats(0.1, 0.9))
def test_a_crossing_divides_calls_behind_from_calls_ahead(first_s: float, later_s: float) -> None:
    """Measured or not: of straight lines, the long ones say the same as the short ones."""
    short, long = (crossing(line(1.0, 1.0, n), line(first_s, later_s, n)) for n in (10, 1000))
    assert short is not None
    assert long is not None
    assert abs(short - long) <= 1
    assert math.isclose(long, max(1.0, 1 + (first_s - 1.0) / (1 - later_s)), abs_tol=1.001)


def test_later_calls_are_those_of_the_second_half() -> None:
    assert Curve((9.0, 12.0, 15.0, 16.0, 17.0, 18.0)).later_s == 1.0
    assert Curve((9.0,)).later_s == 9.0


def test_the_first_call_has_the_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that only compiling (5 s), calling (1 s) and waiting (0.25 s) move."""
    now = [100.0]

    def take(seconds: float) -> torch.Tensor:
        now[0] += seconds
        return torch.full((), now[0])

    @contextlib.contextmanager
    def making() -> Iterator[Any]:
        take(5.0)
        yield lambda: take(1.0)
        take(100.0)

    monkeypatch.setattr(curves_module.time, "perf_counter", lambda: now[0])
    curve, result = measure(making(), lambda: take(0.25) and None, 3)  # type: ignore[func-returns-value]
    assert curve.ends_s == (6.25, 7.5, 8.75)
    assert result == 100.25 + 5.0 + 3 * 1.0 + 2 * 0.25


def test_a_table_of_all_curves() -> None:
    found = {"MLP": {"imperative": line(1.0, 1.0), "script": line(10.0, 0.5), "compile": line(20.0, 1.0)}}
    head, _, plain, script, compiled = table(found, module.WORDS, (1, 10)).splitlines()
    assert head == "| network | way of calling | 1 call | 10 calls | a later call | faster in all from |"
    assert plain == "| MLP | imperative, op by op | 1 s | 10 s | 1 s | – |"
    assert script == "| MLP | torch.jit.script | 10 s | 14.5 s | 500 ms | 20 calls |"
    assert compiled.endswith("| 20 s | 29 s | 1 s | – |")


# -- what is measured ------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
def test_every_way_returns_the_same_and_is_measured_once(name: str) -> None:
    curves = Curves(WORKER, "worker:0", 2, (1, 3))
    for way in ("script", "eager"):
        figures = curves.figures(name, way)
        assert figures["max_abs_difference"] == 0.0
        assert 0 < figures["in_1_calls_s"] < figures["in_3_calls_s"]
    assert sorted(curves.found[name]) == ["eager", "imperative", "script"]
    assert curves.of(name, "script") is curves.of(name, "script")
    assert set(curves.figures(name, "imperative")) == {"in_1_calls_s", "in_3_calls_s", "later_call_s"}


def test_calls_to_pay_stand_with_the_way_that_pays() -> None:
    curves = Curves(WORKER, "worker:0", 1, (1,))
    curves.found["MLP"] = {"imperative": line(1.0, 1.0), "script": line(10.0, 0.5), "eager": line(2.0, 2.0)}
    curves.results |= {("MLP", way): torch.ones(1) for way in ("imperative", "script", "eager")}
    assert curves.figures("MLP", "script")["calls_to_pay"] == 20
    assert "calls_to_pay" not in curves.figures("MLP", "eager")


def test_a_curve_is_the_median_of_all_done_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [line(first_s, 1.0, 2) for first_s in (3.0, 9.0, 4.0)]
    left = list(made)
    monkeypatch.setattr(curves_module, "measure", lambda making, wait, count: (left.pop(), torch.ones(1)))
    curves = Curves(WORKER, "worker:0", 1, (2,), repeats=3)
    assert curves.of("MLP", "eager") == made[2]
    assert not left


def test_torch_compile_finds_nothing_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Played: what would compile returns the network, and each measured one is compiled once, in an empty cache."""
    events: list[str] = []

    @contextlib.contextmanager
    def nothing_kept() -> Iterator[None]:
        events.append("emptied")
        yield

    def compile_it(net: Any) -> Any:
        events.append("compiled")
        return net

    monkeypatch.setattr(calls_module, "_nothing_kept", nothing_kept)
    monkeypatch.setattr(torch, "compile", lambda function: events.append("warmed") or function)
    monkeypatch.setitem(calls_module.COMPILERS, "compile", compile_it)  # type: ignore[arg-type]
    assert Curves(WORKER, "worker:0", 1, (2,), repeats=2).figures("MLP", "compile")["max_abs_difference"] == 0.0
    assert events == ["warmed", *["emptied", "compiled"] * 2]


# -- cases -----------------------------------------------------------------------------------


def test_ways_that_a_host_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "missing_for_compile", lambda device: None)
    ways = ["imperative, op by op", "torch.jit.script", "torch.compile", "a plan, eager mode"]
    assert labels(WORKER) == [f"{name}, {way}, 1 worker" for name in ("MLP", "LeNet") for way in ways]
    on_gpu = [*ways, "a plan, graph mode"]
    assert labels(hand_written("cuda", 2), networks=("MLP",)) == [f"MLP, {way}, 1 GPU" for way in on_gpu]
    modes = {case.label: case.mode for case in module.symbolic.cases(hand_written("cuda", 1), networks=("LeNet",))}
    assert [*modes.values()] == ["baseline", "baseline", "baseline", "eager", "graph"]


def test_torch_compile_is_left_out_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "missing_for_compile", lambda device: "a C++ compiler")
    with pytest.warns(
        GraphschedWarning, match=r"torch\.compile is left out: it needs a C\+\+ compiler, which is not here"
    ) as notes:
        found = labels(WORKER)
    assert len(notes) == 1
    assert found
    assert not any("torch.compile" in label for label in found)
    assert labels(WORKER, ways=("imperative", "eager"))  # not asked for, no note


@pytest.mark.parametrize(
    ("device", "there", "triton", "headers", "missing"),
    [
        ("worker:0", {"g++"}, False, True, None),
        ("worker:0", {"clang++"}, False, True, None),
        ("worker:0", {"gcc"}, True, True, "a C++ compiler"),
        ("cuda:0", {"gcc"}, True, True, None),
        ("cuda:0", {"g++"}, True, True, "a C compiler"),
        ("cuda:0", {"gcc"}, False, True, "Triton"),
        ("worker:0", {"mine"}, False, True, None),
        ("cuda:0", {"my-c"}, True, True, None),
        ("cuda:0", {"gcc"}, True, False, "Python's headers"),
    ],
)
def test_what_torch_compile_needs(
    monkeypatch: pytest.MonkeyPatch, device: str, there: set[str], triton: bool, headers: bool, missing: str | None
) -> None:
    monkeypatch.setattr(calls_module.shutil, "which", lambda name: name if name in there else None)
    monkeypatch.setattr(calls_module, "find_spec", lambda name: name if triton else None)
    monkeypatch.setattr(calls_module.Path, "is_file", lambda path: path.name == "Python.h" and headers)
    monkeypatch.setenv("CXX", "mine")
    monkeypatch.setenv("CC", "my-c")
    assert missing_for_compile(device) == missing


def test_unknown_networks_and_ways_are_named() -> None:
    with pytest.raises(ExperimentError, match="no network 'VGG': there are MLP, LeNet"):
        labels(WORKER, networks=("VGG",))
    with pytest.raises(ExperimentError, match="no way 'onnx': there are imperative, script, compile, eager, graph"):
        labels(WORKER, ways=("onnx",))


def test_baselines_call_the_network() -> None:
    with torch.no_grad(), threads_of(WORKER, "worker:0"):
        expected = {name: network(name)(example(name, 1)) for name in NETWORKS}
    made = [case for case in cases("symbolic", WORKER).values() if case.baseline is not None]
    assert len(made) == 4
    for case in made:
        for _ in range(2):
            result = case.baseline()  # type: ignore[misc]
            assert torch.equal(result, expected[case.label.partition(",")[0]])
            assert not result.requires_grad


def test_saved_networks_return_the_same_when_loaded() -> None:
    """TorchScript in this process, the plan in one that does not know the experiment."""
    made = {
        case.label: case
        for case in module.symbolic.cases(WORKER, networks=("LeNet",), ways=("script", "eager"), calls=(1,))
    }
    for label, case in made.items():
        assert case.metrics is not None
        figures = case.metrics()
        assert figures["loaded_max_abs_difference"] == 0.0, label
        parameters = sum(math.prod(shape) for shape in SHAPES.values()) * 4
        assert parameters < figures["file_nbytes"] < parameters + 50_000
        assert figures["load_s"] > 0


def test_without_saving_nothing_is_saved() -> None:
    found = module.symbolic.cases(WORKER, networks=("MLP",), ways=("script", "eager"), calls=(1,), saves=False)
    for case in found:
        assert case.metrics is not None
        assert "file_nbytes" not in case.metrics()


def test_a_wrong_result_of_the_new_process_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = schedule(workload("MLP", 1, "worker:0"), WORKER, scheduler="one_stream")
    right = Program.run
    monkeypatch.setattr(Program, "run", lambda self, **inputs: {k: v + 2 for k, v in right(self, **inputs).items()})
    assert reloaded(plan)["loaded_max_abs_difference"] == pytest.approx(2.0)


def test_a_new_process_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = schedule(workload("MLP", 1, "worker:0"), WORKER, scheduler="one_stream")
    monkeypatch.setattr(gs, "save_plan", lambda plan, path: Path(path).write_text("no plan"), raising=False)
    with pytest.raises(ExecutionError, match=r"did not run in a new process: [\s\S]*is truncated, or no saved plan"):
        reloaded(plan)


def test_a_new_process_that_imports_the_experiment_does_not_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import experiments._reloading as reloading

    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(reloading, "READER", f"import experiments\n{reloading.READER}")
    plan = schedule(workload("MLP", 1, "worker:0"), WORKER, scheduler="one_stream")
    with pytest.raises(ExecutionError, match=r"the new process imported experiments.*: it must not need them"):
        reloaded(plan)


# -- what is drawn ---------------------------------------------------------------------------


def test_curves_are_drawn_and_tabled(tmp_path: Path) -> None:
    made = list(
        module.symbolic.cases(WORKER, networks=("MLP",), ways=("eager", "imperative"), calls=(1, 4), saves=False)
    )
    assert module.draw(WORKER, tmp_path) == ()
    for case in made:
        assert case.metrics is not None
        case.metrics()
    picture, text = module.draw(WORKER, tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    rows = text.read_text().splitlines()
    assert [row.split(" | ")[1] for row in rows[2:]] == ["imperative, op by op", "a plan, eager mode"]


def test_what_an_earlier_request_measured_is_not_drawn(tmp_path: Path) -> None:
    (case,) = module.symbolic.cases(WORKER, networks=("MLP",), ways=("imperative",), calls=(1,))
    assert case.metrics is not None
    case.metrics()
    list(itertools.islice(module.symbolic(WORKER, ways=("imperative",)), 1))
    assert module.draw(WORKER, tmp_path) == ()


@pytest.mark.gpu
@pytest.mark.parametrize("name", NETWORKS)
def test_every_way_of_a_gpu_returns_the_same(name: str) -> None:
    """All but `torch.compile`, whose kernels are others; a plan's are those of the network."""
    curves = Curves(hand_written("cuda", 1), "cuda:0", 4, (1, 5))
    for way in ("script", "eager", "graph"):
        assert curves.figures(name, way)["max_abs_difference"] <= (1e-6 if way == "script" else 0.0), way
