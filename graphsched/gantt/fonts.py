"""Text that the font in use can draw."""

from __future__ import annotations

from matplotlib.font_manager import FontProperties, findfont, get_font


def drawable(text: str) -> str:
    """`text` with characters that the font lacks replaced by a question mark.

    Example:
        >>> drawable("mm0 → \N{SNOWMAN} \N{HANGUL SYLLABLE GA}")
        'mm0 → ☃ ?'
    """
    font = get_font(findfont(FontProperties()))
    return "".join(c if c == "\n" or font.get_char_index(ord(c)) else "?" for c in text)
