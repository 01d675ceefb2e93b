"""What stands in a file, text or JSON, and which format of graphs an object of JSON is of."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from graphsched.errors import FileFormatError
from graphsched.formats.chakra import looks_like_chakra

_SPACE = re.compile(r"\s*")
_TRACE = b'"traceEvents"'


def suffix_of(path: Path) -> str:
    """The suffix that tells what is in a file, compressed or not.

    Example:
        >>> suffix_of(Path("step.pt.trace.json.gz")), suffix_of(Path("A.STG"))
        ('.json', '.stg')
    """
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return plain.suffix.lower()


def read_contents(path: Path, kind: Literal["text", "json"]) -> Any:
    """The text of a file, or the object in it; a list of the objects, where several stand one after another.

    Raises:
        FileFormatError: It cannot be read, is truncated, or is no text in UTF-8.
    """
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix.lower() == ".gz" else content
    except OSError as error:  # also what gzip raises
        raise FileFormatError(f"cannot read {path}: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise FileFormatError(f"{path} is no complete compressed file: {error}") from error
    if kind == "text":
        return _text(path, content)
    return _json(path, _text(path, content, broken_names=_TRACE in content))


def _text(path: Path, content: bytes, *, broken_names: bool = False) -> str:
    """`content` as text, without a byte order mark; names of kernels in traces may be broken."""
    try:
        return content.decode("utf-8-sig", errors="replace" if broken_names else "strict")
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{path} is no text in UTF-8 ({error.reason} at byte {error.start}): save it as UTF-8"
        ) from error


def _json(path: Path, text: str) -> Any:
    decoder = json.JSONDecoder(strict=False)  # traces hold names with control characters
    found: list[Any] = []
    at = 0
    try:
        while True:
            at = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # matches nothing too
            if at == len(text) and found:
                break
            thing, at = decoder.raw_decode(text, at)
            found.append(thing)
    except json.JSONDecodeError as error:
        raise FileFormatError(f"{path} is no complete JSON file: {error}") from error
    except ValueError:  # of a number of thousands of digits
        raise FileFormatError(f"{path} holds a whole number of too many digits: shorten it") from None
    except RecursionError:
        raise FileFormatError(f"{path} is no graph: its lists and objects lie too deep in each other") from None
    return found if len(found) > 1 else found[0]


def json_kind(data: Any) -> str:
    """The name of the format that an object is of.

    Raises:
        FileFormatError: It looks like none; says what it is, where that is known.

    Example:
        >>> json_kind({"traceEvents": []}), json_kind({"nodes": [], "links": []})
        ('kineto', 'node-link')
    """
    keys = set(data) if isinstance(data, Mapping) else set()
    for name, wanted in (
        ("kineto", {"traceEvents"}),
        ("wfformat", {"workflow"}),
        ("json", {"given", "tasks"}),
        ("node-link", {"nodes", "edges"}),
        ("node-link", {"nodes", "links"}),
        ("chakra", {"nodes"}),
    ):
        if wanted <= keys:
            return name
    if looks_like_chakra(data):
        return "chakra"
    what = "no graph"
    if "cases" in keys:
        what = "no graph but a recorded run: 'graphsched export' writes the graphs of its cases"
    elif "devices" in keys:
        what = "no graph but a platform: name it with --platform"
    raise FileFormatError(
        f"{what}; graphs in JSON have 'nodes' and 'edges' (node-link), 'workflow' (WfFormat), 'tasks' and 'given' "
        "(graphsched), 'traceEvents' (torch's profiler), or are lists of nodes (Chakra)"
    )
