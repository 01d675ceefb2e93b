"""Executors: plans run for real, on CPU threads and CUDA streams."""

from graphsched.executors.measure import execute, time_callable
from graphsched.executors.program import MODES, Program

__all__ = ["MODES", "Program", "execute", "time_callable"]
