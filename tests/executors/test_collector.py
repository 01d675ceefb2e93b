"""Python's cyclic garbage collector around runs."""

from __future__ import annotations

import gc

from graphsched.executors.collector import collector_off, left_alone, no_collector


def test_what_is_there_is_left_out_of_collections_until_the_end() -> None:
    """A list made before is frozen inside; one made inside is not."""
    before = [[0]]
    with left_alone():
        assert gc.get_freeze_count() > 0
        assert not any(found is before for found in gc.get_objects())
        inside = [[0]]
        assert any(found is inside for found in gc.get_objects())
    assert gc.get_freeze_count() == 0
    assert any(found is before for found in gc.get_objects())


def test_an_inner_one_ends_nothing() -> None:
    """A list made between the two is frozen in the inner one, and until the outer one ends."""

    def tracked(what: object) -> bool:
        return any(found is what for found in gc.get_objects())

    with left_alone():
        between = [[0]]
        assert tracked(between)
        with left_alone():
            assert not tracked(between)
        assert gc.get_freeze_count() > 0
        assert not tracked(between)
    assert gc.get_freeze_count() == 0
    assert tracked(between)


def test_nothing_is_collected_inside_and_the_setting_comes_back() -> None:
    for outer in (no_collector, collector_off):
        with outer():
            assert not gc.isenabled()
        assert gc.isenabled()
    gc.disable()
    try:
        with collector_off():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
