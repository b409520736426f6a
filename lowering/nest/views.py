"""What threads read from and write to global memory: caller's tensors, and views of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lowering.ground.dtypes import DType
from lowering.ground.expr import Const, Expr, Var, ceildiv
from lowering.kernel.kernel import GlobalTensor
from lowering.kernel.tensors import WIDEST_ACCESS
from lowering.nest.domains import repeats
from lowering.nest.element import element_type
from lowering.nest.entries import entries, entry_sizes
from wsched.fusion import (
    BroadcastOp,
    Fusion,
    IterDomain,
    LoadStoreOp,
    LoadStoreOpType,
    MemoryType,
    TensorView,
)
from wsched.fusion.names import ROWS, TOKENS, blocks_of

__all__ = ["View", "global_tensors", "thread_views", "view_of"]


@dataclass(frozen=True, slots=True)
class View:
    """A caller's tensor with dimensions in which it is repeated.

    Args:
        name: of the caller's tensor.
        view: the tensor, or the broadcast of it.
        dims: its dimensions, in the order in which threads count them: those of the results, and
            in memory's order of what they load boxes of, and of results.
    """

    name: str
    view: TensorView
    dims: tuple[IterDomain, ...]


def view_of(fusion: Fusion, name: str) -> View:
    """The caller's tensor that ``name`` is a view of."""
    made, view, axes = fusion.definition(name), fusion.tensor(name), fusion.result_axes
    # What is summed over is no dimension of what an operand is computed with.
    dims = tuple(d for d in view.stored if not repeats(d) or str(d.extent) in axes)
    return View(made.input if isinstance(made, BroadcastOp) else name, view, dims)


def thread_views(fusion: Fusion) -> dict[str, View]:
    """All that threads access, by the caller's tensor: inputs first, results behind them."""
    found: dict[str, View] = {}
    stores: dict[str, View] = {}
    for e in fusion.exprs:
        if not isinstance(e, LoadStoreOp) or e.op is LoadStoreOpType.CpAsyncBulkTensorTile:
            continue
        if e.output in fusion.loaded_by_threads:
            source = fusion.source(e.output)
            found[source.name] = View(source.name, source, source.in_memory)
        elif fusion.tensor(e.input).memory is MemoryType.Global:
            read = view_of(fusion, e.input)
            found[read.name] = read
        elif fusion.tensor(e.output).memory is MemoryType.Global:
            stored = fusion.tensor(e.output)
            stores[e.output] = View(e.output, stored, stored.in_memory)
    results = (b.tensor for b in fusion.outputs)
    return found | {name: stores[name] for name in results if name in stores}


def global_tensors(
    fusion: Fusion, vector: int, copied: Mapping[str, int]
) -> tuple[GlobalTensor, ...]:
    """Their declarations; a thread accesses ``vector`` columns at once, or of what it copies into
    shared memory ``copied`` bytes, as the launch sees to.
    """
    declared = []
    for name, read in thread_views(fusion).items():
        own = entry_sizes(fusion, name, read.dims)
        dims = zip(read.dims, own, strict=True)
        groups = fusion.groups if fusion.ragged(name) else None
        once = set[str]() if groups is None else {groups.axis}
        sizes = tuple(Const(1) if repeats(d) or str(d.extent) in once else size for d, size in dims)
        dtype = element_type(read.view.dtype)
        single = sizes[-1] == Const(1) or fusion.reduction(name) is not None
        single = single or (groups is not None and str(read.dims[-1].extent) == groups.along)
        align = 1 if vector == 1 or single else vector * dtype.bytes
        align = copied.get(name, align)
        if name in fusion.added:
            declared.append(_of_rows(fusion.added[name].rows, read.dims, sizes))
            align = WIDEST_ACCESS if align > 1 else align
            axes = (str(d.extent) for d in read.dims)
            sizes = tuple(Var(TOKENS) if a == ROWS else n for a, n in zip(axes, sizes, strict=True))
        declared.append(GlobalTensor(name, dtype, sizes, align, entries(fusion, name)))
    for b in (b for b in fusion.inputs if b.tensor in fusion.scales):
        t = fusion.tensor(b.tensor)
        dtype, found = element_type(t.dtype), ((d, blocks_of(str(d.extent))) for d in t.in_memory)
        sizes = tuple(d.extent if of is None else ceildiv(Var(of[0]), of[1]) for d, of in found)
        declared.append(GlobalTensor(t.name, dtype, sizes, dtype.bytes))
    return tuple(declared)


def _of_rows(name: str, dims: tuple[IterDomain, ...], sizes: tuple[Expr, ...]) -> GlobalTensor:
    """The numbers of a result's rows, a column: the lower words, if there are two of each."""
    along = zip(dims, sizes, strict=True)
    return GlobalTensor(
        name, DType.S32, tuple(n if str(d.extent) == ROWS else Const(1) for d, n in along)
    )
