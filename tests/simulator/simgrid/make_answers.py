"""Random transfer patterns and when each transfer ends according to SimGrid: writes `answers.json`.

An oracle of the max-min sharing that owes nothing to the code it checks. Needs Debian's `python3-simgrid`
and nothing else; the tests read the committed file and do not need it::

    apt-get install python3-simgrid
    /usr/bin/python3 tests/simulator/simgrid/make_answers.py

Each transfer has two hosts of its own. Its route is a private link, which holds its own rate limit and
its latency, and the shared links that it crosses.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

ANSWERS = Path(__file__).with_name("answers.json")
SEED = 20
SETTINGS = {
    "network/model": "CM02",
    "network/optim": "Full",
    "network/bandwidth-factor": "1",
    "network/latency-factor": "1",
    "network/crosstraffic": "0",  # no share of the way back for acknowledgements
    "network/TCP-gamma": "0",  # no bound on a rate by window and latency
    "network/weight-S": "0",
    "maxmin/precision": "1e-9",
    "surf/precision": "1e-12",
}


class Transfer(NamedTuple):
    """When it starts, its bytes, its own highest rate, what it waits before the first byte, shared links by number."""

    start_s: float
    nbytes: int
    limit_bytes_per_s: float
    latency_s: float
    crosses: tuple[int, ...]


class Pattern(NamedTuple):
    """Transfers over links of these capacities, in bytes per second."""

    kind: str
    capacities: tuple[float, ...]
    transfers: tuple[Transfer, ...]


def patterns() -> Iterator[Pattern]:
    """Every pattern; the same ones at each call."""
    rng = random.Random(SEED)
    for _ in range(16):
        yield _pattern(rng, "together", latest_s=0)
    for _ in range(20):
        yield _pattern(rng, "staggered", latest_s=24)
    for _ in range(12):
        latency_s = rng.randint(1, 12) / 4
        yield _pattern(rng, "one latency", latest_s=24, latencies_s=(latency_s,))
    for _ in range(12):
        latency_s = rng.randint(1, 40) * 1e-6
        yield _pattern(rng, "gigabytes", latest_s=24, latencies_s=(latency_s,), scale=1e9, tick_s=1e-3)
    for _ in range(6):
        yield _pattern(rng, "link crossed twice", latest_s=24, twice_share=0.5)
    for _ in range(8):
        yield _pattern(rng, "unequal latencies", latest_s=24, latencies_s=(0.5, 1.0, 1.5, 3.0))


def _pattern(
    rng: random.Random,
    kind: str,
    latest_s: int,
    latencies_s: tuple[float, ...] = (0.0,),
    scale: float = 1.0,
    tick_s: float = 1.0,
    twice_share: float = 0.0,
) -> Pattern:
    """Capacities are 20 to 100 × `scale` bytes/s; starts are quarters of `tick_s`, so that some coincide.

    `twice_share` of the transfers cross their first link a second time. Sizes can be cut into 2, 3 or 6 equal parts.
    """
    links = rng.randint(2, 8)
    transfers = []
    for _ in range(rng.randint(2, 12)):
        crosses = rng.sample(range(links), rng.randint(1, min(4, links)))
        if rng.random() < twice_share:
            crosses.append(crosses[0])
        transfers.append(
            Transfer(
                start_s=rng.randint(0, 4 * latest_s) / 4 * tick_s,
                nbytes=int(12 * rng.randint(8, 160) * scale * tick_s),
                limit_bytes_per_s=rng.choice((rng.randint(4, 20), rng.randint(20, 120))) * scale,
                latency_s=rng.choice(latencies_s),
                crosses=tuple(crosses),
            )
        )
    return Pattern(kind, tuple(rng.randint(20, 100) * scale for _ in range(links)), tuple(transfers))


def simulate(pattern: Pattern) -> list[float]:
    """When each transfer ends, in seconds. One call a process: SimGrid has one engine."""
    from simgrid import Actor, Engine, LinkInRoute, NetZone

    engine = Engine(["make_answers", "--log=root.thres:error", *(f"--cfg={k}:{v}" for k, v in SETTINGS.items())])
    zone = NetZone.create_full_zone("all")
    shared = [zone.create_link(f"shared{k}", rate).seal() for k, rate in enumerate(pattern.capacities)]
    end_s = [0.0] * len(pattern.transfers)
    for i, transfer in enumerate(pattern.transfers):
        source, target = (zone.create_host(f"{end}{i}", 1.0).seal() for end in ("source", "target"))
        own = zone.create_link(f"own{i}", transfer.limit_bytes_per_s).set_latency(transfer.latency_s).seal()
        route = [LinkInRoute(link) for link in (own, *(shared[k] for k in transfer.crosses))]
        zone.add_route(source.netpoint, target.netpoint, None, None, route, False)
        Actor.create(f"transfer{i}", source, _carry_out, source, target, transfer, end_s, i)
    zone.seal()
    engine.run()
    return end_s


def _carry_out(source: object, target: object, transfer: Transfer, end_s: list[float], i: int) -> None:
    from simgrid import Comm, Engine, this_actor

    this_actor.sleep_until(transfer.start_s)
    Comm.sendto_init(source, target).set_payload_size(transfer.nbytes).wait()
    end_s[i] = Engine.clock


def main() -> None:
    """Ask SimGrid, and write the answers, one pattern a line."""
    from simgrid import simgrid_version

    made = list(patterns())
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        answers = pool.map(simulate, made, chunksize=1)
    lines = [
        json.dumps({**p._asdict(), "transfers": [t._asdict() for t in p.transfers], "end_s": end_s})
        for p, end_s in zip(made, answers, strict=True)
    ]
    head = json.dumps({"simgrid": simgrid_version.strip(), "settings": SETTINGS, "seed": SEED}, indent=1).removesuffix(
        "\n}"
    )
    ANSWERS.write_text(head + ',\n "patterns": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n")
    print(f"{ANSWERS}: {len(made)} patterns, {sum(len(p.transfers) for p in made)} transfers")


if __name__ == "__main__":
    main()
