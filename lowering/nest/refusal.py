"""How a schedule without a rule is refused."""

from __future__ import annotations

from lowering.ground.errors import UnsupportedError
from wsched.fusion import TensorView, nest_text

__all__ = ["refused"]


def refused(t: TensorView, what: str, supported: str) -> UnsupportedError:
    """The error that says what no rule covers, with the loops of a tensor; the caller raises it."""
    return UnsupportedError(what, supported, f"The nest is:\n{nest_text(t)}")
