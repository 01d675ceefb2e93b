"""Ways of calling a network: op by op, compiled by PyTorch, and as a plan.

`compiling` and `planning` are contexts that compile when they are entered, or with the first call.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sysconfig
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import nn

import graphsched as gs

Call = Callable[[], torch.Tensor]


def as_it_is(net: nn.Module) -> Any:
    """Imperative: op by op, as Python meets them."""
    return net


def script(net: nn.Module) -> Any:
    """`net` as TorchScript, which the text uses, without the warning that PyTorch has deprecated it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*torch\.jit\.script.* is deprecated", DeprecationWarning)
        return torch.jit.script(net)


COMPILERS: Mapping[str, Callable[[nn.Module], Any]] = {
    "imperative": as_it_is,
    "script": script,
    "compile": torch.compile,
}


@contextlib.contextmanager
def compiling(way: str, net: nn.Module, x: torch.Tensor) -> Iterator[Call]:
    """`net` compiled anew in one of PyTorch's ways and called with `x`."""
    with _nothing_kept() if way == "compile" else contextlib.nullcontext():
        function = COMPILERS[way](net)
        yield lambda: function(x)


@contextlib.contextmanager
def _nothing_kept() -> Iterator[None]:
    """Let `torch.compile` find nothing of earlier compilations, neither in memory nor on disk."""
    from torch._inductor import utils

    fresh: Any = getattr(utils, "fresh_cache", None) or utils.fresh_inductor_cache  # its name before PyTorch 2.8
    torch._dynamo.reset()
    with fresh():
        yield


def warm(way: str, net: nn.Module, x: torch.Tensor) -> None:
    """Start what is started once a process: PyTorch's libraries, and what it imports to compile."""
    for _ in range(3):
        net(x)
    if way == "compile":
        torch.compile(torch.neg)(x)


@contextlib.contextmanager
def planning(make: Callable[[], gs.Workload], platform: gs.Platform, mode: str, x: torch.Tensor) -> Iterator[Call]:
    """Built by `make`, scheduled and made ready as a program; each call takes `x` anew and returns the result."""
    plan = gs.schedule(make(), platform, scheduler="one_stream", mode=mode)
    with gs.Program(plan) as program:
        yield lambda: next(iter(program.run(x=x).values()))


def missing_for_compile(device: str) -> str | None:
    """What `torch.compile` needs for `device` and does not find here; None if it is all there."""
    if device.startswith("cuda") and find_spec("triton") is None:
        return "Triton"
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        return "Python's headers"
    on_gpu = device.startswith("cuda")
    names = (os.environ.get("CC"), "gcc", "clang", "cc") if on_gpu else (os.environ.get("CXX"), "g++", "clang++")
    if any(name and shutil.which(name) for name in names):
        return None
    return "a C compiler" if on_gpu else "a C++ compiler"
