"""Operators of torch's dispatcher that are the project's own: ``torch.ops.graphsched``."""

from __future__ import annotations

from typing import Any

from graphsched.workload import attention, half_norms


def own_operator(name: str) -> Any:
    """The project's own operator of this name, without a namespace; None: there is none."""
    if name in attention.NAMES:
        return attention.attention_operator(name)
    return half_norms.half_norm(name) if name in half_norms.NAMES else None
