"""A training step over several machines: data to devices, sums on each machine, between machines, and back."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

import graphsched as gs
from experiments._shared import SEED
from graphsched.errors import ExperimentError, PlatformError

INPUTS = 1000  # rows of the weight
RATE = 1e-3
BYTES_PER_ELEMENT = 4


@dataclass(frozen=True)
class Machines:
    """Who works and who may serve.

    Attributes:
        workers: Devices of each machine that works; its first one adds up for it.
        others: The first device of each further machine: servers of their own.
        data_on_host: Whether a device's data is in its host's memory and is copied; else it is on the device.
    """

    workers: tuple[tuple[str, ...], ...]
    others: tuple[str, ...]
    data_on_host: bool = True

    def __str__(self) -> str:
        """How many work.

        Example:
            >>> str(Machines((("worker:0", "worker:1"), ("worker:2", "worker:3")), ("worker:4",)))
            '2 machines of 2 workers'
        """
        word = "GPU" if self.workers[0][0].startswith("cuda") else "worker"
        each = len(self.workers[0])
        machines = f"{len(self.workers)} machine{'s' if len(self.workers) > 1 else ''}"
        return f"{machines} of {each} {word}{'s' if each > 1 else ''}"

    @property
    def devices(self) -> tuple[str, ...]:
        """All that compute gradients."""
        return tuple(device for machine in self.workers for device in machine)

    @property
    def firsts(self) -> tuple[str, ...]:
        """The device of each machine that adds up."""
        return tuple(machine[0] for machine in self.workers)


def machines_of(platform: gs.Platform, count: int = 0) -> Machines:
    """The first `count` hosts of `platform` work (0: half of them, rounded up), the others may serve.

    Where there is but one host, each of its accelerators stands for a machine. Data is on devices where the platform
    has no way to one from a host's memory, as to those of further hosts of `gs.topologies`.

    Raises:
        ExperimentError: There are fewer, or those that work have different numbers of devices.
    """
    hosts: dict[str, list[str]] = {}
    for device in platform.accelerators():
        hosts.setdefault(platform.device(device).host, []).append(device)
    groups = [tuple(devices) for devices in hosts.values()]
    if len(groups) == 1:
        groups = [(device,) for device in groups[0]]
    if count < 0:
        raise ExperimentError(f"parameter 'machines' is {count}: 0 or more are needed (0: half of them)")
    work = count or -(-len(groups) // 2)
    if work > len(groups):
        raise ExperimentError(
            f"parameter 'machines' is {count}, platform {platform.name!r} has {len(groups)}: name a platform of more "
            "hosts with --platform, or give fewer"
        )
    if len({len(group) for group in groups[:work]}) > 1:
        raise ExperimentError(
            f"the first {work} hosts of platform {platform.name!r} have different numbers of devices: give 'machines' "
            "so that those that work are alike"
        )
    found = Machines(tuple(groups[:work]), tuple(group[0] for group in groups[work:]))
    return replace(found, data_on_host=all(_reached_from_host(platform, device) for device in found.devices))


def _reached_from_host(platform: gs.Platform, device: str) -> bool:
    try:
        platform.link("cpu", device)
    except PlatformError:
        return False
    return True


# -- what is computed ----------------------------------------------------------------------------------


DESCEND, TAKE = torch.ops.aten.sub_.Tensor, torch.ops.aten.copy_.default
"""A step of gradient descent, in place, of any part of the elements; the server's weight in a worker's place."""


@functools.cache
def numbers(rows: int, columns: int, seed: int) -> Tensor:
    """Random numbers, the same on every rank."""
    return torch.rand(rows, columns, generator=torch.Generator().manual_seed(SEED + seed)) - 0.5


def outputs_of(mbytes: float) -> int:
    """Columns of a weight of so many megabytes (10⁶)."""
    return max(1, round(mbytes * 1e6 / BYTES_PER_ELEMENT / INPUTS))


def batch_of(rows: int, columns: int, number: int) -> tuple[Tensor, Tensor]:
    """The part of the minibatch of worker `number`."""
    return numbers(rows, INPUTS, 2 * number + 1), numbers(rows, columns, 2 * number + 2)


def plain_step(machines: Machines, mbytes: float, rows: int) -> Tensor:
    """The weight after one step in plain PyTorch, in double precision."""
    columns = outputs_of(mbytes)
    weight = numbers(INPUTS, columns, 0).double()
    batches = [batch_of(rows, columns, number) for number in range(len(machines.devices))]
    return weight - RATE * sum(x.double().t().mm(x.double().mm(weight) - y) for x, y in batches)


# -- ways to put it on machines ------------------------------------------------------------------------


def served_step(machines: Machines, servers: Sequence[str], mbytes: float, rows: int) -> gs.Workload:
    """A step with the weight on `servers`, an equal part of its elements on each.

    Gradients are added up on each machine, its sum goes to the servers, which update their part and send it back.
    """
    work = gs.Workload("multi_machine")
    weights = replicas(work, machines, mbytes)
    sums = machine_sums(work, machines, gradients(work, machines, weights, rows))
    options = {"shard": "elements", "cut_from_bytes": 0}
    store = gs.kvstore.Builder(work, servers=servers, workers=len(sums), update=DESCEND, **options)
    store.init("weight", numbers(INPUTS, outputs_of(mbytes), 0))
    for worker, total in enumerate(sums):
        store.push("weight", total, worker=worker)
    for machine, new in zip(machines.workers, store.pull_all(machines.firsts)["weight"], strict=True):
        for device in machine:
            work.task(TAKE, weights[device], new, name=f"take/{device}", device=device, updates=weights[device])
    return work


def ring_step(machines: Machines, mbytes: float, rows: int) -> gs.Workload:
    """A step without servers: sums on each machine, a ring of the machines, and every device updates its weight."""
    work = gs.Workload("multi_machine")
    weights = replicas(work, machines, mbytes)
    given = gradients(work, machines, weights, rows)
    way = {"algorithm": "hierarchical", "groups": machines.workers, "between": "ring"}
    for device, total in zip(machines.devices, gs.collectives.all_reduce(work, given, **way), strict=True):
        work.task(DESCEND, weights[device], total, name=f"descend/{device}", device=device, updates=weights[device])
    return work


def replicas(work: gs.Workload, machines: Machines, mbytes: float) -> dict[str, gs.Value]:
    """The weight on each device that computes, as a state."""
    first = numbers(INPUTS, outputs_of(mbytes), 0)
    return {device: work.state(f"weight/{device}", first, device=device) for device in machines.devices}


def gradients(work: gs.Workload, machines: Machines, weights: dict[str, gs.Value], rows: int) -> list[gs.Value]:
    """The gradient of each device, times the rate, of its part of the minibatch.

    It is that of half the squared error of ``x @ weight`` against y, summed over the rows.
    """
    found = []
    for number, device in enumerate(machines.devices):
        spec = weights[device].spec
        assert spec is not None
        given = batch_of(rows, spec.shape[1], number)
        home = "cpu" if machines.data_on_host else device
        x, y = (work.input(f"{name}/{device}", tensor, device=home) for name, tensor in zip("xy", given, strict=True))
        error = work.task(
            torch.addmm, y, x, weights[device], beta=-RATE, alpha=RATE, name=f"error/{device}", device=device
        )
        turned = work.task(torch.t, x, name=f"turned/{device}", device=device)
        found.append(work.task(torch.mm, turned, error, name=f"gradient/{device}", device=device))
    return found


def machine_sums(work: gs.Workload, machines: Machines, given: Sequence[gs.Value]) -> list[gs.Value]:
    """The sum of each machine's gradients on its first device."""
    each = len(machines.workers[0])
    groups = [given[k : k + each] for k in range(0, len(given), each)]
    return [group[0] if each == 1 else gs.collectives.reduce(work, group) for group in groups]
