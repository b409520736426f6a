"""What became of each loop and expression of a schedule in the text of a kernel.

The lowering gives names that lead back: a buffer has the name of its tensor, a fragment too, in
small letters, a loop the label of its dimension, all with a number behind where that is taken
(design/0023-nest-lowering.md). An expression is linked to the statements that make its tensor, an
mma to those that read its operands. A loop is linked to the loops of its label around what is made
in it; one on blocks of the grid to the head of the kernel, one on warpgroups to the role that
numbers them, and one that is unrolled or that a single instruction spans to what is made in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import For, Frag, GmemRef, MmaTile, Role, Section, SmemRef, Stmt, Wgmma
from lowering.kernel.tensor_memory import MmaTensor, Tcgen05Mma
from lowering.kernel.text import kernel_lines
from wsched.fusion import Fusion, MmaOp, ParallelType, inputs_of
from wsched.schedule.proof.nest import Leaf, Node, leaves

__all__ = ["KernelText", "lines_of"]

_GRID = (ParallelType.BIDx, ParallelType.BIDy, ParallelType.BIDz)
_GROUPS = (ParallelType.TIDy, ParallelType.TIDz)


@dataclass(frozen=True, slots=True)
class KernelText:
    """A kernel's text with what links need to know of it.

    Args:
        lines: of the text.
        made: by tensor the lines that make it.
        blocks: loops, roles and sections: first line, line of the last bracket, and which.
    """

    lines: tuple[str, ...]
    made: Mapping[str, tuple[int, ...]]
    blocks: tuple[tuple[int, int, For | Role | Section], ...]

    @classmethod
    def of(cls, kernel: Kernel, fusion: Fusion) -> KernelText:
        """The text of a kernel that was made of a schedule."""
        found = list(kernel_lines(kernel))
        made: dict[str, list[int]] = {}
        for at, (_, stmt) in enumerate(found):
            if isinstance(stmt, Stmt):
                for name in _makes(stmt, fusion):
                    made.setdefault(name, []).append(at)
        lines = tuple(line for line, _ in found)
        blocks = (
            (at, _end(lines, at), stmt)
            for at, (_, stmt) in enumerate(found)
            if isinstance(stmt, For | Role | Section)
        )
        return cls(lines, {n: tuple(at) for n, at in made.items()}, tuple(blocks))


def lines_of(node: Node, text: KernelText, fusion: Fusion) -> tuple[int, ...]:
    """The lines of a kernel that a loop or an expression became."""
    made = sorted({at for t in leaves(node) for at in _made(t.name, text, fusion)})
    if isinstance(node, Leaf):
        return tuple(made)
    domain = node.domain
    if domain.parallel in _GRID:
        return (0,)
    around = [block for block in text.blocks if any(block[0] < at < block[1] for at in made)]
    if domain.parallel in _GROUPS:
        roles = [b for b in around if isinstance(b[2], Role | Section) and b[2].group is not None]
        return tuple(at for at, _, _ in roles[-1:]) or tuple(made)
    loops = [at for at, _, b in around if isinstance(b, For) and _is_of(b.var.name, domain.label)]
    return tuple(loops) or tuple(made)


def _made(name: str, text: KernelText, fusion: Fusion) -> tuple[int, ...]:
    """The lines that make a tensor; where a pass has taken it into what reads it, those."""
    if name in text.made:
        return text.made[name]
    readers = (e.output for e in fusion.uses(name))
    return tuple(at for reader in readers for at in _made(reader, text, fusion))


def _makes(stmt: Stmt, fusion: Fusion) -> Iterator[str]:
    """The tensors that a statement makes."""
    if isinstance(stmt, Wgmma | MmaTile | MmaTensor | Tcgen05Mma):
        names = (r.name if isinstance(r, Frag) else r.buffer for r in (stmt.a, stmt.b))
        read = set(filter(None, (_tensor(name, fusion) for name in names)))
        yield from (e.output for e in fusion.exprs
                    if isinstance(e, MmaOp) and read <= set(inputs_of(e)))  # fmt: skip
        return
    for field in fields(stmt):
        value = getattr(stmt, field.name)
        found = ""
        if field.name == "out":
            found = _tensor(value.name, fusion)
        elif field.name == "dst" and isinstance(value, GmemRef):
            found = _tensor(value.map, fusion)
        elif field.name == "dst" and isinstance(value, SmemRef):
            found = _staged(value.buffer, fusion)
        if found:
            yield found


def _tensor(name: str, fusion: Fusion) -> str:
    """The tensor that a name of the kernel was made from; empty where it is none's.

    A number may have been put behind it: ``t102`` is of ``T10`` where there is no ``T102``.
    """
    word = name.replace("t", "T", 1) if name.startswith("t") else name
    while word[:1] == "T" and word[1:].isdigit():
        if word in fusion.names:
            return word
        word = word[:-1]
    return ""


def _staged(buffer: str, fusion: Fusion) -> str:
    """The tensor in a shared buffer: its own, or what a result is stored from (``T6_s``)."""
    result, _, staged = buffer.partition("_s")
    if not staged and result == buffer:
        return _tensor(buffer, fusion)
    made = fusion.definition(_tensor(result, fusion)) if _tensor(result, fusion) else None
    return inputs_of(made)[0] if made is not None else ""


def _is_of(name: str, label: str) -> bool:
    """Whether a loop's variable was named after a label, or after one that was merged into it."""
    words = [label, *label.split("·")]
    return any(name.startswith(w) and (name == w or name[len(w) :].isdigit()) for w in words if w)


def _end(lines: tuple[str, ...], begin: int) -> int:
    """The line of the bracket that ends the block that begins on a line."""
    indent = len(lines[begin]) - len(lines[begin].lstrip())
    return next(
        at for at in range(begin + 1, len(lines)) if lines[at].startswith(" " * indent + "}")
    )
