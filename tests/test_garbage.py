"""The garbage collector is off while something large is built, and as it was before afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from graphsched.garbage import MANY, collector_off


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


@pytest.mark.parametrize(("number", "old"), [(3 * MANY, True), (10, False)])
def test_many_new_objects_are_old_at_once(number: int, old: bool) -> None:
    """So that they are not looked through as soon as the collector is on again; few are left as they are."""
    gc.collect()
    with collector_off():
        made = [[k] for k in range(number)]
    young = {id(thing) for generation in (0, 1) for thing in gc.get_objects(generation)}
    assert (id(made[0]) not in young) is old
    assert gc.get_freeze_count() == 0


def test_what_a_user_has_frozen_stays_so() -> None:
    """And nothing else becomes old."""
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with collector_off():
            made = [[k] for k in range(2 * MANY)]
        assert gc.get_freeze_count() >= frozen - 100 > 0
        assert len(made) == 2 * MANY
    finally:
        gc.unfreeze()
