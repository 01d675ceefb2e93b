"""The algorithm that is predicted to be fastest, and what the predictions say about rings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import graphsched as gs
from graphsched.collectives import Choice, all_gather, all_reduce, all_to_all, broadcast, choose, reduce, reduce_scatter
from graphsched.errors import PlatformError, WorkloadError
from graphsched.platform import Platform
from graphsched.workload import TensorSpec, Value
from tests.collectives.values import on_workers
from tests.executors.programs import WORKERS, machine

H200 = Platform.load("h200-x4")
LARGE = TensorSpec((40_000_000,))


def _on_gpus(k: int, spec: TensorSpec = LARGE) -> tuple[gs.Workload, list[Value]]:
    work = gs.Workload()
    return work, [work.input(f"x{i}", spec, device=f"cuda:{i}") for i in range(k)]


def _from_the_first(work: gs.Workload, values: list[Value], **options: Any) -> list[Value]:
    return broadcast(work, values[0], [f"cuda:{i}" for i in range(len(values))], **options)


def _predicted_s(k: int, **options: object) -> float:
    work, values = _on_gpus(k)
    work.keep(*all_reduce(work, values, **options))  # type: ignore[arg-type]
    return gs.predict(gs.schedule(work, H200, scheduler="one_stream", mode="graph")).makespan_s


def test_the_time_of_a_ring_does_not_grow_with_it() -> None:
    """160 MB on 2, 3 and 4 GPUs: time over 2 (k-1)/k within 15 % (d2l.ai 12.7.2)."""
    times = [_predicted_s(k, algorithm="ring") * k / (2 * (k - 1)) for k in (2, 3, 4)]
    assert max(times) < 1.15 * min(times)
    central = [_predicted_s(k, algorithm="gather") * k / (2 * (k - 1)) for k in (2, 4)]
    assert central[1] > 1.15 * central[0]


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_the_shortest_is_taken(mode: str) -> None:
    """x0, x1, x2 of 160 MB ──▶ sums: as `choose` says, under its name, with its blocks, and of the predicted time."""
    work, values = _on_gpus(3)
    found = choose(work, values, platform=H200, mode=mode)
    assert len(work) == 0
    assert found.seconds[min(found.seconds, key=found.seconds.__getitem__)] == min(found.seconds.values())
    work.keep(*all_reduce(work, values, algorithm="auto", platform=H200, mode=mode))
    assert all(name.startswith(f"all_reduce.{found.algorithm}/") for name in work.graph)
    plan = gs.schedule(work, H200, scheduler="one_stream", mode=mode)
    assert gs.predict(plan).makespan_s == pytest.approx(min(found.seconds.values()), rel=1e-9)


def test_small_values_take_few_hops_and_large_ones_few_bytes() -> None:
    """4 kB: one place sums. 160 MB: everybody does."""
    work, values = _on_gpus(4, TensorSpec((1000,)))
    assert choose(work, values, platform=H200, mode="graph").algorithm in ("gather", "server", "tree")
    work, values = _on_gpus(4)
    assert choose(work, values, platform=H200, mode="graph").algorithm in ("ring", "rings", "sharded", "halving")


def test_what_the_platform_cannot_do_is_left_out() -> None:
    """0 ⇄ 1 ⇄ 2 ⇄ 0 in one direction only: but a ring that way nothing has its links."""
    around = {("worker:0", "worker:1"), ("worker:1", "worker:2"), ("worker:2", "worker:0")}
    links = [
        link for link in machine("worker:0", "worker:1", "worker:2").links
        if link.source == link.target or (link.source, link.target) in around
    ]  # fmt: skip
    platform = replace(machine("worker:0", "worker:1", "worker:2"), links=tuple(links))
    work, values = on_workers([TensorSpec((1000,))] * 3)
    found = choose(work, values, platform=platform)
    assert set(found.seconds) == {"ring, 3 blocks", "ring, 6 blocks", "ring, 12 blocks"}
    assert "no link from" in found.refused["gather"]
    none = replace(platform, links=tuple(link for link in links if link.source == link.target))
    with pytest.raises(PlatformError, match="no link from"):
        choose(work, values, platform=none)


def test_hosts_are_groups() -> None:
    """Two hosts of two workers joined by a slow link: hierarchical is tried, its groups are the hosts."""
    names = [f"worker:{i}" for i in range(4)]
    base = machine(*names)
    devices = tuple(replace(d, host="host1") if d.name in names[2:] else d for d in base.devices)
    slow = [
        replace(link, bandwidth_bytes_per_s=1e8) if (link.source in names[2:]) != (link.target in names[2:]) else link
        for link in base.links
    ]
    platform = replace(base, devices=devices, links=tuple(slow))
    work, values = on_workers([TensorSpec((100_000,))] * 4)
    assert "hierarchical" in choose(work, values, platform=platform).seconds
    assert "hierarchical" not in choose(work, values, platform=base).seconds
    sums = all_reduce(work, values, algorithm="hierarchical", platform=platform)
    assert len(sums) == 4
    assert work["all_reduce.hierarchical/add/1"].devices == ("worker:2",)


@pytest.mark.parametrize("collective", [reduce, reduce_scatter, all_gather, all_to_all, _from_the_first])
@pytest.mark.parametrize("elements", [1000, 4_000_000])
def test_others_are_chosen_too(collective: Any, elements: int) -> None:
    """Four GPUs, 4 kB or 16 MB: no way is predicted to be faster than the one taken, which is what is added."""
    spec = TensorSpec((elements,))
    seconds = {}
    for algorithm in ("direct", "ring", "tree", "auto"):
        work, values = _on_gpus(4, spec)
        told = {"platform": H200, "mode": "graph"} if algorithm == "auto" else {}
        try:
            made = collective(work, values, algorithm=algorithm, **told)
        except WorkloadError:
            assert algorithm == "tree"
            continue
        work.keep(*([made] if isinstance(made, Value) else made))
        seconds[algorithm] = gs.predict(gs.schedule(work, H200, scheduler="one_stream", mode="graph")).makespan_s
    assert len(seconds) >= 3
    assert seconds["auto"] == pytest.approx(min(seconds.values()), rel=1e-9)


def test_a_choice_says_what_was_tried() -> None:
    work, values = on_workers([TensorSpec((100,))] * 2)
    found = choose(work, values, platform=WORKERS)
    assert isinstance(found, Choice)
    assert {"gather", "cpu, 1 block", "server, 4 blocks", "sharded", "ring, 2 blocks", "halving"} <= set(found.seconds)
    assert found == choose(work, values, platform=WORKERS)


@pytest.mark.parametrize(("collective", "elements"), [(all_gather, 100), (reduce_scatter, 10**5), (all_to_all, 10**5)])
def test_values_go_straight_where_there_are_links(collective: Any, elements: int) -> None:
    """Four workers, 400 kB: straight to each other; with links to the next one only, round.

    A large `all_gather` takes as long round as straight: the same bytes through each port.
    """
    names = [f"worker:{i}" for i in range(4)]
    whole = machine(*names)
    around = [*zip(names, [*names[1:], names[0]], strict=True), *((d.name, d.name) for d in whole.devices)]
    only_next = replace(whole, links=tuple(link for link in whole.links if (link.source, link.target) in around))
    for platform, expected in ((whole, "direct"), (only_next, "ring")):
        work, values = on_workers([TensorSpec((elements,))] * 4)
        collective(work, values, algorithm="auto", platform=platform)
        assert {name.partition("/")[0] for name in work.graph} == {f"{collective.__name__}.{expected}"}
