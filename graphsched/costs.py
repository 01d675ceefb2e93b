"""What a task costs on a device: measured alone, given by the user, or estimated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args

from graphsched.errors import CostError, FileFormatError

CostSource = Literal["measured", "given", "estimated"]

COMPANY_KINDS = 12
"""Other kinds of calls after which `TaskCost.company_s` is measured."""


def check_seconds(seconds: Any, what: str) -> float:
    """`seconds` as a float that is finite and not negative.

    Raises:
        CostError: It is not.

    Example:
        >>> check_seconds(2, "duration of task 'a'")
        2.0
    """
    try:
        number = float(seconds)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise CostError(f"{what} is {seconds!r}: a finite number of seconds, 0 or more, is needed")
    return number


@dataclass(frozen=True, slots=True)
class Multiprocessors:
    """What a GPU places blocks of kernels on: how many there are, and what one of them has room for.

    Attributes:
        count: Multiprocessors of the device.
        registers, threads, shared_bytes, blocks: Room on each.
    """

    count: int
    registers: int
    threads: int
    shared_bytes: int
    blocks: int

    def __post_init__(self) -> None:
        _check_counts(self, least=1)


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel of an operation: its blocks, and what each of them takes of a multiprocessor.

    Attributes:
        blocks: Blocks of its grid.
        registers, threads, shared_bytes: Of one block, as they are allocated.
        share: Its part of the operation's time on the device.
    """

    blocks: int
    registers: int
    threads: int
    shared_bytes: int
    share: float = 1.0

    def __post_init__(self) -> None:
        _check_counts(self, least=0)
        if self.blocks < 1:
            raise CostError(f"a kernel of {self.blocks!r} blocks: at least 1 is needed")
        check_seconds(self.share, "share of a kernel")


def _check_counts(sizes: Multiprocessors | Kernel, least: int) -> None:
    for field in fields(sizes):
        number = getattr(sizes, field.name)
        if field.name != "share" and (isinstance(number, bool) or not isinstance(number, int) or number < least):
            what = f"{field.name} of {type(sizes).__name__}"
            raise CostError(f"{what} is {number!r}: a whole number, {least} or more, is needed")


@dataclass(frozen=True, slots=True)
class Beside:
    """How an operation fares beside one other on the same device.

    Attributes:
        slowdown: Its time over its time alone, with the other beside it all the while.
        in_flight: The part of that which is not waiting for room: how much longer its blocks take where
            all blocks of both are placed. None: not told apart.
        samples: Number of measurements behind the median.
    """

    slowdown: float
    in_flight: float | None = None
    samples: int = 0

    def __post_init__(self) -> None:
        check_seconds(self.slowdown, "slowdown beside another operation")
        if self.in_flight is not None and not math.isfinite(self.in_flight):
            raise CostError(f"in_flight is {self.in_flight!r}: a finite number is needed")


