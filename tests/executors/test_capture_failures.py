"""What cannot be captured or replayed: a clear error, nothing lost, and eager mode goes on in the same process."""

from __future__ import annotations

import contextlib
import gc
import threading
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from graphsched.errors import ExecutionError, StuckError, TaskFailedError, WorkloadError
from graphsched.executors import Program, capture
from graphsched.executors.buffers import Buffers
from graphsched.plan import Plan
from graphsched.workload import TensorSpec, Workload
from tests.executors.fake_cuda import CpuLane, FakeCuda
from tests.executors.programs import by_hand, machine

TWO = [TensorSpec((2,))]


def single(function: Callable[..., Any], *more: Any) -> Plan:
    """x ──▶ good ──▶ bad, which calls `function`."""
    work = Workload()
    good = work.task(torch.neg, work.input("x", torch.ones(2), device="cuda:0"), name="good")
    work.task(function, good, *more, name="bad", outputs=TWO)
    return by_hand(work, machine("cuda:0"), "cuda:0/s0")


class OnCall:
    """Adds one; raises on its calls of these numbers, from 1: two are made before the capture, which is the third."""

    def __init__(self, error: BaseException, *numbers: int) -> None:
        self.error, self.numbers, self.calls = error, numbers, 0

    def __call__(self, t: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls in self.numbers:
            raise self.error
        return t + 1


def assert_eager_mode_works(plan: Plan) -> None:
    with Program(plan) as program:
        assert program.run()["bad"].tolist() == [0.0, 0.0]


# -- played: before the capture --------------------------------------------------------------------------


def test_a_task_that_waits_for_the_gpu_is_refused_before_anything_is_captured(cuda: Callable[[int], FakeCuda]) -> None:
    fake = cuda(1)

    def reads_back(t: torch.Tensor) -> torch.Tensor:
        fake.synchronise()
        return t + 1

    plan = single(reads_back)
    with pytest.raises(TaskFailedError) as caught:
        Program(plan, mode="graph")
    assert str(caught.value) == (
        "'bad' failed on lane cuda:0/s0 with inputs good: float32[2]: RuntimeError: called a synchronizing CUDA "
        "operation: no CUDA graph holds what waits for the GPU: run the plan in eager mode"
    )
    assert fake.told == []
    assert not fake.refuses
    assert_eager_mode_works(plan)


def test_a_task_that_fails_in_any_mode_fails_as_in_eager_mode(cuda: Callable[[int], FakeCuda]) -> None:
    cuda(1)
    with pytest.raises(TaskFailedError) as caught:
        Program(single(OnCall(ValueError("no"), 1)), mode="graph")
    assert str(caught.value) == "'bad' failed on lane cuda:0/s0 with inputs good: float32[2]: ValueError: no"


def test_states_and_random_numbers_are_as_before_a_program_that_fails(cuda: Callable[[int], FakeCuda]) -> None:
    cuda(1)
    torch.manual_seed(3)
    before = torch.get_rng_state()

    def draws(t: torch.Tensor) -> torch.Tensor:
        torch.rand(2)
        raise ValueError("no")

    with pytest.raises(TaskFailedError, match="no"):
        Program(single(draws), mode="graph")
    assert torch.equal(torch.get_rng_state(), before)


def test_inputs_without_a_default_are_zero_before_the_capture(cuda: Callable[[int], FakeCuda]) -> None:
    """Garbage would be no index."""
    cuda(1)
    seen = []

    def take(t: torch.Tensor) -> torch.Tensor:
        seen.append(t.tolist())
        return t + 1

    work = Workload()
    work.task(take, work.input("x", *TWO, device="cuda:0"), name="y", outputs=TWO)
    with Program(by_hand(work, machine("cuda:0"), "cuda:0/s0"), mode="graph") as program:
        assert seen == [[0.0, 0.0]] * 3
        with pytest.raises(WorkloadError, match="'x' has no default"):
            program.run()


def test_inputs_stay_where_a_program_starts_again(
    cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a stuck run it is captured anew; an input without a default keeps what was loaded."""
    cuda(1)
    monkeypatch.setattr(Buffers, "renewed", lambda buffers: buffers)  # in memory that is watched
    work = Workload()
    work.task(torch.neg, work.input("x", *TWO, device="cuda:0"), name="y", outputs=TWO)
    with Program(by_hand(work, machine("cuda:0"), "cuda:0/s0"), mode="graph") as program:
        program.load({"x": torch.ones(2)})
        program._at_rest = False
        program.time_once()
        assert program._compiler.results()["y"].tolist() == [-1.0, -1.0]


def test_an_error_of_the_gpu_before_the_capture_names_no_other_task(
    cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shows when the GPU is waited for, and any task may have made it."""
    fake = cuda(1)
    for settled in (2, 3, 4):  # at the end of the first run; before and after the segment of the second
        left = iter([None] * (settled - 1))

        def settle(devices: list[int], left: Iterator[None] = left) -> None:
            if next(left, "over"):
                raise RuntimeError("CUDA error: device-side assert triggered")

        with monkeypatch.context() as patch:
            patch.setattr(capture, "settle", settle)
            with pytest.raises(TaskFailedError, match=r"^a task on a CUDA lane failed: RuntimeError: CUDA error"):
                Program(single(torch.neg), mode="graph")
    assert fake.told == []


def test_a_lane_of_the_cpu_that_does_not_come_to_rest_is_no_other_tasks_fault(
    cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check before the capture holds for all threads: it must not begin while one is at work."""
    fake = cuda(1)
    work = Workload()
    work.task(torch.neg, work.input("h", torch.ones(2)), name="c")
    work.task(torch.neg, work.input("x", torch.ones(2), device="cuda:0"), name="d")
    monkeypatch.setattr(CpuLane, "drain", lambda lane, timeout_s: False)
    with pytest.raises(StuckError, match="the run waited for lanes of the CPU beyond 60 s"):
        Program(by_hand(work, machine("cuda:0"), {"c": "cpu/w0", "d": "cuda:0/s0"}), mode="graph")
    assert fake.told == []


# -- played: during it -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            RuntimeError("operation not permitted when stream is capturing"),
            r"'bad' failed on lane cuda:0/s0 .*capturing while it was captured into a CUDA graph: run the plan in",
        ),
        (
            torch.OutOfMemoryError("CUDA out of memory"),
            r"'bad' failed on lane cuda:0/s0 .*out of memory: graph mode keeps all results of the plan "
            r"\(known: 1.6e-08 GB\): run the plan in eager mode, which gives memory back, or make the plan",
        ),
    ],
)
def test_a_task_that_cannot_be_captured_is_named(
    cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    fake = cuda(1)
    mended: list[list[int]] = []
    monkeypatch.setattr(capture, "free_generators", lambda devices, stream: mended.append(devices))
    plan = single(OnCall(error, 3))
    with pytest.raises(TaskFailedError, match=message) as caught:
        Program(plan, mode="graph")
    assert caught.value.__cause__ is error
    assert mended == [[0]]
    assert fake.current == fake.defaults
    assert_eager_mode_works(plan)
    with Program(plan, mode="graph") as program:
        assert program.run()["bad"].tolist() == [0.0, 0.0]


def test_a_graph_that_is_too_large_is_found_before_the_capture_where_it_can_be(cuda: Callable[[int], FakeCuda]) -> None:
    fake = cuda(1)
    with pytest.raises(TaskFailedError, match="graph mode keeps all results of the plan"):
        Program(single(OnCall(torch.OutOfMemoryError("CUDA out of memory"), 2)), mode="graph")
    assert fake.told == []


def test_a_capture_that_ends_badly_is_told(cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch) -> None:
    """A task left a stream behind that does not come back: torch says so at the end, not which."""
    fake = cuda(1)
    real = fake.capturing

    class Broken:
        def __init__(self, stream: Any) -> None:
            self.inner = real(stream)

        def __enter__(self) -> None:
            self.inner.__enter__()

        def __exit__(self, *error: Any) -> None:
            self.inner.__exit__(*error)
            raise RuntimeError("capturing stream has unjoined work")

    monkeypatch.setattr(capture, "capturing", lambda graph, stream, pool=None: Broken(stream))
    monkeypatch.setattr(capture, "free_generators", lambda devices, stream: None)
    with pytest.raises(
        TaskFailedError, match=r"cannot be captured into a CUDA graph: .*unjoined work: run the plan in"
    ):
        Program(single(torch.neg), mode="graph")
    with pytest.raises(TaskFailedError, match=r"'bad' failed on lane cuda:0/s0.*no while it was captured"):
        Program(single(OnCall(ValueError("no"), 3)), mode="graph")


def test_a_task_that_works_on_a_stream_that_is_not_captured_is_named(cuda: Callable[[int], FakeCuda]) -> None:
    """Its work would be done once, and be missing in every replay."""
    fake = cuda(1)

    def elsewhere(t: torch.Tensor) -> torch.Tensor:
        lane = torch.cuda.current_stream(0)
        torch.cuda.set_stream(fake.pools[0][31])
        result = t + 1
        torch.cuda.set_stream(lane)
        return result

    switch = torch.cuda.set_stream
    plan = single(elsewhere)
    with pytest.raises(
        TaskFailedError, match=r"'bad' failed .*a stream that does not follow the lane's: call wait_str"
    ):
        Program(plan, mode="graph")
    assert torch.cuda.set_stream == switch
    assert_eager_mode_works(plan)


def test_other_threads_may_change_streams_during_a_capture(cuda: Callable[[int], FakeCuda]) -> None:
    fake = cuda(1)
    errors: list[BaseException] = []

    def switch() -> None:
        try:
            torch.cuda.set_stream(fake.pools[0][30])
        except RuntimeError as error:
            errors.append(error)

    def beside(t: torch.Tensor) -> torch.Tensor:
        lane = torch.cuda.current_stream(0)
        fake.set_stream(fake.pools[0][31])
        thread = threading.Thread(target=switch)
        thread.start()
        thread.join()
        fake.set_stream(lane)
        return t + 1

    with Program(single(beside), mode="graph") as program:
        assert program.run()["bad"].tolist() == [0.0, 0.0]
    assert errors == []


def test_a_timed_capture_that_fails_leaves_the_program(cuda: Callable[[int], FakeCuda]) -> None:
    """It takes as much memory again; the graphs without timing events go on."""
    cuda(1)
    with Program(single(OnCall(torch.OutOfMemoryError("CUDA out of memory"), 4)), mode="graph") as program:
        with pytest.raises(TaskFailedError, match="graph mode keeps all results"):
            program.time_spans()
        assert program.run()["bad"].tolist() == [0.0, 0.0]
        program.time_spans()
        assert program.run(x=torch.zeros(2))["bad"].tolist() == [1.0, 1.0]


def test_a_capture_that_is_interrupted_is_given_up(
    cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Generators draw outside graphs again."""
    fake = cuda(1)
    mended: list[list[int]] = []
    monkeypatch.setattr(capture, "free_generators", lambda devices, stream: mended.append(devices))
    switch = torch.cuda.set_stream
    with pytest.raises(KeyboardInterrupt):
        Program(single(OnCall(KeyboardInterrupt(), 3)), mode="graph")
    assert mended == [[0]]
    assert torch.cuda.set_stream == switch
    assert gc.isenabled()
    assert fake.current == fake.defaults


def test_lanes_of_the_cpu_end_where_a_program_cannot_be_made(cuda: Callable[[int], FakeCuda]) -> None:
    fake = cuda(1)
    work = Workload()
    work.task(torch.neg, work.input("h", torch.ones(2)), name="c")
    work.task(OnCall(ValueError("no"), 3), work.input("x", torch.ones(2), device="cuda:0"), name="bad", outputs=TWO)
    plan = by_hand(work, machine("cuda:0"), {"c": "cpu/w0", "bad": "cuda:0/s0"})
    with pytest.raises(TaskFailedError, match="'bad' failed on lane cuda:0/s0"):
        Program(plan, mode="graph")
    assert [lane.closed for lane in fake.lanes] == [True]


class PlayedGraph:
    """Notes its captures; the end of one warns, as torch does where nothing was captured."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def capture_begin(self, pool: str, capture_error_mode: str) -> None:
        assert (pool, capture_error_mode) == ("pool", "relaxed")
        self.log.append("begin")

    def capture_end(self) -> None:
        self.log.append("end")
        warnings.warn("The CUDA Graph is empty. This usually means", UserWarning, stacklevel=1)


@pytest.fixture
def emptied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is given back."""
    given: list[str] = []
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: given.append("cache"))
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None, raising=False)
    for name in ("_cuda_endAllocateToPool", "_cuda_releasePool"):
        monkeypatch.setattr(torch._C, name, lambda device, pool, name=name: given.append(name), raising=False)
    return given


STREAM = SimpleNamespace(device=SimpleNamespace(index=0))


def test_an_empty_graph_and_a_failed_capture_make_no_warning(emptied: list[str]) -> None:
    """Torch warns at the end of a capture that nothing was captured; the memory of a failed one is given back."""
    graph = PlayedGraph()
    with capture.capturing(graph, STREAM, "pool"):
        graph.log.append("calls")
    assert graph.log == ["begin", "calls", "end"]
    assert emptied == []
    with pytest.raises(ValueError, match="no"), capture.capturing(graph, STREAM, "pool"):
        raise ValueError("no")
    assert graph.log == ["begin", "calls", "end", "begin", "end"]
    assert emptied == ["_cuda_endAllocateToPool", "_cuda_releasePool"]
    with pytest.warns(UserWarning, match="is empty"):
        warnings.warn("The CUDA Graph is empty.", UserWarning, stacklevel=1)


@pytest.mark.parametrize(
    ("free", "needed", "given"),
    [
        ([60, 60], 40, []),
        ([60, 10], 1, ["cache"]),
        ([10, 10], 1, ["cache"]),
        ([90, 60], 50, ["cache"]),  # with what blocks take
    ],
)
def test_memory_is_given_back_before_a_capture_only_where_it_is_short(
    free: list[int], needed: int, given: list[str], emptied: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each of two GPUs so many hundredths are free, and needed."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free[device], 100))
    capture.make_room({0: needed, 1: needed})
    assert emptied == given


# -- played: replays --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"x": torch.ones(3)}, r"input 'x' must be float32\[2\], got float32\[3\]"),
        ({"x": torch.ones(2, dtype=torch.float64)}, r"input 'x' must be float32\[2\], got float64\[2\]"),
        ({"x": [1.0, 1.0]}, "input 'x' must be a tensor, got list"),
        (
            {"x": torch.ones(2, device="meta")},
            "'x' is on cpu, got a tensor on meta: give one there or on the host",
        ),
        ({"y": torch.ones(2)}, "'y' is no input of this workload: it has x"),
    ],
)
def test_a_replay_with_other_inputs_is_refused(
    cuda: Callable[[int], FakeCuda], inputs: dict[str, Any], message: str
) -> None:
    cuda(1)
    with Program(single(torch.neg), mode="graph") as program:
        with pytest.raises(WorkloadError, match=message):
            program.run(**inputs)
        assert program.run(x=torch.zeros(2))["bad"].tolist() == [0.0, 0.0]


