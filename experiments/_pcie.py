"""The text's machine: devices that are joined to each other and to the host by PCIe alone."""

from __future__ import annotations

from dataclasses import replace

import graphsched as gs
from graphsched.platform.derived import derive

PCIE_3_BYTES_PER_S = 16e9


def only_pcie(platform: gs.Platform, bytes_per_s: float = PCIE_3_BYTES_PER_S) -> gs.Platform:
    """`platform` with all its links between devices, and all that these cross, at one rate in each direction.

    That is a full-bandwidth switch, as the text has it: a device sends and receives at this rate, whatever other
    devices do; so does the host, for all devices together. Copies of one device to several others go side by side.

    Source: d2l.ai 12.7.1: a link of 16 lanes of PCIe 3.0 from each GPU to the switch, and one from there to the CPU.

    Not modelled: that copies to devices and to the host then share a device's link; other latencies than the
    platform's.

    Example:
        >>> slow = only_pcie(gs.Platform.load("h200-x2"))
        >>> slow.link("cuda:0", "cuda:1").bandwidth_bytes_per_s / 1e9, slow.capacities["host/h2d"] / 1e9
        (16.0, 16.0)
    """
    links = [
        k if k.memory == "local" else replace(k, bandwidth_bytes_per_s=bytes_per_s, sizes_bytes=(), seconds=())
        for k in platform.links
    ]
    capacities = dict.fromkeys(platform.capacities, bytes_per_s)
    step = f"all links {bytes_per_s / 1e9:g} GB/s, by a full-bandwidth switch"
    devices = tuple(replace(device, peer_engines=0) for device in platform.devices)
    return replace(derive(platform, step, links=links, capacities=capacities), devices=devices, tables={})
