"""Matching a trace to a plan: by launches, by nodes of a graph, by elimination; and what is not matched."""

from __future__ import annotations

from dataclasses import replace

from graphsched.executors.fill_kernel import KERNEL as FILL
from graphsched.executors.stamp_kernel import KERNEL
from graphsched.formats.kernel_matching import (
    AMBIGUOUS,
    LOST,
    NO_RANGE,
    NOT_KNOWN,
    Matching,
    match_launches,
    match_replay,
)
from graphsched.formats.profiler_trace import read_trace
from graphsched.timeline import Timeline
from graphsched.workload import Workload
from tests.formats.traces import (
    OTHER_THREAD,
    Event,
    call,
    eager,
    handed_over,
    kernel,
    memcpy,
    memset,
    peer,
    span,
    trace,
)
from tests.timelines import MATRIX, add, plan_of, timeline


def correlations(found: Matching) -> dict[int, list[int]]:
    return {i: [piece.correlation for piece in pieces] for i, pieces in found.work.items()}


def matched(events: list[Event], line: Timeline | None = None) -> Matching:
    """On the clock of the spans: the first range of `eager` begins at 0."""
    return match_launches(read_trace(trace(*events)), line or handed_over(), 2e-6)


def test_work_belongs_to_the_range_that_launched_it() -> None:
    found = matched(eager())
    assert correlations(found) == {0: [11, 12], 1: [14], 2: [15], 3: [16]}
    assert found.method == "launches"
    assert (found.empty, found.missing, found.strays) == ((), {}, ())
    assert [one.start_s for one in found.ranges.values()] == [0, 20e-6, 40e-6, 60e-6]


def test_a_lost_kernel_is_told() -> None:
    found = matched([event for event in eager() if event["args"].get("correlation") != 15 or "cbid" in event["args"]])
    assert found.missing == {2: LOST}
    assert 2 not in found.work


def test_of_a_call_and_the_drivers_within_it_one_has_the_work() -> None:
    both = [
        *eager(),
        call("cuLaunchKernel", 43, 1, 115, driver=True),
        call("cuLaunchKernelEx", 63, 1, 116, driver=True),
    ]
    assert correlations(matched(both)) == correlations(matched(eager()))
    moved = [event | {"args": event["args"] | {"correlation": 99}} if event["ts"] == 62 else event for event in both]
    moved = [event | {"args": event["args"] | {"correlation": 116}} if event["ts"] == 64 else event for event in moved]
    assert matched(moved).missing == {}
    assert correlations(matched(moved))[3] == [116]


def test_a_lost_range_is_told_and_its_work_is_a_stray() -> None:
    found = matched(eager("graphsched/c"))
    assert found.missing == {3: NO_RANGE}
    assert [piece.correlation for piece in found.strays] == [16]


def test_an_action_that_launches_nothing_is_empty() -> None:
    found = matched([e for e in eager() if e["args"].get("correlation") != 15])
    assert (found.empty, found.missing) == ((2,), {})


def test_a_copy_that_could_be_two_is_ambiguous() -> None:
    found = matched([*eager(), peer(33, 26, 40)])
    assert found.missing == {1: AMBIGUOUS}
    assert [piece.correlation for piece in found.strays] == [14, 40]


def test_a_call_of_another_thread_belongs_to_the_only_open_range() -> None:
    """The backward pass runs on a thread of its own while the dispatching thread waits in its range."""
    events = [event | {"tid": OTHER_THREAD} if event["ts"] == 42 else event for event in eager()]
    assert correlations(matched(events))[2] == [15]
    both = [*events, span("graphsched/a>cuda:1", 41, 9, thread=4011)]
    both = [event for event in both if event["name"] != "graphsched/a>cuda:1" or event["ts"] == 41]
    assert [piece.correlation for piece in matched(both).strays] == [15]
    outside = [event | {"ts": 56} if event["ts"] == 42 else event for event in eager()]
    assert matched(outside).empty == (2,)


def test_ranges_that_are_not_of_the_plan_are_nothing() -> None:
    found = matched([*eager(), span("graphsched/z", 80, 5), span("b", 41, 5), span("graphsched/b", 90, 1)])
    assert found == matched(eager())


# -- replays ------------------------------------------------------------------------------------------


