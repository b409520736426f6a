"""Definitions without a kernel of wsched's: run by nvFuser, or op by op by torch."""

from __future__ import annotations

from wsched.doors.fallback.fit import require_fitting, require_fitting_sizes
from wsched.doors.fallback.inputs import check_inputs, written_into
from wsched.doors.fallback.interpret import evaluated, interpret, unknown_ops
from wsched.doors.fallback.nvfuser import NvfuserError, execute, rebuild
from wsched.doors.fallback.rest import or_torch
from wsched.doors.fallback.torch_settings import as_written

__all__ = [
    "NvfuserError", "as_written", "check_inputs", "evaluated", "execute", "interpret", "or_torch",
    "rebuild", "require_fitting", "require_fitting_sizes", "unknown_ops", "written_into",
]  # fmt: skip
