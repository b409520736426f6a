"""The operations of a definition that no kernel of wsched's has, and why not."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from lowering.ground.errors import UnsupportedError
from wsched.importer.definition import Definition, Node
from wsched.importer.ops import MISSING
from wsched.importer.signatures import known_ops

__all__ = ["MissingOp", "first_unknown", "missing_ops", "unknown_op"]

_SHOWN = 5
"""Lines that are named of an operation that a definition has often."""


@dataclass(frozen=True, slots=True)
class MissingOp:
    """An operation of nvFuser's that wsched does not have, or one that nobody knows.

    Args:
        op: its name below ``fd.ops``.
        lines: where the text has it.
        reason: why it is missing.
    """

    op: str
    lines: tuple[int, ...]
    reason: str

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.lines[:_SHOWN]))
        more = f" and {len(self.lines) - _SHOWN} more" if len(self.lines) > _SHOWN else ""
        plural = "s" if len(self.lines) > 1 else ""
        return f"fd.ops.{self.op} (line{plural} {shown}{more}): {self.reason}"


def missing_ops(definition: Definition) -> tuple[MissingOp, ...]:
    """Each such operation once, in the order of the definition."""
    known, found = known_ops(), dict[str, list[int]]()
    for node in definition.nodes:
        unknown = node.op not in known and not node.op.startswith("define_")
        if unknown or node.op in MISSING:
            found.setdefault(node.op, []).append(node.line)
    return tuple(
        MissingOp(op, tuple(lines), MISSING.get(op) or _unknown(op)) for op, lines in found.items()
    )


def first_unknown(definition: Definition) -> UnsupportedError | None:
    """The error for the first operation that nobody knows; None where there is none."""
    known = known_ops()
    nodes = (n for n in definition.nodes if n.op not in known and not n.op.startswith("define_"))
    return next(map(unknown_op, nodes), None)


def unknown_op(node: Node) -> UnsupportedError:
    """The error for an operation that nobody knows."""
    near = get_close_matches(node.op, known_ops(), 1)
    hint = f"Did you mean fd.ops.{near[0]}?" if near else ""
    return UnsupportedError(
        f"line {node.line}: the unknown operation fd.ops.{node.op}", "operations of nvFuser", hint
    )


def _unknown(op: str) -> str:
    near = get_close_matches(op, known_ops(), 1)
    return f"unknown; did you mean fd.ops.{near[0]}?" if near else "unknown"
