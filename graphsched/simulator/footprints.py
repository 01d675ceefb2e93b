"""How much memory of each device a plan in graph mode works on: every value and every copy has its own there.

Not modelled: workspaces, which tasks share; values that no task reads or makes any more when others are made.
"""

from __future__ import annotations

from collections import Counter

from graphsched.plan import Plan


def memory_of(plan: Plan) -> Counter[str]:
    """Bytes of inputs, states, results and copies by device; views lie in the memory of what they look into.

    Example:
        >>> from graphsched import Device, Platform, TensorSpec, Workload, schedule
        >>> work = Workload()
        >>> x = work.input("x", TensorSpec((4, 4)), device="cuda:0")
        >>> y = work.task(lambda x: x, x, name="y", outputs=[TensorSpec((2, 4))], device="cuda:0", duration_s=1.0)
        >>> memory_of(schedule(work, Platform("here", [Device("cuda:0", "cuda")])))
        Counter({'cuda:0': 96})
    """
    found: Counter[str] = Counter()
    for value in plan.work.values.values():
        if value.root == value.name:
            found[plan.homes[value.name]] += value.nbytes
    for i, copy in plan.copies.items():
        if plan.names[i] not in plan.work.graph:  # those that are, make values
            found[copy.target] += copy.read.value.nbytes
    return found
