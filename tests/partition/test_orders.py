from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsched.errors import DeadlockError, WorkloadError
from graphsched.partition.orders import Step, as_text, most_in_flight, steps_of, timetable
from tests.partition.bubbles import bubble_fraction

SIZES = [(devices, micro_batches) for devices in (1, 2, 3, 4, 8) for micro_batches in (1, 2, 3, 4, 8, 16)]
INTERLEAVED = [(p, m, v) for p, m in SIZES for v in (2, 3) if m % max(1, m // p) == 0]


def bubble(rows: list[list[Step]], forward_s: float, backward_s: float) -> float:
    """Part of the time at which devices wait."""
    seconds = {"F": forward_s, "B": backward_s}
    makespan_s = max(start.start_s + seconds[start.step.kind] for start in timetable(rows, forward_s, backward_s))
    busy_s = sum(seconds[step.kind] for row in rows for step in row)
    return 1 - busy_s / makespan_s / len(rows)


def test_gpipe_does_all_forward_passes_first() -> None:
    assert as_text(steps_of("gpipe", 2, 3)).splitlines() == ["F0 F1 F2 B0 B1 B2"] * 2


def test_1f1b_turns_back_as_soon_as_it_can() -> None:
    assert as_text(steps_of("1f1b", 4, 6)).splitlines() == [
        "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5",
        "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5",
        "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5",
        "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5",
    ]


def test_interleaved_goes_round_the_devices() -> None:
    """As ScheduleInterleaved1F1B of torch 2.13 has it for 2 ranks, 2 stages each and 4 micro-batches."""
    assert as_text(steps_of("interleaved", 2, 4, chunks=2)).splitlines() == [
        "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3",
        "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3",
    ]


@pytest.mark.parametrize(("devices", "micro_batches"), SIZES)
@pytest.mark.parametrize("order", ["gpipe", "1f1b"])
@pytest.mark.parametrize("backward_s", [1.0, 2.0, 3.5])
def test_the_bubble_is_the_published_one(order: str, devices: int, micro_batches: int, backward_s: float) -> None:
    rows = steps_of(order, devices, micro_batches)  # type: ignore[arg-type]
    assert bubble(rows, 1.0, backward_s) == pytest.approx(bubble_fraction(devices, micro_batches))


@pytest.mark.parametrize(("devices", "micro_batches", "chunks"), INTERLEAVED)
def test_the_interleaved_bubble_is_smaller_by_the_chunks(devices: int, micro_batches: int, chunks: int) -> None:
    rows = steps_of("interleaved", devices, micro_batches, chunks)
    if micro_batches % devices == 0:
        assert bubble(rows, 1.0, 2.0) == pytest.approx(bubble_fraction(devices, micro_batches, chunks))


@pytest.mark.parametrize(("devices", "micro_batches"), SIZES)
def test_1f1b_keeps_no_more_micro_batches_than_stages_follow(devices: int, micro_batches: int) -> None:
    assert most_in_flight(steps_of("gpipe", devices, micro_batches)) == [micro_batches] * devices
    kept = most_in_flight(steps_of("1f1b", devices, micro_batches))
    assert kept == [min(micro_batches, devices - device) for device in range(devices)]


@given(st.sampled_from([(o, p, m, 1) for o in ("gpipe", "1f1b") for p, m in SIZES]
                       + [("interleaved", *sizes) for sizes in INTERLEAVED]))  # fmt: skip
def test_every_step_is_done_once_on_its_device_and_none_waits_for_ever(case: tuple[str, int, int, int]) -> None:
    order, devices, micro_batches, chunks = case
    rows = steps_of(order, devices, micro_batches, chunks)  # type: ignore[arg-type]
    for device, row in enumerate(rows):
        stages = range(device, devices * chunks, devices)
        assert sorted(row) == sorted(Step(k, s, m) for k in "FB" for s in stages for m in range(micro_batches))  # type: ignore[arg-type]
        for stage in stages:
            for kind in "FB":
                assert [s.micro_batch for s in row if s[:2] == (kind, stage)] == list(range(micro_batches))
    starts = timetable(rows)
    for device, row in enumerate(rows):
        assert [start.step for start in starts if start.device == device] == row


def test_steps_that_wait_for_each_other_are_named() -> None:
    """Device 0 turns back to micro-batch 0 before it sends 1; device 1 wants 1 first."""
    rows = [
        [Step("F", 0, 0), Step("B", 0, 0), Step("F", 0, 1), Step("B", 0, 1)],
        [Step("F", 1, 1), Step("B", 1, 1), Step("F", 1, 0), Step("B", 1, 0)],
    ]
    with pytest.raises(DeadlockError, match=r"line 1: 0B0 waits for 1B0, which is never over: F0 B0 F1 B1"):
        timetable(rows)


@pytest.mark.parametrize(
    ("order", "numbers", "message"),
    [
        ("zigzag", (2, 4, 1), "order is 'zigzag': one of 1f1b, gpipe, interleaved"),
        ("1f1b", (2, 0, 1), "micro_batches is 0"),
        ("1f1b", (2, 2.0, 1), "micro_batches is 2.0"),
        ("1f1b", (2, 4, 2), "order '1f1b' with chunks=2"),
        ("interleaved", (2, 4, 1), "order 'interleaved' with chunks=1"),
        ("interleaved", (2, 5, 2), "5 micro-batches cannot be interleaved in 2 equal rounds on 2 devices"),
    ],
)
def test_what_does_not_go_together_is_refused(order: str, numbers: tuple[int, int, int], message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        steps_of(order, *numbers)  # type: ignore[arg-type]


@pytest.mark.parametrize("chunks", [2, 3, 4])
@pytest.mark.parametrize("devices", [1, 2, 3, 4, 8])
def test_interleaved_rows_are_those_of_torch(devices: int, chunks: int) -> None:
    """Without its waits: torch.distributed.pipelining's ScheduleInterleaved1F1B, for all numbers that both can do."""
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
    for micro_batches in (1, 2, 3, 4, 6, 8, 9, 16):
        rounds = max(1, micro_batches // devices)
        if micro_batches % rounds:
            continue
        theirs = schedules.ScheduleInterleaved1F1B.__new__(schedules.ScheduleInterleaved1F1B)
        theirs.n_local_stages, theirs.pp_group_size, theirs.rank = chunks, devices, 0
        theirs.number_of_rounds, theirs.microbatches_per_round = rounds, micro_batches // rounds
        theirs._n_microbatches, theirs.stage_index_to_group_rank = micro_batches, {}
        rows = steps_of("interleaved", devices, micro_batches, chunks)
        for device, row in enumerate(rows):
            steps = [step for step in theirs._calculate_single_rank_operations(device) if step is not None]
            kinds = ["F" if step.computation_type.name == "FORWARD" else "B" for step in steps]
            wanted = [f"{s.stage_index}{kind}{s.microbatch_index}" for s, kind in zip(steps, kinds, strict=True)]
            assert [str(step) for step in row] == wanted
