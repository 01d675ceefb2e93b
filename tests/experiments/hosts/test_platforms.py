"""Platforms of several hosts: what their links are, cross and share."""

from __future__ import annotations

from dataclasses import replace

import pytest

import graphsched as gs
from experiments.hosts.network import Network
from experiments.hosts.platforms import platform_of
from graphsched.errors import PlatformError
from graphsched.executors.distributed.message_links import with_messages
from graphsched.plan.ranks import rank_of_devices
from tests.experiments.hosts.jobs import MEASURED, RATE, hosts_of, step_on
from tests.experiments.small import hand_written


def test_workers_are_numbered_through_the_hosts_and_have_a_rank_each() -> None:
    platform = hosts_of((2, 1, 2))
    assert [platform.device(name).host for name in platform.accelerators()] == [
        "host0",
        "host0",
        "host1",
        "host2",
        "host2",
    ]
    assert rank_of_devices(platform) == {"cpu": 0} | {f"worker:{k}": k for k in range(5)}


def test_links_cross_both_cards_between_hosts_and_none_inside() -> None:
    platform = hosts_of((2, 1))
    between, inside = platform.link("worker:1", "worker:2"), platform.link("worker:0", "worker:1")
    assert between.memory == "network"
    assert between.crosses == ("host0/nic0/out", "host0/nic0/both", "switch", "host1/nic0/in", "host1/nic0/both")
    assert between.seconds == MEASURED.between_hosts
    assert inside.memory == "peer"
    assert inside.crosses == ("inside",)
    assert inside.seconds == MEASURED.in_host


def test_it_can_be_saved_and_read_again(tmp_path_factory: pytest.TempPathFactory) -> None:
    platform, file = hosts_of((2, 1, 1)), tmp_path_factory.mktemp("hosts") / "hosts.json"
    platform.save(file)
    assert gs.Platform.load(file) == platform


def test_messages_measured_by_a_run_leave_the_links_of_hosts_alone() -> None:
    """They are of messages already; what ranks need to wait for all is still taken from the run's own messages."""
    platform = hosts_of((1, 1, 1))
    told = with_messages(platform, [(1.0, 2.0), (1.0, 2.0)], (1, 10))
    assert told.links == platform.links
    assert told.dispatch == replace(platform.dispatch, meeting_s=2.0)


def test_hosts_without_ranks_are_refused() -> None:
    with pytest.raises(PlatformError, match="ranks of the hosts are '1', hosts 2"):
        platform_of(hand_written("worker", 2), Network(2), (1,), MEASURED)


@pytest.mark.parametrize("servers", [1, 2, 3, 4])
def test_one_servers_port_is_the_bottleneck_until_there_are_as_many_as_machines(servers: int) -> None:
    """Three machines of one worker with 40 MB each: 3/s · 40 MB through each of s ports in, and as much out.

    ::

        worker:0 ─┐            ┌─ worker:0
        worker:1 ─┼─ server… ──┼─ worker:1        125 MB/s each port
        worker:2 ─┘            └─ worker:2
    """
    platform = hosts_of((1,) * 7)
    work = step_on(platform, 3, servers, 40.0)
    line = gs.predict(gs.schedule(work, platform, scheduler="one_stream", mode="distributed"))
    expected_s = 2 * 40e6 / RATE * max(3 / servers, 1)
    assert expected_s < line.makespan_s < expected_s * 1.1


def test_all_cards_together_carry_no_more_than_the_machine_they_are_made_on() -> None:
    """Three machines and three servers, 40 MB there and back for each; all cards together carry what one could."""
    slow = replace(MEASURED, of_all=RATE)
    platform = platform_of(hand_written("worker", 2), Network(6), (1,) * 6, slow)
    line = gs.predict(gs.schedule(step_on(platform, 3, 3, 40.0), platform, scheduler="one_stream", mode="distributed"))
    assert 6 * 40e6 / RATE < line.makespan_s < 6 * 40e6 / RATE * 1.1


def test_copies_by_a_network_keep_no_core_busy() -> None:
    """Six copies of 40 MB at once on one core, each from a host of its own to another: as long as one alone."""
    platform = replace(hosts_of((1,) * 12), cores=1)
    work = gs.Workload("pairs")
    for k in range(6):
        given = work.input(f"x{k}", gs.TensorSpec((10_000_000,)), device=f"worker:{k}")
        work.copy(given, to=f"worker:{k + 6}", name=f"copy{k}")
    line = gs.predict(gs.schedule(work, platform, scheduler="one_stream", mode="distributed"))
    alone_s = platform.link("worker:0", "worker:6").duration_s(40_000_000)
    assert line.makespan_s == pytest.approx(alone_s, rel=0.01)
