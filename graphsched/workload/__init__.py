"""Workloads: dependency graphs of tasks over tensors."""

from graphsched.workload.attention import attention_operator, fused_attention_takes
from graphsched.workload.builder import Workload
from graphsched.workload.collective import CARRIED, Collective, collective_signature
from graphsched.workload.half_norms import keeping_single
from graphsched.workload.inference import (
    LEFT_BEHIND,
    fake_mode,
    fill,
    for_once,
    like,
    returned_tensors,
    written_tensors,
)
from graphsched.workload.names import NAMESPACE
from graphsched.workload.ordering import ancestors_first
from graphsched.workload.own_operators import own_operator
from graphsched.workload.signatures import operation_name, signature
from graphsched.workload.specs import ITEM_BYTES, TensorSpec, element_bytes
from graphsched.workload.tasks import (
    Memory,
    Operation,
    Read,
    Slot,
    Task,
    Value,
    check_data,
    check_dense,
    check_name,
    has_data,
)

__all__ = [
    "CARRIED",
    "ITEM_BYTES",
    "LEFT_BEHIND",
    "NAMESPACE",
    "Collective",
    "Memory",
    "Operation",
    "Read",
    "Slot",
    "Task",
    "TensorSpec",
    "Value",
    "Workload",
    "ancestors_first",
    "attention_operator",
    "check_data",
    "check_dense",
    "check_name",
    "collective_signature",
    "element_bytes",
    "fake_mode",
    "fill",
    "for_once",
    "fused_attention_takes",
    "has_data",
    "keeping_single",
    "like",
    "operation_name",
    "own_operator",
    "returned_tensors",
    "signature",
    "written_tensors",
]