def replay(**nodes: int) -> list[Event]:
    """One launch; all work has its correlation, on streams that say nothing."""
    fill, a, copied, b, c = (nodes.get(k) for k in ("fill", "a", "copy", "b", "c"))
    return [
        call("cudaGraphLaunch", 0, 9, 50),
        memset(10, 2, 50, stream=30, node=fill),
        kernel("gemm", 15, 15, 50, stream=31, node=a),
        peer(32, 28, 50, node=copied),
        kernel("gemm", 63, 19, 50, device=1, stream=30, node=b),
        kernel("gemm", 64, 29, 50, device=1, stream=30, node=c),
    ]


IN_ORDER = {"fill": 7, "a": 9, "copy": 12, "b": 15, "c": 19}


def replayed(events: list[Event], known: list[Event] | None = None, line: Timeline | None = None) -> Matching:
    line = line or handed_over()
    return match_replay(read_trace(trace(*events)), line, matched(known or eager(), line), 2e-6)


def starts(found: Matching) -> dict[int, list[int]]:
    return {i: [round(piece.start_s * 1e6) for piece in pieces] for i, pieces in found.work.items()}


def test_nodes_in_the_order_of_the_plan_tell_all() -> None:
    found = replayed(replay(**IN_ORDER))
    assert found.method == "graph nodes"
    assert starts(found) == {0: [10, 15], 1: [32], 2: [63], 3: [64]}
    assert (found.ranges, found.missing, found.strays) == ({}, {}, ())


def test_stamps_in_the_graph_are_no_actions() -> None:
    """Two around each action, between the nodes of actions; and one before the graph, for the clock."""
    nodes = {"fill": 12, "a": 13, "copy": 16, "b": 19, "c": 22}
    marks = [kernel(KERNEL, 1 + k, 1, 50, stream=7, node=11 + k) for k in range(14) if 11 + k not in nodes.values()]
    known = replayed(replay(**nodes))
    found = replayed([*replay(**nodes), *marks, kernel(KERNEL, 0, 1, 49)])
    assert (found.method, found.strays, found.missing) == ("graph nodes", (), {})
    assert starts(found) == starts(known)
    without = [kernel(KERNEL, 1 + k, 1, 50, stream=7) for k in range(9)]
    assert replayed([*replay(), *without]) == replayed(replay())


def test_kernels_before_the_graph_are_not_of_it() -> None:
    seeds = [call("cudaLaunchKernel", 0, 2, 49), kernel("fill", 3, 1, 49)]
    assert starts(replayed([*seeds, *replay(**IN_ORDER)])) == starts(replayed(replay(**IN_ORDER)))


def test_without_nodes_the_spans_leave_one_choice_or_none() -> None:
    """b's span ends before c's kernel does, so that c's is c's, and b's the other one."""
    found = replayed(replay())
    assert found.method == "elimination"
    assert starts(found) == {0: [10, 15], 1: [32], 2: [63], 3: [64]}
    both = [event | {"dur": 18.5} if event["ts"] == 64 else event for event in replay()]
    found = replayed(both)
    assert found.missing == {2: AMBIGUOUS, 3: AMBIGUOUS}
    assert len(found.strays) == 2


def test_nodes_in_another_order_are_not_trusted() -> None:
    names = IN_ORDER | {"fill": 9, "a": 7}
    assert replayed(replay(**names)).method == "elimination"
    assert replayed([e for e in replay(**IN_ORDER) if e["ts"] != 64]).method == "elimination"
    assert replayed(replay(**IN_ORDER | {"c": 15})).method == "elimination"  # two of one number


def row() -> Timeline:
    """a ─▶ b on one lane, the same kernel each."""
    work = Workload("row")
    x = work.input("x", MATRIX, device="cuda:0")
    add(work, "b", add(work, "a", x))
    return timeline(
        plan_of(work, {"a": "cuda:0/s0", "b": "cuda:0/s0"}), [(0, 30e-6), (31e-6, 60e-6)], source="measured"
    )


def row_events(*nodes: int | None, device: int = 0) -> list[Event]:
    first, second = kernel("gemm", 1, 20, 50, node=nodes[0]), kernel("gemm", 32, 20, 50, device=device, node=nodes[1])
    return [call("cudaGraphLaunch", 0, 5, 50), first, second]


