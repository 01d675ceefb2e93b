"""The demonstration: every experiment of the checkout at a size that takes seconds, predicted and run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphsched.cases import Experiment, discover
from graphsched.errors import ExperimentError
from graphsched.platform import Platform

REPEATS = 5
GRAPHS = ("diamonds", "random-1")
SCHEDULERS = ("sequential", "round_robin", "heft")
RANKED = ("one_stream", "round_robin", "heft", "streams", "auto")
TRANSFERS = ("from and to the host", "of many sizes")

# Sizes for CPU lanes, and for GPUs. An experiment without an entry is left out, and said to be.
SIZES: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "parallel_compute": ({"size": 512, "products": 8}, {"size": 2048, "products": 20}),
    "overlap": ({"size": 512, "products": 8}, {"size": 2048, "products": 20}),
    "cpu_gpu": ({"size": 512, "products": 8, "cpu_products": 4}, {"size": 2048, "products": 40, "cpu_products": 4}),
    "independent_ops": ({"sizes": (512, 64), "products": 8}, {"sizes": (2048, 256), "products": 20}),
    "small_ops": ({"sizes": (64, 256), "products": 16}, {"sizes": (256, 1024), "products": 64}),
    "complex_graph": (
        {"size": 256, "layers": 4, "width": 4, "graphs": GRAPHS, "schedulers": SCHEDULERS, "devices": (2,)},
        {"size": 1024, "layers": 4, "width": 4, "graphs": GRAPHS, "schedulers": SCHEDULERS, "devices": (1, 2)},
    ),
    "async_frontend": ({"n": (10, 100)}, {"n": (10, 1000)}),
    "contention": (
        {"mbytes": 1.0, "seeds": (1,), "patterns": TRANSFERS, "devices": (2,)},
        {"mbytes": 16.0, "seeds": (1,), "patterns": TRANSFERS, "devices": (1, 2)},
    ),
    "hardware": ({"sizes": (2**20,), "devices": 1}, {"sizes": (2**20,), "devices": 2}),
    "ring": (
        {"mbytes": (1.0,), "devices": (2,), "ways": ("gather", "ring")},
        {"mbytes": (16.0,), "devices": (1, 2), "ways": ("gather", "ring")},
    ),
    "kvstore": (
        {"networks": ("LeNet",), "devices": (2,), "ways": ("one", "keys")},
        {"networks": ("LeNet",), "devices": (1, 2)},
    ),
    "parameter_server": (
        {
            "mbytes": (1.0,),
            "networks": (),
            "strategies": ("server", "sharded"),
            "devices": (2,),
            "batch": 32,
            "steps": 5,
        },
        {"networks": (), "strategies": ("server", "sharded"), "devices": (1, 2)},
    ),
    "scaling": (
        {"topologies": ("rail_optimised",), "networks": ("ResNet-18",), "gpus": (8, 64, 512)},
        {"topologies": ("rail_optimised",), "networks": ("ResNet-18",), "gpus": (8, 64, 512)},
    ),
    "schedulers": (
        {"networks": ("LeNet", "stencil"), "schedulers": RANKED, "devices": (2,)},
        {"networks": ("LeNet", "stencil"), "schedulers": RANKED, "devices": (2,), "with_cpu": ()},
    ),
    "random_graphs": (
        {"size": 256, "layers": 4, "width": 4, "seeds": (1,), "cpu_seeds": (), "devices": (2,)},
        {"size": 1024, "layers": 4, "width": 4, "seeds": (1,), "cpu_seeds": (4,), "devices": (1, 2)},
    ),
    "attention": (
        {"tokens": (8,), "rows": 16, "width": 32, "heads": 2, "layers": 1, "types": ("float32",)},
        {"tokens": (2048,), "layers": 1, "types": ("bfloat16",)},
    ),
    "task_bench": (
        {"size": 256, "width": 4, "steps": 4, "patterns": ("stencil",), "devices": (2,)},
        {"size": 1024, "width": 4, "steps": 4, "patterns": ("stencil", "tree"), "devices": (1, 2)},
    ),
    "metg": (
        {"patterns": ("stencil",), "width": 4, "steps": 4, "windows": (7,), "lanes": 2},
        {"patterns": ("stencil", "tree"), "width": 4, "steps": 4},
    ),
    "branches": ({"shrink": 8, "lanes": 2}, {}),
    "symbolic": (
        {"ways": ("imperative", "script", "eager"), "calls": (1, 10, 100), "repeats": 1},
        {"ways": ("imperative", "script", "eager", "graph"), "calls": (1, 10, 100), "repeats": 1},
    ),
    "lenet_data_parallel": (
        {"batch": 32, "steps": 5, "ways": ("text", "graph"), "devices": (2,), "tests": False},
        {"ways": ("text", "graph"), "devices": (1, 2)},
    ),
    "resnet18_data_parallel": (
        {"batch": 2, "steps": 2, "ways": ("graph",), "memory_formats": ("contiguous",), "devices": (1,)},
        {"batch": 64, "ways": ("graph",), "devices": (1, 2)},
    ),
    "partitioning": (
        {"networks": ("LeNet",), "batch": 32, "micro_batches": 2, "devices": (2,)},
        {"networks": ("LeNet",), "devices": (1, 2)},
    ),
    "multi_machine": ({"mbytes": (1.0,)}, {"mbytes": (1.0,)}),
    "two_layer_mlp": ({"epochs": 3, "schedulers": ("one_stream",)}, {"epochs": 5}),
}


def run_demo(out: Path, *, as_json: bool = False) -> int:
    """Predict, run and compare the experiments in ``./experiments``; pictures, traces and runs go to `out`.

    Returns:
        0, or 1 if a case failed.

    Raises:
        ExperimentError: There is no folder ``experiments`` here, or a file of it cannot be loaded.
        OutputError: `out` cannot be written.
    """
    from graphsched.calibration import local_platform
    from graphsched.cli.experiments import print_figures
    from graphsched.cli.output import print_json, say
    from graphsched.files import check_folder

    experiments = _experiments()
    check_folder(out)
    say("measuring this host, if it has not been measured yet …")
    platform = local_platform(quick=True)
    shown, files = [], []
    for experiment in experiments:
        values = sizes(experiment, platform)
        if values is None:
            say(f"{experiment.name}: no demonstration size; try 'graphsched run {experiment.name}'")
            continue
        try:
            figures, written = _run(experiment, platform, values, out)
        except ExperimentError:
            if not experiment.needs:
                raise
            say(f"{experiment.name}: left out, for it needs {experiment.needs}")
            continue
        shown.append({"experiment": experiment.name, "platform": platform.name, "cases": figures})
        files += written
        if not as_json:
            print_figures(figures, title=f"{experiment.name} on {platform.name}: {experiment.title}")
    if as_json:
        print_json({"platform": platform.name, "experiments": shown, "files": files})
    say(f"{len(files)} pictures, traces and recorded runs are in {out}")
    return 1 if any("failure" in case for entry in shown for case in entry["cases"]) else 0


def _experiments() -> tuple[Experiment, ...]:
    folder = Path("experiments")
    if not folder.is_dir():
        raise ExperimentError(
            "there is no folder 'experiments' here: call the demonstration in a checkout of graphsched"
        )
    found = discover(folder)
    if found.errors:
        raise found.errors[0]
    return found.experiments


def sizes(experiment: Experiment, platform: Platform) -> dict[str, Any] | None:
    """Parameters of `experiment` for the demonstration on `platform`; None if there are none."""
    if experiment.name not in SIZES:
        return None
    on_cpu, on_gpu = SIZES[experiment.name]
    gpus = any(device.kind == "cuda" for device in platform.devices)
    return experiment.values(**(on_gpu if gpus else on_cpu))


def _run(
    experiment: Experiment, platform: Platform, values: Mapping[str, Any], out: Path
) -> tuple[list[dict[str, Any]], list[str]]:
    from graphsched.cli.perform import Runner
    from graphsched.cli.refusals import check_cases
    from graphsched.cli.request import Request, collect_cases

    cases = collect_cases(experiment, values, platform, mode="eager", only=None)
    request = Request(experiment, values, platform, platform.costs, cases)
    check_cases(request)
    outcomes, files = Runner(request, out, REPEATS).run()
    return [outcome.figures() for outcome in outcomes], files
