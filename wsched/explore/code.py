"""CUDA, PTX and SASS of a kernel, each line with the one that it was made from.

The emitter says which statement became a line of CUDA. PTX and SASS are compiled with
``-lineinfo``, which changes no instruction; of a function of the device header that was inlined,
the line of the kernel that calls it counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from lowering.cuda.emit import emit_lines
from lowering.cuda.nvrtc import compile_ptx
from lowering.cuda.sass import disassemble
from lowering.ground.errors import UnsupportedError
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import kernel_lines, parse_kernel, print_kernel
from wsched.explore.data import Code
from wsched.run.made import LINES
from wsched.run.on_device import OnDevice

__all__ = ["codes_of", "cuda_of", "ptx_lines", "sass_lines"]

Lines = tuple[tuple[str, ...], tuple[int, ...]]
"""Lines of a text, and of each the line of CUDA that it is from, counted from 0; -1 of none."""


def codes_of(compiled: OnDevice) -> tuple[Code, ...]:
    """CUDA, PTX and SASS of a kernel; of what cannot be made here the reason."""
    kernel = compiled.kernel
    source, name = compiled.source, f"{kernel.name}.cu"

    def ptx() -> Lines:
        return ptx_lines(compile_ptx(source, name, (LINES,), kernel.target.arch))

    def sass() -> Lines:
        return sass_lines(disassemble(compiled.with_lines.cubin, ("-gi",)))

    return (cuda_of(kernel), _made("PTX", ptx), _made("SASS", sass))


def _made(language: str, make: Callable[[], Lines]) -> Code:
    try:
        lines, origins = make()
    except UnsupportedError as e:
        return Code(language, (), (), str(e))
    return Code(language, lines, origins, "")


def cuda_of(kernel: Kernel) -> Code:
    """The source of a final kernel, each line with that of the kernel's text."""
    fresh = parse_kernel(print_kernel(kernel))  # in which no statement stands twice
    place = {id(of): at for at, (_, of) in enumerate(kernel_lines(fresh)) if of is not None}
    made = emit_lines(fresh)
    origins = tuple(-1 if of is None else place[id(of)] for of in made.origins)
    return Code("CUDA", tuple(made.text.splitlines()), origins, "")


_LOC = re.compile(
    r"\s*\.loc\s+\d+ (\d+) (\d+)(?:, function_name [^,]+, inlined_at \d+ (\d+) (\d+))?"
)


def ptx_lines(text: str) -> Lines:
    """PTX without ``.loc``; a function that calls another one is itself inlined somewhere."""
    callers: dict[tuple[int, int], tuple[int, int]] = {}
    found: list[tuple[str, int]] = []
    now = -1
    for line in _without_debug(text.splitlines()):
        if loc := _LOC.match(line):
            here = int(loc[1]), int(loc[2])
            callers.pop(here, None)
            if loc[3] is not None:
                callers[here] = int(loc[3]), int(loc[4])
            while here in callers:
                here = callers[here]
            now = here[0] - 1
        else:
            found.append((line, -1 if _is_frame(line) else now))
    return _apart(found)


def _is_frame(line: str) -> bool:
    """Whether a line of PTX is no instruction: a directive, a label, a comment, a bracket."""
    text = line.strip()
    return text.startswith((".", "//", "$", "{", "}", "(", ")")) or text[-1:] not in (";", "}")


def _without_debug(lines: Iterable[str]) -> list[str]:
    """The lines up to the sections of debug information and the list of files."""
    kept = []
    for line in lines:
        if line.lstrip().startswith((".section\t.debug", ".file\t")):
            break
        kept.append(line)
    return kept


_GAP = re.compile(r"^ +(?=/\*)|(?<=\*/) {3,}")
_FILE = re.compile(r'\s*//## File "[^"]*", line (\d+)')


def sass_lines(text: str) -> Lines:
    """SASS without the notes of ``nvdisasm -gi`` and its wide column in front of instructions.

    Notes of a call stack end with the outermost.
    """
    found: list[tuple[str, int]] = []
    now = -1
    for line in text.splitlines():
        if note := _FILE.match(line):
            now = int(note[1]) - 1
        elif line.lstrip().startswith(".section"):
            now = -1
            found.append((line, now))
        else:
            found.append((_GAP.sub("  ", line), now if line.lstrip().startswith("/*") else -1))
    return _apart(found)


def _apart(found: list[tuple[str, int]]) -> Lines:
    return tuple(line for line, _ in found), tuple(at for _, at in found)
