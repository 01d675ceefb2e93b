"""What a task costs on a device: measured alone, given by the user, or estimated."""

from graphsched.costs.beside import Beside
from graphsched.costs.cache_states import CacheStates
from graphsched.costs.checks import MOST, check_seconds
from graphsched.costs.kernels import Kernel, Multiprocessors
from graphsched.costs.operations import (
    BRIEF_REST_S,
    COMPANY_KINDS,
    LONG_REST_S,
    NO_REST_S,
    REST_S,
    CostSource,
    TaskCost,
    company_share,
)
from graphsched.costs.table import Costs

__all__ = [
    "BRIEF_REST_S",
    "COMPANY_KINDS",
    "LONG_REST_S",
    "MOST",
    "NO_REST_S",
    "REST_S",
    "Beside",
    "CacheStates",
    "CostSource",
    "Costs",
    "Kernel",
    "Multiprocessors",
    "TaskCost",
    "check_seconds",
    "company_share",
]
