"""Executors: plans run for real, on CPU threads and CUDA streams."""

from graphsched.executors.measure import execute, time_callable
from graphsched.executors.program import MODES, Program
from graphsched.executors.saved import load_plan, save_plan

__all__ = ["MODES", "Program", "execute", "load_plan", "save_plan", "time_callable"]
