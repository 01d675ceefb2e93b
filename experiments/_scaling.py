"""Steps of data-parallel training on many hosts: rows of figures, their table, their picture."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn

import graphsched as gs
from experiments._step_estimate import StepEstimate, estimated_step
from graphsched.charts.scaling import plot_scaling
from graphsched.collectives.scaling import SumTime, simulated_s, sum_time, sum_times
from graphsched.files import write_text
from graphsched.quantities import bytes_text, percent_text, seconds_text
from models.resnet import resnet18
from models.transformer import EncoderBlock

NETWORKS = ("ResNet-18", "transformer")
WIDTH, HEADS, HIDDEN, BLOCKS, TOKENS = 1024, 16, 4096, 12, 1024


@dataclass(frozen=True)
class Row:
    """One step on so many GPUs.

    Attributes:
        topology, network, gpus, way: Which.
        compute_s: Forward and backward alone.
        sum_s, latency_s: One bucket's sum, and one of next to no bytes.
        step_s: With the sums of all buckets, as far as backward does not hide them.
    """

    topology: str
    network: str
    gpus: int
    way: str
    compute_s: float
    sum_s: float
    latency_s: float
    step_s: float


@dataclass(frozen=True)
class Network:
    """What joins hosts, whatever the topology.

    Attributes:
        host, gpus, nics: One of them; its GPUs and network cards.
        nic_bytes_per_s, nic_latency_s: Of a card.
        oversubscription: Above the leaf switches; of a fat tree above the pods.
    """

    host: gs.Platform
    gpus: int
    nics: int
    nic_bytes_per_s: float
    nic_latency_s: float
    oversubscription: float

    def __str__(self) -> str:
        nics = f"{self.nics} NICs of {self.nic_bytes_per_s / 1e9:g} GB/s and {seconds_text(self.nic_latency_s)}"
        return f"{self.gpus} GPUs, {nics}; oversubscription {self.oversubscription:g}"

    def platform(self, topology: str, gpus: int) -> gs.Platform:
        """A platform of as many hosts as so many GPUs need."""
        over = "core_oversubscription" if topology == "fat_tree" else "oversubscription"
        figures: dict[str, Any] = {
            "hosts": -(-gpus // self.gpus),
            "gpus": self.gpus,
            "host": self.host,
            "nics": self.nics,
            "nic_bytes_per_s": self.nic_bytes_per_s,
            "nic_latency_s": self.nic_latency_s,
            over: self.oversubscription,
        }
        made: gs.Platform = getattr(gs.topologies, topology)(**figures)
        return made


def step_of(network: str, batch: int, device: gs.Device) -> StepEstimate:
    """The estimate of a step of one of `NETWORKS` on `batch` images or sequences."""
    if network == "ResNet-18":
        return estimated_step(resnet18, (batch, 1, 28, 28), device)
    return estimated_step(_blocks, (batch, TOKENS, WIDTH), device)


def _blocks() -> nn.Module:
    return nn.Sequential(*(EncoderBlock(WIDTH, HEADS, HIDDEN) for _ in range(BLOCKS)))


def bucket_bytes(step: StepEstimate, buckets: int) -> int:
    """Bytes of one of so many buckets, in whole numbers."""
    return step.nbytes // buckets // 4 * 4


def rows_of(
    platform: gs.Platform, gpus: Sequence[int], ways: Sequence[str], steps: Mapping[str, StepEstimate], buckets: int
) -> Iterator[Row]:
    """All ways on the first GPUs of many hosts; copies that one sends follow each other as nodes of a graph do."""
    assert platform.fabric is not None
    issue_s = platform.dispatch.graph_node_s
    sizes = [bucket_bytes(step, buckets) for step in steps.values()]
    for k in gpus:
        for way in ways:
            found = sum_times(platform, way, k, sizes, issue_s=issue_s)
            for (network, step), one in zip(steps.items(), found, strict=True):
                yield _row(platform.fabric.topology, network, step, one, buckets)


def _row(topology: str, network: str, step: StepEstimate, found: SumTime, buckets: int) -> Row:
    step_s = step.with_sums(found.seconds, buckets)
    return Row(topology, network, found.gpus, found.way, step.seconds, found.seconds, found.latency_s, step_s)


def checks_of(platform: gs.Platform, gpus: int, ways: Sequence[str], nbytes: int) -> dict[str, float]:
    """By way, the time of `sum_time` over that of the whole plan simulated event by event, less 1."""
    members = platform.accelerators(gpus)
    return {
        way: sum_time(platform, way, gpus, nbytes).seconds / simulated_s(platform, members, nbytes, way) - 1
        for way in ways
    }


# -- for people -------------------------------------------------------------------------------------


def table(rows: Sequence[Row], steps: Mapping[str, StepEstimate], buckets: int) -> str:
    """A block of lines for each network and topology, a line for each number of GPUs."""
    blocks = []
    for network, step in steps.items():
        sizes = f"{bytes_text(step.nbytes)} of gradients in {buckets} buckets"
        for topology in dict.fromkeys(row.topology for row in rows):
            chosen = [row for row in rows if (row.network, row.topology) == (network, topology)]
            head = f"{network}, {topology}: {sizes}; computing alone {seconds_text(step.seconds)}"
            blocks.append("\n".join([head, *_lines(chosen)]))
    return "\n\n".join(blocks)


def _lines(rows: Sequence[Row]) -> Iterator[str]:
    """Step and, in brackets, the latency in all of its sums; the fastest way, and how much of the step computes."""
    ways = list(dict.fromkeys(row.way for row in rows))
    yield f"{'GPUs':>6}" + "".join(f"{way:>22}" for way in ways) + "  fastest"
    for gpus in dict.fromkeys(row.gpus for row in rows):
        here = {row.way: row for row in rows if row.gpus == gpus}
        best = min(here.values(), key=lambda row: row.step_s)
        cells = "".join(f"{_cell(here[way]):>22}" for way in ways)
        yield f"{gpus:>6,}{cells}  {best.way}, {best.compute_s / best.step_s:.0%} computing"


def _cell(row: Row) -> str:
    return f"{seconds_text(row.step_s)} ({seconds_text(row.latency_s)})"


def checked(differences: Mapping[str, float]) -> str:
    """How far figures are from whole plans simulated.

    Example:
        >>> checked({"ring": -0.00312, "tree": 0.0})
        'off the simulation of all transfers by -0.31 % (ring), 0.00 % (tree)'
    """
    found = ", ".join(f"{percent_text(share)} ({way})" for way, share in differences.items())
    return f"off the simulation of all transfers by {found}"


def write(folder: str, rows: Sequence[Row], title: str) -> None:
    """Write ``on-paper.json``, and ``on-paper.png``: what sums add to computing, into `folder`.

    Raises:
        OutputError: They cannot be written.
    """
    where = Path(folder)
    write_text(where / "on-paper.json", json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    panels: dict[tuple[str, str], dict[str, list[tuple[int, float]]]] = {}
    for row in rows:
        panel = panels.setdefault((row.network, row.topology.replace("_", "-")), {})
        panel.setdefault(row.way, []).append((row.gpus, row.step_s - row.compute_s))
    plot_scaling(panels, title, path=where / "on-paper.png")
