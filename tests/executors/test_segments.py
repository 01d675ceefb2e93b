"""Graph mode for plans with CPU tasks: graphs and jobs of CPU lanes in turn, played without a GPU and on real ones."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
import torch

from graphsched.errors import TaskFailedError
from graphsched.executors import Program, capture, execute, segments, timed_runs
from graphsched.plan import OUTSIDE, Plan, Segments, pinned_results, segments_of
from graphsched.workload import TensorSpec, Workload
from tests.executors.fake_cuda import FakeCuda, RaceError
from tests.executors.programs import (
    SIZE,
    Plain,
    assert_same,
    by_hand,
    digits,
    machine,
    random_plan,
    random_workload,
    step_,
    top,
)

TWO = [TensorSpec((2,))]


def there_and_back(
    function: Callable[..., Any] = torch.neg, second: str = "cuda:0/s1", *, pageable: bool = False
) -> Plan:
    """x ──▶ a (s0) ──▶ c (cpu) ──▶ d (s0);  x ──▶ b (s1), which stands behind c;  w ◀── count (cpu) ◀── c.

    The result of c comes back in d's graph or, `pageable`, before that.
    """
    work = Workload()
    x = work.input("x", torch.ones(2), device="cuda:0")
    w = work.state("w", torch.zeros(2), device="cpu")
    a = work.task(torch.exp, x, name="a")
    c = work.task(function, a, name="c", outputs=TWO)
    work.task(step_, w, c, updates=w, name="count", outputs=[])
    b = work.task(torch.sin, x, name="b")
    work.task(torch.add, work.copy(c, to="cuda:0", name="back") if pageable else c, b, name="d")
    lanes = {"a": "cuda:0/s0", "b": second, "c": "cpu/w0", "count": "cpu/w1", "d": "cuda:0/s0"}
    return by_hand(work, machine(*sorted({"cuda:0", second.partition("/")[0]})), lanes)


def mixed_plan(seed: int, names: tuple[str, ...], between: str = "peer") -> tuple[Workload, Plan]:
    """Random graphs on random lanes of GPUs and the CPU, with states on both and copies of all kinds."""
    work = random_workload(seed, (*names, "cpu"), tasks=25)
    return work, random_plan(work, machine(*names, between=between), seed, 1 + seed % 3, waits=seed % 4 == 0)


# -- played ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("between", ["peer", "staged"])
@pytest.mark.parametrize("seed", range(8))
def test_runs_do_what_plain_pytorch_does(cuda: Callable[[int], FakeCuda], seed: int, between: str) -> None:
    """No stream and no lane of the CPU uses memory out of order."""
    names = tuple(f"cuda:{k}" for k in range(1 + seed % 2))
    fake = cuda(len(names))
    work, plan = mixed_plan(seed, names, between)
    assert len(segments_of(plan)) > 1
    plain = Plain(work)
    with Program(plan, mode="graph") as program:
        for step in range(3):
            assert_same(program.run(x=digits(step)), plain.run(x=digits(step)))
        program.time_spans()
    assert fake.device == 0
    assert fake.current == fake.defaults


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        ({"after": {}}, "'c' failed on lane cpu/w0.*not yet written by"),
        ({"before": ((), (), ())}, "not yet written by"),
    ],
)
@pytest.mark.parametrize("pageable", [True, False])
def test_without_the_waits_between_segments_a_race_is_found(
    pageable: bool, cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch, lost: dict[str, Any], message: str
) -> None:
    """The run before the capture shows what reads too early, the first replay what segments do not wait for."""
    cuda(1)
    monkeypatch.setattr(segments, "segments_of", lambda plan: replace(segments_of(plan), **lost))
    plan = there_and_back(pageable=pageable)
    with pytest.raises((TaskFailedError, RaceError), match=message), Program(plan, mode="graph") as program:
        program.run()


@pytest.mark.parametrize("pageable", [True, False])
def test_a_program_made_in_inference_mode_runs_outside_it(cuda: Callable[[int], FakeCuda], pageable: bool) -> None:
    cuda(1)
    with torch.inference_mode():
        program = Program(there_and_back(pageable=pageable), mode="graph")
    with program:
        for k in range(2):
            x = torch.full((2,), float(k))
            assert torch.equal(program.run(x=x)["d"], x.sin() - x.exp())


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_results_of_the_cpu_are_read_as_the_run_made_them(cuda: Callable[[int], FakeCuda], mode: str) -> None:
    """c takes its time; the memory that d's copy reads still holds what c returned in the run before."""
    cuda(1)

    def late(t: torch.Tensor) -> torch.Tensor:
        time.sleep(0.01)
        return -t

    with Program(there_and_back(late), mode=mode) as program:
        for k in range(4):
            x = torch.full((2,), float(k))
            assert torch.equal(program.run(x=x)["d"], torch.sin(x) - torch.exp(x))