def test_a_closed_program_says_so(cuda: Callable[[int], FakeCuda]) -> None:
    cuda(1)
    program = Program(single(torch.neg), mode="graph")
    program.close()
    program.close()
    for use in (program.run, program.time_once, program.time_spans, program.state, program.reset):
        with pytest.raises(ExecutionError, match="this program is closed: make a new one"):
            use()


# -- on GPUs ------------------------------------------------------------------------------------------------


@pytest.fixture
def memory() -> Iterator[Callable[[], int]]:
    """Reads what torch has of the GPU, all that it can give back given back."""

    def reserved() -> int:
        gc.collect()
        torch.cuda.empty_cache()
        return torch.cuda.memory_reserved()

    yield reserved
    gc.collect()
    torch.cuda.empty_cache()


def reads_a_number(t: torch.Tensor) -> torch.Tensor:
    return t * (-t.sum().item() / 2) + 1


def has_a_shape_that_follows_from_data(t: torch.Tensor) -> torch.Tensor:
    return t[t.nonzero()[:, 0]] + 1


def has_an_index_on_the_cpu(t: torch.Tensor) -> torch.Tensor:
    return t[torch.tensor([0, 1])] + 1


def waits_for_an_event(t: torch.Tensor) -> torch.Tensor:
    event = torch.cuda.Event()
    event.record()
    event.synchronize()
    return t + 1


