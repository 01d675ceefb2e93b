"""Kernels of an operation are read from a graph of two calls of it, on a driver that is played and on a real one."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import cuda_kernels as module
from graphsched.calibration.cuda_clock import Spinner
from graphsched.calibration.cuda_kernels import REGISTERS, STATIC_SHARED_BYTES, launched
from graphsched.calibration.graph_replays import COLD_REPLAYS
from graphsched.calibration.kernels import Launched, kernel_of
from graphsched.costs import Kernel
from graphsched.executors import cuda_driver
from graphsched.executors.cuda_driver import COPY, FILL, KERNEL

OTHER = 7  # kind of a node that is no work
SPINNER: Any = SimpleNamespace(device=0)
A, B = (
    replace(kernel_of(grid, block, registers, shared), code=hashlib.sha256(name).hexdigest()[:12])
    for grid, block, registers, shared, name in (
        ([4, 2, 1], [64, 2, 1], 10, 48 + 100, b"a"),
        ([1, 1, 1], [32, 1, 1], 40, 48, b"b"),
    )
)


class Graph:
    """Calls of `nodes`, each (kind, kernel, µs); a replay takes 10 µs and what is left in it."""

    def __init__(self, patch: pytest.MonkeyPatch, *nodes: tuple[int, str, float], old: bool = False) -> None:
        self.nameless = old
        self.old, self.call, self.nodes = old, nodes, list[tuple[int, str, float]]()
        self.calls, self.replays_s = 0, 0.0
        patch.setattr(torch.cuda, "synchronize", lambda device: None)
        patch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
        patch.setattr(module, "stream_pool", lambda device: ["the lane's"])
        patch.setattr(module, "new_graph", lambda: self)
        patch.setattr(module, "captured", self._captured)
        patch.setattr(module, "device_s", lambda graph, spinner, stream, replays: self._replays_s(replays))
        for place in (module, cuda_driver):
            patch.setattr(place, "driver_call", lambda name, *arguments: getattr(self, name.lower())(*arguments))

    def __call__(self) -> object:
        self.calls += 1
        self.nodes.extend(self.call)
        return object()

    def _captured(self, lanes: Any, issue: Callable[[], object], graph: Any) -> Graph:
        self.nodes.clear()
        issue()
        self.there = [True] * len(self.nodes)
        return self

    def raw_cuda_graph(self) -> int:
        return 1

    def _replays_s(self, replays: int) -> float:
        self.replays_s += (replays + COLD_REPLAYS) * self.replay_us * 1e-6
        return self.replay_us * 1e-6

    def instantiate(self) -> None:
        self.replay_us = 10 + sum(node[2] for node, there in zip(self.nodes, self.there, strict=True) if there)

    def cugraphgetnodes(self, graph: Any, nodes: Any, count: Any) -> None:
        count._obj.value = len(self.nodes)
        for i in range(len(self.nodes) if nodes else 0):
            nodes[i] = i + 1

    def cugraphnodegettype(self, node: Any, kind: Any) -> None:
        kind._obj.value = self.nodes[node.value - 1][0]

    def cugraphkernelnodegetparams_v2(self, node: Any, found: Any) -> None:
        first, it = self.nodes[node.value - 1][1] == "a", found._obj
        function = 100 if first else 200
        it.func, it.kern = (None, function + 1) if self.old else (function, None)
        it.grid_x, it.grid_y, it.grid_z = (4, 2, 1) if first else (1, 1, 1)
        it.block_x, it.block_y, it.block_z = (64, 2, 1) if first else (32, 1, 1)
        it.shared = 100 if first else 0

    def cukernelgetfunction(self, function: Any, kernel: Any) -> None:
        function._obj.value = kernel.value - 1

    def cufuncgetattribute(self, value: Any, which: Any, function: Any) -> None:
        table = {REGISTERS: {100: 10, 200: 40}, STATIC_SHARED_BYTES: {100: 48, 200: 48}}
        value._obj.value = table[which.value][function.value]

    def cufuncgetname(self, name: Any, function: Any) -> None:
        if self.nameless:
            raise AttributeError("cuFuncGetName")
        name._obj.value = b"a" if function.value == 100 else b"b"

    def cugraphdestroynode(self, node: Any) -> None:
        work = [i for i, (kind, _, _) in enumerate(self.nodes) if kind != OTHER and self.there[i]]
        assert work[-1] == node.value - 1  # from the end on
        self.there[node.value - 1] = False


@pytest.mark.parametrize("old", [False, True])
def test_one_kernel_needs_no_time(monkeypatch: pytest.MonkeyPatch, old: bool) -> None:
    """a ─▶ a"""
    graph = Graph(monkeypatch, (KERNEL, "a", 3.0), old=old)
    monkeypatch.delattr(module, "device_s")
    assert launched(graph, SPINNER) == Launched(1, (replace(A, code="") if old else A,))
    assert graph.calls == 3  # once before the capture


def test_shares_are_what_replays_lose_without_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """a ─▶ fill ─▶ b ─▶ nothing, twice: a 3 µs, b 1 µs; the fill counts as launched, and not in the shares."""
    graph = Graph(monkeypatch, (KERNEL, "a", 3.0), (FILL, "", 2.0), (KERNEL, "b", 1.0), (OTHER, "", 0.0))
    found = launched(graph, SPINNER)
    assert found.launches == 3
    assert [kernel.share for kernel in found.kernels] == pytest.approx([0.75, 0.25])
    assert [(kernel.blocks, kernel.threads, kernel.shared_bytes) for kernel in found.kernels] == [
        (kernel.blocks, kernel.threads, kernel.shared_bytes) for kernel in (A, B)
    ]
    assert [kernel.code for kernel in found.kernels] == [A.code, B.code]


def test_many_kernels_are_taken_away_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """a ─▶ … ─▶ a ─▶ b ─▶ … ─▶ b, 100 of 10 µs and 103 of 30 µs: one by one they took a quarter of a minute."""
    graph = Graph(monkeypatch, *[(KERNEL, "a", 10.0)] * 100, *[(KERNEL, "b", 30.0)] * 103)
    found = launched(graph, SPINNER)
    assert found.launches == len(found.kernels) == 203
    shares = [kernel.share for kernel in found.kernels]
    assert sum(shares) == pytest.approx(1.0)
    assert (shares[0], shares[-1]) == pytest.approx((1 / 409, 3 / 409))
    assert len({round(share, 9) for share in shares}) <= 3  # of a's parts, of b's, and of one that has both
    assert 0.5 < graph.replays_s < 1.3


def test_shares_of_an_operation_of_seconds_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """a ─▶ fill ─▶ b, of seconds; three replays are all that it is run."""
    graph = Graph(monkeypatch, (KERNEL, "a", 3e6), (FILL, "", 1e6), (KERNEL, "b", 1e6))
    assert [kernel.share for kernel in launched(graph, SPINNER).kernels] == [0.5, 0.5]
    assert graph.replays_s == pytest.approx(30.0, rel=1e-3)


def test_an_operation_that_leaves_the_captured_stream_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it issues on a stream that does not follow the lane's is in no graph."""
    graph = Graph(monkeypatch, (KERNEL, "a", 3.0))
    inside: list[bool] = []
    monkeypatch.setattr(torch.cuda, "set_stream", lambda stream: None)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)

    def leaves() -> object:
        torch.cuda.set_stream("another")  # type: ignore[arg-type]
        inside.append(True)
        return graph()

    assert launched(leaves, SPINNER) == Launched()
    assert inside == [True]  # before the capture


