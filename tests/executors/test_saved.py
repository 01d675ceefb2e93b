"""Plans in files: they run elsewhere as they did here; what is not one, or calls what it may not, is refused."""

from __future__ import annotations

import functools
import io
import json
import operator
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.nn import functional

import graphsched as gs
from graphsched.costs import Costs, TaskCost
from graphsched.errors import ExecutionError, FileFormatError, OutputError, WorkloadError
from graphsched.executors import Program, load_plan, save_plan, saved_shapes
from graphsched.executors.saved import _digest
from graphsched.plan import Plan
from graphsched.simulator import predict
from graphsched.workload import TensorSpec, Workload
from tests.builders import workload as durations
from tests.executors.fake_cuda import FakeCuda
from tests.executors.programs import WORKERS, by_hand, machine

READER = """
import json, sys
import graphsched as gs
path, given = sys.argv[1:]
plan = gs.load_plan(path)
import torch
with gs.Program(plan) as program:
    torch.save([program.run(), program.run(x=torch.load(given)), program.state()], path + ".results")
print(json.dumps(sorted(name for name in sys.modules if name.split(".")[0] in ("tests", "experiments"))))
"""


def training() -> Plan:
    """x ─ hidden = linear(x, w, b) ─ relu ─ top, where ─ shares.0, shares.1 ─ spread
                          ╰─ grad ─ step: w -= 0.5 grad
    """  # fmt: skip
    work = Workload("training")
    torch.manual_seed(3)
    x = work.input("x", torch.randn(4, 6).t().contiguous().t(), device="worker:0")
    w, b = work.state("w", torch.randn(5, 6)), work.state("b", torch.randn(5))
    hidden = work.task(functional.linear, x, w, bias=b, name="hidden")
    relu = work.task(torch.relu, hidden, name="relu")
    work.task(torch.topk, relu, 2, dim=-1, outputs=2, name="top")
    shares = work.task(torch.split, relu, [2, 3], dim=1, name="shares")
    work.task(functools.partial(torch.cat, dim=1), [shares[1], shares[0]], name="spread")
    work.task(operator.getitem, relu, (slice(1, 3), ..., None), name="part")
    grad = work.task(torch.ops.aten.mm.default, work.task(torch.t, hidden, name="turned"), x, name="grad")
    work.task(torch.Tensor.add_, w, grad, alpha=-0.5, updates=w, name="step")
    work.task(torch.zeros, 3, dtype=torch.float64, name="zeros")
    work.copy(relu, to="cpu", name="back")
    lanes = {t.name: f"worker:{i % 2}/s0" for i, t in enumerate(work.tasks) if t.kind == "run"}
    return by_hand(work, machine("worker:0", "worker:1"), lanes | {"step": "worker:1/s0", "grad": "worker:1/s0"})


def square(**extra: Any) -> Plan:
    """x ─ y = x @ x"""
    work = Workload("square")
    x = work.input("x", torch.arange(4.0).reshape(2, 2))
    work.task(torch.mm, x, x, name="y", **extra)
    return by_hand(work, WORKERS, "worker:0/s0")


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return list(a) == list(b) and all(torch.equal(a[k], b[k]) and a[k].dtype == b[k].dtype for k in a)


# -- as it was -------------------------------------------------------------------------------


def test_a_process_without_the_code_returns_the_same(tmp_path: Path) -> None:
    """Two runs, the second with another input, and the states after them, equal to the bit."""
    plan, file = training(), tmp_path / "training.plan"
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(8))
    save_plan(plan, file)
    torch.save(x, tmp_path / "x")
    command = [sys.executable, "-c", READER, str(file), str(tmp_path / "x")]
    package = str(Path(gs.__file__).parents[1])
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env=os.environ | {"PYTHONPATH": package}
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []
    first, second, states = torch.load(f"{file}.results", weights_only=True)
    with Program(plan) as program:
        assert same(program.run(), first)
        assert same(program.run(x=x), second)
        assert same(program.state(), states)


