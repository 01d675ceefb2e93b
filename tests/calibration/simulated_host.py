"""A host of known figures that answers like a measured one: rates of transfers together, times of one alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from graphsched.calibration.capacities import Flow
from graphsched.platform import Link
from graphsched.simulator.fairness import first_come_rates, max_min_rates


@dataclass
class SimulatedHost:
    """GPUs that share the host's memory and have a port each.

    Attributes:
        gpus: Number of GPUs.
        unlinked: Pairs of GPUs without peer access, in both directions.
        one_at_a_time: Whether a GPU makes one copy to another at a time.
        noise: Relative noise of a measurement.
        asked: The patterns that were measured.
    """

    gpus: int = 4
    unlinked: frozenset[frozenset[int]] = frozenset()
    one_at_a_time: bool = False
    noise: float = 0.0
    asked: list[list[Flow]] = field(default_factory=list)
    seed: int = 0

    engine, engine_both = 55.0, 50.0
    pair, port_out, port_in = 394.0, 400.0, 396.0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def links(self) -> list[Link]:
        """What was measured of each link alone, and the capacities that it crosses."""
        names = [f"cuda:{i}" for i in range(self.gpus)]
        found = [Link("cpu", name, "pinned", 1e-5, self.engine, (f"{name}/h2d", "host/h2d")) for name in names]
        found += [Link(name, "cpu", "pinned", 1e-5, self.engine, (f"{name}/d2h", "host/d2h")) for name in names]
        for i, a in enumerate(names):
            for j, b in enumerate(names):
                if i != j:
                    linked = frozenset((i, j)) not in self.unlinked
                    crosses = (f"{a}/out", f"{b}/in") if linked else ()
                    rate = self.pair if linked else 20.0
                    found.append(Link(a, b, "peer" if linked else "staged", 1e-5, rate, crosses))
        return found

    def host_rate(self, own: int, other: int) -> float:
        """What the host's memory gives to `own` links one way while `other` are busy the other way."""
        return 60.0 + 25.0 * own - 6.0 * other

    def port_rate(self, own: int, other: int, most: float) -> float:
        """What a GPU's port gives."""
        return most - 30.0 * min(other, 1) - 15.0 * max(0, other - 1)

    def truth(self, flows: Sequence[Flow]) -> list[float]:
        """Rates of flows that are all between the host and GPUs, or all between GPUs."""
        into, out = [f for f in flows if f[0] == "cpu"], [f for f in flows if f[1] == "cpu"]
        if into or out:
            return self._host(flows, into, out)
        sources = [int(s[5:]) for s, _ in flows]
        targets = [int(t[5:]) + self.gpus for _, t in flows]
        going = [(s, t) for k, (s, t) in enumerate(zip(sources, targets, strict=True)) if s not in sources[:k]]
        going = going if self.one_at_a_time else list(zip(sources, targets, strict=True))
        sent = {i: sum(s == i for s, _ in going) for i in range(self.gpus)}
        got = {i: sum(t == i + self.gpus for _, t in going) for i in range(self.gpus)}
        rates = [self.port_rate(sent[i], got[i], self.port_out) for i in range(self.gpus)]
        rates += [self.port_rate(got[i], sent[i], self.port_in) for i in range(self.gpus)]
        limits = [self.pair] * len(flows)
        if self.one_at_a_time and len(flows) > 1:
            return first_come_rates(limits, sources, [(t,) for t in targets], rates)
        return max_min_rates(limits, list(zip(sources, targets, strict=True)), rates)

    def _host(self, flows: Sequence[Flow], into: Sequence[Flow], out: Sequence[Flow]) -> list[float]:
        """Through the copy engine of each GPU and direction, and the host's memory."""
        links = list(dict.fromkeys(flows))
        rates = [self.host_rate(len(set(into)), len(set(out))), self.host_rate(len(set(out)), len(set(into)))]
        rates += [self.engine_both if link[::-1] in flows else self.engine for link in links]
        crosses = [(0 if flow[0] == "cpu" else 1, 2 + links.index(flow)) for flow in flows]
        return max_min_rates([self.engine] * len(flows), crosses, rates)

    def measure(self, flows: Sequence[Flow]) -> list[float]:
        """`truth` with noise, and all of it 6 % too slow: pauses between copies, which a lone transfer has too."""
        self.asked.append(list(flows))
        return [0.94 * rate * (1 + self.noise * self._random.uniform(-1, 1)) for rate in self.truth(flows)]

    def copy_s(self, nbytes: int, latency_s: float = 1e-5, rate: float = 55e9, spike: float = 0.1) -> float:
        """Seconds of one transfer; now and then one takes many times as long."""
        seconds = latency_s + nbytes / rate
        return seconds * (40.0 if self._random.random() < spike else 1 + self.noise * self._random.uniform(-1, 1))
