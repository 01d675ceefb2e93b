"""Messages between ranks: they wait for the thread that issues its half last, and the path goes on along that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphsched.explanation import explain
from graphsched.explanation.facts import gather
from graphsched.platform import Dispatch
from graphsched.simulator import predict
from graphsched.timeline import Timeline
from graphsched.workload import TensorSpec, Workload
from tests.builders import planned, platform, workload
from tests.executors.programs import by_hand, machine
from tests.explanation.hand import charged, steps_of
from tests.timelines import timeline

CHARGED = charged(run_s=1, message_s=1)


def late_receiver(busy: int = 6, dispatch: Dispatch = CHARGED) -> Timeline:
    """Rank 1 has `busy` tasks to issue, 1 s each, before its half of the message that b waits for.

    ::

        cuda:0/s0   a ──▶ a>cuda:1
        cuda:1/s0   x0, x1, …  └──▶ b
    """
    names = [f"x{k}" for k in range(busy)]
    work = workload(dict.fromkeys([*names, "a", "b"], 0.5), [("a", "b", 100)])
    lanes = dict.fromkeys([*names, "b"], "cuda:1/s0") | {"a": "cuda:0/s0"}
    return predict(planned(work, platform(dispatch=dispatch), lanes), mode="distributed")


def test_a_message_waits_for_the_thread_of_its_target() -> None:
    """Rank 0 has issued its half at 2 s, rank 1 at 7 s."""
    line = late_receiver()
    i = line.plan.index_of["a>cuda:1"]
    assert (line.issue_end_s[i], line.halves_s) == (2.0, {(i, 1): (6.0, 7.0)})
    report = explain(line).action("a>cuda:1")
    assert (report.cause.kind, report.cause.ready_s, report.cause.alone_s) == ("thread", 7.0, 5.5)
    assert "waited last for: the thread of rank 1, which had issued it at 7 s" in str(report)


def test_the_path_goes_on_along_that_thread() -> None:
    """From x0 to the message, not through a, which rank 0 issues: 7 s of dispatch, 7 actions."""
    line = late_receiver()
    assert steps_of(line) == [
        ("thread", "a>cuda:1", "start"),
        ("action", "a>cuda:1", "thread"),
        ("action", "b", "wait"),
    ]
    explanation = explain(line)
    assert explanation.parts_s == {"dispatch": 7.0, "copy": 1.0, "compute": 0.5}
    assert "7 s lost to dispatch: 7 actions issued, 1 s each" in explanation.losses[0].text
    assert "thread of rank 1 from x0 to a>cuda:1" in str(explanation)


def test_a_message_that_its_source_issues_last_waits_for_that() -> None:
    """Without tasks of its own rank 1 has issued its half at 1 s, rank 0 at 2 s."""
    line = late_receiver(busy=0)
    assert str(explain(line).action("a>cuda:1").cause.ready_s) == "2.0"
    assert "the thread of rank 0, which had issued it" in str(explain(line).action("a>cuda:1"))


def test_a_message_issued_late_by_its_target_is_late_dispatch() -> None:
    """y, on another stream of cuda:0, takes 3.5 s beside a, from 1 s; rank 1 has issued its half at 7 s."""
    names = [f"x{k}" for k in range(6)]
    work = workload(dict.fromkeys([*names, "a", "b"], 0.5) | {"y": 3.0}, [("a", "b", 100)])
    lanes = dict.fromkeys([*names, "b"], "cuda:1/s0") | {"a": "cuda:0/s0", "y": "cuda:0/s1"}
    plan = planned(work, platform(dispatch=CHARGED), lanes, order=["y", *names, "a", "b"])
    found = explain(predict(plan, mode="distributed")).why_not("y", "a>cuda:1")
    assert (found.kind, found.through) == ("dispatch", ())
    assert "a>cuda:1 was issued late by the thread of rank 1, 2.5 s after y had ended" in str(found)


def test_without_halves_the_source_counts() -> None:
    """As in recorded runs from before they were kept: rank 1's thread is known to have issued what begins on it."""
    line = late_receiver(busy=1)
    facts = gather(replace(line, halves_s={}))
    assert [[line.plan.names[i] for i in order] for order in facts.orders] == [["a", "a>cuda:1"], ["x0", "b"]]
    assert facts.issue_end_s == line.issue_end_s.tolist()


def test_a_measured_message_between_hosts_waits_for_the_thread_that_receives() -> None:
    """a (worker:0) ──▶ b (worker:1): the lane of rank 1 is told at 5 s to receive, rank 0's at 1 s to send."""
    work = Workload()
    a = work.task(abs, work.input("x", TensorSpec((2,)), device="worker:0"), name="a", outputs=[TensorSpec((2,))])
    work.task(abs, a, name="b", outputs=[TensorSpec((2,))])
    plan = by_hand(work, machine("worker:0", "worker:1"), {"a": "worker:0/s0", "b": "worker:1/s0"})
    spans, issues = [(0.0, 1.0), (5.0, 6.0), (6.0, 7.0)], [(0.0, 0.1), (0.9, 1.0), (5.0, 5.5)]
    line = timeline(
        replace(plan, mode="distributed"), spans, issues=issues, source="measured", halves_s={(1, 1): (4.0, 5.0)}
    )
    report = explain(line).action("a>worker:1")
    assert report.cause.kind == "thread"
    assert report.cause.ready_s == pytest.approx(5.0, abs=1e-3)
    assert report.thread == "the thread of rank 1"
