"""What the tests of executors share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.executors.fake_cuda import FakeCuda


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], FakeCuda]:
    """Makes that many fake GPUs."""

    def make(devices: int) -> FakeCuda:
        fake = FakeCuda(devices)
        fake.install(monkeypatch)
        return fake

    return make
