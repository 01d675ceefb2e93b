"""Platforms derived from others: what changes, what stays, and that it is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.costs import Costs
from graphsched.errors import PlatformError
from graphsched.platform import Device, Dispatch, Link, Platform
from graphsched.platform.capacity import CapacityTable
from graphsched.platform.consistency import check_consistent
from graphsched.schedulers import schedule
from graphsched.simulator import predict
from graphsched.workload import TensorSpec, Workload

SIZES = (1000, 100_000)


def host(gpus: int = 2) -> Platform:
    """Two GPUs by default: 100 B/s in, 50 B/s out, peers at 400 B/s whose ports carry 600; the host carries 120.

    ::

        cpu ──100─▶ cuda:0 ◀─400─▶ cuda:1
            ◀─50──
    """
    devices = [Device("cpu", "cpu", "CPU"), *(Device(f"cuda:{i}", "cuda", "GPU") for i in range(gpus))]
    links, capacities = [], {"host/h2d": 120.0}
    for i in range(gpus):
        name = f"cuda:{i}"
        into, out = (f"{name}/h2d", "host/h2d"), (f"{name}/d2h",)
        links.append(Link("cpu", name, "pinned", 1.0, 100.0, into, sizes_bytes=SIZES, seconds=(12.0, 1001.0)))
        links.append(Link("cpu", name, "pageable", 2.0, 60.0, into, blocking=True))
        links.append(Link(name, "cpu", "pinned", 2.0, 50.0, out, sizes_bytes=SIZES, seconds=(22.0, 2002.0)))
        links.append(Link(name, name, "local", 0.0, 4000.0))
        capacities |= {f"{name}/h2d": 100.0, f"{name}/d2h": 50.0}
        for j in range(gpus):
            if i != j:
                links.append(Link(name, f"cuda:{j}", "peer", 4.0, 400.0, (f"{name}/out", f"cuda:{j}/in")))
                capacities |= {f"{name}/out": 600.0, f"{name}/in": 600.0}
    provenance = {"driver": "580", "spread": {str(k): 0.01 for k in links}}
    waits = Dispatch(other_device_s=0.5)
    return Platform("desk", tuple(devices), tuple(links), capacities, waits, provenance=provenance)


def exactly(platform: Platform, source: str, target: str, memory: str) -> Link | None:
    found = [k for k in platform.links if (k.source, k.target, k.memory) == (source, target, memory)]
    assert len(found) <= 1
    return found[0] if found else None


def test_a_link_takes_the_figures_that_are_given_and_keeps_the_others() -> None:
    new = host(3).with_link("cuda:0", "cuda:1", bandwidth_bytes_per_s=200.0)
    for ends in (("cuda:0", "cuda:1"), ("cuda:1", "cuda:0")):
        assert new.link(*ends) == Link(*ends, "peer", 4.0, 200.0, (f"{ends[0]}/out", f"{ends[1]}/in"))
    assert new.link("cuda:0", "cuda:2") == host(3).link("cuda:0", "cuda:2")
    assert new.capacities == host(3).capacities  # their ports serve the third GPU too
    slow = host(3).with_link("cuda:0", "cuda:1", latency_s=9.0, both_ways=False)
    assert slow.link("cuda:0", "cuda:1").latency_s == 9.0
    assert slow.link("cuda:0", "cuda:1").bandwidth_bytes_per_s == 400.0
    assert slow.link("cuda:1", "cuda:0").latency_s == 4.0


def test_measured_points_follow_the_rate_and_the_latency() -> None:
    link = host().with_link("cpu", "cuda:0", bandwidth_bytes_per_s=50.0, latency_s=3.0).link("cpu", "cuda:0")
    assert link.seconds == pytest.approx((3 + 2 * 11, 3 + 2 * 1000))
    assert link.duration_s(100_000) == pytest.approx(2003.0)


def test_the_engine_of_a_link_changes_with_it_and_others_on_it_are_capped() -> None:
    new = host().with_link("cpu", "cuda:0", bandwidth_bytes_per_s=50.0, both_ways=False)
    assert (new.capacities["cuda:0/h2d"], new.capacities["cuda:0/d2h"], new.capacities["host/h2d"]) == (50, 50, 120)
    assert new.capacities["cuda:1/h2d"] == 100
    assert new.link("cpu", "cuda:0", "pageable").bandwidth_bytes_per_s == 50.0
    assert new.link("cpu", "cuda:1", "pageable").bandwidth_bytes_per_s == 60.0


def test_the_engine_changes_where_staged_copies_use_it_too() -> None:
    new = host().without_peer_links().with_link("cpu", "cuda:1", bandwidth_bytes_per_s=50.0, both_ways=False)
    assert (new.capacities["cuda:1/h2d"], new.capacities["cuda:0/h2d"]) == (50, 100)


def test_a_pageable_link_leaves_the_engine_alone() -> None:
    new = host().with_link("cpu", "cuda:0", memory="pageable", bandwidth_bytes_per_s=30.0, both_ways=False)
    assert new.capacities == host().capacities
    assert new.link("cpu", "cuda:0", "pageable").bandwidth_bytes_per_s == 30.0
    assert new.link("cpu", "cuda:0", "pageable").blocking


def test_what_a_faster_link_crosses_lets_it_through() -> None:
    new = host(3).with_link("cuda:0", "cuda:1", bandwidth_bytes_per_s=900.0, both_ways=False)
    assert (new.capacities["cuda:0/out"], new.capacities["cuda:1/in"], new.capacities["cuda:0/in"]) == (900, 900, 600)
    check_consistent(host().with_link("cpu", "cuda:0", bandwidth_bytes_per_s=500.0))


def test_a_rate_of_nought_is_refused_and_not_taken_for_none() -> None:
    with pytest.raises(PlatformError, match=r"bandwidth_bytes_per_s of link .* is 0: it must be above 0"):
        Platform.load("h200-x2").with_link("cuda:0", "cuda:1", bandwidth_bytes_per_s=0)


def test_a_new_link_needs_both_figures() -> None:
    one = host(1).scaled(2)
    with pytest.raises(PlatformError, match=r"no link cuda:0>cuda:1 \(peer\): for a new one give bandwidth_bytes"):
        one.with_link("cuda:0", "cuda:1", bandwidth_bytes_per_s=5.0)
    new = one.with_link("cuda:0", "cuda:1", bandwidth_bytes_per_s=5.0, latency_s=1.0)
    assert new.link("cuda:0", "cuda:1") == Link("cuda:0", "cuda:1", "peer", 1.0, 5.0)
    assert exactly(new, "cuda:0", "cuda:1", "staged") is None


def test_a_new_link_with_the_host_crosses_its_engine() -> None:
    bare = host().without_link("cpu", "cuda:0", memory="pageable", both_ways=False)
    assert exactly(bare, "cpu", "cuda:0", "pageable") is None
    new = bare.with_link("cpu", "cuda:0", memory="pageable", bandwidth_bytes_per_s=9.0, latency_s=1.0)
    assert new.link("cpu", "cuda:0", "pageable").crosses == ("cuda:0/h2d", "host/h2d")
    assert new.link("cuda:0", "cpu", "pageable").crosses == ("cuda:0/d2h",)
    assert new.link("cuda:0", "cpu", "pageable").blocking
    local = new.with_link("cpu", "cpu", bandwidth_bytes_per_s=9.0, latency_s=1.0).link("cpu", "cpu")
    assert (local.memory, local.crosses) == ("local", ())


def test_a_pair_without_its_link_is_staged_through_the_host() -> None:
    """400 B/s directly; out at 50 and in at 100 B/s: 1 / (1/50 + 1/100); 2 s and 1 s and the wait of 0.5 s."""
    new = host(3).without_link("cuda:0", "cuda:1")
    staged = new.link("cuda:0", "cuda:1")
    assert staged.memory == "staged"
    assert staged.bandwidth_bytes_per_s == pytest.approx(100 / 3)
    assert staged.latency_s == pytest.approx(3.5)
    assert staged.crosses == ("cuda:0/d2h", "cuda:1/h2d", "host/h2d")
    assert staged.sizes_bytes == SIZES
    assert staged.seconds == pytest.approx((22 + 12 + 0.5, 2002 + 1001 + 0.5))
    assert new.link("cuda:1", "cuda:0").memory == "staged"
    assert new.link("cuda:0", "cuda:2").memory == "peer"  # an uneven topology
    assert host().without_link("cuda:0", "cuda:1", both_ways=False).link("cuda:1", "cuda:0").memory == "peer"
    check_consistent(new)


def test_no_peer_access_at_all() -> None:
    new = host(3).without_peer_links()
    assert {k.memory for k in new.links} == {"pinned", "pageable", "local", "staged"}
    with pytest.raises(PlatformError, match="has no peer links to take away"):
        new.without_peer_links()


def test_links_that_are_not_there() -> None:
    with pytest.raises(PlatformError, match=r"has no link cpu>cuda:0 \(fresh\) to take away"):
        host().without_link("cpu", "cuda:0", memory="fresh")
    with pytest.raises(PlatformError, match="no device 'cuda:9'"):
        host().with_link("cpu", "cuda:9")
    bare = host().without_link("cpu", "cuda:0", memory="pinned")
    with pytest.raises(PlatformError, match="no pinned link cuda:0>cpu to stage copies over: add one"):
        bare.without_peer_links()
    with pytest.raises(PlatformError, match="has no fresh links"):
        host().with_rates("fresh", 2.0)


@pytest.mark.parametrize("memory", ["peer", "staged"])
def test_copies_on_an_uneven_topology_are_predicted_over_the_ways_that_there_are(memory: str) -> None:
    """cuda:0 ─▶ cuda:1 of 100 kB: 4 s + 250 s as peers, else staged."""
    platform = host(3) if memory == "peer" else host(3).without_link("cuda:0", "cuda:1")
    work = Workload()
    x = work.input("x", TensorSpec((25_000,), dtype="float32"), device="cuda:0")
    work.copy(x, to="cuda:1", name="copy")
    seconds = {"peer": 4 + 250, "staged": 2002 + 1001 + 0.5}[memory]
    assert predict(schedule(work, platform)).makespan_s == pytest.approx(seconds, rel=1e-4)


def test_another_generation_of_a_bus() -> None:
    new = host().without_link("cuda:0", "cuda:1").with_rates("pinned", 0.5)
    assert new.link("cpu", "cuda:0").bandwidth_bytes_per_s == 50.0
    assert new.link("cuda:1", "cpu").bandwidth_bytes_per_s == 25.0
    assert new.link("cpu", "cuda:0", "pageable").bandwidth_bytes_per_s == 50.0
    assert new.link("cuda:0", "cuda:1").bandwidth_bytes_per_s == pytest.approx(50 / 3)
    assert new.capacities["cuda:0/h2d"] == 50.0
    assert new.capacities["host/h2d"] == 120.0
    assert new.capacities["cuda:0/out"] == 600.0
    assert host().with_rates("pinned", 0.5, shared_factor=2.0).capacities["host/h2d"] == 240.0


def test_the_host_bounds_a_faster_bus() -> None:
    new = host().with_rates("pinned", 2.0)
    assert new.link("cpu", "cuda:0").bandwidth_bytes_per_s == 120.0
    assert new.capacities["cuda:0/h2d"] == 200.0
    check_consistent(new)


@pytest.mark.parametrize("factor", [0.5, 2.0, 10.0])
@pytest.mark.parametrize("shared", [1.0, 10.0])
def test_staged_copies_gain_what_their_halves_gain(factor: float, shared: float) -> None:
    """With twice the bus in is held at 120 B/s by the host, out at 100; staged: 1 / (1/100 + 1/120), in any order."""
    new = host().without_peer_links().with_rates("pinned", factor, shared_factor=shared)
    want = host().with_rates("pinned", factor, shared_factor=shared).without_peer_links()
    for ends in (("cuda:0", "cuda:1"), ("cuda:1", "cuda:0")):
        halves = new.link(ends[0], "cpu"), new.link("cpu", ends[1])
        rate = 1 / sum(1 / half.bandwidth_bytes_per_s for half in halves)
        assert new.link(*ends).bandwidth_bytes_per_s == pytest.approx(rate)
        assert want.link(*ends).bandwidth_bytes_per_s == pytest.approx(rate)
    check_consistent(new)


def test_a_staged_copy_follows_a_link_that_it_goes_over() -> None:
    """cpu ─▶ cuda:1 at 50 in place of 100 B/s and 5 s in place of 1; out of cuda:0 at 50: 1 / (1/50 + 1/50)."""
    old = host().without_peer_links()
    new = old.with_link("cpu", "cuda:1", bandwidth_bytes_per_s=50.0, latency_s=5.0, both_ways=False)
    assert new.link("cuda:0", "cuda:1").bandwidth_bytes_per_s == pytest.approx(25)
    assert new.link("cuda:0", "cuda:1").latency_s == pytest.approx(3.5 + 4)
    assert new.link("cuda:1", "cuda:0") == old.link("cuda:1", "cuda:0")
    fast = old.with_link("cpu", "cuda:1", bandwidth_bytes_per_s=1e6)
    assert fast.link("cuda:0", "cuda:1").bandwidth_bytes_per_s == pytest.approx(50, rel=1e-3)
    assert fast.link("cuda:1", "cuda:0").bandwidth_bytes_per_s == pytest.approx(100, rel=1e-3)
    check_consistent(fast)


def test_peers_at_another_rate_keep_their_ports_in_proportion() -> None:
    new = host(3).with_rates("peer", 0.25)
    assert new.link("cuda:2", "cuda:1").bandwidth_bytes_per_s == 100.0
    assert new.capacities["cuda:0/out"] == 150.0
    assert new.link("cpu", "cuda:0") == host(3).link("cpu", "cuda:0")


@pytest.mark.parametrize(("factor", "shared"), [(0.0, 1.0), (-1.0, 1.0), (float("nan"), 1.0), (1.0, 0.0)])
def test_factors_are_above_nought(factor: float, shared: float) -> None:
    with pytest.raises(PlatformError, match="factor is "):
        host().with_rates("peer", factor, shared_factor=shared)


@pytest.mark.parametrize("gpus", [1, 2, 3, 5, 8])
def test_more_of_the_same_kind_is_what_would_have_been_written(gpus: int) -> None:
    """Two GPUs made `gpus` are the host with `gpus` GPUs."""
    new, want = host(2).scaled(gpus), host(gpus)
    assert new.devices == want.devices
    assert set(new.links) == set(want.links)
    have = {n: rate for n, rate in new.capacities.items() if not n.endswith(("/in", "/out")) or gpus > 1}
    assert have == want.capacities
    assert {str(k) for k in want.links} <= set(new.provenance["spread"])
    check_consistent(new)


def test_what_the_host_shares_stays_unless_it_grows_too() -> None:
    assert host().scaled(8).capacities["host/h2d"] == 120.0
    assert host().scaled(8, shared_factor=4.0).capacities["host/h2d"] == 480.0
    assert host().scaled(8, shared_factor=4.0).capacities["cuda:7/h2d"] == 100.0


def tabled() -> Platform:
    """The host of two GPUs, whose shared way in and whose ports depend on what is busy."""
    tables = {"host/h2d": CapacityTable(("host/h2d",), ((1, 2),), (100.0, 120.0))}
    for i in range(2):
        ports = (f"cuda:{i}/out", f"cuda:{1 - i}/out")
        tables[ports[0]] = CapacityTable(ports, ((1,), (0, 1)), (600.0, 500.0))
    return replace(host(), tables=tables)


def test_tables_follow_their_capacities() -> None:
    faster = tabled().with_rates("peer", 2.0)
    assert faster.tables["cuda:0/out"].bytes_per_s == (1200.0, 1000.0)
    assert faster.tables["host/h2d"] == tabled().tables["host/h2d"]
    assert tabled().with_rates("pinned", 0.5, shared_factor=3.0).tables["host/h2d"].bytes_per_s == (300.0, 360.0)
    assert tabled().without_peer_links().tables == tabled().tables


def test_a_table_lets_a_faster_link_through_and_keeps_its_proportions() -> None:
    """cuda:0 takes 150 B/s of a way in that gives one link 100, two 120; and so 150 and 180."""
    faster = tabled().with_link("cpu", "cuda:0", bandwidth_bytes_per_s=150.0, both_ways=False)
    assert faster.tables["host/h2d"].bytes_per_s == pytest.approx((150.0, 180.0))
    assert faster.capacities["host/h2d"] == pytest.approx(180.0)
    assert faster.link("cpu", "cuda:1") == tabled().link("cpu", "cuda:1")
    later = tabled().with_link("cpu", "cuda:0", latency_s=9.0)
    assert (later.tables, later.capacities) == (tabled().tables, tabled().capacities)
    check_consistent(faster)


def test_a_table_bounds_a_faster_bus_at_what_it_gives_one_link() -> None:
    """The way in gives 120 B/s to two links together, 100 to one."""
    new = tabled().with_rates("pinned", 2.0)
    assert new.link("cpu", "cuda:0").bandwidth_bytes_per_s == 100.0
    assert new.link("cuda:0", "cpu").bandwidth_bytes_per_s == 100.0  # no table: 50 before
    check_consistent(new)


def test_a_bus_that_the_host_holds_back_is_said_to_be() -> None:
    """Into GPUs 100 B/s of 200 by the table; out of them 100 from 50, where nothing is shared."""
    (note,) = tabled().with_rates("pinned", 2.0).notes
    assert note.endswith("pinned links ×2, held at 1e-07 GB/s by host/h2d: give a larger shared_factor")
    (note,) = Platform.load("h200-x1").with_rates("pinned", 2.0).notes
    assert note.endswith("held at 55.4 GB/s by host/h2d and 55.4 GB/s by host/d2h: give a larger shared_factor")
    enough = tabled().with_rates("pinned", 2.0, shared_factor=2.0)
    assert enough.link("cpu", "cuda:0").bandwidth_bytes_per_s == 200.0
    assert enough.notes[0].endswith("pinned links ×2, what they share ×2")
    assert tabled().with_rates("pinned", 0.5).notes[0].endswith("pinned links ×0.5")


def test_a_faster_link_gains_beside_a_copy_the_other_way() -> None:
    """cpu ─▶ cuda:0 and cuda:1 ─▶ cpu at once, 4 GB each: with links twice as fast they take half the time."""
    old = Platform.load("h200-x2")
    new = old
    for gpu in old.accelerators():
        new = new.with_link("cpu", gpu, bandwidth_bytes_per_s=1.1e11)
    seconds = []
    for platform in (old, new):
        work = Workload()
        into = work.input("into", TensorSpec((10**9,)))
        out = work.input("out", TensorSpec((10**9,)), device="cuda:1")
        work.copy(into, to="cuda:0", pinned=True, name="a")
        work.copy(out, to="cpu", pinned=True, name="b")
        seconds.append(predict(schedule(work, platform)).makespan_s)
    assert seconds[1] == pytest.approx(seconds[0] / 2, rel=0.03)


def test_tables_are_copied_with_their_devices() -> None:
    more = tabled().scaled(4, shared_factor=2.0).tables
    assert more["host/h2d"].bytes_per_s == (200.0, 240.0)
    assert more["cuda:2/out"].by == ("cuda:2/out", "cuda:1/out")
    assert more["cuda:2/out"].bytes_per_s == (600.0, 500.0)
    assert list(tabled().scaled(1).tables) == ["host/h2d"]  # the port's table counts a GPU that is gone


def test_one_gpu_alone_has_no_pair_to_copy() -> None:
    new = host(1).scaled(3)
    assert new.link("cuda:1", "cuda:2").memory == "staged"
    assert new.link("cuda:2", "cuda:2").memory == "local"
    assert len(new.links) == 3 * 4 + 3 * 2


def test_names_that_are_taken_are_left() -> None:
    odd = Platform("odd", (Device("cpu", "cpu"), Device("cuda:1", "cuda")), (
        Link("cpu", "cuda:1", "pinned", 1.0, 1.0), Link("cuda:1", "cpu", "pinned", 1.0, 1.0)))  # fmt: skip
    assert odd.scaled(3).accelerators() == ("cuda:1", "cuda:0", "cuda:2")


@pytest.mark.parametrize("gpus", [0, -1, 1.5, True, "8"])
def test_a_number_of_gpus_that_makes_no_sense(gpus: object) -> None:
    with pytest.raises(PlatformError, match=r"gpus is .*: a whole number above 0 is needed"):
        host().scaled(gpus)  # type: ignore[arg-type]


def test_more_accelerators_than_can_be_listed() -> None:
    """Their links alone would take minutes."""
    with pytest.raises(PlatformError, match=r"gpus is 1000: at most 256, .* to gs.topologies"):
        host().scaled(1000)


def test_nothing_to_copy() -> None:
    with pytest.raises(PlatformError, match="has no accelerator to copy"):
        Platform("bare", (Device("cpu", "cpu"),)).scaled(2)


def test_a_derived_platform_says_so() -> None:
    assert host().notes == ()
    new = host(3).with_link("cuda:0", "cuda:1", bandwidth_bytes_per_s=2e9, latency_s=1e-6)
    assert new.name == "desk-derived"
    assert new.notes == ("figures of a derived platform: cuda:0<>cuda:1 (peer) 2 GB/s 1 µs",)
    again = new.without_link("cuda:0", "cuda:2", both_ways=False).with_rates("pinned", 0.5, shared_factor=2.0)
    assert again.name == "desk-derived"
    steps = ["cuda:0>cuda:2 (peer) taken away", "pinned links ×0.5, what they share ×2"]
    assert again.provenance["derived"][1:] == steps
    assert again.provenance["driver"] == "580"
    assert host().scaled(4, shared_factor=2.0).notes[0].endswith("4 accelerators in place of 2, shared capacities ×2")
    assert Platform.from_dict(again.to_dict()).notes == again.notes


@pytest.mark.parametrize("name", ["h200-x1", "h200-x2", "h200-x4"])
def test_shipped_platforms_can_be_derived_from(name: str, tmp_path) -> None:
    platform = replace(Platform.load(name), costs=Costs())  # which take long to read
    for number, new in enumerate(derivations(platform)):
        new.save(tmp_path / f"{number}.json")
        assert Platform.load(tmp_path / f"{number}.json") == new


def derivations(platform: Platform) -> list[Platform]:
    """One of each kind, and faster and slower ones of those that have a rate."""
    found = [platform.scaled(8), platform.scaled(8, shared_factor=0.5), platform.scaled(1)]
    found.append(platform.without_link("cpu", "cuda:0", memory="pageable"))
    for factor in (0.5, 2.0, 8.0):
        rate = factor * platform.link("cpu", "cuda:0").bandwidth_bytes_per_s
        for memory in ("pinned", "pageable"):
            found += [platform.with_rates(memory, factor), platform.with_rates(memory, factor, shared_factor=factor)]
            found += [
                platform.with_link("cpu", "cuda:0", memory=memory, bandwidth_bytes_per_s=rate, both_ways=both_ways)
                for both_ways in (False, True)
            ]
    if len(platform.accelerators()) > 1:
        peers = platform.link("cuda:0", "cuda:1").bandwidth_bytes_per_s
        found += [platform.without_peer_links(), platform.without_link("cuda:0", "cuda:1")]
        found += [platform.with_rates("peer", factor) for factor in (0.25, 2.0)]
        found += [platform.with_link("cuda:0", "cuda:1", bandwidth_bytes_per_s=peers * f) for f in (0.5, 4.0)]
    return found


@pytest.mark.parametrize("memory", ["pinned", "pageable", "fresh", "peer", "local"])
@pytest.mark.parametrize("name", ["h200-x2", "h200-x4"])
def test_no_transfer_gains_by_a_slower_link_or_loses_by_a_faster_one(name: str, memory: str) -> None:
    """Measured points of small transfers scatter around the latency, which is one of them: some lie below it."""
    here = Platform.load(name)
    slower, faster = here.with_rates(memory, 0.1), here.with_rates(memory, 2.0, shared_factor=2.0)
    for link in (k for k in here.links if k.memory == memory):
        for nbytes in (0, 1000, *link.sizes_bytes, 2**31):
            times = [p.link(link.source, link.target, memory).duration_s(nbytes) for p in (faster, here, slower)]
            assert times[0] <= times[1] * (1 + 1e-9)
            assert times[1] <= times[2] * (1 + 1e-9)


@pytest.mark.parametrize(("gpu", "more_s"), [("cuda:0", 3.0), ("cuda:1", 3.0)])
def test_a_small_copy_that_blocks_takes_as_much_longer_as_its_link(gpu: str, more_s: float) -> None:
    """From pageable memory: measured whole on cuda:0, whose link has a latency of 2 s; 5 s instead, of either GPU."""
    blocked = replace(host(), dispatch=Dispatch(copy_s=1.0, launch_s=1.0, blocking_in_s=100.0))
    slower = blocked.with_link("cpu", gpu, memory="pageable", latency_s=5.0, both_ways=False)
    taken = []
    for here in (blocked, slower):
        work = Workload()
        x = work.input("x", TensorSpec((1024,)))
        work.copy(x, to=gpu, pinned=False, name="in")
        taken.append(predict(schedule(work, here, scheduler="one_stream")).makespan_s)
    assert taken[1] - taken[0] == pytest.approx(more_s)
    assert slower.with_link("cpu", gpu, memory="pageable", latency_s=2.0, both_ways=False).dispatch == blocked.dispatch
