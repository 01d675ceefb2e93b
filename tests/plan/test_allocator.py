"""Blocks as torch's caching allocator cuts them, by its rules; what holds for any order of taking and giving."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from graphsched.plan.allocator import Block, CachingAllocator, HostAllocator

MIB = 2**20


def sizes(*asked: float) -> list[float]:
    """MiB of the blocks for tensors of these MiB, one after the other."""
    gpu = CachingAllocator()
    blocks = [gpu.take(int(mib * MIB)) for mib in asked]
    return [block.nbytes / MIB for block in blocks if block is not None]


def test_sizes_are_rounded_up_to_512_bytes() -> None:
    gpu = CachingAllocator()
    blocks = [gpu.take(n) for n in (1, 512, 513)]
    assert [block.nbytes for block in blocks if block] == [512, 512, 1024]
    assert gpu.allocated_bytes == 2048


def test_a_tensor_without_elements_takes_nothing() -> None:
    assert CachingAllocator().take(0) is None
    assert HostAllocator().take(0) is None


def test_a_large_tensor_has_a_segment_of_its_own_and_its_rest_if_that_is_no_more_than_a_mebibyte() -> None:
    assert sizes(10.5, 11, 11.5) == [10.5, 12, 12]


def test_middling_tensors_share_segments_of_20_mebibytes() -> None:
    """9.5 + 10.5: the second has all that is left; 9 + 9 + 2: what is left is worth while."""
    assert sizes(9.5, 9.5) == [9.5, 10.5]
    assert sizes(9, 9, 2) == [9, 9, 2]


def test_small_tensors_leave_whatever_is_left() -> None:
    assert sizes(1, 1 - 1 / 2048, 1 / 2048) == [1, 1 - 1 / 2048, 1 / 2048]


def test_the_smallest_free_block_of_the_stream_that_is_large_enough_is_taken() -> None:
    gpu = CachingAllocator()
    blocks = {mib: gpu.take(mib * MIB, "s0") for mib in (40, 30, 20)}
    for block in blocks.values():
        assert block is not None
        gpu.give_back(block)
    assert gpu.take(29 * MIB, "s0") is blocks[30]
    assert gpu.take(20 * MIB, "s1") not in blocks.values()


def test_free_neighbours_are_one_block() -> None:
    gpu = CachingAllocator()
    first, second, third = (gpu.take(4 * MIB) for _ in range(3))
    assert first
    assert second
    assert third
    for block in (first, third, second):
        gpu.give_back(block)
    whole = gpu.take(20 * MIB)
    assert whole is not None
    assert whole.place == first.place
    assert gpu.allocated_bytes == 20 * MIB


def test_what_is_left_of_a_block_joins_the_block_behind_it() -> None:
    """4, 8 and 8 MiB; of the middle one 4 are taken again, the last one goes: 12 are free behind."""
    gpu = CachingAllocator()
    first, second, third = (gpu.take(mib * MIB) for mib in (4, 8, 8))
    assert first
    assert second
    assert third
    gpu.give_back(second)
    assert gpu.take(4 * MIB) is second
    gpu.give_back(third)
    whole = gpu.take(12 * MIB)
    assert whole is not None
    assert whole.place == (first.place[0], 8 * MIB)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 15 * MIB), st.sampled_from("ab"), st.integers(0, 3)), max_size=30))
def test_blocks_in_use_never_overlap(steps: list[tuple[int, str, int]]) -> None:
    gpu = CachingAllocator()
    used: list[Block] = []
    for nbytes, stream, gone in steps:
        block = gpu.take(nbytes, stream)
        assert block is not None
        assert 0 <= block.nbytes - nbytes < (MIB + 512 if nbytes > MIB else 512)
        used.append(block)
        for _ in range(min(gone, len(used))):
            gpu.give_back(used.pop(nbytes % len(used)))
        places = sorted((b.place, b.nbytes) for b in used)
        for ((segment, offset), size), (after, _) in pairwise(places):
            assert after >= (segment, offset + size)
        assert gpu.allocated_bytes == sum(b.nbytes for b in used)
    for block in used:
        gpu.give_back(block)
    free = [block for listed in gpu._free.values() for block in listed]
    assert len({b.place[0] for b in free}) == len(free), "a segment without tensors is one block"
    assert gpu.allocated_bytes == 0
