"""What all tests share: skipping what this host cannot run, and a private cache folder."""

from __future__ import annotations

import pytest
from hypothesis import settings

# The same draws in every run, so that a commit is green or red; `pytest --hypothesis-profile=fresh` draws anew.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("fresh", derandomize=False, deadline=None)
settings.load_profile("same")


def _gpus() -> int:
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked ``gpu`` (one CUDA device) and ``multigpu`` (two) where there are too few."""
    marked = [i for i in items if i.get_closest_marker("gpu") or i.get_closest_marker("multigpu")]
    here = _gpus() if marked else 0
    for item in marked:
        needed = 2 if item.get_closest_marker("multigpu") else 1
        if here < needed:
            item.add_marker(pytest.mark.skip(reason=f"needs {needed} CUDA device(s), {here} here"))


@pytest.fixture(autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep measured costs and platforms of a test out of the user's cache."""
    monkeypatch.setenv("GRAPHSCHED_CACHE", str(tmp_path_factory.mktemp("cache")))
