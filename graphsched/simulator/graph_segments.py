"""The CUDA graphs of a plan as the simulator sees them: what each holds, and what it and others wait for.

Not modelled: what a graph takes to follow another of its own run (`simulator.handover` is for steps); recording the
event of its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphsched.plan import OUTSIDE, Segments
from graphsched.simulator.lane_costs import CPU, CUDA


@dataclass(frozen=True, slots=True)
class Replays:
    """The graphs that hold the actions of a plan, in the order of their launches.

    Attributes:
        of: Number of the graph of each action; `OUTSIDE` (-1) for what none holds.
        first: The first action of each graph, where it is launched.
        needs: Actions of CPU lanes that the thread waits for before each launch.
        nodes: Of each graph.
        later_s: By graph, how much later than `Dispatch.launch_s` after its launch its first nodes may start; below 0
            sooner.
        spread_s: By action, how much later than the first nodes of its graph its own are launched; empty: none is.
        longer_s: By graph, what the thread's launch takes longer for that; empty as `spread_s` is.
        gpus: On how many each graph has actions.
    """

    of: Sequence[int]
    first: Sequence[int]
    needs: Sequence[tuple[int, ...]]
    nodes: Sequence[int]
    later_s: Sequence[float]
    spread_s: Sequence[float] = ()
    longer_s: Sequence[float] = ()
    gpus: Sequence[int] = ()

    def repeated(self, steps: int) -> Replays:
        """Those of so many runs, one after another.

        Example:
            >>> Replays([0, OUTSIDE, 1], [0, 2], [(), (1,)], [1, 1], [0.0, 0.5]).repeated(2).needs
            [(), (1,), (), (4,)]
        """
        n, graphs = len(self.of), len(self.first)
        return replace(
            self,
            of=[k if k == OUTSIDE else k + step * graphs for step in range(steps) for k in self.of],
            first=[i + step * n for step in range(steps) for i in self.first],
            needs=[tuple(i + step * n for i in needed) for step in range(steps) for needed in self.needs],
            nodes=list(self.nodes) * steps,
            later_s=list(self.later_s) * steps,
            spread_s=list(self.spread_s) * steps,
            longer_s=list(self.longer_s) * steps,
            gpus=list(self.gpus) * steps,
        )


def replays_of(segments: Segments, kind: Sequence[int], launches: Sequence[int]) -> Replays:
    """The graphs of `segments`; how late they start is not filled in.

    Args:
        kind: Of each action, who carries it out.
        launches: Nodes of each.
    """
    nodes, first = [0] * len(segments), [OUTSIDE] * len(segments)
    for i, k in enumerate(segments.of):
        if k != OUTSIDE:
            nodes[k] += launches[i] if kind[i] == CUDA else 0
            first[k] = i if first[k] == OUTSIDE else first[k]
    needs = [tuple(j for j in before if kind[j] == CPU) for before in segments.before]
    return Replays(segments.of, first, needs, nodes, [0.0] * len(segments))


def waits_between(
    waits: Sequence[tuple[int, ...]], segments: Segments, lane: Sequence[int], kind: Sequence[int]
) -> list[tuple[int, ...]]:
    """`waits`, and those of graphs for each other and for what is outside, and of that for graphs.

    Example:
        >>> cut = Segments(of=[0, OUTSIDE, 1], before=[(), (1,)], after={1: 0})  # on lanes of a GPU, a CPU, a GPU
        >>> waits_between([(), (0,), (1,)], cut, lane=[0, 1, 2], kind=[CUDA, CPU, CUDA])
        [(), (0,), (1, 0)]
    """
    found = list(waits)
    tails: list[dict[int, int]] = [{} for _ in segments.before]
    for i, k in enumerate(segments.of):
        added: list[int] = []
        if k == OUTSIDE and i in segments.after:
            added = list(tails[segments.after[i]].values())
        elif k != OUTSIDE and kind[i] == CUDA:
            if lane[i] not in tails[k]:
                added = [*segments.before[k], *(tails[k - 1].values() if k else ())]
            tails[k][lane[i]] = i
        if added:
            found[i] = tuple(dict.fromkeys((*found[i], *added)))
    return found
