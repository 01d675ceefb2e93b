"""Where spans of a prediction end, as those of a measurement do.

In the simulator an action ends where its lane has passed what stands behind it. A stamp in a CUDA graph writes the time
as it begins, and so does the event behind a copy there: a measured span ends by one of them sooner.

Not modelled: what stamps take longer beside those of other lanes, and where a graph works on more than the cache holds;
events around tasks, where there are no stamps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphsched.plan import OUTSIDE, segments_of, stamped
from graphsched.simulator.graph_mode import in_graph
from graphsched.timeline import Timeline


def span_ends_s(line: Timeline) -> NDArray[np.float64]:
    """When each span of `line` ends, in seconds, a stamp or event behind it left out.

    Those of a measurement are as they are, and those of a prediction without timing events.
    """
    plan = line.plan
    untimed = line.timed_makespan_s == line.makespan_s
    if line.source != "predicted" or untimed or plan.mode != "graph" or not stamped(plan):
        return line.end_s
    costs = in_graph(plan.platform.dispatch, whole=False, stamps=True)
    behind_s = np.zeros(len(plan))
    for i, graph in enumerate(segments_of(plan).of):
        if graph != OUTSIDE and plan.kinds[i] != "wait":
            behind_s[i] = costs.graph_event_s if i in plan.copies else costs.graph_stamp_s
    return np.maximum(line.start_s, line.end_s - behind_s)
