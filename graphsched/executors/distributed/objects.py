"""Objects as bytes, for messages between ranks: anything that can be pickled, with tensors of every element type."""

from __future__ import annotations

import io
import pickle
from typing import Any


def to_bytes(thing: Any) -> bytes:
    """`thing` as bytes, of which `from_bytes` makes the same.

    Tensors keep their order in memory; of the memory that views share each sends its own elements alone.

    Example:
        >>> from_bytes(to_bytes({"a": 1.5}))
        {'a': 1.5}
    """
    found = io.BytesIO()
    _Pickler(found, protocol=pickle.HIGHEST_PROTOCOL).dump(thing)
    return found.getvalue()


def from_bytes(data: bytes) -> Any:
    """The object that `to_bytes` was given."""
    return pickle.loads(data)


class _Pickler(pickle.Pickler):
    """Saves tensors as files have them: by pickle torch loads none of the newer element types, as float8."""

    def reducer_override(self, thing: Any) -> Any:
        import torch

        return (_loaded, (_saved(thing),)) if isinstance(thing, torch.Tensor) else NotImplemented


def _saved(tensor: Any) -> bytes:
    import torch

    found = io.BytesIO()
    torch.save(tensor if tensor.untyped_storage().nbytes() <= tensor.nbytes else tensor.clone(), found)
    return found.getvalue()


def _loaded(data: bytes) -> Any:
    import torch

    return torch.load(io.BytesIO(data), weights_only=False)
