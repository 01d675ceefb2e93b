"""The code of docs/tracing.md and docs/partition.md runs as it stands there."""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import graphsched as gs
from models.lenet import LeNet
from tests.executors.programs import machine
from tests.tracing.steps import plain, worst

DOCS = Path(__file__).parents[2] / "docs"
WORKERS = ["worker:0", "worker:1"]


def run_code(page: str, change: Callable[[str], str] = str) -> dict[str, Any]:
    """The names that the Python blocks of a page define; random numbers start at 7."""
    names: dict[str, Any] = {}
    torch.manual_seed(7)
    for block in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(change(block), page, "exec"), names)
    return names


def trained(names: dict[str, Any], steps: int, **options: float) -> torch.nn.Module:
    """The network of a page after steps of SGD in plain PyTorch."""
    torch.manual_seed(7)
    sgd: Any = lambda parameters: torch.optim.SGD(parameters, lr=0.2, **options)  # noqa: E731
    return plain(LeNet(), sgd, F.cross_entropy, names["x"], names["y"], steps)[2]


def output(net: torch.nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
    with torch.no_grad():
        return {"output": net(x)}


@pytest.fixture
def on_two_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host of a page's code, without measurements."""
    monkeypatch.setattr(gs, "local_platform", lambda **_: machine(*WORKERS))


@pytest.mark.usefixtures("on_two_workers")
def test_the_code_runs_and_its_steps_are_the_same() -> None:
    names = run_code("tracing.md")
    assert len(names["layers"]) < len(names["step"]) < len(names["work"])
    assert {v.name for v in names["work"].values.values() if v.kind == "input"} == {"image", "label"}


@pytest.mark.usefixtures("on_two_workers")
def test_the_network_of_the_code_is_trained() -> None:
    names = run_code("tracing.md")
    wanted = trained(names, 10, momentum=0.9)
    assert worst(output(names["net"], names["x"]), output(wanted, names["x"])) < 1e-4


def test_the_code_splits_a_step() -> None:
    names = run_code("partition.md")
    for split in ("by_batch", "by_layers", "inside_layers"):
        assert {device for task in names[split].tasks for device in task.devices} == {"cuda:0", "cuda:1"}


@pytest.mark.parametrize("way", ["by_batch", "by_layers", "inside_layers"])
def test_split_steps_run_twice_to_the_bit_and_load_as_told(way: str) -> None:
    """The code of docs/partition.md on two workers, three steps."""
    names = run_code("partition.md", lambda code: code.replace("cuda:", "worker:"))
    inputs = {"x": names["x"], "target": names["y"]}
    given = names["split"](inputs, 2) if way == "by_batch" else inputs
    plan = gs.schedule(names[way], machine(*WORKERS), scheduler="one_stream")
    found = []
    for _ in range(2):
        with gs.Program(plan) as program:
            losses = [program.run(**given)["loss"] for _ in range(3)]
            found.append({**{str(i): loss for i, loss in enumerate(losses)}, **program.state()})
    with gs.Program(plan) as names["program"]:
        for _ in range(3):
            names["program"].run(**given)
        (told,) = re.findall(rf"`{way}`: `(.*?)`", (DOCS / "partition.md").read_text(encoding="utf-8"))
        exec(told, names)
    assert all(torch.equal(tensor, found[1][name]) for name, tensor in found[0].items())
    wanted = trained(names, 3)
    assert worst(names["net"].state_dict(), wanted.state_dict()) < 1e-4
    assert worst(output(names["net"], names["x"]), output(wanted, names["x"])) < 1e-4


@pytest.mark.parametrize("page", ["tracing.md", "partition.md"])
def test_examples_print_what_they_say(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    examples = doctest.DocTestParser().get_doctest(text, {}, page, page, 0)
    assert doctest.DocTestRunner().run(examples).failed == 0