def test_a_traced_step_of_private_operators(tmp_path: Path) -> None:
    """Adagrad's operators are those on lists; PReLU, instance norm and batch norm have kernels of their own."""
    torch.manual_seed(3)
    norms = [nn.BatchNorm2d(3, momentum=None), nn.InstanceNorm2d(3, track_running_stats=True)]
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.PReLU(3), *norms, nn.Flatten(), nn.Linear(48, 2))
    x, y = torch.randn(4, 1, 6, 6), torch.randint(0, 2, (4,))
    adagrad = torch.optim.Adagrad(net.parameters(), lr=0.1)
    work = gs.trace(net, x, target=y, loss=functional.cross_entropy, optimizer=adagrad)
    plan = by_hand(work, WORKERS, "worker:0/s0")
    save_plan(plan, tmp_path / "step")
    with Program(plan) as program, Program(load_plan(tmp_path / "step")) as loaded:
        assert same(program.run(), loaded.run())
        assert same(program.state(), loaded.state())


def test_a_loaded_plan_is_the_plan(tmp_path: Path) -> None:
    plan = training()
    save_plan(plan, tmp_path / "p")
    loaded = load_plan(tmp_path / "p")
    assert loaded.text == plan.text
    assert loaded.homes == plan.homes
    assert same(loaded.work.tensors, plan.work.tensors)
    assert [t.operation.flops for t in loaded.work.tasks if t.operation] == [
        t.operation.flops for t in plan.work.tasks if t.operation
    ]
    save_plan(loaded, tmp_path / "q")
    assert load_plan(tmp_path / "q").text == plan.text


def test_the_prediction_is_the_same_with_the_costs_that_the_plan_rests_on(tmp_path: Path) -> None:
    plan = square()
    signature = plan.work["y"].signature
    costs = Costs({(signature, "processor"): TaskCost(0.25), ("torch.other()", "processor"): TaskCost(1.0)})
    plan = Plan.from_text(plan.text, plan.work, plan.platform, costs)
    save_plan(plan, tmp_path / "p")
    loaded = load_plan(tmp_path / "p")
    assert list(loaded.costs) == [(signature, "processor")]
    assert predict(loaded).makespan_s == predict(plan).makespan_s > 0.25


def test_a_plan_for_graph_mode_is_one_when_loaded(tmp_path: Path, cuda: Callable[[int], FakeCuda]) -> None:
    """x on GPU 0 ─ y = x @ x, captured there when it was made and when it was loaded."""
    cuda(1)
    work = Workload()
    x = work.input("x", torch.arange(4.0).reshape(2, 2), device="cuda:0")
    work.task(torch.mm, x, x, name="y")
    plan = gs.schedule(work, machine("cuda:0"), scheduler="one_stream", mode="graph")
    save_plan(plan, tmp_path / "p")
    loaded = load_plan(tmp_path / "p")
    with Program(loaded) as program:
        assert program.mode == "graph"
        assert program.run()["y"].tolist() == [[2.0, 3.0], [6.0, 11.0]]


def test_states_as_they_are_now(tmp_path: Path) -> None:
    """w ◀── w += 1: saved after three runs, it goes on from there."""
    work = Workload()
    w = work.state("w", torch.zeros(2))
    work.task(torch.Tensor.add_, w, 1.0, updates=w, name="step")
    plan = by_hand(work, WORKERS, "worker:0/s0")
    with Program(plan) as program:
        for _ in range(3):
            program.run()
        save_plan(plan, tmp_path / "p", states=program.state())
    with Program(load_plan(tmp_path / "p")) as program:
        program.run()
        assert program.state()["w"].tolist() == [4.0, 4.0]
    assert work.tensors["w"].tolist() == [0.0, 0.0]


def test_inputs_without_default_stay_without(tmp_path: Path) -> None:
    work = Workload()
    work.task(torch.neg, work.input("x", TensorSpec((2,))), name="y")
    save_plan(by_hand(work, WORKERS, "worker:0/s0"), tmp_path / "p")
    with Program(load_plan(tmp_path / "p")) as program:
        with pytest.raises(WorkloadError, match="'x' has no default"):
            program.run()
        assert program.run(x=torch.ones(2))["y"].tolist() == [-1.0, -1.0]


