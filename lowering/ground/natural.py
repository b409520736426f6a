"""Numbers that people write: on a command line, in the environment, in a file."""

from __future__ import annotations

__all__ = ["natural"]

DIGITS = 18
"""Most of a number, so that it has 64 bits: Python refuses to read thousands of them."""


def natural(text: str) -> int | None:
    """The number that a text of ASCII digits is, 0 or more; None of any other text, such as ``²``,
    which counts as a digit too, and of more than :data:`DIGITS`.
    """
    plain = text.isascii() and text.isdigit() and len(text) <= DIGITS
    return int(text) if plain else None
