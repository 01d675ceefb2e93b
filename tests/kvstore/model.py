"""A dictionary that does what a store must do, one operation after the other, and rounds that are drawn for both."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st

KEYS = {"bias": (3,), "conv.weight": (2, 3, 2), "fc": (7, 5), "scalar": ()}
AGGREGATES = ("sum", "mean", "max", "min")


def median(*values: torch.Tensor) -> torch.Tensor:
    """An aggregate of the user's, element by element."""
    return torch.stack(values).median(0).values


def sgd(stored: torch.Tensor, aggregate: torch.Tensor) -> None:
    """An update."""
    stored.sub_(aggregate, alpha=0.1)


def expected(aggregate: Any, values: list[torch.Tensor]) -> torch.Tensor:
    """The aggregate, from the first value to the last."""
    if callable(aggregate):
        return aggregate(*values)
    if aggregate in ("max", "min"):
        return functools.reduce(torch.maximum if aggregate == "max" else torch.minimum, values)
    total = functools.reduce(torch.add, values)
    return total / len(values) if aggregate == "mean" else total


def value(key: str, worker: int, number: int) -> torch.Tensor:
    """Of which sums in another order have other bits."""
    generator = torch.Generator().manual_seed(1000 * number + 10 * list(KEYS).index(key) + worker)
    return torch.randn(KEYS[key], generator=generator) * 10.0**worker


@dataclass
class Model:
    """What is stored under each key."""

    aggregate: Any
    update: Any = None
    stored: dict[str, torch.Tensor] = field(default_factory=dict)

    def round(self, key: str, values: dict[int, torch.Tensor]) -> None:
        """A round of pushes, by worker in any order."""
        total = expected(self.aggregate, [values[worker] for worker in sorted(values)])
        if self.update is None:
            self.stored[key] = total
        else:
            self.stored[key] = self.stored[key].clone()
            self.update(self.stored[key], total)


@dataclass(frozen=True)
class Round:
    """Pushes of all workers of some keys in any order, each with a priority, and then pulls of some keys."""

    pushes: list[tuple[str, int, int]]
    pulls: list[str]


@st.composite
def rounds(draw: Any, workers: int, most: int = 3) -> list[Round]:
    """Rounds in which every key that is pushed is pushed by all; pulls are of keys that were pushed, then or before."""
    made: list[Round] = []
    known: dict[str, None] = {}
    for _ in range(draw(st.integers(1, most))):
        keys = draw(st.lists(st.sampled_from(list(KEYS)), min_size=1, unique=True))
        pushes = [(key, worker, draw(st.integers(-2, 2))) for key in keys for worker in range(workers)]
        known.update(dict.fromkeys(keys))
        pulls = [*keys, *draw(st.lists(st.sampled_from(list(known))))]  # what is not pulled could not be pushed again
        made.append(Round(draw(st.permutations(pushes)), draw(st.permutations(pulls))))
    return made


@st.composite
def stores(draw: Any) -> dict[str, Any]:
    """Arguments of both stores."""
    return {
        "servers": [f"worker:{i}" for i in range(draw(st.integers(1, 3)))],
        "workers": draw(st.integers(1, 4)),
        "aggregate": draw(st.sampled_from([*AGGREGATES, median])),
        "update": draw(st.sampled_from([None, sgd])),
        "shard": draw(st.sampled_from(["keys", "elements"])),
        "cut_from_bytes": draw(st.sampled_from([0, 64])),
    }
