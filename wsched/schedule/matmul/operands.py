"""Copies of what TMA brings: operands in shared memory, what threads read of it in registers."""

from __future__ import annotations

from wsched.fusion import LoadStoreOpType, MemoryType, operands_of, prologue, the_products
from wsched.schedule.schedule import Schedule

__all__ = ["cache_matrix", "cache_operands"]

_TMA, _SET = LoadStoreOpType.CpAsyncBulkTensorTile, LoadStoreOpType.Set


def cache_operands(
    s: Schedule, thread_bytes: tuple[int, int]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Put the operands into shared memory.

    Args:
        s: a schedule that has no calls yet.
        thread_bytes: of the As and of the Bs, bytes that a thread copies at once; 0 of what TMA
            loads.

    Returns:
        What is loaded, As first; and what threads compute of an operand in registers, in order: the
        numbers of its rows, its part of a stage, and what is made of them. None of operands that
        are inputs as they are.
    """
    sides = operands_of(the_products(s.fusion))
    made = tuple(tv for side in sides for x in side for tv in prologue(s.fusion, x))
    ways = (_SET if n else _TMA for n in thread_bytes)
    loads = tuple(
        s.cache_after(_view(s, x), op) for side, op in zip(sides, ways, strict=True) for x in side
    )
    for tv in loads:
        s.set_memory_type(tv, MemoryType.Shared)
    read = dict.fromkeys(t.name for tv in made for t in s.fusion.producers(tv))
    numbers = tuple(s.cache_after(tv) for tv in read if tv not in (*made, *loads))
    staged = tuple(s.cache_after(tv, _way(s, tv)) for tv in read if tv in loads)
    return loads, (*numbers, *staged, *made)


def _view(s: Schedule, operand: str) -> str:
    """What is loaded of an operand: the view of its input."""
    source, name = s.fusion.source(operand).name, operand
    while s.fusion.producers(name)[0].name != source:
        read = (t.name for t in s.fusion.producers(name))
        name = next(x for x in read if s.fusion.source(x).name == source)
    return name


def _way(s: Schedule, staged: str) -> LoadStoreOpType:
    """How threads load their part of a stage."""
    return LoadStoreOpType.LdMatrix if s.tensor(staged).dtype.element.bits == 16 else _SET


def cache_matrix(s: Schedule, tv: str) -> str:
    """A matrix that the epilogue reads, into shared memory by TMA and from there into registers;
    the name of the first copy.
    """
    staged = s.cache_after(tv, _TMA)
    s.set_memory_type(staged, MemoryType.Shared)
    s.cache_after(staged, _way(s, staged))
    return staged
