"""Executors: plans run for real, on CPU threads and CUDA streams, by one process or several."""

from graphsched.executors.distributed import RankProgram
from graphsched.executors.flights import Submitted
from graphsched.executors.measure import execute, time_callable
from graphsched.executors.peaks import MeasuredPeak, measured_peaks
from graphsched.executors.program import Program
from graphsched.executors.saved import load_plan, save_plan

__all__ = [
    "MeasuredPeak",
    "Program",
    "RankProgram",
    "Submitted",
    "execute",
    "load_plan",
    "measured_peaks",
    "save_plan",
    "time_callable",
]
