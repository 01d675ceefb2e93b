"""Schedulers: from a workload, a platform and costs to a placement, one module each.

A scheduler is a pure function ``(work, platform, costs, *, options...) -> Placement``, found by name; one
with a parameter ``mode`` after the costs is told how the plan is meant to run.
Packages add theirs under the entry point group ``graphsched.schedulers``.
"""

from graphsched.schedulers import heft as _heft  # noqa: F401  (schedulers register themselves)
from graphsched.schedulers import round_robin as _round_robin  # noqa: F401
from graphsched.schedulers import sequential as _sequential  # noqa: F401
from graphsched.schedulers import streams as _streams  # noqa: F401
from graphsched.schedulers import wavefront as _wavefront  # noqa: F401
from graphsched.schedulers.bounds import critical_path_bound, lower_bound, work_bound
from graphsched.schedulers.registry import register, schedulers
from graphsched.schedulers.scheduling import MODES, schedule

__all__ = [
    "MODES",
    "critical_path_bound",
    "lower_bound",
    "register",
    "schedule",
    "schedulers",
    "work_bound",
]
