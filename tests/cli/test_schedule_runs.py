"""What becomes of each scheduler that is asked for a graph file."""

from __future__ import annotations

import random
from pathlib import Path

import networkx as nx
import pytest

from graphsched.cli.request import platform_to_predict
from graphsched.cli.schedule_runs import Job, on_platform, run_all
from graphsched.cli.scheduler_words import read_choices
from graphsched.formats.graph_files import open_graph, write_graph
from graphsched.schedulers.auto import PORTFOLIO
from graphsched.schedulers.search import STARTS


def mixed(seed: int) -> nx.DiGraph:
    """Eight tasks that the CPU may be quicker at, some of them bound to it, with up to 10 GB on edges."""
    draws, graph = random.Random(seed), nx.DiGraph()
    for k in range(8):
        graph.add_node(k, duration_s={"cuda": draws.choice([1, 2]), "cpu": draws.choice([1, 5])})
        if draws.random() < 0.25:
            graph.nodes[k]["devices"] = ("cpu",)
        for before in range(k):
            if draws.random() < 0.25:
                graph.add_edge(before, k, nbytes=draws.choice([0, 10**9, 10**10]))
    return graph


def job_of(graph: nx.DiGraph, folder: Path) -> Job:
    """`graph` on two GPUs and their host."""
    write_graph(graph, folder / "graph.json", "node-link")
    return on_platform(open_graph(folder / "graph.json"), *platform_to_predict("h200-x2"))


@pytest.mark.parametrize("seed", range(12))
def test_what_is_best_by_simulation_is_no_longer_than_what_it_was_chosen_from(seed: int, tmp_path: Path) -> None:
    """Copies that hold up the thread count for none, neither where the best is chosen nor where it is shown."""
    names = [name for name in dict.fromkeys((*PORTFOLIO, *STARTS)) if name != "streams"]
    choices = read_choices([",".join([*names, "auto", "search iterations=20"])])
    found = {one.choice.name: one.makespan for one in run_all(job_of(mixed(seed), tmp_path), choices, 60.0)}
    assert found["auto"] <= min(found[name] for name in PORTFOLIO if name != "streams")
    assert found["search"] <= min(found[name] for name in STARTS)
