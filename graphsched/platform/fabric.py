"""Many hosts of one kind and the switches between them: a short description, from which links are made on demand.

A copy between hosts leaves by a network card (NIC), passes switches and arrives by another NIC. It has the rate of
a NIC at most, and takes part of every capacity on its way; these are shared as all others are:

=================== ============================== =================================================================
topology            within a leaf                  between leaves
=================== ============================== =================================================================
``two_level``       NIC, NIC                       NIC, all uplinks of the leaf, all downlinks of the other, NIC
``fat_tree``        NIC, NIC; within a pod as      NIC, leaf up, pod up, pod down, leaf down, NIC
                    ``two_level``
``rail_optimised``  NIC, NIC, if both have the     NIC, uplinks of its rail's leaf, downlinks of the other's, NIC;
                    same number in their hosts     so too between two rails of one leaf's hosts
=================== ============================== =================================================================

Source: Al-Fares, Loukissas and Vahdat, A Scalable, Commodity Data Center Network Architecture, SIGCOMM 2008 (fat tree);
NVIDIA DGX SuperPOD reference architecture, 2023 (rails).

Not modelled: which of several uplinks a copy takes (they are one capacity: perfect balance, no collisions of hashes);
queues in switches, loss, congestion control; the way from a GPU to its NIC; CPUs and memory of hosts but the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from graphsched.errors import FileFormatError, PlatformError
from graphsched.platform.capacity import CapacityTable
from graphsched.platform.checks import check_number, check_seconds
from graphsched.platform.parts import Device, Link

if TYPE_CHECKING:
    from graphsched.platform.host import Platform

Topology = Literal["two_level", "fat_tree", "rail_optimised"]
COUNTS = ("hosts", "nics", "hosts_per_leaf", "leaves_per_pod")
RATIOS = ("oversubscription", "core_oversubscription")


@dataclass(frozen=True)
class Fabric:
    """Hosts alike, joined by switches. GPUs are numbered through: GPU i of host h is number h · GPUs a host + i.

    Attributes:
        topology: ``two_level``, ``fat_tree`` or ``rail_optimised``.
        hosts: How many.
        host: One of them: its devices, links, capacities and tables.
        nics: Network cards of a host, each shared by as many neighbouring GPUs.
        nic_bytes_per_s: Rate of one, each way.
        nic_latency_s: Of a copy of no bytes from one host to another, without the switches.
        switch_latency_s: What each switch on the way adds.
        hosts_per_leaf: Hosts whose NICs are on the same leaf switch (``rail_optimised``: on the same one of each rail).
        leaves_per_pod: Leaf switches of a pod of a ``fat_tree``; no matter elsewhere.
        oversubscription: Rate of the NICs below a leaf over that of its uplinks.
        core_oversubscription: Rate of the leaves' uplinks in a pod over that of the pod's; no matter elsewhere.

    Raises:
        PlatformError: A number is no whole number above 0, a rate or ratio out of range, or NICs do not divide GPUs.
    """

    topology: Topology
    hosts: int
    host: Platform
    nics: int
    nic_bytes_per_s: float
    nic_latency_s: float
    switch_latency_s: float
    hosts_per_leaf: int
    leaves_per_pod: int = 1
    oversubscription: float = 1.0
    core_oversubscription: float = 1.0

    def __post_init__(self) -> None:
        if self.topology not in get_args(Topology):
            raise PlatformError(f"topology is {self.topology!r}: one of {', '.join(get_args(Topology))}")
        for name in COUNTS:
            check_count(getattr(self, name), name)
        check_number(self.nic_bytes_per_s, "nic_bytes_per_s", positive=True)
        check_seconds(self.nic_latency_s, "nic_latency_s")
        check_seconds(self.switch_latency_s, "switch_latency_s")
        for name in RATIOS:
            if check_number(getattr(self, name), name) < 1.0:
                raise PlatformError(f"{name} is {getattr(self, name)!r}: at least 1 is needed, which shares nothing")
        local = self.host.accelerators()
        if not local or len(local) % self.nics:
            raise PlatformError(
                f"{self.nics} NICs do not serve {len(local)} accelerators of a host evenly: choose a divisor of that"
            )
        stem = local[0].partition(":")[0]
        numbered = [f"{stem}:{k}" for k in range(self.hosts * len(local))]
        object.__setattr__(self, "_place", {name: divmod(k, len(local)) for k, name in enumerate(numbered)})
        object.__setattr__(self, "_local", {name: i for i, name in enumerate(local)})

    def __str__(self) -> str:
        """Topology and size.

        Example:
            >>> from graphsched.platform import topologies
            >>> str(topologies.two_level(hosts=4, oversubscription=2).fabric)
            'two-level network of 4 hosts, 8 accelerators and 8 NICs of 50 GB/s each, oversubscription 2'
        """
        over = [f"{n.replace('_', ' ')} {getattr(self, n):g}" for n in RATIOS if getattr(self, n) > 1.0]
        kind = {"two_level": "two-level", "fat_tree": "fat-tree", "rail_optimised": "rail-optimised"}[self.topology]
        return ", ".join(
            [
                f"{kind} network of {self.hosts} hosts, {len(self._names)} accelerators and {self.nics} NICs of "
                f"{self.nic_bytes_per_s / 1e9:g} GB/s each",
                *over,
            ]
        )

    # -- parts ------------------------------------------------------------------------------------

    @property
    def _names(self) -> Mapping[str, int]:
        """Accelerators of a host and their numbers there."""
        found: dict[str, int] = self._local  # type: ignore[attr-defined]
        return found

    def place(self, device: str) -> tuple[int, int] | None:
        """Host of an accelerator and its number there; None for what is none here.

        Example:
            >>> from graphsched.platform import topologies
            >>> topologies.fat_tree(hosts=2).fabric.place("cuda:9")
            (1, 1)
        """
        found: dict[str, tuple[int, int]] = self._place  # type: ignore[attr-defined]
        return found.get(device)

    def devices(self) -> tuple[Device, ...]:
        """What the first host has besides accelerators, and the accelerators of all."""
        others = [replace(d, host="host0") for d in self.host.devices if not d.is_accelerator]
        own = [self.host.device(name) for name in self._names]
        places: dict[str, tuple[int, int]] = self._place  # type: ignore[attr-defined]
        return (*others, *(replace(own[i], name=name, host=f"host{h}") for name, (h, i) in places.items()))

    def capacities(self) -> dict[str, float]:
        """Those of every host, of its NICs, of leaf switches and of pods, in bytes per second."""
        found: dict[str, float] = {}
        for h in range(self.hosts):
            found |= {self._in_host(name, h): rate for name, rate in self.host.capacities.items()}
            for name in (f"host{h}/nic{j}/{way}" for j in range(self.nics) for way in ("out", "in")):
                found[name] = self.nic_bytes_per_s
        return found | dict(self._switches())

    def tables(self) -> dict[str, CapacityTable]:
        """Those of every host."""
        return {
            self._in_host(name, h): replace(table, by=tuple(self._in_host(other, h) for other in table.by))
            for h in range(self.hosts)
            for name, table in self.host.tables.items()
        }

    def _switches(self) -> Iterator[tuple[str, float]]:
        """What leaf switches have to the rest of the network, and pods."""
        leaves = -(-self.hosts // self.hosts_per_leaf)
        rails = self.nics if self.topology == "rail_optimised" else 1
        below = self.hosts_per_leaf * self.nics // rails * self.nic_bytes_per_s
        for leaf in range(leaves):
            for rail in range(rails):
                for way in ("up", "down"):
                    yield self._leaf(leaf, rail, way), below / self.oversubscription
        if self.topology == "fat_tree":
            pod_rate = self.leaves_per_pod * below / self.oversubscription / self.core_oversubscription
            for pod in range(-(-leaves // self.leaves_per_pod)):
                yield from ((f"pod{pod}/{way}", pod_rate) for way in ("up", "down"))

    def _leaf(self, leaf: int, rail: int, way: str) -> str:
        return f"leaf{leaf}/rail{rail}/{way}" if self.topology == "rail_optimised" else f"leaf{leaf}/{way}"

    def _in_host(self, capacity: str, h: int) -> str:
        """Name of a capacity of the host that is described, as host `h` has it."""
        device, _, rest = capacity.partition("/")
        if device in self._names:
            return f"{self._accelerator(h, self._names[device])}/{rest}"
        return capacity if h == 0 else f"host{h}/{capacity}"

    def _accelerator(self, h: int, i: int) -> str:
        stem = next(iter(self._names)).partition(":")[0]
        return f"{stem}:{h * len(self._names) + i}"

    # -- links ------------------------------------------------------------------------------------

    def link(self, source: str, target: str, memory: str) -> Link | None:
        """The link of two devices, made anew; None where there is none.

        Example:
            >>> from graphsched.platform import topologies
            >>> rails = topologies.rail_optimised(hosts=2).fabric
            >>> rails.link("cuda:1", "cuda:9", "peer").crosses
            ('host0/nic1/out', 'host1/nic1/in')
            >>> rails.link("cuda:1", "cuda:8", "peer").crosses
            ('host0/nic1/out', 'leaf0/rail1/up', 'leaf0/rail0/down', 'host1/nic0/in')
        """
        out, into = self.place(source), self.place(target)
        if out is None or into is None or out[0] == into[0]:
            return self._within(source, target, memory, (out or into or (0, 0))[0])
        between = self._between(out, into)
        switches = 1 + len(between)
        (a, i), (b, j) = out, into
        return Link(
            source,
            target,
            "network",
            self.nic_latency_s + switches * self.switch_latency_s,
            self.nic_bytes_per_s,
            (f"host{a}/nic{self._nic(i)}/out", *between, f"host{b}/nic{self._nic(j)}/in"),
        )

    def _nic(self, i: int) -> int:
        """The NIC of accelerator `i` of a host."""
        return i * self.nics // len(self._names)

    def _between(self, source: tuple[int, int], target: tuple[int, int]) -> tuple[str, ...]:
        """Capacities between two NICs of different hosts: those of the switches."""
        (a, b), rails = (source[0], target[0]), (0, 0)
        leaves = a // self.hosts_per_leaf, b // self.hosts_per_leaf
        if self.topology == "rail_optimised":
            rails = self._nic(source[1]), self._nic(target[1])
        if leaves[0] == leaves[1] and rails[0] == rails[1]:
            return ()
        up, down = self._leaf(leaves[0], rails[0], "up"), self._leaf(leaves[1], rails[1], "down")
        pods = leaves[0] // self.leaves_per_pod, leaves[1] // self.leaves_per_pod
        if self.topology == "fat_tree" and pods[0] != pods[1]:
            return up, f"pod{pods[0]}/up", f"pod{pods[1]}/down", down
        return up, down

    def _within(self, source: str, target: str, memory: str, h: int) -> Link | None:
        """A link inside host `h`: that of the host that is described, at these devices."""
        try:
            found = self.host.link(self._described(source, h), self._described(target, h), memory)
        except PlatformError:
            return None
        crosses = tuple(self._in_host(name, h) for name in found.crosses)
        return replace(found, source=source, target=target, crosses=crosses)

    def _described(self, device: str, h: int) -> str:
        """What the host that is described calls a device of host `h`; others than the first have accelerators only."""
        place = self.place(device)
        if place is not None:
            return list(self._names)[place[1]]
        return device if h == 0 and device not in self._names else ""

    # -- files ------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"host": self.host.to_dict()}

    @classmethod
    def read(cls, row: Mapping[str, Any], host: Platform) -> Fabric:
        """The fabric of `to_dict`, whose host has been read.

        Raises:
            FileFormatError: Entries are missing or unknown, or of the wrong type.
            PlatformError: They are out of range.
        """
        names = {f.name for f in fields(cls)}
        if set(row) != names:
            odd = ", ".join(sorted(set(row) ^ names))
            raise FileFormatError(f"not a fabric: it needs exactly {', '.join(sorted(names))}; look at {odd}")
        return cls(**{**row, "host": host})


def check_count(number: Any, what: str) -> int:
    """`number` as a whole number above 0.

    Raises:
        PlatformError: It is not.
    """
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise PlatformError(f"{what} is {number!r}: a whole number above 0 is needed")
    return number
