"""Fills of captured graphs made kernels: which, with what arguments and edges, on a played driver and on a real one."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.executors import capture, cuda_driver
from graphsched.executors import fill_kernel as module
from graphsched.executors.cuda_driver import FILL
from graphsched.executors.fill_kernel import THREADS, WORDS, Fill, fills_made_kernels

OTHER = 0  # kind of a node that is no fill
METHODS = {
    "cuGraphGetNodes": "all_nodes",
    "cuGraphNodeGetDependencies": "before",
    "cuGraphNodeGetDependentNodes": "behind",
    "cuGraphNodeGetType": "kind_of",
    "cuGraphMemsetNodeGetParams": "fill_of",
    "cuPointerGetAttribute": "device_of",
    "cuGraphAddKernelNode": "add_kernel",
    "cuGraphAddDependencies": "add_edges",
    "cuGraphDestroyNode": "destroy",
}
ON_SECOND = 1 << 40  # addresses from here on are on the second GPU


class Driver:
    """Graphs as the CUDA driver tells of them: nodes by number, and edges.

    Attributes:
        made: Of each kernel that was put in: device, where, words, word, blocks.
    """

    def __init__(self, nodes: dict[int, Fill | None], edges: list[tuple[int, int]]) -> None:
        self.nodes, self.edges, self.made = dict(nodes), list(edges), dict[int, tuple[int, ...]]()
        self.device = -1

    def call(self, name: str, *arguments: Any) -> None:
        getattr(self, METHODS[name])(*arguments)

    def all_nodes(self, graph: Any, into: Any, count: Any) -> None:
        self._list(list(self.nodes), into, count)

    def before(self, node: Any, into: Any, count: Any) -> None:
        self._list([a for a, b in self.edges if b == node.value], into, count)

    def behind(self, node: Any, into: Any, count: Any) -> None:
        self._list([b for a, b in self.edges if a == node.value], into, count)

    def kind_of(self, node: Any, kind: Any) -> None:
        kind._obj.value = OTHER if self.nodes[node.value] is None else FILL

    def fill_of(self, node: Any, fill: Any) -> None:
        ctypes.pointer(fill._obj)[0] = self.nodes[node.value]

    def device_of(self, number: Any, which: Any, address: Any) -> None:
        number._obj.value = int(address.value >= ON_SECOND)

    def add_kernel(self, made: Any, graph: Any, before: Any, count: Any, launch: Any) -> None:
        node, kernel = max(self.nodes) + 1, launch._obj
        where, words, word = ctypes.cast(kernel.arguments, ctypes.POINTER(ctypes.c_void_p))[:3]
        numbers = (ctypes.c_uint64.from_address(where).value, ctypes.c_uint64.from_address(words).value)
        assert kernel.function == 70 + self.device
        assert (*kernel.block, *kernel.grid[1:]) == (THREADS, 1, 1, 1, 1)
        self.nodes[node], made._obj.value = None, node
        self.edges += [(before[k], node) for k in range(count.value)]
        self.made[node] = (self.device, *numbers, ctypes.c_uint32.from_address(word).value, kernel.grid[0])

    def add_edges(self, graph: Any, ends: Any, starts: Any, count: Any) -> None:
        self.edges += [(ends[k], starts[k]) for k in range(count.value)]

    def destroy(self, node: Any) -> None:
        del self.nodes[node.value]
        self.edges = [edge for edge in self.edges if node.value not in edge]

    @staticmethod
    def _list(found: list[int], into: Any, count: Any) -> None:
        count._obj.value = len(found)
        if into is not None:
            into[: len(found)] = found

    @contextlib.contextmanager
    def on(self, device: int) -> Iterator[None]:
        before, self.device = self.device, device
        yield
        self.device = before


def played(monkeypatch: pytest.MonkeyPatch, nodes: dict[int, Fill | None], edges: list[tuple[int, int]]) -> Driver:
    driver = Driver(nodes, edges)
    for place in (module, cuda_driver):
        monkeypatch.setattr(place, "driver_call", driver.call)
    monkeypatch.setattr(module, "loaded_kernel", lambda device, ptx, name: 70 + device)
    monkeypatch.setattr(torch.cuda, "device", driver.on)
    return driver


def fill(nbytes: int, *, value: int = 0, element_bytes: int = 1, where: int = 4096, height: int = 1) -> Fill:
    return Fill(where, 0, value, element_bytes, nbytes // element_bytes, height)


GRAPH = SimpleNamespace(raw_cuda_graph=lambda: 1)


def test_a_kernel_takes_the_place_of_a_fill(monkeypatch: pytest.MonkeyPatch) -> None:
    """1 ─▶ 2 (fill) ─▶ 3, 4;  5 (fill, on another GPU, the first node of its branch) ─▶ 4."""
    nodes = {1: None, 2: fill(4000, value=7), 3: None, 4: None, 5: fill(8, value=9, element_bytes=4, where=ON_SECOND)}
    driver = played(monkeypatch, nodes, [(1, 2), (2, 3), (2, 4), (5, 4)])
    assert fills_made_kernels(GRAPH) == 2
    assert driver.made == {6: (0, 4096, 1000, 0x07070707, 1), 7: (1, ON_SECOND, 2, 9, 1)}
    assert sorted(driver.nodes) == [1, 3, 4, 6, 7]
    assert sorted(driver.edges) == [(1, 6), (6, 3), (6, 4), (7, 4)]


def test_fills_that_no_words_are_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a word at the begin or the end, and rows; a last fill, of whole words, ends nothing."""
    nodes = {1: fill(6), 2: fill(8, where=4098), 3: fill(8, height=2), 4: fill(8)}
    driver = played(monkeypatch, nodes, [(1, 2), (2, 3), (3, 4)])
    assert fills_made_kernels(GRAPH) == 1
    assert sorted(driver.nodes) == [1, 2, 3, 5]
    assert sorted(driver.edges) == [(1, 2), (2, 3), (3, 5)]


