"""What it is worth that list schedulers know the queues of copies: ``python -m tests.schedulers.contended``.

Random graphs of 150 tasks (0.1 to 1 ms) with up to three predecessors among the 30 before, on four H200s; predicted
makespans of plans made with queues in view over those made without.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable

import networkx as nx

from graphsched.platform import Platform
from graphsched.schedulers import schedule
from graphsched.simulator import Model, predict
from graphsched.workload import Workload

SCHEDULERS = ("heft", "critical_path", "cpop", "peft", "lookahead", "dls", "etf", "min_min", "max_min")
UNTIMED = Model(timing=False)


def random_work(seed: int, most_bytes: int, tasks: int = 150) -> Workload:
    """A graph whose edges carry up to `most_bytes` each."""
    drawn = random.Random(seed)
    dag = nx.DiGraph()
    for i in range(tasks):
        dag.add_node(f"t{i}", duration_s={"cuda": drawn.uniform(1e-4, 1e-3)})
        window = range(max(0, i - 30), i)
        for before in drawn.sample(window, min(len(window), drawn.randint(1, 3))):
            dag.add_edge(f"t{before}", f"t{i}", nbytes=drawn.randint(1, most_bytes))
    return Workload.from_graph(dag)


def gain(scheduler: str, works: Iterable[Workload], platform: Platform) -> float:
    """Mean ratio of the makespans: with queues over without."""
    ratios = []
    for work in works:
        found = [
            predict(schedule(work, platform, scheduler=scheduler, contention=known), model=UNTIMED).makespan_s
            for known in (True, False)
        ]
        ratios.append(found[0] / found[1])
    return statistics.fmean(ratios)


def main() -> None:
    """Six graphs for each size of edges."""
    platform = Platform.load("h200-x4")
    for most_bytes in (10_000_000, 100_000_000, 300_000_000):
        works = [random_work(seed, most_bytes) for seed in range(6)]
        print(f"up to {most_bytes // 1_000_000} MB an edge:", end=" ")
        print(", ".join(f"{name} {gain(name, works, platform):.3f}" for name in SCHEDULERS), flush=True)


if __name__ == "__main__":
    main()
