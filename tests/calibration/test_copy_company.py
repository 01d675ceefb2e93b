"""What copies' calls take longer after others is found again from programs that are played, and on real GPUs."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from graphsched.calibration import copy_company as module
from graphsched.calibration.copy_company import company_calls
from graphsched.platform import Dispatch

COLDER_US = {"one_copy_in": 3.0, "one_copy_out": 5.0, "one_copy_across": 8.0}


class Host:
    """A thread that is `pace` times as fast as at calibration; a copy takes 6 µs, more right after the others."""

    def __init__(self, patch: pytest.MonkeyPatch, *, pace: float = 1.0, warmer: bool = False) -> None:
        self.pace, self.sign, self.cold, self.made = pace, -1.0 if warmer else 1.0, False, list[tuple[Any, ...]]()
        patch.setattr(module, "Yardstick", lambda gpu: SimpleNamespace(sample_s=self._unit, close=lambda: None))
        patch.setattr(module, "program_of", self._program)

    def _unit(self) -> float:
        return 6e-6 * self.pace

    @contextmanager
    def _program(self, build: Any, gpus: tuple[int, ...]) -> Any:
        name = build.__name__
        self.made.append((name, *gpus))
        program = SimpleNamespace(issue_s=0.0)

        def once() -> float:
            if name == "other_functions":
                self.cold = True
            else:
                program.issue_s = (6 + self.sign * COLDER_US[name] * self.cold) * self.pace * 1e-6
                self.cold = False
            return program.issue_s

        program.time_once = once
        yield program


@pytest.mark.parametrize("pace", [1.0, 1.5])
def test_it_is_found_again_whatever_the_pace(monkeypatch: pytest.MonkeyPatch, pace: float) -> None:
    host = Host(monkeypatch, pace=pace)
    found = company_calls([2, 3, 4])
    assert found == {
        "copy_company_s": pytest.approx(3 / 6),
        "copy_out_company_s": pytest.approx(5 / 6),
        "peer_company_s": pytest.approx(8 / 6),
    }
    assert host.made[1::2] == [("one_copy_in", 2), ("one_copy_out", 2), ("one_copy_across", 2, 3)]
    Dispatch(**found)


def test_one_gpu_has_no_copies_across(monkeypatch: pytest.MonkeyPatch) -> None:
    Host(monkeypatch)
    assert set(company_calls([0])) == {"copy_company_s", "copy_out_company_s"}


def test_noise_makes_nothing_negative(monkeypatch: pytest.MonkeyPatch) -> None:
    Host(monkeypatch, warmer=True)
    assert set(company_calls([0, 1]).values()) == {0.0}


@pytest.mark.gpu
def test_copies_of_this_host() -> None:
    found = company_calls([0])
    print({name: round(yardsticks, 2) for name, yardsticks in found.items()})
    assert all(0.0 <= yardsticks < 10 for yardsticks in found.values())
