"""Groups of devices, such as those of one host: sums inside each group, then between their first devices, then back.

Inside a group elements are summed in the order of its members, on its first device; between the first devices in the
order of the algorithm taken there. Every device gets copies of one sum, and with them the same bits. With n bytes a
value, groups of m devices and g groups, the first of a group receives (m-1) n bytes from its group, sends as many, and
has the traffic of that algorithm over g devices between hosts; no other device sends or receives more than n. 2 hops
and those of that algorithm.

Source: d2l.ai 12.7.3; Goyal et al., Accurate, Large Minibatch SGD, 2017, section 4.

Not modelled: more than one device of a group that talks to other groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphsched.collectives.members import Members
from graphsched.collectives.operations import summed
from graphsched.workload import Value

Between = Callable[[Members, Sequence[Value]], list[Value]]


def hierarchical(
    members: Members, values: Sequence[Value], groups: Sequence[Sequence[str]], between: Between, name: str
) -> list[Value]:
    """Sums in `groups` of devices, then by `between`, whose tasks are called `name`, among the first of each."""
    of_device = dict(zip(members.devices, values, strict=True))
    firsts = [group[0] for group in groups]
    totals = [_inside(members, g, [of_device[d] for d in group], group[0]) for g, group in enumerate(groups)]
    if len(groups) > 1:
        totals = between(members.part(name, firsts), totals)
    sums = {device: total for group, total in zip(groups, totals, strict=True) for device in group}
    return [members.send(f"sum/{k}", sums[device], device) for k, device in enumerate(members.devices)]


def _inside(members: Members, g: int, values: Sequence[Value], first: str) -> Value:
    if len(values) == 1:
        return values[0]
    total: Value = members.run(f"add/{g}", first, summed(values))
    return total
