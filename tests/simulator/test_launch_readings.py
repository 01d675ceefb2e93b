"""Readings of launches over several GPUs (docs/readings.md): what a copy and an edge take the thread."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

READINGS = Path(__file__).parents[2] / "docs" / "readings.md"
ROW = re.compile(
    r"(\d) (\w+(?: no back)?) (\d+)(?: x \d+|x\d+)? +n +\d+ cp +(\d+) host +([\d.]+) whole +[\d.]+ yard +([\d.]+)"
)
PACE_US = 7.0


class Launch(NamedTuple):
    """Of a graph: its GPUs; copies, edges, and nodes that wait for nothing; what the thread takes at one pace."""

    gpus: int
    copies: int
    edges: int
    roots: int
    host_us: float


def launches() -> list[Launch]:
    found = []
    for gpus, kind, first, cp, host, yard in ROW.findall(READINGS.read_text(encoding="utf-8")):
        copies = int(cp)
        edges = 0 if kind in ("copies", "copies_of_tasks", "lanes") else copies
        roots = int(gpus) if kind.startswith(("star", "exchange")) else int(kind != "copies_then_tasks")
        roots = int(gpus) * int(first) if kind == "lanes" else roots
        reached = 2 if (kind, copies) == ("copies", 1) else int(gpus)
        found.append(Launch(reached, copies, edges, roots, float(host) * PACE_US / float(yard)))
    return found


def fitted(counted: np.ndarray, seen_us: np.ndarray) -> tuple[np.ndarray, float]:
    """What each of the counted takes, by relative errors, and the median of these."""
    found, *_ = np.linalg.lstsq(counted / seen_us[:, None], np.ones(len(seen_us)), rcond=None)
    return found, float(np.median(np.abs(counted @ found / seen_us - 1)))


@pytest.mark.parametrize(
    ("gpus", "number", "copy_us", "edge_us", "most"), [(2, 31, 1.25, 2.2, 0.08), (4, 29, 1.05, 3.6, 0.105)]
)
def test_a_copy_takes_less_than_an_edge_and_an_edge_longer_on_four(
    gpus: int, number: int, copy_us: float, edge_us: float, most: float
) -> None:
    """Fits by copies, edges and nodes that wait for nothing; and by copies and edges alike."""
    rows = [row for row in launches() if row.gpus == gpus]
    assert len(rows) == number
    seen_us = np.array([row.host_us for row in rows])
    takes_us, error = fitted(np.array([[1, row.copies, row.edges, row.roots] for row in rows]), seen_us)
    assert takes_us[1:3] == pytest.approx([copy_us, edge_us], abs=0.1)
    assert error < most
    assert fitted(np.array([[1, row.copies + row.edges, row.roots] for row in rows]), seen_us)[1] > 1.5 * error
