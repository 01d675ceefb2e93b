"""Copies from one GPU to others: as many at a time as its engines make, in the order in which they are ready."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.costs import Costs
from graphsched.errors import PlatformError
from graphsched.plan import Plan
from graphsched.platform import Device, Link, Platform
from graphsched.schedulers import schedule
from graphsched.simulator import Model, predict
from graphsched.workload import TensorSpec, Workload

BARE = Model(dispatch=False, launch_queue=False, waits=False, timing=False)
BANDWIDTH, LATENCY_S = 100.0, 0.25


def platform(engines: int, gpus: int = 4, shared: float | None = None) -> Platform:
    """GPUs, all joined; with `shared` bytes per second into each of them."""
    names = [f"cuda:{k}" for k in range(gpus)]
    devices = [Device("cpu", "cpu"), *(Device(name, "cuda", peer_engines=engines) for name in names)]
    crosses = {name: (f"{name}/in",) if shared else () for name in names}
    pairs = [(a, b) for a in names for b in names if a != b]
    links = [Link(a, b, "peer", LATENCY_S, BANDWIDTH, crosses[b]) for a, b in pairs]
    links += [Link("cpu", a, "pinned", LATENCY_S, BANDWIDTH) for a in names]
    links += [Link(a, "cpu", "pinned", LATENCY_S, BANDWIDTH) for a in names]
    return Platform("box", tuple(devices), tuple(links), {f"{name}/in": shared for name in names} if shared else {})


def sent(copies: list[tuple[str, str, int]], here: Platform, mode: str = "eager") -> tuple[Plan, dict[str, float]]:
    """Each a copy of so many bytes that lie on the source; ends by name (``0-1``, of a second one ``0-1.``)."""
    work = Workload()
    for source, target, nbytes in copies:
        name = f"{source[-1]}-{target[-1]}"
        while name in work.graph:
            name += "."
        x = work.input(f"x{name}", TensorSpec((nbytes,), "uint8"), device=source)
        work.copy(x, to=target, pinned=True, name=name)
    plan = schedule(work, here, Costs(), scheduler="one_stream", mode=mode)
    timeline = predict(plan, mode=mode, model=BARE)
    return plan, dict(zip(plan.names, timeline.end_s, strict=True))


FAN = [("cuda:0", "cuda:1", 100), ("cuda:0", "cuda:2", 200), ("cuda:0", "cuda:3", 100)]


@pytest.mark.parametrize(
    ("engines", "ends"),
    [(1, [1.25, 3.5, 4.75]), (2, [1.25, 2.25, 2.5]), (3, [1.25, 2.25, 1.25]), (0, [1.25, 2.25, 1.25])],
)
def test_so_many_at_a_time(engines: int, ends: list[float]) -> None:
    """0 ──▶ 1, 2, 3 of 1, 2 and 1 s, a quarter of a second each before: the latency is the engine's too."""
    _, found = sent(FAN, platform(engines))
    assert list(found.values()) == pytest.approx(ends)


def test_what_shares_nothing_with_it_does_not_wait() -> None:
    """0 ──▶ 1 beside 0 ──▶ cpu, cpu ──▶ 0 and 1 ──▶ 0: one copy to another GPU leaves each of them."""
    copies = [("cuda:0", "cuda:1", 100), ("cuda:0", "cpu", 100), ("cuda:1", "cuda:0", 100)]
    _, found = sent(copies, platform(1))
    assert set(found.values()) == {1.25}


def test_a_waiting_copy_takes_nothing_of_what_others_share() -> None:
    """0 ──▶ 2 and 1 ──▶ 2 share the way into 2; 0 ──▶ 3 waits for the first of them, and then goes alone."""
    copies = [("cuda:0", "cuda:2", 100), ("cuda:0", "cuda:3", 100), ("cuda:1", "cuda:2", 100)]
    _, found = sent(copies, platform(1, shared=BANDWIDTH))
    assert found == pytest.approx({"0-2": 2.25, "1-2": 2.25, "0-3": 3.5})


@pytest.mark.parametrize(("mode", "second", "other"), [("eager", 3.75, 2.5), ("graph", 2.5, 3.75)])
def test_in_a_graph_a_lane_keeps_the_engine_for_its_next_copy(mode: str, second: float, other: float) -> None:
    """0 ──▶ 1, 0 ──▶ 1 behind it on its lane, and 0 ──▶ 2, which is ready all the time."""
    copies = [("cuda:0", "cuda:1", 100), ("cuda:0", "cuda:1", 100), ("cuda:0", "cuda:2", 100)]
    _, found = sent(copies, platform(1), mode)
    assert found == pytest.approx({"0-1": 1.25, "0-1.": second, "0-2": other})


def test_the_term_can_be_switched_off() -> None:
    plan, _ = sent(FAN, platform(1))
    assert predict(plan, model=replace(BARE, engines=False)).makespan_s == pytest.approx(2.25)


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_every_step_has_them(mode: str) -> None:
    """A step takes what its three copies take one after another, and so does each that follows."""
    plan, _ = sent(FAN, platform(1), mode)
    assert [predict(plan, mode=mode, steps=n, model=BARE).makespan_s for n in (1, 3)] == pytest.approx([4.75, 14.25])


def test_engines_survive_a_file() -> None:
    here = platform(3)
    assert Platform.from_dict(here.to_dict()) == here
    row = here.to_dict()
    for device in row["devices"]:
        del device["peer_engines"]
    assert Platform.from_dict(row).device("cuda:0").peer_engines == 1


def test_a_negative_number() -> None:
    with pytest.raises(PlatformError, match="peer_engines of cuda:0"):
        Device("cuda:0", "cuda", peer_engines=-1)
