"""Row 9: the same network op by op, compiled, and as a plan that goes to a file."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch

import graphsched as gs
from experiments._calls import COMPILERS, missing_for_compile
from experiments._curves import Curve, Curves, table
from experiments._networks import NETWORKS, workload
from experiments._reloading import reloaded, rescripted
from experiments._shared import check_known, check_sizes, counted, threads_of
from graphsched.charts import plot_calls
from graphsched.errors import GraphschedWarning
from graphsched.files import write_text

WORDS = {
    "imperative": "imperative, op by op",
    "script": "torch.jit.script",
    "compile": "torch.compile",
    "eager": "a plan, eager mode",
    "graph": "a plan, graph mode",
}
NOTE = (
    "the first call with compilation, capture and warm-up; each call waits for its result; PyTorch's libraries are warm"
)

_last: list[Curves] = []  # of the run that is drawn at its end


def draw(platform: gs.Platform, folder: Path) -> tuple[Path, ...]:
    """Write the curves measured since the cases were made as a picture and a table; nothing if there are none."""
    curves = _last[-1] if _last else None
    if curves is None or not curves.found:
        return ()
    picture, text = folder / f"{platform.name}-symbolic-calls.png", folder / f"{platform.name}-symbolic-calls.md"
    ends_s = {network: {WORDS[way]: curve.ends_s for way, curve in ways.items()} for network, ways in _ordered(curves)}
    plot_calls(ends_s, picture, title=f"{platform.name}: seconds of n calls in all, batch {curves.batch}", note=NOTE)
    write_text(text, table(dict(_ordered(curves)), WORDS, curves.counts))
    return picture, text


def _ordered(curves: Curves) -> Iterator[tuple[str, Mapping[str, Curve]]]:
    for network, ways in curves.found.items():
        yield network, {way: ways[way] for way in WORDS if way in ways}


@gs.experiment(source="d2l.ai 12.1", pictures=draw)
def symbolic(
    platform: gs.Platform,
    networks: tuple[str, ...] = tuple(NETWORKS),
    ways: tuple[str, ...] = tuple(WORDS),
    batch: int = 1,
    calls: tuple[int, ...] = (1, 10, 100, 1000),
    repeats: int = 3,
    saves: bool = True,
) -> Iterator[gs.Case]:
    """Call the same network op by op, compiled by PyTorch, and as a plan; then save it and load it again.

    An MLP and LeNet, forward only. The figures ``in_10_calls_s`` and so on are the seconds of so many calls in all,
    from nothing: the first has the compilation, or building, scheduling and capture of the plan, with warm-up
    (libraries are warm, what PyTorch imports to compile is imported, nothing compiled is kept from before). A call
    waits for its result; that of a plan takes its input anew, and gives a result of its own. ``calls_to_pay``: from how
    many calls on a way has taken less than op by op; beyond those measured, as the later ones go on. All is done
    `repeats` times from nothing; the medians are drawn and tabled at the end of a run.

    With `saves` a plan goes to a file (``file_nbytes``) and runs in a new process that knows operations by name and
    nothing of this code; ``loaded_max_abs_difference`` compares what it returns: 0 is expected. TorchScript, which
    PyTorch has deprecated, does the same in this process.

    `torch.compile` is left out, with a note, where what it needs is missing; graph mode where there is no GPU.

    Source: d2l.ai 12.1, which times 1000 calls op by op and compiled by `torch.jit.script`, and saves the compiled one.
    """
    check_known("network", networks, NETWORKS)
    check_known("way", ways, WORDS)
    check_sizes(batch=batch, calls=calls, repeats=repeats)
    device = platform.accelerators(1)[0]
    curves = Curves(platform, device, batch, tuple(sorted(calls)), repeats)
    _last[:] = [curves]
    possible = _possible(ways, device)
    for network in networks:
        for way in possible:
            label = f"{network}, {WORDS[way]}, {counted([device])}"
            figures = functools.partial(_figures, curves, network, way, saves)
            if way in COMPILERS:
                yield gs.Case(label, baseline=_calling(curves, network, way), metrics=figures)
            else:
                work = workload(network, batch, device)
                yield gs.Case(label, work, scheduler="one_stream", mode=way, metrics=figures)


def _possible(ways: tuple[str, ...], device: str) -> list[str]:
    """Those of `ways` that can be taken on `device` here."""
    missing = missing_for_compile(device) if "compile" in ways else None
    if missing is not None:
        warnings.warn(
            f"torch.compile is left out: it needs {missing}, which is not here", GraphschedWarning, stacklevel=2
        )
    refused = {"compile"} if missing is not None else set()
    return [way for way in ways if way not in refused and (way != "graph" or device.startswith("cuda"))]


def _figures(curves: Curves, network: str, way: str, saves: bool) -> dict[str, float]:
    figures = curves.figures(network, way)
    if not saves:
        return figures
    if way == "script":
        net, x = curves.placed(network)
        with torch.no_grad(), threads_of(curves.platform, curves.device):
            return figures | rescripted(COMPILERS[way](net), x)
    if way in COMPILERS:
        return figures
    work = workload(network, curves.batch, curves.device)
    return figures | reloaded(gs.schedule(work, curves.platform, scheduler="one_stream", mode=way))


def _calling(curves: Curves, network: str, way: str) -> Callable[[], torch.Tensor]:
    """The network called in one of PyTorch's ways; the first call puts it on the device and compiles it."""
    made: list[Callable[[], torch.Tensor]] = []

    def call() -> torch.Tensor:
        with torch.no_grad(), threads_of(curves.platform, curves.device):
            if not made:
                net, x = curves.placed(network)
                made.append(functools.partial(COMPILERS[way](net), x))
            return made[0]()

    return call
