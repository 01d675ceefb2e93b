"""Which layers are split, and along which of their dimensions.

A layer is a product with a parameter (``mm``, ``addmm``) or a convolution. By ``columns`` each device computes some of
the outputs from all inputs; by ``rows`` it has some of the inputs and computes a summand of all outputs. ``auto``
goes by columns where the input is whole and by rows where it is split already: pairs of layers exchange nothing
between them.

Not modelled: convolutions with fewer groups than there are devices, and transposed ones; parameters that a layer does
not use as they are (weight norm, casts to another type). These layers stay whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphsched.partition.sharding.calls import Call
from graphsched.partition.sharding.layouts import Kind, Split, even
from graphsched.partition.sharding.rules import works_on_parts
from graphsched.partition.sharding.spread import Seen
from graphsched.partition.sharding.views import followed
from graphsched.workload import Operation, Slot, Task, Workload

MODES = ("auto", "columns", "rows")
_WEIGHTS = {"mm": 1, "addmm": 2, "convolution": 1}  # place among the arguments
_PACKED = (1, 2, 3)  # projections in one weight: keys and values, or queries too


@dataclass(eq=False)
class Chooser:
    """Splits weights as they are met.

    Attributes:
        workload: Its name.
        modes: How to split, by path of the layer (or of one around it) or name of the weight; None: all by `default`.
        default: How to split layers where `modes` is None.
        fixed: Parameters that cannot be split.
        chosen: Weights that are split, with the key of `modes` for it.
        refused: Layers that are not, with the reason.
    """

    workload: str
    modes: Mapping[str, str] | None
    default: str
    fixed: Collection[str]
    chosen: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def choose(self, call: Call, task: Task, module: str) -> bool:
        """Give the weight of `call` its place if it is a layer to be split; whether it is."""
        place = _WEIGHTS.get(call.name)
        weight = None if place is None else call.args[place]
        if not isinstance(weight, Seen) or call.spread.held.source.values[weight.base].kind != "state":
            return False
        layer = weight.base if self.modes is None else self._named(module, weight.base)
        if layer is None or isinstance(weight.layout, Split) or weight.layout is Kind.COPIES:
            return False
        if weight.layout is not Kind.FREE:
            self.refused.setdefault(layer, "its weight is needed whole before")
            return False
        mode = self.default if self.modes is None else self.modes[layer]
        layout, why = self._layout(call, task, weight, mode)
        if layout is None or not call.spread.settle(weight, layout):
            self.refused[layer] = why or "its weight is packed in a way that no split fits"
            return False
        self.chosen[weight.base] = layer
        return True

    def _named(self, module: str, weight: str) -> str | None:
        """The key of `modes` that means this layer: the longest."""
        fits = [key for key in self.modes or () if key in (weight, module) or module.startswith(f"{key}.")]
        return max(fits, key=len, default=None)

    def _layout(self, call: Call, task: Task, weight: Seen, mode: str) -> tuple[Split | None, str]:
        """How what is seen of the weight is to be split; or why not."""
        spread = call.spread
        x = call.args[_WEIGHTS[call.name] - 1]
        if weight.base in self.fixed:
            return (
                None,
                "an operator changes its weight that knows no parts (an optimizer with foreach or fused, or Adagrad?)",
            )
        if call.name == "convolution" and (call.args[6] or call.args[8] > 1):
            return _groups(call, weight, x)
        outputs, inputs = (0, 1) if call.name == "convolution" else (1, 0)
        split = x.layout if isinstance(x.layout, Split) and x.layout.dim == 1 else None
        if mode == "rows" or (mode == "auto" and split is not None):
            length = weight.shape[inputs]
            runs = split or Split(1, even(length, spread.count))
            return _enough(runs.at(inputs), length, spread.count, "input")
        length = weight.shape[outputs]
        layout = next(
            _whole_units(spread.held.source, task, length, spread.count), Split(1, even(length, spread.count))
        )
        return _enough(layout.at(outputs), length, spread.count, "output")


def _enough(layout: Split, length: int, count: int, what: str) -> tuple[Split | None, str]:
    few = f"it has {length} {what}s for {count} devices"
    return (layout, "") if min(layout.sizes) > 0 else (None, few)


def _groups(call: Call, weight: Seen, x: Seen) -> tuple[Split | None, str]:
    """Whole groups of a convolution on each device, those whose input lies there if it does."""
    groups, count = call.args[8], call.spread.count
    if call.args[6]:
        return None, "it is a transposed convolution"
    if groups < count:
        return None, f"it has {groups} groups for {count} devices"
    each, inputs = weight.shape[0] // groups, x.shape[1] // groups
    own = even(groups, count)
    if isinstance(x.layout, Split) and x.layout.dim == 1 and x.layout.outer == 1:
        sizes = x.layout.sizes
        own = tuple(n // inputs for n in sizes) if all(n % inputs == 0 for n in sizes) else own
    return Split(0, tuple(n * each for n in own)), ""


def _whole_units(source: Workload, task: Task, length: int, count: int) -> Iterator[Split]:
    """Splits of the outputs of a layer that what reads them keeps (heads of attention stay whole), finest first."""
    for outer in _PACKED:
        for unit in range(1, length // outer // count + 1):
            if length % (outer * unit) == 0:
                layout = Split(1, even(length // outer, count, unit), outer)
                if _kept(source, task, layout):
                    yield layout


def _kept(source: Workload, task: Task, layout: Split) -> bool:
    """Whether every reader sees the outputs of `task` split, also through elementwise operators between."""
    todo = [(task.outputs[0], layout)]
    while todo:
        value, found = todo.pop()
        assert value.spec is not None
        for name in source.graph.successors(value.producer):
            reader = source[name]
            if source.graph.nodes[name]["phase"] != "forward" or reader.operation is None:
                continue
            slots = [Slot(i) for i, read in enumerate(reader.reads) if read.value is value]
            for template in [t for t in reader.operation.args if slots and _base(t) == slots[0]]:
                shape, seen = followed(template, value.spec.shape, found)
                if seen is None:
                    return False
                made = reader.outputs[0] if reader.outputs else None
                if works_on_parts(reader.operation.function) and made and made.spec and made.spec.shape == shape:
                    todo.append((made, seen))
    return True


def _base(template: Any) -> Any:
    """The slot that views look at."""
    return _base(template.args[0]) if isinstance(template, Operation) else template
