"""Timelines as text: a row a lane, a block a task."""

from __future__ import annotations

from collections.abc import Sequence

from graphsched.timeline import Timeline

WIDTH = 100  # characters of the whole time
MOST_ROWS = 40
ROUNDING = 1e-9  # a start or end that is a hair before a character begins belongs to it


def text_gantt(line: Timeline) -> list[str]:
    """Lines of text: ``[name--]`` is a task, ``|`` one too short for its name, ``#`` several, ``.`` nothing.

    Example:
        >>> import networkx as nx
        >>> from graphsched.platform import Device, Platform
        >>> from graphsched.schedulers import schedule
        >>> from graphsched.simulator import Model, predict
        >>> from graphsched.workload import Workload
        >>> graph = nx.DiGraph()
        >>> graph.add_nodes_from("ab", duration_s=2.0)
        >>> graph.add_node("c", duration_s=4.0)
        >>> graph.add_edge("a", "b")
        >>> two = Platform("two", tuple(Device(f"worker:{k}", "worker", lanes=1) for k in range(2)))
        >>> plan = schedule(Workload.from_graph(graph), two, scheduler="heft")
        >>> for text in text_gantt(predict(plan, model=Model(dispatch=False, waits=False))):
        ...     print(text[:26], text[-3:])
        worker:0/s0 [a------------ --]
        worker:1/s0 [c------------ --]
    """
    spans = _spans(line)
    longest = max((len(name) for name in spans), default=0)
    rows = [f"{name:<{longest}} {_row(blocks, line.makespan_s)}" for name, blocks in list(spans.items())[:MOST_ROWS]]
    left = len(spans) - len(rows)
    return [*rows, *([f"… and {left} more lanes"] if left else [])]


Block = tuple[float, float, str]


def _spans(line: Timeline) -> dict[str, list[Block]]:
    """Starts, ends and names on each lane that is used; waits of the thread are left out."""
    plan = line.plan
    found: dict[int, list[Block]] = {k: [] for k in range(len(plan.lanes))}
    for i, kind in enumerate(plan.kinds):
        for lane in plan.lanes_of(i) if kind != "wait" and line.end_s[i] > line.start_s[i] else ():
            found[lane].append((float(line.start_s[i]), float(line.end_s[i]), plan.names[i]))
    return {plan.lanes[k].name: blocks for k, blocks in found.items() if blocks}


def _row(blocks: Sequence[Block], whole: float) -> str:
    cells = ["."] * WIDTH
    for start, end, name in sorted(blocks):
        first, after = (int(time / whole * WIDTH + ROUNDING) for time in (start, end))
        first = min(WIDTH - 1, first)
        width = max(1, after - first)
        if cells[first] != ".":
            cells[first] = "#"
            first, width = first + 1, width - 1
        cells[first : first + width] = _block(name, width)
    return "".join(cells)


def _block(name: str, width: int) -> list[str]:
    """A block of `width` places, with as much of the name as fits; a letter of two places leaves the second empty.

    Example:
        >>> ["".join(_block("gemm", width)) for width in (8, 5, 2, 1)]
        ['[gemm--]', '[gem]', '[]', '|']
    """
    if width < 2:
        return ["|"] * width
    from rich.cells import cell_len

    places = ["["]
    for letter in name:
        wide = cell_len(letter)
        if len(places) + wide >= width:
            break
        if wide:
            places += [letter, *[""] * (wide - 1)]
        else:  # an accent: it goes with the letter before
            places[-1] += letter
    return [*places, *["-"] * (width - 1 - len(places)), "]"]