def grow_(t: torch.Tensor) -> None:
    t.add_(1.0)


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_what_a_task_updates_behind_a_graph_is_copied_again(mode: str, cuda: Callable[[int], FakeCuda]) -> None:
    """c (cpu) is half of a state ──▶ d (s0); u (cpu) adds 1 to it ──▶ e (s0)."""
    cuda(1)
    work = Workload()
    c = work.task(top, work.state("w", torch.zeros(SIZE, 2), device="cpu"), name="c")
    work.task(torch.clone, c, name="d")
    work.task(grow_, c, updates=c, name="u")
    work.task(torch.clone, c, name="e")
    plan = by_hand(work, machine("cuda:0"), {"c": "cpu/w0", "d": "cuda:0/s0", "u": "cpu/w0", "e": "cuda:0/s0"})
    assert [str(read) for reads in pinned_results(plan).values() for read in reads] == ["c", "c@1"]
    with Program(plan, mode=mode) as program:
        for k in range(3):
            found = program.run()
            assert [found[name].unique().tolist() for name in "de"] == [[k], [k + 1]]


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_steps_that_overlap_have_pinned_memory_of_their_own(mode: str, cuda: Callable[[int], FakeCuda]) -> None:
    """Two steps under way: what c returns in the second is not what the first one's copy reads."""
    cuda(1)
    with Program(there_and_back(), mode=mode) as program:
        xs = [torch.full((2,), float(k)) for k in range(2)]
        for x, step in zip(xs, [program.submit(x=x) for x in xs], strict=True):
            assert torch.equal(step.result()["d"], torch.sin(x) - torch.exp(x))


