"""Sizes of buckets: which are worth trying, and which has the shortest prediction.

::

    0/backward ─ 0/flat ─ 0/backward ─ 0/flat ─┬ … ─ 0/update       buckets: a size each, simulated
                    ╳                     ╳                         apart: the same without sums
    1/backward ─ 1/flat ─ 1/backward ─ 1/flat ─┴ … ─ 1/update
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import graphsched as gs
from graphsched.errors import GraphschedError, WorkloadError
from graphsched.partition import bucket_sizes, choose_buckets, data_parallel
from graphsched.partition.buckets import in_buckets
from graphsched.platform import Device, Link, Platform
from tests.experiments.small import hand_written
from tests.partition.replicas import sgd, small, workers

WIDTH = 512


@functools.cache
def _deep(layers: int = 8) -> gs.Workload:
    """Dense layers without biases, 1 MiB of gradients each; no loss, which would be copied too."""
    torch.manual_seed(3)
    net = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers)))
    optimizer = sgd(net.parameters())

    def step(x: torch.Tensor) -> dict[str, torch.Tensor]:
        output = net(x)
        output.square().mean().backward()
        optimizer.step()
        return {"output": output.detach()}

    return gs.trace(step, torch.randn(64, WIDTH), module=net, optimizer=optimizer)


def _host(bytes_per_s: float, latency_s: float) -> Platform:
    """Two GPUs joined by a link; what is not there costs nothing."""
    names = ("cuda:0", "cuda:1")
    devices = (Device("cpu", "cpu", lanes=8), *(Device(name, "cuda", "a GPU", lanes=8) for name in names))
    links = [Link(*pair, "peer", latency_s, bytes_per_s) for pair in itertools.permutations(names)]
    links += [Link("cpu", name, "pinned", 0.0, 1e15) for name in names]
    return Platform("by hand", devices, tuple(links), cores=8)


def _costs(product_s: float) -> gs.Costs:
    """Products take so long, all else nothing."""
    found = {}
    for size in bucket_sizes(_deep()):
        for task in data_parallel(_deep(), ["cuda:0", "cuda:1"], bucket_bytes=size).tasks:
            is_product = task.signature.startswith("torch.ops.aten.mm")
            found[task.signature, "a GPU"] = gs.TaskCost(product_s if is_product else 0.0)
    return gs.Costs(found)


# -- sizes -------------------------------------------------------------------------------------------


def test_sizes_make_one_two_four_buckets_and_each_alone() -> None:
    """Eight layers of 1 MiB."""
    assert bucket_sizes(_deep()) == {8 << 20: 1, 4 << 20: 2, 2 << 20: 4, 0: 8}


def test_the_first_size_is_that_of_sums_after_the_backward_pass() -> None:
    size = next(iter(bucket_sizes(small()[0])))
    for reduce in ("gather", "sharded"):
        order = list(data_parallel(small()[0], workers(2), reduce=reduce, bucket_bytes=size).graph)
        last = max(i for i, name in enumerate(order) if "backward" in name)
        assert all(order.index(name) > last for name in order if "bucket" in name)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12))
def test_sizes_are_the_smallest_for_their_number(elements: Sequence[int]) -> None:
    """x ─ backward ─ update, several of them."""
    work = gs.Workload()
    for i, n in enumerate(elements):
        gradient = work.task(torch.neg, work.input(f"x{i}", gs.TensorSpec((n,))), name=f"g{i}")
        work.task(torch.neg, gradient, name=f"u{i}")
        work.graph.nodes[f"g{i}"]["phase"], work.graph.nodes[f"u{i}"]["phase"] = "backward", "update"
    sizes = bucket_sizes(work)
    made = [(0, work.values[f"g{i}"]) for i in range(len(elements))]
    assert list(sizes) == sorted(sizes, reverse=True)
    assert sizes[0] == len(elements)
    for size, count in sizes.items():
        assert len(in_buckets(made, size)) == count
        assert size == 0 or len(in_buckets(made, size - 1)) > count


# -- the choice --------------------------------------------------------------------------------------


def test_every_size_is_predicted_and_the_fastest_is_taken() -> None:
    platform = Platform.load("h200-x4")
    devices = platform.accelerators(4)
    for reduce in ("sharded", "server"):
        found = choose_buckets(_deep(), devices, platform=platform, reduce=reduce)
        assert found.buckets == bucket_sizes(_deep())
        for size, seconds in found.seconds.items():
            work = data_parallel(_deep(), devices, reduce=reduce, bucket_bytes=size)
            plan = gs.schedule(work, platform, scheduler="one_stream", mode="graph")
            assert gs.predict(plan, model=gs.Model(timing=False, chance=False)).makespan_s == seconds
            assert (work.digest() == found.work.digest()) == (size == found.bucket_bytes)
        assert found.seconds[found.bucket_bytes] == min(found.seconds.values())
        assert 0 < found.exposed_s < min(found.seconds.values())


MS = 1e-3


@pytest.mark.parametrize(("latency_s", "buckets", "exposed_s"), [
    (0.0, 8, 0.5 * MS), (0.2 * MS, 8, 0.7 * MS), (5 * MS, 2, 7 * MS), (12 * MS, 1, 16 * MS),
])  # fmt: skip
def test_the_number_of_buckets_follows_the_latency(latency_s: float, buckets: int, exposed_s: float) -> None:
    """Eight layers: 8 products forward and 15 back of 1 ms each; the gradient of a layer takes 0.5 ms on the link.

    One bucket leaves latency + 4 ms behind the backward pass, eight latency + 0.5 ms where a copy is over before the
    next begins. Copies of four buckets take 6 ms where the latency is 5, and those of two 14 ms where it is 12: they
    queue up.
    """
    platform = _host(bytes_per_s=2**20 / (0.5 * MS), latency_s=latency_s)
    found = choose_buckets(_deep(), ["cuda:0", "cuda:1"], platform=platform, costs=_costs(MS))
    assert found.apart_s == pytest.approx(23 * MS, abs=0.1 * MS)
    assert found.buckets[found.bucket_bytes] == buckets
    assert found.exposed_s == pytest.approx(exposed_s, abs=0.1 * MS)
    assert found.seconds[8 << 20] - found.apart_s == pytest.approx(latency_s + 4 * MS, abs=0.1 * MS)


def test_equally_good_sizes_the_first() -> None:
    """Links without end and no latency: the one bucket."""
    found = choose_buckets(_deep(), ["cuda:0", "cuda:1"], platform=_host(1e30, 0.0), costs=_costs(0.0), sizes=[7, 0])
    assert list(found.seconds) == [7, 0]
    assert len(set(found.seconds.values())) == 1
    assert found.bucket_bytes == 7
    assert found.buckets == {7: 8, 0: 8}


def test_options_are_those_of_the_split() -> None:
    net = nn.Linear(4, 3)
    loss = nn.MSELoss(reduction="sum")
    work = gs.trace(net, torch.randn(7, 4), target=torch.randn(7, 3), loss=loss, optimizer=sgd(net.parameters()))
    given: dict[str, Any] = {"shards": [1, 6], "reduction": "sum", "reduce": "ring"}
    found = choose_buckets(work, workers(2), platform=hand_written("worker", 2), sizes=[100], mode="eager", **given)
    assert found.work.digest() == data_parallel(work, workers(2), bucket_bytes=100, **given).digest()


# -- refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "message"), [
    ({"devices": ["worker:0"]}, "two or more, different devices"),
    ({"devices": workers(3)}, "no device 'worker:2'"),
    ({"sizes": []}, r"sizes are \[\]: numbers of bytes"),
    ({"sizes": [100, -1]}, r"sizes are \[100, -1\]: numbers of bytes, 0 or more"),
    ({"sizes": [1e6]}, "numbers of bytes"),
    ({"sizes": 3}, "sizes are 3: a list of numbers of bytes"),
    ({"reduce": "star"}, "'star': one of gather, sharded"),
    ({"mode": "fast"}, "fast"),
])  # fmt: skip
def test_requests_that_cannot_be(options: dict[str, Any], message: str) -> None:
    work, _ = small()
    request: dict[str, Any] = {"devices": workers(2), "platform": hand_written("worker", 2), "mode": "eager"} | options
    with pytest.raises(GraphschedError, match=message):
        choose_buckets(work, **request)


@pytest.mark.parametrize("bucket_bytes", [-1, math.nan, True, "1", 1e6])
def test_buckets_of_no_number_of_bytes_are_refused(bucket_bytes: Any) -> None:
    with pytest.raises(GraphschedError, match=r"bucket_bytes is .*: a whole number, 0 or more, or inf is needed"):
        data_parallel(small()[0], workers(2), bucket_bytes=bucket_bytes)


def test_a_step_needs_gradients() -> None:
    net, x = nn.Linear(4, 3), torch.ones(6, 4)
    for work in (gs.trace(net, x), gs.Workload("by hand")):
        with pytest.raises(WorkloadError, match=f"workload '{work.name}' has no gradients to sum"):
            bucket_sizes(work)
    with pytest.raises(WorkloadError, match="'by hand' was built by hand"):
        choose_buckets(gs.Workload("by hand"), workers(2), platform=hand_written("worker", 2))
