"""Calibration: transfers, dispatch and operations measured on this host.

`measure_platform` times links, shared capacities and dispatch; `local_platform` keeps the result.
`present_call_s` tells how fast the dispatching thread is just now. `profile` times each distinct
operation of a workload alone; `kept_costs` reads what was kept.
"""

from graphsched.calibration.checking import Drift, check_platform
from graphsched.calibration.cost_cache import kept_costs
from graphsched.calibration.kept import local_platform
from graphsched.calibration.measuring import measure_platform
from graphsched.calibration.nominal import NominalRow, nominal_rows
from graphsched.calibration.pace import PaceMeter, present_call_s
from graphsched.calibration.profiling import profile

__all__ = [
    "Drift",
    "NominalRow",
    "PaceMeter",
    "check_platform",
    "kept_costs",
    "local_platform",
    "measure_platform",
    "nominal_rows",
    "present_call_s",
    "profile",
]
