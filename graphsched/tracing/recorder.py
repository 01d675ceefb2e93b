"""Records the operators that a function calls on fake tensors, backward and optimiser step included.

In-place operators stay in place where they change a state (a parameter, a buffer, an optimiser's moment); on any
other tensor they become the operator that returns the changed tensor. Views are kept with what reads them: see
`tracing.aliases`.

Not modelled: sparse tensors; tensors of other devices than the CPU (a trace holds for
any device).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphsched.errors import TraceError
from graphsched.tracing.aliases import BASE, Aliases, Memory, Origin, Sight, Step
from graphsched.tracing.batch_norms import BatchNorms
from graphsched.tracing.changes import change, turn
from graphsched.tracing.outs import written_out
from graphsched.workload import keeping_single, like, written_tensors

_SAME = ("aten::detach", "aten::alias", "aten::lift")
_FRESH = "aten::lift_fresh"  # of a tensor that was just made of numbers, ``torch.tensor(0.0)``
_VIEWS = (*_SAME, _FRESH, "aten::_unsafe_view")  # beside those whose schema says so
_SILENT = ("prim::", "profiler::")


@dataclass(eq=False)
class Call:
    """One operator call.

    Attributes:
        function: An operator of torch.
        args, kwargs: Arguments; tensors are `Origin`s, or views of them as operations.
        outputs: What it makes, in order, with the fake tensors: (origin, tensor).
        updates: States that it changes in place.
        module: Path of the module that called it, or whose gradient it computes; empty: none.
        phase: ``forward``, ``backward`` or ``update`` (optimiser step, gradients applied).
        forward: The call whose gradient it computes.
        is_random: It draws random numbers.
    """

    function: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: list[tuple[Origin, Any]] = field(default_factory=list)
    updates: list[Origin] = field(default_factory=list)
    module: str = ""
    phase: str = "forward"
    forward: Call | None = None
    is_random: bool = False


class Recorder:
    """What has been called so far.

    Attributes:
        given: States and constants with their real tensors and those tensors' fakes, by name.
        calls: In order.
        path, phase: Of the calls that come now; set from outside.
    """

    def __init__(self, fake_mode: Any) -> None:
        self.calls: list[Call] = []
        self.aliases = Aliases()
        self.given: dict[str, tuple[Origin, Any]] = {}
        self.path: list[str] = []
        self.phase = "forward"
        self._fake_mode = fake_mode
        self._fakes: dict[int, Any] = {}  # of real tensors met on the way, which `given` keeps alive
        self._forward: dict[int, Call] = {}  # by number of the autograd node that it made
        self._batch_norms = BatchNorms()
        self._last: Call | None = None  # whose gradient was computed

    def give(self, name: str, real: Any, fake: Any, *, is_state: bool) -> None:
        """`fake` stands for `real`, an input, a state or a constant."""
        origin = Origin(name, is_state)
        self.given[name] = origin, real
        self.aliases.own(fake, origin)

    def has_met(self, tensor: Any) -> bool:
        """Whether an operator has read `tensor`, a real one that was not given."""
        return id(tensor) in self._fakes

    def argument(self, tensor: Any) -> Any:
        """What stands for `tensor`, as it is now, among a call's arguments."""
        return self.sight(tensor).argument()

    def mode(self) -> Any:
        """A dispatch mode under which calls are recorded."""
        from torch.utils._python_dispatch import TorchDispatchMode

        record = self._call

        class Recording(TorchDispatchMode):  # type: ignore[no-untyped-call]
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return record(func, args, kwargs or {})

        return Recording()  # type: ignore[no-untyped-call]

    # -- one call ----------------------------------------------------------------------------------

    def _call(self, function: Any, args: Any, kwargs: Any) -> Any:
        import torch

        name = function._schema.name
        if name.startswith(_SILENT):
            return function(*args, **kwargs)
        args, kwargs = self._fakes_of((args, kwargs))
        normed = None if kwargs else self._batch_norms.call(self, function, args)
        if normed is not None:
            return normed
        function = keeping_single(function, args)
        if any(argument.is_out for argument in function._schema.arguments):
            return written_out(self._call, function, args, kwargs)
        written = written_tensors(function, args, kwargs)
        if written and self._is_kept_gradient(name) and not self.sight(args[1]).memory.is_state:
            self.aliases.fresh(written[0], self.sight(args[1]))
            return function(*args, **kwargs)
        if written and torch.Tag.inplace_view in function.tags:
            return turn(self, function, args, kwargs)
        if written:
            return change(self, function, args, kwargs, written)
        result = function(*args, **kwargs)
        sight = self._viewed(function, args)
        if sight is None:
            call = self.record(function, self.template(args), self.template(kwargs))
            self.own_results(call, result)
        elif name in _SAME:
            self.aliases.same(result, sight)
        elif name == _FRESH:
            self.aliases.fresh(result, sight)
        else:
            self._view(function, args, kwargs, result, sight)
        return result

    def _fakes_of(self, thing: Any) -> Any:
        """`thing` with every real tensor replaced by its fake; the first time it becomes a constant."""
        import torch
        from torch._subclasses.fake_tensor import FakeTensor

        if isinstance(thing, (list, tuple)):
            return like(thing, (self._fakes_of(part) for part in thing))
        if isinstance(thing, Mapping):
            return {key: self._fakes_of(part) for key, part in thing.items()}
        if not isinstance(thing, torch.Tensor) or isinstance(thing, FakeTensor):
            return thing
        if thing.requires_grad:
            raise TraceError(
                f"a tensor of shape {tuple(thing.shape)} that requires a gradient is used and was not given: name its "
                "module with module=..., or make it an input"
            )
        if id(thing) not in self._fakes:
            fake = self._fakes[id(thing)] = self._fake_mode.from_tensor(thing)
            free = (f"constant.{i}" for i in itertools.count() if f"constant.{i}" not in self.given)
            self.give(next(free), thing, fake, is_state=True)
        return self._fakes[id(thing)]

    def _viewed(self, function: Any, args: Any) -> Sight | None:
        """Where `function` makes views: how its first argument looks into memory."""
        is_view = function.is_view or function._schema.name in _VIEWS
        return self.sight(args[0]) if is_view else None

    def _view(self, function: Any, args: Any, kwargs: Any, result: Any, sight: Sight) -> None:
        rest = self.template(args[1:]), self.template(kwargs)
        step = (function if sight.memory.is_state else _lenient(function), (BASE, *rest[0]), rest[1])
        if isinstance(result, (list, tuple)):
            for number, part in enumerate(result):
                self.aliases.view(part, sight, Step(*step, number))
        else:
            self.aliases.view(result, sight, Step(*step))

    @staticmethod
    def _is_kept_gradient(name: str) -> bool:
        """Whether autograd copies a gradient to memory of its own, only because it is watched here."""
        import torch

        node = torch._C._current_autograd_node()
        return node is not None and node.name() == "torch::autograd::AccumulateGrad" and name == "aten::copy_"

    # -- pieces --------------------------------------------------------------------------------------

    def record(self, function: Any, args: Any, kwargs: Any, updates: list[Origin] | None = None) -> Call:
        """Note a call with these arguments (templates), its phase and module; its outputs are to be added."""
        import torch

        random = torch.Tag.nondeterministic_seeded in function.tags
        call = Call(function, tuple(args), kwargs, [], list(updates or []), is_random=random)
        node = torch._C._current_autograd_node()
        if node is not None:
            self._last = self._forward.get(node._sequence_nr(), self._last)
            call.phase, call.forward = "backward", self._last
            call.module = self._last.module if self._last is not None else ""
        else:
            call.phase, call.module = self.phase, self.path[-1] if self.path else ""
            self._forward.setdefault(torch.autograd._get_sequence_nr() - 1, call)
        self.calls.append(call)
        return call

    def own_results(self, call: Call, result: Any) -> None:
        """What `call` returned has memory of its own.

        Raises:
            TraceError: It is no tensor, or a sparse one.
        """
        import torch

        for tensor in result if isinstance(result, (list, tuple)) else [result]:
            if tensor is None:
                continue
            if not hasattr(tensor, "untyped_storage"):
                raise TraceError(f"{call.function} returned a {type(tensor).__name__}: only tensors can be traced")
            if tensor.layout is not torch.strided:
                raise TraceError(
                    f"{call.function} returned a sparse tensor, which cannot be traced: make it with strides, and "
                    "embeddings without sparse=True"
                )
            origin = Origin()
            call.outputs.append((origin, tensor))
            self.aliases.own(tensor, origin)

    def keep_owner(self, memory: Memory) -> None:
        """The fake that owns `memory` becomes a view of itself now: another one that lies as it did owns it."""
        owner, before = memory.owner, memory.owner.detach()
        for call in self.calls:
            call.outputs = [(origin, before if made is owner else made) for origin, made in call.outputs]
        memory.owner = before

    def sight(self, tensor: Any) -> Sight:
        """How `tensor` looks into memory."""
        sight = self.aliases.sight(tensor)
        if sight is None:
            raise TraceError(f"a tensor of shape {tuple(tensor.shape)} comes from where no operator was seen")
        return sight

    def template(self, thing: Any) -> Any:
        """An argument with what stands for tensors in their place."""
        if hasattr(thing, "untyped_storage"):
            return self.argument(thing)
        if isinstance(thing, (list, tuple)):
            return like(thing, (self.template(part) for part in thing))
        if isinstance(thing, Mapping):
            return {key: self.template(part) for key, part in thing.items()}
        return thing


def _lenient(view: Any) -> Any:
    """`view`, or ``reshape`` for one that fails where an operator lays its result out otherwise than its fake."""
    import torch

    strict = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)
    return torch.ops.aten.reshape.default if view in strict else view
