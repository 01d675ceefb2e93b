"""The store as tasks and copies of a workload."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from itertools import zip_longest
from typing import Any

from graphsched.collectives.blocks import cut, join
from graphsched.collectives.members import Members
from graphsched.collectives.operations import called, memory_order
from graphsched.collectives.requests import check_devices, checked_location, named_members
from graphsched.errors import WorkloadError
from graphsched.kvstore.aggregates import Checks, Update, checked_aggregate, checked_update
from graphsched.kvstore.notes import Key, Notes, by_priority
from graphsched.kvstore.requests import check_pulled, checked_servers, checked_workers
from graphsched.kvstore.sharding import CUT_FROM_BYTES, Part, Sharding
from graphsched.workload import Operation, TensorSpec, Value, Workload, check_name, operation_name

AHEAD = 4
"""First layers are there early, and the whole takes little more than with all keys ahead where servers hold elements;
up to 28 % more where they hold keys: see docs/kvstore.md."""


class Builder:
    """Adds pushes and pulls to a workload.

    `push` takes notes; sums become tasks when they are needed, by `pull`, `pull_all` or `flush`, in the order of
    priorities (the highest first, then in the order of pushes). The order of tasks is the order of dispatch with
    schedulers that keep it (``one_stream``, ``sequential``): the copies to a server are issued just before the sum that
    reads them, and what is issued first is first on its link and on its server. Schedulers with an order of their own
    (``heft``) do not see priorities.

    With ``shard="elements"`` a key is cut in a part for each server; what aggregates and updates must then go element
    by element.

    Args:
        work: Tasks are added to it.
        servers: Devices that add, each once; they may be the workers' own.
        workers: How many push each key in each round.
        aggregate: ``sum``, ``mean``, ``max``, ``min``, or a function of as many tensors as there are workers, in their
            order, that returns a new one like them.
        update: Called as ``update(stored, aggregate)`` on the server; it changes `stored` in place, and pulls read
            that. Keys must be initialised. Without it the aggregate takes the place of what is stored. Both are called
            once without data for each shape: they must keep no tensor of that call, as a momentum made when it is first
            needed.
        shard: ``keys``: each is on one server, so that all have about as many bytes; ``elements``: each is cut in equal
            parts, one a server.
        cut_from_bytes: Keys of fewer bytes stay whole with ``elements`` too; 0: all are cut.
        name: Of its tasks; default ``kvstore``, numbered where there are several.

    Raises:
        DuplicateNameError: The name is taken.
        WorkloadError: Servers, workers, the aggregate or the way to shard do not exist.

    Example:
        >>> import torch
        >>> work = Workload("two workers")
        >>> values = [work.input(f"x{k}", torch.ones(6), device=f"cuda:{k}") for k in range(2)]
        >>> store = Builder(work, servers=["cuda:0", "cuda:1"], workers=2, shard="elements", cut_from_bytes=0)
        >>> for worker in (1, 0):
        ...     store.push("W1", values[worker], worker=worker)
        >>> store.pull("W1", "cuda:1")
        Value(kvstore.elements/W1/1/pull/cuda:1: float32[6])
        >>> store.servers_of("W1")
        ('cuda:0', 'cuda:1')
    """

    def __init__(
        self,
        work: Workload,
        *,
        servers: Sequence[str],
        workers: int,
        aggregate: str | Callable[..., Any] = "sum",
        update: Update | None = None,
        shard: str = "keys",
        cut_from_bytes: int = CUT_FROM_BYTES,
        name: str | None = None,
    ) -> None:
        self.work, self.servers, self.workers = work, checked_servers(servers), checked_workers(workers)
        self._aggregate, self._update = checked_aggregate(aggregate), checked_update(update)
        self._sharding = Sharding(self.servers, shard, cut_from_bytes)
        self._checks = Checks(self._aggregate, update, workers)
        self._notes = Notes(work, workers, self._check_key, must_be_stored=update is not None)
        self._named = partial(named_members, work, self.servers, name, "kvstore", shard)
        if name is not None:
            self._named()  # so that a name that is taken is refused here

    def init(self, key: str, tensor: Any) -> None:
        """Store `tensor` (or a `TensorSpec`) under `key`: states on the servers, which live across runs.

        Raises:
            DuplicateNameError: `key` is no name.
            WorkloadError: It was pushed or initialised before, is no tensor, or cannot be aggregated or updated.
        """
        self._notes.init(key, tensor)

    def push(self, key: str, value: Value, *, worker: int, priority: float = 0) -> None:
        """Note `value` as what `worker` gives for the present round of `key`; keys of higher `priority` go first.

        Raises:
            DuplicateNameError: `key` is no name.
            ForeignValueError: The value is of another workload.
            WorkloadError: The worker does not exist or has pushed the key in this round, its value is unlike others of
                this key, on no one device or of a type that has no such aggregate, or an update has nothing stored.
        """
        self._notes.push(key, [(worker, value)], priority)

    def flush(self) -> None:
        """Add up all keys that every worker has pushed: their sums are dispatched before what is added later."""
        self._place()
        for key in by_priority(filter(self._notes.is_complete, self._notes.keys.values())):
            self._add_up(key)

    def pull(self, key: str, device: str) -> Value:
        """What `key` has come to, on `device`; complete keys of a higher priority are added up before.

        On the server of the key this may be the sum itself; several pulls of one round share a value.

        Raises:
            WorkloadError: Nobody has pushed the key, or not every worker has in this round.
        """
        check_pulled(key, self._notes.keys)
        check_name(device)
        found = self._notes.keys[key]
        self._notes.check_complete(found)
        self._place()
        if found.pushed:
            complete = filter(self._notes.is_complete, self._notes.keys.values())
            for other in by_priority(other for other in complete if other.priority > found.priority):
                self._add_up(other)
            self._add_up(found)
        return self._pulled(found, device)

    def pull_all(self, devices: Sequence[str], *, ahead: int = AHEAD) -> dict[str, list[Value]]:
        """What all keys have come to, on each of `devices`: added up, and copied, key after key by priority.

        Args:
            devices: Each once.
            ahead: How many keys are added up before the copies of the first are made, and so on. A server's copy to a
                worker that is a server too waits for a sum, and the next gradient waits behind it on the same link: the
                more keys are ahead the fuller are links, and the later is the first key on the devices.

        Raises:
            WorkloadError: There is no key, not every worker has pushed one of them, devices are named twice, or `ahead`
                is no number of keys.
        """
        check_devices(devices)
        if isinstance(ahead, bool) or not isinstance(ahead, int) or ahead < 0:
            raise WorkloadError(f"ahead is {ahead!r}: a whole number of keys, 0 or more, is needed")
        keys = by_priority(self._notes.keys.values())
        if not keys:
            raise WorkloadError("all keys are pulled, but nobody has pushed one: push or init them first")
        for key in keys:
            self._notes.check_complete(key)
        self._place()
        found = {}
        for added, pulled in zip_longest(keys, [*[None] * ahead, *keys]):
            if added is not None and added.pushed:
                self._add_up(added)
            if pulled is not None:
                found[pulled.name] = [self._pulled(pulled, device) for device in devices]
        return found

    def push_pull(self, key: str, values: Sequence[Value], *, priority: float = 0) -> list[Value]:
        """Push a value of each worker, in their order, and pull the key to the device of each value.

        Raises:
            DuplicateNameError, ForeignValueError, WorkloadError: As `push`; or there are not as many values as workers.
        """
        if not isinstance(values, Sequence) or len(values) != self.workers:
            raise WorkloadError(f"key {key!r}: {values!r} for {self.workers} workers: give a list of one value of each")
        self._notes.push(key, list(enumerate(values)), priority)
        return [self.pull(key, checked_location(self.work, value)) for value in values]

    def servers_of(self, key: str) -> tuple[str, ...]:
        """The server of each part of `key`; keys without one get theirs now, together.

        Raises:
            WorkloadError: There is no such key.
        """
        check_pulled(key, self._notes.keys)
        self._place()
        return tuple(part.server for part in self._sharding.parts[key])

    # -- inside --------------------------------------------------------------------------------

    def _check_key(self, key: str, spec: TensorSpec) -> None:
        self._checks.check(key, spec, self._sharding.sizes(spec))

    @cached_property
    def _prefix(self) -> str:
        return self._named().name

    def _members(self, key: Key, devices: Iterable[str] = ()) -> Members:
        return Members(self.work, f"{self._prefix}/{key.name}/{key.rounds}", tuple(devices))

    def _place(self) -> None:
        """Choose servers for new keys, and make states of what they were initialised with."""
        new = [key for name, key in self._notes.keys.items() if name not in self._sharding.parts]
        self._sharding.place({key.name: key.spec for key in new})
        for key in new:
            parts = self._sharding.parts[key.name]
            tensors = [] if key.first is None else _split(key.first, [part.elements for part in parts])
            key.states = [
                self.work.state(f"{self._prefix}/{key.name}/stored/{j}", tensor, device=parts[j].server)
                for j, tensor in enumerate(tensors)
            ]
            key.parts = list(key.states)

    def _add_up(self, key: Key) -> None:
        """The tasks of a round: cuts where the workers are, sums and updates on the servers."""
        values = [key.pushed[worker] for worker in range(self.workers)]
        key.pushed, key.pulled, key.rounds = {}, {}, key.rounds + 1
        members = self._members(key, (checked_location(self.work, value) for value in values))
        parts = self._sharding.parts[key.name]
        columns = zip(*cut(members, values, [part.elements for part in parts]), strict=True)
        key.parts = [
            self._part(key, members, j, part, column)
            for j, (part, column) in enumerate(zip(parts, columns, strict=True))
        ]

    def _part(self, key: Key, members: Members, j: int, part: Part, values: Sequence[Value]) -> Value:
        total: Value = members.run(f"add/{j}", part.server, self._aggregate.operation(values))
        if not key.states:
            return total
        state = key.states[j]
        members.run(f"update/{j}", part.server, self._stored(state, total), updates=state)
        return state

    def _stored(self, state: Value, total: Value) -> Operation:
        import torch

        function = self._update or torch.ops.aten.copy_.default
        return Operation(operation_name(function), function, (state, total))

    def _pulled(self, key: Key, device: str) -> Value:
        """The whole on `device`; never a state itself, which the next round changes."""
        if device not in key.pulled:
            members, first = self._members(key), key.parts[0]
            if key.states == [first] and first.device == device:
                key.pulled[device] = members.run(f"pull/{device}", device, called("clone", first))
            else:
                key.pulled[device] = join(members, f"pull/{device}", device, key.parts, key.spec)
        return key.pulled[device]


def _split(first: Any, sizes: Sequence[int]) -> list[Any]:
    """Parts of a tensor or specification in the order of memory; the whole, where there is one part."""
    if isinstance(first, TensorSpec):
        return [first] if len(sizes) == 1 else [TensorSpec((size,), first.dtype) for size in sizes]
    tensor = first.detach()
    if len(sizes) == 1:
        return [tensor]
    dims = memory_order(TensorSpec.of(tensor)) or tuple(range(tensor.dim()))
    return list(tensor.permute(dims).reshape(-1).split(list(sizes)))
