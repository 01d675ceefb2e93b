"""Operators of a workload on parts of their tensors, device by device."""
