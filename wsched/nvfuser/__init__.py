"""nvFuser's own matmul scheduler, driven by wsched (design/0018-nvfuser-scheduler.md).

:func:`schedule` is the door from Python, ``wsched plugin build`` the one for any program. Names are
loaded when they are first used: the plugin needs neither torch nor nvFuser's libraries.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wsched.nvfuser.params import from_nvfuser, to_fields
    from wsched.nvfuser.read import ReadSchedule, read_schedule
    from wsched.nvfuser.scheduled import ScheduledByNvfuser, schedule, to_nvfuser

__all__ = [
    "ReadSchedule",
    "ScheduledByNvfuser",
    "from_nvfuser",
    "read_schedule",
    "schedule",
    "to_fields",
    "to_nvfuser",
]

_HOME = {
    "from_nvfuser": "params",
    "to_fields": "params",
    "ReadSchedule": "read",
    "read_schedule": "read",
    "ScheduledByNvfuser": "scheduled",
    "schedule": "scheduled",
    "to_nvfuser": "scheduled",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'wsched.nvfuser' has no attribute {name!r}")
    return getattr(import_module(f"wsched.nvfuser.{_HOME[name]}"), name)
