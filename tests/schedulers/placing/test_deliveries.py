"""When copies arrive: alone, in their lanes, and where they share engines and capacities."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.platform import Device, Link, Platform
from graphsched.schedulers.placing.deliveries import Deliveries, Parcel
from graphsched.schedulers.placing.durations import Transfers
from graphsched.schedulers.placing.slots import Slots
from graphsched.schedulers.placing.trail import Trail


def ring(engines: int = 0, capacities: dict[str, float] | None = None, crosses: tuple[str, ...] = ()) -> Platform:
    """Three GPUs, every two joined by a link of one byte a second."""
    names = [f"cuda:{k}" for k in range(3)]
    links = tuple(Link(a, b, "peer", 0.0, 1.0, crosses) for a in names for b in names if a != b)
    devices = tuple(Device(name, "cuda", peer_engines=engines) for name in names)
    return Platform("ring", devices, links, capacities or {})


def on(platform: Platform, *, contention: bool = True) -> Deliveries:
    """No copies yet."""
    return Deliveries(platform, Transfers(platform, {}), contention, Trail())


def parcel(name: str, nbytes: int, written_s: float = 0.0, home: str = "cuda:0") -> Parcel:
    """A value on a GPU."""
    return Parcel(name, home, nbytes, written_s, "pinned")


def test_a_value_reaches_a_device_once() -> None:
    """The second reader has it when the first has it."""
    copies = on(ring())
    assert copies.deliver([parcel("x", 5, 1.0)], "cuda:1") == 6
    assert copies.arrival_s([parcel("x", 5, 1.0)], "cuda:1") == 6
    assert copies.deliver([parcel("x", 5, 1.0)], "cuda:1") == 6
    assert copies.arrival_s([parcel("y", 5, 1.0)], "cuda:1") == 11


@pytest.mark.parametrize(("contention", "end"), [(True, 9), (False, 5)])
def test_copies_of_one_lane_queue(contention: bool, end: float) -> None:
    """5 and 4 seconds from cuda:0 to cuda:1."""
    copies = on(ring(), contention=contention)
    assert copies.arrival_s([parcel("x", 5), parcel("y", 4)], "cuda:1") == end
    assert copies.deliver([parcel("x", 5), parcel("y", 4)], "cuda:1") == end


def test_a_copy_may_go_into_a_gap_of_its_lane() -> None:
    """The lane is free until 10."""
    copies = on(ring())
    copies.deliver([parcel("late", 5, 10.0)], "cuda:1")
    assert copies.deliver([parcel("early", 4, 3.0)], "cuda:1") == 7
    assert copies.deliver([parcel("long", 8, 3.0)], "cuda:1") == 23


@pytest.mark.parametrize(("engines", "end"), [(0, 5), (1, 10), (2, 5)])
def test_a_gpu_makes_so_many_copies_at_a_time(engines: int, end: float) -> None:
    """Two copies of 5 s to two GPUs: one after the other with one engine; with two each holds half of what there is."""
    copies = on(ring(engines))
    copies.deliver([parcel("x", 5)], "cuda:1")
    assert copies.deliver([parcel("y", 5)], "cuda:2") == end


def test_copies_share_capacities() -> None:
    """Three copies of 6 bytes at 1 byte a second over 1.5: the last of them ends when 18 bytes are over, at 12."""
    copies = on(ring(0, {"port": 1.5}, ("port",)))
    ends = [copies.deliver([parcel(f"v{k}", 6, home=f"cuda:{k}")], f"cuda:{(k + 1) % 3}") for k in range(3)]
    assert ends == [6, 8, 12]


def test_a_value_without_a_link_never_arrives() -> None:
    """Infinite, and the next delivery does not mind."""
    alone = Platform("alone", (Device("cuda:0", "cuda"), Device("cuda:1", "cuda")))
    for contention in (True, False):
        copies = on(alone, contention=contention)
        assert copies.arrival_s([parcel("x", 1)], "cuda:1") == math.inf
        assert copies.deliver([parcel("x", 1)], "cuda:1") == math.inf
        assert copies.deliver([parcel("x", 0)], "cuda:0") == 0


def test_copies_that_are_asked_for_take_their_lane_or_another() -> None:
    """Two of 3 s between the same devices; on a compute lane that is busy until 20 the third waits for it."""
    copies = on(ring())
    assert [copies.asked("cuda:0", "cuda:1", "pinned", 3, 1.0, None).end_s for _ in range(2)] == [4, 7]
    busy = Slots()
    busy.take(busy.last, 0.0, 20.0)
    assert copies.asked("cuda:0", "cuda:1", "pinned", 3, 1.0, busy).end_s == 23


def test_tried_copies_are_taken_back() -> None:
    """Lane, engine and what has arrived are as before."""
    copies = on(ring(1, {"port": 2.0}, ("port",)))
    with copies.trail.tried():
        assert copies.deliver([parcel("x", 5), parcel("y", 5)], "cuda:1") == 10
    assert copies.deliver([parcel("z", 5)], "cuda:1") == 5
    assert copies.arrival_s([parcel("x", 5)], "cuda:2") == 10


@settings(deadline=None, max_examples=100)
@given(
    sent=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 2), st.integers(1, 9), st.integers(0, 20)), max_size=12),
    engines=st.integers(0, 2),
)
def test_no_copy_is_faster_than_alone_and_none_waits_for_more_than_all(
    sent: list[tuple[int, int, int, int]], engines: int
) -> None:
    """Whatever meets: alone ≤ queued ≤ all one after the other; and a trial says what will be."""
    here = ring(engines, {"port": 2.0}, ("port",))
    copies = on(here)
    total = sum(nbytes for _, _, nbytes, _ in sent)
    for k, (source, step, nbytes, written) in enumerate(sent):
        one, target = [parcel(f"v{k}", nbytes, float(written), f"cuda:{source}")], f"cuda:{(source + step) % 3}"
        foreseen, end = copies.arrival_s(one, target), copies.deliver(one, target)
        assert foreseen == end
        assert written + nbytes <= end <= max(w for *_, w in sent) + total + 1e-9