def works_elsewhere(t: torch.Tensor) -> torch.Tensor:
    with torch.cuda.stream(torch.cuda.Stream(t.device)):
        return torch.zeros(2, device=t.device)


def draws(t: torch.Tensor) -> torch.Tensor:
    return t + 1 + 0 * torch.rand(2, device=t.device)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "function",
    [
        has_a_shape_that_follows_from_data,
        has_an_index_on_the_cpu,
        waits_for_an_event,
        works_elsewhere,
        reads_a_number,
    ],
)
def test_what_cannot_be_captured_leaves_eager_mode_and_graphs_of_others(function: Callable[..., Any]) -> None:
    plan = single(function)
    with Program(single(draws), mode="graph") as other:
        with pytest.raises(
            TaskFailedError, match=r"(?s)'bad'.*run the plan in eager mode|'bad'.*does not follow the lane's"
        ):
            Program(plan, mode="graph")
        assert_eager_mode_works(plan)
        assert_eager_mode_works(single(draws))
        assert other.run()["bad"].tolist() == [0.0, 0.0]
    with Program(single(draws), mode="graph") as program:
        assert program.run()["bad"].tolist() == [0.0, 0.0]


@pytest.mark.gpu
def test_a_capture_that_fails_gives_its_memory_back(memory: Callable[[], int]) -> None:
    """A task takes 64 MB, and then waits for an event, which no capture allows: nothing stays."""

    def large(t: torch.Tensor) -> torch.Tensor:
        return waits_for_an_event(t + torch.zeros(1 << 24, device=t.device)[0])

    reserved = []
    for _ in range(5):
        with pytest.raises(TaskFailedError, match="'bad'"):
            Program(single(large), mode="graph")
        reserved.append(memory())
    assert reserved[-1] <= reserved[0]


