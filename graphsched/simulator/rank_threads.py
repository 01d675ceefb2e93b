"""The dispatching threads of the ranks of a distributed plan: each issues the actions that begin on its rank.

A wait of all ranks is every thread's: each goes on when all that it waits for is over. A message that streams carry is
issued by both of its ranks, a collective by all of its own: it may start when the last one has, and the first of a run
takes each thread longer (`Dispatch.first_message_s`). So is a copy from a host into another rank's GPU: the host's rank
hands it over, and the GPU's waits for it. Another copy between two ranks is issued by that of its source.

Not modelled: that a message begins before its call is over; what the messages of a wait between ranks take, and their
signals; issuing a receive into host memory; a receiver of one that is late; launch queues that are full. A transfer
between ranks takes what the platform's link says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container

from graphsched.plan import Plan
from graphsched.plan.ranks import find_places
from graphsched.plan.ranks.places import EVERYWHERE, Places
from graphsched.simulator.columns import Columns, Half
from graphsched.simulator.dispatch import Thread
from graphsched.simulator.lane_costs import WAIT
from graphsched.simulator.launch_queue import UNKNOWN, LaunchQueue
from graphsched.timeline import Interval


def orders_of(plan: Plan) -> list[list[int]]:
    """The actions that each rank's thread issues, in order.

    Example:
        >>> from graphsched.plan import Placement, build_plan
        >>> from graphsched.platform import Platform
        >>> from graphsched.workload import TensorSpec, Workload
        >>> work, tasks = Workload(), {}
        >>> for k in range(2):
        ...     tasks[work.task(abs, name=f"y{k}", outputs=[TensorSpec((2,))]).name] = f"cuda:{k}/s0"
        >>> placement = Placement([*tasks], tasks, wait_after={"y1"})
        >>> orders_of(build_plan(work, Platform.load("h200-x2"), None, placement, scheduler="by hand"))
        [[0, 2], [1, 2]]
    """
    places = find_places(plan)
    return _orders(places, {**_messages(plan, places), **_handed(plan, places)})


def fill_ranks(columns: Columns, plan: Plan) -> None:
    """What each rank's thread issues, and what it takes for its part of messages on streams.

    That is in place of what a copy or collective takes the thread of one process.
    """
    places = find_places(plan)
    columns.messages, columns.handed = _messages(plan, places), _handed(plan, places)
    columns.orders = _orders(places, {**columns.messages, **columns.handed})
    columns.halves = {half: Half(0.0, 0.0, columns.dispatch.handoff_s, 0.0) for half in columns.handed.items()}
    for i in columns.messages if columns.dispatch.message_s else ():
        columns.call_s[i] = columns.dispatch.message_s
        columns.company.pop(i, None)


def _orders(places: Places, by_both: Container[int]) -> list[list[int]]:
    """By rank what it issues; of `by_both` both ranks do."""
    orders: list[list[int]] = [[] for _ in range(places.needed)]
    for i, ends in enumerate(places.ends):
        ranks = range(len(orders)) if ends[0] == EVERYWHERE else ends if i in by_both else ends[:1]
        for mine in dict.fromkeys(places.members.get(i, ranks)):
            orders[mine].append(i)
    return orders


def _messages(plan: Plan, places: Places) -> dict[int, int]:
    """Actions between the GPUs of two ranks, or of more, with the rank that each begins on."""
    gpus = {name for name in places.rank_of if plan.platform.device(name).kind == "cuda"}
    copies = [i for i in _between(plan, places) if gpus >= {plan.copies[i].source, plan.copies[i].target}]
    collectives = [i for i in places.members if plan.lanes[plan.lane_of[i]].device in gpus]
    return {i: places.ends[i][0] for i in (*copies, *collectives)}


def _handed(plan: Plan, places: Places) -> dict[int, int]:
    """Copies from a host into another rank's GPU, with the rank that each begins on."""
    kind = {name: plan.platform.device(name).kind for name in places.rank_of}
    copies = [i for i in _between(plan, places) if kind[plan.copies[i].target] == "cuda" != kind[plan.copies[i].source]]
    return {i: places.ends[i][0] for i in copies}


def _between(plan: Plan, places: Places) -> list[int]:
    """Copies between two ranks."""
    return [i for i in plan.copies if places.ends[i][0] != places.ends[i][1]]


