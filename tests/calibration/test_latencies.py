"""Times to know: where each comes from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.calibration.latencies import latency_rows
from graphsched.platform import Device, Dispatch, Link, Platform

LINKS = (
    Link("cpu", "cuda:0", "pinned", 1e-6, 1e9),
    Link("cpu", "cuda:1", "pinned", 3e-6, 1e9),
    Link("cuda:0", "cpu", "pinned", 5e-6, 1e9),
    Link("cuda:0", "cuda:1", "peer", 7e-6, 1e10),
    Link("cuda:0", "cuda:0", "local", 0.0, 1e12),
    Link("cpu", "cpu", "local", 0.0, 1e11),
    Link("cuda:0", "cpu", "pageable", 0.0, 2e9),
)
HOST = Platform(
    "hand",
    (Device("cpu", "cpu", flop_per_s=1e12), *(Device(f"cuda:{i}", "cuda", flop_per_s=4e13) for i in range(2))),
    LINKS,
    dispatch=Dispatch(launch_s=2e-6, other_device_s=6e-6, record_s=1e-6),
)


def shown(platform: Platform) -> dict[str, tuple[float | None, float | None]]:
    return {row.what: (row.measured, row.nominal) for row in latency_rows(platform)}


def test_each_time_is_the_platforms_beside_the_texts() -> None:
    rows = shown(HOST)
    for what, want in {
        "launch of a kernel on an idle stream": (2.0, 10.0),
        "event recorded, on the host": (1.0, None),
        "edge to another GPU": (6.0, None),
        "4 KB to a GPU over PCIe": (2.0 + 4.096, 5.0),  # the median of two
        "1 MB to a GPU over PCIe": (1002.0, 80.0),
        "1 MB from a GPU over PCIe": (1005.0, 80.0),
        "1 MB from GPU to GPU over NVLink": (107.0, 30.0),
        "1 MB within a GPU's memory": (1.0, None),
        "1 MB within the host's memory": (10.0, None),
        "1 MB from a GPU, pageable": (500.0, None),
        "fp32 product of 4096² matrices on a GPU": (2 * 4096**3 / 4e13 * 1e6, None),
        "fp32 product of 4096² matrices on a CPU lane": (2 * 4096**3 / 1e12 * 1e6, None),
    }.items():
        assert rows[what] == (pytest.approx(want[0]), want[1]), what
    assert "1 MB from GPU to GPU, staged through the host" not in rows


def test_edges_to_copies_are_shown_where_they_were_measured() -> None:
    names = {f"edge between a kernel and a copy, {ends}" for ends in ("host and GPU", "GPU to GPU")}
    edges = replace(HOST.dispatch, copy_edge_s=2e-6, peer_edge_s=3e-6)
    rows = shown(replace(HOST, dispatch=edges))
    assert [rows[name][0] for name in sorted(names)] == pytest.approx([3.0, 2.0])
    assert not names & set(shown(HOST))


def test_rows_ascend_and_what_was_not_measured_comes_last() -> None:
    rows = latency_rows(replace(HOST, links=tuple(k for k in LINKS if k.memory != "peer")))
    measured = [row.measured for row in rows if row.measured is not None]
    assert measured == sorted(measured)
    assert [row.what for row in rows if row.measured is None] == ["1 MB from GPU to GPU over NVLink"]
    assert rows[-1].measured is None
    assert {row.unit for row in rows} == {"µs"}
    assert {row.source for row in rows if row.nominal is not None} == {"d2l.ai 12.4"}


def test_one_gpu_has_no_other() -> None:
    one = replace(HOST, devices=HOST.devices[:2], links=tuple(k for k in LINKS if "cuda:1" not in str(k)))
    assert not any("another GPU" in what for what in shown(one))


def test_a_host_without_gpus_has_its_own() -> None:
    rows = shown(Platform("cpus", (Device("cpu", "cpu"),), (Link("cpu", "cpu", "local", 0.0, 1e9),)))
    assert list(rows) == sorted(rows, key=lambda what: rows[what][0] or 0.0)
    assert set(rows) == {
        "task handed to a CPU lane",
        "start of a CPU lane that slept",
        "1 MB within the host's memory",
        "fp32 product of 4096² matrices on a CPU lane",
    }
    bare = shown(Platform("bare", (Device("worker:0", "worker"),)))
    assert set(bare) == {"task handed to a CPU lane", "start of a CPU lane that slept"}
