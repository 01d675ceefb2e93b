"""Tensors, operations and edges that several tests of workloads use."""

from __future__ import annotations

from typing import Any

import torch

from graphsched.workload import TensorSpec, Workload

MATRIX = TensorSpec((4, 4))  # 64 bytes
BYTES = 64


def nothing(*values: Any) -> None:
    """Reads, makes nothing."""


def momentum(w: torch.Tensor, m: torch.Tensor) -> None:
    w.sub_(m.mul_(0.9))


def add_to(w: torch.Tensor, b: torch.Tensor | float) -> None:
    w.add_(b)


def edges(work: Workload) -> dict[tuple[str, str], int]:
    return {(u, v): nbytes for u, v, nbytes in work.graph.edges(data="nbytes")}
