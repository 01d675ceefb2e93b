"""Blocks that go faster with fewer of them in flight: measured where most multiprocessors are held."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.calibration import block_relief
from graphsched.calibration.block_relief import PARTS, multiprocessors_left, relieved, with_reliefs
from graphsched.costs import Beside, Kernel, Multiprocessors, TaskCost
from graphsched.simulator.side_by_side import ends_s

EIGHT = Multiprocessors(count=8, registers=100, threads=2048, shared_bytes=4096, blocks=32)
WHOLE, HALF = 60, 50  # registers of a block: one, or two on a multiprocessor


def simulated(kernels: tuple[Kernel, ...], left: int) -> float:
    """How many times longer an operation takes beside a kernel that holds the other multiprocessors, says the model."""
    holder = TaskCost(1e6, kernels=(Kernel(EIGHT.count - left, 0, 32, EIGHT.shared_bytes),), processors=EIGHT)
    kinds = [holder, TaskCost(1.0, kernels=kernels, processors=EIGHT)]
    free = {(a, b): Beside(1.0, 1.0) for a in (0, 1) for b in (0, 1)}
    return ends_s(kinds, [[0], [1]], free, until=1)[1]


@pytest.mark.parametrize("relief", [1.0, 0.7, 0.4])
@pytest.mark.parametrize("blocks", [8, 7, 24, 9, 12, 20])
def test_the_model_takes_as_long_as_was_measured(relief: float, blocks: int) -> None:
    """Kernels of one wave, of three, and of some with a rest, on a quarter of the multiprocessors."""
    kernels = (Kernel(blocks, WHOLE, 32, 1, relief=relief),)
    left = multiprocessors_left(kernels, EIGHT)
    assert left == min(blocks, 8) // PARTS
    found = relieved((Kernel(blocks, WHOLE, 32, 1),), EIGHT, left, simulated(kernels, left))
    assert found[0].relief == pytest.approx(relief, rel=1e-6)


def test_kernels_that_share_a_multiprocessor_keep_theirs() -> None:
    """A kernel of which two fit takes its part of the time as the model has it."""
    one, two = Kernel(8, WHOLE, 32, 1, share=0.75, relief=0.9), Kernel(16, HALF, 32, 1, share=0.25)
    longer = simulated((one, two), 2)
    found = relieved((Kernel(8, WHOLE, 32, 1, share=0.75), two), EIGHT, 2, longer)
    assert found[0].relief == pytest.approx(0.9, rel=1e-6)
    assert found[1] == two


@pytest.mark.parametrize(("longer", "relief"), [(0.1, 0.25), (1.0, 0.25), (4.4, 1.0)])
def test_no_block_is_slower_than_with_all_there_or_faster_than_its_part(longer: float, relief: float) -> None:
    assert relieved((Kernel(8, WHOLE, 32, 1),), EIGHT, 2, longer)[0].relief == pytest.approx(relief)


def test_kernels_that_take_no_time_tell_nothing() -> None:
    kernels = (Kernel(8, WHOLE, 32, 1, share=0.0), Kernel(16, HALF, 32, 1))
    assert relieved(kernels, EIGHT, 2, 3.0) == kernels


def test_many_waves_are_all_counted() -> None:
    """800 blocks, one wave after another: 100 waves on all, 400 on two."""
    assert relieved((Kernel(800, WHOLE, 32, 1),), EIGHT, 2, 3.0)[0].relief == pytest.approx(0.75)


class Gpu:
    """A GPU on which a call takes `seconds[number of held multiprocessors]`; what it was asked."""

    def __init__(self, patch: pytest.MonkeyPatch, seconds: dict[int, float]) -> None:
        self.seconds, self.lasting_s, self.held = seconds, 0.0, list[int]()
        patch.setattr(block_relief, "_holder", self.holder)
        patch.setattr(block_relief, "_sample_s", self.sample)

    def holder(self, device: int, processors: Multiprocessors, seconds: float) -> Callable[[int, Any], None]:
        self.lasting_s = seconds
        return lambda number, stream: self.held.append(number)

    def sample(self, call: Callable[[], Any], calls: int, spinner: Any, hold: Callable[[Any], None]) -> float:
        before = len(self.held)
        hold(None)
        return calls * self.seconds[self.held[-1] if len(self.held) > before else 0]

    def found(self, kernel: Kernel, alone_s: float = 1e-4) -> float:
        spinner: Any = SimpleNamespace(device=0)
        return with_reliefs((kernel,), EIGHT, lambda: None, alone_s, spinner)[0].relief


def test_an_operation_is_timed_with_all_and_with_a_quarter(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu(monkeypatch, {0: 1e-4, 6: 3.2e-4})
    assert gpu.found(Kernel(8, WHOLE, 32, 1)) == pytest.approx(0.8)
    assert set(gpu.held) == {6}
    assert gpu.lasting_s > 4 * 3.2e-4


def test_a_small_kernel_beside_a_large_one_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its three blocks have a multiprocessor each on what is left, too."""
    gpu, spinner = Gpu(monkeypatch, {0: 1e-4, 6: 3.7e-4}), SimpleNamespace(device=0)
    pair = Kernel(8, WHOLE, 32, 1, share=0.9), Kernel(3, WHOLE, 32, 1, share=0.1)
    found: Any = with_reliefs(pair, EIGHT, lambda: None, 1e-4, spinner)  # type: ignore[arg-type]
    assert gpu.held
    assert simulated(found, 2) == pytest.approx(3.7, rel=1e-6)


@pytest.mark.parametrize("kernel", [Kernel(8, HALF, 32, 1), Kernel(3, WHOLE, 32, 1)])
def test_others_are_not_asked(monkeypatch: pytest.MonkeyPatch, kernel: Kernel) -> None:
    """One of which two fit, and one of too few blocks."""
    gpu = Gpu(monkeypatch, {})
    assert gpu.found(kernel) == 0.5
    assert gpu.held == []


@pytest.mark.parametrize("seconds", [{0: 1e-4, 6: 1.0}, {0: 1e-4, 6: 0.0}, {0: 0.0, 6: 1e-4}])
def test_what_was_not_seen_beside_the_holder_does_not_count(
    monkeypatch: pytest.MonkeyPatch, seconds: dict[int, float]
) -> None:
    """Calls that outlast it, and such as could not be issued in time."""
    assert Gpu(monkeypatch, seconds).found(Kernel(8, WHOLE, 32, 1)) == 0.5


@pytest.mark.parametrize("error", [RuntimeError, OSError, AttributeError])
def test_without_a_holder_nothing_is_known(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    def failing(*_: Any) -> Any:
        raise error("no driver")

    gpu = Gpu(monkeypatch, {})
    monkeypatch.setattr(block_relief, "_holder", failing)
    assert gpu.found(Kernel(8, WHOLE, 32, 1)) == 0.5


@pytest.mark.gpu
def test_a_product_on_a_quarter_of_a_real_gpu() -> None:
    """In single precision each block computes for itself: it takes as long beside few as beside all."""
    from graphsched.calibration.cuda_clock import Spinner
    from graphsched.calibration.cuda_kernels import launched
    from graphsched.calibration.kernels import multiprocessors

    x = torch.rand(2048, 2048, device="cuda:0")
    spinner, processors = Spinner(0), multiprocessors(0)
    kernels = launched(lambda: x @ x, spinner).kernels
    if not multiprocessors_left(kernels, processors):
        pytest.skip("a product of which several blocks share a multiprocessor here")
    found = with_reliefs(kernels, processors, lambda: x @ x, 3.4e-4, spinner)
    assert max(kernel.relief for kernel in found) > 0.8
