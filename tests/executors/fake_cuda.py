"""CUDA as the executor sees it, played on the CPU: who may touch which memory when.

Kernels are real CPU operations in dispatch order; streams and events only keep vector clocks. Memory
goes back to the stream that it was allocated under and is given out again at once, as torch's caching
allocator does. A read or write that is not ordered after the accesses before it is a race, and raises.

Not modelled: CPU lanes beside the GPUs; temporaries inside a task.
"""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from collections import defaultdict
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.executors import buffers, calls, clocks, cuda_graph, eager, lanes, program
from graphsched.executors.lanes import is_cuda
from graphsched.plan import Plan

Clock = dict[Any, int]


def merge(into: Clock, other: Clock) -> None:
    for key, tick in other.items():
        into[key] = max(into.get(key, 0), tick)


class RaceError(AssertionError):
    """Memory used by two streams without an order between them."""


@dataclass(eq=False)
class Block:
    """Memory: its last write and the reads since then, each a stream and its tick."""

    home: Any  # the stream it was allocated under
    wrote: tuple[Any, int] | None = None
    reads: dict[Any, int] = field(default_factory=dict)
    holders: int = 0


class Stream:
    def __init__(self, cuda: FakeCuda, device: int, number: int) -> None:
        self.cuda, self.clock, self.number = cuda, {}, number
        self.device = SimpleNamespace(index=device)
        self.cuda_stream = (device, number)

    def __repr__(self) -> str:
        return f"cuda:{self.device.index} stream {self.number}"

    def step(self) -> tuple[Any, int]:
        """One operation: after the stream's earlier ones and all that the host knew when it was issued."""
        merge(self.clock, self.cuda.host)
        self.clock[self] = self.clock.get(self, 0) + 1
        return self, self.clock[self]

    def wait_event(self, event: Event) -> None:
        merge(self.clock, event.clock)

    def query(self) -> bool:
        merge(self.cuda.host, self.clock)
        return True


class Event:
    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda, self.clock, self.device = cuda, {}, None

    def record(self, stream: Stream) -> None:
        assert self.device in (None, stream.device.index), "an event belongs to the device that recorded it first"
        self.device, self.clock = stream.device.index, {**stream.clock, **self.cuda.host, **stream.clock}
        merge(self.clock, self.cuda.host)
        self.cuda.log.append(f"record {stream}")

    def query(self) -> bool:
        merge(self.cuda.host, self.clock)
        return True

    def elapsed_time(self, other: Event) -> float:
        return 0.0


class Graph:
    """A captured graph; `again` replays it."""

    again: Any

    def replay(self) -> None:
        self.again()


