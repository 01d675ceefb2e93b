"""Collectives as workload builders: sums, copies and exchanges of values on k devices, made of tasks and copies.

::

    work = gs.Workload("sum")
    values = [work.input(f"x{k}", tensor, device=f"worker:{k}") for k, tensor in enumerate(tensors)]
    sums = gs.collectives.all_reduce(work, values, algorithm="ring")        # one Value a device, each the whole sum
    sums = gs.collectives.all_reduce(work, values, algorithm="ring", blocks=8)

What comes back are values like any other: tasks may read them, and the plan runs, or is predicted, as a whole.

=================== ======================================= =========================================================
what                each device gets                        algorithms
=================== ======================================= =========================================================
`all_reduce`        the sum                                 gather, cpu, server, sharded, ring, rings, tree, halving,
                                                            hierarchical, library
`reduce`            one: the sum                            direct, ring, tree
`broadcast`         one device's value                      direct, ring, tree
`reduce_scatter`    its rows of the sum                     direct, ring
`all_gather`        all values, one after the other         direct, ring
`all_to_all`        its rows of all values                  direct, ring
=================== ======================================= =========================================================

``library`` is NCCL's, or Gloo's between ranks on CPUs, as one task: `Workload.collective`. All take ``algorithm="auto",
platform=platform`` too: the way that is predicted to be fastest there.

Copies within one hop are made by the plan, where a task reads a value of another device; what is passed on further is a
copy of its own. Only blocks travel that are needed.

Not modelled: devices that join or leave.
"""

from graphsched.collectives.choosing import Choice
from graphsched.collectives.moves import all_gather, all_to_all, broadcast
from graphsched.collectives.reductions import reduce, reduce_scatter
from graphsched.collectives.sums import all_reduce, choose

__all__ = [
    "Choice",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "broadcast",
    "choose",
    "reduce",
    "reduce_scatter",
]
