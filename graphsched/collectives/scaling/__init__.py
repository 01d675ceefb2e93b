"""Sums of gradients over hundreds of hosts: what each way takes, without an event for each of millions of transfers."""

from graphsched.collectives.scaling.full import PAPER, simulated_s
from graphsched.collectives.scaling.sums import WAYS, SumTime, check_gpus, sum_time, sum_times

__all__ = ["PAPER", "WAYS", "SumTime", "check_gpus", "simulated_s", "sum_time", "sum_times"]
