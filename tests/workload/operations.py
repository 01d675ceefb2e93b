"""Operations that tests name, hash and run; a module of its own, so that another process finds them again."""

from __future__ import annotations

from collections.abc import Callable

import torch

FACTOR = 3.0
COLOURS = {"red", "green", "blue", "cyan", "magenta", "yellow", "black"}


def scaled(x: torch.Tensor) -> torch.Tensor:
    """Depends on a constant of the module."""
    return x * FACTOR


def through_helper(xs: list[torch.Tensor]) -> torch.Tensor:
    """Depends on it through a helper, inside a comprehension."""
    return torch.stack([scaled(x) for x in xs])


def member(x: torch.Tensor, colour: str = "red") -> torch.Tensor:
    """Holds a set of strings among its constants: its order depends on the process."""
    return x if colour in {"red", "green", "blue", "cyan", "magenta", "yellow", "black"} else -x


def in_global_set(x: torch.Tensor) -> torch.Tensor:
    """Names a set of strings of the module."""
    return x if "red" in COLOURS else -x


def recursive(x: torch.Tensor, n: int = 3) -> torch.Tensor:
    """Names itself."""
    return recursive(x + 1, n - 1) if n else x


def typed(x: torch.Tensor) -> bool:
    """Names a class that has attributes of the names of a tensor's."""
    return isinstance(x, Tensor)


Tensor = torch.Tensor


def times(k: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """A closure over a number."""
    return lambda x: x * k


def times_deep(k: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """A closure over a closure over a number."""
    inner = times(k)

    def outer(x: torch.Tensor) -> torch.Tensor:
        return inner(x)

    return outer


class SlottedScale:
    """A callable object whose attribute is in a slot."""

    __slots__ = ("__k",)

    def __init__(self, k: float) -> None:
        self.__k = k

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Scale."""
        return x * self.__k

    def method(self, x: torch.Tensor) -> torch.Tensor:
        """Scale as well."""
        return x * self.__k


class Scale:
    """A callable object, and one with a method."""

    def __init__(self, k: float) -> None:
        self.k = k

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Scale."""
        return x * self.k

    def method(self, x: torch.Tensor) -> torch.Tensor:
        """Scale as well."""
        return x * self.k
