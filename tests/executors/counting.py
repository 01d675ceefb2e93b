"""Memory counted as it is taken: every tensor's storage, by the device that it stands for, until it is gone.

On GPUs in blocks of 512 bytes.

Not modelled: tensors of more than 1 MiB there.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from graphsched.executors import buffers, eager
from graphsched.executors.lanes import is_cuda
from graphsched.plan import Plan

GRAIN = 512  # bytes of a GPU's blocks


class MemoryCounter(TorchDispatchMode):
    """Counts storages made while it is on; those of user's tensors were there before.

    A storage is on the device of the action that makes it, else on that of what it is a clone of.

    Attributes:
        now: Bytes by device.
        peak: The most of these whenever they were noted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now: Counter[str] = Counter()
        self.peak: Counter[str] = Counter()
        self._acting: str | None = None
        self._at: dict[int, str] = {}  # storage -> device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given = [t.untyped_storage()._cdata for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        homes = [self._at[key] for key in given if key in self._at]
        for tensor in (t for t in tree_leaves(out) if isinstance(t, torch.Tensor)):
            if tensor.untyped_storage()._cdata not in (*given, *self._at):
                self._count(tensor.untyped_storage(), self._acting or homes[0])
        return out

    def _count(self, storage: Any, device: str) -> None:
        key, grain = storage._cdata, GRAIN if is_cuda(device) else 1
        nbytes = grain * -(-storage.nbytes() // grain)
        self._at[key] = device
        self.now[device] += nbytes
        weakref.finalize(storage, self._gone, key, device, nbytes).atexit = False

    def _gone(self, key: int, device: str, nbytes: int) -> None:
        del self._at[key]
        self.now[device] -= nbytes

    def note(self) -> None:
        """Memory is as it counts now."""
        for device, nbytes in self.now.items():
            self.peak[device] = max(self.peak[device], nbytes)

    def _noted(self, result: Any) -> Any:
        self.note()
        return result

    @contextlib.contextmanager
    def acting(self, device: str | None) -> Iterator[None]:
        """What is made now is on `device`."""
        before, self._acting = self._acting, device
        try:
            yield
        finally:
            self._acting = before

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Have buffers and actions say where they make what they make, and note what there is after each."""
        new_tensor = buffers.new_tensor
        body = eager.EagerCompiler._body

        def placed(spec: Any, device: str, *, pinned: bool = False) -> Any:
            with self.acting(self._acting or device):
                return new_tensor(spec, device, pinned=pinned)

        def noted(compiler: Any, i: int) -> Any:
            copy, lane = compiler.plan.copies.get(i), compiler.plan.lanes[compiler.plan.lane_of[i]]
            with self.acting(copy.target if copy and not is_cuda(copy.target) else None):
                call = body(compiler, i)

            def action() -> None:
                with self.acting(copy.target if copy else lane.device):
                    call()
                self.note()

            return action

        for name in ("results", "copies_of_results"):
            returned = getattr(buffers.Buffers, name)
            patch.setattr(
                buffers.Buffers, name, lambda made, *given, returned=returned: self._noted(returned(made, *given))
            )
        patch.setattr(buffers, "new_tensor", placed)
        patch.setattr(eager.EagerCompiler, "_body", noted)


class PromptLane:
    """In the place of a thread: does at once what it is given."""

    def __init__(self, name: str) -> None:
        self.name, self.closed, self.thread = name, False, threading.current_thread()

    def put(self, job: Callable[[], object]) -> None:
        job()

    def drain(self, timeout_s: float) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def prompt_lanes(plan: Plan) -> dict[int, PromptLane]:
    """Lanes of the CPU in `plan`, on the calling thread, which is the one that counts."""
    here = {n: lane.name for n, lane in enumerate(plan.lanes) if lane.kind != "host" and not is_cuda(lane.device)}
    return {n: PromptLane(name) for n, name in here.items()}