def test_a_file_holds_no_more_than_the_tensors(tmp_path: Path) -> None:
    """Ten inputs that share a row of a large matrix are in it once, without the other rows."""
    rows = torch.rand(1000, 1000)
    work = Workload()
    shared = rows[0]
    values = [work.input(f"x{i}", shared) for i in range(10)]
    work.task(torch.stack, values, name="y")
    save_plan(by_hand(work, WORKERS, "worker:0/s0"), tmp_path / "p")
    assert 4000 < (tmp_path / "p").stat().st_size < 20_000


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.bool, torch.complex64, torch.float8_e5m2, torch.int64])
def test_tensors_of_all_types_and_no_elements_come_back(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = {"some": torch.ones(3).to(dtype), "none": torch.zeros(0, 2).to(dtype), "one": torch.ones(()).to(dtype)}
    work = Workload()
    for name, tensor in tensors.items():
        work.task(torch.clone, work.input(name, tensor), name=f"{name}/y")
    save_plan(by_hand(work, WORKERS, "worker:0/s0"), tmp_path / "p")
    with Program(load_plan(tmp_path / "p")) as program:
        found = program.run()
    for name, tensor in tensors.items():
        assert found[f"{name}/y"].dtype == dtype
        assert torch.equal(found[f"{name}/y"].view(torch.uint8) if tensor.dim() else found[f"{name}/y"],
                           tensor.view(torch.uint8) if tensor.dim() else tensor)  # fmt: skip


def test_one_element_of_a_column_comes_back(tmp_path: Path) -> None:
    """x, the first element of a column of three, whose stride is 3 ──▶ y."""
    work = Workload()
    work.task(torch.neg, work.input("x", torch.arange(12.0).view(4, 3)[1:2, 0]), name="y")
    save_plan(by_hand(work, WORKERS, "worker:0/s0"), tmp_path / "p")
    with Program(load_plan(tmp_path / "p")) as program:
        assert program.run()["y"].tolist() == [-3.0]


# -- what cannot be saved --------------------------------------------------------------------


def mine(x: Any) -> Any:
    return x + 1


@pytest.mark.parametrize("function", [mine, lambda x: x + 1, functools.partial(mine)])
def test_own_functions_are_refused_and_nothing_is_written(tmp_path: Path, function: Any) -> None:
    work = Workload()
    work.task(function, work.input("x", torch.ones(2)), name="odd")
    plan = by_hand(work, WORKERS, "worker:0/s0")
    with pytest.raises(WorkloadError, match=r"task 'odd' calls .*(mine|lambda).*: build the task from functions over"):
        save_plan(plan, tmp_path / "p")
    assert not list(tmp_path.iterdir())


def test_arguments_that_need_code_are_refused(tmp_path: Path) -> None:
    work = Workload()
    x = work.input("x", torch.ones(2))
    work.task(torch.rand, 2, generator=torch.Generator(), outputs=[TensorSpec((2,))], name="odd")
    work.task(torch.neg, x, name="y")
    with pytest.raises(WorkloadError, match=r"task 'odd': torch\.rand: the argument .* of type Generator cannot be"):
        save_plan(by_hand(work, WORKERS, "worker:0/s0"), tmp_path / "p")


def test_plans_of_durations_are_refused(tmp_path: Path) -> None:
    plan = by_hand(durations({"a": 1.0}), WORKERS, "worker:0/s0")
    with pytest.raises(WorkloadError, match="task 'a' has no code"):
        save_plan(plan, tmp_path / "p")


@pytest.mark.parametrize("given", [TensorSpec((2,)), torch.ones(2, device="meta")], ids=["shape", "meta"])
def test_states_that_do_not_fit_are_refused(tmp_path: Path, given: Any) -> None:
    work = Workload()
    w = work.state("w", given)
    work.task(torch.Tensor.add_, w, 1.0, updates=w, name="step")
    plan = by_hand(work, WORKERS, "worker:0/s0")
    for states, message in (
        ({}, r"state 'w' has no tensor: give states=\{'w': tensor\}"),
        ({"v": torch.ones(2)}, "'v' is no state of workload 'workload'"),
        ({"w": torch.ones(3)}, r"'w' must be float32\[2\], got float32\[3\]"),
    ):
        with pytest.raises(WorkloadError, match=message):
            save_plan(plan, tmp_path / "p", states=states)
    save_plan(plan, tmp_path / "p", states={"w": torch.ones(2)})
    assert load_plan(tmp_path / "p").work.tensors["w"].tolist() == [1.0, 1.0]


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        save_plan(square(), tmp_path / "file" / "p")


# -- what cannot be loaded -------------------------------------------------------------------


def changed(path: Path, **entries: Any) -> None:
    """The file with other entries, and a hash that fits unless it is among them."""
    content = torch.load(path, weights_only=True) | entries
    if "sha256" not in entries:
        content["sha256"] = _digest(content["text"], content["tensors"])
    torch.save(content, path)


def edited(path: Path, edit: Callable[[Any], Any]) -> None:
    data = json.loads(torch.load(path, weights_only=True)["text"])
    edit(data)
    changed(path, text=json.dumps(data))


def assert_refused(path: Path, message: str) -> None:
    with pytest.raises(FileFormatError, match=message) as error:
        load_plan(path)
    assert str(path) in str(error.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "p"
    assert_refused(path, "cannot read .*: No such file")
    for content in (b"", b"{}", b"\x80\x04.", b"PK\x03\x04 and no more"):
        path.write_bytes(content)
        assert_refused(path, "is truncated, or no saved plan: name a whole file that gs.save_plan wrote")
    torch.save({"w": torch.ones(2)}, path)
    assert_refused(path, "is no saved plan: name a file that gs.save_plan wrote")
    torch.save(torch.nn.Linear(2, 2), path)
    assert_refused(path, "is truncated, or no saved plan")


def test_a_truncated_file(tmp_path: Path) -> None:
    path = tmp_path / "p"
    save_plan(square(), path)
    whole = path.read_bytes()
    for share in (0.1, 0.5, 0.99):
        path.write_bytes(whole[: int(share * len(whole))])
        assert_refused(path, "is truncated, or no saved plan")


def test_a_changed_file(tmp_path: Path) -> None:
    path = tmp_path / "p"
    for entries in ({"sha256": "0"}, {"sha256": None}):
        save_plan(square(), path)
        changed(path, **entries)
        assert_refused(path, "is not as it was written: its hash differs")
    for name in ("text", "tensors"):
        save_plan(square(), path)
        content = torch.load(path, weights_only=True)
        content[name] = content["text"] + " " if name == "text" else {"x": torch.zeros(2, 2)}
        torch.save(content, path)
        assert_refused(path, "its hash differs")
    for entries in ({"text": 5, "sha256": ""}, {"tensors": [1], "sha256": ""}):
        save_plan(square(), path)
        changed(path, **entries)
        assert_refused(path, "its hash differs")


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(1).expand(10**13),
        torch.ones(2, 2, device="meta"),
        torch.ones(2, 2).to_sparse(),
        torch.empty(2, 2, dtype=torch.bits8),
    ],
)
def test_tensors_that_are_not_whole_in_the_file(tmp_path: Path, tensor: torch.Tensor) -> None:
    """One of a few bytes would take 40 TB."""
    save_plan(square(), tmp_path / "p")
    changed(tmp_path / "p", tensors={"x": tensor}, sha256="")
    assert_refused(tmp_path / "p", "is not as it was written: its hash differs")


