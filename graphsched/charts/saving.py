"""Writing a matplotlib figure: formats by suffix, the same bytes every time."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphsched.errors import OutputError
from graphsched.files import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_METADATA: dict[str, dict[str, Any]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


def picture_format(path: str | Path) -> str:
    """The format that the name of a picture asks for.

    Raises:
        OutputError: It is none that can be written, or that of a folder.

    Example:
        >>> picture_format("links.PNG")
        'png'
    """
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in _METADATA:
        raise OutputError(f"cannot draw {str(path)!r}: the name of a picture ends in .png, .svg or .pdf")
    if Path(path).is_dir():
        raise OutputError(f"cannot draw {str(path)!r}: there is a folder of this name")
    return suffix


def save_picture(figure: Figure, path: str | Path, suffix: str) -> None:
    """Write `figure` to `path`, whole or not at all.

    Raises:
        OutputError: It cannot be written.
    """
    from matplotlib import rc_context

    content = BytesIO()
    with rc_context({"svg.hashsalt": "graphsched"}):  # the same bytes every time
        figure.savefig(content, format=suffix, metadata=_METADATA[suffix])
    write_bytes(path, content.getvalue())


def saved(figure: Figure, path: str | Path | None, suffix: str) -> Figure:
    """`figure`, written to `path` where one is given."""
    if path is not None:
        save_picture(figure, path, suffix)
    return figure