class FakeCuda:
    """Devices, streams and an allocator; put in the place of torch's by `install`."""

    def __init__(self, devices: int) -> None:
        self.host: Clock = {}
        self.defaults = [Stream(self, d, -1) for d in range(devices)]
        self.pools = [[Stream(self, d, k) for k in range(32)] for d in range(devices)]
        self.current, self.device = list(self.defaults), 0
        self.free: dict[Any, list[Block]] = defaultdict(list)
        self.live: dict[int, Block] = {}
        self.log: list[str] = []
        self.reused = 0
        self.homes: set[Any] = set()  # streams under which memory was allocated
        self.staged = False
        self.waits = True  # whether the streams of a copy between GPUs wait for each other
        self.raw_copies = 0
        self.told: list[list[int]] = []  # devices whose random numbers a graph was told of

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Replace what the executor takes from torch."""
        for name in ("current_device", "current_stream", "set_stream", "set_device", "synchronize"):
            patch.setattr(torch.cuda, name, getattr(self, name))
        cpu = torch.device("cpu")
        for module in (buffers, calls):
            patch.setattr(module, "torch_device", lambda name: cpu)
        for module in (calls, eager, clocks, cuda_graph):
            patch.setattr(module, "new_event", lambda timing=False, external=False: Event(self))
        real = buffers.new_tensor
        patch.setattr(buffers, "new_tensor", lambda spec, device, pinned=False: real(spec, device))
        patch.setattr(calls, "new_tensor", lambda spec, device: real(spec, "cpu"))
        patch.setattr(calls, "allow_access", lambda source, target: None)
        patch.setattr(calls, "driver_copy", lambda: self.copy_bytes)
        patch.setattr(lanes, "device_index", lambda name: int(name.partition(":")[2]))
        patch.setattr(lanes, "stream_pool", lambda device: self.pools[device])
        patch.setattr(program, "Buffers", lambda plan: traced(self, plan))
        self.install_graphs(patch)
        staged_calls = eager.staged_calls
        patch.setattr(eager, "staged_calls", lambda *given: self.through_host(staged_calls(*given)))
        body = eager.EagerCompiler._body
        patch.setattr(eager.EagerCompiler, "_body", lambda compiler, i: self.action(compiler, i, body(compiler, i)))

    def install_graphs(self, patch: pytest.MonkeyPatch) -> None:
        """Graphs: what is captured runs at once, and again at every replay, into the memory of the capture."""
        patch.setattr(torch.cuda, "CUDAGraph", Graph)
        patch.setattr(cuda_graph, "_capturing", lambda graph, stream: self.capturing(stream))
        patch.setattr(cuda_graph, "_own_memory", lambda device: contextlib.nullcontext(f"pool of {device}"))
        patch.setattr(cuda_graph, "device_index", lambda name: int(name.partition(":")[2]))
        patch.setattr(cuda_graph, "_tell_generators", lambda graph, devices: self.told.append(list(devices)))
        patch.setattr(cuda_graph, "_random_states", lambda devices: {})
        capture = cuda_graph.GraphCompiler._capture

        def bound(compiler: Any, made: Any) -> Any:
            with self.unseen(compiler.buffers) as states:  # nothing runs while it is captured
                kept = {name: tensor.clone() for name, tensor in states.items()}
            captured = capture(compiler, made)
            with self.unseen(compiler.buffers) as states:
                for name, tensor in states.items():
                    tensor.copy_(kept[name])
            captured.graph.again = lambda: self.replayed(compiler, made, captured)
            return captured

        patch.setattr(cuda_graph.GraphCompiler, "_capture", bound)

    @contextlib.contextmanager
    def unseen(self, made: buffers.Buffers) -> Any:
        """The states' own tensors, touched by no stream."""
        made.slots.tell = False
        yield {name: list.__getitem__(made.slots, made.slot_of[name]) for name in made._state_names()}
        made.slots.tell = True

    @contextlib.contextmanager
    def capturing(self, stream: Stream) -> Any:
        before = self.device, list(self.current)
        self.set_stream(stream)
        yield
        assert self.current[self.device] is stream, "a capture must end on the stream it began on"
        self.device, self.current = before

    def replayed(self, compiler: Any, made: Any, captured: Any) -> None:
        """Make the calls again, fork and join included; results go where the capture's lie."""
        before = self.device, list(self.current)
        compiler._fork()
        for call in made.calls:
            call()
        compiler._join()
        for kept, new in zip(captured.slots, list(compiler.buffers.slots), strict=True):
            if isinstance(kept, torch.Tensor) and kept is not new:
                kept.copy_(new)
        compiler.buffers.clear()
        self.device, self.current = before

    # -- torch.cuda --------------------------------------------------------------------------------

    def current_device(self) -> int:
        return self.device

    def current_stream(self, device: int) -> Stream:
        return self.current[device]

    def set_device(self, device: int) -> None:
        self.device = device

    def set_stream(self, stream: Stream) -> None:
        self.device = stream.device.index
        self.current[self.device] = stream

    def synchronize(self, device: int) -> None:
        for stream in (*self.pools[device], self.defaults[device]):
            stream.query()

    def copy_bytes(self, target: int, source: int, nbytes: int, stream: tuple[int, int]) -> None:
        """The driver's copy: on this stream alone."""
        assert self.current[self.device].cuda_stream == stream
        ctypes.memmove(target, source, nbytes)
        self.waits, self.raw_copies = False, self.raw_copies + 1

    # -- what actions do to memory -----------------------------------------------------------------

    def action(self, compiler: Any, i: int, body: Any) -> Any:
        """The body of an action; an update writes the state where the task ran."""
        task, slots = compiler.plan.task(i), compiler.buffers.slots
        lane = compiler.cuda[compiler.plan.lane_of[i]]
        updated = [compiler.buffers.slot(v.name) for v in task.updates] if task else []

        def traced_body() -> None:
            self.log.append(f"{compiler.plan.names[i]} on {self.current[self.device]}")
            assert self.current[self.device] is lane.stream
            body()
            assert self.current[self.device] is lane.stream
            for slot in updated:
                self.write(self.live[address(list.__getitem__(slots, slot))], self.current[self.device])

        return traced_body

    def through_host(self, body: Any) -> Any:
        """A staged copy: from the host to the target it is made on the target's current stream."""

        def staged() -> None:
            self.staged = True
            body()
            self.staged = False

        return staged

    def read(self, tensor: torch.Tensor) -> None:
        block = self.live.get(address(tensor))
        if block is not None:
            stream, tick = self.current[self.device].step()
            self.ordered(stream, block.wrote, "reads what is not yet written by")
            block.reads[stream] = tick

    def write(self, block: Block, stream: Stream) -> None:
        mark = stream.step()
        self.ordered(stream, block.wrote, "writes beside")
        for at, tick in block.reads.items():
            self.ordered(stream, (at, tick), "overwrites what is still read by")
        block.wrote, block.reads = mark, {}

    def ordered(self, stream: Stream, before: tuple[Any, int] | None, what: str) -> None:
        if before is not None and stream.clock.get(before[0], 0) < before[1]:
            raise RaceError(f"{stream} {what} {before[0]}; {self.log[-8:]}")

    def made(self, tensor: torch.Tensor, home: str) -> None:
        """A tensor is put into a slot of a buffer at `home`: new memory, host memory or a view."""
        here = self.current[self.device]
        known = self.live.get(address(tensor))
        if known is None or not is_cuda(home):
            known = self.allocate(self.current[int(home[5:])] if is_cuda(home) else "host", address(tensor))
            target = known.home
            if self.staged:
                self.write(known, target)
            elif isinstance(target, Stream) and target.device.index != self.device and self.waits:
                merge(here.clock, target.clock)  # torch's copy between GPUs: both wait
                self.write(known, here)
                merge(target.clock, here.clock)
            else:
                self.write(known, here)
        self.waits = True
        known.holders += 1
        weakref.finalize(tensor, self.dropped, known, address(tensor)).atexit = False

    def allocate(self, home: Any, at: int) -> Block:
        if home == "host":
            return self.live.setdefault(at, Block(home, holders=1))
        self.homes.add(home)
        self.reused += bool(self.free[home])
        self.live[at] = self.free[home].pop() if self.free[home] else Block(home)
        return self.live[at]

    def dropped(self, block: Block, at: int) -> None:
        block.holders -= 1
        if not block.holders:
            self.live.pop(at, None)
            self.free[block.home].append(block)


