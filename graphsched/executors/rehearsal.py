"""Two runs of a plan before it is captured, states and random numbers as before afterwards.

The first is eager mode: libraries make their first calls, tasks are checked, and what fails in any mode fails there.
The second makes the calls that will be captured, and refuses what waits for a GPU, which no capture allows:
numbers read back, shapes that follow from data, tensors of pageable memory. Refused here it harms nothing.

Not modelled: what torch's check of such operations misses; the capture finds that.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from graphsched.executors import capture
from graphsched.executors.eager import EagerCompiler
from graphsched.executors.failing import failure_in_run, make
from graphsched.executors.lanes import lanes_at_rest
from graphsched.executors.segments import SegmentCompiler
from graphsched.executors.stamps import Calls

WHEN = " in the run before its capture into a CUDA graph"


def rehearse(compiler: SegmentCompiler, devices: list[int]) -> None:
    """Run the plan of `compiler` twice; find out whether its graphs must be launched in turn.

    Raises:
        TaskFailedError: A task failed, or waits for a GPU.
        StuckError: A run lasted too long.
    """
    buffers = compiler.buffers
    states, numbers = buffers.states(), capture.random_states(devices)
    capture.settle(devices)  # they were cloned on other streams
    try:
        eager = EagerCompiler(compiler.plan, buffers, compiler.cpu, compiler.cuda, compiler.watch)
        _run(eager, eager.compile(), devices, "")
        compiler.draws_elsewhere = _draws_elsewhere(compiler, numbers, capture.random_states(devices))
        inside = compiler.inside()
        _run(compiler, compiler.around(lambda k: partial(_checked, compiler, inside[k], devices)), devices, WHEN)
    except BaseException as error:
        if isinstance(error, Exception):
            lanes_at_rest(compiler.cpu, compiler.cuda, compiler.watch.deadline)
        with suppress(RuntimeError):  # of CUDA
            capture.set_random_states(numbers)
            buffers.restore(states)
            capture.settle(devices)
        raise
    finally:
        buffers.clear()
    buffers.restore(states)
    capture.set_random_states(numbers)
    capture.settle(devices)


def _draws_elsewhere(compiler: SegmentCompiler, before: dict[int, object], after: dict[int, object]) -> bool:
    """Whether tasks draw random numbers on other GPUs than the origin's.

    Where a graph's numbers begin is written on each GPU's current stream as it is launched; on other GPUs than the
    origin's that waits for no graph that still runs.
    """
    import torch

    here = compiler.origin.device.index
    return any(d not in (-1, here) and not torch.equal(before[d], after[d]) for d in before)  # type: ignore[arg-type]


def _run(compiler: EagerCompiler, calls: Calls, devices: list[int], when: str) -> None:
    import torch

    watch = compiler.watch
    compiler.begin()
    watch.begin()
    try:
        with torch.no_grad():
            make(calls, compiler.plan, when)
        for i, done in compiler.done.items():
            watch.wait(done, repr(compiler.plan.names[i]))
        capture.settle(devices)
    except Exception as error:
        raise failure_in_run(error, watch.failure, compiler.plan, None, compiler.unfinished)  # noqa: B904 - has its cause


def _checked(compiler: SegmentCompiler, calls: Calls, devices: list[int]) -> None:
    """Run a segment alone, without a graph."""
    _rest(compiler)
    capture.settle(devices)
    with capture.synchronising_refused():
        make(calls, compiler.plan, WHEN)
    capture.settle(devices)


def _rest(compiler: SegmentCompiler) -> None:
    """CPU lanes finish what they have: the check holds for all threads."""
    if not lanes_at_rest(compiler.cpu, {}, compiler.watch.deadline):
        raise compiler.watch.stuck("lanes of the CPU")
    if compiler.watch.failure is not None:
        raise compiler.watch.failure
