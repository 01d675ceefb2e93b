"""A folder with an experiment and a platform file, and a way to call the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from graphsched.cli import main
from graphsched.platform import Device, Link, Platform

EXPERIMENT = '''
import torch
import graphsched as gs

@gs.experiment(source="a book", needs="2 accelerators")
def pair(platform, size: int = 8, fail: bool = False):
    """Multiply on two devices."""
    for scheduler in ("sequential", "heft"):
        work = gs.Workload("pair")
        x = work.input("x", torch.rand(size, size))
        for device in platform.accelerators(2):
            work.task(broken if fail and scheduler == "heft" else torch.mm, x, x, device=device,
                      outputs=[gs.TensorSpec((size, size))], name=f"mm_{device[-1]}")
        yield gs.Case(f"{scheduler}, 2 workers", work, scheduler=scheduler, reported_s=0.5)
    yield gs.Case("plain PyTorch", baseline=lambda: x_of(size).mm(x_of(size)), metrics=lambda: {"peak_bytes": 7})

def x_of(size):
    return torch.ones(size, size)

def broken(a, b):
    raise RuntimeError("out of luck")
'''


@dataclass(frozen=True)
class Called:
    """What one call of the command line printed and returned."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one object on stdout."""
        return json.loads(self.out)


Call = Callable[..., Called]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Call the command line with words."""

    def run(*words: object) -> Called:
        capsys.readouterr()
        code = main([str(word) for word in words])
        printed = capsys.readouterr()
        return Called(code, printed.out, printed.err)

    return run


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: ``experiments/pair.py`` and ``two.json``, a platform of two workers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "pair.py").write_text(EXPERIMENT)
    names = ("cpu", "worker:0", "worker:1")
    devices = tuple(Device(name, name.partition(":")[0], "1 thread") for name in names)  # type: ignore[arg-type]
    links = tuple(Link(a, b, "pinned", 1e-6, 1e9) for a in names for b in names)
    Platform("two", devices, links, cores=2).save(tmp_path / "two.json")
    return tmp_path
