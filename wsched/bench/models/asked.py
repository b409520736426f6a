"""What the model bench measures: a module for a number of tokens, or a definition of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lowering.ground.errors import UnsupportedError
from wsched.bench.method.tokens import tokens_of
from wsched.bench.models.listed import listed
from wsched.bench.models.modules import MODULES

__all__ = ["Asked", "asked"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A module or a definition.

    Args:
        name: of a module in :data:`~wsched.bench.models.modules.MODULES`; empty of a definition.
        tokens: rows of a module's input; 0 of a definition, which has sizes of its own.
        path: of the file with a definition; empty of a module.
    """

    name: str
    tokens: int = 0
    path: str = ""

    def __str__(self) -> str:
        return Path(self.path).stem if self.path else f"{self.name} {self.tokens}"


def asked(module: str, tokens: str, definitions: Sequence[Path]) -> tuple[Asked, ...]:
    """What a command line asks for, in the order of the modules and files.

    Args:
        module: names with commas between, ``all`` or ``none``.
        tokens: numbers with commas between.
        definitions: files, or folders of them.

    Raises:
        UnsupportedError: a name or number that is none, or a path where there is nothing.
    """
    names = [w.strip() for w in module.split(",") if w.strip()]
    chosen = {"all": [*MODULES], "none": []}.get(module, names)
    if unknown := [n for n in chosen if n not in MODULES]:
        raise UnsupportedError(f"--module {unknown[0]}", ", ".join((*MODULES, "all", "none")))
    counts = tokens_of(tokens)
    if missing := [p for p in definitions if not p.exists()]:
        raise UnsupportedError(f"--definitions {missing[0]}", "a file or folder that is there")
    files = [str(p.resolve()) for folder in definitions for p in listed(folder)]
    found = [Asked(name, count) for name in chosen for count in counts]
    if not found and not files:
        raise UnsupportedError("nothing to measure", "--module or --definitions")
    return (*found, *(Asked("", 0, path) for path in dict.fromkeys(files)))
