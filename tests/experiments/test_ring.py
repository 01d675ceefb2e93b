"""Sums of gradients by ring and by other ways: which cases there are, what they send, and that the sums are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import graphsched as gs
from experiments._blocks import blocks_of, draw, largest_rings
from experiments.ring import PIPELINED, WAYS, gradients, measured, plain_all_reduce, summed
from graphsched.cases import Case
from graphsched.cli.refusals import without_refused
from graphsched.cli.request import Request
from graphsched.errors import ExperimentError
from graphsched.records import CaseRecord, RunRecord, load_run, save_run
from tests.experiments.small import hand_written, load

WORKERS = hand_written("worker", 3)


def cases(gpus: int, **params: Any) -> dict[str, Case]:
    """By label, at a small size."""
    made = load("ring").cases(hand_written("cuda", gpus), **({"mbytes": (0.004,)} | params))
    return {case.label: case for case in made}


def test_every_way_is_a_case_for_every_number_of_devices_that_there_are() -> None:
    found = [label for label in cases(3) if "allreduce" not in label and "NCCL" not in label]
    assert found == [
        "gather, 0.004 MB, 1 GPU",
        *(f"{way}, 0.004 MB, 2 GPUs" for way in WAYS),
        *(f"{way}, 0.004 MB, 3 GPUs" for way in WAYS),
    ]
    assert "the text's allreduce, 0.004 MB, 3 GPUs" in cases(3)
    assert [label for label in cases(3) if "NCCL" in label] == ["NCCL, 0.004 MB, 2 GPUs", "NCCL, 0.004 MB, 3 GPUs"]


@pytest.mark.parametrize("way", WAYS)
def test_sums_are_right_and_bytes_those_of_the_way(way: str) -> None:
    """x0, x1, x2 of 1,200 bytes ──▶ sums on three workers."""
    devices = WORKERS.accelerators()
    found = measured(summed(WORKERS, devices, 0.0012, way, 1), WORKERS, devices)
    sends = dict.fromkeys(WAYS, 4 / 3) | {"auto": 2, "gather": 2, "cpu": 3, "server": 2, "tree": 2, "halving": 2}
    if way != "library":  # which sends as it likes
        assert found["busiest_sends_gradients"] == pytest.approx(sends[way], rel=0.02)
        assert found["busiest_sends_bytes"] == pytest.approx(1200 * sends[way], rel=0.02)
    assert found["max_abs_difference"] < 1e-6


@pytest.mark.parametrize("name", ["ring", "parameter_server"])
def test_on_hosts_without_a_cpu_only_the_sum_there_is_left_out(name: str) -> None:
    """cpu ── cuda:0 ══network══ cuda:1: no copy from cuda:1 to the cpu, on which one of all ways sums."""
    hosts = gs.topologies.two_level(hosts=2, gpus=1, host=hand_written("cuda", 1))
    small: dict[str, Any] = {"mbytes": (0.004,), "devices": (2,)}
    experiment, more = load(name), {"networks": (), "trained": ()} if name == "parameter_server" else {}
    made = [case.in_mode("distributed") for case in experiment.cases(hosts, **small, **more) if not case.is_baseline]
    request = Request(experiment, {}, hosts, hosts.costs, list(enumerate(made, 1)))
    left, notes = without_refused(request)
    assert [case.label for _, case in left.cases] == [case.label for case in made if "cpu" not in case.label]
    assert len(left.cases) == len(made) - 1
    assert len(notes) == 1
    assert "no link from 'cuda:1' to 'cpu'" in notes[0]


def test_all_ways_have_their_gradients_in_the_same_memory() -> None:
    """x0 ──▶ sum ──▶ on both, ten times: the ten share the one tensor that x0 and x1 are parts of."""
    works = [case.work for label, case in cases(2).items() if label.endswith("2 GPUs") and case.work is not None]
    stores = {tensor.untyped_storage().data_ptr() for work in works for tensor in work.tensors.values()}
    assert len(works) == len(WAYS)
    assert len(stores) == 1


def test_blocks_are_those_of_each_device() -> None:
    devices = WORKERS.accelerators()
    for way in PIPELINED:
        one, four = (len(summed(WORKERS, devices, 0.012, way, blocks)) for blocks in (1, 4))
        assert four > 3 * (one - 6)


def test_the_texts_all_reduce() -> None:
    """The first call sums; the sums are on all devices."""
    devices = WORKERS.accelerators()
    expected = sum(gradients(devices, 0.001))
    found = plain_all_reduce(devices, 0.001)()
    assert all(torch.equal(one, expected) for one in found)


@pytest.mark.parametrize("parameter", ["mbytes", "devices", "blocks"])
def test_nothing_to_do_is_a_wrong_request(parameter: str) -> None:
    values = load("ring").values(**{parameter: "0"})
    with pytest.raises(ExperimentError, match=f"parameter '{parameter}' is 0"):
        list(load("ring").cases(WORKERS, **values))


def test_an_unknown_way() -> None:
    with pytest.raises(ExperimentError, match="no way 'star': there are gather, cpu"):
        cases(2, ways=("star",))


RECORDED = Path(__file__).parents[2] / "experiments" / "results" / "h200-x4" / "ring.json"


@pytest.mark.parametrize(("way", "blocks", "downward"), [("ring", 3, 0), ("rings", 6, 12)])
def test_every_copy_of_a_ring_bears_the_number_of_its_block(way: str, blocks: int, downward: int) -> None:
    """On three GPUs each block goes over a link four times, those of the second ring the other way."""
    platform = hand_written("cuda", 3)
    work = summed(platform, platform.accelerators(), 0.012, way, 1)
    plan = gs.schedule(work, platform, scheduler="one_stream")
    found = blocks_of(gs.predict(plan))
    assert len(found) == len(plan.copies)
    assert [sum(block.number == k for block in found) for k in range(blocks)] == [4] * blocks
    down = {"cuda:0>cuda:2", "cuda:1>cuda:0", "cuda:2>cuda:1"}
    assert sum(block.link in down for block in found) == downward
    assert all((block.number >= 3) == (block.link in down) for block in found)


def test_a_run_draws_its_largest_ring_and_two_rings_of_the_same(tmp_path: Path) -> None:
    record = load_run(RECORDED)
    assert [case.label for case in largest_rings(record.cases)] == ["ring, 160 MB, 4 GPUs", "rings, 160 MB, 4 GPUs"]
    small = [case for case in record.cases if case.label.endswith("1 MB, 2 GPUs")]
    save_run(RunRecord("ring", "", tuple(small)), tmp_path)
    (path,) = draw(gs.Platform.load("h200-x4"), tmp_path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert load("ring").pictures is draw


def test_a_run_without_a_ring_draws_none(tmp_path: Path) -> None:
    rest: tuple[CaseRecord, ...] = tuple(
        case for case in load_run(RECORDED).cases if not case.label.startswith("ring,")
    )
    save_run(RunRecord("ring", "", rest), tmp_path)
    assert draw(gs.Platform.load("h200-x4"), tmp_path) == ()
