"""The three ways in which wsched says no.

They live at the bottom of the layers because every layer raises them; ``wsched`` re-exports them.
"""

from __future__ import annotations

from typing import Any

__all__ = ["InternalError", "ScheduleError", "UnsupportedError", "WschedError"]


class WschedError(Exception):
    """Base of every error that wsched raises on purpose.

    They cross processes: what an error knows is pickled, not what it was made from.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[WschedError], args: tuple[Any, ...], known: dict[str, Any]) -> WschedError:
    """An error as it was, without its constructor, whose arguments are others than the text."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(known)
    return error


class ScheduleError(WschedError):
    """The schedule is illegal.

    Args:
        rule: short stable name of the rule that was broken, e.g. ``"smem"`` or ``"load-index"``.
        wrote: what the user (or the scheduler) wrote, in the syntax in which it was written.
        why: one sentence that says which limit or relation is broken, with both values.
        legal: alternatives that are legal here, in the same syntax as ``wrote``.
        where: the loop nest or IR around the place, printed last; may be empty.
    """

    def __init__(
        self, rule: str, wrote: str, why: str, legal: tuple[str, ...] = (), where: str = ""
    ) -> None:
        self.rule, self.wrote, self.why = rule, wrote, why
        self.legal, self.where = legal, where
        lines = [f"ScheduleError[{rule}]: {wrote}: {why}"]
        if legal:
            lines.append("  legal here: " + "; ".join(legal))
        if where:
            lines += ["  in:", *("    " + line for line in where.splitlines())]
        super().__init__("\n".join(lines))


class UnsupportedError(WschedError):
    """Legal, but wsched has no kernel for it; a caller may fall back to nvFuser or torch.

    Args:
        what: the op, type, layout or device that is not supported, as the user named it.
        supported: what is supported in its place.
        hint: what to do next; may be empty.
    """

    def __init__(self, what: str, supported: str, hint: str = "") -> None:
        self.what, self.supported, self.hint = what, supported, hint
        text = f"{what} is not supported; supported: {supported}"
        super().__init__(text + (f". {hint}" if hint else ""))


class InternalError(WschedError):
    """A defect of wsched itself: an IR that a pass left malformed, a rule that contradicts another.

    Args:
        where: the pass or component that found it.
        why: what is wrong.
        ir: the offending IR text, printed last; may be empty.
    """

    def __init__(self, where: str, why: str, ir: str = "") -> None:
        self.where, self.why, self.ir = where, why, ir
        text = f"{where}: {why}\nThis is a defect of wsched, please report it with the dump."
        super().__init__(text + (f"\n{ir}" if ir else ""))
