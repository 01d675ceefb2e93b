"""Values and reads, hundreds of thousands at a time.

Their classes are frozen, and so set each field by `object.__setattr__`: that takes three times as long as to set it
where the class keeps it, which is what is done here.
"""

from __future__ import annotations

from graphsched.workload.tasks import Read, Value

_set_name, _set_kind, _set_nbytes, _set_spec, _set_producer, _set_root, _set_born, _set_device = (
    vars(Value)[field].__set__ for field in Value.__slots__
)
_set_value, _set_version, _set_source = (vars(Read)[field].__set__ for field in Read.__slots__)


def passed_value(name: str, nbytes: int, producer: str) -> Value:
    """An output of `producer` without a shape.

    Example:
        >>> passed_value("a.1", 8, "a")
        Value(a.1: 8 bytes)
    """
    made = Value.__new__(Value)
    _set_name(made, name)
    _set_kind(made, "output")
    _set_nbytes(made, nbytes)
    _set_spec(made, None)
    _set_producer(made, producer)
    _set_root(made, name)
    _set_born(made, 0)
    _set_device(made, None)
    return made


def first_read(value: Value) -> Read:
    """A read of `value` as its producer made it.

    Example:
        >>> first_read(passed_value("a.1", 8, "a"))
        Read(value=Value(a.1: 8 bytes), version=0, source='a')
    """
    made = Read.__new__(Read)
    _set_value(made, value)
    _set_version(made, 0)
    _set_source(made, value.producer)
    return made
