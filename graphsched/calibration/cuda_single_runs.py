"""What runs of one action take beyond its call, launch, work and return: first calls find colder caches than others.

They are made as short runs are measured: after each look at the yardstick, which leaves the next run with caches of
its own, one does not count and two do. The median of all counts, in units of the yardstick.

Not modelled: other operations than a tiny one; copies that block. Theirs are taken to be those of a task and of copies
that do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from statistics import median
from typing import Any

from graphsched.calibration.cuda_calls import Yardstick
from graphsched.calibration.cuda_clock import Spinner, new_stream, queued_s
from graphsched.calibration.single_plans import one_copy_across, one_copy_in, one_copy_out, one_task
from graphsched.calibration.tiny_plans import Build, program_of
from graphsched.executors.collector import no_collector
from graphsched.executors.peer_copies import allow_access, driver_copy
from graphsched.executors.repeats import EVERY, settle
from graphsched.platform.dispatch import BLOCKING_BYTES
from graphsched.platform.links import SHORTEST_S

RUNS = 40
QUEUED, SAMPLES = 8, 25  # copies in a row on the device, and such rows


def single_figures(spinners: Sequence[Spinner], known: Mapping[str, float]) -> dict[str, float]:
    """Fields ``first_…`` of `Dispatch`, in seconds; that between GPUs if there are two.

    `known` has other fields of `Dispatch`, and ``tiny_s``: a tiny operation on the device.
    """
    gpu, both = spinners[0].device, tuple(s.device for s in spinners[:2])
    single = partial(_beyond_s, known=known)
    figures = {
        "first_s": max(0.0, single(one_task, (gpu,), known["call_s"], known["tiny_s"])),
        "first_in_s": single(one_copy_in, (gpu,), known["copy_s"], _copied_s(spinners[0], _to_gpu(gpu))),
        "first_out_s": single(one_copy_out, (gpu,), known["copy_out_s"], _copied_s(spinners[0], _to_host(gpu))),
    }
    if len(both) > 1:
        host_s = known["peer_copy_s"] + known["device_switch_s"]
        figures["first_peer_s"] = single(one_copy_across, both, host_s, _copied_s(spinners[0], _across(*both)))
    return {name: seconds if name == "first_s" else max(SHORTEST_S, seconds) for name, seconds in figures.items()}


def _beyond_s(build: Build, gpus: tuple[int, ...], host_s: float, work_s: float, known: Mapping[str, float]) -> float:
    """What a run takes beyond `host_s` of calls, a switch, a launch, `work_s` on the device and a return."""
    device_s = known["launch_s"] + work_s + known["sync_s"]
    shares: list[float] = []
    with ExitStack() as stack:
        stack.enter_context(no_collector())
        yardstick = stack.enter_context(closing(Yardstick(gpus[0])))
        program = stack.enter_context(program_of(build, gpus))
        for _ in range(RUNS // EVERY + 1):
            unit_s = yardstick.sample_s()
            settle(program.time_once)
            shares += [(program.time_once() - device_s) / unit_s for _ in range(EVERY)]
    return median(shares[EVERY:]) * known["call_s"] - host_s - known["switch_s"]


# -- small copies on the device -------------------------------------------------------------------

Ways = Callable[[Any], Callable[[], Any]]  # of a stream: a call that issues a copy on it


def _copied_s(spinner: Spinner, way: Ways) -> float:
    """Device seconds of one of several small copies in a row."""
    stream = new_stream(spinner.device)
    call = way(stream)
    return median([queued_s(spinner, (stream,), call, QUEUED) for _ in range(SAMPLES + 1)][1:])


def _to_gpu(gpu: int) -> Ways:
    return lambda _: partial(_page(f"cuda:{gpu}").copy_, _pinned(), non_blocking=True)


def _to_host(gpu: int) -> Ways:
    return lambda _: partial(_pinned().copy_, _page(f"cuda:{gpu}"), non_blocking=True)


def _across(source: int, target: int) -> Ways:
    def way(stream: Any) -> Callable[[], Any]:
        allow_access(f"cuda:{source}", f"cuda:{target}")
        here, there = _page(f"cuda:{source}"), _page(f"cuda:{target}")
        copy = partial(driver_copy(), there.data_ptr(), here.data_ptr(), BLOCKING_BYTES, stream.cuda_stream)
        return lambda: (copy(), here, there)  # which are held as long as the call is

    return way


def _page(device: str) -> Any:
    import torch

    return torch.ones(BLOCKING_BYTES, dtype=torch.uint8, device=device)


def _pinned() -> Any:
    import torch

    return torch.ones(BLOCKING_BYTES, dtype=torch.uint8).pin_memory()