@pytest.mark.parametrize("words", [1, THREADS * WORDS, THREADS * WORDS + 1])
def test_blocks_have_threads_for_all_words(words: int, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = played(monkeypatch, {1: fill(4 * words)}, [])
    fills_made_kernels(GRAPH)
    ((*_, blocks),) = driver.made.values()
    assert (blocks - 1) * THREADS * WORDS < words <= blocks * THREADS * WORDS


def test_a_kernel_that_nothing_can_wait_for_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """1 ─▶ 2 (fill) ─▶ 3: the fill stays, and the graph is finished with it."""
    nodes, edges = {1: None, 2: fill(8), 3: None}, [(1, 2), (2, 3)]
    driver = played(monkeypatch, nodes, edges)

    def refused(*arguments: Any) -> None:
        raise RuntimeError("CUDA error 1 of cuGraphAddDependencies")

    monkeypatch.setattr(driver, "add_edges", refused)
    capture.finish(SimpleNamespace(raw_cuda_graph=lambda: 1, instantiate=lambda: None))
    assert (driver.nodes, driver.edges) == (nodes, edges)


def test_a_graph_without_a_driver_is_finished_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver(name: str, *arguments: Any) -> None:
        raise OSError("libcuda.so.1: cannot open shared object file")

    made: list[str] = []
    graph = SimpleNamespace(raw_cuda_graph=lambda: 1, instantiate=lambda: made.append("ready"))
    monkeypatch.setattr(cuda_driver, "driver_call", no_driver)
    capture.finish(graph)
    assert made == ["ready"]


@pytest.mark.gpu
def test_what_was_filled_is_filled() -> None:
    """Each fill between a kernel that writes its memory before and one that reads it after."""
    fill_async = ctypes.CDLL("libcuda.so.1").cuMemsetD8Async
    memory = [torch.ones(n, dtype=torch.uint8, device="cuda") for n in (4, 6, 4096, 4_000_004, 2**24)]
    found = [torch.empty_like(tensor) for tensor in memory]
    stream, graph = torch.cuda.Stream(), capture.new_graph()
    torch.cuda.synchronize()
    with capture.capturing(graph, stream):
        for k, (tensor, read) in enumerate(zip(memory, found, strict=True)):
            tensor.fill_(1)
            address, handle = ctypes.c_uint64(tensor.data_ptr()), ctypes.c_void_p(stream.cuda_stream)
            assert fill_async(address, ctypes.c_ubyte(2 + k), ctypes.c_size_t(tensor.numel()), handle) == 0
            read.copy_(tensor)
    assert fills_made_kernels(graph) == len(memory) - 1  # one ends within a word
    graph.instantiate()
    for _ in range(3):
        for read in found:
            read.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            graph.replay()
        torch.cuda.synchronize()
        assert [set(read.unique().tolist()) for read in found] == [{2 + k} for k in range(len(memory))]
