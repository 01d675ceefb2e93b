"""Blocks of kernels on the multiprocessors of a GPU: which fit where.

A block goes to a multiprocessor that has registers, threads, shared memory and a place for it; of those the
ones with the most room for such blocks come first, then those with the lower number.

Multiprocessors with the same room are counted together. A set of them is an integer, bit s for number s; what
is free on each is an integer too, one field for each resource, so that blocks come and go by one subtraction.

Not modelled: clusters of blocks; a multiprocessor that must be empty before its shared memory is divided
anew; multiprocessors that a driver keeps for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphsched.costs import Kernel, Multiprocessors
from graphsched.costs.kernels import RELIEF

MOST_WAVES = 32
"""A kernel of more waves is simulated as one of so many, each longer."""

MOST_KNOWN = 10_000  # rooms of a multiprocessor that are remembered, for each shape

Placed = tuple[int, int]
"""Multiprocessors, bit s for number s, and how many blocks each of them has got."""


@dataclass(frozen=True, eq=False)
class Shape:
    """A kernel as it is placed.

    Attributes:
        blocks: Blocks to place.
        need: Registers, threads, shared bytes and places that one takes.
        resident: Blocks in flight at once when it is alone.
        share: Its part of the operation's time.
        relief: Time of a block with next to none of the others in flight, over its time with all of them there.
    """

    blocks: int
    need: tuple[int, ...]
    resident: int
    share: float
    relief: float = RELIEF

    @property
    def waves(self) -> float:
        """Time alone over the time of one wave; a wave of few blocks takes its part of that, at least `relief`.

        Example:
            >>> Shape(25, (), 10, 1.0).waves, Shape(21, (), 10, 1.0, relief=0.2).waves
            (2.5, 2.2)
        """
        whole, rest = divmod(self.blocks, self.resident)
        return whole + (max(self.relief, rest / self.resident) if rest else 0.0)


def shape_of(kernel: Kernel, processors: Multiprocessors) -> Shape:
    """The shape of `kernel` on a device; one that asks for more than there is gets all there is.

    Example:
        >>> shape = shape_of(Kernel(100, 32768, 128, 0), Multiprocessors(4, 65536, 2048, 233472, 32))
        >>> shape.blocks, shape.resident
        (100, 8)
    """
    need, most = _need(kernel, processors), held(kernel, processors) * processors.count
    blocks = min(kernel.blocks, MOST_WAVES * most)
    return Shape(blocks, need, min(kernel.blocks, most), kernel.share, kernel.relief)


def held(kernel: Kernel, processors: Multiprocessors) -> int:
    """Blocks of `kernel` that one multiprocessor has room for, at least 1.

    Example:
        >>> held(Kernel(100, 32768, 128, 0), Multiprocessors(4, 65536, 2048, 233472, 32))
        2
    """
    return _fit(_room(processors), _need(kernel, processors))


def _need(kernel: Kernel, processors: Multiprocessors) -> tuple[int, ...]:
    wanted = (kernel.registers, kernel.threads, kernel.shared_bytes, 1)
    return tuple(min(pair) for pair in zip(wanted, _room(processors), strict=True))


def _room(processors: Multiprocessors) -> tuple[int, ...]:
    return processors.registers, processors.threads, processors.shared_bytes, processors.blocks


def _fit(room: Sequence[int], need: Sequence[int]) -> int:
    """How many blocks there is room for."""
    return min(free // takes for free, takes in zip(room, need, strict=True) if takes)


class Floor:
    """The multiprocessors of one device, and what is free on each.

    Example:
        >>> processors = Multiprocessors(4, 65536, 2048, 233472, 32)
        >>> shape = shape_of(Kernel(100, 32768, 128, 0), processors)
        >>> floor = Floor(processors)
        >>> placed, blocks = floor.place(shape, 3)
        >>> [(f"{sms:04b}", each) for sms, each in placed], blocks  # one block on numbers 0, 1 and 2
        ([('0111', 1)], 3)
        >>> placed, blocks = floor.place(shape, 100)
        >>> [(f"{sms:04b}", each) for sms, each in placed], blocks
        ([('1000', 2), ('0111', 1)], 5)
        >>> floor.place(shape, 1)
        ([], 0)
    """

    def __init__(self, processors: Multiprocessors) -> None:
        room = _room(processors)
        self._width = max(room).bit_length()
        self._free = {
            _packed(room, self._width): (1 << processors.count) - 1
        }  # multiprocessors by what is free on them
        self._fits: dict[Shape, _Fits] = {}

    def place(self, shape: Shape, blocks: int) -> tuple[list[Placed], int]:
        """Place up to `blocks` blocks; how many on which multiprocessors, and how many in all."""
        fits = self._fits.get(shape)
        if fits is None or len(fits) > MOST_KNOWN:
            fits = self._fits[shape] = _Fits(shape.need, self._width)
        rooms = [(free, sms, fit) for free, sms in self._free.items() if (fit := fits[free])]
        total = sum([sms.bit_count() * fit for _, sms, fit in rooms])
        if total > blocks:
            rooms = _spread(rooms, blocks)
        for free, sms, each in rooms:
            self._move(free, sms, -each * fits.need)
        return [(sms, each) for _, sms, each in rooms], min(total, blocks)

    def clear(self, shape: Shape, placed: Iterable[Placed]) -> None:
        """Take away what `place` has placed."""
        need = self._fits[shape].need
        for sms, each in placed:
            left = sms
            for free, those in [*self._free.items()]:
                common = those & left
                if common:
                    self._move(free, common, each * need)
                    left ^= common
                    if not left:
                        break

    def _move(self, free: int, sms: int, more: int) -> None:
        """On `sms`, of those where `free` is free, so much more is."""
        of = self._free
        rest = of[free] ^ sms
        if rest:
            of[free] = rest
        else:
            del of[free]
        free += more
        of[free] = of.get(free, 0) | sms


class _Fits(dict[int, int]):
    """How many blocks of one shape fit, by what is free."""

    def __init__(self, need: Sequence[int], width: int) -> None:
        self.need = _packed(need, width)
        self._mask = (1 << width) - 1
        self._takes = [(k * width, takes) for k, takes in enumerate(need) if takes]

    def __missing__(self, free: int) -> int:
        mask = self._mask
        fit = self[free] = min([(free >> shift & mask) // takes for shift, takes in self._takes])
        return fit


def _packed(amounts: Sequence[int], width: int) -> int:
    return sum(amount << k * width for k, amount in enumerate(amounts))


def _spread(rooms: Sequence[tuple[int, int, int]], blocks: int) -> list[tuple[int, int, int]]:
    """Fewer blocks than there is room for: down to the same room everywhere, the last few by number.

    Args:
        rooms: What is free, on which multiprocessors, and how many blocks fit on each of them.
    """
    level, left, number = max(fit for _, _, fit in rooms), blocks, 0
    while True:
        number = sum(sms.bit_count() for _, sms, fit in rooms if fit >= level)
        if number > left:
            break
        left -= number
        level -= 1
    last = _lowest(sum(sms for _, sms, fit in rooms if fit >= level), left)
    found = []
    for free, sms, fit in rooms:
        if fit >= level and sms & last:
            found.append((free, sms & last, fit - level + 1))
        if fit > level and sms & ~last:
            found.append((free, sms & ~last, fit - level))
    return found


def _lowest(sms: int, count: int) -> int:
    """The `count` of `sms` with the lowest numbers.

    Example:
        >>> f"{_lowest(0b110101, 3):06b}"
        '010101'
    """
    low, high = 0, sms.bit_length()
    while low < high:
        middle = (low + high) // 2
        if (sms & (1 << middle) - 1).bit_count() < count:
            low = middle + 1
        else:
            high = middle
    return sms & (1 << low) - 1
