"""Cases whose spread is too wide are flagged in the table."""

from __future__ import annotations

import pytest

from graphsched.cli.experiments import print_figures

CASE = {
    "label": "a", "scheduler": "heft", "options": {}, "mode": "eager", "predicted_s": 1.0, "measured_s": 1.0,
    "error": 0.0, "reported_s": None, "metrics": {}, "estimated": [],
}  # fmt: skip


@pytest.mark.parametrize(("spread", "flagged"), [(0.021, True), (0.02, False), (None, False)])
def test_a_spread_over_two_per_cent_is_flagged(
    spread: float | None, flagged: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    print_figures([CASE | {"spread": spread}], title="table")
    out = capsys.readouterr().out
    assert ("2.10 % !" in out) is flagged
    assert ("! spread too wide to judge the error by" in out) is flagged
