"""Each experiment is the text's system: its graph, its order, its figures."""

from __future__ import annotations

import networkx as nx
import pytest

from graphsched.workload import Workload
from tests.experiments.small import cases, hand_written, plan_of

CUDA = {k: hand_written("cuda", k) for k in (1, 2, 4)}


def reported(name: str, gpus: int) -> dict[str, float]:
    """Figures of the text by label."""
    return {label: c.reported_s for label, c in cases(name, CUDA[gpus]).items() if c.reported_s is not None}


def workload(name: str, label: str, gpus: int = 1) -> Workload:
    """The workload of one case."""
    work = cases(name, CUDA[gpus])[label].work
    assert work is not None
    return work


def test_parallel_compute_shows_the_figures_of_the_text() -> None:
    assert reported("parallel_compute", 4) == {
        "alone, GPU 0": 0.512,
        "alone, GPU 1": 0.492,
        "one after the other, 2 GPUs": pytest.approx(0.512 + 0.492),
        "both at once, 2 GPUs": 0.507,
    }
    assert reported("parallel_compute", 1) == {"alone, GPU 0": 0.512}
    assert "all at once, 4 GPUs" in cases("parallel_compute", CUDA[4])


def test_overlap_shows_the_figures_of_the_text() -> None:
    assert reported("overlap", 1) == {
        "products alone, 1 GPU": 0.512,
        "copies alone, new pageable memory, 1 GPU": 2.376,
        "copies after a wait, new pageable memory, 1 GPU": pytest.approx(0.512 + 2.376),
        "non_blocking=True, pinned memory, same stream, 1 GPU": 1.668,
        "overlapped, pinned memory, own lane, 1 GPU": 1.668,
    }


UNREPORTED = ["cpu_gpu", "independent_ops", "small_ops", "complex_graph", "async_frontend"]
UNREPORTED += ["attention", "contention", "random_graphs", "task_bench"]


@pytest.mark.parametrize("name", UNREPORTED)
def test_no_figure_is_made_up_where_the_text_prints_none(name: str) -> None:
    assert reported(name, 4) == {}


def test_products_of_a_run_are_independent() -> None:
    """::

    x0 ─┬─ gpu0/mm0      x1 ─┬─ gpu1/mm0
        ├─ gpu0/mm1          ├─ gpu1/mm1
        ╰─ …                 ╰─ …
    """
    work = workload("parallel_compute", "both at once, 2 GPUs", 2)
    assert list(work.graph) == [f"gpu{k}/mm{i}" for k in (0, 1) for i in range(4)]
    assert not work.graph.edges
    assert [v.device for v in work.values.values() if v.kind == "input"] == ["cuda:0", "cuda:1"]


def test_the_wait_stands_between_the_devices() -> None:
    work = workload("parallel_compute", "one after the other, 2 GPUs", 2)
    before, after = nx.ancestors(work.graph, "synchronize1"), nx.descendants(work.graph, "synchronize1")
    assert before == {f"gpu0/mm{i}" for i in range(4)}
    assert after == {f"gpu1/mm{i}" for i in range(4)}


def test_copies_come_after_the_wait_and_go_to_new_memory() -> None:
    """gpu0/mm0…3 ─ synchronize ─ gpu0/copy0…3"""
    work = workload("overlap", "copies after a wait, new pageable memory, 1 GPU")
    copies = [t for t in work.tasks if t.kind == "copy"]
    assert {t.memory for t in copies} == {"fresh"}
    assert nx.descendants(work.graph, "synchronize") == {t.name for t in copies}


def test_non_blocking_copies_stay_behind_all_products_on_their_stream() -> None:
    case = cases("overlap", CUDA[1])["non_blocking=True, pinned memory, same stream, 1 GPU"]
    plan = plan_of(case, CUDA[1])
    assert [a.kind for a in plan] == ["run"] * 4 + ["copy"] * 4
    assert {a.lanes[0].name for a in plan} == {"cuda:0/s0"}


def test_overlapped_copies_have_a_lane_of_their_own_and_wait_for_one_product_each() -> None:
    case = cases("overlap", CUDA[1])["overlapped, pinned memory, own lane, 1 GPU"]
    plan = plan_of(case, CUDA[1])
    copies = [a for a in plan if a.kind == "copy"]
    assert {a.lanes[0].name for a in copies} == {"cuda:0/d2h"}
    assert {plan.names[a.waits[0]].replace("mm", "copy") for a in copies} == {a.name for a in copies}


def test_cpu_and_gpu_read_what_the_other_made() -> None:
    """::

    gpu0/mm0 ─┬─ cpu/mm1      cpu/mm0 ── gpu0/mm4
    gpu0/mm2 ─┴─ cpu/mm2      (mm1, mm3, mm5 of the GPU stand alone)
    """
    work = workload("cpu_gpu", "at once with copies between, CPU and 1 GPU")
    assert sorted(work.graph.edges) == [
        ("cpu/mm0", "gpu0/mm4"),
        ("gpu0/mm0", "cpu/mm1"),
        ("gpu0/mm2", "cpu/mm2"),
    ]
    assert len(work) == 9


def test_a_chain_of_n_operations_waits_n_times_or_never() -> None:
    made = cases("async_frontend", CUDA[1])
    for label, waits in (("a wait each, n=200, 1 GPU", 200), ("one wait at the end, n=200, 1 GPU", 0)):
        plan = plan_of(made[label], CUDA[1])
        assert plan.kinds.count("wait") == waits  # type: ignore[attr-defined]
        assert nx.dag_longest_path_length(made[label].work.graph, default_weight=1) == 199  # type: ignore[union-attr]