@dataclass(frozen=True, slots=True)
class TaskCost:
    """The cost of one operation on one kind of device, alone on it.

    Attributes:
        device_s: Time on the device (on a CPU lane: of the worker thread), median.
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
        company_s: What the call takes the host longer after calls of `COMPANY_KINDS` other kinds, median; None: not
            measured.
        switching_s: What the call takes the host longer where its stream is another than the last call's, beyond
            making that stream current, median.
        graph_s: Time of one in a row inside a CUDA graph; None: not measured, or it cannot be captured.
        graph_nodes: Nodes of a graph that it makes; 0: unknown, one a launch.
        graph_tried: Whether `graph_s` and `graph_nodes` were to be measured, so that what is unknown stays so.
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
    switching_s: float = 0.0
    graph_s: float | None = None
    graph_nodes: int = 0
    graph_tried: bool = False

    def __post_init__(self) -> None:
        if self.company_s is not None:
            check_seconds(self.company_s, "company_s")
        if self.graph_s is not None:
            check_seconds(self.graph_s, "graph_s")
        check_seconds(self.switching_s, "switching_s")
        check_seconds(self.device_s, "device_s")
        check_seconds(self.dispatch_s, "dispatch_s")
        check_seconds(self.call_s, "call_s")
        for name in ("launches", "workspace_bytes", "samples", "graph_nodes"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                raise CostError(f"{name} is {number!r}: a whole number, 0 or more, is needed")
        if not isinstance(self.graph_tried, bool):
            raise CostError(f"graph_tried is {self.graph_tried!r}: true or false is needed")
        if self.source not in get_args(CostSource):
            raise CostError(f"source is {self.source!r}: one of {', '.join(get_args(CostSource))}")
        for quartile in self.quartiles_s or ():
            check_seconds(quartile, "quartile of device_s")
        for _, slowdown in self.concurrency:
            check_seconds(slowdown, "slowdown of a concurrency curve")
        if [k for k, _ in self.concurrency] != sorted({k for k, _ in self.concurrency}):
            raise CostError(f"concurrency curve {self.concurrency}: the numbers of copies must ascend")

    def in_graph(self) -> TaskCost:
        """This cost inside a CUDA graph: `device_s` and `launches` are those of its nodes, where they are known.

        Example:
            >>> TaskCost(6e-6, launches=2, graph_s=5e-6, graph_nodes=3).in_graph().device_s
            5e-06
            >>> TaskCost(6e-6).in_graph() == TaskCost(6e-6)
            True
        """
        if self.graph_s is None and not self.graph_nodes:
            return self
        device_s = self.device_s if self.graph_s is None else self.graph_s
        return replace(self, device_s=device_s, launches=self.graph_nodes or self.launches)

    def dispatch_at(self, call_s: float) -> float:
        """`dispatch_s` on a thread whose tiny operation takes `call_s` now; as measured where either is unknown.

        Example:
            >>> TaskCost(1.0, dispatch_s=1e-5, call_s=5e-6).dispatch_at(1e-5)
            2e-05
        """
        return self.dispatch_s * self.pace_at(call_s)

    def pace_at(self, call_s: float) -> float:
        """How many times longer the host's calls take on a thread whose tiny operation takes `call_s`; else 1."""
        return call_s / self.call_s if call_s and self.call_s else 1.0

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
        below = (1, 1.0)
        for point in self.concurrency:
            if point[0] >= k:
                share = (k - below[0]) / (point[0] - below[0]) if point[0] > below[0] else 1.0
                return below[1] + share * (point[1] - below[1])
            below = point
        return below[1] * k / below[0]


