"""Names, versions and fingerprints of hosts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.calibration.host import (
    HostFacts,
    changes,
    cpu_model,
    driver_version,
    host_facts,
    platform_name,
    processor_name,
)

HERE = HostFacts("EPYC", 8, "2.11", "13.0", "580.1", ("NVIDIA H200", "NVIDIA H200"), 2)


def test_the_fingerprint_of_an_unchanged_host_shows_no_change() -> None:
    assert changes(HERE.fingerprint(), HERE.fingerprint()) == []
    assert changes(host_facts().fingerprint(), host_facts().fingerprint()) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"gpus": ("NVIDIA H200",), "gpu_count": 1}, "gpus was ['NVIDIA H200', 'NVIDIA H200'], is ['NVIDIA H200']"),
        ({"driver": "590.1"}, "driver was 580.1, is 590.1"),
        ({"torch": "2.13"}, "torch was 2.11, is 2.13"),
        ({"cores": 4}, "cores was 8, is 4"),
        ({"processor": "Xeon"}, "processor was EPYC, is Xeon"),
    ],
)
def test_each_change_is_named(change: dict, text: str) -> None:
    assert text in changes(HERE.fingerprint(), replace(HERE, **change).fingerprint())


def test_an_entry_that_is_gone_counts_as_a_change() -> None:
    assert changes({"old": 1}, {}) == ["old was 1, is None"]


def test_names_of_platforms() -> None:
    assert platform_name(HERE) == "h200-x2"
    assert platform_name(replace(HERE, gpus=("NVIDIA A100-SXM4-80GB",))) == "a100-sxm4-80gb-x1"
    assert platform_name(replace(HERE, gpus=())) == "cpu-x8"


def test_processor_and_driver_are_read_from_the_systems_text() -> None:
    assert processor_name("vendor_id : X\nmodel name\t: AMD EPYC\nmodel name\t: other") == "AMD EPYC"
    assert cpu_model("AMD EPYC", 64) == "AMD EPYC, 64 threads"
    text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\nGCC version: gcc 13.3.0"
    assert driver_version(text) == "580.95.05"
    assert driver_version("") is None
