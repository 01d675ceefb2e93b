"""Schedulers: from a workload, a platform and costs to a placement, one module each; what they share lies in folders.

    asking        options, limits of time, answers held against the workload
    placing       where and when tasks can run, as list schedulers see it
    searching     better placements by trying
    proving       scheduling as a constraint model
    bounds        times that no plan can beat
    benchmarks    how fast and how good they are

A scheduler is a pure function ``(work, platform, costs, *, options...) -> Placement``, found by name; one
with a parameter ``mode`` after the costs is told how the plan is meant to run.
Packages add theirs under the entry point group ``graphsched.schedulers``.
"""

from graphsched.schedulers import auto as _auto  # noqa: F401  (schedulers register themselves)
from graphsched.schedulers import cpop as _cpop  # noqa: F401
from graphsched.schedulers import critical_path as _critical_path  # noqa: F401
from graphsched.schedulers import dls as _dls  # noqa: F401
from graphsched.schedulers import etf as _etf  # noqa: F401
from graphsched.schedulers import heft as _heft  # noqa: F401
from graphsched.schedulers import lookahead as _lookahead  # noqa: F401
from graphsched.schedulers import max_min as _max_min  # noqa: F401
from graphsched.schedulers import min_min as _min_min  # noqa: F401
from graphsched.schedulers import optimal as _optimal  # noqa: F401
from graphsched.schedulers import peft as _peft  # noqa: F401
from graphsched.schedulers import round_robin as _round_robin  # noqa: F401
from graphsched.schedulers import search as _search  # noqa: F401
from graphsched.schedulers import sequential as _sequential  # noqa: F401
from graphsched.schedulers import streams as _streams  # noqa: F401
from graphsched.schedulers import wavefront as _wavefront  # noqa: F401
from graphsched.schedulers import work_stealing as _work_stealing  # noqa: F401
from graphsched.schedulers.bounds import critical_path_bound, lower_bound, work_bound
from graphsched.schedulers.registry import one_lane, register, schedulers
from graphsched.schedulers.scheduling import schedule

__all__ = [
    "critical_path_bound",
    "lower_bound",
    "one_lane",
    "register",
    "schedule",
    "schedulers",
    "work_bound",
]
