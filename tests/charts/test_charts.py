"""Pictures of platforms: what they show is what the platform says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from graphsched.charts import draw_platform, plot_links, plot_pairs
from graphsched.charts.curves import fitted
from graphsched.charts.panels import panels_of
from graphsched.errors import OutputError
from graphsched.platform import Device, Link, Platform
from tests.builders import platform as built

SHIPPED = Platform.load("h200-x4")


def worded(figure) -> list[list[str]]:
    return [[text.get_text() for text in axes.get_legend().get_texts()] for axes in figure.axes]


def test_every_link_is_drawn_once_with_its_points() -> None:
    panels = panels_of(SHIPPED)
    drawn = [link for panel in panels for series in panel.series for link in series.links]
    assert len(drawn) == len(set(map(str, drawn))) == len(SHIPPED.links)
    figure = plot_links(SHIPPED)
    points = {(x, y) for axes in figure.axes for line in axes.lines if line.get_linestyle() == "None"
              for x, y in zip(*line.get_data(), strict=True)}  # fmt: skip
    link = SHIPPED.link("cuda:2", "cuda:3")
    for size, seconds in zip(link.sizes_bytes, link.seconds, strict=True):
        assert (size, size / seconds / 1e9) in points
    assert len(points) <= sum(len(k.sizes_bytes) for k in SHIPPED.links)


def test_the_legend_gives_latency_rate_and_nominal_figures() -> None:
    host, _, pairs, memory = worded(plot_links(SHIPPED))
    links = [SHIPPED.link("cpu", name) for name in SHIPPED.accelerators()]
    latency_us, rate = median(k.latency_s * 1e6 for k in links), median(k.bandwidth_bytes_per_s / 1e9 for k in links)
    assert host[0].startswith(f"host to GPU (4): {latency_us:.3g} µs, {rate:.3g} GB/s")
    assert host[-1] == "PCIe, nominal: 64 GB/s"
    assert pairs[-1] == "NVLink, nominal: 450 GB/s"
    assert memory[-1] == "GPU memory, nominal (read and write): 2400 GB/s"


def test_unknown_gpus_are_held_against_the_text_only() -> None:
    odd = tuple(replace(d, model="a GPU") for d in SHIPPED.devices)
    host, _, pairs, _ = worded(plot_links(replace(SHIPPED, devices=odd)))
    assert host[-1] == "PCIe, nominal: 32 GB/s"
    assert len(pairs) == 1


def test_curves_are_those_of_latency_and_rate() -> None:
    curve = plot_links(SHIPPED).axes[2].lines[1]
    sizes, rates = (np.asarray(column) for column in curve.get_data())
    links = [fitted(link, sizes) / 1e9 for link in SHIPPED.links if link.memory == "peer"]
    assert (np.min(links, axis=0) <= rates).all()
    assert (rates <= np.max(links, axis=0)).all()
    assert rates[0] < rates[-1] < 400


def test_staged_pairs_have_a_curve_and_a_box_of_their_own() -> None:
    uneven = SHIPPED.without_link("cuda:0", "cuda:1")
    assert [line.partition(":")[0] for line in worded(plot_links(uneven))[2][:2]] == [
        "directly (10)",
        "staged through the host (2)",
    ]
    for axes in plot_pairs(uneven).axes:
        boxes = [p for p in axes.patches if isinstance(p, Rectangle)]
        assert [(round(p.get_x()), round(p.get_y())) for p in boxes] == [(2, 1), (1, 2)]


def test_cells_are_the_links_of_their_pairs() -> None:
    left, right = plot_pairs(SHIPPED).axes
    names = [d.name for d in SHIPPED.devices]
    assert [t.get_text() for t in left.get_yticklabels()] == names
    cells = {t.get_position(): t.get_text() for t in left.texts}
    for column, target in enumerate(names[1:], 1):
        assert cells[column, 0] == f"{SHIPPED.link('cpu', target).bandwidth_bytes_per_s / 1e9:.3g}"
    own = SHIPPED.link("cuda:0", "cuda:0").bandwidth_bytes_per_s / 1e9
    assert cells[1, 1] == f"{own:.0f}" > "2000"  # memory of a GPU
    latency_us = SHIPPED.link("cuda:0", "cuda:1").latency_s * 1e6
    assert next(t.get_text() for t in right.texts if t.get_position() == (2, 1)) == f"{latency_us:.3g}"


def test_pairs_without_a_link_and_links_without_latency_are_shown() -> None:
    bare = built(gpus=2).without_link("cuda:0", "cuda:1").without_link("cpu", "cuda:1", memory="pageable")
    lone = replace(bare, links=tuple(k for k in bare.links if "cuda:1" not in (k.source, k.target)))
    left, right = plot_pairs(lone).axes
    assert {t.get_text() for t in left.texts} == {"–", "1e-07"}
    assert {t.get_text() for t in right.texts} == {"–", "0"}
    plot_links(lone).draw_without_rendering()  # no measured points


def test_hosts_without_gpus() -> None:
    devices = Device("cpu", "cpu"), Device("worker:0", "worker"), Device("worker:1", "worker")
    links = tuple(
        Link(a.name, b.name, "peer" if "cpu" not in (a.name, b.name) else "pinned", 1e-6, 1e10)
        for a in devices
        for b in devices
        if a != b
    )
    figure = plot_links(Platform("cpus", devices, links))
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "host and workers, pinned memory",
        "between workers",
    ]
    assert "nominal" not in str(worded(figure))


def test_an_odd_number_of_panels() -> None:
    figure = plot_links(replace(SHIPPED, links=tuple(k for k in SHIPPED.links if k.memory != "peer")))
    assert [axes.axison for axes in figure.axes] == [True, True, True, False]


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_pictures_are_the_same_bytes_every_time(suffix: str, tmp_path: Path) -> None:
    for plot in (plot_links, plot_pairs):
        paths = [tmp_path / f"{k}.{suffix}" for k in range(2)]
        for path in paths:
            plot(SHIPPED, path)
        assert paths[0].read_bytes() == paths[1].read_bytes()


def test_both_pictures_of_a_platform(tmp_path: Path) -> None:
    paths = draw_platform(SHIPPED, tmp_path / "new")
    assert [path.name for path in paths] == ["h200-x4-links.png", "h200-x4-pairs.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)


def test_links_that_no_panel_is_for() -> None:
    """Two hosts and the network between them: pairs can be drawn, curves cannot."""
    hosts = Device("host0", "cpu"), Device("host1", "cpu")
    network = Platform("two", hosts, (Link("host0", "host1", "network", 1e-5, 1e9),))
    with pytest.raises(OutputError, match=r"platform 'two' has only links \(network\) .* plot_pairs draws all"):
        plot_links(network)
    assert "1" in [text.get_text() for text in plot_pairs(network).axes[0].texts]


def test_nothing_to_draw_and_no_picture_to_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for plot in (plot_links, plot_pairs):
        with pytest.raises(OutputError, match="nothing to draw: platform 'bare' has no links"):
            plot(Platform("bare", (Device("cpu", "cpu"),)))
        with pytest.raises(OutputError, match=r"ends in \.png, \.svg or \.pdf"):
            plot(SHIPPED, tmp_path / "x.jpg")
        with pytest.raises(OutputError, match="cannot write"):
            plot(SHIPPED, tmp_path / "file" / "x.png")
