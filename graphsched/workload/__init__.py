"""Workloads: dependency graphs of tasks over tensors."""

from graphsched.workload.builder import Workload, ancestors_first
from graphsched.workload.inference import fill, returned_tensors
from graphsched.workload.tasks import (
    ITEM_BYTES,
    Memory,
    Operation,
    Read,
    Slot,
    Task,
    TensorSpec,
    Value,
    check_name,
)

__all__ = [
    "ITEM_BYTES",
    "Memory",
    "Operation",
    "Read",
    "Slot",
    "Task",
    "TensorSpec",
    "Value",
    "Workload",
    "ancestors_first",
    "check_name",
    "fill",
    "returned_tensors",
]
