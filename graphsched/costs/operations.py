"""What one operation costs on one kind of device, alone."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import Literal, get_args

from graphsched.costs.cache_states import CacheStates
from graphsched.costs.checks import check_count, check_figure
from graphsched.costs.kernels import Kernel, Multiprocessors
from graphsched.costs.points import between, check_points
from graphsched.errors import CostError

CostSource = Literal["measured", "given", "estimated"]

COMPANY_KINDS = 12
"""Other kinds of calls after which `TaskCost.company_s` is measured."""

COMPANY_AGES = 24.0, 800.0
"""About how many tiny calls, in host time, lie behind an operation's last one where `recent_s` and `company_s` are
measured: one run of others; that, two of the yardstick and a sample of calls after waits (`calibration.host_costs`)."""

LEAST_SLOWDOWN = 0.1
"""What no operation takes less than, beside others of its kind, over what it takes alone."""

HOST_FIGURES = ("dispatch_s", "call_s", "company_s", "recent_s", "cold_s", "switching_s")
"""Fields of `TaskCost` that say what the call costs the host."""


def company_share(others: int) -> float:
    """What a call after so many other kinds loses, of what it loses after `COMPANY_KINDS`: in proportion to them.

    Example:
        >>> company_share(3), company_share(20)
        (0.25, 1.0)
    """
    return min(1.0, others / COMPANY_KINDS)


REST_S, NO_REST_S, BRIEF_REST_S, LONG_REST_S = 2e-3, 1e-5, 3e-4, 6e-3
"""How long the threads of a CPU lane have rested before operations are timed there, in seconds: `TaskCost.device_s` is
what they take after the first; the second is what it is at least, from one operation to the next. See
`TaskCost.rests`."""


@dataclass(frozen=True, slots=True)
class TaskCost:
    """The cost of one operation on one kind of device, alone on it.

    Attributes:
        device_s: Time on the device (on a CPU lane: of the worker thread), median; on one of
            several threads of each in a row.
        dispatch_s: Host time of the call that launches it, median.
        launches: Kernels launched.
        workspace_bytes: Memory beyond outputs that is needed while it runs.
        quartiles_s: First and third quartile of the device time.
        samples: Number of measurements behind the medians.
        concurrency: (k, slowdown) pairs: how many times longer it takes when k copies of it run
            side by side on the device; empty: not measured.
        kernels: Its kernels, in order; empty: not known.
        processors: What the device places their blocks on; None: not known.
        source: ``measured``, ``given`` or ``estimated``.
        call_s: The yardstick when `dispatch_s` was measured, see `Dispatch.call_s`; 0 if unknown.
        product_s, sweep_s: The yardsticks of its CPU lane when `device_s` was measured, see `Dispatch`; 0 if unknown.
        shares: Of `device_s`, what goes with the one and with the other; what is left goes with neither. Where
            `sweep_s` is unknown all of it goes with the first.
        company_s: What the call takes the host longer after calls of `COMPANY_KINDS` other kinds, median; None: not
            measured.
        recent_s: The same where its own last call lies just before these, and not some milliseconds back; None:
            unknown.
        cold_s: What a call took longer after a wait when `company_s` was measured, of those of
            `Dispatch.colds` the longest; None: unknown.
        switching_s: What the call takes the host longer where its stream is another than the last call's, beyond
            making that stream current, median.
        graph_s: Time of one in a row inside a CUDA graph; None: not measured, or it cannot be captured.
        graph_memory: (bytes, seconds) pairs: `graph_s` by the memory of its device that the graph works on, where a
            cache does not hold it all; empty: `graph_s`, whatever that is.
        graph_nodes: Nodes of a graph that it makes, where they were counted apart from `launches`; 0: as many as these.
        graph_tried: Whether `graph_s` was to be measured, so that what is unknown stays so.
        curve_left_out: Whether `concurrency` was not to be measured: for a plan with one lane a device.
        host_left_out: Whether what the call costs the host was not to be measured: for a plan that is one CUDA graph.
        cache: What it takes longer inside a CUDA graph by what caches hold; None: not measured.
        rests: (seconds of rest, seconds) pairs: `device_s` on a CPU lane by how long its threads have rested before;
            empty: not measured.
        near_s: `device_s` on a CPU lane of several threads where all that it reads and writes lies in the caches of the
            host; None: not measured.
    """

    device_s: float
    dispatch_s: float = 0.0
    launches: int = 1
    workspace_bytes: int = 0
    quartiles_s: tuple[float, float] | None = None
    samples: int = 0
    concurrency: tuple[tuple[int, float], ...] = ()
    source: CostSource = "measured"
    kernels: tuple[Kernel, ...] = ()
    processors: Multiprocessors | None = None
    call_s: float = 0.0
    company_s: float | None = None
    recent_s: float | None = None
    cold_s: float | None = None
    switching_s: float = 0.0
    graph_s: float | None = None
    graph_nodes: int = 0
    graph_tried: bool = False
    curve_left_out: bool = False
    host_left_out: bool = False
    graph_memory: tuple[tuple[int, float], ...] = ()
    product_s: float = 0.0
    cache: CacheStates | None = None
    rests: tuple[tuple[float, float], ...] = ()
    sweep_s: float = 0.0
    shares: tuple[float, float] = (1.0, 0.0)
    near_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("device_s", "dispatch_s", "switching_s", "call_s", "product_s", "sweep_s"):
            check_figure(getattr(self, name), name)
        for name in ("company_s", "recent_s", "cold_s", "graph_s", "near_s"):
            if getattr(self, name) is not None:
                check_figure(getattr(self, name), name)
        for name in ("launches", "workspace_bytes", "samples", "graph_nodes"):
            check_count(getattr(self, name), name)
        for name in ("graph_tried", "curve_left_out", "host_left_out"):
            if not isinstance(getattr(self, name), bool):
                raise CostError(f"{name} is {getattr(self, name)!r}: true or false is needed")
        if self.source not in get_args(CostSource):
            raise CostError(f"source is {self.source!r}: one of {', '.join(get_args(CostSource))}")
        check_points(self.concurrency, "concurrency", "numbers of copies", "slowdowns", 1)
        for copies, slowdown in self.concurrency:
            if slowdown < LEAST_SLOWDOWN:
                raise CostError(f"concurrency of {copies} copies is {slowdown!r}: at least {LEAST_SLOWDOWN} is needed")
        check_points(self.graph_memory, "graph_memory", "numbers of bytes", "seconds", 0)
        check_points(self.rests, "rests", "seconds of rest", "seconds", None)
        self._check_shares()
        self._check_quartiles()

    def _check_shares(self) -> None:
        for share in self.shares:
            check_figure(share, "one of shares")
        if len(self.shares) != 2 or sum(self.shares) > 1.0 + sys.float_info.epsilon:
            raise CostError(f"shares is {self.shares!r}: two that are no more than 1 together are needed")

    def _check_quartiles(self) -> None:
        if self.quartiles_s is None:
            return
        for quartile in self.quartiles_s:
            check_figure(quartile, "quartile of device_s")
        if len(self.quartiles_s) != 2 or self.quartiles_s[0] > self.quartiles_s[1]:
            raise CostError(f"quartiles_s is {self.quartiles_s!r}: the first and the third quartile are needed")

    def in_graph(self, memory_bytes: int = 0) -> TaskCost:
        """This cost inside a CUDA graph: `device_s` and `launches` are those of its nodes, where they are known.

        Between two points of `graph_memory` it is interpolated, and so it is below the first, from `graph_s` at no
        bytes on; beyond the last it is that of the last.

        Args:
            memory_bytes: Memory of its device that the graph works on.

        Example:
            >>> TaskCost(6e-6, launches=2, graph_s=5e-6, graph_nodes=3).in_graph().device_s
            5e-06
            >>> TaskCost(6e-6).in_graph() == TaskCost(6e-6)
            True
            >>> cost = TaskCost(8.0, graph_s=3.0, graph_memory=((100, 4.0), (300, 6.0)))
            >>> [cost.in_graph(nbytes).device_s for nbytes in (0, 50, 200, 1000)]
            [3.0, 3.5, 5.0, 6.0]
        """
        if self.graph_s is None and not self.graph_nodes:
            return self
        device_s = self.device_s
        if self.graph_s is not None:
            device_s = between(((0, self.graph_s), *self.graph_memory), memory_bytes)
        return replace(self, device_s=device_s, launches=self.graph_nodes or self.launches)

    def with_host_of(self, other: TaskCost) -> TaskCost:
        """This cost; with what the call costs the host from `other`, if it was left out here and not there.

        Example:
            >>> TaskCost(2.0, host_left_out=True).with_host_of(TaskCost(1.0, dispatch_s=1e-5))
            TaskCost(device_s=2.0, dispatch_s=1e-05, launches=1, ...)
        """
        if not self.host_left_out or other.host_left_out:
            return self
        host = {name: getattr(other, name) for name in HOST_FIGURES}
        return replace(self, host_left_out=False, **host)

    def pace_at(self, call_s: float) -> float:
        """How many times longer the host's calls take on a thread whose tiny operation takes `call_s`; else 1."""
        return call_s / self.call_s if call_s and self.call_s else 1.0

    def company_after(self, calls: float) -> float:
        """What the call takes longer after other kinds, where its last one lies so many tiny calls back in host time.

        Between `recent_s` and `company_s`, linear in the logarithm, which is an assumption; 0 where neither is known.

        Example:
            >>> cost = TaskCost(1.0, company_s=3e-5, recent_s=1e-5)
            >>> [round(cost.company_after(calls) * 1e6) for calls in (1, 24, 139, 800, 5000)]
            [10, 10, 20, 30, 30]
            >>> TaskCost(1.0, company_s=3e-5).company_after(24)
            3e-05
        """
        far_s = self.company_s or 0.0
        if self.recent_s is None:
            return far_s
        near, far = COMPANY_AGES
        way = math.log(min(max(calls, near), far) / near) / math.log(far / near)
        return self.recent_s + way * (far_s - self.recent_s)

    def cold_pace_at(self, call_s: float, cold_s: float) -> float:
        """How many times longer a call takes that finds the processor's caches cold: as one after a wait does now.

        Neighbours on a processor take its caches, so that such calls slow down by more than those in a row.

        Args:
            call_s: What a tiny operation takes in a row now.
            cold_s: What it takes longer after a wait now.

        Example:
            >>> cost = TaskCost(1.0, call_s=6e-6, company_s=4e-5, cold_s=2e-6)
            >>> cost.cold_pace_at(9e-6, 7e-6), cost.cold_pace_at(9e-6, 0.0), TaskCost(1.0).cold_pace_at(9e-6, 7e-6)
            (2.0, 1.125, 1.0)
            >>> TaskCost(1.0, call_s=6e-6, company_s=4e-5).cold_pace_at(9e-6, 7e-6)  # not known: as those in a row
            1.5
        """
        if self.cold_s is None or not (call_s and self.call_s):
            return self.pace_at(call_s)
        return (call_s + cold_s) / (self.call_s + self.cold_s)

    def among(self, uncached: float) -> TaskCost:
        """This cost on a CPU lane whose plan goes through as much of the host's memory as caches do not hold.

        Args:
            uncached: The part of the way from `near_s` to `device_s`: 0: caches hold all of it, 1: as measured.

        Example:
            >>> cost = TaskCost(4.0, rests=((1e-3, 2.0), (2e-3, 4.0)), near_s=3.0)
            >>> cost.among(0.5).device_s, cost.among(0.0).rests, TaskCost(4.0).among(0.0).device_s
            (3.5, ((0.001, 1.5), (0.002, 3.0)), 4.0)
        """
        if self.near_s is None or not self.near_s < self.device_s:
            return self
        device_s = self.near_s + uncached * (self.device_s - self.near_s)
        part = device_s / self.device_s
        return replace(self, device_s=device_s, rests=tuple((rest_s, part * s) for rest_s, s in self.rests))

    def on_lane_at(self, product_s: float, sweep_s: float = 0.0) -> float:
        """`device_s` on a CPU lane whose yardsticks are these now; as measured where one or the other is unknown.

        Example:
            >>> TaskCost(1.0, product_s=2e-4).on_lane_at(4e-4), TaskCost(1.0).on_lane_at(4e-4)
            (2.0, 1.0)
            >>> TaskCost(1.0, product_s=2e-4, sweep_s=1e-3, shares=(0.25, 0.5)).on_lane_at(4e-4, 3e-3)
            2.25
        """
        if not self.sweep_s:
            return self.device_s * product_s / self.product_s if product_s and self.product_s else self.device_s
        return self.device_s * self._lane_pace(product_s, sweep_s)

    def _lane_pace(self, product_s: float, sweep_s: float) -> float:
        """How many times as long it takes now."""
        if not self.sweep_s:
            return product_s / self.product_s if product_s and self.product_s else 1.0
        yardsticks = zip(self.shares, (product_s, sweep_s), (self.product_s, self.sweep_s), strict=True)
        return 1.0 + sum([share * (now / then - 1.0) for share, now, then in yardsticks if now and then])

    def rests_at(self, product_s: float, sweep_s: float = 0.0) -> tuple[tuple[float, float], ...]:
        """`rests` on a lane as in `on_lane_at`; a longer rest costs no less than the first.

        Example:
            >>> TaskCost(2.0, product_s=2e-4, rests=((1e-3, 1.5), (2e-3, 2.0), (4e-3, 1.0))).rests_at(4e-4)
            ((0.001, 3.0), (0.002, 4.0), (0.004, 3.0))
        """
        pace = self._lane_pace(product_s, sweep_s)
        return tuple((rest_s, pace * max(seconds, self.rests[0][1])) for rest_s, seconds in self.rests)

    def slowdown(self, k: int) -> float:
        """Slowdown beside k - 1 others of its own kind, interpolated; without a curve: k (one device's work).

        Example:
            >>> TaskCost(1.0, concurrency=((1, 1.0), (2, 1.2), (4, 2.0))).slowdown(3)
            1.6
            >>> TaskCost(1.0).slowdown(3)
            3.0
        """
        if k <= 1:
            return 1.0
        if not self.concurrency:
            return float(k)
        most, slowest = self.concurrency[-1]
        return slowest * k / most if k > most else between(((1, 1.0), *self.concurrency), k)
