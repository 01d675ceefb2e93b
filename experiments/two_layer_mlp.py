"""Row 4: a two-layer perceptron on one CPU and two GPUs, as one graph, and trained by it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import networkx as nx
import torch

import graphsched as gs
from experiments._shared import check_known, check_sizes, counted
from experiments.training.checkpoints import check_keeping
from experiments.training.perceptron import Perceptron
from experiments.training.results import PlainStep
from graphsched.charts import plot_graph, plot_training
from graphsched.charts.graph_layout import graph_of
from graphsched.files import write_text
from graphsched.formats.dot import to_dot

SCHEDULERS = ("one_stream", "heft")
GRAINS = ("operator", "module")
LAYERS = {"1": "layer 1", "2": "ReLU", "3": "layer 2"}
PHASES = {"reduce": "sum of gradients"}
NOTE = "dashed: parameters that were updated on the CPU go to the devices in the next step"

_last: list[tuple[Perceptron, gs.Workload | None]] = []  # of the run that is drawn at its end


def draw(platform: gs.Platform, folder: Path) -> tuple[Path, ...]:
    """Write the graph on most devices as a picture and for Graphviz, and the course of all trainings as a picture."""
    run, work = _last[-1] if _last else (None, None)
    if run is None or not run.courses:
        return ()
    stem = f"{platform.name}-two_layer_mlp"
    trainings = folder / f"{stem}-training.png"
    title = f"{platform.name}: two-layer MLP on Fashion-MNIST, batch {run.batch}, learning rate {run.lr:g}"
    curves = {label: course.curves() for label, course in run.courses.items()}
    plot_training(curves, trainings, title=title, note=f"{len(run.dataset.train_images):,} images to learn from")
    if work is None:
        return (trainings,)
    return trainings, *draw_graph(gs.schedule(work, platform, scheduler=SCHEDULERS[0]), folder, stem)


def draw_graph(plan: gs.Plan, folder: Path, stem: str) -> tuple[Path, Path]:
    """Write the graph of one step as a picture and for Graphviz."""
    picture, text = folder / f"{stem}-graph.png", folder / f"{stem}-graph.dot"
    devices = sorted({lane.device for lane in plan.lanes} - {"cpu", "host"})
    title = f"two-layer MLP, one step on the CPU and {counted(devices)}"
    plot_graph(with_words(plan), picture, title=title, note=NOTE)
    write_text(text, to_dot(plan))
    return picture, text


def with_words(plan: gs.Plan) -> nx.DiGraph:
    """The graph of `plan` with labels for people: phase, layer and operator of tasks, and what copies bring."""
    graph = graph_of(plan)
    for name, node in plan.work.graph.nodes(data=True):
        place, operator = name.split("/")[1], name.rpartition("/")[2]
        if node["phase"] in ("reduce", "update"):
            words = _parameter(place)
        else:
            words = LAYERS.get(node["module"], "loss")
            words += "" if operator.partition(".")[0] in LAYERS else f"\n{operator}"
        graph.nodes[name]["label"] = f"{PHASES.get(node['phase'], node['phase'])}\n{words}"
    for i, copy in plan.copies.items():
        name, kind = copy.read.value.name, copy.read.value.kind
        if kind == "output":
            reader = next(reader for reader in graph.succ[plan.names[i]])
            words = f"gradient\n{_parameter(reader.split('/')[1])}"
        else:
            words = f"parameter\n{_parameter(name)}" if kind == "state" else name.rpartition("/")[2]
        graph.nodes[plan.names[i]]["label"] = words
    return graph


def _parameter(name: str) -> str:
    """Words for a parameter.

    Example:
        >>> _parameter("3.weight"), _parameter("1")
        ('layer 2 weight', 'layer 1')
    """
    layer, _, which = name.partition(".")
    return f"{LAYERS.get(layer, layer)} {which}".strip()


@gs.experiment(source="d2l.ai 12.3, figure 1", needs="2 GPUs", pictures=draw)
def two_layer_mlp(
    platform: gs.Platform,
    hidden: int = 256,
    batch: int = 256,
    lr: float = 0.1,
    epochs: int = 5,
    devices: tuple[int, ...] = (1, 2),
    schedulers: tuple[str, ...] = SCHEDULERS,
    grain: str = "operator",
    data: str = "",
    checkpoints: str = "",
    every: int = 0,
) -> Iterator[gs.Case]:
    """Train a two-layer perceptron on one CPU and two GPUs: forward, backward, sums and updates as one graph.

    Parameters are on the CPU. In each step the devices get them and their part of the minibatch, and compute forward
    and backward; gradients go to the CPU as soon as they are there, are summed, and update the parameters. `grain` is
    a task an ``operator``, or a ``module`` (a layer and phase).

    The figures of a case are those of a training on Fashion-MNIST (a part of it, or the full set in the folder `data`)
    in eager mode: loss and accuracy over the last epoch, accuracy on the test images after it, images a second with
    loading and without tests. ``max_abs_difference`` compares all parameters after the first step with those of plain
    PyTorch on the whole minibatch: rounding is expected. In a folder `checkpoints` trainings are kept after each epoch,
    after `every` steps of one and where they are interrupted; the same command goes on from there. In mode
    ``distributed`` graphs are trained by all ranks, with the CPU of rank 0; where torchrun starts these again
    (``--max-restarts``), they go on too.

    Source: d2l.ai 12.3, figure 1; it prints no times.
    """
    check_sizes(hidden=hidden, batch=batch, lr=lr, epochs=epochs, devices=devices)
    check_known("grain", [grain], GRAINS)
    check_keeping(checkpoints, every)
    here = platform.accelerators()
    counts = sorted(count for count in devices if count <= len(here))
    if not counts:
        return  # no case: an error that names the parameters
    run = Perceptron(platform, hidden, batch, lr, epochs, data or None, checkpoints or None, every or None)
    _last[:] = [(run, None)]
    label = f"plain PyTorch, {counted(here[:1])}"
    yield gs.Case(label, baseline=_plain(run, here[0]), metrics=functools.partial(run.plain_figures, label, here[0]))
    for number in counts:
        used = here[:number]
        work = run.workload(used, grain)
        _last[:] = [(run, work)]
        for scheduler in schedulers:
            label = f"{scheduler}, CPU and {counted(used)}"
            figures = functools.partial(_figures, run, label, work, scheduler, number)
            on_ranks = functools.partial(run.rank_figures, label, devices=used)
            yield gs.Case(label, work, scheduler=scheduler, metrics=figures, on_ranks=on_ranks)


def _figures(run: Perceptron, label: str, work: gs.Workload, scheduler: str, number: int) -> dict[str, float]:
    plan = gs.schedule(work, run.platform, scheduler=scheduler)
    return run.figures(label, plan, run.platform.accelerators(number))


def _plain(run: Perceptron, device: str) -> Callable[[], torch.Tensor]:
    """A step on the first minibatch in plain PyTorch; the first call makes the network."""
    made: list[PlainStep] = []

    def call() -> torch.Tensor:
        if not made:
            made.append(run.plain(device))
        images, labels = run.first_batch
        return made[0].submit(input=images, target=labels).result()["loss"]

    return call
