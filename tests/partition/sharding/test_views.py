"""Views of split tensors: the part of a view is the view of the part."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphsched.partition.sharding.layouts import Split, even, joined, part
from graphsched.partition.sharding.views import followed, local_view, operation, reshaped, shape_of, viewed, viewing
from graphsched.workload import Operation, fill

aten = torch.ops.aten


def numbers(*shape: int) -> torch.Tensor:
    return torch.arange(torch.Size(shape).numel()).reshape(shape)


VIEWS = [
    (aten.t.default, (), (4, 6), Split(0, (3, 1)), Split(1, (3, 1))),
    (aten.transpose.int, (-1, 0), (4, 5, 6), Split(2, (4, 2)), Split(0, (4, 2))),
    (aten.permute.default, ([2, 0, 1],), (4, 5, 6), Split(0, (2, 2)), Split(1, (2, 2))),
    (aten.unsqueeze.default, (0,), (4, 6), Split(0, (3, 1)), Split(1, (3, 1))),
    (aten.unsqueeze.default, (-1,), (4, 6), Split(1, (3, 3)), Split(1, (3, 3))),
    (aten.squeeze.dim, (0,), (1, 4), Split(1, (3, 1)), Split(0, (3, 1))),
    (aten.expand.default, ([2, 3, 4],), (3, 4), Split(1, (2, 2)), Split(2, (2, 2))),
    (aten.select.int, (0, 1), (3, 4), Split(1, (3, 1)), Split(0, (3, 1))),
    (aten.slice.Tensor, (0, 1, 3), (3, 4), Split(1, (3, 1)), Split(1, (3, 1))),
    (aten.view.default, ([2, 12],), (2, 6, 2), Split(1, (4, 2)), Split(1, (8, 4))),
    (aten.view.default, ([2, 3, 4],), (2, 12), Split(1, (8, 4)), Split(1, (2, 1))),
    (aten.view.default, ([2, 3, 4],), (2, 12), Split(1, (2, 2), outer=3), Split(2, (2, 2))),
    (aten._unsafe_view.default, ([6, 4],), (2, 3, 4), Split(1, (2, 1)), Split(0, (2, 1), outer=2)),
    # into the split dimension, or across parts
    (aten.select.int, (1, 0), (3, 4), Split(1, (3, 1)), None),
    (aten.slice.Tensor, (1, 0, 2), (3, 4), Split(1, (3, 1)), None),
    (aten.view.default, ([2, 3, 4],), (2, 12), Split(1, (6, 6)), None),
    (aten.as_strided.default, ([4, 3], [1, 4]), (3, 4), Split(1, (3, 1)), None),
]


@pytest.mark.parametrize(("function", "args", "shape", "layout", "expected"), VIEWS)
def test_the_part_of_a_view_is_the_view_of_the_part(function, args, shape, layout, expected):
    whole = numbers(*shape)
    view = operation(function, whole, *args)
    made = shape_of(view, shape)
    found = viewed(function._schema.name.removeprefix("aten::"), args, shape, made, layout)
    assert found == expected
    if found is not None:
        parts = [fill(local_view(view, part(whole, layout, i), made, found, i), ()) for i in range(2)]
        assert torch.equal(joined(parts, found), function(whole, *args))


@pytest.mark.parametrize(("place", "expected"), [(0, Split(1, (3, 3))), (1, None)])
def test_one_of_several_views(place, expected):
    import operator

    whole = numbers(4, 6)
    view = Operation("operator.getitem", operator.getitem, (operation(aten.split.Tensor, whole, 2, place), 1))
    assert viewing(view).function is aten.split.Tensor
    made, layout = followed(Operation(view.name, view.function, (viewing(view), 1)), (4, 6), Split(1, (3, 3)))
    assert layout == expected
    assert made == tuple(whole.split(2, place)[1].shape)


@given(st.data())
def test_reshaped_runs_hold_the_same_elements(data):
    """Whatever the shapes: where a layout is found, parts reshape to parts."""
    dims = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    dim = data.draw(st.integers(0, len(dims) - 1))
    outer = data.draw(st.integers(1, 2))
    sizes = tuple(data.draw(st.lists(st.integers(1, 3), min_size=2, max_size=3)))
    layout = Split(dim, sizes, outer)
    shape = (*dims[:dim], layout.length(), *dims[dim + 1 :])
    whole = numbers(*shape)
    cuts = [n for n in range(1, whole.numel() + 1) if whole.numel() % n == 0]
    first = data.draw(st.sampled_from(cuts))
    second = data.draw(st.sampled_from([n for n in cuts if (whole.numel() // first) % n == 0]))
    made = (first, second, whole.numel() // first // second)
    found = reshaped(shape, made, layout)
    if found is not None:
        parts = [part(whole, layout, i).reshape(found.local(made, i)) for i in range(len(sizes))]
        assert torch.equal(joined(parts, found), whole.reshape(made))


@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 4), st.integers(1, 3))
def test_parts_join_to_the_whole(units, count, unit, outer):
    sizes = even(units * unit, count, unit)
    assert sum(sizes) == units * unit
    assert max(sizes) - min(sizes) in (0, unit)
    whole = numbers(2, outer * sum(sizes), 3)
    layout = Split(1, sizes, outer)
    assert torch.equal(joined([part(whole, layout, i) for i in range(count)], layout), whole)
