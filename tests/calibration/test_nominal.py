"""Nominal figures beside measured ones."""

from __future__ import annotations

import pytest

from graphsched.calibration import nominal_rows
from graphsched.platform import Device, Link, Platform

GPUS = Platform(
    "gpus",
    (
        Device("cpu", "cpu"),
        Device("cuda:0", "cuda", "NVIDIA H200", flop_per_s=50e12, bytes_per_s=4e12),
        Device("cuda:1", "cuda", "NVIDIA H200"),
    ),
    (
        Link("cpu", "cuda:0", "pinned", 9e-6, 55e9),
        Link("cuda:0", "cpu", "pinned", 8e-6, 54e9),
        Link("cuda:0", "cuda:1", "peer", 16e-6, 390e9),
        Link("cpu", "cpu", "local", 0.0, 10e9),
    ),
)


def test_measured_figures_stand_beside_nominal_ones() -> None:
    rows = {r.what: (r.nominal, r.measured) for r in nominal_rows(GPUS)}
    assert rows["PCIe 4.0 x16, host to GPU"] == pytest.approx((32.0, 55.0))
    assert rows["PCIe 4.0 x16, GPU to host"] == pytest.approx((32.0, 54.0))
    assert rows["PCIe latency"] == pytest.approx((5.0, 8.0))
    assert rows["DDR4 module"] == pytest.approx((20.0, 20.0))
    assert rows["NVIDIA H200, NVLink each way"] == pytest.approx((450.0, 390.0))
    assert rows["NVIDIA H200, fp32"] == pytest.approx((67.0, 50.0))


def test_a_host_without_gpus_has_the_texts_rows_only() -> None:
    links = (Link("cpu", "worker:0", "pinned", 1e-6, 9e9),)
    rows = nominal_rows(Platform("cpus", (Device("cpu", "cpu"), Device("worker:0", "worker")), links))
    assert {r.source for r in rows} == {"d2l.ai 12.4"}
    assert all(r.measured is None for r in rows)
