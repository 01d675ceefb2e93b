"""all_reduce, reduce and reduce_scatter: sums are those of torch, and all devices get the same bits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import graphsched as gs
from graphsched.collectives import all_gather, all_reduce, reduce, reduce_scatter
from graphsched.collectives.rows import row_counts
from tests.collectives.values import (
    DTYPES,
    FREE,
    all_equal,
    floats,
    on_workers,
    plainly,
    really,
    whole_numbers,
    workers,
)
from tests.executors.programs import machine

BLOCKS = ("cpu", "server", "ring", "rings", "tree")
ways = st.sampled_from(FREE).flatmap(
    lambda name: st.fixed_dictionaries(
        {"algorithm": st.just(name)}, optional={"blocks": st.integers(1, 12)} if name in BLOCKS else {}
    )
)
quickly = settings(max_examples=150, deadline=None)


def total(tensors: list[torch.Tensor]) -> torch.Tensor:
    """Torch's sum, in the type of the tensors."""
    return torch.stack(tensors).sum(0).to(tensors[0].dtype)


@quickly
@given(ways, st.integers(1, 7), st.integers(0, 40), st.sampled_from(DTYPES), st.integers(0, 9))
def test_every_device_gets_torchs_sum(way: dict[str, Any], k: int, n: int, dtype: torch.dtype, seed: int) -> None:
    """x0, x1, … ──▶ sum, sum, …: any number of devices and elements, any type."""
    tensors = whole_numbers(k, [n], dtype, seed)
    work, values = on_workers(tensors)
    found = plainly(work, all_reduce(work, values, **way))
    assert len(found) == k
    for one in found:
        assert one.dtype == dtype
        assert torch.equal(one, total(tensors))


@quickly
@given(ways, st.integers(1, 7), st.integers(0, 40))
def test_every_device_gets_the_same_bits(way: dict[str, Any], k: int, n: int) -> None:
    """Where sums in another order would have other bits; in fp64 to 1e-12 those of torch."""
    tensors = floats(k, n, torch.float64)
    work, values = on_workers(tensors)
    found = plainly(work, all_reduce(work, values, **way))
    assert all_equal(found)
    torch.testing.assert_close(found[0], total(tensors), rtol=1e-12, atol=1e-12 * 10.0**k)


@pytest.mark.parametrize("algorithm", FREE)
@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_for_real_on_workers(algorithm: str, k: int) -> None:
    """x0 on worker:0, x1 on worker:1, …: the plan's copies, lanes and waits, with 1 to 5 devices."""
    tensors = floats(k, 203, torch.float64)
    work, values = on_workers(tensors)
    plain = plainly(work, all_reduce(work, values, algorithm=algorithm, name="plain"))
    found = really(work, all_reduce(work, values, algorithm=algorithm), k)
    assert all_equal([*found, *plain])
    torch.testing.assert_close(found[0], total(tensors), rtol=1e-12, atol=1e-12 * 10.0**k)


@pytest.mark.parametrize("scheduler", ["heft", "round_robin", "sequential"])
def test_for_real_under_other_schedulers(scheduler: str) -> None:
    """Two rings at once, with several lanes a device."""
    tensors = floats(3, 500)
    work, values = on_workers(tensors)
    assert all_equal(really(work, all_reduce(work, values, algorithm="rings", blocks=5), 3, scheduler))


@pytest.mark.parametrize("algorithm", FREE)
def test_sums_have_the_shape_and_order_of_memory_of_the_values(algorithm: str) -> None:
    """x0.t(), x1.t(), x2.t() ──▶ sums with the same strides: blocks are views of dense values."""
    tensors = [x.permute(2, 0, 1) for x in whole_numbers(3, (5, 4, 6), torch.float32)]
    work, values = on_workers(tensors)
    sums = all_reduce(work, values, algorithm=algorithm)
    assert [value.spec for value in sums] == [values[0].spec] * 3
    for one in really(work, sums, 3):
        assert one.stride() == tensors[0].stride()
        assert torch.equal(one, total(tensors))


@pytest.mark.parametrize("algorithm", FREE)
@pytest.mark.parametrize("gap", [lambda x: x[:, ::2], lambda x: x[:, :1].expand(8, 6)])
def test_values_with_gaps_or_repeats(algorithm: str, gap: Any) -> None:
    """Every second column, or one column for all: elements are read one by one."""
    tensors = [gap(x) for x in whole_numbers(3, (8, 12), torch.float64)]
    work, values = on_workers(tensors)
    for one in plainly(work, all_reduce(work, values, algorithm=algorithm)):
        assert torch.equal(one, total(tensors))


