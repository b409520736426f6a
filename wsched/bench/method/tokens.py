"""How many tokens a command is to measure with."""

from __future__ import annotations

from lowering.ground.errors import UnsupportedError
from lowering.ground.natural import natural

__all__ = ["tokens_of"]


def tokens_of(text: str) -> list[int]:
    """The numbers of ``--tokens``.

    Raises:
        UnsupportedError: there is none, or a word that is no positive number.
    """
    found = [natural(w.strip()) or 0 for w in text.split(",") if w.strip()]
    if not found or not all(found):
        raise UnsupportedError(f"--tokens {text}", "positive numbers, separated by commas")
    return found
