"""Search for placements on any platform: small changes of place and order, and parts taken out and put back."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphsched.schedulers.searching.budget import Budget
from graphsched.schedulers.searching.fast_clock import FREE, FastClock
from graphsched.schedulers.searching.instance import Instance

WORSE = 0.005
"""Part of the makespan by which a change may make things worse at the beginning of a search; none at its end."""
MEAN = 0.1
"""Weight of the mean end of all tasks beside the makespan, which many changes leave as it is."""
PATIENCE, KICKS = 5, (2, 6)
"""After so many changes a task with no gain so many are made whatever they cost, mostly from the best on."""
FROM_BEST = 0.7
NEAR, MOVED, SHIFTED = 0.2, 0.55, 0.8
"""Shares of the changes (running sums) that move neighbours together, one task elsewhere, one task earlier or later."""
NEIGHBOURS, TAKEN_OUT = 6, 12
"""Tasks moved together, and tasks taken out and put back, at most."""
JOINED = 0.6
"""Part of the moves of neighbours that bring them to where some other neighbour is."""
CRITICAL = 0.7
"""Part of the changes that begin with a task of the critical path."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """Tasks in dispatch order, the place of each, and what comes of it by the fast clock.

    Attributes:
        order: Dispatch order.
        by_start: The same tasks by their starts, from which a walk goes on.
        mean_s: Mean end of all tasks.
        critical: Tasks that the last end hangs on, from there back.
    """

    order: Sequence[int]
    by_start: list[int]
    place: list[int]
    makespan_s: float
    mean_s: float
    critical: Sequence[int]

    @property
    def cost_s(self) -> float:
        """What a walk makes small."""
        return self.makespan_s + MEAN * self.mean_s


Found = Callable[[Candidate], None]
"""Is told the best candidate so far, again and again."""


def candidate(tasks: Instance, order: Sequence[int], place: Sequence[int]) -> Candidate:
    """What the fast clock says of an order and places."""
    clock = FastClock(tasks, order, list(place))
    by_start = tasks.by_start(clock.start_s, order)
    mean_s = sum(clock.end_s) / len(order) if order else 0.0
    return Candidate(order, by_start, clock.place, clock.makespan_s, mean_s, _critical(tasks, by_start, clock))


def improve(
    tasks: Instance, begins: Sequence[Candidate], enough_s: float, budget: Budget, seed: int, found: Found
) -> Candidate:
    """The best candidate on a walk from the best of `begins`, one change after another.

    A change is kept where things become better, or worse by no more than a part that shrinks to nothing as the budget
    is used up. A part taken out is put back task by task, each where it is over first. Where nothing is gained for
    long, the walk goes on a few changes away from the best, or from one of `begins`.

    Source: of the acceptance, G. Dueck, T. Scheuer: Threshold accepting. J. of Computational Physics 90, 1990; of
    taking out and putting back, G. Schrimpf and others: Record breaking optimization results using the ruin and
    recreate principle. J. of Computational Physics 159, 2000; of going on from elsewhere, H. Lourenço, O. Martin,
    T. Stützle: Iterated local search. Handbook of Metaheuristics, 2003.

    Args:
        tasks: The problem.
        begins: Where to begin; one or more.
        enough_s: No placement takes less: where one takes no more, the search ends.
        budget: An iteration is one change.
        seed: Of all choices: with a budget of iterations alone the same seed finds the same.
        found: Called after every change.
    """
    walk = _Walk(tasks, random.Random(seed))
    here = best = min(begins, key=lambda begin: begin.makespan_s)
    vain = 0
    while budget.left and best.makespan_s > enough_s:
        there = walk.changed(here)
        budget.spend()
        slack_s = WORSE * best.makespan_s * (1.0 - budget.used) * walk.choice.random()
        vain = 0 if there.cost_s < here.cost_s else vain + 1
        if there.cost_s <= here.cost_s + slack_s:
            here = there
        if here.makespan_s < best.makespan_s:
            best = here
        if vain > PATIENCE * len(tasks):
            here, vain = walk.kicked(best if walk.choice.random() < FROM_BEST else walk.choice.choice(begins)), 0
            budget.spend(KICKS[1])
        found(best)
    return best


class _Walk:
    def __init__(self, tasks: Instance, choice: random.Random) -> None:
        self.choice = choice
        self._tasks = tasks
        self._group_of = {i: group for group in tasks.groups for i in group}
        self._movable = [i for i in tasks.runs if len(tasks.choices[i]) > 1]
        self._loose = {i for i in self._movable if i not in tasks.anchors and i not in self._group_of}

    def changed(self, here: Candidate) -> Candidate:
        """A neighbour of `here`."""
        kind = self.choice.random()
        if kind < NEAR and self._movable:
            return self._joined(here)
        if kind < MOVED and self._movable:
            return self._moved(here)
        if kind < SHIFTED or not self._loose:
            return self._shifted(here)
        return self._recreated(here)

    def kicked(self, here: Candidate) -> Candidate:
        """What a few changes make of `here`."""
        for _ in range(self.choice.randint(*KICKS)):
            here = self.changed(here)
        return here

    def _joined(self, here: Candidate) -> Candidate:
        """Tasks that hang together on one place, perhaps that of a neighbour."""
        tasks, place = self._tasks, here.place.copy()
        first = self._one(here, self._movable)
        together = self._neighbours(first)
        around = [place[j] for i in together for j in (*tasks.before[i], *tasks.after[i]) if place[j] != FREE]
        to = self.choice.choice(around if around and self.choice.random() < JOINED else tasks.choices[first])
        for i in together:
            if to in tasks.choices[i]:
                self._put(place, i, to)
        return candidate(tasks, here.by_start, place)

    def _neighbours(self, first: int) -> list[int]:
        """Some tasks that run, joined to `first` by dependencies."""
        tasks, found = self._tasks, [first]
        for _ in range(self.choice.randint(1, NEIGHBOURS - 1)):
            near = self.choice.choice(found)
            more = [j for j in (*tasks.before[near], *tasks.after[near]) if j not in found and tasks.kinds[j] == "run"]
            found += [self.choice.choice(more)] if more else []
        return found

    def _put(self, place: list[int], i: int, to: int) -> None:
        for j in self._group_of.get(i, (i,)):
            place[j] = to

    def _one(self, here: Candidate, among: Sequence[int]) -> int:
        if here.critical and self.choice.random() < CRITICAL:
            i = self.choice.choice(here.critical)
            if among is not self._movable or len(self._tasks.choices[i]) > 1:
                return i
        return self.choice.choice(among)

    def _moved(self, here: Candidate) -> Candidate:
        i = self._one(here, self._movable)
        place = here.place.copy()
        to = self.choice.choice([k for k in self._tasks.choices[i] if k != place[i]])
        self._put(place, i, to)
        return candidate(self._tasks, here.by_start, place)

    def _shifted(self, here: Candidate) -> Candidate:
        i = self._one(here, here.by_start)
        order = here.by_start.copy()
        at = order.index(i)
        low, high = self._window(order, i, at)
        to = self.choice.randint(low, high)
        order.insert(to, order.pop(at))
        return candidate(self._tasks, order, here.place)

    def _window(self, order: Sequence[int], i: int, at: int) -> tuple[int, int]:
        """First and last place in the order that task `i`, now at `at`, may have."""
        before, after = set(self._tasks.before[i]), set(self._tasks.after[i])
        low = at
        while low > 0 and order[low - 1] not in before:
            low -= 1
        high = at
        while high + 1 < len(order) and order[high + 1] not in after:
            high += 1
        return low, high

    def _recreated(self, here: Candidate) -> Candidate:
        """Some tasks near each other in the order go where each is over first."""
        at = here.by_start.index(self._one(here, here.by_start))
        near = here.by_start[max(0, at - TAKEN_OUT) : at + TAKEN_OUT + 1]
        count = self.choice.randint(2, TAKEN_OUT)
        place = here.place.copy()
        for i in self.choice.sample(near, min(count, len(near))):
            if i in self._loose:
                place[i] = FREE
        return candidate(self._tasks, here.by_start, place)


def _critical(tasks: Instance, by_start: Sequence[int], clock: FastClock) -> list[int]:
    """Tasks from the last end back: each the one before on its place, where that held it up, else the last it needs."""
    if not by_start:
        return []
    before_on_place: dict[int, int] = {}
    last: dict[int, int] = {}
    for i in by_start:
        place = clock.place[i]
        if place != FREE:
            if place in last:
                before_on_place[i] = last[place]
            last[place] = i
    chain: list[int] = []
    held: int | None = max(by_start, key=clock.end_s.__getitem__)
    while held is not None:
        chain.append(held)
        before = before_on_place.get(held)
        if before is None or clock.end_s[before] < clock.start_s[held]:
            before = max(tasks.before[held], key=clock.end_s.__getitem__, default=None)
        held = before
    return chain