@pytest.mark.gpu
@pytest.mark.parametrize("call", [2, 3])
def test_a_task_that_fails_by_itself_leaves_no_memory(memory: Callable[[], int], call: int) -> None:
    """In the run before the capture, and in the capture, which ends well around it; random numbers go on."""

    class Fails(OnCall):
        def __call__(self, t: torch.Tensor) -> torch.Tensor:
            return super().__call__(t + torch.zeros(1 << 24, device=t.device)[0])

    reserved = []
    for _ in range(5):
        with pytest.raises(TaskFailedError, match="not now"):
            Program(single(Fails(ValueError("not now"), call)), mode="graph")
        reserved.append(memory())
    assert reserved[-1] <= reserved[0]
    assert torch.rand(2, device="cuda:0").shape == (2,)


@pytest.mark.gpu
def test_a_graph_larger_than_memory_is_told_and_eager_mode_runs_it(memory: Callable[[], int]) -> None:
    """Twelve results of 256 MB, of which eager mode holds two at a time: 1.5 GB are given."""
    work = Workload()
    value = work.input("x", torch.ones(1 << 26), device="cuda:0")
    for i in range(12):
        value = work.task(torch.neg, value, name=f"t{i}")
    work.task(torch.sum, value, name="total")
    plan = by_hand(work, machine("cuda:0"), "cuda:0/s0")
    before, whole = memory(), torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((before + 1.5 * 2**30) / whole)
    try:
        with pytest.raises(
            TaskFailedError, match=r"'t\d+' failed .*graph mode keeps all results of the plan \(known: 3"
        ):
            Program(plan, mode="graph")
        assert memory() <= before + 2**21
        with Program(plan) as program:
            assert program.run()["total"].item() == float(1 << 26)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@pytest.mark.gpu
def test_inputs_may_come_from_any_device() -> None:
    with Program(single(torch.neg), mode="graph") as program:
        here, there = program.run(x=torch.full((2,), 3.0)), program.run(x=torch.full((2,), 3.0, device="cuda:0"))
    assert here["bad"].tolist() == there["bad"].tolist() == [3.0, 3.0]


@pytest.mark.gpu
def test_a_closed_program_gives_its_memory_back(memory: Callable[[], int]) -> None:
    before = memory()
    program = Program(single(lambda t: t + torch.zeros(1 << 26, device=t.device)[0]), mode="graph")
    program.run()
    program.close()
    assert memory() <= before + 2**21
    with pytest.raises(ExecutionError, match="closed"):
        program.run()


@pytest.mark.gpu
def test_a_graph_of_views_alone_makes_no_warning() -> None:
    work = Workload()
    x = work.input("x", torch.arange(4.0).reshape(2, 2), device="cuda:0")
    work.task(torch.t, x, name="y")
    with Program(by_hand(work, machine("cuda:0"), "cuda:0/s0"), mode="graph") as program:
        assert program.run()["y"].tolist() == [[0.0, 2.0], [1.0, 3.0]]
