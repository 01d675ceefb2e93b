"""Transfers together: which memory they go through, what is verified, and their rates, on streams that are played."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch

from graphsched.calibration import cuda_together as module
from graphsched.calibration import cuda_ways, rotation
from graphsched.calibration.capacities import Flow, host_flows
from graphsched.calibration.cuda_together import COPIES, SAMPLED, Together
from graphsched.calibration.cuda_ways import Bench
from graphsched.calibration.rotation import rotations
from graphsched.errors import PlatformError
from tests.calibration.streams import Event, Stream

COPY, HOST, DEVICE = 2**13, 2**17, 2**15  # bytes of a copy, of the host's buffer and of a GPU's


@dataclass
class Memory:
    """Bytes; a copy into them takes the current stream as long as the rate of its way says."""

    cuda: FakeCuda
    where: str
    data: torch.Tensor

    device = "cpu"

    def __getitem__(self, part: slice) -> Memory:
        return Memory(self.cuda, self.where, self.data[part])

    def numel(self) -> int:
        return self.data.numel()

    def cpu(self) -> torch.Tensor:
        return self.data

    def zero_(self) -> None:
        self.data.zero_()

    @property
    def place(self) -> tuple[str, int]:
        return self.where, int(self.data.storage_offset())

    def copy_(self, source: Memory, non_blocking: bool) -> None:
        assert (non_blocking, source.numel()) == (True, self.numel())
        self.data.copy_(source.data)
        self.cuda.copied.append((source.place, self.place))
        self.cuda.damage(self.data, source.place, self.place)
        self.cuda.current.time_s += self.numel() / self.cuda.rates[source.where, self.where]


class FakeCuda:
    """Some GPUs; copies of the given rates by ends, 1000 bytes/s by default."""

    def __init__(self, patch: pytest.MonkeyPatch, gpus: int = 4, late: int = 0) -> None:
        self.gpus, self.largest, self.late, self._host_s = gpus, DEVICE, late, 0.0
        self.copied: list[tuple[tuple[str, int], tuple[str, int]]] = []
        self.damage: Callable[[torch.Tensor, tuple[str, int], tuple[str, int]], None] = lambda *_: None
        names = ["cpu", *(f"cuda:{i}" for i in range(gpus))]
        self.rates = {(a, b): 1e3 for a in names for b in names}
        self.first, self.second = ([self._memory(name, DEVICE) for name in names[1:]] for _ in range(2))
        self.pinned = self._memory("cpu", HOST)
        self.streams = [[Stream(i) for _ in range(gpus + 3)] for i in range(gpus)]
        self.spinners = [SimpleNamespace(spin=self._spin) for _ in range(gpus)]
        self.current, self.spun = self.streams[0][-1], 0
        patch.setattr(rotation, "HOST_BYTES", COPY)
        patch.setattr(rotation, "new_stream", Stream)
        patch.setattr(cuda_ways, "allow_access", lambda *_: None, raising=False)
        patch.setattr(module, "new_event", lambda *, timing=False: Event())
        patch.setattr(module, "elapsed_s", lambda start, end: end.time_s - start.time_s)
        patch.setattr(module, "on_streams", self._on_streams)
        patch.setattr("time.perf_counter", self._clock)

    def _memory(self, where: str, nbytes: int) -> Memory:
        random = torch.Generator().manual_seed(nbytes)
        return Memory(self, where, torch.randint(1, 256, (nbytes,), dtype=torch.uint8, generator=random))

    def _clock(self) -> float:
        self._host_s += 10.0 if self.late else 0.0
        self.late = max(0, self.late - 1)
        return self._host_s

    def _on_streams(self, stack: ExitStack, streams: Sequence[Stream]) -> None:
        self.current = streams[-1]

    def _spin(self, seconds: float) -> None:
        self.spun += 1
        self.current.time_s += seconds

    def settle(self) -> None:
        now = max(s.time_s for row in self.streams for s in row)
        for stream in (s for row in self.streams for s in row):
            stream.time_s = now


def together(cuda: FakeCuda, repeats: int = 1) -> Together:
    return Together(cuda, repeats)  # type: ignore[arg-type]


@pytest.mark.parametrize(("into", "out"), [(1, 0), (0, 1), (2, 0), (1, 2), (3, 3), (4, 4)])
def test_every_pattern_goes_through_all_of_the_hosts_buffer(
    into: int, out: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 parts: 12 copies in a go, 24 in a call are more than each flow's share of them."""
    cuda, flows = FakeCuda(monkeypatch), host_flows(4, into, out)
    together(cuda)(flows)
    touched: dict[int, set[tuple[str, str]]] = {}
    for source, target in cuda.copied:
        offset = source[1] if source[0] == "cpu" else target[1]
        touched.setdefault(offset, set()).add((source[0], target[0]))
    assert sorted(touched) == list(range(0, HOST, COPY))
    assert all(len(users) == 1 for users in touched.values())  # no two flows use one part
    shares = Counter(next(iter(users)) for users in touched.values())
    assert max(shares.values()) - min(shares.values()) <= 1


def test_no_part_is_copied_again_before_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch)
    measure = together(cuda)
    for _ in range(2):
        measure([("cuda:0", "cpu")])
    offsets = [target[1] for _, target in cuda.copied]
    assert offsets == [k % 16 * COPY for k in range(4 * COPIES)]  # also from one call to the next


