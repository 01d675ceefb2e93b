"""How fast the dispatching thread is just now: the same core takes up to twice as long where others compute on it."""

from __future__ import annotations

from dataclasses import replace

from graphsched.platform import Platform


def present_call_s(platform: Platform) -> float:
    """The yardstick `Dispatch.call_s` as it is now; 0 without a GPU, or where it was not taken at calibration."""
    gpus = [d.name for d in platform.devices if d.kind == "cuda"]
    if not gpus or not platform.dispatch.call_s:
        return 0.0
    from graphsched.calibration.cuda_calls import tiny_call_s

    return tiny_call_s(int(gpus[0].partition(":")[2]))


def at_pace(platform: Platform, call_s: float) -> Platform:
    """`platform` with its costs of dispatch for a thread whose yardstick is `call_s`; 0 leaves it as it is."""
    return replace(platform, dispatch=platform.dispatch.at(call_s)) if call_s else platform