@pytest.mark.parametrize(("nodes", "launches"), [([], 1), ([(COPY, "", 1.0)], 1), ([(FILL, "", 1.0)] * 2, 2)])
def test_copies_and_fills_have_no_kernels(monkeypatch: pytest.MonkeyPatch, nodes: Any, launches: int) -> None:
    assert launched(Graph(monkeypatch, *nodes), SPINNER) == Launched(launches)


def test_calls_that_differ_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """a, and at the second call in the capture a ─▶ a."""
    graph = Graph(monkeypatch, (KERNEL, "a", 3.0))

    def grows() -> object:
        if graph.calls == 2:
            graph.call *= 2
        return graph()

    assert launched(grows, SPINNER) == Launched()
    assert len(graph.nodes) == 3


def test_what_cannot_be_captured_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph(monkeypatch, (KERNEL, "a", 3.0))

    def fails(*_: object) -> None:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(module, "captured", fails)
    assert launched(graph, SPINNER) == Launched()


def test_what_fails_before_the_capture_is_the_tasks_own(monkeypatch: pytest.MonkeyPatch) -> None:
    Graph(monkeypatch)
    with pytest.raises(ZeroDivisionError):
        launched(lambda: 1 // 0, SPINNER)


def test_no_driver_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = module.driver_call
    graph = Graph(monkeypatch, (KERNEL, "a", 3.0))
    for place in (module, cuda_driver):
        monkeypatch.setattr(place, "driver_call", driver)
    monkeypatch.setattr("ctypes.CDLL", lambda name: (_ for _ in ()).throw(OSError(f"{name}: cannot open")))
    assert launched(graph, SPINNER) == Launched()


def test_a_call_of_the_driver_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: SimpleNamespace(cuAny=lambda *_: 700))
    with pytest.raises(RuntimeError, match="CUDA error 700 of cuAny: see CUresult"):
        module.driver_call("cuAny")


