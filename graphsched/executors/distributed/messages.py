"""Messages and collectives of a rank's list as calls of no arguments, over the slots of its buffers.

Bytes travel as they lie in memory, in the layout that a copy of the value has on its target. Between host memories they
go by Gloo, from the thread of the lane. Between two GPUs they go by NCCL on the stream of the lane, each lane in a
communicator of its own. Between a GPU and another rank's host they go through pinned memory of this rank's, which the
program keeps, and the dispatching thread waits. Collectives have a group of their own for each set of ranks, where they
follow one another in plan order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from graphsched.executors.buffers import Buffers
from graphsched.executors.calls import Call
from graphsched.executors.declared import as_declared
from graphsched.executors.distributed.layouts import flat_bytes, laid_out, layout_of
from graphsched.executors.distributed.local_plans import LocalPlan
from graphsched.executors.distributed.meeting import span
from graphsched.executors.distributed.nccl_groups import new_communicator
from graphsched.executors.distributed.rank_watch import GRACE_S, RankWatch
from graphsched.executors.distributed.tags import lane_tags
from graphsched.executors.distributed.world import PATIENCE_S, World
from graphsched.executors.lanes import is_cuda
from graphsched.executors.tensors import new_tensor
from graphsched.plan import Copy
from graphsched.plan.ranks import Part, RankLists
from graphsched.workload import TensorSpec


def _pinned(layout: TensorSpec) -> Any:
    """Memory that every run may write, also where the program is made in torch's inference mode."""
    import torch

    with torch.inference_mode(False):
        return new_tensor(layout, "cpu").pin_memory()


class Messages:
    """Makes the calls of a rank's messages and barriers."""

    def __init__(self, world: World, lists: RankLists, local: LocalPlan, buffers: Buffers, watch: RankWatch) -> None:
        self._world, self._lists, self._local, self._buffers, self._watch = world, lists, local, buffers, watch
        self._tags = lane_tags([part.lane for parts in lists.parts for part in parts])
        make_communicators(world, lists)
        make_groups(world, lists)

    def call(self, row: int) -> Call:
        """The call of the send, receive or collective in this row of the list."""
        part = self._local.parts[row]
        if part.kind == "collective":
            return self._collective(part, row)
        if part.signal:
            return self._signal(part)
        copy = self._local.moves[row]
        name = self._local.plan.names[row]
        if is_cuda(copy.source) and is_cuda(copy.target):
            return self._on_stream(part, copy, name)
        return self._send(part, copy) if part.kind == "send" else self._receive(part, copy, name)

    def barrier(self, row: int) -> Call:
        """The call of the wait of all ranks in this row."""
        part = self._local.parts[row]

        def wait() -> None:
            self._world.barrier(self._watch.left_s() + GRACE_S, lambda _: f"{part.name!r}, a wait of all ranks")

        return wait

    def _bytes(self, part: Part, data: Any) -> None:
        call = self._world.send if part.kind == "send" else self._world.receive
        call(data, part.peer, self._tags[part.lane], self._watch.left_s(), lambda: told(part, self._lists))

    def _signal(self, part: Part) -> Call:
        import torch

        token = torch.zeros(1, dtype=torch.uint8)
        return lambda: self._bytes(part, token)

    def _send(self, part: Part, copy: Copy) -> Call:
        take, layout = self._given(copy), layout_of(copy)
        if is_cuda(copy.source):
            here = _pinned(layout)
            return lambda: self._bytes(part, flat_bytes(here.copy_(take())))
        return lambda: self._bytes(part, flat_bytes(laid_out(take(), layout, "cpu")))

    def _given(self, copy: Copy) -> Callable[[], Any]:
        """A function that returns what is to be sent."""
        return as_declared(copy.read.value, self._buffers.slots, self._buffers.slot(copy.read.value.name))

    def _receive(self, part: Part, copy: Copy, name: str) -> Call:
        slots, output, layout = self._buffers.slots, self._buffers.slot(name), layout_of(copy)
        target = copy.target

        def receive() -> None:
            slots[output] = new_tensor(layout, "cpu")
            self._bytes(part, flat_bytes(slots[output]))

        if not is_cuda(target):
            return receive
        here = _pinned(layout)

        def receive_and_copy() -> None:
            self._bytes(part, flat_bytes(here))
            slots[output] = here.to(target)

        return receive_and_copy

    def _collective(self, part: Part, row: int) -> Call:
        """By Gloo from the lane's thread, or by NCCL on its stream, which torch makes wait for the communicator's."""
        plan, task = self._local.plan, self._lists.plan.work[part.name]
        members = self._lists.places.members[part.action]
        k, device = members.index(part.rank), plan.lanes[plan.lane_of[row]].device
        slots, output = self._buffers.slots, self._buffers.slot(task.outputs[k].name)
        read, spec = task.reads[k], task.outputs[k].spec
        take = as_declared(read.value, slots, self._buffers.slot(plan.buffer(read, device)))
        group = self._world.groups[group_of(members, device)]
        assert task.operation is not None
        assert spec is not None
        start = STARTED[task.operation.name]
        what = told(part, self._lists)

        def together() -> None:
            here = new_tensor(spec, device)
            work = start(take().contiguous(), here, members, group)
            if is_cuda(device):
                work.wait()
            else:
                self._world.finish(work, members, self._watch.left_s(), what)
            slots[output] = here

        return together

    def _on_stream(self, part: Part, copy: Copy, name: str) -> Call:
        """Torch makes the lane's stream, which is current then, wait for the communicator's."""
        from torch import distributed

        isend: Any = distributed.isend
        irecv: Any = distributed.irecv
        slots, layout, peer = self._buffers.slots, layout_of(copy), part.peer
        ends = (part.rank, peer) if part.kind == "send" else (peer, part.rank)
        group = self._world.communicators[part.lane, *ends]
        if part.kind == "send":
            take, device = self._given(copy), copy.source

            def send() -> None:
                isend(flat_bytes(laid_out(take(), layout, device)), peer, group=group).wait()

            return send
        output, device = self._buffers.slot(name), copy.target

        def receive() -> None:
            here = new_tensor(layout, device)
            irecv(flat_bytes(here), peer, group=group).wait()
            slots[output] = here

        return receive


