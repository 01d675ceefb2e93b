"""Row 13, on paper: data-parallel steps on hundreds of hosts, and the ways to sum gradients over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import graphsched as gs
from experiments._scaling import NETWORKS, Network, bucket_bytes, checked, checks_of, rows_of, step_of, table, write
from experiments._shared import check_known, check_sizes, counted
from experiments.ring import summed
from graphsched.collectives.scaling import WAYS, check_gpus
from graphsched.errors import ExperimentError
from graphsched.files import check_folder

TOPOLOGIES = ("two_level", "fat_tree", "rail_optimised")
IN_ONE_HOST = ("ring", "tree", "sharded")


@gs.experiment(source="d2l.ai 12.7.3")
def scaling(
    platform: gs.Platform,
    gpus: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 512, 1024),
    topologies: tuple[str, ...] = TOPOLOGIES,
    networks: tuple[str, ...] = NETWORKS,
    ways: tuple[str, ...] = WAYS,
    buckets: int = 4,
    images: int = 256,
    sequences: int = 8,
    host: str = "h200-x4",
    per_host: int = 8,
    nics: int = 8,
    nic_gbit: float = 400.0,
    nic_us: float = 5.0,
    oversubscription: float = 2.0,
    check: tuple[int, ...] = (16,),
    folder: str = "",
) -> Iterator[gs.Case]:
    """Data-parallel steps of ResNet-18 and a transformer on 8 to 1,024 GPUs of many hosts, on paper.

    Prints, for each network and topology, what a step takes by each way to sum gradients, in brackets the latency
    in the sum of a bucket, and which way is fastest; then how far a sum is from its whole plan simulated event by
    event, on `check` GPUs. With `folder` the figures are written there as ``on-paper.json`` and drawn as
    ``on-paper.png``. All that is predicted for hosts like the platform `host`, not for the one that was asked for.

    The cases themselves, which can be run, are the sums of one bucket of the first network on the devices here.

    A step: forward and backward of `images` images or `sequences` sequences a GPU, each operation estimated from its
    arithmetic and bytes; gradients are summed in equal buckets, one after the other, each as soon as backward has
    filled it. The optimiser is left out. Each host dispatches its own part, and is not held up by that.

    Parameters: numbers of GPUs; topologies of the network, networks and ways; buckets; images and sequences of a GPU; a
    host's platform, GPUs, network cards, their rate and latency; the rate below a leaf switch (of a fat tree below
    the core) over that above it.

    Source: d2l.ai 12.7.3, which prints no figures; the transformer is 12 encoder blocks of width 1,024.
    """
    check_sizes(gpus=gpus, buckets=buckets, images=images, sequences=sequences, per_host=per_host, nics=nics)
    check_sizes(check=check, nic_gbit=nic_gbit, nic_us=nic_us, oversubscription=oversubscription)
    _check_names(gpus, topologies, networks, ways)
    for k in (*gpus, *check):
        check_gpus(k, per_host)
    if folder:
        check_folder(Path(folder))
    here = gs.Platform.load(host)
    network = Network(here, per_host, nics, nic_gbit * 1e9 / 8, nic_us * 1e-6, oversubscription)
    device = here.device(here.accelerators(1)[0])
    steps = {name: step_of(name, images if name == "ResNet-18" else sequences, device) for name in networks}
    papers = {topology: network.platform(topology, max((*gpus, *check))) for topology in topologies}
    rows = [row for paper in papers.values() for row in rows_of(paper, gpus, ways, steps, buckets)]
    print(table(rows, steps, buckets))
    nbytes = bucket_bytes(steps[networks[0]], buckets)
    for topology, paper in papers.items():
        for k in check:
            print(f"{topology}, {k} GPUs: {checked(checks_of(paper, k, ways, nbytes))}")
    if folder:
        write(folder, rows, f"what sums in {buckets} buckets add to a step; hosts like {host}: {network}")
    yield from _sums_here(platform, networks[0], nbytes, ways)


def _check_names(gpus: Sequence[int], topologies: Sequence[str], networks: Sequence[str], ways: Sequence[str]) -> None:
    check_known("network", networks, NETWORKS)
    check_known("topology", topologies, TOPOLOGIES)
    check_known("way to sum", ways, WAYS)
    if not (gpus and topologies and networks and ways):
        raise ExperimentError("nothing to predict: give one or more of gpus, topologies, networks and ways each")


def _sums_here(platform: gs.Platform, network: str, nbytes: int, ways: Sequence[str]) -> Iterator[gs.Case]:
    """The sum of one bucket on all devices of this host, by the ways that there are within one."""
    devices = platform.accelerators()
    what = f"one bucket of {network}, {counted(devices)}"
    for way in [way for way in ways if way in IN_ONE_HOST] or IN_ONE_HOST[-1:]:
        work = summed(platform, devices, nbytes / 1e6, way, 1)
        yield gs.Case(f"{way}, {what}", work, scheduler="one_stream", group=what)
