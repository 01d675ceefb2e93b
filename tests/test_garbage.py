"""The garbage collector is off while something large is built, and as it was before afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from graphsched.garbage import collector_off


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    gc.enable()


def test_off_until_the_end() -> None:
    """Nested too."""
    with collector_off():
        with collector_off():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_on_again_after_an_error() -> None:
    """As a decorator here."""

    @collector_off()
    def fails() -> None:
        assert not gc.isenabled()
        raise RuntimeError("mine")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="mine"):
            fails()
        assert gc.isenabled()


def test_stays_off_where_it_was() -> None:
    """A user who has switched it off finds it so."""
    gc.disable()
    with collector_off():
        pass
    assert not gc.isenabled()