# -- real GPUs ----------------------------------------------------------------------------------------

OPERATIONS: dict[str, Callable[[], Callable[[], Any]]] = {
    "add": lambda: partial_of(torch.add, (512, 512), (512, 512)),
    "mm": lambda: partial_of(torch.mm, (512, 512), (512, 512)),
    "large mm": lambda: partial_of(torch.mm, (2048, 1024), (1024, 2048)),
    "softmax": lambda: partial_of(torch.softmax, (4096, 4096), dim=1),
    "sum": lambda: partial_of(torch.sum, (4096, 4096)),
    "cumsum": lambda: partial_of(torch.cumsum, (1 << 22,), dim=0),
    "sort": lambda: partial_of(torch.sort, (1 << 20,)),
    "conv2d": lambda: partial_of(torch.conv2d, (8, 64, 56, 56), (64, 64, 3, 3)),
    "layer_norm": lambda: partial_of(torch.layer_norm, (512, 1024), normalized_shape=(1024,)),
    "rand": lambda: lambda: torch.rand(1 << 20, device="cuda"),
}


def partial_of(function: Callable[..., Any], *shapes: tuple[int, ...], **more: Any) -> Callable[[], Any]:
    tensors = [torch.rand(shape, device="cuda") for shape in shapes]
    return lambda: function(*tensors, **more)


def by_profiler() -> dict[str, Any]:
    """Launches, (blocks, registers, threads, shared bytes) and shares, as the profiler sees them."""
    found = {}
    for name, make in OPERATIONS.items():
        call = make()
        call()
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as session:
            call()
            torch.cuda.synchronize()
        session.export_chrome_trace("trace.json")
        with open("trace.json") as file:
            events = json.load(file)["traceEvents"]
        work = sorted(
            (e for e in events if e.get("cat") in {"kernel", "gpu_memset", "gpu_memcpy"}), key=lambda e: e["ts"]
        )
        kernels = [(e["dur"], e["args"]) for e in work if e["cat"] == "kernel"]
        total = sum(dur for dur, _ in kernels)
        sizes = [
            kernel_of(a["grid"], a["block"], a["registers per thread"], a["shared memory"], dur / total)
            for dur, a in kernels
        ]
        found[name] = [len(work), [as_list(kernel) for kernel in sizes]]
    return found


def as_list(kernel: Kernel) -> list[float]:
    return [kernel.blocks, kernel.registers, kernel.threads, kernel.shared_bytes, kernel.share]


@pytest.mark.gpu
def test_kernels_are_those_that_a_profiler_sees(tmp_path: Any) -> None:
    """The profiler is asked in a process of its own, for it slows down the one that it is used in."""
    code = "import json; from tests.calibration.test_cuda_kernels import by_profiler as f; print(json.dumps(f()))"
    root = module.__file__.rpartition("/graphsched/")[0]
    told = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r}); {code}"],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    spinner = Spinner(0)
    for name, (launches, kernels) in json.loads(told.stdout.splitlines()[-1]).items():
        found = launched(OPERATIONS[name](), spinner)
        print(name, found.launches, [round(kernel.share, 3) for kernel in found.kernels], [k[4] for k in kernels])
        assert found.launches == launches, name
        assert [as_list(kernel)[:4] for kernel in found.kernels] == [kernel[:4] for kernel in kernels], name
        assert [kernel.share for kernel in found.kernels] == pytest.approx([k[4] for k in kernels], abs=0.12), name


@pytest.mark.gpu
def test_a_gpu_is_healthy_behind_what_cannot_be_captured() -> None:
    x, spinner = torch.rand(512, device="cuda:0"), Spinner(0)
    assert launched(lambda: x[x > 0.5], spinner) == Launched()
    assert torch.equal(x + x, 2 * x)
    assert launched(lambda: x + x, spinner).launches == 1