def test_states_without_data_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    """w ──▶ y"""
    work = Workload()
    work.task(torch.neg, work.state("w", torch.ones(2)), name="y")
    plan = by_hand(work, WORKERS, "cpu/w0")
    with FakeTensorMode():
        fake = torch.ones(2)
    for state, found in ((fake, "fake tensor"), (torch.ones(2, device="meta"), "tensor on meta")):
        with pytest.raises(WorkloadError, match=f"state 'w' has no data, got a {found}"):
            save_plan(plan, tmp_path / "p", states={"w": state})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("entry", ["kind", "version", "text", "tensors", "sha256"])
def test_entries_that_are_tensors(tmp_path: Path, entry: str) -> None:
    """Which are neither true nor false."""
    save_plan(square(), tmp_path / "p")
    changed(tmp_path / "p", **{"sha256": "", entry: torch.ones(3)})
    assert_refused(tmp_path / "p", "is no saved plan|of version tensor|its hash differs")


def test_a_text_that_is_nested_too_deep(tmp_path: Path) -> None:
    save_plan(square(), tmp_path / "p")
    changed(tmp_path / "p", text="[" * 100_000)
    assert_refused(tmp_path / "p", "is no saved plan: RecursionError")


def test_another_version(tmp_path: Path) -> None:
    save_plan(square(), tmp_path / "p")
    changed(tmp_path / "p", version=7)
    assert_refused(tmp_path / "p", "of version 7, this is version 1: save it again")


