"""The memory of one device: what was taken and given back, and when most of it was in use."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from graphsched.plan.allocator import Block, CachingAllocator, HostAllocator


@dataclass(frozen=True, slots=True)
class Held:
    """Memory in use at a peak.

    Attributes:
        name: The value, or inserted copy; what it is a copy of in brackets for the program's own: ``w (initial)``.
        nbytes: Of the tensor.
        task: What made the value; "" for inputs and states.
    """

    name: str
    nbytes: int
    task: str


@dataclass(frozen=True, slots=True)
class Peak:
    """The most memory of a device that is in use at once.

    Attributes:
        nbytes: As `torch.cuda.max_memory_allocated` counts it on a GPU: blocks, workspaces included.
        resident_bytes: What is there before the first action: inputs, states, and what the program keeps beside them.
        workspace_bytes: What the task at the peak needs while it runs beside its results, as measured; 0: unknown.
        action: Name of the action at whose issue it is reached; "" if that is none's.
        alive: What lies there, largest first; without the workspace.
    """

    nbytes: int
    resident_bytes: int
    workspace_bytes: int
    action: str
    alive: tuple[Held, ...]


@dataclass(eq=False, slots=True)
class Taken:
    """Memory while it is in use: from the `begin`th change of its device's memory to before the `end`th."""

    held: Held
    block: Block
    begin: int
    end: int | None = None


class DeviceMemory:
    """The memory of one device: what was taken and given back, and when most was in use."""

    def __init__(self, allocator: CachingAllocator | HostAllocator) -> None:
        self.allocator = allocator
        self.log: list[Taken] = []
        self.changes = 0
        self.peak_bytes, self.peak_at, self.action, self.workspace = 0, -1, "", 0
        self.resident_bytes = 0

    def take(self, held: Held, owner: Hashable, action: str) -> Taken | None:
        """Memory for a tensor, on a stream, as this action is issued; None for one without elements."""
        block = self.allocator.take(held.nbytes, owner)
        if block is None:
            return None
        taken = Taken(held, block, self.changes)
        self.log.append(taken)
        self._note(action, 0)
        self.changes += 1
        return taken

    def use(self, nbytes: int, owner: Hashable, action: str) -> None:
        """A workspace, taken and given back."""
        block = self.allocator.take(nbytes, owner)
        if block is not None:
            self._note(action, nbytes)
            self.changes += 1
            self.allocator.give_back(block)

    def drop(self, taken: Taken) -> None:
        """The tensor is gone."""
        self.allocator.give_back(taken.block)
        taken.end = self.changes
        self.changes += 1

    def _note(self, action: str, workspace: int) -> None:
        if self.allocator.allocated_bytes > self.peak_bytes:
            self.peak_bytes, self.peak_at = self.allocator.allocated_bytes, self.changes
            self.action, self.workspace = action, workspace

    def peak(self) -> Peak:
        """When most was in use, the first time."""
        alive = [t.held for t in self.log if t.begin <= self.peak_at and (t.end is None or t.end > self.peak_at)]
        alive.sort(key=lambda held: -held.nbytes)
        return Peak(self.peak_bytes, self.resident_bytes, self.workspace, self.action, tuple(alive))
