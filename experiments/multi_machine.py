"""Row 14: gradients summed on each of several machines, then on central servers or around a ring of machines."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import graphsched as gs
from experiments._machines import Machines, machines_of, plain_step, ring_step, served_step
from experiments._shared import check_known, check_sizes

WAYS = ("servers", "workers", "ring")
SCHEDULER = "one_stream"


@gs.experiment(source="d2l.ai 12.7.3", needs="several hosts to run on: see docs/multi-machine.md")
def multi_machine(
    platform: gs.Platform,
    machines: int = 0,
    mbytes: tuple[float, ...] = (4.0,),
    ways: tuple[str, ...] = WAYS,
    servers: tuple[int, ...] = (1, 2, 3, 4),
    rows: int = 8,
) -> Iterator[gs.Case]:
    """Train on several machines: sums on each machine, on central servers or around a ring, and back.

    A step: each machine's part of the minibatch goes to its devices, each computes a gradient, a machine's gradients
    are added up on its first device, and the sums of the machines

    - ``servers``: on 1, 2, … central servers, each with an equal part of the elements, which update the weight and send
      it back to the machines; each server is a machine of its own;
    - ``workers``: on machines that work too: one of them, and all;
    - ``ring``: around a ring of the machines (hierarchical all-reduce), each device then updates its own weight.

    All machines send to one server's port at once and hear from it, so its time grows with them: k machines and s
    servers take 2 k/s times what the weight takes through one port, until s is k; with all machines as servers, or a
    ring, 2 (k-1)/k.

    The first `machines` hosts of the platform work (0: half of them), others serve. On a platform of one host each
    accelerator stands for a machine; a platform of several comes from `gs.topologies`, or is measured. A real run in
    one process adds how far the weight is from plain PyTorch's after one step.

    Parameters: machines that work; megabytes (10⁶) of the weight, of a linear layer with 1,000 inputs; ways; numbers of
    servers, as far as there are machines; rows of the minibatch for each device.

    Source: d2l.ai 12.7.3, which prints no figures.
    """
    check_known("way", ways, WAYS)
    check_sizes(mbytes=mbytes, servers=servers, rows=rows)
    there = machines_of(platform, machines)
    for size in mbytes:
        for label, work in workloads(there, ways, servers, size, rows):
            yield gs.Case(
                f"{label}, {there}, {size:g} MB",
                work,
                scheduler=SCHEDULER,
                metrics=functools.partial(measured, work, platform, there, size, rows),
                group=f"step of {size:g} MB, {there}",
            )


def workloads(
    machines: Machines, ways: Sequence[str], servers: Sequence[int], mbytes: float, rows: int
) -> Iterator[tuple[str, gs.Workload]]:
    """Each way with its label."""
    for count in servers if "servers" in ways else ():
        if count <= len(machines.others):
            label = "1 server of its own" if count == 1 else f"{count} servers of their own"
            yield label, served_step(machines, machines.others[:count], mbytes, rows)
    for count in dict.fromkeys((1, len(machines.firsts))) if "workers" in ways else ():
        label = "one machine serves too" if count == 1 else "all machines serve too"
        yield label, served_step(machines, machines.firsts[:count], mbytes, rows)
    if "ring" in ways:
        yield "ring of machines", ring_step(machines, mbytes, rows)


def measured(
    work: gs.Workload, platform: gs.Platform, machines: Machines, mbytes: float, rows: int
) -> dict[str, float]:
    """The largest difference of a weight after one step from plain PyTorch's."""
    expected = plain_step(machines, mbytes, rows)
    with gs.Program(gs.schedule(work, platform, scheduler=SCHEDULER)) as program:
        program.run()
        found = [tensor for name, tensor in program.state().items() if name.startswith("weight/")]
    return {"max_abs_difference": max(float((w.cpu().double() - expected).abs().max()) for w in found)}