def set_call(data: Any, **entries: Any) -> None:
    data["operations"]["y"].update(entries)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda d: set_call(d, function="os.system"), "task 'y': it calls 'os.system': only functions over tensors"),
        (lambda d: set_call(d, function="torch.load"), "task 'y': it calls 'torch.load'"),
        (lambda d: set_call(d, args=[{"slot": 4}]), "task 'y': an argument stands for read number 4 of 1"),
        (lambda d: d["operations"].clear(), "is no saved plan: KeyError: 'y'"),
        (lambda d: d.pop("platform"), "is no saved plan: KeyError: 'platform'"),
        (lambda d: d["workload"]["tasks"][0].pop("operation"), "task 'y' has no operation"),
        (lambda d: d.update(plan=d["plan"].replace("run y", "run z")), "p: line"),
        (
            lambda d: d["workload"].update(name="other") or d["workload"].update(kept=["q"]),
            "the plan is for another workload",
        ),
        (lambda d: d["platform"].update(cores=9), "the plan is for another platform"),
        (lambda d: d["workload"]["given"][0].update(shape=[3, 2]), r"'x' must be float32\[3,2\], got float32\[2,2\]"),
    ],
)
def test_a_content_that_does_not_fit(tmp_path: Path, edit: Callable[[Any], Any], message: str) -> None:
    save_plan(square(), tmp_path / "p")
    edited(tmp_path / "p", edit)
    assert_refused(tmp_path / "p", message)


# -- shapes ----------------------------------------------------------------------------------


def reshaped(path: Path, edit: Callable[[Any], Any], **tensors: torch.Tensor) -> None:
    """The file with another workload, for which its plan says to be made, and other tensors."""
    content = torch.load(path, weights_only=True)
    data = json.loads(content["text"])
    edit(data["workload"])
    lines = data["plan"].split("\n")
    lines[1] = f"workload {Workload.from_dict(data['workload']).digest()} {data['workload']['name']}"
    changed(path, text=json.dumps(data | {"plan": "\n".join(lines)}), tensors=content["tensors"] | tensors)


def normed() -> Plan:
    """x, w, b, mean, var ─ y.0, y.1, y.2, which changes mean and var ─ sum ─ there (a copy)"""
    work = Workload("normed")
    x = work.input("x", torch.rand(4, 3, 2))
    w, b = work.input("w", torch.ones(3)), work.input("b", torch.zeros(3))
    mean, var = work.state("mean", torch.zeros(3)), work.state("var", torch.ones(3))
    norm = torch.ops.aten._native_batch_norm_legit.default
    y = work.task(norm, x, w, b, mean, var, True, 0.1, 1e-5, updates=[mean, var], name="y")
    work.copy(work.task(torch.sum, y[0], 0, name="sum"), to="cpu", name="there")
    return by_hand(work, WORKERS, "worker:0/s0")


