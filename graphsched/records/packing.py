"""Spans of large plans as compressed bytes, with workload and text of the plan; a hash of them is in the name."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from graphsched.errors import FileFormatError
from graphsched.records.model import CaseRecord, columns_in


def packed(case: CaseRecord, experiment: str) -> tuple[str, bytes]:
    """Name and content of the file for the spans of a case."""
    buffer = io.BytesIO()
    spans = case.spans or {}
    columns = {name: np.asarray(spans[name], dtype=np.float64) for name in columns_in(spans)}
    texts = {"workload": json.dumps(case.workload), "plan": case.plan_text or ""}
    letters = {name: np.frombuffer(text.encode(), dtype=np.uint8) for name, text in texts.items()}
    np.savez_compressed(buffer, allow_pickle=False, **columns, **letters)
    content = buffer.getvalue()
    return f"{experiment}.{_hash(content)}.spans.npz", content


def unpacked(path: Path) -> tuple[dict[str, Any], Any, str]:
    """Spans by the names of their columns, the workload as JSON has it, and the plan's text.

    Raises:
        FileFormatError: There is no such file, or it is damaged or another than its name says.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FileFormatError(f"the spans in {path.name} are missing: {error.strerror or error}") from error
    if not path.name.endswith(f".{_hash(content)}.spans.npz"):
        raise FileFormatError(
            f"the spans in {path.name} are others than its name says, their hash is {_hash(content)}: take "
            "the file that was written with the run, or run the experiment again"
        )
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as found:
            columns = {name: found[name] for name in columns_in(found)}
            texts = [found[name].tobytes().decode() for name in ("workload", "plan")]
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError, EOFError) as error:
        raise FileFormatError(f"the spans in {path.name} cannot be read: {error}") from error
    return columns, json.loads(texts[0]), texts[1]


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
