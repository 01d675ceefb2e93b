"""What is published about the time that devices of a pipeline wait."""

from __future__ import annotations


def bubble_fraction(devices: int, micro_batches: int, chunks: int = 1) -> float:
    """The part of the time that devices wait, where stages are equal and transfers take no time.

    Interleaved, it holds where `micro_batches` is a multiple of `devices`.

    Source: Narayanan et al., SC 2021, 2.2 (there as a part of the time at work: (p - 1) / (v m)).
    """
    return (devices - 1) / (micro_batches * chunks + devices - 1)