def test_without_what_lies_between_graphs_and_others_a_run_fails(
    cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda(1)
    monkeypatch.setattr(segments.SegmentCompiler, "read_outside", lambda compiler: [])
    with Program(there_and_back(), mode="graph") as program, pytest.raises(TaskFailedError, match="'c' failed"):
        program.run()


def test_a_thousand_runs_take_no_memory(cuda: Callable[[int], FakeCuda]) -> None:
    fake = cuda(1)
    with Program(there_and_back(), mode="graph") as program:
        program.run()
        gc.collect()
        before = len(fake.live)
        for k in range(1000):
            program.time_once()
            if k % 100 == 0:
                assert len(fake.live) <= before + 2  # c and its copy, until the next run
        x = torch.zeros(2)
        assert torch.equal(program.run(x=x)["d"], torch.sin(x) - torch.exp(x))


def test_results_are_copies_that_later_runs_leave_alone(cuda: Callable[[int], FakeCuda]) -> None:
    """c comes from the CPU, d from a graph, out through pageable memory."""
    cuda(1)
    plan = there_and_back()
    with Program(plan, mode="graph") as program:
        first = program.run(x=torch.zeros(2))
        kept = {name: tensor.clone() for name, tensor in first.items()}
        program.run(x=torch.ones(2))
    assert_same(first, kept)


def test_making_and_timing_a_program_leaves_states_and_random_numbers(cuda: Callable[[int], FakeCuda]) -> None:
    """Of the CPU too: two runs before the capture count nothing."""
    cuda(1)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    with Program(there_and_back(torch.nn.functional.dropout), mode="graph") as program:
        assert program.state()["w"].tolist() == [0.0, 0.0]
        assert torch.equal(torch.get_rng_state(), before)


def test_random_numbers_are_those_of_eager_mode(cuda: Callable[[int], FakeCuda]) -> None:
    cuda(1)
    plan = there_and_back(torch.nn.functional.dropout)
    found = []
    for mode in ("eager", "graph"):
        with Program(plan, mode=mode) as program:
            torch.manual_seed(7)
            found.append([program.run()["d"] for _ in range(5)])
    assert all(map(torch.equal, *found))
    assert any(not torch.equal(found[0][0], d) for d in found[0])


def test_segments_follow_in_turn_where_another_gpu_draws_random_numbers(
    cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launch writes where its numbers begin, beside what still runs on that GPU."""
    fake = cuda(2)
    plan = there_and_back(second="cuda:1/s0")
    with Program(plan, mode="graph") as program:
        assert not program._compiler.draws_elsewhere
    numbers = count()
    states = capture.random_states
    monkeypatch.setattr(capture, "random_states", lambda devices: {**states(devices), 1: torch.tensor(next(numbers))})
    monkeypatch.setattr(capture, "set_random_states", lambda states: None)
    with Program(plan, mode="graph") as program:
        assert program._compiler.draws_elsewhere
        waits = [call for call in program._calls.calls if getattr(call, "func", None) == program.watch.see]
        assert len(waits) == len(segments_of(plan)) - 1
        assert program.run(x=torch.zeros(2))["d"].tolist() == [-1.0, -1.0]
    assert fake.current == fake.defaults


def test_a_timed_run_has_times_of_every_action(cuda: Callable[[int], FakeCuda]) -> None:
    """Those of a segment are issued by its launch; CPU tasks and copies outside as in eager mode."""
    cuda(1)
    plan = there_and_back()
    of = segments_of(plan).of
    with Program(plan, mode="graph") as program:
        stamps, began, seconds = program.time_spans()
    on_gpu = [i for i, lane in enumerate(plan.lane_of) if plan.lanes[lane].device == "cuda:0"]
    assert sorted(stamps.events) == on_gpu
    for k in range(len(segments_of(plan))):
        members = [i for i, segment in enumerate(of) if segment == k]
        assert len({(stamps.issue_start[i], stamps.issue_end[i]) for i in members}) == 1
    firsts = [stamps.issue_start[i] for i in range(len(plan)) if of[i] == OUTSIDE or of[i] not in of[:i]]
    assert firsts == sorted(firsts)
    for name in ("c", "count"):
        i = plan.names.index(name)
        assert began < stamps.issue_start[i] <= stamps.start[i] <= stamps.end[i] < began + seconds


def test_a_failing_cpu_task_is_named_and_the_program_runs_again(cuda: Callable[[int], FakeCuda]) -> None:
    cuda(1)
    fails = [False]

    def task(t: torch.Tensor) -> torch.Tensor:
        if fails[0]:
            raise ValueError("not now")
        return -t

    with Program(there_and_back(task), mode="graph") as program:
        for _ in range(2):
            fails[0] = True
            with pytest.raises(TaskFailedError, match=r"'c' failed on lane cpu/w0 with inputs a: .*not now"):
                program.run()
            fails[0] = False
            assert program.run(x=torch.zeros(2))["d"].tolist() == [-1.0, -1.0]


def test_a_cpu_task_that_fails_before_the_capture_is_named(cuda: Callable[[int], FakeCuda]) -> None:
    """In the second run too, of which the GPU's tasks come after."""
    cuda(1)
    for most in (0, 1):
        calls = count()

        def task(t: torch.Tensor, calls: Any = calls, most: int = most) -> torch.Tensor:
            if next(calls) >= most:
                raise ValueError("not now")
            return -t

        with pytest.raises(TaskFailedError, match=r"'c' failed on lane cpu/w0 with inputs a: .*not now"):
            Program(there_and_back(task), mode="graph")


@pytest.mark.parametrize(
    ("pageable", "mode", "name"), [(True, "graph", "back"), (False, "graph", "c"), (False, "eager", "c")]
)
def test_a_result_of_the_cpu_that_changes_its_shape_is_told(
    pageable: bool, mode: str, name: str, cuda: Callable[[int], FakeCuda]
) -> None:
    """A GPU reads it from memory that is as large as the first one was."""
    cuda(1)
    size = [2]
    with Program(there_and_back(lambda t: -t[: size[0]], pageable=pageable), mode=mode) as program:
        program.run()
        size[0] = 1
        told = rf"'{name}' .*GPUs read .* \(2,\) of it, .* become .* \(1,\)"
        with pytest.raises(TaskFailedError, match=told):
            program.run()


def test_a_plan_that_ends_outside_is_over_when_that_is(cuda: Callable[[int], FakeCuda]) -> None:
    """a (s0) ──▶ out, a pageable copy on a lane of its own, which is the last thing of the run."""
    cuda(1)
    work = Workload()
    a = work.task(torch.neg, work.input("x", torch.ones(2), device="cuda:0"), name="a")
    work.copy(a, to="cpu", name="out")
    with Program(by_hand(work, machine("cuda:0"), "cuda:0/s0"), mode="graph") as program:
        assert [lane.name for lane in program._compiler.final_lanes()] == ["cuda:0/s0", "cuda:0/d2h"]
        assert program.run()["out"].tolist() == [-1.0, -1.0]


def test_graphs_are_launched_where_copies_outside_need_not_wait_for_them(cuda: Callable[[int], FakeCuda]) -> None:
    """x (h2d) ──▶ a (s0) ──▶ c (cpu) ──▶ (h2d, through pageable memory) ──▶ d (s0), and b (s0) beside c.

    The first lane is that of the copies: b's graph is in flight while the second one is made.
    """
    cuda(1)
    work = Workload()
    value = work.task(torch.exp, work.input("x", torch.ones(2), device="cpu"), name="a")
    c = work.task(torch.neg, value, name="c")
    back = work.copy(c, to="cuda:0", name="back")
    work.task(torch.add, back, work.task(torch.sin, value, name="b"), name="d")
    plan = by_hand(work, machine("cuda:0"), {"a": "cuda:0/s0", "b": "cuda:0/s0", "c": "cpu/w0", "d": "cuda:0/s0"})
    lanes = [plan.lanes[lane].name for lane in plan.lane_of]
    assert lanes[0] == "cuda:0/h2d"
    assert lanes[plan.names.index("back")] == "cuda:0/h2d"
    with Program(plan, mode="graph") as program:
        by_name = {plan.lanes[number].name: lane for number, lane in program._cuda.items()}
        assert program._compiler.origin is by_name["cuda:0/s0"].stream
        copied = plan.names.index("back")
        calls = zip(program._calls.owner, program._calls.calls, strict=True)
        waits = [getattr(call, "func", None) for owner, call in calls if owner == copied]
        assert by_name["cuda:0/h2d"].stream.wait_event not in waits
        for k in range(2):
            a = torch.exp(torch.full((2,), float(k)))
            assert_same(program.run(x=torch.full((2,), float(k))), {"d": torch.sin(a) - a})


def gates() -> Plan:
    """a (s0); gate; c (cpu); again; b (s0): lanes wait at the first, the thread at the second."""
    work = Workload()
    x, h = work.input("x", torch.ones(2), device="cuda:0"), work.input("h", torch.ones(2))
    work.task(torch.neg, x, name="a")
    work.barrier("gate")
    work.task(torch.neg, h, name="c")
    work.barrier("again")
    work.task(torch.exp, x, name="b")
    return by_hand(work, machine("cuda:0"), {"a": "cuda:0/s0", "c": "cpu/w0", "b": "cuda:0/s0"})


def test_the_thread_waits_where_lanes_cannot(cuda: Callable[[int], FakeCuda]) -> None:
    cuda(1)
    plan = gates()
    gate, again = plan.names.index("gate"), plan.names.index("again")
    with Program(plan, mode="graph") as program:
        assert timed_runs._waits_of_lanes(program) == {gate}
        assert again in program._calls.owner
        assert gate not in program._calls.owner
        program.run()
    with Program(plan) as program:
        assert timed_runs._waits_of_lanes(program) == set()


def test_a_wait_of_the_thread_sees_the_end_of_a_segment(cuda: Callable[[int], FakeCuda]) -> None:
    """a (s0), c (cpu); gate, for both."""
    cuda(1)
    work = Workload()
    work.task(torch.neg, work.input("x", torch.ones(2), device="cuda:0"), name="a")
    work.task(torch.neg, work.input("h", torch.ones(2)), name="c")
    work.barrier("gate")
    plan = by_hand(work, machine("cuda:0"), {"a": "cuda:0/s0", "c": "cpu/w0"})
    with Program(plan, mode="graph") as program:
        calls = zip(program._calls.owner, program._calls.calls, strict=True)
        waits: list[Any] = [call for owner, call in calls if owner == plan.names.index("gate")]
        assert [wait.func for wait in waits] == [program.watch.see, program.watch.spin]
        assert waits[0].args[1] == "the graph of segment 0"


def test_only_events_inside_graphs_are_external(
    cuda: Callable[[int], FakeCuda], monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda(1)
    plan = there_and_back(pageable=True)
    of, new_event, made = segments_of(plan).of, segments.new_event, []

    def noted(timing: bool = False, external: bool = False) -> Any:
        made.extend([external] if timing else [])
        return new_event()

    monkeypatch.setattr(segments, "new_event", noted)
    with Program(plan, mode="graph") as program:
        program.time_spans()
    on_gpu = [segment for lane, segment in zip(plan.lane_of, of, strict=True) if plan.lanes[lane].device == "cuda:0"]
    assert made.count(True) == 2 * sum(segment != OUTSIDE for segment in on_gpu)
    assert made.count(False) == 2 * on_gpu.count(OUTSIDE) > 0


def test_the_segments_hold_what_the_program_launches(cuda: Callable[[int], FakeCuda]) -> None:
    """One launch for each."""
    cuda(1)
    plan = there_and_back()
    with Program(plan, mode="graph") as program:
        launches = [call for call in program._calls.calls if getattr(call, "__name__", "") == "replay"]
    assert isinstance(segments_of(plan), Segments)
    assert len(launches) == len(segments_of(plan)) == 3


# -- on GPUs -------------------------------------------------------------------------------------------------


def gpus() -> tuple[str, ...]:
    return tuple(f"cuda:{k}" for k in range(min(4, torch.cuda.device_count())))


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(8))
def test_runs_equal_eager_mode_to_the_bit(seed: int) -> None:
    _, plan = mixed_plan(seed, gpus())
    with Program(plan) as eager, Program(plan, mode="graph") as graph:
        for step in range(5):
            assert_same(graph.run(x=digits(step)), eager.run(x=digits(step)))
        assert_same(graph.state(), eager.state())


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(4))
def test_spans_of_random_plans_obey_them(seed: int) -> None:
    timeline: Any = execute(mixed_plan(seed, gpus()[:2])[1], mode="graph", repeats=3)
    assert (timeline.end_s >= timeline.start_s).all()
    assert timeline.end_s.max() <= timeline.timed_makespan_s + 1e-5 + timeline.clock_uncertainty_s


@pytest.mark.gpu
def test_a_thousand_runs_on_a_gpu_take_no_memory() -> None:
    with Program(there_and_back(), mode="graph") as program:
        program.run()
        before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        for _ in range(1000):
            program.time_once()
        assert (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()) == before
        x = torch.zeros(2)
        assert torch.equal(program.run(x=x)["d"].cpu(), torch.sin(x) - torch.exp(x))


@pytest.mark.gpu
def test_random_numbers_on_a_gpu_are_those_of_eager_mode() -> None:
    """Draws in both segments, on the GPU and on the CPU."""
    work = Workload()
    x = work.input("x", torch.ones(1000), device="cuda:0")
    a = work.task(torch.nn.functional.dropout, x, name="a")
    c = work.task(torch.nn.functional.dropout, a, name="c")
    work.task(torch.nn.functional.dropout, c, name="d")
    plan = by_hand(work, machine("cuda:0"), {"a": "cuda:0/s0", "c": "cpu/w0", "d": "cuda:0/s0"})
    found = []
    for mode in ("eager", "graph"):
        with Program(plan, mode=mode) as program:
            torch.manual_seed(7)
            found.append([program.run()["d"] for _ in range(5)])
    assert all(map(torch.equal, *found))
    assert not torch.equal(found[1][0], found[1][1])


@pytest.mark.multigpu
def test_random_numbers_on_another_gpu_are_those_of_eager_mode() -> None:
    """The second GPU draws for long in the first segment, while the second is launched."""

    def draws(t: torch.Tensor) -> torch.Tensor:
        for _ in range(20):
            torch.cuda._sleep(200_000)
            t = torch.nn.functional.dropout(t) + t
        return t

    work = Workload()
    x = work.input("x", torch.ones(1000), device="cuda:0")
    y = work.input("y", torch.ones(1000), device="cuda:1")
    c = work.task(torch.neg, work.task(torch.exp, x, name="a"), name="c")
    b = work.task(draws, y, name="b", outputs=[TensorSpec((1000,))])
    work.task(torch.nn.functional.dropout, work.task(torch.add, b, b, name="e"), name="f")
    work.task(torch.add, c, x, name="d")
    lanes = {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cpu/w0", "d": "cuda:0/s0", "e": "cuda:1/s0", "f": "cuda:1/s0"}
    plan = by_hand(work, machine("cuda:0", "cuda:1"), lanes)
    found = []
    for mode in ("eager", "graph"):
        with Program(plan, mode=mode) as program:
            torch.manual_seed(7)
            found.append([program.run()["f"] for _ in range(5)])
    assert all(map(torch.equal, *found))


@pytest.mark.multigpu
@pytest.mark.parametrize("seed", range(4))
def test_copies_staged_through_the_host_are_replayed(seed: int) -> None:
    """GPUs as if they had no access to each other: with CPU tasks and without."""
    names = gpus()[:2]
    for plan in (
        mixed_plan(seed, names, "staged")[1],
        random_plan(
            random_workload(seed, names, tasks=25, pinned=True), machine(*names, between="staged"), seed, 2, on=names
        ),
    ):
        with Program(plan) as eager, Program(plan, mode="graph") as graph:
            junk = [torch.empty(1 << 12, dtype=torch.uint8, pin_memory=True).fill_(255) for _ in range(64)]
            for step in range(5):
                assert_same(graph.run(x=digits(step)), eager.run(x=digits(step)))
        del junk


@pytest.mark.multigpu
def test_memory_of_another_gpu_stays_the_graphs_own() -> None:
    """A task's own memory on the second GPU is written in every replay; what torch gives out meanwhile is not that."""
    work = Workload()
    x = work.input("x", torch.ones(1 << 22), device="cuda:0")
    work.task(lambda t: (t + 1) * 2 - t, x, name="y", outputs=[TensorSpec((1 << 22,))])
    plan = by_hand(work, machine("cuda:0", "cuda:1"), "cuda:1/s0")
    with Program(plan, mode="graph") as program:
        torch.cuda.empty_cache()
        others = [torch.zeros(1 << 22, device="cuda:1") for _ in range(8)]
        assert program.run()["y"].eq(3.0).all()
        torch.cuda.synchronize(1)
        assert all(not other.any() for other in others)
