"""CUDA as the executor sees it, played on the CPU: who may touch which memory when.

Kernels are real CPU operations in dispatch order; streams and events only keep vector clocks. Memory
goes back to the stream that it was allocated under and is given out again at once, as torch's caching
allocator does. A read or write that is not ordered after the accesses before it is a race, and raises.
CPU lanes do their jobs when these are handed over, by clocks of their own. Stamps tell a time that goes on by a
microsecond with each of them.

Not modelled: temporaries inside a task.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import weakref
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import torch

from graphsched.executors import (
    buffers,
    calls,
    capture,
    carrying,
    clocks,
    collectives,
    cuda_graph,
    eager,
    lanes,
    program,
    segments,
    stamp_kernel,
    submitting,
    tensors,
    waking,
    watch,
)
from graphsched.executors.lanes import is_cuda
from graphsched.plan import Plan
from graphsched.workload import Collective, Read

Clock = dict[Any, int]
STAMP_NS = 1000  # from one stamp to the next


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
        if event.captured:
            self.cuda.captured.add(self)

    def query(self) -> bool:
        if self.cuda.busy and self in self.cuda.defaults:
            return False
        merge(self.cuda.host, self.clock)
        return True


class Event:
    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda, self.clock, self.device, self.captured = cuda, {}, None, False

    def record(self, stream: Stream) -> None:
        assert self.device in (None, stream.device.index), "an event belongs to the device that recorded it first"
        self.device, self.clock = stream.device.index, {**stream.clock, **self.cuda.host, **stream.clock}
        merge(self.clock, self.cuda.host)
        self.captured = stream in self.cuda.captured
        self.cuda.log.append(f"record {stream}")

    def query(self) -> bool:
        merge(self.cuda.host, self.clock)
        return True

    def synchronize(self) -> None:
        merge(self.cuda.host, self.clock)

    def elapsed_time(self, other: Event) -> float:
        return 0.0


class Done:
    """In the place of `spinning.Done`: whoever sees it knows what its setter knew."""

    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda, self.clock, self.on = cuda, {}, False

    def set(self) -> None:
        self.clock, self.on = dict(self.cuda.host), True
        merge(self.clock, self.cuda.here().clock if self.cuda.actor else {})

    def clear(self) -> None:
        self.on = False

    def is_set(self) -> bool:
        return self.on

    def wait(self, timeout: float) -> bool:
        return self.spin()

    def spin(self) -> bool:
        merge(self.cuda.host, self.clock)
        return self.on


class Tokens:
    """In the place of `threading.Semaphore`: whoever takes a token knows what its giver knew."""

    def __init__(self, cuda: FakeCuda, count: int) -> None:
        self.cuda, self.clocks = cuda, [{} for _ in range(count)]

    def release(self) -> None:
        clock = dict(self.cuda.host)
        merge(clock, self.cuda.here().clock if self.cuda.actor else {})
        self.clocks.append(clock)

    def acquire(self, blocking: bool = True, timeout: float = 0.0) -> bool:
        if not self.clocks:
            return False
        merge(self.cuda.host, self.clocks.pop(0))
        return True


class CpuLane:
    """A lane of the CPU: does at once what it is given, knowing what it and the giver knew."""

    core = None

    def __init__(self, cuda: FakeCuda, name: str, number: int) -> None:
        self.cuda, self.name, self.known = cuda, name, {}
        self.stream, self.closed = Stream(cuda, 0, -2 - number), False
        self.thread = threading.current_thread()
        cuda.lanes.append(self)

    def put(self, job: Any) -> None:
        cuda, host, actor = self.cuda, self.cuda.host, self.cuda.actor
        merge(self.known, host)
        cuda.host, cuda.actor = self.known, self.stream
        job()
        merge(self.known, self.stream.clock)
        cuda.host, cuda.actor = host, actor

    def drain(self, timeout_s: float) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


class Graph:
    """A captured graph; `again` replays it."""

    again: Any

    def replay(self) -> None:
        self.again()


class FakeCuda:
    """Devices, streams and an allocator; put in the place of torch's by `install`."""

    def __init__(self, devices: int) -> None:
        self.host: Clock = {}  # what the acting thread knows
        self.actor: Stream | None = None  # a CPU lane at work
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
        self.lanes: list[CpuLane] = []
        self.same = False  # whether the result of a replay lies where it has to
        self.refuses = False  # whether tasks may not wait for a GPU
        self.numbers: dict[int, torch.Tensor] = {}  # where the random numbers of GPUs stand
        self.captured: set[Stream] = set()  # streams of the present capture
        self.stamps = 0
        self.woken: list[int] = []
        self.told: list[list[int]] = []  # devices whose random numbers a graph was told of
        self.busy = False  # whether the caller's streams always have something to do

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Replace what the executor takes from torch."""
        for name in ("current_device", "current_stream", "set_stream", "set_device", "synchronize"):
            patch.setattr(torch.cuda, name, getattr(self, name))
        cpu = torch.device("cpu")
        for module in (tensors, calls):
            patch.setattr(module, "torch_device", lambda name: cpu)
        for module in (calls, carrying, eager, clocks, collectives, cuda_graph, segments, submitting):
            patch.setattr(module, "new_event", lambda timing=False, external=False: Event(self))
        real = buffers.new_tensor
        patch.setattr(buffers, "new_tensor", lambda spec, device, pinned=False: real(spec, device))
        for module in (calls, collectives):
            patch.setattr(module, "new_tensor", lambda spec, device: real(spec, "cpu"))
        for operation in get_args(Collective):
            patch.setattr(torch.cuda.nccl, operation, partial(self.together, operation), raising=False)
        patch.setattr(calls, "allow_access", lambda source, target: None)
        patch.setattr(calls, "driver_copy", lambda: self.copy_bytes)
        patch.setattr(waking, "wake", self.woken.extend)
        patch.setattr(stamp_kernel, "stamp_launch", lambda device: partial(self.stamp, device))
        patch.setattr(stamp_kernel, "new_places", lambda device, places: torch.zeros(places, dtype=torch.int64))
        patch.setattr(torch.cuda, "is_available", lambda: False)  # a real GPU is none of these
        patch.setattr(lanes, "device_index", lambda name: int(name.partition(":")[2]))
        patch.setattr(lanes, "stream_pool", lambda device: self.pools[device])
        patch.setattr(program, "cpu_lanes", self.cpu_lanes)
        patch.setattr(eager, "Done", lambda: Done(self))
        patch.setattr(watch, "question_about", lambda work: None)
        patch.setattr(carrying, "threading", SimpleNamespace(Semaphore=lambda count: Tokens(self, count)))
        patch.setattr(program, "Buffers", lambda plan: traced(self, buffers.Buffers(plan)))
        twin, load = buffers.Buffers.twin, buffers.Buffers.load
        patch.setattr(buffers.Buffers, "twin", lambda made: traced(self, untold(made, twin)))
        patch.setattr(buffers.Buffers, "load", lambda made, inputs: self.loaded(made, inputs, load))
        pinned = buffers.Buffers.pinned
        patch.setattr(buffers.Buffers, "pinned", lambda made, read: self.pinned(made, read, pinned))
        clone = buffers.Buffers.copies_of_results
        patch.setattr(buffers.Buffers, "copies_of_results", lambda made, fixed: self.cloned(made, fixed, clone))
        self.install_graphs(patch)
        staged_calls = eager.staged_calls
        patch.setattr(eager, "staged_calls", lambda *given: self.through_host(staged_calls(*given)))
        body = eager.EagerCompiler._body
        patch.setattr(eager.EagerCompiler, "_body", lambda compiler, i: self.action(compiler, i, body(compiler, i)))

    def install_graphs(self, patch: pytest.MonkeyPatch) -> None:
        """Graphs: what is captured runs at once, and again at every replay, into the memory of the capture."""
        patch.setattr(torch.cuda, "CUDAGraph", Graph)
        patch.setattr(torch.cuda, "is_current_stream_capturing", lambda: 0 <= self.current[self.device].number < 31)
        patch.setattr(capture, "capturing", lambda graph, stream, pool=None: self.capturing(stream))
        patch.setattr(capture, "make_room", lambda needed: None)
        patch.setattr(capture, "new_pool", lambda: "pool")
        patch.setattr(capture, "new_memory", lambda device: f"pool of {device}")
        patch.setattr(capture, "taken_from", lambda memory, device: contextlib.nullcontext())
        patch.setattr(capture, "synchronising_refused", lambda: self.refusing())
        patch.setattr(capture, "tell_generators", lambda graph, devices: self.told.append(list(devices)))
        patch.setattr(capture, "random_states", lambda devices: {-1: torch.get_rng_state(), **self.numbers})
        real = cuda_graph.GraphCompiler._capture_one

        def bound(compiler: Any, made: Any, pool: Any, memory: Any) -> Any:
            numbers, before = torch.get_rng_state(), list(list.__iter__(compiler.buffers.slots))
            with self.unseen(compiler.buffers) as states:  # nothing runs while it is captured
                kept = {name: tensor.clone() for name, tensor in states.items()}
            graph = real(compiler, made, pool, memory)
            with self.unseen(compiler.buffers) as states:
                for name, tensor in states.items():
                    tensor.copy_(kept[name])
            torch.set_rng_state(numbers)
            after = list(list.__iter__(compiler.buffers.slots))
            graph.again = lambda: self.replayed(compiler, made, before, after)
            return graph

        patch.setattr(cuda_graph.GraphCompiler, "_capture_one", bound)
        capture_all = cuda_graph.GraphCompiler._capture

        def idle_after(compiler: Any, inside: Any) -> Any:
            captured = capture_all(compiler, inside)
            capture.settle(compiler._devices())  # to look at a slot is to read for what tells of it
            return captured

        patch.setattr(cuda_graph.GraphCompiler, "_capture", idle_after)

    def cpu_lanes(self, plan: Plan) -> dict[int, CpuLane]:
        """Lanes of the CPU in `plan`."""
        numbers = [n for n, lane in enumerate(plan.lanes) if lane.kind != "host" and not is_cuda(lane.device)]
        return {n: CpuLane(self, plan.lanes[n].name, n) for n in numbers}

    @contextlib.contextmanager
    def refusing(self) -> Any:
        self.refuses = True
        try:
            yield
        finally:
            self.refuses = False

    def synchronise(self) -> None:
        """What a task does that reads a number back."""
        if self.refuses:
            raise RuntimeError("called a synchronizing CUDA operation")

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
        self.captured = {stream}
        try:
            yield
            assert self.current[self.device] is stream, "a capture must end on the stream it began on"
            loose = [s for s in self.captured if stream.clock.get(s, 0) < s.clock.get(s, 0)]
            assert not loose, f"a capture must end with all streams joined: {loose}"
        finally:
            self.device, self.current, self.captured = *before, set()

    def replayed(self, compiler: Any, made: Any, before: list[Any], after: list[Any]) -> None:
        """Make the calls again, fork and join included, on what lay in the slots `before` the capture.

        Results go where the capture's lie, which the slots held `after` it. What the slots hold now stays.
        """
        was, slots = (self.device, list(self.current)), compiler.buffers.slots
        now = list(list.__iter__(slots))
        assert self.current[self.device] is compiler.origin
        slots.put_back(before)
        slots.fixed = {i: there for i, there in enumerate(after) if there is not before[i]}
        compiler._fork()
        for call in made.calls:
            call()
        compiler._join()
        slots.fixed = {}
        slots.put_back(now)
        self.device, self.current = was

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
            merge(self.host, stream.clock)

    def copy_bytes(self, target: int, source: int, nbytes: int, stream: tuple[int, int]) -> None:
        """The driver's copy: on this stream alone."""
        assert self.current[self.device].cuda_stream == stream
        ctypes.memmove(target, source, nbytes)
        self.waits, self.raw_copies = False, self.raw_copies + 1

    def together(self, operation: str, given: list[Any], made: list[Any], streams: list[Stream]) -> None:
        """NCCL's call for all devices: a kernel on each of their streams."""
        assert all(tensor.is_contiguous() for tensor in (*given, *made)), "NCCL takes no others"
        assert [stream.device.index for stream in streams] == sorted({s.device.index for s in streams})
        for tensor, result in zip(made, collectives.in_host_memory(operation, given), strict=True):
            tensor.copy_(result)
        for stream in streams:
            stream.step()

    def stamp(self, device: int, address: int, stream: tuple[int, int]) -> None:
        """The kernel that writes down the time; a capture runs none."""
        at, number = stream
        here = self.pools[device][number]
        assert at == device, "a kernel belongs to the device that it was loaded on"
        assert not self.captured or here in self.captured, "a stamp beside the capture would be in no replay"
        here.step()
        self.log.append(f"stamp on {here}")
        if not self.captured:
            self.stamps += 1
            ctypes.c_int64.from_address(address).value = self.stamps * STAMP_NS

    def loaded(self, made: buffers.Buffers, inputs: dict[str, torch.Tensor], load: Any) -> set[int]:
        """Inputs are written by the current streams of their GPUs; the thread waits for what goes to the host."""
        used: set[int] = untold(made, partial(load, inputs=inputs))
        for name in inputs:
            _, _, gpu = made.plan.homes[name].partition("cuda:")
            stream = self.current[int(gpu)] if gpu else self.here()
            self.write(self.live[address(list.__getitem__(made.slots, made.slot_of[name]))], stream)
            if not gpu:
                merge(self.host, stream.clock)
        return used

    def pinned(self, made: buffers.Buffers, read: Read, make: Any) -> int:
        """Pinned memory for a result: it has been written by nobody yet."""
        new = str(read) not in made._pinned
        slot: int = make(made, read)
        if new and isinstance(made.slots, Slots):
            self.live[address(list.__getitem__(made.slots, slot))] = Block("host", holders=1)
        return slot

    def cloned(self, made: buffers.Buffers, fixed: list[Any], clone: Any) -> Any:
        """What graphs computed is read by the current streams of its GPUs."""
        for name, slot in made._returned.items():
            _, _, gpu = made.plan.homes[name].partition("cuda:")
            if gpu and fixed[slot] is not None:
                self.read(fixed[slot], self.current[int(gpu)])
        return clone(made, fixed)

    # -- what actions do to memory -----------------------------------------------------------------

    def action(self, compiler: Any, i: int, body: Any) -> Any:
        """The body of an action; an update writes the state where the task ran, and results go to pinned memory."""
        task, slots = compiler.plan.task(i), compiler.buffers.slots
        lane = compiler.cuda.get(compiler.plan.lane_of[i])
        updated = [compiler.buffers.slot(v.name) for v in task.updates] if task else []
        if i in compiler.plan.copies:
            updated = [compiler.buffers.slot(compiler.plan.names[i])]
        updated += [compiler.buffers.pinned(read) for read in compiler._pinned.get(compiler.plan.names[i], ())]

        def traced_body() -> None:
            self.log.append(f"{compiler.plan.names[i]} on {self.here()}")
            assert lane is None or self.here() is lane.stream
            assert (lane is None) == (self.actor is not None)
            old, self.same = set(self.live), False
            body()
            assert lane is None or self.here() is lane.stream
            for slot in updated:
                at = address(list.__getitem__(slots, slot))
                if i not in compiler.plan.copies or (self.same if slots.fixed else at in old):  # into what is there
                    self.written(self.live[at])

        return traced_body

    def here(self) -> Stream:
        """The stream, or lane of the CPU, that what is called now runs on."""
        return self.actor or self.current[self.device]

    def through_host(self, body: Any) -> Any:
        """A staged copy: from the host to the target it is made on the target's current stream."""

        def staged() -> None:
            self.staged = True
            body()
            self.staged = False

        return staged

    def read(self, tensor: torch.Tensor, by: Stream | None = None) -> None:
        block = self.live.get(address(tensor))
        if block is not None:
            stream, tick = (by or self.here()).step()
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
        known = self.live.get(address(tensor))
        if known is None:
            known = self.allocate(self.current[int(home[5:])] if is_cuda(home) else "host", address(tensor))
            self.written(known)
        known.holders += 1
        weakref.finalize(tensor, self.dropped, known, address(tensor)).atexit = False

    def written(self, block: Block) -> None:
        """The result of the present action goes to `block`."""
        here, target = self.here(), block.home
        if self.staged:
            self.write(block, self.current[target.device.index])
        elif isinstance(target, Stream) and target.device.index != self.device and self.waits and not self.actor:
            there = self.current[target.device.index]
            if (here in self.captured) != (there in self.captured):
                raise RuntimeError("dependency created on uncaptured work in another stream")
            merge(here.clock, there.clock)  # torch's copy between GPUs: both wait
            self.write(block, here)
            merge(there.clock, here.clock)
        else:
            self.write(block, here)
        self.waits = True

    def allocate(self, home: Any, at: int) -> Block:
        if home == "host":
            return self.live.setdefault(at, Block(home))
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
    fixed: dict[int, torch.Tensor]  # where the graph that is replayed puts its results
    tell = False

    def __getitem__(self, i: Any) -> Any:
        thing = super().__getitem__(i)
        if self.tell and isinstance(thing, torch.Tensor):
            self.cuda.read(thing)
        return thing

    def __setitem__(self, i: Any, thing: Any) -> None:
        if i in self.fixed and thing is not None:
            thing = self.into_fixed(self.fixed[i], thing)
            super().__setitem__(i, thing)
            return
        super().__setitem__(i, thing)
        if thing is not None:
            self.cuda.made(thing, self.homes[i])

    def into_fixed(self, fixed: torch.Tensor, thing: torch.Tensor) -> torch.Tensor:
        """A result goes where the capture's lies; one that lies there, or is a view of what does, is there."""
        self.cuda.same = address(thing) == address(fixed)
        if not self.cuda.same:
            with torch.inference_mode():  # a replay is no call of torch's, which has modes
                fixed.copy_(thing)
            self.cuda.written(self.cuda.live[address(fixed)])
        return fixed

    def put_back(self, things: list[Any]) -> None:
        """Hold these, touched by no stream."""
        for i, thing in enumerate(things):
            super().__setitem__(i, thing)


def traced(cuda: FakeCuda, made: buffers.Buffers) -> buffers.Buffers:
    """Buffers whose slots tell of reads and writes; memory that is known, as of states, stays as it is known."""
    made.slots = Slots(made.slots)
    made.slots.cuda, made.slots.homes, made.slots.fixed = cuda, Homes(made, made.plan), {}
    for tensor in made.slots:
        cuda.live.setdefault(address(tensor), Block("given", holders=1))
    made.slots.tell = True
    return made


def untold(made: buffers.Buffers, function: Any) -> Any:
    """What `function(made)` does, told of to nobody."""
    tell = getattr(made.slots, "tell", False)
    if isinstance(made.slots, Slots):
        made.slots.tell = False
    try:
        return function(made)
    finally:
        if isinstance(made.slots, Slots):
            made.slots.tell = tell


class Homes(dict[int, str]):
    """Device of each slot's buffer."""

    def __init__(self, made: buffers.Buffers, plan: Plan) -> None:
        self.made, self.plan = made, plan

    def __missing__(self, slot: int) -> str:
        name = next(n for n, s in self.made.slot_of.items() if s == slot)
        self[slot] = name.rpartition(">")[2] if ">" in name else self.plan.homes[name]
        return self[slot]
