"""Netlink messages of netfilter as bytes: headers and attributes, and requests that the kernel acknowledges.

Source: the kernel's headers netlink.h, nfnetlink.h, nf_tables.h and nfnetlink_queue.h.
"""

from __future__ import annotations

import os
import socket
import struct

NETFILTER = 12
REQUEST, ACKNOWLEDGE, CREATE, APPEND = 0x1, 0x4, 0x400, 0x800
NESTED = 0x8000
ERROR = 2
HEADER, FAMILY_HEADER = struct.Struct("=IHHII"), struct.Struct(">BBH")
ATTRIBUTES_AT = HEADER.size + FAMILY_HEADER.size


def connect() -> socket.socket:
    """A socket to netfilter in this process's network namespace.

    Raises:
        OSError: This kernel has none, or the process may not.
    """
    found = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETFILTER)
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
            raise OSError(-error, f"netfilter: {os.strerror(-error)}")