def test_the_gpus_side_goes_through_its_buffer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch)
    together(cuda)([("cpu", "cuda:1"), ("cpu", "cuda:1")])
    by_stream = [{target[1] for _, target in cuda.copied[k : k + COPIES]} for k in (0, COPIES)]
    assert by_stream == [{0, 2 * COPY}, {COPY, 3 * COPY}]


def test_copies_are_small_enough_for_a_part_for_each_flow_of_a_way(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch)
    monkeypatch.setattr(rotation, "HOST_BYTES", 2**20)
    (one,) = rotations(cuda, [("cpu", "cuda:0")])  # type: ignore[arg-type]
    assert (one.nbytes, len(one.sources), len(one.targets)) == (DEVICE, 4, 1)
    two = rotations(cuda, [("cpu", "cuda:0")] * 2)  # type: ignore[arg-type]
    assert [route.nbytes for route in two] == [DEVICE // 2] * 2
    many = rotations(cuda, host_flows(4, 4, 4))  # type: ignore[arg-type]
    assert [(route.nbytes, len(route.sources), len(route.targets)) for route in many] == (
        [(HOST // 8, 1, 2)] * 4 + [(HOST // 8, 2, 1)] * 4
    )


def test_flows_of_one_way_have_a_stream_each(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = rotations(FakeCuda(monkeypatch), [("cuda:0", "cpu")] * 2)  # type: ignore[arg-type]
    assert one.streams != other.streams
    assert (one.gpu, other.gpu) == (0, 0)


def test_flows_between_gpus_keep_a_place_on_both(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch)
    together(cuda)([("cuda:0", "cuda:2"), ("cuda:1", "cuda:2")])
    each = DEVICE // 4
    assert set(cuda.copied) == {
        (("cuda:0", 2 * each), ("cuda:2", 0)),
        (("cuda:1", 2 * each), ("cuda:2", each)),
    }


def test_rates_count_until_the_first_has_sent_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch)
    cuda.rates["cpu", "cuda:0"], cuda.rates["cuda:3", "cpu"] = 2e3, 5e2
    rates = together(cuda, repeats=3)([("cpu", "cuda:0"), ("cuda:3", "cpu")])
    assert rates == pytest.approx([2e3, 5e2])
    assert len(cuda.copied) == 2 * COPIES * 4
    assert cuda.spun == 4


def test_what_began_before_all_were_queued_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch, late=2)  # the clock jumps between the two readings of the first go
    assert together(cuda)([("cpu", "cuda:0")]) == pytest.approx([1e3])
    assert cuda.spun == 1 + 2


def test_all_copies_of_the_last_go_are_compared_that_are_not_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """12 copies: a GPU has 4 parts, the host's buffer 16 for one flow and 2 for each of 8."""
    cuda = FakeCuda(monkeypatch)
    for flows, compared in (
        ([("cpu", "cuda:0")], [4]),
        ([("cuda:0", "cpu")], [COPIES]),
        (host_flows(4, 4, 4), [4] * 4 + [2] * 4),
    ):
        routes = rotations(cuda, flows)  # type: ignore[arg-type]
        rows = [route.last(range(COPIES, 2 * COPIES)) for route in routes]
        assert [len(row) for row in rows] == compared
        assert all(len({way.target.place for way in row}) == len(row) for row in rows)


@pytest.mark.parametrize("flows", [[("cpu", "cuda:0")], [("cuda:2", "cpu")], host_flows(4, 4, 4), host_flows(4, 1, 3)])
@pytest.mark.parametrize("back", [0, 3])
def test_a_wrong_byte_in_one_of_the_last_copies_is_found(
    flows: list[Flow], back: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that goes wrong in its last pass, on its way to a part that is not overwritten any more."""
    cuda = FakeCuda(monkeypatch)
    last = rotations(cuda, flows)[-1].last(range(2 * COPIES))  # type: ignore[arg-type]
    chosen = last[-1 - min(back, len(last) - 1)].target

    def damage(data: torch.Tensor, _: tuple[str, int], target: tuple[str, int]) -> None:
        if target == chosen.place:
            data[SAMPLED] ^= 1

    together(cuda)(flows)  # nothing is wrong yet
    cuda.damage = damage
    with pytest.raises(PlatformError, match=f"from {flows[-1][0]} to {flows[-1][1]} arrived changed"):
        together(cuda)(flows)


@pytest.mark.parametrize("flows", [[("cpu", "cuda:0")], [("cuda:2", "cpu")], [("cuda:0", "cuda:1")]])
def test_a_copy_that_did_not_happen_is_found(flows: list[Flow], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its target still holds what an earlier one brought: that is wiped out before."""
    cuda = FakeCuda(monkeypatch)
    together(cuda)(flows)
    monkeypatch.setattr(Memory, "copy_", lambda *_, **__: setattr(cuda.current, "time_s", cuda.current.time_s + 1.0))
    with pytest.raises(PlatformError, match="arrived changed"):
        together(cuda)(flows)


@pytest.mark.gpu
def test_transfers_of_this_host_together() -> None:
    bench = Bench(1, 2**26)
    try:
        assert bench.pinned.numel() == 2**29
        rates = Together(bench, repeats=1)([("cpu", "cuda:0"), ("cuda:0", "cpu")])
    finally:
        bench.close()
    assert all(rate > 1e8 for rate in rates)
