"""Copies of a plan put into columns: their times, what blocks the thread, routes of those that share capacities."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from graphsched.plan import Copy, Plan
from graphsched.plan.segments import blocks
from graphsched.platform import CapacityTable, Link
from graphsched.simulator.columns import BLOCKS, NETWORK, CallCompany, Columns
from graphsched.simulator.copy_engines import engines_of, rooms
from graphsched.simulator.durations import Durations
from graphsched.simulator.graph_mode import copy_shift_s
from graphsched.simulator.host_calls import copy_call_s, copy_company_s
from graphsched.simulator.lane_costs import CPU
from graphsched.simulator.model import Model
from graphsched.simulator.network import Route, tables_of
from graphsched.simulator.written_copies import Written


class _Way(NamedTuple):
    """What copies from one device to another by one kind of memory have in common.

    Attributes:
        crosses: Numbers of the capacities.
        shared: Other lanes' transfers change its rate.
        shift_s: What a copy takes longer in a CUDA graph, or as a job of a CPU lane.
        call_s, company_s: Host time of its call, and what that takes longer after calls of many other kinds.
        flags: `BLOCKS` or 0.
    """

    link: Link
    crosses: tuple[int, ...]
    shared: bool
    on_cores: bool
    shift_s: float
    call_s: float
    company_s: float
    flags: int


def fill_copies(columns: Columns, durations: Durations, plan: Plan, model: Model) -> None:
    """Times and blocking of copies; routes for those whose capacities other lanes use too."""
    crossed = _fill_capacities(columns, durations, plan, model)
    longer_s = _longer_s(durations, plan, columns.dispatch.fetch_s) if model.written else {}
    columns.to_host = _beside_written(durations, plan, longer_s)
    ways: dict[tuple[str, str, str, bool], _Way] = {}
    alone_s: dict[Route, float] = {}
    for i, copy in plan.copies.items():
        on_cpu = columns.kind[i] == CPU
        key = (copy.source, copy.target, copy.memory, on_cpu)
        if key not in ways:
            link = durations.link(copy)
            ways[key] = _way(columns, link, copy, plan, crossed, blocking=model.blocking, on_cpu=on_cpu)
        way = ways[key]
        route = durations.route(copy, way.crosses, way.on_cores)
        shift_s = max(way.shift_s, -route.latency_s)
        if shift_s:
            route = route._replace(latency_s=route.latency_s + shift_s)
        columns.call_s[i] = way.call_s
        if way.company_s:
            columns.company[i] = CallCompany(way.company_s)
        columns.flags[i] |= way.flags
        if not model.contention:
            columns.work_s[i] = way.link.duration_s(copy.read.value.nbytes) + shift_s
            route = route._replace(crosses=())
        else:
            if route not in alone_s:
                alone_s[route] = route.alone_s(columns.capacities)
            columns.work_s[i] = alone_s[route]
        if i in longer_s and (route.nbytes or route.latency_s):
            route = route if route.nbytes else _all_flow(route, copy.read.value.nbytes)
            columns.written[i] = _written(i, longer_s[i] * route.limit / route.nbytes, way.link, plan)
        felt = (columns.pressures, columns.slowed, columns.written, columns.to_host)
        if way.shared or i in columns.engine_of or any(i in copies for copies in felt):
            columns.resource[i] = NETWORK
        if columns.resource[i] == NETWORK or (on_cpu and model.contention):
            columns.routes[i] = route


def _longer_s(durations: Durations, plan: Plan, fetch_s: float) -> dict[int, float]:
    """By copy of what a CPU lane has just written, seconds that it takes longer while cores rest."""
    found = {i: durations.written_longer_s(copy, fetch_s) for i, copy in plan.copies.items()}
    return {i: longer_s for i, longer_s in found.items() if longer_s and plan.copies[i].read.value.nbytes}


def _beside_written(durations: Durations, plan: Plan, written: Collection[int]) -> frozenset[int]:
    """Copies into the host's pinned memory, if one of those that are `written` slows such."""
    if not any(durations.link(plan.copies[i]).written_back for i in written):
        return frozenset()
    links = {i: durations.link(copy) for i, copy in plan.copies.items()}
    out = (i for i, link in links.items() if link.memory == "pinned" and link.source != link.target)
    return frozenset(i for i in out if plan.platform.device(links[i].source).is_accelerator)


def _written(i: int, longer: float, link: Link, plan: Plan) -> Written:
    """Copy `i`, over `link`, whose bytes take so much longer while cores rest."""
    read = plan.copies[i].read
    busy = link.written_busy, link.busy_fades_s, link.written_back
    return Written(longer, link.fades_s, i - plan.index_of[str(read.source)], str(read), *busy)


def _all_flow(route: Route, nbytes: int) -> Route:
    """`route`, of latency alone, as a flow of so many bytes that takes as long."""
    return route._replace(latency_s=0.0, nbytes=float(nbytes), limit=nbytes / route.latency_s)


class _Crossed(NamedTuple):
    """Capacities that copies cross: their numbers by name, and those where lanes change each other's rates."""

    numbers: dict[str, int]
    crowded: frozenset[str]


def _fill_capacities(columns: Columns, durations: Durations, plan: Plan, model: Model) -> _Crossed:
    """Fill the capacities that copies cross, and the engines that make them."""
    users = _users(columns, durations, plan)
    numbers = {name: k for k, name in enumerate(users)}
    tables = plan.platform.tables if model.load else {}
    columns.capacities = [plan.platform.capacities[name] for name in users]
    columns.tables = tables_of(tables, numbers)
    if model.contention and model.engines:
        columns.engine_of = engines_of(plan, lambda copy: durations.link(copy).memory)
        columns.engines = rooms(plan, columns.engine_of)
    near = _lanes_near(users, tables) if model.contention else {}
    return _Crossed(numbers, frozenset(name for name, lanes in near.items() if len(lanes) > 1))


def _way(
    columns: Columns, link: Link, copy: Copy, plan: Plan, crossed: _Crossed, *, blocking: bool, on_cpu: bool
) -> _Way:
    """What copies like `copy` have in common, `blocking` where they may block the thread."""
    dispatch, shift_s = columns.dispatch, 0.0
    if on_cpu:
        shift_s = columns.job_s
    elif not blocks(plan, copy):
        shift_s = copy_shift_s(copy, link, plan)
    return _Way(
        link,
        crosses=tuple(crossed.numbers[name] for name in link.crosses),
        shared=not crossed.crowded.isdisjoint(link.crosses),
        on_cores=on_cpu and link.memory != "network",
        shift_s=shift_s,
        call_s=dispatch.handoff_s if on_cpu else copy_call_s(copy, plan, dispatch),
        company_s=copy_company_s(copy, plan, dispatch),
        flags=BLOCKS if link.blocking and blocking and not on_cpu else 0,
    )


def _users(columns: Columns, durations: Durations, plan: Plan) -> dict[str, set[int]]:
    """Lanes whose copies cross each capacity."""
    users: dict[str, set[int]] = {}
    for i, copy in plan.copies.items():
        for name in durations.link(copy).crosses:
            users.setdefault(name, set()).add(columns.lane[i])
    return users


def _lanes_near(users: dict[str, set[int]], tables: Mapping[str, CapacityTable]) -> dict[str, set[int]]:
    """Lanes whose transfers change the rate of each capacity: those that cross it, and those its table counts."""
    near = {name: set(lanes) for name, lanes in users.items()}
    for name, table in tables.items():
        for other in table.by:
            if name in near and other in users:
                near[name] |= users[other]
    return near
