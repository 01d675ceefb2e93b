"""How communicators are ended, with others in their place that a GPU would make wait for each other."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from graphsched.executors.distributed import nccl_groups
from graphsched.executors.distributed.nccl_groups import end_communicators, exit_in_time


class Group:
    """One whose end waits until kernels of `others` are told to end, or for good."""

    def __init__(self, others: Sequence[Group] = (), *, fails: bool = False) -> None:
        self.told, self.ended, self.others, self.fails = threading.Event(), threading.Event(), others, fails

    def _get_backend(self, device: Any) -> Group:
        assert device.type == "cuda"
        return self

    def abort(self) -> None:
        self.told.set()
        if self.fails:
            raise RuntimeError("NCCL communicator was aborted")
        for other in self.others:
            other.told.wait()
        self.ended.set()


@pytest.fixture
def at_exit(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    monkeypatch.setattr(nccl_groups, "END_S", 0.3)
    found: list[Callable[[], None]] = []
    monkeypatch.setattr(atexit, "register", found.append)
    return found


def test_those_that_wait_for_each_other_are_ended_together(at_exit: list[Callable[[], None]]) -> None:
    first, failed = Group(), Group(fails=True)
    second = Group([first])
    first.others = [second, failed]
    end_communicators([first, failed, second])
    assert first.ended.is_set()
    assert second.ended.is_set()
    assert at_exit == []


def test_a_process_is_ended_whose_gpu_does_not_rest(at_exit: list[Callable[[], None]]) -> None:
    """The second waits for a kernel that nobody ends."""
    first, second = Group(), Group([Group()])
    end_communicators([first, second])
    assert first.ended.is_set()
    assert at_exit == [exit_in_time]
    second.others[0].told.set()


def test_there_may_be_none(at_exit: list[Callable[[], None]]) -> None:
    end_communicators([])
    assert at_exit == []
