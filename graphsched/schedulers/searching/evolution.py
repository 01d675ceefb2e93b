"""Search for starts on identical processors: list schedules that breed, each packed backwards and forwards."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphsched.schedulers.searching.budget import Budget
from graphsched.schedulers.searching.identical import Identical
from graphsched.schedulers.searching.list_decoding import Decoder, by_task, by_time

POPULATION = 10
FRESH = 0.02
"""Part of the children that have no parents."""
SERIAL = 0.3
"""Part of the schedules made task by task; the others leave no processor idle while a task is ready."""
NOISE = (0.0, 0.02, 0.05, 0.1)
"""Seconds by which keys of a child change at most, as parts of the makespan."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """Starts of all tasks, and the end of the last, in seconds."""

    start_s: list[float]
    makespan_s: float


Found = Callable[[float], None]
"""Is told the makespan of the best schedule so far, again and again."""


def evolve(tasks: Identical, enough_s: float, budget: Budget, seed: int, found: Found) -> Schedule:
    """The best schedule of `tasks` found.

    It begins with critical-path list scheduling. A child takes the order of one parent in an interval of time and that
    of another parent around it, with some noise; then it is packed from the end backwards and from the start forwards
    again, in the order of the ends and starts before. It takes the place of the worst schedule that is no better.
    One iteration is one list schedule.

    Source: J. Alcaraz, C. Maroto: A robust genetic algorithm for resource allocation in project scheduling. Annals of
    Operations Research 102, 2001; V. Valls, F. Ballestín, S. Quintanilla: Justification and RCPSP: a technique that
    pays. European J. of Operational Research 165 (2), 2005.

    Args:
        tasks: What to schedule.
        enough_s: No schedule takes less: where one takes no more, the search ends.
        budget: Iterations and seconds; the first schedule is made in any case.
        seed: Of all choices: with a budget of iterations alone the same seed finds the same.
        found: Called after every child.
    """
    search = _Search(tasks, budget, random.Random(seed))
    while budget.left and search.best.makespan_s > enough_s:
        search.breed()
        found(search.best.makespan_s)
    return search.best


class _Search:
    def __init__(self, tasks: Identical, budget: Budget, choice: random.Random) -> None:
        self._tasks, self._turned = tasks, tasks.backwards()
        self._budget = budget
        self._choice = choice
        self._tails_s = tasks.tails_s()
        self._all: list[Schedule] = []
        self.best = self._made(by_time, [-tail for tail in self._tails_s])

    def breed(self) -> None:
        """Make a child, pack it, and keep it where it is good enough."""
        begin = self._fresh() if len(self._all) < POPULATION or self._choice.random() < FRESH else self._child()
        child = self._packed(begin)
        if child.makespan_s < self.best.makespan_s:
            self.best = child
        if len(self._all) < POPULATION:
            self._all.append(child)
        elif child.makespan_s <= self._all[-1].makespan_s and all(child.start_s != s.start_s for s in self._all):
            self._all[-1] = child
        self._all.sort(key=lambda schedule: schedule.makespan_s)

    def _fresh(self) -> Schedule:
        most = self._choice.uniform(0.02, 0.32) * self.best.makespan_s
        return self._made(by_time, [self._choice.uniform(-most, most) - tail for tail in self._tails_s])

    def _child(self) -> Schedule:
        first, second = sorted(self._choice.sample(range(POPULATION), 2))
        inner, outer = self._all[first], self._all[second]
        begin = self._choice.uniform(0.0, 0.8) * inner.makespan_s
        end = begin + self._choice.uniform(0.2, 0.6) * inner.makespan_s
        keys = [a if begin <= a < end else b for a, b in zip(inner.start_s, outer.start_s, strict=True)]
        most = self._choice.choice(NOISE) * inner.makespan_s
        if most:
            keys = [key + self._choice.uniform(-most, most) for key in keys]
        return self._made(self._decoder(), keys)

    def _packed(self, schedule: Schedule) -> Schedule:
        """`schedule` packed backwards, then forwards; of the two the better one."""
        decoder = self._decoder()
        late = self._made(decoder, _turned(self._tasks, schedule), self._turned)
        keys = _turned(self._turned, late)
        early = self._made(decoder, keys)
        return early if early.makespan_s <= late.makespan_s else self._made(by_task, keys)

    def _decoder(self) -> Decoder:
        return by_task if self._choice.random() < SERIAL else by_time

    def _made(self, decoder: Decoder, keys: Sequence[float], tasks: Identical | None = None) -> Schedule:
        self._budget.spend()
        made = tasks or self._tasks
        start_s = decoder(made, keys)
        return Schedule(start_s, made.makespan_s(start_s))


def _turned(tasks: Identical, schedule: Schedule) -> list[float]:
    """Starts of the same schedule with time running backwards."""
    ends = [start + seconds for start, seconds in zip(schedule.start_s, tasks.seconds, strict=True)]
    return [schedule.makespan_s - end for end in reversed(ends)]
