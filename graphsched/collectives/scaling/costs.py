"""What transfers, waits and kernels of a collective cost on a platform: the figures that `gs.predict` takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphsched.estimates import LAUNCH_S
from graphsched.platform import Platform
from graphsched.simulator.network import Network, Route, tables_of

ITEM_BYTES = 4
Seconds = NDArray[np.float64]


@dataclass(frozen=True)
class Waits:
    """Latencies of waits between lanes of GPUs.

    Attributes:
        after_kernel_s: Of a copy that a GPU sends, for a kernel there.
        after_copy_s: Of whatever waits for a copy from another GPU.
    """

    after_kernel_s: float
    after_copy_s: float


def waits_of(platform: Platform) -> Waits:
    """The waits of `platform`."""
    dispatch = platform.dispatch
    return Waits(dispatch.peer_edge_s or dispatch.same_device_s, dispatch.other_device_s)


def together_s(platform: Platform, pairs: Sequence[tuple[str, str]], nbytes: int) -> Seconds:
    """Seconds of copies of `nbytes` between all `pairs` that begin at once and share capacities all the time."""
    links = [platform.link(*pair) for pair in pairs]
    numbers = {name: k for k, name in enumerate(dict.fromkeys(name for link in links for name in link.crosses))}
    routes = {
        i: Route(0.0, 1.0, link.bandwidth_bytes_per_s, tuple(numbers[name] for name in link.crosses), False, i)
        for i, link in enumerate(links)
    }
    capacities = [platform.capacities[name] for name in numbers]
    network = Network(routes, capacities, lambda *_: None, tables_of(platform.tables, numbers))
    for i in routes:
        network.enter(i, 0.0)
    network.refresh(0.0)
    slower_s = [nbytes / rate - nbytes / routes[i].limit for i, rate in network.rates()]
    return np.array([link.duration_s(nbytes) + more for link, more in zip(links, slower_s, strict=True)])


def sum_s(platform: Platform, device: str, nbytes: int, values: int) -> float:
    """Estimated seconds of the sum of so many values of `nbytes` on `device`, as one kernel that reads them all."""
    here = platform.device(device)
    return (values + 1) * nbytes / here.bytes_per_s + LAUNCH_S[here.kind]