def test_states_may_be_summed_and_then_updated() -> None:
    """w0, w1 (states) ──▶ sums ──▶ w0 += sum, w1 += sum, in each of two runs."""
    work = gs.Workload()
    tensors = whole_numbers(2, [40], torch.float64)
    states = [work.state(f"w{k}", tensor, device=f"worker:{k}") for k, tensor in enumerate(tensors)]
    sums = all_reduce(work, states, algorithm="ring")
    for k, (state, value) in enumerate(zip(states, sums, strict=True)):
        work.task(torch.Tensor.add_, state, value, updates=state, device=f"worker:{k}", name=f"step{k}")
    with gs.Program(gs.schedule(work, machine(*workers(2)), scheduler="one_stream")) as program:
        program.run()
        program.run()
        found = program.state()
    assert torch.equal(found["w0"], 5 * tensors[0] + 4 * tensors[1])
    assert torch.equal(found["w1"], 4 * tensors[0] + 5 * tensors[1])


def test_several_sums_in_one_workload() -> None:
    """x0, x1 ──▶ sums ──▶ sums of sums: each set of tasks has a name of its own."""
    tensors = whole_numbers(2, [9], torch.int64)
    work, values = on_workers(tensors)
    once = all_reduce(work, values)
    twice = all_reduce(work, once, name="again")
    thrice = all_reduce(work, twice)
    assert torch.equal(plainly(work, thrice)[1], 4 * total(tensors))
    assert {name.partition("/")[0] for name in work.graph} == {
        "all_reduce.sharded",
        "again.sharded",
        "all_reduce1.sharded",
    }


@pytest.mark.parametrize("between", [None, "gather", "server", "sharded", "ring", "rings", "tree", "halving"])
@pytest.mark.parametrize(
    "groups", [[[0, 1], [2, 3], [4]], [[3, 0], [1, 2, 4]], [[0, 1, 2, 3, 4]], [[0], [1], [2], [3], [4]]]
)
def test_groups(groups: list[list[int]], between: str | None) -> None:
    """(x0 x1) (x2 x3) (x4) ──▶ a sum a group ──▶ the sum of the groups' first ──▶ everybody."""
    tensors = floats(5, 33, torch.float64)
    work, values = on_workers(tensors)
    named = [[f"worker:{k}" for k in group] for group in groups]
    sums = all_reduce(work, values, algorithm="hierarchical", groups=named, between=between)
    found = really(work, sums, 5)
    assert all_equal(found)
    torch.testing.assert_close(found[0], total(tensors), rtol=1e-12, atol=1e-7)


@quickly
@given(
    st.sampled_from(["direct", "ring", "tree"]),
    st.integers(1, 7).flatmap(lambda k: st.tuples(st.just(k), st.integers(0, k - 1))),
    st.integers(0, 40),
    st.integers(1, 9),
    st.sampled_from(DTYPES),
)
def test_reduce(algorithm: str, place: tuple[int, int], n: int, blocks: int, dtype: torch.dtype) -> None:
    """x0, x1, … ──▶ one sum, on the device that was named."""
    k, to = place
    tensors = whole_numbers(k, [n], dtype)
    work, values = on_workers(tensors)
    made = reduce(work, values, to=f"worker:{to}", algorithm=algorithm, blocks=blocks)
    assert work[str(made.producer)].devices == (f"worker:{to}",)
    assert torch.equal(plainly(work, [made])[0], total(tensors))


@quickly
@given(st.sampled_from(["direct", "ring"]), st.integers(1, 7), st.integers(0, 20), st.sampled_from([(), (0,), (3,)]))
def test_reduce_scatter(algorithm: str, k: int, rows: int, more: tuple[int, ...]) -> None:
    """x0, x1, … ──▶ rows 0 to a of the sum, rows a to b of it, …; all_gather makes the whole of them again."""
    tensors = whole_numbers(k, (rows, *more), torch.int32)
    work, values = on_workers(tensors)
    parts = reduce_scatter(work, values, algorithm=algorithm)
    whole = all_gather(work, parts, algorithm=algorithm)
    found = plainly(work, [*parts, *whole])
    assert [len(part) for part in found[:k]] == row_counts(rows, k)
    for part, expected in zip(found[:k], total(tensors).tensor_split(k), strict=True):
        assert torch.equal(part, expected)
    for one in found[k:]:
        assert torch.equal(one, total(tensors))


@pytest.mark.parametrize("algorithm", ["direct", "ring"])
def test_reduce_scatter_for_real_with_too_few_rows(algorithm: str) -> None:
    """Two rows on three devices, transposed in memory: the third gets none."""
    tensors = [x.t() for x in whole_numbers(3, (4, 2), torch.float32)]
    work, values = on_workers(tensors)
    found = really(work, reduce_scatter(work, values, algorithm=algorithm), 3)
    assert [one.tolist() for one in found] == [total(tensors)[:1].tolist(), total(tensors)[1:].tolist(), []]
