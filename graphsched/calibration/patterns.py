"""Transfers at the same time: patterns to measure, and the rates that a platform predicts for them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from graphsched.calibration.capacities import Flow, Rates, fit_capacities, rates_alone
from graphsched.costs import Costs
from graphsched.platform import Link, Platform
from graphsched.schedulers import schedule
from graphsched.simulator import Model, predict
from graphsched.simulator.fairness import first_come_rates, max_min_rates
from graphsched.workload import TensorSpec, Workload

PATTERN_BYTES = 2**26
BARE = Model(dispatch=False, launch_queue=False, waits=False, timing=False, blocking=False)


def sampled_patterns(platform: Platform) -> list[list[Flow]]:
    """Patterns whose transfers are alike: all GPUs from the host, all to it, a fan-out, a ring; those of two and more.

    Pairs without peer access are left out.

    Example:
        >>> sampled_patterns(Platform.load("h200-x2"))[0]
        [('cpu', 'cuda:0'), ('cpu', 'cuda:1')]
    """
    gpus = [d.name for d in platform.devices if d.kind == "cuda"]
    pairs = {(k.source, k.target) for k in platform.links if k.memory == "peer"}
    ring = list(zip(gpus, gpus[1:] + gpus[:1], strict=True))
    patterns = [
        [("cpu", gpu) for gpu in gpus],
        [(gpu, "cpu") for gpu in gpus],
        [(gpus[0], gpu) for gpu in gpus[1:]] if gpus else [],
        ring,
    ]
    known = [[flow for flow in flows if "cpu" in flow or flow in pairs] for flows in patterns]
    return [flows for flows in known if len(flows) > 1]


def asked_patterns(gpus: int, links: Sequence[Link], rates: Rates | None = None) -> list[list[Flow]]:
    """What `fit_capacities` asks for: one flow of each link, and those together that capacities are fitted on.

    Found by a fit to `rates`, so the two cannot come apart; default those of the links alone, for which it asks for all
    that it ever does. Each stands once.

    Example:
        >>> here = Platform.load("h200-x2")
        >>> asked_patterns(2, here.links)[2], len(asked_patterns(2, here.links))
        ([('cpu', 'cuda:0'), ('cuda:0', 'cpu')], 15)
    """
    alone, asked = rates_alone(links), dict[tuple[Flow, ...], list[Flow]]()

    def note(flows: Sequence[Flow]) -> Sequence[float]:
        asked.setdefault(tuple(sorted(flows)), list(flows))
        return [alone[flow] for flow in flows] if rates is None else rates(flows)

    fit_capacities(gpus, links, note)
    return list(asked.values())


def fitted_patterns(gpus: int, links: Sequence[Link], rates: Rates | None = None) -> list[list[Flow]]:
    """Patterns of two flows and more that capacities are fitted on: both ways on each GPU, loads of the host's memory,
    each port out, in, both, and with one the other way, what tells GPUs that make one copy at a time, and all to
    all but for these.

    Example:
        >>> fitted_patterns(2, Platform.load("h200-x2").links)[-1]
        [('cuda:0', 'cuda:1'), ('cuda:1', 'cuda:0')]
    """
    return [flows for flows in asked_patterns(gpus, links, rates) if len(flows) > 1]


def new_patterns(gpus: int, links: Sequence[Link]) -> list[list[Flow]]:
    """Patterns that no capacity was fitted on: two flows on one engine; of four GPUs and more also three GPUs from the
    host beside one to it, and the other way round; the second step of a broadcast tree; two sources and a crowded
    target.

    Example:
        >>> new_patterns(4, Platform.load("h200-x4").links)[4]
        [('cuda:0', 'cuda:2'), ('cuda:1', 'cuda:3')]
    """
    names = [f"cuda:{i}" for i in range(gpus)]
    engines = [[("cpu", name)] * 2 for name in names[:1]] + [[(name, "cpu")] * 2 for name in names[:1]]
    if gpus < 4:
        return engines
    a, b, c, d = names[:4]
    pairs = {(k.source, k.target) for k in links if k.memory == "peer"}
    host = [
        [("cpu", a), ("cpu", b), ("cpu", c), (d, "cpu")],
        [("cpu", a), (b, "cpu"), (c, "cpu"), (d, "cpu")],
    ]
    peers = [[(a, c), (b, d)], [(a, b), (a, c), (a, d), (b, c)], [(a, b), (b, a), (c, b)]]
    return engines + host + [flows for flows in peers if set(flows) <= pairs]


def pattern_label(flows: Sequence[Flow]) -> str:
    """What a pattern is called in a platform's provenance.

    Example:
        >>> pattern_label([("cuda:0", "cpu"), ("cpu", "cuda:0")])
        'cpu>cuda:0 + cuda:0>cpu'
    """
    if len(flows) > 4:
        sources, targets = (", ".join(sorted(set(ends))) for ends in zip(*flows, strict=True))
        return f"{len(flows)} transfers from {sources} to {targets}"
    return " + ".join(f"{source}>{target}" for source, target in sorted(flows))


def predicted_rates(platform: Platform, flows: Sequence[Flow]) -> list[float]:
    """Bytes per second of each flow while all are under way, of many transfers each.

    Of a GPU that makes one copy to another at a time, the first flow goes alone, and all others wait until it has sent
    everything: 0.

    Example:
        >>> here = Platform.load("h200-x2")
        >>> rate, = predicted_rates(here, [("cpu", "cuda:0")])
        >>> rate == here.link("cpu", "cuda:0").bandwidth_bytes_per_s
        True
    """
    links = [platform.link(source, target) for source, target in flows]
    names = list(platform.capacities)
    crosses = [tuple(names.index(name) for name in link.crosses) for link in links]
    limits = [link.bandwidth_bytes_per_s for link in links]
    turns = len(flows) > 1 and all(_one_at_a_time(platform, link) for link in links)
    sources = [crossed[0] for crossed in crosses] if turns else []
    waiting = {k for k, source in enumerate(sources) if source in sources[:k]}
    rates = _rates_under(platform, [_load(k, crosses, waiting, flows) for k in range(len(names))])
    if turns:
        return first_come_rates(limits, sources, [crossed[1:] for crossed in crosses], rates)
    return max_min_rates(limits, crosses, rates)


def _load(number: int, crosses: Sequence[Sequence[int]], waiting: Collection[int], flows: Sequence[Flow]) -> int:
    """How many links load a capacity; copies that wait for their engine are queued there, and arrive nowhere yet."""
    going = (crossed[:1] if k in waiting else crossed for k, crossed in enumerate(crosses))
    return len({flow for flow, crossed in zip(flows, going, strict=True) if number in crossed})


def _rates_under(platform: Platform, loads: Sequence[int]) -> list[float]:
    """What each capacity gives under these loads of all."""
    names, rates = list(platform.capacities), dict(platform.capacities)
    for name, table in platform.tables.items():
        rates[name] = table.rate([loads[names.index(other)] for other in table.by])
    return list(rates.values())


def _one_at_a_time(platform: Platform, link: Link) -> bool:
    """Whether copies over `link` wait for others from its source; they leave by the first capacity that they cross."""
    return link.memory == "peer" and len(link.crosses) > 1 and platform.device(link.source).peer_engines == 1


def pattern_rows(
    platform: Platform, patterns: Sequence[Sequence[Flow]], rates: Rates, *, fitted: bool
) -> list[dict[str, Any]]:
    """What a platform predicts for patterns, beside what is measured: rows for its provenance.

    Returns:
        Of each pattern ``flows``, ``fitted``, ``measured_bytes_per_s`` and ``predicted_bytes_per_s`` (sums).
    """
    return [
        {
            "flows": [list(flow) for flow in flows],
            "fitted": fitted,
            "measured_bytes_per_s": float(sum(rates(flows))),
            "predicted_bytes_per_s": float(sum(predicted_rates(platform, flows))),
        }
        for flows in patterns
    ]


def pattern_bytes_per_s(platform: Platform, flows: Sequence[Flow]) -> float:
    """Bytes per second in all that `platform` predicts for transfers of one size that start together.

    Example:
        >>> one = Platform.load("h200-x2")
        >>> rate = pattern_bytes_per_s(one, [("cpu", "cuda:0")])
        >>> abs(rate / one.link("cpu", "cuda:0").bandwidth_bytes_per_s - 1) < 0.01
        True
    """
    work = Workload("pattern")
    for source, target in flows:
        spec = TensorSpec((PATTERN_BYTES,), dtype="uint8")
        value = work.input(f"{source}.{target}", spec, device=source)
        work.copy(value, to=target, pinned=True, name=f"{source}-{target}")
    spans = predict(schedule(work, platform, Costs(), scheduler="one_stream"), model=BARE)
    return len(flows) * PATTERN_BYTES / max(span.duration_s for span in spans)
