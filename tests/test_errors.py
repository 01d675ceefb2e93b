"""The tree of errors: as drawn, as exported, as the command line tells them apart."""

from __future__ import annotations

import inspect
import re

import pytest

from graphsched import errors

_CLASSES = {
    name: thing
    for name, thing in vars(errors).items()
    if inspect.isclass(thing) and thing.__module__ == errors.__name__
}


def _drawn() -> dict[str, str]:
    """Name of each class in the docstring's tree, and of the class above it, by depth of indent."""
    assert errors.__doc__ is not None
    above: dict[int, str] = {}
    parents: dict[str, str] = {}
    for line in errors.__doc__.splitlines():
        found = re.match(r"    ([│├└─ ]*)(\w+Error)\b", line)
        if found:
            depth, name = len(found[1]) // 4, found[2]
            above[depth] = name
            parents[name] = above[depth - 1] if depth else "Exception"
    return parents


def test_the_drawn_tree_is_the_tree_of_classes() -> None:
    built = {name: thing.__base__.__name__ for name, thing in _CLASSES.items() if issubclass(thing, Exception)}
    raised = {name: base for name, base in built.items() if not issubclass(_CLASSES[name], Warning)}
    assert _drawn() == raised


def test_all_names_every_class_in_order() -> None:
    assert errors.__all__ == sorted(_CLASSES)


def test_every_warning_is_named_in_the_docstring() -> None:
    for name, thing in _CLASSES.items():
        if issubclass(thing, Warning):
            assert issubclass(thing, errors.GraphschedWarning)
            assert f"`{name}`" in (errors.__doc__ or "")


@pytest.mark.parametrize("name", sorted(_CLASSES))
def test_every_class_says_what_it_is(name: str) -> None:
    assert _CLASSES[name].__doc__


def test_a_plan_error_names_its_line() -> None:
    assert str(errors.PlanError("no such lane", 7)) == "line 7: no such lane"
    assert errors.DeadlockError("a circle", 3).line == 3


def test_a_plan_error_without_a_line() -> None:
    error = errors.PlanError("no such lane")
    assert (str(error), error.line) == ("no such lane", None)


def test_text_of_an_error_that_has_none() -> None:
    class DumbError(ValueError):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    assert errors.error_text(DumbError()) == "DumbError"
    assert errors.error_text(errors.PlanError("")) == "PlanError"


def test_text_of_an_error_can_be_written() -> None:
    """Half of a character, as names of files may have it, cannot be."""
    assert errors.error_text(ValueError("x\ud800")) == r"ValueError: x\ud800"
