"""Figures of dispatch from chains and from runs of one task, on devices that are played."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import cuda_dispatch as module
from graphsched.calibration.cuda_dispatch import COPIED_BYTES, COPIES, SHORT_ELEMENTS, chain_figures, copies_in
from tests.calibration.streams import Event, Stream

TINY_S, SHORT_S, GAP_S, SAME_S, EDGE_S, FAR_S = 2.0, 16.0, 3.0, 0.25, 6.0, 5.0
BESIDE_S, SLOWED_S = 12.0, 0.5  # of the two events of an operation, and of a short operation, beside copies
SPINNERS = [SimpleNamespace(device=k) for k in range(2)]


@pytest.fixture
def chains(monkeypatch: pytest.MonkeyPatch) -> None:
    def chain_s(
        spinner: Any, lanes: list[Any], *, timed: bool = False, elements: int = 64, beside: Any = None
    ) -> float:
        short = elements == SHORT_ELEMENTS
        seconds = (SHORT_S if short else TINY_S) + (GAP_S + (BESIDE_S if beside else 0.0)) * timed
        if len(lanes) > 1:
            seconds += SAME_S + EDGE_S * timed if lanes[0].device.index == lanes[1].device.index else FAR_S
        return seconds + (SLOWED_S if beside else 0.0)

    monkeypatch.setattr(module, "chain_s", chain_s)
    monkeypatch.setattr(module, "new_stream", Stream)
    monkeypatch.setattr(module, "copies_in", lambda device: f"copies into {device}")


@pytest.mark.parametrize("gpus", [1, 2])
def test_what_chains_differ_in_is_told_apart(chains: None, gpus: int) -> None:
    """That a copy slows the kernels is no part of what it costs the events."""
    known = {"timed_gap_s": GAP_S, "timed_edge_s": EDGE_S, "timed_beside_s": BESIDE_S / 2, "same_device_s": SAME_S}
    assert chain_figures(SPINNERS[:gpus]) == known | ({"other_device_s": FAR_S} if gpus > 1 else {})


def test_copies_start_at_the_event_and_outlast_the_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, copied, made = Stream(0), [], torch.empty
    stream.device = torch.device("cpu")  # type: ignore[assignment]
    monkeypatch.setattr(module, "new_stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda current: contextlib.nullcontext())
    monkeypatch.setattr(torch, "empty", lambda size, *, pin_memory=False, **kwargs: made(size // 2**20, **kwargs))
    monkeypatch.setattr(torch.Tensor, "copy_", lambda to, source, non_blocking: copied.append((source, non_blocking)))
    queue, event = copies_in(0), Event()
    event.time_s = 7.0
    queue(event)
    assert stream.time_s == 7.0
    assert [(source.numel() * 2**20, lets_go) for source, lets_go in copied] == [(COPIED_BYTES, True)] * COPIES


@pytest.mark.gpu
def test_events_beside_copies_take_longer_on_this_gpu() -> None:
    from graphsched.calibration.cuda_clock import Spinner

    found = chain_figures([Spinner(0)])
    assert 0.0 < found["timed_gap_s"] < 2e-5
    assert 0.0 <= found["timed_beside_s"] < 5e-5


@pytest.mark.parametrize("gpus", [1, 2])
def test_figures_of_all_parts_are_put_together(gpus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ["call", "chain", "idle", "single", "graph", "copy_edge", "across", "step", "look"]
    for part in parts:
        monkeypatch.setattr(
            module, f"{part}_figures", lambda *_, part=part: {f"{part}_s": 1.0, "call_s": 2.0, "sync_s": 3.0}
        )
    monkeypatch.setattr(module, "company_calls", lambda devices: {"company_s": 0.5 * len(devices)})
    monkeypatch.setattr(module, "call_figures", lambda devices, company: {"call_s": 2.0, "sync_s": 3.0} | dict(company))
    for name in ("chain_s", "peer_join_s", "beside_s", "new_stream"):
        monkeypatch.setattr(module, name, lambda *_: 3.0)
    monkeypatch.setattr(module, "queue_depth", lambda spinner: 1000)
    monkeypatch.setattr(module, "launches_on", lambda devices: ((1, 1.0 * len(devices)),))
    monkeypatch.setattr(module, "launch_colds_on", lambda devices: (((20, 1e-6),), ((20, 2e-6),))[:gpus])
    found = module.cuda_dispatch([SimpleNamespace(device=k) for k in range(gpus)])  # type: ignore[misc]
    several = {"graph_peer_join_s", "graph_beside_in_s", "look_s", "graph_across_colds"} if gpus > 1 else set()
    assert found["company_s"] == 0.5 * gpus
    alone = {f"{part}_s" for part in parts if part != "look"} | {
        "company_s",
        "queue_depth",
        "graph_launches",
        "graph_colds",
        "sync_s",
    }
    assert set(found) == alone | several
