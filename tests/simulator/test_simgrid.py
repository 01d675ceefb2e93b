"""Transfers of random patterns end when SimGrid says that they end.

Each transfer k of a pattern has a lane of its own, and a task that takes until its start:

    from_k on cuda:2k (start_s) --nbytes--> to_k on cuda:2k+1,   link k crossing the shared capacities

SimGrid's answers stand in `simgrid/answers.json`, beside the script that asks it.

Where SimGrid's model is another one: its shares are in inverse proportion to the transfers' latencies, as
TCP's are to round trips, where `Network` gives equal ones. Among equal latencies the two are the same;
among unequal ones they are as soon as each transfer is cut into as many as its share in SimGrid has parts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from graphsched.platform import Device, Link, Platform
from graphsched.simulator import predict
from tests.builders import FREE, planned, workload
from tests.simulator.simgrid.make_answers import ANSWERS, SEED, SETTINGS, Pattern, Transfer, patterns

FILE: dict[str, Any] = json.loads(ANSWERS.read_text())
UNEQUAL = "unequal latencies"
CASES = [(pattern, answer["end_s"]) for pattern, answer in zip(patterns(), FILE["patterns"], strict=True)]
EQUAL_CASES = [case for case in CASES if case[0].kind != UNEQUAL]
UNEQUAL_CASES = [case for case in CASES if case[0].kind == UNEQUAL]


def hand_made(pattern: Pattern) -> Platform:
    """A pair of devices and a link a transfer, and the capacities that they share."""
    capacities = {f"shared {k}": rate for k, rate in enumerate(pattern.capacities)}
    links = [
        Link(f"cuda:{2 * k}", f"cuda:{2 * k + 1}", "peer", t.latency_s, t.limit_bytes_per_s,
             tuple(f"shared {c}" for c in t.crosses))
        for k, t in enumerate(pattern.transfers)
    ]  # fmt: skip
    devices = [Device("cpu", "cpu"), *(Device(f"cuda:{k}", "cuda", "GPU") for k in range(2 * len(links)))]
    return Platform("hand", tuple(devices), tuple(links), capacities, FREE)


def ends(pattern: Pattern) -> list[float]:
    """When each transfer ends, as predicted."""
    numbered = list(enumerate(pattern.transfers))
    work = workload(
        {f"from{k}": t.start_s for k, t in numbered} | {f"to{k}": 0.0 for k, _ in numbered},
        [(f"from{k}", f"to{k}", t.nbytes) for k, t in numbered],
    )
    lanes = {f"from{k}": f"cuda:{2 * k}/s0" for k, _ in numbered} | {
        f"to{k}": f"cuda:{2 * k + 1}/s0" for k, _ in numbered
    }
    end_s = {span.action: span.end_s for span in predict(planned(work, hand_made(pattern), lanes))}
    return [end_s[f"from{k}>cuda:{2 * k + 1}"] for k, _ in numbered]


def by_kind(cases: Sequence[tuple[Pattern, list[float]]]) -> list[Any]:
    return [pytest.param(*case, id=f"{case[0].kind}-{i}".replace(" ", "-")) for i, case in enumerate(cases)]


def agree(predicted: Sequence[float], answers: Sequence[float]) -> bool:
    return predicted == pytest.approx(answers, rel=1e-6, abs=0.0)


def cut(transfer: Transfer, parts: int) -> list[Transfer]:
    """`parts` equal transfers that together have the bytes and the rate limit of one."""
    part = transfer._replace(nbytes=transfer.nbytes // parts, limit_bytes_per_s=transfer.limit_bytes_per_s / parts)
    return [part] * parts


def test_answers_are_those_to_the_patterns_and_settings_of_the_script():
    asked = [{**p._asdict(), "transfers": [t._asdict() for t in p.transfers]} for p in patterns()]
    answered = [{key: of[key] for key in of if key != "end_s"} for of in FILE["patterns"]]
    assert json.loads(json.dumps(asked)) == answered
    assert (FILE["seed"], FILE["settings"]) == (SEED, SETTINGS)


def alone_s(transfer: Transfer, capacities: Sequence[float]) -> float:
    """When `transfer` ends with no other about."""
    rate = min(transfer.limit_bytes_per_s, *(capacities[c] / transfer.crosses.count(c) for c in transfer.crosses))
    return transfer.start_s + transfer.latency_s + transfer.nbytes / rate


def test_most_patterns_contend():
    """In more than 40 of them some transfer ends later than it would alone."""
    contended = [
        any(end > alone_s(t, pattern.capacities) * 1.01 for t, end in zip(pattern.transfers, answers, strict=True))
        for pattern, answers in EQUAL_CASES
    ]
    assert sum(contended) > 40


@pytest.mark.parametrize(("pattern", "answers"), by_kind(EQUAL_CASES))
def test_equal_latencies(pattern: Pattern, answers: list[float]):
    assert agree(ends(pattern), answers)


@pytest.mark.parametrize(("pattern", "answers"), by_kind(EQUAL_CASES[::5]))
def test_order_of_the_plan_changes_nothing(pattern: Pattern, answers: list[float]):
    """The last transfer first: other lanes, other devices, another place in every tie."""
    turned = pattern._replace(transfers=pattern.transfers[::-1])
    assert agree(ends(turned), answers[::-1])


@pytest.mark.parametrize(("pattern", "answers"), by_kind(UNEQUAL_CASES))
def test_unequal_latencies(pattern: Pattern, answers: list[float]):
    """SimGrid's shares are as 1 / latency: those of 6, 3, 2 and 1 equal transfers for 0.5, 1, 1.5 and 3 s."""
    parts = [round(3.0 / t.latency_s) for t in pattern.transfers]
    whole = [cut(t, n) for t, n in zip(pattern.transfers, parts, strict=True)]
    predicted = ends(pattern._replace(transfers=tuple(part for one in whole for part in one)))
    of_each = [end for n, end in zip(parts, answers, strict=True) for end in [end] * n]
    assert agree(predicted, of_each)