class Costs:
    """Costs of operations: a mapping from (signature, device model) to `TaskCost`.

    Beside these it holds what pairs of operations cost each other: see `get_pair`.

    Example:
        >>> costs = Costs({("torch.mm(...)", "NVIDIA H200"): TaskCost(2.6e-3)})
        >>> costs["torch.mm(...)", "NVIDIA H200"].device_s
        0.0026
        >>> Costs.from_dict(costs.to_dict()) == costs
        True
    """

    def __init__(
        self,
        entries: Mapping[tuple[str, str], TaskCost] | None = None,
        pairs: Mapping[tuple[str, str, str], Beside] | None = None,
    ) -> None:
        """`pairs` by (signature, signature of the one beside it, device model)."""
        self._entries: dict[tuple[str, str], TaskCost] = dict(entries or {})
        self._pairs: dict[tuple[str, str, str], Beside] = dict(pairs or {})

    def get(self, signature: str, model: str) -> TaskCost | None:
        """The cost filed under `signature` on device `model`, or None."""
        return self._entries.get((signature, model))

    def get_pair(self, signature: str, beside: str, model: str) -> Beside | None:
        """What `beside` costs the operation of `signature` on device `model`; None: not measured.

        Example:
            >>> costs = Costs(pairs={("add", "mm", "H200"): Beside(1.7)})
            >>> costs.get_pair("add", "mm", "H200").slowdown, costs.get_pair("mm", "add", "H200")
            (1.7, None)
        """
        return self._pairs.get((signature, beside, model))

    @property
    def pairs(self) -> Mapping[tuple[str, str, str], Beside]:
        """What is measured of pairs, by (signature, signature of the one beside it, device model)."""
        return self._pairs

    def __getitem__(self, key: tuple[str, str]) -> TaskCost:
        try:
            return self._entries[key]
        except KeyError:
            raise CostError(f"no cost of {key[0]!r} on {key[1]!r}: measure it with gs.profile") from None

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Costs) and (self._entries, self._pairs) == (other._entries, other._pairs)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        pairs = f", {len(self._pairs)} pairs" if self._pairs else ""
        return f"Costs({len(self)} operations{pairs})"

    def merged(self, other: Costs | None) -> Costs:
        """These costs, with those of `other` in front of them."""
        if other is None:
            return Costs(self._entries, self._pairs)
        return Costs(self._entries | other._entries, self._pairs | other._pairs)

    def chosen(self, keys: Iterable[tuple[str, str]]) -> Costs:
        """Those of these (signature, model) that are here, in the order given, and the pairs among them.

        Example:
            >>> costs = Costs({("a", "H200"): TaskCost(1.0)}, {("a", "a", "H200"): Beside(2.0)})
            >>> costs.chosen([("a", "H200"), ("b", "H200")]), costs.chosen([("b", "H200")])
            (Costs(1 operations, 1 pairs), Costs(0 operations))
        """
        wanted = dict.fromkeys(keys)
        pairs = {k: v for k, v in self._pairs.items() if (k[0], k[2]) in wanted and (k[1], k[2]) in wanted}
        return Costs({key: self._entries[key] for key in wanted if key in self._entries}, pairs)

    def to_dict(self) -> list[dict[str, Any]]:
        """For JSON, in order of signature and model; then the pairs, rows with a key ``beside``."""
        rows = []
        for (signature, model), cost in sorted(self._entries.items()):
            row = asdict(cost)
            if not cost.kernels:
                del row["kernels"], row["processors"]
            rows.append({"signature": signature, "model": model} | row)
        for (signature, beside, model), pair in sorted(self._pairs.items()):
            rows.append({"signature": signature, "model": model, "beside": beside} | asdict(pair))
        return rows

    @classmethod
    def from_dict(cls, rows: Any) -> Costs:
        """The costs of `to_dict`.

        Raises:
            FileFormatError: Entries are missing or wrong.
        """
        entries, pairs = {}, {}
        try:
            for row in rows:
                _check_texts(row)
                content = {k: v for k, v in row.items() if k not in ("signature", "model", "beside")}
                if "beside" in row:
                    pairs[row["signature"], row["beside"], row["model"]] = Beside(**content)
                else:
                    entries[row["signature"], row["model"]] = _task_cost(content)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, CostError) as error:
            raise FileFormatError(f"not a table of costs: {type(error).__name__}: {error}") from error
        return cls(entries, pairs)


def _check_texts(row: Mapping[str, Any]) -> None:
    for key in ("signature", "model", "beside"):
        if not isinstance(row.get(key, ""), str):
            raise TypeError(f"{key!r} is {row[key]!r}, text is needed")


def _task_cost(content: dict[str, Any]) -> TaskCost:
    made = dict(content)
    made["quartiles_s"] = tuple(made["quartiles_s"]) if made.get("quartiles_s") else None
    made["concurrency"] = tuple((int(k), float(s)) for k, s in made.get("concurrency", ()))
    made["kernels"] = tuple(Kernel(**kernel) for kernel in made.get("kernels", ()))
    made["processors"] = Multiprocessors(**made["processors"]) if made.get("processors") else None
    return TaskCost(**made)
