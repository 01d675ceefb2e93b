"""Gradients summed in one place or in shares: which cases there are, what they send, what the text says."""

from __future__ import annotations

from typing import Any

import pytest

import graphsched as gs
from experiments import parameter_server
from experiments._pcie import only_pcie
from experiments.parameter_server import STRATEGIES, summed
from experiments.ring import measured
from graphsched.cases import Case
from graphsched.errors import ExperimentError
from graphsched.platform import Platform
from tests.experiments.small import hand_written, load

NAME = "parameter_server"
WORKERS = hand_written("worker", 3)
H200 = Platform.load("h200-x4")


def cases(platform: Any = H200, **params: Any) -> dict[str, Case]:
    """By label, without steps unless they are asked for."""
    return {case.label: case for case in load(NAME).cases(platform, **({"trained": (), "devices": (4,)} | params))}


def predicted_s(case: Case, platform: Any, mode: str = "graph") -> float:
    assert case.work is not None
    plan = gs.schedule(case.work, platform, scheduler=case.scheduler, mode=mode)
    return gs.predict(plan, model=gs.Model(timing=False)).makespan_s


# -- sums alone ------------------------------------------------------------------------------------


def test_figures_of_the_text_stand_beside_its_own_case_only() -> None:
    reported = {
        label: case.reported_s for label, case in cases(devices=(2, 4), networks=(), mbytes=(16.0, 160.0)).items()
    }
    assert {label: figure for label, figure in reported.items() if figure is not None} == {
        "sum, server, 160 MB, 4 GPUs": 0.060,
        "sum, cpu, 160 MB, 4 GPUs": 0.080,
        "sum, sharded, 160 MB, 4 GPUs": 0.015,
    }
    assert len(reported) == 2 * 2 * len(STRATEGIES)


def test_gradients_are_those_of_the_networks() -> None:
    """LeNet: 129,068 numbers; ResNet-18: 11,172,810, and none for its running statistics."""
    made = cases(mbytes=(), strategies=("server",))
    found = {label: case.work.values["gradient0"].nbytes for label, case in made.items()}  # type: ignore[union-attr]
    assert found == {
        "sum, server, LeNet's gradients, 4 GPUs": 4 * 129_068,
        "sum, server, ResNet-18's gradients, 4 GPUs": 4 * 11_175_818,
    }


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("blocks", [1, 3])
def test_sums_are_right_and_bytes_those_of_the_strategy(strategy: str, blocks: int) -> None:
    """x0, x1, x2 of 12,000 bytes ──▶ sums on three workers."""
    devices = WORKERS.accelerators()
    found = measured(summed(devices, 0.012, strategy, blocks), WORKERS, devices)
    sends = {"server": 2, "cpu": 3, "sharded": 4 / 3, "ring": 4 / 3}
    if strategy != "library":  # which sends as it likes
        assert found["busiest_sends_gradients"] == pytest.approx(sends[strategy], rel=0.02)
    assert found["max_abs_difference"] < 1e-6


def test_the_texts_argument_on_its_machine() -> None:
    """All links 16 GB/s: the text's arithmetic, and no more than the additions on top of it."""
    slow = only_pcie(H200)
    assert slow.notes == ("figures of a derived platform: all links 16 GB/s, by a full-bandwidth switch",)
    made = cases(slow, networks=())
    for strategy, said_s in parameter_server.TEXT_S.items():
        for mode in ("eager", "graph"):
            found = predicted_s(made[f"sum, {strategy}, 160 MB, 4 GPUs"], slow, mode)
            assert said_s < found < 1.06 * said_s


def test_blocks_travel_back_while_others_are_summed() -> None:
    slow = only_pcie(H200)
    one, eight = (cases(slow, networks=(), strategies=("server",), blocks=blocks) for blocks in (1, 8))
    label = "sum, server, 160 MB, 4 GPUs"
    assert predicted_s(eight[label], slow) < 0.6 * predicted_s(one[label], slow)


def test_blocks_of_a_ring_are_those_of_each_device() -> None:
    """Six blocks are added twice each on their way round three devices."""
    adds = [task for task in summed(WORKERS.accelerators(), 0.012, "ring", 2).tasks if "/add/" in task.name]
    assert len(adds) == 6 * 2


# -- steps -----------------------------------------------------------------------------------------


def test_steps_stand_without_sums_and_with_sums_after_and_beside_the_backward_pass() -> None:
    made = cases(networks=(), mbytes=(), trained=("LeNet",), devices=(1, 2), strategies=("server", "ring"))
    assert list(made) == [
        "step, LeNet, no sums, batch 256, 1 GPU",
        "step, LeNet, no sums, batch 256, 2 GPUs",
        "step, LeNet, server, sums after backward, batch 256, 2 GPUs",
        "step, LeNet, server, 2 sums beside backward, batch 256, 2 GPUs",
        "step, LeNet, ring, sums after backward, batch 256, 2 GPUs",
        "step, LeNet, ring, 2 sums beside backward, batch 256, 2 GPUs",
    ]
    sums = {label: [name for name in case.work.graph if "bucket" in name] for label, case in made.items()}  # type: ignore[union-attr]
    assert [len([name for name in names if name.endswith(".0/sum")]) for names in sums.values()] == [0, 0, 1, 1, 0, 0]
    assert [any(".1/" in name for name in names) for names in sums.values()] == [False, False, False, True, False, True]


def test_sums_beside_the_backward_pass_are_hidden() -> None:
    """Where copies are slow and layers take long, only the last bucket's sum adds to the step."""
    slow = only_pcie(H200)
    made = cases(
        slow, networks=(), mbytes=(), trained=("ResNet-18",), batch=1024, strategies=("sharded",), devices=(2,)
    )
    apart, after, beside = (predicted_s(case, slow) for case in made.values())
    assert 0 < beside - apart < 0.5 * (after - apart)


def test_figures_of_a_real_run() -> None:
    made = cases(
        hand_written("worker", 2),
        networks=(),
        mbytes=(),
        trained=("LeNet",),
        strategies=("sharded",),
        devices=(2,),
        batch=4,
        steps=2,
    )
    apart, after, beside = (case.in_mode("eager").metrics for case in made.values())
    assert apart is not None
    assert after is not None
    assert beside is not None
    assert "exposed_s" not in apart()
    one, several = after(), beside()
    assert (one["buckets"], one["bucket_bytes"]) == (1.0, 516_272.0)
    assert several["buckets"] > 1
    assert several["bucket_bytes"] < 516_272.0
    assert one.keys() == several.keys() >= {"exposed_s", "exposed_predicted_s", "step_s", "step_predicted_s"}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"networks": ("VGG",)}, "no network 'VGG': there are LeNet, ResNet-18"),
        ({"trained": ("VGG",)}, "no network 'VGG': there are LeNet, ResNet-18"),
        ({"strategies": ("gossip",)}, "no strategy 'gossip': there are server, cpu, sharded, ring"),
        ({"trained": ("LeNet",), "batch": 3}, "a batch of 3 cannot be split over 4 devices"),
        ({"trained": ("LeNet",), "steps": 1}, "parameter 'steps' is 1: 2 or more"),
    ],
)
def test_what_cannot_be_done_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ExperimentError, match=words):
        cases(**wrong)
