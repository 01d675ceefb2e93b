"""What was pushed into a builder: the values of each key by round and worker, checked before anything is added."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphsched.collectives.operations import specification
from graphsched.collectives.requests import checked_location, checked_value
from graphsched.errors import WorkloadError
from graphsched.kvstore.requests import check_like, check_push, missing_text
from graphsched.workload import TensorSpec, Value, Workload, check_name

CheckKey = Callable[[str, TensorSpec], None]


@dataclass
class Key:
    """What is known of a key.

    Attributes:
        name, spec: Its name; shape, type and order in memory of all its values.
        first: What it was initialised with.
        order: Number of its first push in the present round, among those of all keys.
        priority: The highest of the pushes of the present round, or of the last one.
        pushed: Values of the present round by worker.
        rounds: Those that were added up.
        states: Its parts on the servers, where it was initialised.
        parts: What is to be pulled now, one value a part.
        pulled: The same, whole, on devices that have it.
    """

    name: str
    spec: TensorSpec
    first: Any = None
    order: int = 0
    priority: float = 0
    pushed: dict[int, Value] = field(default_factory=dict)
    rounds: int = 0
    states: list[Value] = field(default_factory=list)
    parts: list[Value] = field(default_factory=list)
    pulled: dict[str, Value] = field(default_factory=dict)


class Notes:
    """Keys, and the pushes of their present rounds.

    Args:
        work: The workload of the values.
        workers: How many push each key in each round.
        check_key: Makes sure that a new key can be added up.
        must_be_stored: Keys must be initialised before they are pushed.
    """

    def __init__(self, work: Workload, workers: int, check_key: CheckKey, must_be_stored: bool) -> None:
        self.keys: dict[str, Key] = {}
        self._work, self._workers = work, workers
        self._check_key, self._must_be_stored = check_key, must_be_stored
        self._pushes = 0

    def init(self, key: str, tensor: Any) -> None:
        """Note what a key is initialised with; see `Builder.init`."""
        if check_name(key) in self.keys:
            raise WorkloadError(f"key {key!r} is there already: initialise it once, before it is pushed")
        if not isinstance(tensor, TensorSpec) and not hasattr(tensor, "untyped_storage"):
            found = type(tensor).__name__
            raise WorkloadError(f"key {key!r} is initialised with a {found}: give a tensor or a TensorSpec")
        spec = tensor if isinstance(tensor, TensorSpec) else TensorSpec.of(tensor)
        self._check_key(key, spec)
        self.keys[key] = Key(key, spec, first=tensor)

    def push(self, key: str, pushes: Sequence[tuple[int, Value]], priority: float) -> None:
        """Note values by worker, all of them or none; see `Builder.push`."""
        for worker, value in pushes:
            check_push(key, worker, self._workers, priority)
            checked_location(self._work, checked_value(self._work, value))
        found = self.keys.get(key) or self._new(key, *pushes[0])
        for worker, value in pushes:
            self._check_value(found, worker, value)
        if not found.pushed:
            self._pushes += 1
            found.order, found.priority = self._pushes, priority
        found.priority = max(priority, found.priority)
        found.pushed.update(pushes)
        self.keys[key] = found

    def _new(self, key: str, worker: int, value: Value) -> Key:
        if self._must_be_stored:
            raise WorkloadError(f"worker {worker} pushes key {key!r}, and nothing is stored to update: init it first")
        spec = specification(value)
        self._check_key(key, spec)
        return Key(key, spec)

    def _check_value(self, key: Key, worker: int, value: Value) -> None:
        if worker in key.pushed:
            raise WorkloadError(
                f"worker {worker} has pushed key {key.name!r} in this round already: pull it first, or add its values "
                "up in a task"
            )
        check_like(key.name, f"worker {worker}", specification(value), key.spec)

    def is_complete(self, key: Key) -> bool:
        """Whether every worker has pushed `key` in the present round."""
        return len(key.pushed) == self._workers

    def check_complete(self, key: Key) -> None:
        """Make sure that every worker has pushed `key` in the present round, if one has.

        Raises:
            WorkloadError: Not every worker has.
        """
        if key.pushed and not self.is_complete(key):
            missing = [worker for worker in range(self._workers) if worker not in key.pushed]
            raise WorkloadError(
                f"key {key.name!r} is pulled, but {missing_text(missing)} not pushed it in this round: push it first"
            )


def by_priority(keys: Iterable[Key]) -> list[Key]:
    """The highest priority first, then in the order of pushes."""
    return sorted(keys, key=lambda key: (-key.priority, key.order))
