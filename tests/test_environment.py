"""Variables that CUDA and OpenMP read when they start."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from graphsched.environment import WANTED

SHOW = "import graphsched, os; print(os.environ['{}'])"


@pytest.mark.parametrize("name", WANTED)
def test_they_are_set_on_import_unless_the_user_did(name: str) -> None:
    bare = {key: value for key, value in os.environ.items() if key not in WANTED}
    for environment, value in ((bare, WANTED[name]), (bare | {name: "mine"}, "mine")):
        shown = subprocess.run(
            [sys.executable, "-c", SHOW.format(name)], env=environment, capture_output=True, text=True, check=True
        )
        assert shown.stdout.strip() == value
