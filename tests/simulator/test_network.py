"""Max-min fair sharing: textbook examples, and transfers of plans through shared capacities."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphsched.plan import Plan
from graphsched.platform import CapacityTable, Link, Platform
from graphsched.simulator import Model, predict
from graphsched.simulator.clock import Call, Clock
from graphsched.simulator.network import Network, Route, Table, max_min_rates
from tests.builders import planned, platform, workload

INFINITE = 1e30


def ends(plan: Plan, model: Model = Model()) -> dict[str, float]:
    return {span.action: span.end_s for span in predict(plan, model=model)}


@pytest.mark.parametrize(
    ("limits", "crosses", "capacities", "rates"),
    [
        # all through one link, the last through another that has room
        ([INFINITE] * 3, [(0,), (0,), (0, 1)], [1.0, 1.0], [1 / 3, 1 / 3, 1 / 3]),
        ([INFINITE] * 4, [(0,), (0,), (0, 1), (1,)], [1.0, 1.0], [1 / 3, 1 / 3, 1 / 3, 2 / 3]),
        # a chain of links: one long flow over all, one short one on each
        ([INFINITE] * 4, [(0, 1, 2), (0,), (1,), (2,)], [1.0, 2.0, 4.0], [0.5, 0.5, 1.5, 3.5]),
        # own limits: who cannot use its share leaves the rest to the others
        ([1.0, 3.0, 100.0], [(0,)] * 3, [12.0], [1.0, 3.0, 8.0]),
        ([1.0, 2.0], [(0,), (0,)], [12.0], [1.0, 2.0]),
        # nothing crossed
        ([7.0, 9.0], [(), (0,)], [3.0], [7.0, 3.0]),
        ([], [], [], []),
    ],
)
def test_textbook(limits: list[float], crosses: list[tuple[int, ...]], capacities: list[float], rates: list[float]):
    assert max_min_rates(limits, crosses, capacities) == pytest.approx(rates)


@given(
    st.lists(st.tuples(st.integers(1, 50), st.sets(st.integers(0, 4), max_size=3)), min_size=1, max_size=8),
    st.lists(st.integers(1, 60), min_size=5, max_size=5),
)
def test_max_min_holds(flows: list[tuple[int, set[int]]], capacities: list[int]):
    """No capacity is exceeded; each flow is at its limit, or at a full capacity where none has more than it."""
    limits, crosses = [float(f[0]) for f in flows], [tuple(sorted(f[1])) for f in flows]
    rates = max_min_rates(limits, crosses, [float(c) for c in capacities])
    load = [sum(r for r, c in zip(rates, crosses, strict=True) if k in c) for k in range(5)]
    assert all(used <= c * (1 + 1e-9) for used, c in zip(load, capacities, strict=True))
    for rate, limit, crossed in zip(rates, limits, crosses, strict=True):
        full = [k for k in crossed if load[k] >= capacities[k] * (1 - 1e-9)]
        highest = [max(r for r, c in zip(rates, crosses, strict=True) if k in c) for k in full]
        assert rate == limit or any(rate >= h * (1 - 1e-9) for h in highest)


def _ends_in_groups(flows: list[tuple[int, int, set[int]]], capacities: list[float]) -> list[float]:
    """Ends of transfers (begin, bytes, capacities), whose rates are set anew where something changes."""
    clock, ends = Clock(), [0.0] * len(flows)
    routes = {k: Route(0.0, float(n), INFINITE, tuple(sorted(c)), False) for k, (_, n, c) in enumerate(flows)}

    def due(call: Call) -> None:
        for k in network.due(call.what, clock.now):
            ends[k] = clock.now
        if clock.over:
            network.refresh(clock.now)

    def begin(call: Call) -> None:
        network.enter(call.what, clock.now)
        if clock.over:
            network.refresh(clock.now)

    network = Network(routes, capacities, lambda time, _, token: clock.call_at(time, token, due))
    for k, (time, _, _) in enumerate(flows):
        clock.call_at(float(time), k, begin)
    clock.run()
    return ends


def _ends_one_by_one(flows: list[tuple[int, int, set[int]]], capacities: list[float]) -> list[float]:
    """The same with the rates of all set anew at each change."""
    left = {k: float(n) for k, (_, n, _) in enumerate(flows)}
    ends, now = [0.0] * len(flows), 0.0
    while left:
        under = [k for k in left if flows[k][0] <= now]
        rates = max_min_rates([INFINITE] * len(under), [tuple(flows[k][2]) for k in under], capacities)
        steps = [left[k] / rate for k, rate in zip(under, rates, strict=True)]
        steps += [flows[k][0] - now for k in left if k not in under]
        step = min(steps)
        for k, rate in zip(under, rates, strict=True):
            left[k] -= rate * step
        now += step
        for k in [k for k in under if left[k] <= 1e-9 * flows[k][1]]:
            ends[k] = now
            del left[k]
    return ends


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 30), st.sets(st.integers(0, 4), min_size=1, max_size=3)), max_size=8
    ),
    st.lists(st.integers(1, 6), min_size=5, max_size=5),
)
def test_rates_set_where_something_changes_are_those_of_all(
    flows: list[tuple[int, int, set[int]]], capacities: list[int]
):
    shared = [float(c) for c in capacities]
    assert _ends_in_groups(flows, shared) == pytest.approx(_ends_one_by_one(flows, shared), rel=1e-7)


def _rates(network: Network, *actions: int) -> list[float]:
    """Rates of these transfers, which are alone, from 0 s on; they have left after that."""
    for action in actions:
        network.enter(action, 0.0)
    network.refresh(0.0)
    rates = [rate for _, rate in network.rates()]
    tokens = [token for token in range(network._token + 1) if token in network._groups]
    assert sorted(k for token in tokens for k in network.due(token, 9.0)) == sorted(actions)
    return rates


def test_transfers_of_one_link_and_of_several_have_the_rates_of_so_many_links():
    """Two of one link share 10 bytes/s, two of different links 6, and so again; all else about them is equal."""
    table = Table((0,), CapacityTable(("bus",), ((1, 2),), (10.0, 6.0)))
    routes = {k: Route(0.0, 9.0, INFINITE, (0,), False, link) for k, link in enumerate((0, 0, 0, 1))}
    network = Network(routes, [10.0], lambda *_: None, {0: table})
    assert [_rates(network, *pair) for pair in [(0, 1), (2, 3), (0, 1), (1, 3)]] == [[5, 5], [3, 3], [5, 5], [3, 3]]


def test_what_is_slower_for_a_while_has_its_old_rate_after_that_alone_and_beside_another():
    """0 and 1 go through one port of 4 bytes/s, 2 through another; the cores that make them have half their speed."""
    routes = {k: Route(0.0, 100.0, 3.0, (k // 2,), True) for k in range(3)}
    network = Network(routes, [4.0, 4.0], lambda *_: None)
    for k in routes:
        network.enter(k, 0.0)
    network.refresh(0.0)
    assert network.rates() == [(0, 2.0), (1, 2.0), (2, 3.0)]
    network.share_cores(0.5)
    network.refresh(1.0)
    assert network.rates() == [(0, 1.5), (1, 1.5), (2, 1.5)]
    network.share_cores(1.0)
    network.refresh(2.0)
    assert network.rates() == [(0, 2.0), (1, 2.0), (2, 3.0)]


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_k_transfers_through_one_link(k: int):
    """x0 … xk-1 on as many GPUs, each copied to cuda:k over one bus of 100 bytes/s: k transfers take k s each."""
    work = workload({f"{x}{i}": 0.0 for i in range(k) for x in "xy"}, [(f"x{i}", f"y{i}", 100) for i in range(k)])
    lanes = {f"x{i}": f"cuda:{i}/s0" for i in range(k)} | {f"y{i}": f"cuda:{k}/s0" for i in range(k)}
    plan = planned(work, platform(gpus=k + 1, shared={"bus": 100.0}), lanes)
    assert [end for name, end in ends(plan).items() if ">" in name] == [k] * k
    assert predict(plan, model=Model(contention=False)).makespan_s == 1


def fan_out(sizes: tuple[int, int], starts: tuple[float, float] = (0.0, 0.0), **options: object) -> Plan:
    """a on cuda:0 -> c on cuda:2; b on cuda:1 -> d on cuda:2, all into one port."""
    work = workload({"a": starts[0], "b": starts[1], "c": 0.0, "d": 0.0}, [("a", "c", sizes[0]), ("b", "d", sizes[1])])
    lanes = {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cuda:2/s0", "d": "cuda:2/s0"}
    return planned(work, platform(gpus=3, **options), lanes)  # type: ignore[arg-type]


def test_who_is_left_alone_speeds_up():
    """100 and 300 bytes at 50 each until 2 s; then 200 bytes at 100."""
    plan = fan_out((100, 300), shared={"in cuda:2": 100.0})
    assert (ends(plan)["a>cuda:2"], ends(plan)["b>cuda:2"]) == (2, 4)


def test_who_comes_later_slows_the_first():
    """300 bytes alone for 1 s, at 50 beside 100 bytes until 3 s, then alone: 100 bytes more at 100."""
    plan = fan_out((300, 100), (0.0, 1.0), shared={"in cuda:2": 100.0})
    assert (ends(plan)["a>cuda:2"], ends(plan)["b>cuda:2"]) == (4, 3)


def test_latency_shares_nothing():
    """1 s of latency each at once, then 100 bytes each at 50."""
    plan = fan_out((100, 100), shared={"in cuda:2": 100.0}, latency_s=1.0)
    assert (ends(plan)["a>cuda:2"], ends(plan)["b>cuda:2"]) == (3, 3)


def test_measured_time_below_the_fit_is_a_faster_flow_after_the_whole_latency():
    """100 bytes measured at 1.5 s, 1 s of it latency: 200 bytes/s at most. Two into a port of 200: 2 s."""
    here = platform(gpus=3)
    links = [Link(f"cuda:{k}", "cuda:2", "peer", 1.0, 100.0, ("in",), False, (100,), (1.5,)) for k in (0, 1)]
    here = Platform("hand", here.devices, tuple(links), {"in": 200.0}, here.dispatch)
    work = workload(dict.fromkeys("abcd", 0.0), [("a", "c", 100), ("b", "d", 100)])
    lanes = {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cuda:2/s0", "d": "cuda:2/s0"}
    assert predict(planned(work, here, lanes)).makespan_s == 2
    assert predict(planned(work, here, lanes), model=Model(contention=False)).makespan_s == 1.5


def test_capacity_below_the_link_counts_for_one_transfer_too():
    """A port of 50 on a link of 100, one lane only."""
    work = workload({"a": 0.0, "b": 0.0}, [("a", "b", 100)])
    plan = planned(work, platform(shared={"in cuda:1": 50.0}), {"a": "cuda:0/s0", "b": "cuda:1/s0"})
    assert predict(plan).makespan_s == 2


def test_own_limits_are_kept():
    """Links of 20 and 100 bytes/s into a port of 100: 20 and 80."""
    here = platform(gpus=3, shared={"in cuda:2": 100.0})
    slow = Link("cuda:0", "cuda:2", "peer", 0.0, 20.0, ("in cuda:2",))
    others = [k for k in here.links if (k.source, k.target) != ("cuda:0", "cuda:2")]
    here = Platform("hand", here.devices, (slow, *others), here.capacities, here.dispatch, here.cores)
    work = workload({"a": 0.0, "b": 0.0, "c": 0.0, "d": 0.0}, [("a", "c", 40), ("b", "d", 160)])
    plan = planned(work, here, {"a": "cuda:0/s0", "b": "cuda:1/s0", "c": "cuda:2/s0", "d": "cuda:2/s0"})
    assert (ends(plan)["a>cuda:2"], ends(plan)["b>cuda:2"]) == (2, 2)


def test_transfers_that_share_nothing_are_left_alone():
    """Two groups with their own timers: what happens in one gives the other neither new rates nor rounding."""
    calls: list[tuple[float, int]] = []
    routes = {i: Route(0.0, 10.0 * (i + 1), 10.0, (i // 2,), False) for i in range(4)}
    network = Network(routes, [10.0, 10.0], lambda time, _, token: calls.append((time, token)))
    for i in range(4):
        network.enter(i, 0.0)
    network.refresh(0.0)
    assert calls == [(2.0, 1), (6.0, 2)]
    assert network.due(1, 2.0) == [0]
    network.refresh(2.0)
    assert calls[2:] == [(3.0, 3)]  # only the group of 0 and 1
    assert network.due(1, 2.0) == []  # an old timer
    assert network.due(3, 3.0) == [1]
    assert network.due(2, 6.0) == [2]
    network.refresh(6.0)
    assert calls[3:] == [(7.0, 4)]


def test_group_splits_when_what_joined_it_ends():
    """0 and 2 share nothing but 1, which crosses both their capacities."""
    calls: list[tuple[float, int]] = []
    routes = {
        0: Route(0.0, 20.0, 10.0, (0,), False),
        1: Route(0.0, 5.0, 10.0, (0, 1), False),
        2: Route(0.0, 30.0, 10.0, (1,), False),
    }
    network = Network(routes, [10.0, 10.0], lambda time, _, token: calls.append((time, token)))
    for i in range(3):
        network.enter(i, 0.0)
    network.refresh(0.0)
    assert calls == [(1.0, 1)]
    assert network.due(1, 1.0) == [1]
    network.refresh(1.0)
    assert calls[1:] == [(2.5, 2), (3.5, 3)]
