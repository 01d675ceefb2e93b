"""Transfers at the same time: patterns to measure, and the rates that a platform predicts for them."""

from __future__ import annotations

from collections.abc import Sequence

from graphsched.calibration.capacities import Flow
from graphsched.costs import Costs
from graphsched.platform import Platform
from graphsched.schedulers import schedule
from graphsched.simulator import Model, predict
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


def pattern_bytes_per_s(platform: Platform, flows: Sequence[Flow]) -> float:
    """Sum of the rates that `platform` predicts for transfers of one size that start together, bytes/s.

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
    return sum(PATTERN_BYTES / span.duration_s for span in spans)
