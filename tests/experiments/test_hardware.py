"""Row 11: which transfers are timed, and what stands beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphsched.cli import main
from graphsched.platform import Platform
from graphsched.simulator import predict
from tests.experiments.small import cases, hand_written, load, plan_of

SIZES = (4096, 2**26)
H200 = Platform.load("h200-x2")


def test_every_link_with_the_host_and_every_pair_at_every_size() -> None:
    labels = set(cases("hardware", H200, sizes=SIZES))
    where = [
        *(f"{a}, pinned memory" for i in range(2) for a in (f"CPU to GPU {i}", f"GPU {i} to CPU")),
        "GPU 0 to GPU 1",
        "GPU 1 to GPU 0",
        "GPU 0 to CPU, pageable memory",
        "GPU 0 to CPU, new memory",
        "GPU 0 to CPU and back, pageable memory",
    ]
    assert labels == {f"{name}, {size}" for name in where for size in ("4 KiB", "64 MiB")}
    assert len(cases("hardware", Platform.load("h200-x4"), sizes=(4096,))) == 4 * 2 + 12 + 3
    assert len(cases("hardware", Platform.load("h200-x4"), sizes=(4096,), devices=1)) == 2 + 3


@pytest.mark.parametrize(
    ("label", "ends"),
    [
        ("CPU to GPU 1, pinned memory, 64 MiB", ("cpu", "cuda:1", "pinned")),
        ("GPU 0 to CPU, pinned memory, 64 MiB", ("cuda:0", "cpu", "pinned")),
        ("GPU 0 to CPU, pageable memory, 64 MiB", ("cuda:0", "cpu", "pageable")),
        ("GPU 0 to CPU, new memory, 64 MiB", ("cuda:0", "cpu", "fresh")),
        ("GPU 1 to GPU 0, 64 MiB", ("cuda:1", "cuda:0", "peer")),
    ],
)
def test_a_case_is_one_transfer_over_its_link(label: str, ends: tuple[str, str, str]) -> None:
    case = cases("hardware", H200, sizes=SIZES)[label]
    link = H200.link(*ends)
    plan = plan_of(case, H200)
    (copy,) = plan.copies.values()
    assert (copy.source, copy.target, copy.memory) == (ends if "cpu" in ends else (*ends[:2], "pinned"))
    assert predict(plan).makespan_s == pytest.approx(link.duration_s(2**26), rel=0.1, abs=5e-5)
    assert case.metrics is not None
    figures = case.metrics()
    assert figures["rate_bytes_per_s"] == link.bandwidth_bytes_per_s
    assert figures["latency_s"] == link.latency_s
    assert figures["vendor_bytes_per_s"] == (450e9 if ends[2] == "peer" else 64e9)
    assert figures["text_bytes_per_s"] == (225e9 if ends[2] == "peer" else 32e9)


def test_there_and_back_uses_pageable_memory_both_ways() -> None:
    case = cases("hardware", H200, sizes=(4096,))["GPU 0 to CPU and back, pageable memory, 4 KiB"]
    assert [copy.memory for copy in plan_of(case, H200).copies.values()] == ["pageable", "pageable"]


def test_the_texts_figures_are_shown_where_it_gives_some() -> None:
    reported = {label: case.reported_s for label, case in cases("hardware", H200, sizes=SIZES).items()}
    assert reported["CPU to GPU 0, pinned memory, 4 KiB"] == pytest.approx(5e-6 + 4096 / 32e9)
    assert reported["GPU 0 to GPU 1, 64 MiB"] == pytest.approx(2**26 / 225e9)
    assert reported["GPU 0 to GPU 1, 4 KiB"] is None
    assert reported["GPU 0 to CPU, pageable memory, 64 MiB"] is None
    assert not any(case.reported_s for case in cases("hardware", hand_written("worker", 2)).values())


def test_pairs_without_peer_access_are_timed_through_the_host() -> None:
    labels = cases("hardware", H200.without_link("cuda:0", "cuda:1"), sizes=(4096,))
    assert "GPU 0 to GPU 1, via the host, 4 KiB" in labels


def test_odd_sizes_have_names_of_their_own() -> None:
    assert "worker 0 to worker 1, 1000 bytes" in cases("hardware", hand_written("worker", 2), sizes=(1000,))


def test_a_run_draws_the_platform(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = hand_written("worker", 2)
    host.save(tmp_path / "two.json")
    words = [
        "--platform",
        str(tmp_path / "two.json"),
        "--repeats",
        "1",
        "-p",
        "sizes=64",
        "--cases",
        "worker 0 to worker 1",
    ]
    file = str(load("hardware").path)
    assert main(["run", file, *words, "--out", str(tmp_path / "out"), "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    drawn = [str(tmp_path / "out" / f"worker x2-{kind}.png") for kind in ("links", "pairs")]
    assert files[-2:] == drawn
    assert all(Path(name).is_file() for name in drawn)
    assert main(["run", file, *words, "--out", str(tmp_path / "none"), "--no-pictures", "--json"]) == 0
    assert not list((tmp_path / "none").glob("*.png"))
