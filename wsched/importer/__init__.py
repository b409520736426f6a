"""Import of nvFuser fusion definitions, from a live object or from its text."""

from __future__ import annotations

from wsched.importer.build import build_fusion
from wsched.importer.definition import Definition, Node, Ref
from wsched.importer.nvfuser import (
    UnfinishedError,
    Version,
    definition_of,
    is_live,
    refuse_unfinished,
)
from wsched.importer.recorder import record_text

__all__ = [
    "Definition",
    "Node",
    "Ref",
    "UnfinishedError",
    "Version",
    "build_fusion",
    "definition_of",
    "is_live",
    "record_text",
    "refuse_unfinished",
]
