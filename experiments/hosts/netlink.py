"""Netlink messages as bytes: headers and attributes, and requests that the kernel acknowledges.

Most are netfilter's; one is about network cards, for what iproute2 cannot ask for before 6.3.

Source: the kernel's headers netlink.h, rtnetlink.h, if_link.h, nfnetlink.h, nf_tables.h and nfnetlink_queue.h.
"""

from __future__ import annotations

import os
import socket
import struct

ROUTE, NETFILTER = 0, 12
NEW_LINK = 16
LARGEST_SEGMENTS = 41, 58, 63, 64  # sent and merged, of IPv6 and of IPv4
REQUEST, ACKNOWLEDGE, CREATE, APPEND = 0x1, 0x4, 0x400, 0x800
NESTED = 0x8000
ERROR = 2
HEADER, FAMILY_HEADER, CARD_HEADER = struct.Struct("=IHHII"), struct.Struct(">BBH"), struct.Struct("=BxHiII")
ATTRIBUTES_AT = HEADER.size + FAMILY_HEADER.size


def connect(to: int = NETFILTER) -> socket.socket:
    """A socket to a part of the kernel, in this thread's network namespace.

    Raises:
        OSError: This kernel has none, or the process may not.
    """
    found = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, to)
    found.bind((0, 0))
    return found


def attribute(kind: int, data: bytes) -> bytes:
    """An attribute, padded to four bytes.

    Example:
        >>> attribute(3, b"ab").hex()
        '0600030061620000'
    """
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def nested(kind: int, *attributes: bytes) -> bytes:
    """An attribute that holds others."""
    return attribute(kind | NESTED, b"".join(attributes))


def text(kind: int, value: str) -> bytes:
    """An attribute that holds a name."""
    return attribute(kind, value.encode() + b"\0")


def number(kind: int, value: int) -> bytes:
    """An attribute that holds a number of four bytes, the highest first."""
    return attribute(kind, struct.pack(">I", value))


def message(kind: int, flags: int, family: int, resource: int, *attributes: bytes, sequence: int = 0) -> bytes:
    """A request."""
    body = FAMILY_HEADER.pack(family, 0, resource) + b"".join(attributes)
    return HEADER.pack(HEADER.size + len(body), kind, REQUEST | flags, sequence, 0) + body


def largest_segments(card: int, nbytes: int) -> bytes:
    """A request that segments through a card, by its number, have up to so many bytes."""
    sizes = b"".join(attribute(kind, struct.pack("=I", nbytes)) for kind in LARGEST_SEGMENTS)
    body = CARD_HEADER.pack(0, 0, card, 0, 0) + sizes
    return HEADER.pack(HEADER.size + len(body), NEW_LINK, REQUEST | ACKNOWLEDGE, 0, 0) + body


def ask(to: socket.socket, messages: bytes, answers: int = 1) -> None:
    """Send requests and wait until the kernel has acknowledged `answers` of them.

    Raises:
        OSError: It refuses one.
    """
    to.send(messages)
    for _ in range(answers):
        data = to.recv(65536)
        (error,) = struct.unpack_from("=i", data, HEADER.size)
        if HEADER.unpack_from(data)[1] == ERROR and error:
            raise OSError(-error, f"the kernel: {os.strerror(-error)}")
