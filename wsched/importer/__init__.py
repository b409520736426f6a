"""Import of nvFuser fusion definitions, from a live object or from its text."""

from __future__ import annotations

from wsched.importer.build import build_fusion
from wsched.importer.definition import Definition, Node, Open, Ref, Written
from wsched.importer.missing import MissingOp, first_unknown, missing_ops
from wsched.importer.nvfuser import (
    UnfinishedError,
    Version,
    definition_of,
    is_live,
    refuse_unfinished,
)
from wsched.importer.text.record import record_text

__all__ = [
    "Definition",
    "MissingOp",
    "Node",
    "Open",
    "Ref",
    "UnfinishedError",
    "Version",
    "Written",
    "build_fusion",
    "definition_of",
    "first_unknown",
    "is_live",
    "missing_ops",
    "record_text",
    "refuse_unfinished",
]
