"""Row 15: gradients of whole networks pushed into a key-value store and pulled, by servers and by priorities."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

import graphsched as gs
from experiments._shared import SEED, check_known, check_sizes, counted, torch_device
from models.lenet import LeNet
from models.resnet import resnet18

NETWORKS = {"LeNet": LeNet, "ResNet-18": resnet18}
WAYS = {"one": "one server", "keys": "keys over servers", "elements": "elements over servers"}
ORDERS = {"backward": "as backward makes them", "priority": "first layers first"}

Shapes = Mapping[str, torch.Size]


@gs.experiment(source="d2l.ai 12.7.4")
def kvstore(
    platform: gs.Platform,
    networks: tuple[str, ...] = tuple(NETWORKS),
    devices: tuple[int, ...] = (1, 2, 4),
    ways: tuple[str, ...] = tuple(WAYS),
    orders: tuple[str, ...] = tuple(ORDERS),
    cut_from_kib: float = 256,
    ahead: int = 4,
) -> Iterator[gs.Case]:
    """Push the gradients of a network into a key-value store on the devices and pull their sums back.

    Every parameter is a key; all gradients are there at the beginning. They are added up on one server (the first
    device), on all devices with whole keys each (``keys``), or on all devices with a part of each key (``elements``; of
    `cut_from_kib` or more, smaller ones stay whole); in the order in which a backward pass makes them, the last layer
    first, or by priority, the first layer first, which the next forward pass needs first. So many keys as `ahead` says
    are added up before the sum of a key is copied back. A real run adds to each case when the first parameter's sum is
    on all devices (``first_layer_eager_s``, and as predicted; both in eager mode), and how far its sums are from those
    of plain PyTorch. Beside them stand a running `gs.kvstore.Store` whose workers are threads, and a loop in plain
    PyTorch that adds on the first device.

    Source: d2l.ai 12.7.4, which prints no figures.
    """
    check_known("network", networks, NETWORKS)
    check_known("way", ways, WAYS)
    check_known("order", orders, ORDERS)
    check_sizes(devices=devices, cut_from_kib=cut_from_kib)
    here = platform.accelerators()
    for network in networks:
        for used in (here[:count] for count in devices if count <= len(here)):
            what = f"{network}, {counted(used)}"
            yield gs.Case(f"plain PyTorch, {what}", baseline=plain(network, used), group=what)
            running = Running(network, used)
            yield gs.Case(f"running store, {what}", baseline=running, metrics=running.figures, group=what)
            for way, order in itertools.product(ways if len(used) > 1 else ways[:1], orders):
                work, first = stored(network, used, way, order, round(cut_from_kib * 1024), ahead)
                figures = functools.partial(measured, work, first, platform)
                label = f"{WAYS[way]}, {ORDERS[order]}, {what}"
                yield gs.Case(label, work, scheduler="one_stream", metrics=figures, group=what)


@functools.cache
def shapes(network: str) -> Shapes:
    """Shapes of the parameters by name, in the order of the forward pass."""
    with torch.device("meta"):
        return {name: parameter.shape for name, parameter in NETWORKS[network]().named_parameters()}


@functools.cache
def _numbers(count: int) -> Tensor:
    return torch.rand(count, generator=torch.Generator().manual_seed(SEED))


def gradients(network: str, worker: int) -> dict[str, Tensor]:
    """Gradients of one worker: parts of one random tensor, which begin one element further for each worker."""
    sizes = [math.prod(shape) for shape in shapes(network).values()]
    numbers = _numbers(sum(sizes) + 64)[worker:]
    parts = numbers[: sum(sizes)].split(sizes)
    return {name: part.view(shape) for (name, shape), part in zip(shapes(network).items(), parts, strict=True)}


def stored(
    network: str, devices: Sequence[str], way: str, order: str, cut_from_bytes: int, ahead: int
) -> tuple[gs.Workload, tuple[str, ...]]:
    """The gradients through a store, and the names of the tasks that bring the first parameter's sum to all devices."""
    work = gs.Workload("kvstore")
    servers = devices[:1] if way == "one" else devices
    shard = "elements" if way == "elements" else "keys"
    workers = len(devices)
    store = gs.kvstore.Builder(work, servers=servers, workers=workers, shard=shard, cut_from_bytes=cut_from_bytes)
    for worker, device in enumerate(devices):
        for i, (key, tensor) in reversed(list(enumerate(gradients(network, worker).items()))):
            value = work.input(f"worker{worker}/{key}", tensor, device=device)
            store.push(key, value, worker=worker, priority=-i if order == "priority" else 0)
    pulled = store.pull_all(devices, ahead=ahead)
    work.keep(*itertools.chain(*pulled.values()))
    first = next(iter(shapes(network)))
    return work, tuple(str(value.producer) for value in pulled[first])


