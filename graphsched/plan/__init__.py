"""Plans: what runs where, in which order, and who waits for whom."""

from graphsched.plan.builder import Placement, allowed_devices, build_plan
from graphsched.plan.check import check, check_plan, known
from graphsched.plan.cores import spares_a_core
from graphsched.plan.graph_mode import check_capturable
from graphsched.plan.holding import Held, Peak
from graphsched.plan.memory import peak_memory
from graphsched.plan.model import HOST_LANE, MODES, Action, Copy, Lane, Plan, copy_lane
from graphsched.plan.pinning import just_written, lies_pageable, made_by_task, pinned_results
from graphsched.plan.segments import OUTSIDE, Segments, launching_lane, segments_of
from graphsched.plan.stamping import stamped

__all__ = [
    "HOST_LANE",
    "MODES",
    "OUTSIDE",
    "Action",
    "Copy",
    "Held",
    "Lane",
    "Peak",
    "Placement",
    "Plan",
    "Segments",
    "allowed_devices",
    "build_plan",
    "check",
    "check_capturable",
    "check_plan",
    "copy_lane",
    "just_written",
    "known",
    "launching_lane",
    "lies_pageable",
    "made_by_task",
    "peak_memory",
    "pinned_results",
    "segments_of",
    "spares_a_core",
    "stamped",
]
