"""nvFuser's ``FusionDefinition.execute`` with wsched's kernels: installed, or by a class."""

from __future__ import annotations

from wsched.doors.dropin.decide import Decision, decision_of
from wsched.doors.dropin.patch import enabled, install, installed, uninstall

__all__ = ["Decision", "decision_of", "enabled", "install", "installed", "uninstall"]
