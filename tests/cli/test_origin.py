"""Platforms that are not this host's: predictions say so, runs are refused where they cannot be."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from graphsched.calibration import host as host_module
from graphsched.calibration.host import HostFacts, host_facts
from graphsched.cli.origin import check_gpus_here, platform_notes
from graphsched.errors import PlatformError
from graphsched.platform import Device, Platform

GPUS = HostFacts("EPYC", 8, "2.11", "13.0", "580.1", ("NVIDIA H200", "NVIDIA H200"), 2)


def measured_on(facts: HostFacts) -> Platform:
    devices = Device("cpu", "cpu"), *(Device(f"cuda:{i}", "cuda", name) for i, name in enumerate(facts.gpus))
    return Platform("there", devices, provenance={"fingerprint": facts.fingerprint()})


def test_figures_of_another_host_are_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "host_facts", lambda: replace(GPUS, driver="590.2"))
    assert platform_notes(measured_on(GPUS)) == ("figures of another host: driver was 580.1, is 590.2",)
    monkeypatch.setattr(host_module, "host_facts", lambda: GPUS)
    assert platform_notes(measured_on(GPUS)) == ()
    assert platform_notes(Platform("by hand", (Device("cpu", "cpu"),))) == ()


def test_a_derived_platform_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "host_facts", lambda: replace(GPUS, cores=4))
    assert platform_notes(measured_on(GPUS).scaled(1)) == (
        "figures of a derived platform: 1 accelerators in place of 2",
        "figures of another host: cores was 8, is 4",
    )


def test_runs_need_the_platforms_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "host_facts", lambda: replace(GPUS, gpus=("NVIDIA H200", "NVIDIA A100")))
    check_gpus_here(measured_on(replace(GPUS, gpus=("NVIDIA H200",))))
    with pytest.raises(
        PlatformError, match="cuda:1 of platform 'there' is 'NVIDIA H200', this host's is 'NVIDIA A100'"
    ):
        check_gpus_here(measured_on(GPUS))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    with pytest.raises(
        PlatformError,
        match=r"has cuda:2, cuda:3, this host has 2 GPU\(s\), CUDA_VISIBLE_DEVICES is '5,7': predict instead of run",
    ):
        check_gpus_here(measured_on(replace(GPUS, gpus=("NVIDIA H200",) + ("NVIDIA A100",) * 3)))
    nameless = Platform("by hand", (Device("cpu", "cpu"), Device("cuda:0", "cuda")))
    check_gpus_here(nameless)


def test_commands_print_the_notes(call, here) -> None:
    two = Platform.load("two.json")
    facts = replace(host_facts(), driver="1.2")
    replace(two, provenance={"fingerprint": facts.fingerprint()}).scaled(3).save("three.json")
    called = call("predict", "pair", "--platform", "three.json", "--json")
    assert called.code == 0, called.err
    assert called.json["notes"] == [
        "figures of a derived platform: 3 accelerators in place of 2",
        f"figures of another host: driver was 1.2, is {host_facts().driver}",
    ]
    assert "note: figures of a derived platform" in call("predict", "pair", "--platform", "three.json").out
    words = (
        "run",
        "pair",
        "--platform",
        "three.json",
        "--repeats",
        "1",
        "--cases",
        "heft",
        "--out",
        "out",
        "--no-pictures",
    )
    assert len(call(*words, "--json").json["notes"]) == 2
    assert "notes" not in call("predict", "pair", "--platform", "two.json", "--json").json


def test_a_broken_platform_is_named_with_its_file(call, here) -> None:
    data = json.loads((here / "two.json").read_text())
    data["links"][1]["latency_s"] = -1.0
    (here / "bad.json").write_text(json.dumps(data))
    called = call("predict", "pair", "--platform", "bad.json")
    assert called.code == 2
    assert (
        called.err
        == "error: bad.json: links[1]: latency_s of link cpu>worker:0 (pinned) is -1.0: it must be at least 0\n"
    )
