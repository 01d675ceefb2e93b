"""Faults of the network between hosts of namespaces: a run is completed or ends with an error; no sum is ever wrong.

Two machines of one worker and a server of its own::

    worker:0 ─┐
              ├─ switch ─── worker:2, the server
    worker:1 ─┘
"""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import graphsched as gs
from experiments.hosts.namespaces import Hosts, made, why_not
from experiments.hosts.network import Network
from tests.executors.distributed.ranks import Ended, on_ranks
from tests.experiments.hosts import jobs

REASON = why_not(Network(2, delay_s=1e-3, loss=0.01))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(REASON is not None, reason=f"no hosts can be made here: {REASON}"),
]
RANKS = (1, 1, 1)
TIMEOUT_S, WITHIN_S = 5.0, 20.0  # of a run, in which ranks have to meet, too, and of a loaded machine beyond that


def train(hosts: Hosts, mbytes: float, steps: int, timeout_s: float, mark: str = "") -> list[Ended]:
    asked = ("train", 2, 1, mbytes, steps, timeout_s, mark)
    return on_ranks(jobs.in_host, len(RANKS), hosts.names, RANKS, *asked, rank_0_keeps_store=True)


def assert_states(ended: list[Ended], mbytes: float, steps: int) -> None:
    """All ranks ended well, and every state is that of a run in one process, to the bit."""
    assert [rank.error for rank in ended] == [""] * len(RANKS), ended
    platform = jobs.hosts_of(RANKS)
    work = jobs.step_on(platform, 2, 1, mbytes)
    with gs.Program(gs.schedule(work, platform, scheduler="one_stream")) as program:
        for _ in range(steps):
            program.run()
        expected = program.state()
    assert ended[0].result.keys() == expected.keys()
    for name, found in ended[0].result.items():
        assert np.array_equal(found, expected[name].numpy()), name


def when(mark: Path, then: list[tuple[float, object]]) -> threading.Thread:
    """Call functions, each after so many seconds, once the file `mark` is there."""

    def act() -> None:
        while not mark.exists():
            time.sleep(0.01)
        for wait_s, call in then:
            time.sleep(wait_s)
            call()  # type: ignore[operator]

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def test_lost_and_late_packets_change_no_sum() -> None:
    with made(Network(3, 1e9, delay_s=5e-3, loss=0.01)) as hosts:
        assert_states(train(hosts, 0.4, 3, 30.0), 0.4, 3)


def test_a_link_that_is_cut_for_a_while_changes_no_sum(tmp_path: Path) -> None:
    """The server is cut off for a second in the middle of a run of 60 steps."""
    mark = tmp_path / "begun"
    with made(Network(3)) as hosts:
        cutting = when(mark, [(0.1, lambda: hosts.cut(2)), (1.0, lambda: hosts.mend(2))])
        ended = train(hosts, 1.0, 60, 30.0, str(mark))
        assert mark.exists(), ended
        cutting.join()
    assert_states(ended, 1.0, 60)


@pytest.mark.parametrize("cut", [0, 2])
def test_a_link_that_stays_cut_ends_all_ranks_within_the_timeout(cut: int, tmp_path: Path) -> None:
    """Of a worker, which keeps the store of all ranks, or of the server, in the middle of messages of 0.16 s and more.

    Every rank says which message it missed, and of whom.
    """
    mark = tmp_path / "begun"
    with made(Network(3)) as hosts:
        cutting = when(mark, [(0.15, lambda: hosts.cut(cut))])
        ended = train(hosts, 20.0, 100, TIMEOUT_S, str(mark))
        assert mark.exists(), ended
        cutting.join()
    for number, rank in enumerate(ended):
        assert rank.error == "RankError", rank
        assert re.match(
            rf"rank {number}: (send|receive) '[^']+' (to|from) rank \d on lane worker:\d>worker:\d", rank.text
        )
        assert re.search(r"rank \d (did not answer in time|is gone)", rank.text), rank.text
        seconds = re.search(r"\(([\d.]+) s\)$", rank.text)
        assert seconds
        assert float(seconds[1]) < TIMEOUT_S + WITHIN_S
