"""Names of other programs' tasks as plans can bear them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TypeVar

from graphsched.workload.tasks import RESERVED

Node = TypeVar("Node", bound=Hashable)

_NUMBERED = re.compile(r"(.+)\.(\d+)$", re.DOTALL)


def plain_names(nodes: Iterable[Node]) -> dict[Node, str]:
    """A name for each node that may name a task: its own text, where that may; all differ.

    White space and what a plan's text reserves becomes ``_``, and so does a dot that would make a name look like
    the value of another node. Names that are then alike are numbered.

    Example:
        >>> plain_names([1, "1", "a b", "", "a", "a.0"])
        {1: '1', '1': '1_2', 'a b': 'a_b', '': 'task', 'a': 'a', 'a.0': 'a_0'}
    """
    texts = {node: _plain(str(node)) for node in nodes}
    all_texts = set(texts.values())
    taken: set[str] = set()
    number: Counter[str] = Counter()  # of the names like a stem
    names: dict[Node, str] = {}
    for node, text in texts.items():
        like_value = _NUMBERED.match(text)
        name = stem = f"{like_value[1]}_{like_value[2]}" if like_value and like_value[1] in all_texts else text
        number[stem] += 1
        while name in taken or (name != stem and name in all_texts):
            number[stem] += name != stem
            name = f"{stem}_{number[stem]}"
        taken.add(name)
        names[node] = name
    return names


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() else "_" for c in RESERVED.sub("_", text)) or "task"