def set_shape(work: Any, name: str, shape: list[int]) -> None:
    values = [*work["given"], *(value for task in work["tasks"] for value in task.get("outputs", ()))]
    (value,) = [value for value in values if value["name"] == name]
    value.update(shape=shape, nbytes=4 * int(torch.tensor(shape).prod()))


def test_running_statistics_of_another_length(tmp_path: Path) -> None:
    """Which would end the process inside torch's kernel."""
    for name, length in (("mean", 5), ("mean", 1), ("var", 300)):
        save_plan(normed(), tmp_path / "p")
        reshaped(tmp_path / "p", lambda w: set_shape(w, name, [length]), **{name: torch.ones(length)})  # noqa: B023
        given = rf"task 'y' cannot be called with x: float32\[4,3,2\], .*{name}: float32\[{length}\]"
        assert_refused(tmp_path / "p", rf"{given}.*: running_{name} of .* is \[{length}\], \[3\] is needed")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda w: set_shape(w, "sum", [3, 3]),
            r"task 'sum' of y.0: float32\[4,3,2\] returns float32\[3,2\], not float",
        ),
        (lambda w: set_shape(w, "there", [2, 3]), r"task 'there' of sum: float32\[3,2\] returns float32\[3,2\], not"),
        (lambda w: w["tasks"][1]["outputs"][0].update(dtype="int32"), r"task 'sum' .*not int32\[3,2\]"),
        (lambda w: w["tasks"][0]["outputs"].pop(), r"task 'y' of .* returns float32\[4,3,2\], .*, not"),
        (lambda w: w["tasks"][1]["outputs"][0].update(nbytes=4), "'sum' is .*, which has 24 bytes, not 4"),
        (lambda w: [w["tasks"][1]["outputs"][0].pop(k) for k in ("shape", "dtype")], "'sum', which has no shape"),
    ],
)
def test_tasks_that_do_not_return_what_the_file_says(tmp_path: Path, edit: Callable[[Any], Any], message: str) -> None:
    save_plan(normed(), tmp_path / "p")
    reshaped(tmp_path / "p", edit)
    assert_refused(tmp_path / "p", message)


def test_constants_that_an_operation_does_not_take(tmp_path: Path) -> None:
    save_plan(normed(), tmp_path / "p")
    edited(tmp_path / "p", lambda d: d["operations"]["sum"].update(args=[{"slot": 0}, 7]))
    assert_refused(tmp_path / "p", r"task 'sum' cannot be called with y.0: float32\[4,3,2\]: Dimension out of range")


def test_collectives_of_other_shapes(tmp_path: Path) -> None:
    """a, b ─ sum.0, sum.1 on two workers"""
    work = Workload("collective")
    a, b = (work.input(name, torch.ones(4), device=f"worker:{k}") for k, name in enumerate("ab"))
    work.collective("all_reduce", [a, b], devices=["worker:0", "worker:1"], name="sum")
    plan = gs.schedule(work, machine("worker:0", "worker:1"), scheduler="one_stream")
    save_plan(plan, tmp_path / "p")
    assert load_plan(tmp_path / "p").text == plan.text
    reshaped(tmp_path / "p", lambda w: set_shape(w, "b", [5]), b=torch.ones(5))
    assert_refused(
        tmp_path / "p", r"collective 'sum' is 'all_reduce' of a: float32\[4\], b: float32\[5\]: values of one"
    )
    save_plan(plan, tmp_path / "p")
    reshaped(tmp_path / "p", lambda w: set_shape(w, "sum.1", [5]))
    assert_refused(tmp_path / "p", r"task 'sum' .* returns float32\[4\], float32\[4\], not float32\[4\], float32\[5\]")


def test_what_is_saved_is_what_can_be_loaded(tmp_path: Path) -> None:
    work = Workload()
    x = work.input("x", torch.ones(2, 2))
    work.task(torch.mm, x, x, outputs=[TensorSpec((3, 3))], name="odd")
    with pytest.raises(
        WorkloadError, match=r"task 'odd' of x: float32\[2,2\] returns float32\[2,2\], not float32\[3,3\]"
    ):
        save_plan(by_hand(work, WORKERS, "worker:0/s0"), tmp_path / "p")
    assert not list(tmp_path.iterdir())


