"""Values that come to devices in queues, asked about for all devices at once."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise
from unittest.mock import patch

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.costs import Costs
from graphsched.platform import Device, Link, Platform
from graphsched.schedulers.heft import forecast_heft
from graphsched.schedulers.placing.durations import Transfers
from graphsched.schedulers.placing.incoming import Alone, Queued, Wanted
from graphsched.schedulers.placing.queues import Queues
from graphsched.schedulers.placing.slots import Gap, Slots
from graphsched.workload import Workload
from tests.schedulers.graphs import dags, machine

GPUS = ("cuda:0", "cuda:1", "cuda:2")


def ring(engines: int = 1, port: float = 0.0) -> Platform:
    """Three GPUs, every two joined by a link of one byte a second; with a `port` each takes in so many at most."""
    links = tuple(Link(a, b, "peer", 0.0, 1.0, (f"{b}/in",) if port else ()) for a in GPUS for b in GPUS if a != b)
    devices = tuple(Device(name, "cuda", peer_engines=engines) for name in GPUS)
    return Platform("ring", devices, links, {f"{name}/in": port for name in GPUS if port})


def queued(platform: Platform) -> Queued:
    """No copies yet."""
    return Queued(Queues(platform), Transfers(platform, {}))


def want(name: str, nbytes: int, home: str = "cuda:0", written_s: float = 0.0, near: tuple[str, ...] = ()) -> Wanted:
    """A value that some task reads."""
    return name, home, nbytes, written_s, "pinned", near


def latest(copies: Queued | Alone, *wanted: Wanted) -> list[float]:
    """When all could be on each GPU."""
    return copies.ways_to(GPUS).latest_s(wanted, 0.0)[0]


def deliver(copies: Queued, device: str, *wanted: Wanted) -> float:
    """Ask and agree."""
    return copies.delivered_s(copies.ways_to(GPUS).latest_s(wanted, 0.0)[1], device, 0.0)


def test_copies_from_one_gpu_queue_for_its_engine_whatever_their_target() -> None:
    """x (5 bytes) goes to cuda:1; then y could be on cuda:2 at 9. Asking alone leaves nothing; alone it takes 4."""
    copies = queued(ring())
    assert latest(copies, want("x", 5)) == latest(copies, want("x", 5)) == [0, 5, 5]
    assert deliver(copies, "cuda:1", want("x", 5)) == 5
    assert latest(copies, want("y", 4)) == [0, 9, 9]
    assert latest(copies, want("z", 4, home="cuda:1")) == [4, 0, 4]
    assert latest(Alone(Transfers(ring(), {})), want("y", 4)) == [0, 4, 4]


def test_a_value_reaches_a_device_once() -> None:
    """On cuda:1 it is at 5 for all its readers; to cuda:2 it would go behind that."""
    copies = queued(ring())
    deliver(copies, "cuda:1", want("x", 5))
    assert latest(copies, want("x", 5)) == [0, 5, 10]
    assert deliver(copies, "cuda:1", want("x", 5)) == 5
    assert latest(copies, want("y", 1)) == [0, 6, 6]


def test_values_of_one_task_queue_for_each_other() -> None:
    """5 and 4 bytes from cuda:0, 3 from cuda:1: on cuda:2 all are there at 9, on cuda:1 too, on cuda:0 at 3."""
    copies = queued(ring())
    wanted = want("x", 5), want("y", 4), want("z", 3, home="cuda:1")
    assert latest(copies, *wanted) == [3, 9, 9]
    assert deliver(copies, "cuda:2", *wanted) == 9


def test_a_copy_may_go_into_a_gap() -> None:
    """The engine has nothing to do until 10."""
    copies = queued(ring())
    deliver(copies, "cuda:1", want("late", 5, written_s=10.0))
    assert latest(copies, want("early", 4, written_s=3.0)) == [3, 7, 7]
    assert deliver(copies, "cuda:2", want("long", 8, written_s=3.0)) == 23


def test_ports_are_shared_and_told_apart() -> None:
    """x fills the way into cuda:2 until 5, so that z from cuda:1 is there at 9, but on cuda:0 at 4."""
    copies = queued(ring(port=1.0))
    deliver(copies, "cuda:2", want("x", 5))
    assert latest(copies, want("z", 4, home="cuda:1")) == [4, 0, 9]
    assert deliver(copies, "cuda:2", want("z", 4, home="cuda:1")) == 9
    assert latest(copies, want("a", 1), want("b", 2)) == [0, 8, 12]


def test_a_state_without_a_home_is_where_it_may_be() -> None:
    """On cuda:0 and cuda:1 nothing is copied; a reader on cuda:2 gets it from cuda:0, once."""
    copies = queued(ring())
    state = want("w", 5, near=GPUS[:2])
    assert latest(copies, state) == [0, 0, 5]
    assert deliver(copies, "cuda:1", state) == 0
    assert deliver(copies, "cuda:2", state) == 5
    assert latest(copies, want("w", 5)) == [0, 10, 5]


def test_a_value_without_a_link_never_arrives() -> None:
    """Nor does it hold up others."""
    copies = queued(Platform("apart", tuple(Device(name, "cuda") for name in GPUS)))
    assert latest(copies, want("x", 1), want("y", 1)) == [0, math.inf, math.inf]


def test_one_device_needs_no_copies() -> None:
    """Its values are where they are."""
    copies = queued(ring())
    assert copies.ways_to(("cuda:0",)).latest_s([want("x", 5, written_s=2.0)], 3.0)[0] == [3.0]


@settings(deadline=None, max_examples=100)
@given(
    sent=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 2), st.integers(1, 9), st.integers(0, 20)), max_size=12),
    platform=st.sampled_from([ring(0), ring(1), ring(2), ring(1, 1.0), ring(0, 1.5)]),
)
def test_asking_says_what_will_be(sent: list[tuple[int, int, int, int]], platform: Platform) -> None:
    """For one value; alone ≤ queued ≤ all one after the other."""
    copies = queued(platform)
    total = sum(nbytes for _, _, nbytes, _ in sent)
    for k, (source, step, nbytes, written) in enumerate(sent):
        one, target = want(f"v{k}", nbytes, GPUS[source], float(written)), (source + step) % 3
        foreseen, end = latest(copies, one)[target], deliver(copies, GPUS[target], one)
        assert foreseen == pytest.approx(end)
        assert written + nbytes <= end <= max(w for *_, w in sent) + total + 1e-9


@settings(deadline=None, max_examples=100)
@given(dag=dags(kind="cuda"), lanes=st.integers(1, 2))
def test_no_copy_begins_before_its_engine_is_free(dag: nx.DiGraph, lanes: int) -> None:
    """Of all that HEFT puts on a lane or an engine nothing overlaps."""
    taken: dict[int, list[tuple[float, float]]] = defaultdict(list)
    kept: list[Slots] = []  # so that no two have one id
    take = Slots.take

    def watched(self: Slots, gap: Gap, start_s: float, seconds: float) -> None:
        kept.append(self)
        taken[id(self)].append((start_s, start_s + seconds))
        take(self, gap, start_s, seconds)

    with patch.object(Slots, "take", watched):
        forecast_heft(Workload.from_graph(dag), machine(3), Costs(), lanes=lanes, copies="own", contention=True)
    for spans in taken.values():
        spans.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
