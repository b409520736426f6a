"""Import of nvFuser fusion definitions, from a live object or from its text."""

from __future__ import annotations

from wsched.importer.build import build_fusion
from wsched.importer.definition import Definition, Node, Ref
from wsched.importer.nvfuser import definition_of
from wsched.importer.recorder import record_text

__all__ = ["Definition", "Node", "Ref", "build_fusion", "definition_of", "record_text"]
