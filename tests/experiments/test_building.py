"""Every experiment can be built and scheduled on any host; none needs a GPU for that."""

from __future__ import annotations

import re

import pytest
import torch

from graphsched.cases import discover
from graphsched.errors import ExperimentError
from tests.experiments.small import FOLDER, SMALL, cases, hand_written, load, plan_of

HOSTS = [("cuda", 1), ("cuda", 2), ("cuda", 4), ("worker", 1), ("worker", 2)]


@pytest.mark.parametrize(("kind", "count"), HOSTS)
@pytest.mark.parametrize("name", SMALL)
def test_plans_are_right_and_words_fit_the_host(name: str, kind: str, count: int) -> None:
    platform = hand_written(kind, count)
    for label, case in cases(name, platform).items():
        assert ("GPU" in label) == (kind == "cuda" and "alone, CPU" not in label)
        if case.work is not None:
            plan = plan_of(case, platform)
            plan.check()
            used = {lane.device for lane in plan.lanes if lane.kind == "compute"} - {"cpu"}
            promised = re.search(r"(\d) (GPU|worker)s?$", label)
            if promised:
                assert used <= set(platform.accelerators(int(promised[1])))
            if promised and (name == "parallel_compute" or case.scheduler == "round_robin"):
                assert len(used) == int(promised[1])


COUNTS = {
    "attention": ("tokens", "rows", "width", "heads", "layers"),
    "parallel_compute": ("size", "products"),
    "overlap": ("size", "products"),
    "cpu_gpu": ("size", "products", "cpu_products"),
    "independent_ops": ("sizes", "products", "lanes"),
    "small_ops": ("sizes", "products", "flops", "lanes"),
    "complex_graph": ("size", "layers", "width", "devices"),
    "hardware": ("sizes",),
    "kvstore": ("devices", "cut_from_kib"),
    "multi_machine": ("mbytes", "servers", "rows"),
    "ring": ("mbytes", "devices", "blocks"),
    "scaling": ("gpus", "buckets", "images", "sequences", "per_host", "nics", "nic_gbit", "nic_us", "check"),
    "parameter_server": ("mbytes", "devices", "batch", "blocks", "steps"),
    "async_frontend": ("n", "elements"),
    "contention": ("mbytes", "size", "rounds", "blocks", "devices"),
    "random_graphs": ("size", "layers", "width", "devices"),
    "task_bench": ("size", "width", "steps", "devices"),
    "schedulers": ("devices", "with_cpu", "solver_s"),
    "branches": ("depth", "shrink", "lanes"),
    "metg": ("width", "steps", "size", "windows", "lanes"),
    "symbolic": ("batch", "calls", "repeats"),
    "partitioning": ("devices", "batch", "micro_batches"),
    "lenet_data_parallel": ("devices", "batch", "lr", "rates", "steps"),
    "resnet18_data_parallel": ("devices", "batch", "lr", "steps"),
    "two_layer_mlp": ("hidden", "batch", "lr", "epochs", "devices"),
}


@pytest.mark.parametrize(("name", "parameter"), [(name, p) for name in SMALL for p in COUNTS[name]])
def test_nothing_to_do_is_a_wrong_request(name: str, parameter: str) -> None:
    experiment = load(name)
    for text in ("0", "-1"):
        values = experiment.values(**{parameter: text})
        with pytest.raises(ExperimentError, match=f"parameter '{parameter}' is {text}.*: a number above 0 is needed"):
            list(experiment.cases(hand_written("worker", 2), **values))


def test_sizes_without_end_are_refused() -> None:
    for text in ("nan", "inf"):
        with pytest.raises(ExperimentError, match=f"parameter 'mbytes' is {text}"):
            list(load("contention").cases(hand_written("worker", 1), **load("contention").values(mbytes=text)))


def test_all_files_load_and_say_what_they_are() -> None:
    found = discover(FOLDER)
    assert not found.errors
    assert sorted(e.name for e in found.experiments) == sorted(SMALL)
    assert all(
        e.title.endswith(".") and e.source.startswith(("d2l.ai 12.", "Task Bench", "GoogLeNet", "Transformer"))
        for e in found.experiments
    )


@pytest.mark.parametrize("name", SMALL)
def test_the_same_workloads_are_built_every_time(name: str) -> None:
    platform = hand_written("cuda", 4)
    first, second = cases(name, platform), cases(name, platform)
    assert list(first) == list(second)
    for label, case in first.items():
        if case.work is not None:
            assert case.work.digest() == second[label].work.digest()  # type: ignore[union-attr]


@pytest.mark.parametrize("name", SMALL)
def test_costs_are_filed_under_names_of_torch(name: str) -> None:
    """So that costs measured on another host are found, whatever Python it ran."""
    for case in cases(name, hand_written("cuda", 2)).values():
        tasks = case.work.tasks if case.work else []
        assert all(t.signature.startswith("torch.") and "#" not in t.signature for t in tasks if t.kind == "run")


def test_inputs_of_one_shape_share_their_memory() -> None:
    """50 inputs of 64 MB must not take 3.2 GB where they are only predicted."""
    for case in load("overlap").cases(hand_written("cuda", 1), size=16, products=10):
        assert len({t.data_ptr() for t in case.work.tensors.values()}) == 1  # type: ignore[union-attr]


def test_lanes_that_the_device_does_not_have_are_left_out() -> None:
    platform = hand_written("worker", 1, lanes=2)
    for name in ("independent_ops", "small_ops"):
        assert {c.options.get("lanes", 1) for c in cases(name, platform).values()} == {1, 2}


def test_baselines_run_on_workers() -> None:
    for name in ("independent_ops", "complex_graph", "async_frontend"):
        baselines = [c for c in cases(name, hand_written("worker", 1)).values() if c.baseline is not None]
        assert baselines
        for case in baselines:
            result = case.baseline()  # type: ignore[misc]
            tensors = result.values() if isinstance(result, dict) else [result] if torch.is_tensor(result) else result
            assert all(torch.isfinite(t).all() for t in tensors)
