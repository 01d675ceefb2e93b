"""`tensor`: the layers of a traced network over several devices, each with some of their inputs or outputs.

The operators of the workload are gone through one by one, those of the backward pass and of the optimiser too; each
runs whole on the first device or on its parts on all of them (`partition.rules`), and where an operator needs more
than a device has, parts are exchanged (`partition.spread`).

Not modelled: exchanges by collectives; whole layers on other devices than the first; splits of a split workload.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from graphsched.errors import WorkloadError
from graphsched.partition.requests import check_request
from graphsched.partition.sharding.choosing import MODES, Chooser
from graphsched.partition.sharding.emitting import Sharder
from graphsched.partition.sharding.holdings import Holdings
from graphsched.partition.sharding.layouts import Kind, Layout, Split, joined
from graphsched.partition.sharding.rules import works_on_parts
from graphsched.workload import Slot, Workload

_PARTS = "tensor"  # attribute of the graph


def tensor(
    work: Workload,
    devices: Sequence[str],
    *,
    layers: Iterable[str] | Mapping[str, str] | None = None,
    split: str = "auto",
) -> Workload:
    """The workload of the same network, dense layers and convolutions split over `devices`.

    Dense layers are split by rows and columns of their weights, convolutions by channels, heads of attention and groups
    of convolutions left whole. What stands between (elementwise operators, pools, batch norm, attention) runs on the
    parts as they are. All else is on the first device. A parameter's moments are split as it is; each part of
    ``fc.weight`` is a state (``fc.0.weight``, ``fc.1.weight``, …), see `gathered`. Sizes that the number of
    devices does not divide make parts that differ by one (head, group).

    Results are those of `work` but for the order of sums: a layer split by rows adds its summands in the order of the
    devices. Random numbers are drawn whole, so that dropout drops the same.

    Args:
        work: Of `trace`, with a task for each operator.
        devices: Names, two or more. Inputs stay on the CPU if they are there, else they go to the first.
        layers: Paths of modules, or names of weights, to be split; default: all that have enough inputs or outputs. A
            mapping also says how.
        split: ``columns``: a device computes some of the outputs, from all inputs. ``rows``: it has some of the inputs,
            and summands of all outputs are added on the first device. ``auto``: rows where the inputs are split
            already, else columns, so that of two layers in a row nothing is exchanged between.

    Raises:
        WorkloadError: `work` was not traced, or by modules; there is no such layer, it has fewer inputs or outputs
            than there are devices, or no layer at all can be split.

    Source: AlexNet's two halves: Krizhevsky, Sutskever and Hinton, NeurIPS 2012. Columns, then rows: Shoeybi et al.,
        Megatron-LM, 2019.

    Example:
        >>> import torch
        >>> from graphsched.tracing import trace
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2))
        >>> work = tensor(trace(net, torch.rand(8, 4)), ["cuda:0", "cuda:1"])
        >>> for task in work.tasks:
        ...     print(task.name, *task.devices)
        0.0/addmm cuda:0
        0.1/addmm cuda:1
        1.0/relu cuda:0
        1.1/relu cuda:1
        output.0 cuda:0
        output.1 cuda:1
        output cuda:0
        >>> [str(work.values[f"0.{i}.weight"].spec) for i in range(2)]
        ['float32[3,4]', 'float32[3,4]']
    """
    _check(work, devices, split)
    modes = _modes(layers, split)
    chooser = Chooser(work.name, modes, split, _unsplittable(work))
    target = Workload(work.name)
    target.returns_unread = work.returns_unread
    held = Holdings(work, target, devices)
    for value in work.values.values():
        if value.kind == "input":
            home = value.device if value.device == "cpu" else devices[0]
            held.put(value.name, Kind.WHOLE, [target.input(value.name, work.tensors[value.name], device=home)])
    Sharder(held, chooser).add(work.tasks)
    _check_chosen(chooser)
    target.graph.graph[_PARTS] = held.parts()
    return target


def gathered(states: Mapping[str, Any], work: Workload) -> dict[str, Any]:
    """The states of a split workload as those of the unsplit one, by its names.

    Args:
        states: Of ``program.state()`` of `work`.
        work: Made by `tensor`.

    Raises:
        WorkloadError: `work` was not made by `tensor`, or `states` are those of another workload.
    """
    parts: Mapping[str, tuple[Layout, Sequence[str]]] | None = work.graph.graph.get(_PARTS)
    if parts is None:
        raise WorkloadError(f"workload {work.name!r} was not split by tensor(): its states are whole")
    missing = [name for _, names in parts.values() for name in names if name not in states]
    if missing:
        raise WorkloadError(f"the states have no {missing[0]!r}: give those of a program of this workload")
    return {
        name: joined([states[n] for n in names], layout) if isinstance(layout, Split) else states[names[0]]
        for name, (layout, names) in parts.items()
    }


# -- what is asked for ---------------------------------------------------------------------------------


def _check(work: Workload, devices: Sequence[str], split: str) -> None:
    check_request(work, devices, least=2)
    if work.source.grain != "operator":
        raise WorkloadError(f"workload {work.name!r} has a task for each module: trace it with grain='operator'")
    if split not in MODES:
        raise WorkloadError(f"split is {split!r}: one of {', '.join(MODES)} is needed")


def _modes(layers: Iterable[str] | Mapping[str, str] | None, split: str) -> dict[str, str] | None:
    """How to split, by layer; None: all alike."""
    if layers is None:
        return None
    names = [layers] if isinstance(layers, str) else layers
    modes = dict(names) if isinstance(names, Mapping) else dict.fromkeys(names, split)
    for layer, mode in modes.items():
        if mode not in MODES:
            raise WorkloadError(f"layer {layer!r} is to be split by {mode!r}: one of {', '.join(MODES)} is needed")
    return modes


def _unsplittable(work: Workload) -> set[str]:
    """Parameters that an operator changes, or their moments, that does not work on parts."""
    found = set()
    for task in work.tasks:
        assert task.operation is not None
        direct = {task.reads[thing.index].value.name for thing in task.operation.args if isinstance(thing, Slot)}
        for value in task.updates:
            if value.name not in direct or not works_on_parts(task.operation.function):
                found.add(value.root.partition("/")[0])
    return found


def _check_chosen(chooser: Chooser) -> None:
    for layer in chooser.modes or ():
        if layer not in chooser.chosen.values():
            why = chooser.refused.get(layer, "there is no dense layer or convolution of this name")
            raise WorkloadError(f"layer {layer!r} cannot be split: {why}")
    if not chooser.chosen:
        reasons = [f"{layer!r}: {why}" for layer, why in chooser.refused.items()]
        why = "; ".join(reasons) or "it has no dense layer and no convolution with a parameter of its own"
        raise WorkloadError(f"there is nothing to split in workload {chooser.workload!r}: {why}")
