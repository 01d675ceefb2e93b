"""Workloads from ordinary PyTorch: `trace` records what a function or module computes."""

from graphsched.tracing.trace import trace

__all__ = ["trace"]
