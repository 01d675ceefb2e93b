"""What tests of workloads begin with."""

from __future__ import annotations

import pytest

from graphsched.workload import Workload


@pytest.fixture
def work() -> Workload:
    return Workload()
