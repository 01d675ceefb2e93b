"""One collective of a library that all devices take part in at once: NCCL on GPUs, Gloo between ranks on CPUs.

In one process on groups of CPU threads a thread adds all values in their order. How the bytes travel is the library's
affair, and the order of additions too: NCCL and Gloo give every device the same bits, but not those of other
algorithms, nor always those of another number of devices.

Not modelled: what it takes from kernels and copies beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphsched.collectives.members import Members
from graphsched.collectives.operations import called, flat, shaped, specification
from graphsched.costs import Costs
from graphsched.errors import WorkloadError
from graphsched.platform import Platform
from graphsched.workload import CARRIED, TensorSpec, Value, collective_signature


def library(members: Members, values: Sequence[Value]) -> list[Value]:
    """An all-reduce; values with another order of memory than the usual are reshaped before and after."""
    spec = specification(values[0])
    check_carried(values[0])
    plain = spec.stride is None
    own = list(values) if plain else [_flat(members, k, value) for k, value in enumerate(values)]
    sums = members.work.collective("all_reduce", own, devices=members.devices, name=f"{members.name}/sum")
    if plain:
        return list(sums)
    return [members.run(f"shape/{k}", d, shaped(sums[k], spec)) for k, d in enumerate(members.devices)]


def _flat(members: Members, k: int, value: Value) -> Value:
    made: Value = members.run(f"flat/{k}", members.devices[k], called("clone", flat(value)))
    return made


def check_carried(value: Value) -> None:
    """Make sure that libraries know the element type of `value`.

    Raises:
        WorkloadError: They do not.
    """
    spec = specification(value)
    if spec.dtype not in CARRIED:
        raise WorkloadError(
            f"value {value.name!r} is {spec}, which algorithm 'library' does not send: take another algorithm, or "
            f"convert it in a task to one of {', '.join(CARRIED)}"
        )


def is_measured(values: Sequence[Value], devices: Sequence[str], platform: Platform, costs: Costs | None) -> bool:
    """Whether it is known what the library takes for these values, measured alone on such devices."""
    spec = specification(values[0])
    if spec.stride is not None:
        spec = TensorSpec((math.prod(spec.shape),), spec.dtype)
    known = platform.costs if costs is None else costs
    return bool(known.get(collective_signature("all_reduce", spec, len(devices)), platform.device(devices[0]).model))