ROW_EAGER = [
    *(span("graphsched/a", 0, 9), call("cudaLaunchKernel", 1, 2, 1), kernel("gemm", 3, 9, 1)),
    *(span("graphsched/b", 10, 9), call("cudaLaunchKernel", 11, 2, 2), kernel("gemm", 13, 9, 2)),
]


def test_nodes_that_break_a_lanes_order_or_device_are_not_trusted() -> None:
    assert starts(replayed(row_events(3, 4), ROW_EAGER, row())) == {0: [1], 1: [32]}
    backwards = replayed(row_events(4, 3), ROW_EAGER, row())
    assert (backwards.method, starts(backwards)) == ("elimination", {0: [1], 1: [32]})
    elsewhere = replayed(row_events(3, 4, device=1), ROW_EAGER, row())
    assert (elsewhere.method, elsewhere.missing) == ("elimination", {0: AMBIGUOUS, 1: AMBIGUOUS})


def test_an_action_that_eager_mode_did_not_show_is_missing_in_replays() -> None:
    known = [event for event in eager() if event["name"] != "graphsched/c"]
    found = replayed(replay(**IN_ORDER), known)
    assert found.missing[3] == NOT_KNOWN
    assert found.method == "elimination"
    assert starts(found)[0] == [10, 15]


def test_kernels_in_the_place_of_fills_are_fills() -> None:
    """They are numbered behind all others, having been put in after the capture."""
    wanted = replayed(replay(**IN_ORDER))
    events = replay(**{**IN_ORDER, "fill": 23})
    made = [event | {"name": FILL, "cat": "kernel"} if event["ts"] == 10 else event for event in events]
    found = replayed(made)
    assert (found.method, starts(found), found.strays) == ("graph nodes", starts(wanted), ())
    assert replayed(events).method == "elimination"  # a fill that still is one is numbered where it was captured


def test_an_action_that_launches_nothing_is_empty_in_replays_too() -> None:
    known = [event for event in eager() if event["args"].get("correlation") != 15]
    events = [event for event in replay(**IN_ORDER) if event["ts"] != 63]
    found = replayed(events, known)
    assert (found.method, found.empty, sorted(found.work)) == ("graph nodes", (2,), [0, 1, 3])


def test_of_several_graphs_the_first_launched_comes_first() -> None:
    """Nodes of each graph are numbered by themselves."""
    events = replay(fill=8, a=9, copy=1, b=2, c=3)
    late = [event | {"args": event["args"] | {"correlation": 60}} if event["ts"] > 30 else event for event in events]
    assert replayed(late).method == "elimination"  # the second launch is not told
    found = replayed([*late, call("cudaGraphLaunch", 12, 5, 60)])
    assert (found.method, starts(found)) == ("graph nodes", {0: [10, 15], 1: [32], 2: [63], 3: [64]})
    backwards = replay(fill=1, a=2, copy=3, b=4, c=5)
    early = [
        event | {"args": event["args"] | {"correlation": 40}} if event["ts"] > 30 else event for event in backwards
    ]
    assert replayed([*early, call("cudaGraphLaunch", 12, 5, 40)]).method == "elimination"


def test_tasks_of_threads_beside_graphs_are_matched_by_their_ranges() -> None:
    """a on a GPU, b on the CPU."""
    work = Workload("both")
    add(work, "a", work.input("x", MATRIX, device="cuda:0"))
    add(work, "b", work.input("y", MATRIX))
    plan = plan_of(work, {"a": "cuda:0/s0", "b": "cpu/w0"})
    line = timeline(plan, [(0, 30e-6), (0, 20e-6)], source="measured")
    known = [*ROW_EAGER[:3], span("graphsched/b", 10, 9, thread=OTHER_THREAD)]
    graph = [call("cudaGraphLaunch", 0, 5, 50), kernel("gemm", 1, 20, 50, node=3)]
    found = replayed([*graph, span("graphsched/b", 2, 9, thread=OTHER_THREAD)], known, line)
    b = plan.index_of["b"]
    assert (list(found.ranges), found.missing, found.method) == ([b], {}, "graph nodes")
    assert replayed(graph, known, line).missing == {b: NO_RANGE}


