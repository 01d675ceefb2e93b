"""Words and marks of a text in the DOT language.

Numbers may have an exponent, as other programs write them; a word of letters that begins with a digit has to be quoted.

Source: graphviz.org/doc/info/lang.html
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from graphsched.errors import FileFormatError

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/|^\#[^\n]*)
      | (?P<word>[^\W\d]\w*|-?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][+-]?\d+)?(?![\w.]))
      | (?P<quoted>"(?:[^"\\]|\\.)*")
      | (?P<html><(?:[^<>]|<[^<>]*>)*>)
      | (?P<mark>->|--|[{}\[\];,=:+])""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_ESCAPED = re.compile(r'\\(["\n\\])')
_NUMBER = re.compile(r"-?\.?\d")
_SHOWN = 20


class Token(NamedTuple):
    """A word (of any kind, without its quotes) or a mark; `at` is its place in the text."""

    kind: Literal["word", "quoted", "html", "mark", "end"]
    text: str
    at: int


def tokens_of(text: str) -> list[Token]:
    r"""The tokens of `text`, one of kind ``end`` last.

    Raises:
        FileFormatError: Something is neither a word nor a mark; the message says where.

    Example:
        >>> [token.text for token in tokens_of('digraph { "a b" -> c /* so */ [x=1.5]; }')]
        ['digraph', '{', 'a b', '->', 'c', '[', 'x', '=', '1.5', ']', ';', '}', '']
    """
    tokens, at = [], 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            shown = text[at : at + _SHOWN]
            hint = ": quote it" if _NUMBER.match(shown) else ""
            raise FileFormatError(f"{place(text, at)}: {shown!r} is no word of the DOT language{hint}")
        if found.lastgroup != "skip":
            kind, word = str(found.lastgroup), found[0]
            if kind == "quoted":
                word = _ESCAPED.sub(lambda m: "" if m[1] == "\n" else m[1], word[1:-1])
            tokens.append(Token(kind, word, at))  # type: ignore[arg-type]  # the names of the groups
        at = found.end()
    return [*tokens, Token("end", "", at)]


def place(text: str, at: int) -> str:
    """The line and column of a place, for people.

    Example:
        >>> place("a\\nbc", 3)
        'line 2, column 2'
    """
    return f"line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)}"
