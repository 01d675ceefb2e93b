"""The names of parts are those that calibration and check report."""

from __future__ import annotations

import ast
import inspect
from types import ModuleType

import pytest

from graphsched.calibration import checking, measuring
from graphsched.calibration.parts import calibration_parts, check_parts


def reported(module: ModuleType, functions: tuple[str, ...], *, gpu: int = 1) -> set[str]:
    """Texts that `functions` of a module give to what is called ``say`` or ``report``; ``{i}`` is `gpu`."""
    tree = ast.parse(inspect.getsource(module))
    found = set()
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in functions):
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Name) and call.func.id in ("say", "report"):
                found.add(str(eval(ast.unparse(call.args[0]), {"i": gpu})))
    return found


@pytest.mark.parametrize(
    ("gpus", "functions"), [(0, ("_cpu_host",)), (2, ("_cuda_host", "_cuda_links", "_cuda_capacities"))]
)
def test_calibration_reports_these_parts(gpus: int, functions: tuple[str, ...]) -> None:
    each = {f"host memory and cuda:{i}" for i in range(gpus)}
    assert reported(measuring, functions) | each == set(calibration_parts(gpus))


@pytest.mark.parametrize(("gpus", "function"), [(0, "_host_rows"), (4, "_cuda_rows")])
def test_a_check_reports_these_parts(gpus: int, function: str) -> None:
    assert reported(checking, (function, "check_platform")) == set(check_parts(gpus))


def test_no_part_has_the_name_of_another() -> None:
    for parts in (calibration_parts(0), calibration_parts(4), check_parts(0), check_parts(4)):
        assert len(parts) == len(set(parts))
    assert len(calibration_parts(4)) == 4 + 9
