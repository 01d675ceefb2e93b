"""Measured halves of messages and collectives: what each rank's thread took for its own, see `rank_threads`.

A message begins after the half that was called last. A half of which a timeline does not tell is taken as modelled,
right behind what its thread did before.
"""

from __future__ import annotations

from collections.abc import Callable

from graphsched.simulator.columns import BLOCKS, Columns, Half
from graphsched.timeline import Interval, Timeline


class HalfReadings:
    """What the measured spans say of each half.

    Attributes:
        halves: By action and rank, the thread's time.
        pause_s: Likewise, its time before that beyond the model's, after it was held up.
        called_s: By action, when the calls of the last half began.
    """

    def __init__(self, columns: Columns, measured: Timeline) -> None:
        self.halves: dict[tuple[int, int], Half] = {}
        self.pause_s: dict[tuple[int, int], float] = {}
        self.called_s: dict[int, float] = {}
        self._columns, self._measured = columns, measured
        self._begins = {**columns.messages, **columns.handed}

    def __contains__(self, i: int) -> bool:
        return i in self._begins

    def hands_on(self, i: int, rank: int) -> bool:
        """Whether `rank` has a worker thread send action `i`."""
        return self._columns.handed.get(i) == rank

    def begun_s(self, i: int, rank: int, time: float) -> float:
        """When the thread of `rank` began its half, if that is known, else `time`."""
        known = self._issue(i, rank)
        return known[0] if known else time

    def delay_after(self, half: tuple[int, int], seconds: float) -> None:
        """The thread took so much longer after a half."""
        self.halves[half] = self.halves[half]._replace(after_s=self.halves[half].after_s + seconds)

    def read_handed(self, i: int, rank: int, time: float) -> float:
        """Read a half that a worker thread sends, the thread free at `time`; when it was free again."""
        issued_s = float(self._measured.issue_end_s[i])
        self.halves[i, rank] = Half(0.0, 0.0, issued_s - time, 0.0)
        self._called(i, issued_s - self._columns.dispatch.launch_s)
        return issued_s

    def read(self, i: int, rank: int, time: float, lead_s: float, results_s: Callable[[int, float], float]) -> float:
        """Read a half on a stream, the thread free at `time`; when it was free again.

        Args:
            i, rank: Which.
            time: End of what the thread did before.
            lead_s: What the model has before its calls besides its own time.
            results_s: When results of CPU lanes that an action needs had been there, from a time on.
        """
        c, known = self._columns, self._issue(i, rank)
        model, timed_s = c.half(i, rank), c.dispatch.timed_record_s
        free_s = (known[0] if known else time) + model.own_s + lead_s
        there_s = results_s(i, free_s)
        called_s = there_s + model.before_s + timed_s
        end_s, blocks = float(self._measured.end_s[i]), c.flags[i] & BLOCKS
        late_s = float(self._measured.start_s[i]) - c.dispatch.launch_s - called_s if there_s <= free_s else 0.0
        modelled_s = called_s + model.call_s + timed_s + model.after_s
        issued_s = known[1] if known else max(time, min(modelled_s, end_s))
        before_s = min(late_s, 0.0 if blocks else max(0.0, issued_s - modelled_s))
        over_s = called_s + before_s + model.call_s
        over_s = max(over_s, end_s) if blocks else over_s
        own_s = model.own_s + before_s + (known[0] - time if known else 0.0)
        self.halves[i, rank] = model._replace(own_s=own_s, after_s=issued_s - over_s - timed_s)
        self._called(i, called_s + before_s)
        return issued_s

    def _issue(self, i: int, rank: int) -> Interval | None:
        if self._begins[i] == rank:
            return float(self._measured.issue_start_s[i]), float(self._measured.issue_end_s[i])
        return self._measured.halves_s.get((i, rank))

    def _called(self, i: int, at_s: float) -> None:
        self.called_s[i] = max(at_s, self.called_s.get(i, at_s))