def test_results_that_depend_on_values_are_left_to_the_run(tmp_path: Path) -> None:
    work = Workload()
    work.task(torch.nonzero, work.input("x", torch.ones(2)), outputs=[TensorSpec((2, 1), "int64")], name="y")
    save_plan(by_hand(work, WORKERS, "worker:0/s0"), tmp_path / "p")
    with Program(load_plan(tmp_path / "p")) as program:
        assert program.run()["y"].tolist() == [[0], [1]]


def test_calls_alike_are_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """x ─ y0 ─ … ─ y9 = neg; and one of another shape."""
    work = Workload()
    last = work.input("x", torch.ones(2))
    for i in range(10):
        last = work.task(torch.neg, last, name=f"y{i}")
    work.task(torch.neg, work.input("z", torch.ones(3)), name="other")
    save_plan(by_hand(work, WORKERS, "worker:0/s0"), tmp_path / "p")
    tried = []
    called = saved_shapes._called
    monkeypatch.setattr(saved_shapes, "_called", lambda *given: tried.append(given) or called(*given))
    load_plan(tmp_path / "p")
    assert len(tried) == 2


FUNCTIONS = {torch.mm: 2, torch.add: 2, torch.t: 1, torch.relu: 1, torch.Tensor.clone: 1}


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from(list(FUNCTIONS)), st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=9
    )
)
def test_any_graph_comes_back(tmp_path: Path, calls: list[tuple[Any, int, int]]) -> None:
    """Functions of one or two of the values before."""
    work = Workload()
    values = [work.input("x", torch.ones(3, 3))]
    for i, (function, *read) in enumerate(calls):
        chosen = [values[k % len(values)] for k in read[: FUNCTIONS[function]]]
        values.append(work.task(function, *chosen, name=f"y{i}"))
    plan = by_hand(work, WORKERS, "worker:0/s0")
    save_plan(plan, tmp_path / "p")
    assert load_plan(tmp_path / "p").text == plan.text


def test_no_code_of_a_file_runs(tmp_path: Path) -> None:
    """A pickle that would make a file when it is read."""

    class Bad:
        def __reduce__(self) -> Any:
            return open, (str(tmp_path / "made"), "w")

    buffer = io.BytesIO()
    torch.save({"kind": "graphsched plan", "version": 1, "text": "", "tensors": {"x": Bad()}}, buffer)
    (tmp_path / "p").write_bytes(buffer.getvalue())
    assert_refused(tmp_path / "p", "is truncated, or no saved plan")
    assert not (tmp_path / "made").exists()


def test_a_plan_for_a_device_that_is_not_here_is_predicted_and_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Workload()
    work.task(torch.neg, work.input("x", torch.ones(2), device="cuda:7"), name="y")
    plan = by_hand(work, machine(*(f"cuda:{i}" for i in range(8))), "cuda:7/s0")
    save_plan(plan, tmp_path / "p")
    loaded = load_plan(tmp_path / "p")
    assert predict(loaded).makespan_s == predict(plan).makespan_s
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ExecutionError, match="the plan runs on cuda:7, this host has 0 CUDA devices"):
        Program(loaded)


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_a_network_on_a_gpu_runs_from_its_file(tmp_path: Path, mode: str) -> None:
    work = Workload()
    torch.manual_seed(1)
    x = work.input("x", torch.randn(4, 16), device="cuda:0")
    w, b = work.state("w", torch.randn(8, 16)), work.state("b", torch.randn(8))
    work.task(torch.relu, work.task(functional.linear, x, w, b, name="linear"), name="relu")
    plan = gs.schedule(work, machine("cuda:0"), scheduler="one_stream", mode=mode)
    save_plan(plan, tmp_path / "p")
    with Program(plan) as program, Program(load_plan(tmp_path / "p")) as loaded:
        assert loaded.mode == mode
        for _ in range(3):
            x = torch.randn(4, 16)
            assert same(program.run(x=x), loaded.run(x=x))
