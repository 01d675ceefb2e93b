"""Variables that CUDA and OpenMP read when they start."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from graphsched.environment import WANTED, noted

SHOW = "import graphsched, os; print(os.environ['{}'])"


@pytest.mark.parametrize("name", WANTED)
def test_they_are_set_on_import_unless_the_user_did(name: str) -> None:
    bare = {key: value for key, value in os.environ.items() if key not in WANTED}
    for environment, value in ((bare, WANTED[name]), (bare | {name: "mine"}, "mine")):
        shown = subprocess.run(
            [sys.executable, "-c", SHOW.format(name)], env=environment, capture_output=True, text=True, check=True
        )
        assert shown.stdout.strip() == value


def test_what_figures_depend_on_is_noted_set_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """How OpenMP's threads wait is the user's to say: nothing sets it."""
    monkeypatch.setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8")
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    assert noted() == {"cuda_device_max_connections": "8", "omp_wait_policy": None}
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert noted()["omp_wait_policy"] == "active"
