"""Many calls of a network, from nothing: its compilation, then one call after the other."""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import torch
from torch import nn

import graphsched as gs
from experiments._calls import COMPILERS, Call, compiling, planning, warm
from experiments._networks import example, module, workload
from experiments._shared import threads_of, torch_device
from graphsched.quantities import seconds_text

LEAST_GAIN = 0.02  # of a call: less is noise, and what it adds up to over many calls is a guess


@dataclass(frozen=True)
class Curve:
    """Seconds from the beginning of the compilation to the end of each call, in order."""

    ends_s: tuple[float, ...]

    @property
    def later_s(self) -> float:
        """Of one call once all is compiled: the median of the second half."""
        between = [b - a for a, b in zip(self.ends_s, self.ends_s[1:], strict=False)]
        return statistics.median(between[len(between) // 2 :] or self.ends_s)

    def figures(self, counts: Sequence[int]) -> dict[str, float]:
        """Seconds of `counts` calls in all.

        Example:
            >>> Curve((5.0, 6.0, 7.0)).figures((1, 3))
            {'in_1_calls_s': 5.0, 'in_3_calls_s': 7.0}
        """
        return {f"in_{n}_calls_s": self.ends_s[n - 1] for n in counts}


def measure(making: AbstractContextManager[Call], wait: Callable[[], None], count: int) -> tuple[Curve, torch.Tensor]:
    """Enter `making` for a call, then call it `count` times, each time with a wait for its result; the last is kept."""
    ends = []
    wait()
    began = time.perf_counter()
    with making as call:
        for _ in range(count):
            result = call()
            wait()
            ends.append(time.perf_counter() - began)
        return Curve(tuple(ends)), result.cpu()


def median_of(curves: Sequence[Curve]) -> Curve:
    """The median of each call's end.

    Example:
        >>> median_of([Curve((1.0, 2.0)), Curve((1.5, 9.0)), Curve((1.2, 2.5))])
        Curve(ends_s=(1.2, 2.5))
    """
    return Curve(tuple(map(statistics.median, zip(*(curve.ends_s for curve in curves), strict=True))))


def crossing(plain: Curve, compiled: Curve) -> int | None:
    """From how many calls on `compiled` has taken less time in all than `plain`; None: never.

    Beyond the calls that were measured, both go on as their later calls did, if these differ by more than noise.

    Example:
        >>> plain = Curve((1.0, 2.0, 3.0, 4.0))
        >>> crossing(plain, Curve((2.0, 2.5, 2.8, 3.1)))
        3
        >>> crossing(plain, Curve((9.0, 9.5, 10.0, 10.5)))
        18
        >>> crossing(plain, Curve((9.0, 10.0, 11.0, 12.0)))
    """
    behind = [n for n, (a, b) in enumerate(zip(plain.ends_s, compiled.ends_s, strict=True), 1) if b >= a]
    count = len(plain.ends_s)
    if not behind or behind[-1] < count:
        return behind[-1] + 1 if behind else 1
    gained_s = plain.later_s - compiled.later_s
    if gained_s < LEAST_GAIN * plain.later_s:
        return None
    return count + math.floor((compiled.ends_s[-1] - plain.ends_s[-1]) / gained_s) + 1


@dataclass
class Curves:
    """What many calls took, each network and way measured once, and their results.

    Attributes:
        platform, device: Where.
        batch: Inputs a call.
        counts: Numbers of calls to give figures of; the largest is how many are made.
        repeats: Times that all is done from nothing; a curve is the median.
        found, results: Curves and results of the last calls by network and way.
    """

    platform: gs.Platform
    device: str
    batch: int
    counts: tuple[int, ...]
    repeats: int = 1
    found: dict[str, dict[str, Curve]] = field(default_factory=dict)
    results: dict[tuple[str, str], torch.Tensor] = field(default_factory=dict)

    def of(self, network: str, way: str) -> Curve:
        """The curve of a network's calls in this way."""
        curves = self.found.setdefault(network, {})
        if way not in curves:
            curves[way], self.results[network, way] = self._measured(network, way)
        return curves[way]

    def figures(self, network: str, way: str) -> dict[str, float]:
        """Seconds of some numbers of calls in all, and of one later call.

        For ways other than op by op also ``calls_to_pay``, from how many calls on they have taken less (left out
        where that is never), and the largest difference of their results.
        """
        curve = self.of(network, way)
        figures = curve.figures(self.counts) | {"later_call_s": curve.later_s}
        if way == "imperative":
            return figures
        calls = crossing(self.of(network, "imperative"), curve)
        differences = (self.results[network, way] - self.results[network, "imperative"]).abs()
        return figures | ({"calls_to_pay": calls} if calls else {}) | {"max_abs_difference": float(differences.max())}

    def placed(self, network: str) -> tuple[nn.Module, torch.Tensor]:
        """The network and its inputs on the device."""
        where = torch_device(self.device)
        return module(network).to(where), example(network, self.batch).to(where)

    def _measured(self, network: str, way: str) -> tuple[Curve, torch.Tensor]:
        net, x = self.placed(network)
        with torch.no_grad(), threads_of(self.platform, self.device):
            warm(way, net, x)
            makings = [self._making(network, way, net, x) for _ in range(self.repeats)]
            measured = [measure(making, self._wait(), max(self.counts)) for making in makings]
        return median_of([curve for curve, _ in measured]), measured[-1][1]

    def _making(self, network: str, way: str, net: nn.Module, x: torch.Tensor) -> AbstractContextManager[Call]:
        if way in COMPILERS:
            return compiling(way, net, x)
        make = functools.partial(workload, network, self.batch, self.device)
        return planning(make, self.platform, way, x)

    def _wait(self) -> Callable[[], None]:
        if self.device.startswith("cuda"):
            return functools.partial(torch.cuda.synchronize, self.device)
        return lambda: None  # on the CPU, a call returns when it is done


def table(found: Mapping[str, Mapping[str, Curve]], words: Mapping[str, str], counts: Sequence[int]) -> str:
    """Curves as a table in Markdown: seconds of `counts` calls in all, and from how many calls on a way has paid."""
    head = ["network", "way of calling", *(f"{n:,} call{'s' if n > 1 else ''}" for n in counts), "a later call"]
    rows = [[*head, "faster in all from"], ["---"] * (len(head) + 1)]
    for network, curves in found.items():
        plain = curves["imperative"]
        for way, curve in curves.items():
            seconds = [seconds_text(curve.ends_s[n - 1]) for n in counts] + [seconds_text(curve.later_s)]
            calls = None if way == "imperative" else crossing(plain, curve)
            rows.append([network, words[way], *seconds, f"{calls:,} calls" if calls else "–"])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
