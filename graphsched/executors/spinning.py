"""Waiting without sleep, and without the interpreter's lock: the C library asks again and again.

A thread that sleeps for a lane's task lets its core go, which takes 0.03 to 0.06 ms to come back, and 0.2 in one of ten
(docs/readings.md). One that asks in Python holds the interpreter's lock while it asks, for which the lane then sleeps.
Some functions of the C library call another one again and again until it says 0, and a call of a library is made
without the lock. `lfind` is one: it looks through an array for what a comparison finds equal. Here all elements are one
and the same, and the comparison is that of a text which another thread makes equal, or the driver's question whether
an event of a GPU is over.

Example:
    >>> done = Done()
    >>> done.spin(tries=100)
    False
    >>> done.set()
    >>> done.spin(), done.is_set()
    (True, True)

Source: lsearch(3), ``lfind``; CUDA driver API, ``cuEventQuery`` and ``cuStreamQuery``, which return 0 for what is over.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import Any, NamedTuple

TRIES = 2**18  # of a byte: about a millisecond, after which the thread looks for failures, signals and the time
ASKED = 2**11  # times that a GPU is asked: about as long
LINE_BYTES = 64  # what a core fetches at once: a byte that is read again and again shares it with nothing


class Question(NamedTuple):
    """What is asked: the function's address and its argument."""

    function: int
    argument: int


class Done(threading.Event):
    """An event that a thread can also wait for without sleeping, for a while.

    Whoever has seen it by `spin` may clear it at once: the byte that is looked at is the last thing that `set` writes.
    Behind `is_set` and `wait` the thread that sets it may still be about to write.
    """

    def __init__(self) -> None:
        super().__init__()
        self._text = (ctypes.c_ubyte * (2 * LINE_BYTES))()  # "" until it is set, then "\1"
        address = ctypes.addressof(self._text)
        self._at = LINE_BYTES - address % LINE_BYTES
        self._address = address + self._at

    def set(self) -> None:
        """It has happened."""
        super().set()
        self._text[self._at] = 1

    def clear(self) -> None:
        """It has not."""
        self._text[self._at] = 0
        super().clear()

    def spin(self, tries: int = TRIES) -> bool:
        """Look so many times, or until it is set; whether it is."""
        if self._text[self._at]:
            return True
        library = _library()
        return library is not None and _ask(library.lfind, Question(library.equal, self._address), tries)


def spins() -> bool:
    """Whether threads of this system can wait so."""
    return _library() is not None


def question_about(work: Any) -> Question | None:
    """How the driver is asked whether an event or a stream of torch is done; None without a driver."""
    driver = _driver()
    if driver is None:
        return None
    return (
        Question(driver[0], work.cuda_event) if hasattr(work, "cuda_event") else Question(driver[1], work.cuda_stream)
    )


def spin_on(question: Question, tries: int = ASKED) -> bool:
    """Ask so many times, or until the answer is 0; whether it was."""
    library = _library()
    assert library is not None
    return _ask(library.lfind, question, tries)


def _ask(lfind: Any, question: Question, tries: int) -> bool:
    number = ctypes.c_size_t(tries)
    return lfind(question.argument, _ONE, ctypes.byref(number), 0, question.function) is not None


class _Library(NamedTuple):
    lfind: Any
    equal: int  # address of strcmp


_one_text = ctypes.create_string_buffer(b"\1")
_ONE = ctypes.addressof(_one_text)


@functools.cache
def _library() -> _Library | None:
    try:
        library = ctypes.CDLL(None)
        lfind, equal = library.lfind, _address_of(library.strcmp)
    except (OSError, AttributeError, TypeError):  # another system
        return None
    lfind.argtypes = (*[ctypes.c_void_p] * 2, ctypes.POINTER(ctypes.c_size_t), ctypes.c_size_t, ctypes.c_void_p)
    lfind.restype = ctypes.c_void_p
    counts = _ask(lfind, Question(equal, _ONE), 1)  # those of BSD and macOS look at nothing where elements have no size
    return _Library(lfind, equal) if counts else None


@functools.cache
def _driver() -> tuple[int, int] | None:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        return _address_of(driver.cuEventQuery), _address_of(driver.cuStreamQuery)
    except (OSError, AttributeError):
        return None


def _address_of(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address