class _OneRank(Thread):
    """The thread of one rank, with the columns of them all."""

    def __init__(
        self,
        columns: Columns,
        end_s: list[float],
        place: Callable[[int], None],
        timed: bool,
        rank: int,
        whole: RankThreads,
    ) -> None:
        super().__init__(columns, end_s, place, timed)
        self.issue_start_s, self.issue_end_s, self.halves_s = whole.issue_start_s, whole.issue_end_s, whole.halves_s
        self.ready_s, self.floor_s, self.queue_of = whole.ready_s, whole.floor_s, whole.queue_of
        order = columns.orders[rank]
        self._rank, self._order, self._at = rank, order, 0
        self._first_s = columns.dispatch.first_message_s
        self._take_halves()
        self._received = {
            i for begun in (columns.messages, columns.handed) for i, source in begun.items() if source != rank
        }

    def _take_halves(self) -> None:
        """Put what halves take this rank where it reads what its actions take."""
        columns = tuple(list(column) for column in (self._own_s, self._before_s, self._call_s, self._after_s))
        self._own_s, self._before_s, self._call_s, self._after_s = columns
        for (i, rank), half in self._columns.halves.items():
            for column, seconds in zip(columns, half, strict=True) if rank == self._rank else ():
                column[i] = seconds

    @property
    def done(self) -> bool:
        """Whether it has issued everything of its rank."""
        return self._at == len(self._order) and not self._held

    @property
    def moves(self) -> bool:
        """Whether it has not begun, or knows the end now that it must know to go on."""
        return not self.done and (self.needs < 0 or self._end_s[self.needs] >= 0.0)

    def advance(self, now: float) -> None:
        """Issue what can be issued."""
        self._now, self.needs = now, -1
        if self._held and not self._release():
            return
        issue = (self._launch, self._hand_over, self._wait, self._replay)
        while self._at < len(self._order):
            i = self._order[self._at]
            if i in self._columns.messages and self._first_s:
                self.cold_s, self._first_s = self.cold_s + self._first_s, 0.0
            issued = self.issue_start_s[i], self.issue_end_s[i]
            hands_over = i in self._columns.handed and i not in self._received
            if not (self._hand_on(i) if hands_over else issue[self._how[i]](i)):
                return
            if i in self._received:
                self.halves_s[i, self._rank] = self.issue_start_s[i], self.issue_end_s[i]
                self.issue_start_s[i], self.issue_end_s[i] = issued
            self._place(i)
            if self._how[i] == WAIT and self._rank:  # timelines have rank 0's
                self.issue_start_s[i], self.issue_end_s[i] = issued
            self._at, self._next = self._at + 1, i + 1
            if self._held and not self._release():
                return

    def _hand_on(self, i: int) -> bool:
        """Give a copy into another rank's GPU to a worker thread, which sends it."""
        self.issue_start_s[i] = self.time
        self.time += self._own_s[i] + self._before_s[i] + self._call_s[i] + self._after_s[i]
        self.issue_end_s[i] = self.ready_s[i] = self.time
        return True

    def _record(self, i: int) -> None:
        issued_s = self.issue_end_s[i]
        super()._record(i)
        half = i, self._rank
        if half in self.halves_s:  # it was held up, and the source's issue stands there again
            self.halves_s[half] = self.halves_s[half][0], self.time
            self.issue_end_s[i] = issued_s


class RankThreads:
    """All threads, to the engine as one; see `dispatch.Thread`."""

    full: LaunchQueue | None = None

    def __init__(
        self,
        columns: Columns,
        end_s: list[float],
        place: Callable[[int], None],
        settle: Callable[[int], None],
        timed: bool,
    ) -> None:
        """`settle` is the engine's entry for an action whose end is known, for those placed before it."""
        n = len(columns)
        self.issue_start_s, self.issue_end_s, self.ready_s = [0.0] * n, [0.0] * n, [0.0] * n
        self.halves_s: dict[tuple[int, int], Interval] = {}
        self.floor_s: dict[int, float] = {}
        self.queue_of: list[LaunchQueue | None] = [None] * len(columns.lanes.kind)
        self._end_s = end_s
        self._engine_place, self._settle = place, settle
        ranks = Counter(i for order in columns.orders for i in order)
        self._to_come = {i: ranks[i] for i in (*columns.messages, *columns.handed, *columns.more_lanes)}
        self._ready_s: dict[int, float] = {}
        self._threads = [_OneRank(columns, end_s, self._place, timed, k, self) for k in range(len(columns.orders))]

    def _place(self, i: int) -> None:
        if i in self._to_come:
            self._to_come[i] -= 1
            self.ready_s[i] = self._ready_s[i] = max(self.ready_s[i], self._ready_s.get(i, 0.0))
            if self._to_come[i]:
                return
        self._engine_place(i)
        if self._end_s[i] >= 0.0:
            self._settle(i)

    @property
    def time(self) -> float:
        """The end of what they have issued."""
        return max(thread.time for thread in self._threads)

    @property
    def done(self) -> bool:
        """Whether they have issued everything."""
        return all(thread.done for thread in self._threads)

    @property
    def needs(self) -> int:
        """An action whose end one of them must know to go on, if possible one that is known; or -1."""
        waiting = [thread.needs for thread in self._threads if not thread.done and thread.needs >= 0]
        return next((i for i in waiting if self._end_s[i] != UNKNOWN), waiting[0] if waiting else -1)

    def advance(self, now: float) -> None:
        """Let all go on as far as they can: one may wait for what another has just issued."""
        while movable := [thread for thread in self._threads if thread.moves]:
            for thread in movable:
                thread.advance(now)
