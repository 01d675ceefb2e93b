"""Imported once by the server that the processes of these tests are forked from, so that they need not import torch."""

from __future__ import annotations

import torch.distributed

import graphsched.executors.distributed.measuring
from tests.executors.distributed import jobs

__all__ = ["graphsched", "torch"]

jobs.plan_of(0, 2)  # which imports what infers shapes