def first_layer_s(timeline: gs.Timeline, first: Sequence[str]) -> float:
    """Seconds until the first parameter's sum is on all devices."""
    return max(span.end_s for span in timeline if span.action in first)


def measured(work: gs.Workload, first: Sequence[str], platform: gs.Platform) -> dict[str, float]:
    """When the first layer may begin, measured and predicted; the largest difference of a sum to plain PyTorch's."""
    costs = gs.profile(work, platform, concurrency=False)  # of a plan with one lane a device
    plan = gs.schedule(work, platform, costs, scheduler="one_stream")
    with gs.Program(plan) as program:
        found = {name: tensor.cpu() for name, tensor in program.run().items()}
    return {
        "first_layer_eager_s": first_layer_s(gs.execute(plan, repeats=5), first),
        "first_layer_eager_predicted_s": first_layer_s(gs.predict(plan), first),
        "max_abs_difference": max(_difference(work, name, tensor) for name, tensor in found.items()),
    }


def _difference(work: gs.Workload, name: str, found: Tensor) -> float:
    key = name.split("/")[1]
    own = [tensor.double() for given, tensor in work.tensors.items() if given.partition("/")[2] == key]
    return float((found.double() - sum(own)).abs().max())


def _on_devices(network: str, devices: Sequence[str]) -> list[dict[str, Tensor]]:
    """Gradients of each worker on its device, in tensors of their own."""
    return [
        {key: tensor.to(torch_device(device), copy=True) for key, tensor in gradients(network, worker).items()}
        for worker, device in enumerate(devices)
    ]


def plain(network: str, devices: Sequence[str]) -> Callable[[], list[dict[str, Tensor]]]:
    """A loop over the parameters, the last first: sums on the first device, and copies of them on the others."""
    data: list[dict[str, Tensor]] = []

    def run() -> list[dict[str, Tensor]]:
        if not data:
            data.extend(_on_devices(network, devices))
        sums: list[dict[str, Tensor]] = [{} for _ in devices]
        for key in reversed(data[0]):
            total = data[0][key].clone()
            for other in data[1:]:
                total += other[key].to(total.device)
            for own, worker in zip(sums, data, strict=True):
                own[key] = total if worker is data[0] else total.to(worker[key].device, copy=True)
        return sums

    return run


class Running:
    """A running store on all devices, and a thread for each worker that pushes all keys and then pulls them."""

    def __init__(self, network: str, devices: Sequence[str]) -> None:
        self._network, self._devices = network, devices
        self._data: list[dict[str, Tensor]] = []
        self._store: gs.kvstore.Store | None = None
        self._threads = ThreadPoolExecutor(len(devices))

    def __call__(self) -> list[dict[str, Tensor]]:
        if self._store is None:
            self._data = _on_devices(self._network, self._devices)
            self._store = gs.kvstore.Store(servers=self._devices, workers=len(self._devices))
        return list(self._threads.map(functools.partial(self._worker, self._store), range(len(self._devices))))

    def _worker(self, store: gs.kvstore.Store, worker: int) -> dict[str, Tensor]:
        """A round of all keys: gradients pushed the last first, sums pulled the first first."""
        own = self._data[worker]
        for i, (key, tensor) in reversed(list(enumerate(own.items()))):
            store.push(key, tensor, worker=worker, priority=-i)
        return {key: store.pull(key, worker=worker, out=torch.empty_like(tensor)) for key, tensor in own.items()}

    def figures(self) -> dict[str, float]:
        """The largest difference to plain PyTorch's sums; the store is closed."""
        found, expected = self()[-1], plain(self._network, self._devices)()[-1]
        self._threads.shutdown()
        assert self._store is not None
        self._store.close()
        return {"max_abs_difference": max(float((found[key] - expected[key]).abs().max()) for key in expected)}
