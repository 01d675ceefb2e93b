"""What a step does to tensors and random numbers that no operator shows.

A buffer that a module assigns (``self.mean = ...``) is copied into its state. A parameter that gets another tensor or
another memory, a tensor that is kept for the next step in an attribute that is no buffer, states that share memory, and
random numbers that start anew are refused.

Not modelled: seeds of Python's and numpy's random numbers; tensors kept for the next step elsewhere than in attributes
of modules, or in attributes that were None before.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from graphsched.errors import TraceError
from graphsched.tracing.rebinding import Bound
from graphsched.tracing.recorder import Recorder

_SEEDS = ("manual_seed", "seed", "set_rng_state")


def settled(recorder: Recorder, bound: Bound, fakes: Mapping[str, Any], returned: Mapping[str, Any]) -> dict[str, Any]:
    """`returned`, after assigned buffers have been copied into their states.

    Raises:
        TraceError: A parameter was assigned, or a buffer of another shape or type.
    """
    import torch

    assigned = {}
    present = bound.present()
    for name in bound.tensors:
        fake, now = fakes[name], present.get(name)
        if now is not fake:
            if now is None or fake.requires_grad or (now.shape, now.dtype) != (fake.shape, fake.dtype):
                raise TraceError(
                    f"the step assigns {name!r}, which is a parameter or gets another shape or type: change it in "
                    "place, as with copy_"
                )
            assigned[name] = now.detach()
    old = {id(recorder.sight(fakes[name]).memory) for name in assigned}
    results = {key: t.clone() if id(recorder.sight(t).memory) in old else t for key, t in returned.items()}
    values = {name: t.clone() if recorder.sight(t).memory.is_state else t for name, t in assigned.items()}
    with torch.no_grad():
        for name, value in values.items():
            recorder.path.append(name.rpartition(".")[0])
            fakes[name].copy_(value)
            recorder.path.pop()
    return results


@contextlib.contextmanager
def none_carried(recorder: Recorder, modules: Mapping[str, Any]) -> Iterator[None]:
    """No attribute of `modules` that is no buffer hands a tensor from one step to the next in the block.

    Raises:
        TraceError: One was read and assigned: every run would read what it was at the trace.
    """
    import torch

    inner = [part for module in modules.values() for part in module.modules()]
    before = [(part, key, now) for part in inner for key, now in vars(part).items() if isinstance(now, torch.Tensor)]
    yield
    for part, key, tensor in before:
        if vars(part).get(key) is not tensor and recorder.has_met(tensor):
            raise TraceError(
                f"the step reads and assigns {key!r} of {type(part).__name__}, a tensor that is no buffer: make it "
                "one with register_buffer, so that it lives from run to run"
            )


@contextlib.contextmanager
def one_memory(fakes: Mapping[str, Any]) -> Iterator[None]:
    """`fakes` keep their memory in the block.

    Raises:
        TraceError: ``.data`` of one was assigned.
    """
    before = {name: fake.untyped_storage() for name, fake in fakes.items()}
    yield
    for name, storage in before.items():
        if fakes[name].untyped_storage()._cdata != storage._cdata:
            raise TraceError(f"the step assigns .data of {name!r}: change it in place, as with copy_ under no_grad")


@contextlib.contextmanager
def one_sequence(recorder: Recorder) -> Iterator[None]:
    """Random numbers go on in the block as they began; those of the user are left alone.

    Raises:
        TraceError: They are drawn, and were set back or seeded.
    """
    import torch

    called: list[Any] = []

    def note(*given: Any) -> Any:
        called.append(given)
        return torch.default_generator

    places = [(owner, name, getattr(owner, name)) for owner in (torch, torch.random) for name in _SEEDS]
    for owner, name, _ in places:
        setattr(owner, name, note)
    try:
        yield
    finally:
        for owner, name, function in places:
            setattr(owner, name, function)
    if called and any(call.is_random for call in recorder.calls):
        raise TraceError(
            "the step draws random numbers and sets them back (a seed, or a checkpoint of a part with dropout): seed "
            "outside, and leave checkpoints out"
        )


def check_apart(tensors: Mapping[str, Any], changed: set[str]) -> None:
    """Check that none of `tensors`, states and constants by name, that is `changed` shares memory with another.

    Raises:
        TraceError: Two do.
    """
    by_storage: dict[int, list[tuple[int, int, str]]] = {}
    for name, tensor in tensors.items():
        if tensor.numel():
            steps = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
            first, size = tensor.storage_offset(), tensor.element_size()
            place = first * size, (first + steps + 1) * size, name
            by_storage.setdefault(tensor.untyped_storage()._cdata, []).append(place)
    for places in by_storage.values():
        for (_, end, one), (start, _, other) in itertools.combinations(sorted(places), 2):
            if start < end and tensors[one] is not tensors[other] and changed & {one, other}:
                raise TraceError(
                    f"{one!r} and {other!r} share memory and change: make them one parameter, or clone one (a constant "
                    "is a tensor from outside of the modules: take the view within the function)"
                )
