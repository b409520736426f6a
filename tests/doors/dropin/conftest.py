"""The fixture ``nvfuser``: nvFuser without a GPU."""

from __future__ import annotations

from tests.doors.dropin.spy import nvfuser

__all__ = ["nvfuser"]
