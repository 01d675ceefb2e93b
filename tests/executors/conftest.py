"""What the tests of executors share."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from tests.executors.fake_cuda import FakeCuda


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], FakeCuda]]:
    """Makes that many fake GPUs.

    Nothing is collected meanwhile: a program of another test would synchronise these GPUs as it goes, and hide a race.
    """

    def make(devices: int) -> FakeCuda:
        fake = FakeCuda(devices)
        fake.install(monkeypatch)
        return fake

    before = gc.get_threshold()
    gc.set_threshold(0)
    yield make
    gc.set_threshold(*before)
