"""Replicas in turns: what counts as a gradient, and what waits for its sum.

::

    a ─ grad.1 ─ on ─ grad.2      b ─ grad.3      a, b forward; the rest above backward
          │ ╲           │         │     │
          │  ╲──────────┼─────────┼─────╯
       update.1 ────────┼─────────╯     │         b reads what update.1 changed
                     update.2 ─────── update.3
"""

from __future__ import annotations

import torch

import graphsched as gs
from graphsched.partition.buckets import Replica
from graphsched.partition.copying import Copier
from graphsched.partition.interleaving import Interleaving, sums_before
from graphsched.partition.reducing import gather
from tests.partition.replicas import small


def _add(work: gs.Workload, phase: str, name: str, *values: gs.Value, **more: object) -> gs.Value:
    function = torch.add if len(values) == 2 else torch.neg
    made: gs.Value = work.task(more.pop("function", function), *values, name=name, **more)
    work.graph.nodes[name].update(module="", phase=phase)
    return made


def _subtract(w: torch.Tensor, gradient: torch.Tensor) -> None:
    w.sub_(gradient)


def _chain() -> gs.Workload:
    work = gs.Workload()
    work.returns_unread = False
    x, w, v = work.input("x", torch.ones(2)), work.state("w", torch.ones(2)), work.state("v", torch.ones(2))
    a = _add(work, "forward", "a", x, w)
    g1 = _add(work, "backward", "grad.1", a)
    on = _add(work, "backward", "on", g1, w)
    g2 = _add(work, "backward", "grad.2", on)
    _add(work, "update", "update.1", w, g1, updates=w, function=_subtract)
    _add(work, "update", "update.2", v, g2, updates=v, function=_subtract)
    g3 = _add(work, "backward", "grad.3", _add(work, "forward", "b", x, w), g1)
    _add(work, "update", "update.3", v, g3, updates=v, function=_subtract)
    return work


def _two(work: gs.Workload, bucket_bytes: int) -> gs.Workload:
    target = gs.Workload()
    target.returns_unread = False
    replicas = [
        Replica(str(i), f"worker:{i}", Copier(work, target, f"{i}/{{}}".format, lambda _, i=i: f"worker:{i}"))
        for i in range(2)
    ]
    Interleaving(replicas, [0.5, 0.5], gather, bucket_bytes).emit()
    return target


def test_gradients_with_the_sums_before_them() -> None:
    """`on` goes from backward to backward: no gradient."""
    assert sums_before(_chain()) == {"grad.1": 0, "grad.2": 0, "grad.3": 1}
    assert sums_before(small()[0]) == dict.fromkeys(
        ["2.backward/mm.2", "2.backward/sum", "0.backward/mm", "0.backward/sum"], 0
    )


def test_an_update_waits_for_what_reads_the_old_value() -> None:
    """`on` reads w: update.1 comes after it, though its gradient is summed early."""
    order = [name for name in _two(_chain(), 0).graph if name.startswith("0/")]
    assert order == [
        "0/a", "0/grad.1", "0/on", "0/grad.2", "0/bucket.0/sum", "0/update.1", "0/b", "0/grad.3",
        "0/bucket.1/sum", "0/update.2", "0/bucket.2/sum", "0/update.3",
    ]  # fmt: skip


def test_backward_reads_its_own_gradient_and_updates_the_sum() -> None:
    both = _two(_chain(), 0)
    assert list(both.graph.predecessors("0/on")) == ["0/grad.1"]
    assert list(both.graph.predecessors("0/grad.3")) == ["0/b", "0/grad.1"]
    for i in range(2):
        assert f"{i}/bucket.0/sum" in both.graph.predecessors(f"{i}/update.1")
        assert {"0/grad.1", "1/grad.1"} <= set(both.graph.predecessors(f"{i}/bucket.0/sum"))


def test_replicas_take_turns() -> None:
    order = list(_two(_chain(), 1 << 20).graph)
    pairs = [(one[2:], other[2:]) for one, other in zip(order[::2], order[1::2], strict=True)]
    assert all(one == other for one, other in pairs)
    assert [one[:1] + other[:1] for one, other in zip(order[::2], order[1::2], strict=True)] == ["01"] * len(pairs)
