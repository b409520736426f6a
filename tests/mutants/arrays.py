"""A statement at another array, buffer, tensor or barrier, of another CTA or of other threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from lowering.ground.expr import ZERO
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    BarArrive,
    BarSync,
    ClusterSync,
    CounterRef,
    CtaSync,
    GmemRef,
    MBarrierArrive,
    MBarrierRef,
    NamedBarrierRef,
    SmemRef,
    Stmt,
    StWord,
    TmemRef,
    WarpSync,
)

__all__ = ["other_places", "other_threads"]


def other_places(kernel: Kernel, stmt: Stmt) -> Iterator[Stmt]:
    """The statement with one of its references into each other declaration that has as many
    dimensions.
    """
    for f in fields(stmt):
        match getattr(stmt, f.name):
            case MBarrierRef(array=name) as ref:
                new = _named(ref, "array", name, kernel.mbarriers)
            case NamedBarrierRef(array=name) as ref:
                new = _named(ref, "array", name, kernel.named_barriers)
            case CounterRef(array=name) as ref:
                new = _named(ref, "array", name, kernel.counters)
            case SmemRef(buffer=name) as ref:
                new = _named(ref, "buffer", name, kernel.shared)
            case TmemRef(buffer=name) as ref:
                new = _named(ref, "buffer", name, kernel.tensors)
            case GmemRef(map=name, coords=coords) as ref:
                every = kernel.globals if stmt.TRAITS.plain else kernel.tensor_maps
                new = _named(ref, "map", name, [t for t in every if t.rank == len(coords)])
            case _:
                continue
        yield from (replace(stmt, **{f.name: ref}) for ref in new)


def _named(ref: Any, field: str, name: str, declared: Any) -> list[Any]:
    return [replace(ref, **{field: d.name}) for d in declared if d.name != name]


def other_threads(kernel: Kernel, stmt: Stmt) -> Iterator[Stmt]:
    """The statement among more or fewer threads, or at another CTA of the cluster."""
    clusters = kernel.cluster > 1
    match stmt:
        case CtaSync():
            yield WarpSync()
            if clusters:
                yield ClusterSync()
        case ClusterSync():
            yield CtaSync()
        case BarSync(bar=bar):
            yield WarpSync()
            yield CtaSync()
            yield BarArrive(bar)
        case BarArrive(bar=bar):
            yield BarSync(bar)
        case WarpSync():
            yield CtaSync()
        case MBarrierArrive(cta=None) | StWord(cta=None) if clusters:
            yield replace(stmt, cta=ZERO)
        case MBarrierArrive(cta=cta) | StWord(cta=cta) if cta is not None:
            yield replace(stmt, cta=None)
            if cta != ZERO:
                yield replace(stmt, cta=ZERO)
