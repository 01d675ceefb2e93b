"""Work at rates that change."""

from __future__ import annotations

from math import inf

from graphsched.simulator.fluid import Progress, ended


def test_the_end_moves_with_the_rate():
    work = Progress(10.0, now=1.0)
    assert work.end_s == inf
    work.proceed(2.0, 1.0)
    assert work.end_s == 6
    work.proceed(0.0, 4.0)  # 4 left, stands still
    assert work.end_s == inf
    work.proceed(1.0, 9.0)
    assert work.end_s == 13


def test_the_same_rate_again_leaves_the_end_alone_to_the_bit():
    work, touched = Progress(1.0, now=0.0), Progress(1.0, now=0.0)
    work.proceed(0.3, 0.0)
    for k in range(30):
        touched.proceed(0.3, 0.1 * k)
    assert touched.end_s == work.end_s
    assert touched.since_s == 0.0


def test_ends_that_rounding_sets_apart_are_one():
    running = {}
    for action, end in ((7, 1.0), (3, 1.0 + 2e-16), (5, 1.1)):
        running[action] = Progress(end, now=0.0)
        running[action].proceed(1.0, 0.0)
    assert ended(running.items(), 1.0) == [3, 7]
