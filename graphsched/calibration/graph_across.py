"""What a CUDA graph over several GPUs costs beyond one on a single GPU, from plans of tiny operations.

Such a graph is not handed over as a whole: the thread launches it piece after piece, and the GPUs begin meanwhile
(`simulator.graph_launches`). Rows that differ in one thing tell what takes how long:

- a node on each GPU, beside one on a single GPU: a further GPU
- nodes on several lanes of each GPU, beside one on each: a node that waits for nothing on another GPU than the first,
  where it takes what it does in a graph on that alone
- tasks on one GPU, each of which sends to another, of two numbers: a copy between GPUs for the thread
- a task on each GPU, and copies of an input from pinned memory to all of them in turn, of two numbers: a copy with the
  host for the thread
- rounds in which each GPU sends to all others and adds up what comes, of two numbers, on the first two GPUs and on all:
  an edge between GPUs for the thread, and how much longer each further GPU makes it
- a long chain on one GPU with a node on each other, beside the chain alone: how much later the first node starts
- a chain that goes round the GPUs in stages of different lengths, beside its nodes on one GPU: an edge between GPUs. A
  GPU sees the end of what it waits for on another after 3 to 12 µs, for it looks every 9.25; a chain of equal stages
  may meet the same again and again, and one of tiny nodes is seen 1 µs sooner than one of nodes as long as tasks are

Not modelled: GPUs that follow one another unlike others, by their numbers or links.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from statistics import median
from typing import Any, NamedTuple

from graphsched.calibration.graph_replays import Replay, each_s
from graphsched.calibration.graph_rows import TINY_ELEMENTS, Launches, replay_of
from graphsched.calibration.launch_pace import LaunchYardstick
from graphsched.executors import waking
from graphsched.executors.program import Program
from graphsched.plan import Placement, build_plan
from graphsched.platform import Device, Link, Platform
from graphsched.platform.pace import LAUNCH_COLDS
from graphsched.workload import Workload

TURNS = 5
LANES = 4
SENT = 8, 44  # copies of one GPU's results; of an input
ROUNDS = 36  # pairs of a copy and an edge that the longer of two rows of exchanges has more, or nearly so many
LONG = 60  # nodes of the chain on one GPU
STRIDE = 5  # of the stages' lengths
STAGES, LONGEST_STAGE = 37, 7  # the last of them on the first of two, three or four GPUs; nodes
WORK_ELEMENTS = 2**20  # of nodes of some 3.6 µs on an H200

Build = Callable[[Workload, Sequence[str]], dict[str, str]]


class Rows(NamedTuple):
    """Replays of the rows."""

    one: Replay
    each: Replay
    lanes: Replay
    few_sent: Replay
    many_sent: Replay
    few_fetched: Replay
    many_fetched: Replay
    pair_once: Replay
    pair_often: Replay
    all_once: Replay
    all_often: Replay
    long: Replay
    long_beside: Replay
    stages: Replay
    stages_round: Replay


def across_figures(devices: Sequence[int], known: Mapping[str, Any]) -> dict[str, float]:
    """Fields of `Dispatch` about graphs over several GPUs, in seconds; none where there is one GPU.

    Args:
        devices: Numbers of the GPUs.
        known: Has other fields of `Dispatch`: ``graph_launches``, the pace that the thread's part is told at,
            ``graph_colds``, ``graph_across_colds``, ``graph_root_s``, ``graph_peer_copy_s``, ``graph_peer_edge_s``.
    """
    if len(devices) < 2:
        return {}
    launches = [Launches(dict(known["graph_launches"])[2], known.get(name, ())) for name in LAUNCH_COLDS]
    turns = [figures_of(rows, len(devices), known) for rows in measured_turns(devices, *launches)]
    return {name: median([figures[name] for figures in turns]) for name in turns[0]}


def measured_turns(devices: Sequence[int], alone: Launches, across: Launches) -> list[Rows]:
    """The rows on these GPUs, replayed in turn again and again; those of one GPU for `alone`.

    The thread is half as fast from one second to the next, and a whole run takes as much longer as two rows differ:
    what is to be compared comes from one turn.
    """
    first = devices[:1]
    rows: dict[str, tuple[Sequence[int], Build]] = {
        "one": (first, on_each),
        "each": (devices, on_each),
        "lanes": (devices, partial(on_each, lanes=LANES)),
        "few_sent": (devices, partial(sent, copies=SENT[0])),
        "many_sent": (devices, partial(sent, copies=SENT[1])),
        "few_fetched": (devices, partial(fetched, copies=SENT[0])),
        "many_fetched": (devices, partial(fetched, copies=SENT[1])),
        "pair_once": (devices[:2], partial(exchanged, rounds=1)),
        "pair_often": (devices[:2], partial(exchanged, rounds=1 + further_rounds(2))),
        "all_once": (devices, partial(exchanged, rounds=1)),
        "all_often": (devices, partial(exchanged, rounds=1 + further_rounds(len(devices)))),
        "long": (first, long_on_first),
        "long_beside": (devices, long_on_first),
        "stages": (first, partial(going_round, tasks=STAGES, longest=LONGEST_STAGE, elements=WORK_ELEMENTS)),
        "stages_round": (devices, partial(going_round, tasks=STAGES, longest=LONGEST_STAGE, elements=WORK_ELEMENTS)),
    }
    assert tuple(rows) == Rows._fields
    with ExitStack() as stack:
        yardstick = stack.enter_context(closing(LaunchYardstick(devices[:2])))
        made = [stack.enter_context(program_of(*row)) for row in rows.values()]
        launches = [alone if len(on) == 1 else across for on, _ in rows.values()]
        return [Rows(*_turn(made, launches, yardstick)) for _ in range(TURNS)]


def _turn(rows: Sequence[Program], launches: Sequence[Launches], yardstick: LaunchYardstick) -> list[Replay]:
    """A replay of each row, as it is for its launches; the yardstick is over two GPUs."""
    before_s = yardstick.sample_s()
    seen = [launch.without_wait(replay_of(row)) for row, launch in zip(rows, launches, strict=True)]
    pace = launches[0].launch_s / ((before_s + yardstick.sample_s()) / 2)
    return [Replay(one.host_s * pace, one.whole_s) for one in seen]


def figures_of(rows: Rows, gpus: int, known: Mapping[str, Any]) -> dict[str, float]:
    """What the rows of a turn on so many GPUs say; nothing is below 0."""
    copy_s = each_s(rows.few_sent.host_s, rows.many_sent.host_s, SENT[1] - SENT[0])
    pair_s, all_s = (
        each_s(once.host_s, often.host_s, further_rounds(n) * n * (n - 1)) - copy_s
        for n, once, often in ((2, rows.pair_once, rows.pair_often), (gpus, rows.all_once, rows.all_often))
    )
    roots_s = each_s(rows.each.host_s, rows.lanes.host_s, LANES - 1)  # one on each GPU
    here_s = known.get("graph_root_s", 0.0)
    root_s = max(0.0, roots_s - here_s) / (gpus - 1) if here_s else roots_s / gpus
    start_s = each_s(rows.long.whole_s, rows.long_beside.whole_s, gpus - 1)
    alone_s = rows.stages.whole_s + start_s * (gpus - 1)
    hop_s = each_s(alone_s, rows.stages_round.whole_s, STAGES - 1)
    return {
        "graph_across_s": max(0.0, each_s(rows.one.host_s, rows.each.host_s, gpus - 1) - root_s),
        "graph_across_start_s": start_s,
        "graph_across_root_s": root_s,
        "graph_across_edge_s": max(0.0, pair_s),
        "graph_across_copy_s": copy_s,
        "graph_across_host_copy_s": each_s(rows.few_fetched.host_s, rows.many_fetched.host_s, SENT[1] - SENT[0]),
        "graph_across_more_s": max(0.0, all_s - pair_s) / (gpus - 2) if gpus > 2 else 0.0,
        "graph_other_device_s": max(0.0, hop_s - known["graph_peer_copy_s"] - known["graph_peer_edge_s"]),
    }


def program_of(devices: Sequence[int], build: Build, mode: str = "graph") -> Program:
    """What `build` adds, over these GPUs; by default one graph."""
    work, names = Workload("across"), [f"cuda:{device}" for device in devices]
    lanes = build(work, names)
    ends = [(a, b) for a in names for b in names if a != b]
    links = tuple(Link(a, b, "peer", 1e-5, 1e11) for a, b in ends)
    links += tuple(Link(*way, "pinned", 1e-5, 1e10) for name in names for way in (("cpu", name), (name, "cpu")))
    here = Platform("here", (Device("cpu", "cpu"), *map(partial(Device, kind="cuda"), names)), links)
    placement = Placement([task.name for task in work.tasks], lanes)
    return waking.awake(Program(build_plan(work, here, None, placement, scheduler="calibration"), mode=mode))


def on_each(work: Workload, names: Sequence[str], lanes: int = 1) -> dict[str, str]:
    """A tiny task on each of so many lanes of each GPU."""
    placed: dict[str, str] = {}
    for name in names:
        row_on(work, name, [f"{name}/s{lane}" for lane in range(lanes)], placed)
    return placed


def long_on_first(work: Workload, names: Sequence[str], tasks: int = LONG) -> dict[str, str]:
    """A chain of so many tasks on the first GPU, a task on each other."""
    placed: dict[str, str] = {}
    row_on(work, names[0], [f"{names[0]}/s0"] * tasks, placed)
    for name in names[1:]:
        row_on(work, name, [f"{name}/s0"], placed)
    return placed


def further_rounds(gpus: int) -> int:
    """Rounds that the longer row of exchanges between so many GPUs has more: `ROUNDS` pairs, two rounds at least."""
    return max(2, ROUNDS // (gpus * (gpus - 1)))


def sent(work: Workload, names: Sequence[str], copies: int) -> dict[str, str]:
    """Tasks on the first GPU, each of which sends to another, to one after the other."""
    import torch

    value, placed = work.input("x", torch.zeros(TINY_ELEMENTS), device=names[0]), {}
    for k in range(copies):
        made = work.task(torch.neg, value, name=f"t{k}", device=names[0])
        placed[f"t{k}"] = f"{names[0]}/s0"
        work.copy(made, to=names[1 + k % (len(names) - 1)], name=f"c{k}")
    return placed


def fetched(work: Workload, names: Sequence[str], copies: int) -> dict[str, str]:
    """A task on each GPU, and copies of an input from the host, to one GPU after the other."""
    import torch

    placed, value = on_each(work, names), work.input("x", torch.zeros(TINY_ELEMENTS), device="cpu")
    for k in range(copies):
        work.copy(value, to=names[k % len(names)], pinned=True, name=f"c{k}")
    return placed


def exchanged(work: Workload, names: Sequence[str], rounds: int) -> dict[str, str]:
    """In each round every GPU makes a value, sends it to all others, and adds up its own and theirs."""
    import torch

    values = {name: work.input(f"x/{name}", torch.zeros(TINY_ELEMENTS), device=name) for name in names}
    placed: dict[str, str] = {}
    for k in range(rounds):
        made = {name: work.task(torch.neg, value, name=f"{k}/{name}", device=name) for name, value in values.items()}
        for name in names:
            others = [work.copy(made[a], to=name, name=f"{k}/{a}/{name}") for a in names if a != name]
            values[name] = made[name]
            for n, other in enumerate(others):
                values[name] = work.task(torch.add, values[name], other, name=f"{k}/{name}/{n}", device=name)
                placed[f"{k}/{name}/{n}"] = f"{name}/s0"
            placed[f"{k}/{name}"] = f"{name}/s0"
    return placed


def going_round(
    work: Workload, names: Sequence[str], tasks: int, longest: int = 1, elements: int = 0
) -> dict[str, str]:
    """A chain of so many stages that goes round the GPUs, with a copy before each but the first.

    A stage has 1 to `longest` tiny tasks, no two of `longest` stages in a row as many; or so many of `elements` between
    two tiny ones, the first of which reads what was copied and the last of which makes what is.
    """
    import torch

    value, placed = work.input("x", torch.zeros(TINY_ELEMENTS), device=names[0]), {}
    given = {name: work.input(f"w/{name}", torch.zeros(elements), device=name) for name in names if elements}
    for k in range(tasks):
        device, length = names[k % len(names)], 1 + STRIDE * k % longest
        between = range(1, 1 + length) if elements else ()
        for n in range(length + 2 if elements else length):
            if n in between:
                work.task(torch.neg, given[device], name=f"t{k}.{n}", device=device)
            else:
                value = work.task(torch.neg, value, name=f"t{k}.{n}", device=device)
            placed[f"t{k}.{n}"] = f"{device}/s0"
    return placed


def row_on(work: Workload, device: str, lanes: Sequence[str], placed: dict[str, str]) -> None:
    """Independent tasks on `device`, one on each of `lanes`, which may be the same."""
    import torch

    value = work.input(f"x/{device}", torch.zeros(TINY_ELEMENTS), device=device)
    for k, lane in enumerate(lanes):
        work.task(torch.neg, value, name=f"{device}/{k}", device=device)
        placed[f"{device}/{k}"] = lane
