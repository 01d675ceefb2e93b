"""Scripts that end while a thread is at work in torch: with their own exit code, and not by a signal."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from graphsched import hanging

ROOT = Path(__file__).parents[1]
BEGIN = """
import os, signal, sys, threading, time
import torch
from graphsched.errors import ExecutionError
from graphsched.executors import Program
from graphsched.kvstore import Store
from graphsched.workload import TensorSpec, Workload
from tests.executors.programs import WORKERS, by_hand

def loop(a, for_s=60.0):
    end = time.monotonic() + for_s
    while time.monotonic() < end:
        torch.ones(60, 60) @ torch.ones(60, 60)
    print("over", flush=True)
    return a + 0

def program(function, timeout_s):
    work = Workload()
    work.task(function, work.input("x", torch.zeros(4)), name="y", outputs=[TensorSpec((4,))])
    return Program(by_hand(work, WORKERS, "cpu/w0"), timeout_s=timeout_s)
"""
STUCK = """
made = program(loop, 0.5)
try:
    made.run()
except ExecutionError:
    sys.exit(5)
"""
LOST = """
calls = []
made = program(lambda a: calls.append(1) or (loop(a) if len(calls) == 1 else a + 0), 0.5)
try:
    made.run()
except ExecutionError:
    made.run()
    sys.exit(5)
"""
INTERRUPTED = """
made = program(loop, 60.0)
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.5, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()
try:
    made.run()
except KeyboardInterrupt:
    sys.exit(5)
"""
SUBMITTED = """
made = program(lambda a: loop(a, 2.5), 60.0)
made.submit()
sys.exit(5)
"""
DROPPED = """
program(lambda a: loop(a, 2.5), 60.0).submit()
sys.exit(5)
"""
OPEN_STORE = """
def update(stored, aggregate):
    stored.sub_(aggregate)
    if type(aggregate) is torch.Tensor:
        loop(stored)

store = Store(servers=["cpu"], workers=1, update=update, timeout_s=0.5)
for key in "ab":
    store.init(key, torch.zeros(2))
    store.push(key, torch.ones(2), worker=0)
"""
CLOSE = """
try:
    store.close()
except ExecutionError:
    sys.exit(5)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "said"),
    [
        pytest.param(STUCK, "", id="stuck"),
        pytest.param(LOST, "", id="lost"),
        pytest.param(INTERRUPTED, "", id="interrupted"),
        pytest.param(SUBMITTED, "over\n", id="submitted"),
        pytest.param(DROPPED, "over\n", id="dropped"),
        pytest.param(OPEN_STORE + CLOSE, "", id="closed store"),
        pytest.param(OPEN_STORE + "sys.exit(5)", "", id="open store"),
    ],
)
def test_a_script_has_its_own_exit_code(script: str, said: str) -> None:
    """A step that was submitted is waited for; what hangs is not."""
    began = time.monotonic()
    env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        (sys.executable, "-c", BEGIN + script), cwd=ROOT, env=env, capture_output=True, text=True, timeout=120.0
    )
    assert (ended.returncode, ended.stdout) == (5, said), ended.stderr
    assert time.monotonic() - began < 50.0


def test_a_thread_that_ends_its_own_program_does_not_wait_for_itself() -> None:
    """As where the last one that held it was a job of that thread."""
    thread = threading.Thread(target=lambda: hanging.end([thread], 60.0))
    thread.start()
    thread.join(20.0)
    assert not thread.is_alive()
