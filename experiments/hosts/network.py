"""What network the hosts are to have, and the commands of iproute2 that make it.

Every host is a network namespace with one network card (``eth0``): a veth pair whose other end is a port of the switch,
a namespace that forwards::

    host 0: eth0 10.77.0.1 ── p0 ┐
    host 1: eth0 10.77.0.2 ── p1 ┼ switch 10.77.0.254
    host 2: eth0 10.77.0.3 ── p2 ┘

A token bucket on each end holds what leaves it to the rate, so that a host's card has that rate out and in. Packets are
delayed and lost where the switch forwards them, once on each way. Queues are so deep that nothing else is lost; TCP's
windows are twice what is on its way at the full rate, and some milliseconds more.

Not modelled: shallow buffers of real switches; congestion control (reno, which without loss has none).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from graphsched.errors import PlatformError

MTU = 9000
LEAST_BURST_BYTES, BURST_S = 72 * 1024, 2.5e-3
QUEUE_BYTES = 1 << 28
SEGMENT_BYTES, LARGEST_SEGMENT_BYTES, SEGMENT_S = 1 << 16, 1 << 18, 2e-4
LEAST_WINDOW_BYTES, QUEUED_S = 1 << 18, 2e-3
CARD, SWITCH_ADDRESS = "eth0", "10.77.0.254"
MOST_HOSTS = 250
PLACES_LATE = 300  # as many as the kernel may find out by itself

Command = tuple[str, ...]


@dataclass(frozen=True)
class Network:
    """Hosts alike on one switch.

    Attributes:
        hosts: How many.
        bit_per_s: Rate of each host's card, out and in.
        delay_s: What the switch adds on the way from one host to another.
        loss: Share of packets that it loses.

    Raises:
        PlatformError: A figure is out of range.
    """

    hosts: int
    bit_per_s: float = 1e9
    delay_s: float = 0.0
    loss: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.hosts <= MOST_HOSTS:
            raise PlatformError(f"{self.hosts} hosts: 1 to {MOST_HOSTS} are needed")
        if not (math.isfinite(self.bit_per_s) and self.bit_per_s >= 1e6):
            raise PlatformError(f"a rate of {self.bit_per_s:g} bit/s: 1e6 or more is needed")
        if not 0 <= self.delay_s <= 1:
            raise PlatformError(f"a delay of {self.delay_s:g} s: 0 to 1 is needed")
        if not 0 <= self.loss < 1:
            raise PlatformError(f"a loss of {self.loss:g}: a share of all packets from 0 to below 1 is needed")

    def __str__(self) -> str:
        """Size and figures.

        Example:
            >>> str(Network(3, 1e9, 1e-4))
            '3 hosts, 1 Gbit/s, 0.1 ms'
        """
        lost = f", {self.loss * 100:g} % lost" if self.loss else ""
        return f"{self.hosts} hosts, {self.bit_per_s / 1e9:g} Gbit/s, {self.delay_s * 1e3:g} ms{lost}"

    @property
    def window_bytes(self) -> int:
        """How much one connection may have on its way."""
        return max(LEAST_WINDOW_BYTES, round(2 * self.bit_per_s / 8 * (2 * self.delay_s + QUEUED_S)))

    @property
    def segment_bytes(self) -> int:
        """The largest segment: what passes in 0.2 ms, for forwarding one takes a core as long as a smaller one does.

        64 KiB to 256; with loss as usual, for these are cut into packets.
        """
        passes = round(self.bit_per_s / 8 * SEGMENT_S)
        return SEGMENT_BYTES if self.loss else min(max(SEGMENT_BYTES, passes), LARGEST_SEGMENT_BYTES)

    @property
    def burst_bytes(self) -> int:
        """How much a token bucket saves up: one large segment, and what passes while it waits for a core.

        The kernel refills a bucket when its timer is served, on a busy core milliseconds late; tokens that the bucket
        cannot hold are lost, and so is the rate.
        """
        return max(LEAST_BURST_BYTES, round(self.bit_per_s / 8 * BURST_S))


def address(host: int) -> str:
    """The address of a host's card."""
    return f"10.77.0.{host + 1}"


def port(host: int) -> str:
    """The port of the switch that a host's card is joined to."""
    return f"p{host}"


def host_commands(network: Network, host: int, name: str, switch: str) -> Iterator[Command]:
    """What joins host number `host`, the namespace `name`, to the namespace `switch`."""
    here, there = ("ip", "-n", name), ("ip", "-n", switch)
    yield ("ip", "link", "add", CARD, "netns", name, "type", "veth", "peer", "name", port(host), "netns", switch)
    yield *there, "address", "add", f"{SWITCH_ADDRESS}/32", "dev", port(host)
    yield *there, "link", "set", port(host), "mtu", str(MTU), "up"
    yield *there, "route", "add", f"{address(host)}/32", "dev", port(host)
    yield *here, "link", "set", "lo", "up"
    yield *here, "address", "add", f"{address(host)}/32", "dev", CARD
    alone = ("gso_max_segs", "1") if network.loss else ()  # so that packets are lost one by one
    yield *here, "link", "set", CARD, "mtu", str(MTU), *alone, "up"
    yield *here, "route", "add", SWITCH_ADDRESS, "dev", CARD
    yield *here, "route", "add", "default", "via", SWITCH_ADDRESS
    yield limit(network, name, CARD)
    yield limit(network, switch, port(host))


def limit(network: Network, name: str, device: str) -> Command:
    """The token bucket of one end."""
    rate, burst, queue = f"{network.bit_per_s:.0f}bit", f"{network.burst_bytes}b", f"{QUEUE_BYTES}b"
    bucket = ("tbf", "rate", rate, "burst", burst, "limit", queue)
    return "tc", "-n", name, "qdisc", "add", "dev", device, "root", "handle", "1:", *bucket


def netem(network: Network, switch: str, host: int) -> Command:
    """Delay and loss of what leaves by a port, for kernels that have ``netem``."""
    delay = ("delay", f"{network.delay_s * 1e6:.0f}us", "loss", f"{network.loss * 100:g}%", "limit", "200000")
    return "tc", "-n", switch, "qdisc", "add", "dev", port(host), "parent", "1:1", "handle", "10:", "netem", *delay


def settings(network: Network) -> dict[str, str]:
    """What a host's kernel is told, by path below ``/proc/sys/net/ipv4``.

    Packets that two cores forward overtake each other. TCP takes that for a loss, sends again and halves its window,
    and reno opens that again by a packet a round. So packets may be late, by many places and a quarter of a round
    (``tcp_recovery``: by time alone, and always with that margin), before they count as lost.
    """
    window = f"4096 {network.window_bytes} {network.window_bytes}"
    return {
        "tcp_congestion_control": "reno",
        "tcp_slow_start_after_idle": "0",
        "tcp_no_metrics_save": "1",
        "tcp_recovery": "7",
        "tcp_reordering": str(PLACES_LATE),
        "tcp_rmem": window,
        "tcp_wmem": window,
    }