def address(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())


class Slots(list[Any]):
    """Slots that tell of every read and write; `tell` is set once inputs and states are in place."""

    cuda: FakeCuda
    homes: dict[int, str]
    tell = False

    def __getitem__(self, i: Any) -> Any:
        thing = super().__getitem__(i)
        if self.tell and isinstance(thing, torch.Tensor):
            self.cuda.read(thing)
        return thing

    def __setitem__(self, i: Any, thing: Any) -> None:
        super().__setitem__(i, thing)
        if thing is not None:
            self.cuda.made(thing, self.homes[i])


def traced(cuda: FakeCuda, plan: Plan) -> buffers.Buffers:
    """Buffers whose slots tell of reads and writes."""
    made = buffers.Buffers(plan)
    made.slots = Slots(made.slots)
    made.slots.cuda, made.slots.homes = cuda, Homes(made, plan)
    for tensor in made.slots:
        cuda.live[address(tensor)] = Block("given", holders=1)
    made.slots.tell = True
    return made


class Homes(dict[int, str]):
    """Device of each slot's buffer."""

    def __init__(self, made: buffers.Buffers, plan: Plan) -> None:
        self.made, self.plan = made, plan

    def __missing__(self, slot: int) -> str:
        name = next(n for n, s in self.made.slot_of.items() if s == slot)
        self[slot] = name.rpartition(">")[2] if ">" in name else self.plan.homes[name]
        return self[slot]
