"""Text that the font in use can draw."""

from __future__ import annotations

from matplotlib.font_manager import FontProperties, findfont, get_font


def drawable(text: str) -> str:
    """`text` with characters that the font lacks replaced by a question mark, and dollar signs that begin no formula.

    Matplotlib takes what is between two dollar signs for mathematics, and fails where it is none: they are escaped.

    Example:
        >>> drawable("mm0 → \N{SNOWMAN} \N{HANGUL SYLLABLE GA}")
        'mm0 → ☃ ?'
        >>> drawable("$x$")
        '\\\\$x\\\\$'
    """
    font = get_font(findfont(FontProperties()))
    shown = "".join(c if c == "\n" or font.get_char_index(ord(c)) else "?" for c in text)
    return shown.replace("$", r"\$")