def _all_reduce(given: Any, made: Any, _: Sequence[int], group: Any) -> Any:
    from torch import distributed

    return distributed.all_reduce(made.copy_(given), group=group, async_op=True)


def _all_gather(given: Any, made: Any, members: Sequence[int], group: Any) -> Any:
    from torch import distributed

    return distributed.all_gather(_by_rank(made, members), given, group=group, async_op=True)


def _reduce_scatter(given: Any, made: Any, members: Sequence[int], group: Any) -> Any:
    from torch import distributed

    return distributed.reduce_scatter(made, _by_rank(given, members), group=group, async_op=True)


STARTED: Mapping[str, Callable[[Any, Any, Sequence[int], Any], Any]] = {
    "all_reduce": _all_reduce,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
}
"""What starts each collective, from a tensor into one of its result's size; the ranks of a group ascend."""


def _by_rank(whole: Any, members: Sequence[int]) -> list[Any]:
    """The rows of each member, by rank."""
    parts = whole.tensor_split(len(members))
    return [parts[members.index(rank)] for rank in sorted(members)]


def group_of(members: Sequence[int], device: str) -> tuple[str, tuple[int, ...]]:
    """What a group of ranks is filed under: the library that serves `device`, and the ranks.

    Example:
        >>> group_of((2, 0), "worker:1"), group_of((0, 1), "cuda:0")
        (('gloo', (0, 2)), ('nccl', (0, 1)))
    """
    return "nccl" if is_cuda(device) else "gloo", tuple(sorted(members))


def told(part: Part, lists: RankLists) -> str:
    """What a message or collective that did not pass was, for an error: ranks, lane, what a message's other half needs.

    Example:
        >>> part = Part(0, "receive", "a#1", 0, 1, 0, "rank0>rank1", (), signal=True)
        >>> told(part, RankLists(None, None, [[], [part]]))
        "receive 'a#1' from rank 0 on lane rank0>rank1"
    """
    if part.kind == "collective":
        members = lists.places.members[part.action]
        return f"collective {part.name!r} with ranks {', '.join(map(str, members))} on lane {part.lane}"
    way = "to" if part.kind == "send" else "from"
    text = f"{part.kind} {part.name!r} {way} rank {part.peer} on lane {part.lane}"
    names = {other.number: f"{other.name!r} on lane {other.lane}" for other in lists[part.peer]}
    for other in lists[part.peer]:
        if (other.name, other.peer) == (part.name, part.rank) and other.waits:
            text += f", where rank {part.peer} first needs {', '.join(names[wait] for wait in other.waits)}"
    return text


def last_tasks(lists: RankLists, rank: int, done: int) -> str:
    """The last task on each lane of `rank` of which rank `done`, which is done, does not know the end; for an error.

    It knows what was sent to it, the collectives that it took part in, and what came before these.

    Example:
        >>> parts = [Part(k, "run", "ab"[k], k, 0, -1, f"worker:0/s{k}", ()) for k in range(2)]
        >>> parts.append(Part(2, "send", "a>worker:1", 2, 0, 1, "worker:0>worker:1", (0,)))
        >>> last_tasks(RankLists(None, None, [parts, []]), 0, 1)
        ", where rank 0 last runs 'b' on lane worker:0/s1"
    """
    over: set[int] = set()
    lanes_over: set[str] = set()
    last: dict[str, str] = {}
    for part in reversed(lists[rank]):
        met = part.kind == "collective" and done in lists.places.members.get(part.action, range(len(lists)))
        if met or (part.kind == "send" and part.peer == done) or part.number in over or part.lane in lanes_over:
            over.update(part.waits)
            lanes_over.add(part.lane)
        elif part.kind in ("run", "collective"):
            last.setdefault(part.lane, f"{part.name!r} on lane {part.lane}")
    return f", where rank {rank} last runs {', '.join(reversed(last.values()))}" if last else ""


def make_communicators(world: World, lists: RankLists) -> None:
    """Make a communicator of NCCL for each lane between two GPUs; further programs use them again.

    All ranks make all of them in the same order, those that they are not in too.
    """
    for part in (part for parts in lists.parts for part in parts):
        copy = lists.plan.copies.get(part.action)
        if copy is None or part.kind != "send" or part.signal or not (is_cuda(copy.source) and is_cuda(copy.target)):
            continue
        key = part.lane, part.rank, part.peer
        if key not in world.communicators:
            world.communicators[key] = new_communicator([part.rank, part.peer])


def make_groups(world: World, lists: RankLists) -> None:
    """Make a group for each set of ranks that has collectives; as with `make_communicators`, all ranks make all."""
    from torch import distributed

    for action, members in lists.places.members.items():
        key = group_of(members, lists.plan.lanes[lists.plan.lane_of[action]].device)
        if key not in world.groups:
            gloo = partial(distributed.new_group, backend="gloo", timeout=span(PATIENCE_S))
            world.groups[key] = new_communicator(key[1]) if key[0] == "nccl" else gloo(list(key[1]))
