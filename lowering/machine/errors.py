"""What the machine reports: a fault of one statement, or warps that wait for ever."""

from __future__ import annotations

from lowering.ground.errors import InternalError

__all__ = ["DeadlockError", "FaultError", "MachineError"]


class FaultError(Exception):
    """A fault whose place is not known yet; the scheduler adds the warp and the statement."""


class MachineError(InternalError):
    """The kernel did what the hardware forbids or leaves undefined.

    Args:
        who: the CTA, role and warp, as ``Warp.who`` names them.
        why: what is wrong.
        line: the statement, as it is printed.
    """

    def __init__(self, who: str, why: str, line: str = "") -> None:
        self.who, self.what, self.line = who, why, line
        super().__init__("machine", f"{who}: {why}", f"  at: {line}" if line else "")


class DeadlockError(MachineError):
    """Warps wait and nothing in flight can wake them; ``waits`` has a line for each kind."""

    def __init__(self, waits: tuple[str, ...]) -> None:
        self.waits = waits
        super().__init__("deadlock", "\n  ".join(("nothing in flight can wake", *waits)))
