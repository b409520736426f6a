"""Numbered dumps of the lowering, asked for by ``WSCHED_DUMP``.

``WSCHED_DUMP=all``, or a comma-separated list of pass names and of ``cuda``, ``ptx``, ``sass``.
Files go to ``WSCHED_DUMP_DIR`` (default ``wsched-dump``) as ``NN_<pass>.ir``. Each IR dump begins
with comments (kernel, options, whether the pass changed anything) and parses back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lowering.errors import WschedError
from lowering.ir.kernel import Kernel
from lowering.ir.text import print_kernel
from lowering.options import LoweringOptions

__all__ = ["DumpSettingError", "Dumper", "dumper_from_environment"]

CODE = ("cuda", "ptx", "sass")


class DumpSettingError(WschedError):
    """``WSCHED_DUMP`` holds a word that is no pass; the text gives the grammar."""


@dataclass
class Dumper:
    """Writes what ``words`` ask for into ``folder``; counts the passes of one lowering."""

    words: frozenset[str]
    folder: Path
    number: int = 0
    last: str = ""
    files: list[Path] = field(default_factory=list)

    def step(self, name: str, kernel: Kernel, options: LoweringOptions) -> None:
        """Dump the kernel after pass ``name`` if it was asked for."""
        text = print_kernel(kernel)
        note = " (unchanged)" if text == self.last else ""
        self.last = text
        if {"all", name} & self.words:
            head = f"# {kernel.name} after {name}{note}\n# {options}\n"
            self._write(f"{self.number:02d}_{name}.ir", head + text)
        self.number += 1

    def code(self, kind: str, text: Callable[[], str]) -> None:
        """Dump generated code of ``kind`` (cuda, ptx, sass) if it was asked for."""
        if {"all", kind} & self.words:
            self._write(f"{self.number:02d}_{kind}.{'cu' if kind == 'cuda' else kind}", text())
            self.number += 1

    def _write(self, name: str, text: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / name
        path.write_text(text)
        self.files.append(path)


def dumper_from_environment(
    kernel: str, passes: tuple[str, ...], environment: Mapping[str, str] = os.environ
) -> Dumper | None:
    """The dumper that ``WSCHED_DUMP`` asks for, one folder per kernel name; None if unset.

    Raises:
        DumpSettingError: an unknown word.
    """
    setting = environment.get("WSCHED_DUMP", "")
    words = frozenset(w.strip() for w in setting.split(",") if w.strip())
    if not words:
        return None
    legal = ("all", "lower", *passes, *CODE)
    for word in sorted(words - set(legal)):
        raise DumpSettingError(
            f"WSCHED_DUMP={setting}: {word!r} is no pass; use a comma-separated list of: "
            + ", ".join(legal)
        )
    return Dumper(words, Path(environment.get("WSCHED_DUMP_DIR", "wsched-dump")) / kernel)
