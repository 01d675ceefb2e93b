"""What is put into a program's buffers, by torch's threads or by one alone."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphsched.executors import tensors as module
from graphsched.executors.tensors import ONE_THREAD_BYTES, TORCH_ALONE, put

NUMBER = TORCH_ALONE + 3
FORMS: dict[str, Callable[[], torch.Tensor]] = {
    "plain": lambda: torch.rand(NUMBER),
    "integers": lambda: torch.arange(NUMBER),
    "half": lambda: torch.rand(NUMBER).bfloat16(),
    "small": lambda: torch.rand(5),
    "empty": lambda: torch.rand(0, 4),
    "large": lambda: torch.rand(ONE_THREAD_BYTES // 4 + 1),
    "a part": lambda: torch.rand(2, NUMBER)[1],
    "transposed": lambda: torch.rand(257, 129).t(),
    "expanded": lambda: torch.rand(1, NUMBER).expand(2, NUMBER),
    "conjugated": lambda: torch.view_as_complex(torch.rand(NUMBER, 2)).conj(),
    "negative": lambda: torch.view_as_complex(torch.rand(NUMBER, 2)).conj().imag.contiguous(),
    "a parameter": lambda: torch.nn.Parameter(torch.rand(NUMBER)),
    "of a gradient": lambda: torch.rand(NUMBER, requires_grad=True) * 2,
}


@pytest.mark.parametrize("form", FORMS)
def test_all_numbers_arrive(form: str) -> None:
    given = FORMS[form]()
    target = torch.full(given.shape, 7, dtype=given.dtype)
    put(target, given)
    assert torch.equal(target, given.detach())
    assert not target.requires_grad


@pytest.mark.parametrize(("form", "alone"), [("plain", True), ("half", True), ("small", False), ("large", False)])
def test_one_thread_copies_what_is_neither_small_nor_large(
    monkeypatch: pytest.MonkeyPatch, form: str, alone: bool
) -> None:
    done: list[int] = []

    def move(target: int, source: int, nbytes: int) -> Any:
        done.append(nbytes)
        return ctypes.memmove(target, source, nbytes)

    monkeypatch.setattr(module, "ctypes", type("Moves", (), {"memmove": staticmethod(move)}))
    given = FORMS[form]()
    put(torch.empty_like(given), given)
    assert done == [given.nbytes] * alone


def test_other_types_are_converted_as_torch_does() -> None:
    target = torch.empty(NUMBER)
    put(target, torch.arange(NUMBER))
    assert torch.equal(target, torch.arange(NUMBER).float())
