"""Row 12: gradients summed on one device, on the CPU, or in shares on all; after the backward pass, or beside it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

from torch import nn

import graphsched as gs
from experiments._shared import check_known, check_sizes, counted
from experiments.partitioning import step
from experiments.ring import gradients, measured
from experiments.training.baselines import Setting, same_network
from experiments.training.replicas import StepCase, StepFigures, check_split
from graphsched.partition import bucket_sizes, choose_buckets, data_parallel
from models.lenet import LeNet
from models.resnet import resnet18

NETWORKS: Mapping[str, Callable[[], nn.Module]] = {"LeNet": LeNet, "ResNet-18": resnet18}
STRATEGIES = ("server", "cpu", "sharded", "ring", "library")
CENTRAL = ("server", "cpu")
TEXT_S = {"server": 0.060, "cpu": 0.080, "sharded": 0.015}
TEXT_MBYTES, TEXT_DEVICES = 160.0, 4
SCHEDULER = "one_stream"
LR = 0.05


@gs.experiment(source="d2l.ai 12.7.1")
def parameter_server(
    platform: gs.Platform,
    networks: tuple[str, ...] = tuple(NETWORKS),
    mbytes: tuple[float, ...] = (TEXT_MBYTES,),
    trained: tuple[str, ...] = ("LeNet",),
    strategies: tuple[str, ...] = STRATEGIES,
    devices: tuple[int, ...] = (1, 2, 4),
    batch: int = 256,
    blocks: int = 1,
    steps: int = 20,
) -> Iterator[gs.Case]:
    """Sum gradients on one device, on the CPU, or in shares on all of them; after the backward pass, or beside it.

    First the sums alone: of as many bytes as the gradients of `networks` have, and of `mbytes` (10⁶), on one device
    (``server``), on the ``cpu``, in shares on all devices (``sharded``), and for comparison by a ``ring`` and by a
    ``library``: NCCL, as a task in eager and distributed mode. `blocks` pieces of a gradient (of a ring: for each
    device) travel alone; with 1 the sum is sent back once all of it is there, as in the text. A real run adds what the
    busiest device sends, and how far the sums are from plain PyTorch's.

    Then training steps of the networks `trained`, with `batch` images over all devices: without sums, with one sum of
    all gradients after the backward pass, and with sums of buckets that are ready while earlier layers are still
    computed. Of several sizes of buckets the one with the shortest predicted step is taken (in graph mode on GPUs, in
    eager mode on workers); the label says how many buckets it makes. The figure ``exposed_s`` of a real run is what
    sums add to a step among `steps` in a row, ``exposed_predicted_s`` the same as predicted.

    The text's argument, for 160 MB on 4 GPUs with links of 16 GB/s: sending three gradients to the fourth GPU takes
    30 ms, and sending the sum back to three 30 ms more; all four to the CPU and back 2 × 40 ms, by one link;
    parts of 40 MB, each to its own GPU, by all links at once, 2 × 7.5 ms. Those are the figures of the source here,
    of arithmetic, without the time of additions.

    Source: d2l.ai 12.7.1; Sergeev and Del Balso, Horovod, 2018, for sums beside the backward pass.
    """
    check_known("network", (*networks, *trained), NETWORKS)
    check_known("strategy", strategies, STRATEGIES)
    check_sizes(mbytes=mbytes, devices=devices, batch=batch, blocks=blocks, steps=steps)
    here = platform.accelerators()
    sizes = {f"{name}'s gradients": _gradient_mbytes(name) for name in networks}
    sizes |= {f"{size:g} MB": size for size in mbytes}
    for used in (here[:count] for count in devices if count <= len(here)):
        for what, size in sizes.items() if len(used) > 1 else ():
            yield from _sums(platform, used, what, size, strategies, blocks)
        for name in trained:
            setting = Setting(NETWORKS[name], platform, used, batch, LR, steps, None)
            check_split(setting, epochs=0)
            yield from _training(setting, name, strategies)


# -- sums alone ----------------------------------------------------------------------------------------


def _sums(
    platform: gs.Platform, devices: Sequence[str], what: str, mbytes: float, strategies: Sequence[str], blocks: int
) -> Iterator[gs.Case]:
    """A sum on all devices, by each strategy."""
    where = f"{what}, {counted(devices)}"
    in_the_text = mbytes == TEXT_MBYTES and len(devices) == TEXT_DEVICES
    for strategy in strategies:
        work = summed(devices, mbytes, strategy, blocks)
        yield gs.Case(
            f"sum, {strategy}, {where}",
            work,
            scheduler=SCHEDULER,
            reported_s=TEXT_S.get(strategy) if in_the_text else None,
            metrics=functools.partial(measured, work, platform, devices),
            group=f"sum of {where}",
            optional=strategy == "cpu",  # which not all hosts of a network have
        )


def summed(devices: Sequence[str], mbytes: float, strategy: str, blocks: int) -> gs.Workload:
    """The sum of a gradient of each device on every device."""
    work = gs.Workload("parameter_server")
    given = zip(devices, gradients(devices, mbytes), strict=True)
    values = [work.input(f"gradient{k}", tensor, device=device) for k, (device, tensor) in enumerate(given)]
    told = {"blocks": blocks} if strategy in CENTRAL else {}
    if strategy == "ring":
        told["blocks"] = blocks * len(devices)
    work.keep(*gs.collectives.all_reduce(work, values, algorithm=strategy, **told))
    return work


def _gradient_mbytes(network: str) -> float:
    """Of all parameters of a network, in 10⁶ bytes."""
    return sum(p.numel() * p.element_size() for p in same_network(NETWORKS[network]).parameters()) / 1e6


# -- steps ---------------------------------------------------------------------------------------------


def _training(setting: Setting, name: str, strategies: Sequence[str]) -> Iterator[gs.Case]:
    """Steps without sums, and by each strategy with sums after the backward pass and beside it."""
    whole = step(name, setting.images)
    apart_work = data_parallel(whole, setting.devices, reduce="none")
    apart = functools.cache(StepFigures(setting, apart_work, SCHEDULER))
    yield StepCase(f"step, {name}, no sums, {setting.where}", apart_work, scheduler=SCHEDULER, figures=apart)
    if len(setting.devices) == 1:
        return
    for strategy in strategies:
        for when, work, found in _splits(setting, whole, strategy):
            figures = functools.partial(_figures, StepFigures(setting, work, SCHEDULER), apart, found)
            yield StepCase(
                f"step, {name}, {strategy}, {when}, {setting.where}",
                work,
                scheduler=SCHEDULER,
                figures=figures,
                group=f"step of {name}, {setting.where}",
            )


def _splits(
    setting: Setting, whole: gs.Workload, strategy: str
) -> Iterator[tuple[str, gs.Workload, Mapping[str, float]]]:
    """The split step with one bucket, then with several; with words and figures for the buckets."""
    one, *several = bucket_sizes(whole)
    work = data_parallel(whole, setting.devices, reduce=strategy, bucket_bytes=one)
    yield "sums after backward", work, {"buckets": 1.0, "bucket_bytes": float(one)}
    on_gpus = setting.platform.device(setting.devices[0]).kind == "cuda"
    mode = "graph" if on_gpus and strategy != "library" else "eager"
    best = choose_buckets(whole, setting.devices, platform=setting.platform, reduce=strategy, sizes=several, mode=mode)
    count = best.buckets[best.bucket_bytes]
    figures = {"buckets": float(count), "bucket_bytes": float(best.bucket_bytes)}
    yield f"{count} sums beside backward", best.work, figures


def _figures(
    steps: StepFigures, apart: Callable[[str], Mapping[str, float]], buckets: Mapping[str, float], mode: str
) -> dict[str, float]:
    """Figures of steps in a row, and what sums add to one."""
    found, alone = steps(mode), apart(mode)
    return {
        **buckets,
        **found,
        "exposed_s": found["step_s"] - alone["step_s"],
        "exposed_predicted_s": found["step_predicted_s"] - alone["step_predicted_s"],
    }