def test_a_row_of_short_equal_kernels_is_settled_by_its_lane() -> None:
    """Each span, give or take 20 µs, holds several of them; b launches nothing, and stands between a and c."""
    work = Workload("short")
    value = work.input("x", MATRIX, device="cuda:0")
    for name in "abcdef":
        value = add(work, name, value)
    plan = plan_of(work, dict.fromkeys("abcdef", "cuda:0/s0"))
    line = timeline(plan, [(k * 5e-6, k * 5e-6 + 4e-6) for k in range(6)], source="measured")
    kernels = [kernel("gemm", 5 * k + 1, 2, 50) for k in range(6) if k != 1]
    known = [
        event for k, name in enumerate("abcdef") for event in shown(name, 100 + 10 * k, k if name != "b" else None)
    ]
    eager_run = match_launches(read_trace(trace(*known)), line, 2e-5)
    found = match_replay(read_trace(trace(call("cudaGraphLaunch", 0, 1, 50), *kernels)), line, eager_run, 2e-5)
    assert (found.method, found.empty, found.missing) == ("elimination", (1,), {})
    assert starts(found) == {0: [1], 2: [11], 3: [16], 4: [21], 5: [26]}


def shown(name: str, at: float, correlation: int | None) -> list[Event]:
    """The range of an action, and in it the launch of one kernel."""
    launched = [call("cudaLaunchKernel", at + 1, 2, correlation), kernel("gemm", at + 4, 2, correlation)]
    return [span(f"graphsched/{name}", at, 9), *(launched if correlation is not None else [])]


def cut() -> Timeline:
    """a ─▶ out (pageable, so that it cuts the plan) on a lane of copies; b, which comes after a, in a second graph."""
    work = Workload("cut")
    a = add(work, "a", work.input("x", MATRIX, device="cuda:0"))
    work.copy(a, to="cpu", fresh=True, name="out")
    work.barrier("gate")
    add(work, "b", a)
    plan = replace(plan_of(work, {"a": "cuda:0/s0", "b": "cuda:0/s0"}), mode="graph")
    at = {"a": (0, 3e-5), "out": (4e-5, 6e-5), "gate": (4e-5, 7e-5), "b": (7e-5, 1e-4)}
    return timeline(plan, [at[name] for name in plan.names], source="measured")


def cut_events(*launched: int) -> list[Event]:
    """A run of it: graphs 50 and 60; `launched` is the copy, of number 55, in its range."""
    events = [call("cudaGraphLaunch", 0, 2, 50), kernel("gemm", 5, 20, 50)]
    events += [span("graphsched/out", 35, 30), call("cudaMemcpyAsync", 36, 25, 55)]
    events += [memcpy("DtoH (Device -> Pageable)", 42, 15, 55) for _ in launched]
    return [*events, call("cudaGraphLaunch", 70, 2, 60), kernel("gemm", 75, 20, 60)]


CUT_EAGER = [*shown("a", 0, 1), *shown("b", 40, 2), span("graphsched/out", 20, 9)]


def test_what_no_graph_holds_is_matched_by_its_launch() -> None:
    line = cut()
    index = line.plan.index_of
    found = replayed(cut_events(55), CUT_EAGER, line)
    assert starts(found) == {index["a"]: [5], index["out"]: [42], index["b"]: [75]}
    assert (found.method, found.missing, found.strays) == ("elimination", {}, ())
    assert list(found.ranges) == [index["out"]]
    assert replayed(cut_events(), CUT_EAGER, line).missing == {index["out"]: LOST}
    without = [event for event in cut_events(55) if event["name"] != "graphsched/out"]
    assert replayed(without, CUT_EAGER, line).missing == {index["out"]: NO_RANGE}


def test_a_graph_is_the_launch_of_its_number() -> None:
    """Spans as wide as the run would leave both kernels to a and b."""
    line = cut()
    index, wide = line.plan.index_of, replace(line, start_s=line.start_s * 0, end_s=line.start_s * 0 + 1e-4)
    assert starts(replayed(cut_events(55), CUT_EAGER, wide))[index["b"]] == [75]
    swapped = [event | {"ts": {5: 75, 75: 5}.get(event["ts"], event["ts"])} for event in cut_events(55)]
    assert starts(replayed(swapped, CUT_EAGER, wide))[index["b"]] == [5]  # though that is not the plan's order
