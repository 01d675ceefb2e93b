"""Where keys go: as many bytes everywhere, the same under any order of keys."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from graphsched.kvstore.sharding import Sharding
from graphsched.workload import TensorSpec

SERVERS = ["a", "b", "c"]
sizes = st.dictionaries(st.text("xyz", min_size=1, max_size=4), st.integers(0, 500), min_size=1, max_size=6)


def placed(elements: dict[str, int], shard: str, servers: int) -> Sharding:
    sharding = Sharding(SERVERS[:servers], shard, 0)
    sharding.place({key: TensorSpec((size,)) for key, size in elements.items()})
    return sharding


@given(sizes, st.integers(1, 3))
def test_whole_keys_are_in_balance(elements: dict[str, int], servers: int) -> None:
    """The fullest server has no more than 4/3 of what it has in the best of all ways."""
    sharding = placed(elements, "keys", servers)
    ways = itertools.product(range(servers), repeat=len(elements))
    least = min(max(_loads(elements.values(), way, servers)) for way in ways)
    assert sum(sharding.nbytes.values()) == 4 * sum(elements.values())
    assert 3 * max(sharding.nbytes.values()) <= 4 * 4 * least


def _loads(sizes: Iterable[int], way: Iterable[int], servers: int) -> list[int]:
    loads = [0] * servers
    for size, server in zip(sizes, way, strict=True):
        loads[server] += size
    return loads


def test_keys_placed_later_go_where_there_is_room() -> None:
    sharding = placed({"large": 100}, "keys", 2)
    sharding.place({"x": TensorSpec((60,)), "y": TensorSpec((30,)), "z": TensorSpec((20,))})
    assert [sharding.parts[key][0].server for key in ("large", "x", "y", "z")] == ["a", "b", "b", "b"]


@given(sizes, st.integers(1, 3))
def test_parts_are_equal_and_whole(elements: dict[str, int], servers: int) -> None:
    """Parts add up to the key; each is on a server of its own, and they differ by less than 16 bytes a server."""
    sharding = placed(elements, "elements", servers)
    for key, size in elements.items():
        parts = sharding.parts[key]
        assert sum(part.elements for part in parts) == size
        assert len({part.server for part in parts}) == len(parts)
        assert max(part.elements for part in parts) <= size / servers + 4


@given(sizes, st.sampled_from(["keys", "elements"]), st.randoms(use_true_random=False))
def test_the_order_of_keys_means_nothing(elements: dict[str, int], shard: str, shuffled: object) -> None:
    keys = list(elements)
    shuffled.shuffle(keys)  # type: ignore[attr-defined]
    again = placed({key: elements[key] for key in keys}, shard, 3)
    assert again.parts == placed(elements, shard, 3).parts
