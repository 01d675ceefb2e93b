"""The store as a running service, for training loops."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from graphsched.errors import ExecutionError, StuckError, TaskFailedError, WorkloadError
from graphsched.kvstore.aggregates import Checks, Update, checked_aggregate, checked_update
from graphsched.kvstore.entries import Entry, Shard, check_out, specification_of, whole
from graphsched.kvstore.requests import (
    check_like,
    check_pulled,
    check_push,
    check_worker,
    checked_servers,
    checked_timeout,
    checked_workers,
    missing_text,
)
from graphsched.kvstore.servers import Placed, Server, end_servers, torch_device
from graphsched.kvstore.sharding import CUT_FROM_BYTES, Sharding
from graphsched.workload import TensorSpec, check_name


class Store:
    """Keys on servers that add up what workers push; workers may be threads, or one thread that pushes for all.

    A round of a key ends when all workers have pushed it. Then its servers add the values up, and take the keys of the
    highest priority first where several wait. `push` does not wait for that; `pull` does. Tensors are copied on their
    way in and on their way out, and may be changed at once. Sums are the bits that `Builder` makes of the same values.

    Each server is a thread, on a GPU with a stream of its own; values come and go by the current streams of those who
    push and pull. Keys go to servers in the order in which they come, each to those with the fewest bytes.

    Args:
        servers: Devices that add, each once: ``cpu``, ``cuda:0``, …; ``worker:0``, … are threads of the CPU.
        workers: How many push each key in each round.
        aggregate: As in `Builder`.
        update: As in `Builder`; called by the servers' threads.
        shard, cut_from_bytes: As in `Builder`.
        deterministic: Values are added in the order of workers; else in the order in which they came. Neither begins
            before all are there.
        timeout_s: Seconds that a pull waits at most, and that the end waits for sums under way.

    Raises:
        PlatformError: A server is not here.
        WorkloadError: Servers, workers, the aggregate, the way to shard or the seconds make no sense.

    Example:
        >>> import torch
        >>> with Store(servers=["cpu"], workers=2, update=lambda weight, gradient: weight.sub_(gradient)) as store:
        ...     store.init("w", torch.tensor([10.0, 20.0]))
        ...     store.push("w", torch.tensor([1.0, 2.0]), worker=1)
        ...     store.push("w", torch.tensor([3.0, 4.0]), worker=0)
        ...     store.pull("w")
        tensor([ 6., 14.])

    Not modelled: processes (workers share memory); workers that leave or come later.
    """

    def __init__(
        self,
        *,
        servers: Sequence[str],
        workers: int,
        aggregate: str | Callable[..., Any] = "sum",
        update: Update | None = None,
        shard: str = "keys",
        cut_from_bytes: int = CUT_FROM_BYTES,
        deterministic: bool = True,
        timeout_s: float = 60.0,
    ) -> None:
        self.workers, self.deterministic = checked_workers(workers), deterministic
        self.timeout_s = checked_timeout(timeout_s)
        self._aggregate, self._update = checked_aggregate(aggregate), checked_update(update)
        self._sharding = Sharding(checked_servers(servers), shard, cut_from_bytes)
        for name in servers:
            torch_device(name)
        self._checks = Checks(self._aggregate, update, workers)
        self._entries: dict[str, Entry] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._servers = {name: Server(name) for name in servers}
        self._end_servers = weakref.finalize(self, end_servers, self._servers, self.timeout_s)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._end()  # what ended the block says more

    def close(self) -> None:
        """Finish the sums of complete rounds and end the servers; may be called again.

        Raises:
            StuckError: A server has not done so after `timeout_s`; its thread is interrupted.
            TaskFailedError: A round has failed, and no push or pull has said so; others that have are in its notes.
        """
        if busy := self._end():
            raise StuckError(self._stuck(busy))
        failures = [entry.tell() for entry in self._entries.values() if entry.failure is not None and not entry.told]
        for other in failures[1:]:
            failures[0].add_note(str(other))
        if failures:
            raise failures[0]

    # -- what workers call -------------------------------------------------------------------

    def init(self, key: str, tensor: Any) -> None:
        """Store a copy of `tensor` under `key`.

        Raises:
            DuplicateNameError: `key` is no name.
            ExecutionError: The store is closed.
            WorkloadError: The key is there already, is no tensor, or cannot be aggregated or updated.
        """
        spec = specification_of(check_name(key), "init", tensor)
        with self._changed:
            self._check_open()
            if key in self._entries:
                raise WorkloadError(f"key {key!r} is there already: initialise it once, before it is pushed")
            entry = self._new(key, spec)
            for shard, placed in zip(entry.shards, self._copied(entry, tensor), strict=True):
                shard.value = placed
            self._entries[key] = entry

    def push(self, key: str, value: Any, *, worker: int, priority: float = 0) -> None:
        """Give a copy of `value` for the present round of `key`; of keys that wait, the highest `priority` goes first.

        Raises:
            DuplicateNameError: `key` is no name.
            ExecutionError: The store is closed, or a round of the key has failed.
            WorkloadError: The worker does not exist or has pushed the key in this round, its value is unlike others of
                this key or of a type that has no such aggregate, or an update has nothing stored.
        """
        check_push(key, worker, self.workers, priority)
        spec = specification_of(key, f"worker {worker}", value)
        with self._changed:
            entry = self._checked_entry(key, worker, spec)
        parts = self._copied(entry, value)  # by each worker's thread, beside those of others
        with self._changed:
            self._checked_entry(key, worker, spec)
            entry.priority = max(priority, entry.priority) if entry.open else priority
            entry.open[worker] = parts
            entry.pushes[worker] += 1
            if not entry.missing():
                self._end_round(entry)

    def pull(self, key: str, *, worker: int | None = None, device: str | None = None, out: Any = None) -> Any:
        """What `key` has come to: a new tensor on `device`, or `out` filled with it.

        A pull by a `worker` waits for the round that it pushed last, whatever others have pushed since; so threads name
        themselves. Without a worker it waits for the present round, if somebody has pushed in it.

        Args:
            key: Pushed or initialised before.
            worker: Number of the one that pulls.
            device: Default: that of the first server of the key.
            out: A tensor of this shape and type.

        Raises:
            ExecutionError: The store is closed, or a round of the key has failed.
            PlatformError: The device is not here.
            StuckError: The round did not end in `timeout_s`; it is said which workers have not pushed.
            WorkloadError: Nobody has pushed the key, the worker has not and nothing is there before it does, or `out`
                does not fit.
        """
        import torch

        if worker is not None:
            check_worker(key, worker, self.workers)
        target = None if device is None else torch_device(device)
        with self._changed:
            self._check_open()
            check_pulled(key, self._entries)
            entry = self._entries[key]
            check_out(entry.name, entry.spec, device, out)
            values = self._awaited(entry, self._rounds(entry, worker))
        with torch.no_grad():
            tensors = [placed.taken() for placed in values]
            return whole(entry, tensors, target or tensors[0].device, out)

    def push_pull(self, key: str, value: Any, *, worker: int, priority: float = 0, out: Any = None) -> Any:
        """Push `value`, wait for the end of the round, and pull to the device of `value` or into `out`.

        For workers that are threads: one that pushes for all would wait for itself.

        Raises:
            DuplicateNameError, ExecutionError, StuckError, WorkloadError: As `push` and `pull`.
        """
        import torch

        check_out(key, specification_of(key, f"worker {worker}", value), None, out)  # else the push would have counted
        self.push(key, value, worker=worker, priority=priority)
        return self.pull(key, worker=worker, out=torch.empty_like(value) if out is None else out)

    # -- inside ----------------------------------------------------------------------------------

    def _end(self) -> list[str]:
        """Servers that have not ended in time; they are interrupted."""
        with self._changed:
            if self._closed:
                return []
            self._closed = True
            self._changed.notify_all()
        return self._end_servers() or []

    def _stuck(self, busy: Sequence[str]) -> str:
        return (
            f"server {', '.join(map(repr, busy))} of the store has not ended after {self.timeout_s:g} s: its aggregate "
            "or update does not return; or give more timeout_s"
        )

    # -- inside, with the lock held ------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise ExecutionError("the store is closed: use it inside its with block, or make a new one")

    def _checked_entry(self, key: str, worker: int, spec: TensorSpec) -> Entry:
        """The entry of a push that may be made."""
        self._check_open()
        entry = self._entries.get(key)
        if entry is None:
            if self._update is not None:
                raise WorkloadError(
                    f"worker {worker} pushes key {key!r}, and nothing is stored to update: init it first"
                )
            self._entries[key] = entry = self._new(key, spec)
        entry.check()
        if worker in entry.open:
            raise WorkloadError(
                f"worker {worker} has pushed key {key!r} in this round already, and {missing_text(entry.missing())} "
                "not: pull it before the next push"
            )
        check_like(key, f"worker {worker}", spec, entry.spec)
        return entry

    def _new(self, key: str, spec: TensorSpec) -> Entry:
        self._checks.check(key, spec, self._sharding.sizes(spec))
        self._sharding.place({key: spec})
        shards = tuple(Shard(self._servers[part.server], part.elements) for part in self._sharding.parts[key])
        return Entry(key, spec, shards, pushes=[0] * self.workers)

    def _copied(self, entry: Entry, tensor: Any) -> list[Placed]:
        parts = entry.parts(tensor.detach())
        return [Placed.copied(part, shard.server.device) for part, shard in zip(parts, entry.shards, strict=True)]

    def _end_round(self, entry: Entry) -> None:
        """Have the servers add up what was pushed."""
        order = sorted(entry.open) if self.deterministic else list(entry.open)
        for j, shard in enumerate(entry.shards):
            shard.rounds.append([entry.open[worker][j] for worker in order])
            shard.server.submit(functools.partial(self._add_up, entry, shard), entry.priority)
        entry.open = {}
        entry.complete += 1

    def _add_up(self, entry: Entry, shard: Shard) -> None:
        """The job of a server, without the lock: the oldest round, so that rounds of a key keep their order."""
        failure = None
        try:
            value = shard.next_value(self._aggregate, self._update)
        except BaseException as error:
            failure = TaskFailedError(
                f"key {entry.name!r}, round {shard.done}: server {shard.server.name!r} could not take the "
                f"{self._aggregate.name} or update with it: {type(error).__name__}: {error}"
            )
        with self._changed:
            shard.rounds.popleft()
            if failure is None:
                shard.value, shard.done = value, shard.done + 1
            entry.failure = entry.failure or failure
            self._changed.notify_all()

    def _rounds(self, entry: Entry, worker: int | None) -> int:
        """How many rounds must be over before a pull."""
        there = entry.complete > 0 or entry.shards[0].value is not None
        if worker is None:
            if not there and not entry.open:
                raise WorkloadError(f"key {entry.name!r} is pulled, but nobody has pushed it: push it first")
            return entry.complete + bool(entry.open)
        if not there and not entry.pushes[worker]:
            raise WorkloadError(f"worker {worker} pulls key {entry.name!r}, which it has not pushed: push it first")
        return entry.pushes[worker]

    def _awaited(self, entry: Entry, rounds: int) -> list[Placed]:
        self._changed.wait_for(lambda: entry.has(rounds) or entry.failure or self._closed, self.timeout_s)
        entry.check()
        if not entry.has(rounds):
            self._check_open()
            raise StuckError(entry.stuck(rounds, self.timeout_s))
        return [shard.value for shard in entry.shards if shard.value is not None]
