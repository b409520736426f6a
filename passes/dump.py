"""Numbered dumps of every stage, asked for by ``WSCHED_DUMP``.

``WSCHED_DUMP=all``, or a comma-separated list of stages: texts of the schedule, names of passes,
generated code. Files go to ``WSCHED_DUMP_DIR`` (default ``wsched-dump``), a folder for each kernel,
as ``NN_<stage>.<ending>``. Each IR dump begins with comments (kernel, options, whether the pass
changed anything) and parses back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from lowering.ground.errors import UnsupportedError, WschedError
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import print_kernel
from passes.options import LoweringOptions

__all__ = ["ALL", "DumpSettingError", "Dumper", "dump_folder", "dumper_from_environment"]

ALL = "all"
"""The word that asks for every stage."""

LONGEST = 200
"""Characters of a kernel's name that become a folder's; most file systems take 255 in all."""


class DumpSettingError(WschedError):
    """``WSCHED_DUMP`` holds a word that is no stage; the text gives the grammar."""


@dataclass
class Dumper:
    """Writes what ``words`` ask for into ``folder``; counts the stages of one compilation.

    A stage has the same number whatever is asked for.

    Attributes:
        words: names of stages, or :data:`ALL`.
        folder: made when the first file is written.
        number: of the next stage.
        last: IR text after the last pass.
        files: what was written.
        missing: what :data:`ALL` could not have, each with the reason.
    """

    words: frozenset[str]
    folder: Path
    number: int = 0
    last: str = ""
    files: list[Path] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def step(self, name: str, kernel: Kernel, options: LoweringOptions) -> None:
        """Dump the kernel after pass ``name`` if it was asked for."""
        text = print_kernel(kernel)
        note = " (unchanged)" if text == self.last else ""
        self.last = text
        self.text(name, "ir", lambda: f"# {kernel.name} after {name}{note}\n# {options}\n{text}")

    def text(self, name: str, ending: str, make: Callable[[], str]) -> None:
        """Dump another stage if it was asked for; else its text is not made.

        Raises:
            UnsupportedError: the tool that makes it is missing, and it was asked for by name.
        """
        number, self.number = self.number, self.number + 1
        if not {ALL, name} & self.words:
            return
        try:
            made = make()
        except UnsupportedError as e:
            if name in self.words:
                raise
            self.missing.append(f"{name}: {e}")
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{number:02d}_{name}.{ending}"
        path.write_text(made)
        self.files.append(path)


def dumper_from_environment(
    kernel: str, stages: tuple[str, ...], environment: Mapping[str, str] = os.environ
) -> Dumper | None:
    """The dumper that ``WSCHED_DUMP`` asks for, one folder per kernel name; None if unset.

    Args:
        kernel: its name.
        stages: the words besides :data:`ALL`.
        environment: where the settings are.

    Raises:
        DumpSettingError: an unknown word.
    """
    setting = environment.get("WSCHED_DUMP", "")
    words = frozenset(w.strip() for w in setting.split(",") if w.strip())
    if not words:
        return None
    legal = (ALL, *stages)
    for word in sorted(words - set(legal)):
        raise DumpSettingError(
            f"WSCHED_DUMP={setting}: {word!r} is no stage; use a comma-separated list of: "
            + ", ".join(legal)
        )
    return Dumper(words, dump_folder(environment.get("WSCHED_DUMP_DIR", "wsched-dump"), kernel))


def dump_folder(within: str | Path, kernel: str) -> Path:
    """Where the dumps of a kernel go: a folder of its name, or of its beginning and a hash where
    that is longer than file systems take, as the name of a kernel with 60 results is.
    """
    if len(kernel) > LONGEST:
        kernel = f"{kernel[:LONGEST]}_{sha256(kernel.encode()).hexdigest()[:12]}"
    return Path(within) / kernel
