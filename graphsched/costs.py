"""What a task costs on a device: measured alone, given by the user, or estimated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from graphsched.errors import CostError, FileFormatError

CostSource = Literal["measured", "given", "estimated"]


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
        source: ``measured``, ``given`` or ``estimated``.
    """

    device_s: float
    dispatch_s: float = 0.0
    launches: int = 1
    workspace_bytes: int = 0
    quartiles_s: tuple[float, float] | None = None
    samples: int = 0
    concurrency: tuple[tuple[int, float], ...] = ()
    source: CostSource = "measured"

    def __post_init__(self) -> None:
        check_seconds(self.device_s, "device_s")
        check_seconds(self.dispatch_s, "dispatch_s")
        for quartile in self.quartiles_s or ():
            check_seconds(quartile, "quartile of device_s")
        for _, slowdown in self.concurrency:
            check_seconds(slowdown, "slowdown of a concurrency curve")
        if [k for k, _ in self.concurrency] != sorted({k for k, _ in self.concurrency}):
            raise CostError(f"concurrency curve {self.concurrency}: the numbers of copies must ascend")

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

    Example:
        >>> costs = Costs({("torch.mm(...)", "NVIDIA H200"): TaskCost(2.6e-3)})
        >>> costs["torch.mm(...)", "NVIDIA H200"].device_s
        0.0026
        >>> Costs.from_dict(costs.to_dict()) == costs
        True
    """

    def __init__(self, entries: Mapping[tuple[str, str], TaskCost] | None = None) -> None:
        self._entries: dict[tuple[str, str], TaskCost] = dict(entries or {})

    def get(self, signature: str, model: str) -> TaskCost | None:
        """The cost filed under `signature` on device `model`, or None."""
        return self._entries.get((signature, model))

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
        return isinstance(other, Costs) and self._entries == other._entries

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Costs({len(self)} operations)"

    def merged(self, other: Costs | None) -> Costs:
        """These costs, with those of `other` in front of them."""
        return Costs(self._entries | (other._entries if other else {}))

    def to_dict(self) -> list[dict[str, Any]]:
        """For JSON, in order of signature and model."""
        rows = []
        for (signature, model), cost in sorted(self._entries.items()):
            rows.append({"signature": signature, "model": model} | asdict(cost))
        return rows

    @classmethod
    def from_dict(cls, rows: Any) -> Costs:
        """The costs of `to_dict`.

        Raises:
            FileFormatError: Entries are missing or wrong.
        """
        entries = {}
        try:
            for row in rows:
                fields = {k: v for k, v in row.items() if k not in ("signature", "model")}
                fields["quartiles_s"] = tuple(fields["quartiles_s"]) if fields.get("quartiles_s") else None
                fields["concurrency"] = tuple((int(k), float(s)) for k, s in fields.get("concurrency", ()))
                entries[row["signature"], row["model"]] = TaskCost(**fields)
        except (KeyError, TypeError, ValueError, AttributeError, CostError) as error:
            raise FileFormatError(f"not a table of costs: {type(error).__name__}: {error}") from error
        return cls(entries)
