"""The shortest plan by trying them all."""

from __future__ import annotations

import itertools
import math

import networkx as nx

from graphsched.platform import Platform
from graphsched.schedulers.searching.fast_clock import FastClock
from graphsched.workload import Workload
from tests.schedulers.searching.test_fast_clock import instance


def shortest(work: Workload, platform: Platform) -> float:
    """Seconds of the best of all dispatch orders and places."""
    tasks = instance(work, platform)
    number = {name: i for i, name in enumerate(tasks.names)}
    graph = nx.relabel_nodes(work.graph, number)
    orders = list(nx.all_topological_sorts(graph)) if len(graph) else [[]]
    best = math.inf
    for place in itertools.product(*(choices or [-1] for choices in tasks.choices)):
        if all(len({tasks.device_of[place[i]] for i in group}) == 1 for group in tasks.groups):
            best = min([best, *(FastClock(tasks, order, list(place)).makespan_s for order in orders)])
    return best
