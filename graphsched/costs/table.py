"""Costs of operations by signature and device model, and their rows in JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from graphsched.costs.beside import Beside
from graphsched.costs.cache_states import CacheStates
from graphsched.costs.kernels import Kernel, Multiprocessors
from graphsched.costs.operations import TaskCost
from graphsched.errors import CostError, FileFormatError


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
        """These costs, with those of `other` in front of them; of the host's costs those that were not left out."""
        if other is None:
            return Costs(self._entries, self._pairs)
        newer = {key: cost.with_host_of(self._entries.get(key, cost)) for key, cost in other._entries.items()}
        return Costs(self._entries | newer, self._pairs | other._pairs)

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
                del row["kernels"]
            if cost.processors is None:
                del row["processors"]
            for kernel in row.get("kernels", ()):
                if not kernel["code"]:
                    del kernel["code"]
            if not cost.graph_memory:
                del row["graph_memory"]
            if not cost.product_s:
                del row["product_s"]
            if not cost.sweep_s:
                del row["sweep_s"]
            if cost.shares == (1.0, 0.0):
                del row["shares"]
            if not cost.rests:
                del row["rests"]
            if cost.near_s is None:
                del row["near_s"]
            if not cost.host_left_out:
                del row["host_left_out"]
            if cost.cache is None:
                del row["cache"]
            elif not cost.cache.shares:
                del row["cache"]["shares"]
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
                    pairs[row["signature"], row["beside"], row["model"]] = _beside(content)
                else:
                    entries[row["signature"], row["model"]] = _task_cost(content)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, CostError) as error:
            raise FileFormatError(f"not a table of costs: {type(error).__name__}: {error}") from error
        return cls(entries, pairs)


def _check_texts(row: Mapping[str, Any]) -> None:
    for key in ("signature", "model", "beside"):
        if not isinstance(row.get(key, ""), str):
            raise TypeError(f"{key!r} is {row[key]!r}, text is needed")


def _beside(content: dict[str, Any]) -> Beside:
    made = dict(content)
    made.update({name: _points(made[name]) for name in ("copies", "graph_copies") if name in made})
    return Beside(**made)


def _points(rows: Any) -> tuple[tuple[int, float], ...]:
    return tuple((k, s) for k, s in rows)


def _task_cost(content: dict[str, Any]) -> TaskCost:
    made = dict(content)
    made["quartiles_s"] = tuple(made["quartiles_s"]) if made.get("quartiles_s") else None
    for name in ("concurrency", "graph_memory", "rests"):
        made[name] = _points(made.get(name, ()))
    if "shares" in made:
        made["shares"] = tuple(made["shares"])
    made["kernels"] = tuple(Kernel(**kernel) for kernel in made.get("kernels", ()))
    made["processors"] = Multiprocessors(**made["processors"]) if made.get("processors") else None
    made["cache"] = _cache_states(made["cache"]) if made.get("cache") else None
    return TaskCost(**made)


def _cache_states(content: dict[str, Any]) -> CacheStates:
    return CacheStates(**content | {"shares": tuple(content.get("shares", ()))})
