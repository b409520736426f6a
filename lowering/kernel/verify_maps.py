"""How tensors in global memory are declared and named: one or an array; of tensor maps, a parameter
or in device memory.

Part of ``verify``.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowering.ground.expr import Const, ScalarType, type_of
from lowering.ground.frozen import fields_of
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    FenceTensormapAcquire,
    FragLoadGlobal,
    FragStoreGlobal,
    FragStoreReduced,
    GmemRef,
    LoadTile,
    MapRef,
    Stmt,
    StoreTile,
    TensormapReplaceAddress,
    TensormapReplaceDim,
    TmaLoad,
    TmaStore,
)
from lowering.kernel.tensors import PROMOTIONS, GlobalTensor, Ragged, TensorMap

__all__ = ["declared_maps", "declared_over", "map_rules"]


def declared_maps(kernel: Kernel) -> Iterator[str]:
    """Rules that the declarations of tensor maps break."""
    for g in kernel.globals:
        if g.count is not None and g.count < 1:
            yield f"{g.count} tensors, in: global {g.name}"
    for m in kernel.tensor_maps:
        where = f", in: tensormap {m.name}"
        fixed = isinstance(m.count, Const) and m.count.value > 0
        if m.count is not None and not m.device and not fixed:
            yield f"{m.count} maps as a parameter, whose number is a constant from 1 on{where}"
        if m.clipped and (m.device or m.count is not None):
            yield f"a clipped box is that of one tensor, known at the launch{where}"
        if m.ragged and (m.rank != 3 or m.device or m.count is not None):
            yield f"a ragged map is of one matrix, known at the launch, in three dimensions{where}"
        elif m.ragged and m.sizes[0] != m.sizes[1] + 1:
            what = "begins" if m.ragged is Ragged.BEGIN else "ends"
            yield f"{what} of a ragged map are 0 to {m.sizes[1]}, not below {m.sizes[0]}{where}"
        if m.promotion not in PROMOTIONS:
            known = ", ".join(map(str, PROMOTIONS))
            yield f"the L2 promotes to {m.promotion} bytes, not to one of {known}{where}"
        if m.early and m.device:
            yield f"a descriptor that a grid in front may write is read early{where}"


def declared_over(kernel: Kernel) -> Iterator[str]:
    """Buffers that lie over what is no other buffer."""
    names = {b.name for b in kernel.shared}
    for b in kernel.shared:
        for other in b.over:
            if other not in names - {b.name}:
                yield f"{b.name} lies over {other}, which is no other shared buffer"


def map_rules(kernel: Kernel, stmt: Stmt) -> Iterator[str]:
    """Rules that one statement breaks."""
    for value in fields_of(stmt):
        if not isinstance(value, GmemRef | MapRef):
            continue
        m: TensorMap | GlobalTensor | None = _map(kernel, value.map)
        what = "tensor maps"
        if m is None and isinstance(stmt, FragLoadGlobal | FragStoreGlobal | FragStoreReduced):
            m, what = kernel.find(GlobalTensor, value.map), "tensors"
        if value.entry is None and m is not None and m.count is not None:
            yield f"{m.name} is {m.count} {what}, {m.name}[i] is one of them"
        if value.entry is not None and (m is None or m.count is None):
            yield f"{value.map} is no array of {what}"
        elif value.entry is not None and type_of(value.entry) is not ScalarType.I32:
            yield f"entry {value.entry} is {type_of(value.entry).value}, not i32"
        ragged = m.ragged if isinstance(m, TensorMap) else Ragged.NONE
        if isinstance(stmt, LoadTile | TmaLoad) and ragged is Ragged.END:
            yield f"{value.map} is ragged, what begins in front of its tensor is not loaded through"
        if isinstance(stmt, StoreTile | TmaStore) and ragged is Ragged.BEGIN:
            yield f"{value.map} is ragged by begins, what lies behind its tensor is not stored to"
        early = isinstance(m, TensorMap) and m.early and not m.device
        if isinstance(stmt, StoreTile | TmaStore) and early:
            yield f"{value.map} is read early, but an earlier grid may still read what is stored"
    if isinstance(stmt, FenceTensormapAcquire | TensormapReplaceAddress | TensormapReplaceDim):
        m = _map(kernel, stmt.map.map)
        if m is not None:
            yield from _changed(kernel, stmt, m)


def _changed(
    kernel: Kernel,
    stmt: FenceTensormapAcquire | TensormapReplaceAddress | TensormapReplaceDim,
    m: TensorMap,
) -> Iterator[str]:
    if not m.device:
        yield f"{m.name} is a parameter, which nobody changes"
    match stmt:
        case TensormapReplaceDim(dim=dim, size=size):
            if not 0 <= dim < m.rank:
                yield f"{m.name} has dimensions 0 to {m.rank - 1}, not {dim}"
            if type_of(size) is not ScalarType.I32:
                yield f"size {size} is {type_of(size).value}, not i32"
        case TensormapReplaceAddress(src=src):
            g = kernel.find(GlobalTensor, src.map)
            if g is not None and (g.dtype is not m.dtype or g.rank != m.rank):
                yield f"{g.name} is {_kind(g)}, {m.name} is {_kind(m)}"


def _kind(t: GlobalTensor | TensorMap) -> str:
    return f"{t.rank}-D of {t.dtype.value}"


def _map(kernel: Kernel, name: str) -> TensorMap | None:
    return kernel.find(TensorMap, name)
