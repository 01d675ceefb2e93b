"""Times that no plan can beat: of paths, of work, of work within an interval, of links."""

from graphsched.schedulers.bounds.interval import interval_bound
from graphsched.schedulers.bounds.links import capacity_rates, link_bound
from graphsched.schedulers.bounds.lower import bound_of, bounds_by_name, critical_path_bound, lower_bound, work_bound

__all__ = [
    "bound_of",
    "bounds_by_name",
    "capacity_rates",
    "critical_path_bound",
    "interval_bound",
    "link_bound",
    "lower_bound",
    "work_bound",
]
