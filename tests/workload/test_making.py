"""Values and reads made in quantity are like those made one by one."""

from __future__ import annotations

import dataclasses

import pytest

from graphsched.workload import Read, Value
from graphsched.workload.making import first_read, passed_value


def _fields(thing: Value | Read) -> dict[str, object]:
    return {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}


@pytest.mark.parametrize("name", ["a", "a.1"])
def test_a_value(name: str) -> None:
    made = passed_value(name, 8, "a")
    assert _fields(made) == _fields(Value(name, "output", 8, producer="a"))
    assert type(made) is Value


def test_a_read() -> None:
    value = passed_value("a.1", 8, "a")
    assert first_read(value) == Read(value, 0, "a")


def test_both_are_frozen() -> None:
    value = passed_value("a", 8, "a")
    for thing, field in ((value, "name"), (first_read(value), "version")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, field, "b")
