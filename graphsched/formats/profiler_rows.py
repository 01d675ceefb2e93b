"""What a profiler saw as rows of a Perfetto trace, beside the lanes that its work was matched to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from graphsched.formats.kernel_matching import Matching
from graphsched.formats.perfetto import Bar, Process
from graphsched.formats.profiler_trace import DeviceWork, HostSpan
from graphsched.formats.tracks import lane_order
from graphsched.plan import HOST_LANE, Plan

_LOOKS = {"kernel": "compute", "copy": "copy", "fill": "compute"}


def profiler_process(plan: Plan, matching: Matching, shifts_s: Mapping[str, float]) -> Process:
    """A process ``profiler``: a row a lane, ranges on the thread that made them, strays by stream.

    Args:
        shifts_s: By GPU, what the profiler's times are to be moved by.
    """
    rows: dict[str, list[Bar]] = {name: [] for name in (HOST_LANE, *(plan.lanes[k].name for k in lane_order(plan)))}
    for i, pieces in matching.work.items():
        lane = plan.lanes[plan.lane_of[i]]
        rows[lane.name] += [_work(piece, shifts_s.get(lane.device, 0.0), action=plan.names[i]) for piece in pieces]
    for i, span in matching.ranges.items():
        lane = plan.lanes[plan.lane_of[i]]
        on_gpu = plan.platform.device(lane.device).kind == "cuda"
        rows[HOST_LANE if on_gpu else lane.name].append(_range(plan.names[i], span, on_gpu))
    strays: dict[str, list[Bar]] = defaultdict(list)
    for piece in matching.strays:
        device = f"cuda:{piece.device}"
        strays[f"{device} stream {piece.stream}, not matched"].append(_work(piece, shifts_s.get(device, 0.0)))
    return Process("profiler", {name: bars for name, bars in (rows | dict(sorted(strays.items()))).items() if bars})


def _work(piece: DeviceWork, shift_s: float, **more: Any) -> Bar:
    args = {**more, "kind": piece.kind, "device": f"cuda:{piece.device}", "stream": piece.stream}
    args |= {"correlation": piece.correlation} | ({} if piece.node is None else {"node": piece.node})
    return Bar(piece.name, _LOOKS[piece.kind], piece.start_s + shift_s, piece.end_s + shift_s, args)


def _range(action: str, span: HostSpan, launches: bool) -> Bar:
    args = {"action": action, "thread": span.thread}
    return Bar(action, "dispatch" if launches else "compute", span.start_s, span.end_s, args)
