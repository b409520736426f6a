"""How a wheel is built: ``lowering`` and ``passes`` lie within ``wsched`` there.

In the tree three folders stand side by side. Installed so, two of them would have names that belong
to nobody: a ``passes`` of the user's own would hide ours, or ours theirs. So the built copies move
to ``wsched/_lowering`` and ``wsched/_passes``, and what imports them is written anew.
"""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

from setuptools.command.build_py import build_py

__all__ = ["MOVED", "BuildWheel", "moved", "rewritten"]

MOVED = ("lowering", "passes")
"""Packages of the tree that are inside of ``wsched`` in a wheel."""

_NAMES = "|".join(MOVED)
_IMPORT = re.compile(rf"^(\s*from )({_NAMES})(?=[. ])", re.MULTILINE)
_NAMED = re.compile(rf"""(["'])({_NAMES})(?=\.[a-z_.]+\1)""")


def rewritten(text: str) -> str:
    """A module with the names that its imports have in a wheel.

    Raises:
        ValueError: an import of a kind that is not written anew.
    """
    made = _NAMED.sub(r"\1wsched._\2", _IMPORT.sub(r"\1wsched._\2", text))
    for node in ast.walk(ast.parse(made)):
        if isinstance(node, ast.Import):
            _refuse_imports(node)
    return made


def _refuse_imports(node: ast.Import) -> None:
    for name in (a.name for a in node.names):
        if name.partition(".")[0] in MOVED:
            text = f"line {node.lineno}: the import of {name}; write from {name} import"
            raise ValueError(text)


def moved(folder: Path) -> None:
    """Move the packages in a folder of built files, and write all modules anew."""
    for name in MOVED:
        target = folder / "wsched" / f"_{name}"
        shutil.rmtree(target, ignore_errors=True)
        shutil.move(folder / name, target)
    for path in sorted((folder / "wsched").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if (made := rewritten(text)) != text:
            path.write_text(made, encoding="utf-8")


class BuildWheel(build_py):  # type: ignore[misc,unused-ignore]
    """``build_py``, but for editable installs, which are the tree itself."""

    def run(self) -> None:
        """Copy the packages and move them."""
        built = Path(self.build_lib)
        if not self.editable_mode:
            shutil.rmtree(built / "wsched", ignore_errors=True)  # files that the tree has no more
        super().run()
        if not self.editable_mode:
            moved(built)
