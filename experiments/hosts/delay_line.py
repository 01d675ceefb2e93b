"""A delay line for all packets that a network namespace forwards: each is held for a time, or lost.

For kernels without ``netem``. A rule of netfilter queues forwarded packets to this process, which hears of each (not
its bytes: they stay in the kernel) and lets it go when its time has come, in the order of arrival::

    python -m experiments.hosts.delay_line --delay-s 0.001 --loss 0.01

runs inside the namespace, prints ``ready``, and ends when its standard input does, as when the caller dies.

Not modelled: packets that overtake each other; bits that flip. A large segment (up to 64 KiB) counts as one packet.
"""

from __future__ import annotations

import argparse
import random
import select
import socket
import struct
import sys
import time
from collections import deque

from experiments.hosts import netlink
from experiments.hosts.netlink import ACKNOWLEDGE, APPEND, CREATE

IPV4, FORWARD = 2, 2
QUEUE, PACKETS_HELD, SOCKET_BYTES = 0, 200_000, 1 << 26
TABLES, QUEUES = 10 << 8, 3 << 8
NEW_TABLE, NEW_CHAIN, NEW_RULE, BATCH_BEGIN, BATCH_END = TABLES, TABLES + 3, TABLES + 6, 16, 17
VERDICT, CONFIGURE, VERDICT_OF_ALL = QUEUES + 1, QUEUES + 2, QUEUES + 3
DROP, ACCEPT = 0, 1
BIND, COPY_NO_BYTES, WHOLE_SEGMENTS = 1, 1, 4
SO_RCVBUFFORCE, SOL_NETLINK, NETLINK_NO_ENOBUFS = 33, 270, 5
PACKET_ID_AT = netlink.ATTRIBUTES_AT + 4  # the packet's number stands first in every message
SEED = 0


def queue_forwarded() -> None:
    """Add the rule: every IPv4 packet that is forwarded goes to the queue; without a listener it is lost.

    Raises:
        OSError: The kernel has no such rules, or the process may not make them.
    """
    target = netlink.nested(
        1,  # an expression of the list
        netlink.text(1, "target"),
        netlink.nested(
            2,
            netlink.text(1, "NFQUEUE"),
            netlink.number(2, 3),  # its revision
            netlink.attribute(3, struct.pack("=HHH2x", QUEUE, 1, 0)),
        ),
    )
    hook = netlink.nested(4, netlink.number(1, FORWARD), netlink.number(2, 0))
    named = netlink.text(1, "line")
    requests = [
        (NEW_TABLE, CREATE, [named]),
        (NEW_CHAIN, CREATE, [named, netlink.text(3, "forwarded"), hook, netlink.text(7, "filter")]),
        (NEW_RULE, CREATE | APPEND, [named, netlink.text(2, "forwarded"), netlink.nested(4, target)]),
    ]
    batch = [netlink.message(kind, flags | ACKNOWLEDGE, IPV4, 0, *rest) for kind, flags, rest in requests]
    begin, end = (netlink.message(kind, 0, 0, TABLES >> 8) for kind in (BATCH_BEGIN, BATCH_END))
    with netlink.connect() as tables:
        netlink.ask(tables, b"".join([begin, *batch, end]), len(batch))


def open_queue() -> socket.socket:
    """The queue's listener: it is told of packets, not given them, and of large segments as they are.

    Raises:
        OSError: The kernel has no such queues, the process may not, or another one listens.
    """
    queue = netlink.connect()
    queue.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, SOCKET_BYTES)
    queue.setsockopt(SOL_NETLINK, NETLINK_NO_ENOBUFS, 1)  # what this process does not hear of in time is lost
    netlink.ask(queue, _configure(netlink.attribute(1, struct.pack(">BxH", BIND, 0))))
    settings = [
        netlink.attribute(2, struct.pack(">IB", 0, COPY_NO_BYTES)),
        netlink.number(3, PACKETS_HELD),
        netlink.number(4, WHOLE_SEGMENTS),
        netlink.number(5, WHOLE_SEGMENTS),
    ]
    netlink.ask(queue, _configure(*settings))
    queue.setblocking(False)
    return queue


def _configure(*attributes: bytes) -> bytes:
    return netlink.message(CONFIGURE, ACKNOWLEDGE, 0, QUEUE, *attributes)


class Line:
    """Packets on their way, each with the time when it is due."""

    def __init__(self, queue: socket.socket, delay_s: float, loss: float) -> None:
        self._queue, self._delay_s, self._loss = queue, delay_s, loss
        self._held: deque[tuple[float, int]] = deque()
        self._random = random.Random(SEED)

    def wait_s(self) -> float | None:
        """Seconds until the first one is due; None: there is none."""
        return max(0.0, self._held[0][0] - time.perf_counter()) if self._held else None

    def take(self) -> None:
        """Hear of those that have come."""
        due_s = time.perf_counter() + self._delay_s
        try:
            while True:
                (packet,) = struct.unpack_from(">I", self._queue.recv(4096), PACKET_ID_AT)
                if self._random.random() < self._loss:
                    self._tell(VERDICT, DROP, packet)
                else:
                    self._held.append((due_s, packet))
        except BlockingIOError:
            return

    def release(self) -> None:
        """Let those go that are due: a verdict on a packet holds for all that came before it."""
        now, last = time.perf_counter(), None
        while self._held and self._held[0][0] <= now:
            last = self._held.popleft()[1]
        if last is not None:
            self._tell(VERDICT_OF_ALL, ACCEPT, last)

    def _tell(self, kind: int, verdict: int, packet: int) -> None:
        self._queue.send(netlink.message(kind, 0, 0, QUEUE, netlink.attribute(2, struct.pack(">II", verdict, packet))))


def main() -> None:
    """Delay packets until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--delay-s", type=float, default=0.0)
    parser.add_argument("--loss", type=float, default=0.0)
    given = parser.parse_args()
    try:
        with open_queue() as queue:
            queue_forwarded()
            print("ready", flush=True)
            line = Line(queue, given.delay_s, given.loss)
            while sys.stdin not in select.select([queue, sys.stdin], [], [], line.wait_s())[0]:
                line.take()
                line.release()
    except OSError as error:
        sys.exit(f"no delay line here: {error}")


if __name__ == "__main__":
    main()
