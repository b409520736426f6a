"""Which coordinates references have, and which boxes fit where they go.

Part of ``verify``. A reference has a coordinate for each dimension of what it names; TMA takes
tensors of 1 to 5 dimensions, 32-bit coordinates, and boxes whose lines are those of the buffer.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from lowering.ground.expr import ScalarType, type_of
from lowering.ground.frozen import fields_of
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Frag, GmemRef, LoadTile, SmemRef, Stmt, TmaLoad, TmaStore
from lowering.kernel.tensors import GlobalTensor, SharedBuffer, TensorMap
from lowering.target.ptx import TMA_RANK_MAX

__all__ = ["declared_shapes", "reference_rules"]


def declared_shapes(kernel: Kernel) -> Iterator[str]:
    """Rules that the shapes of tensor maps break."""
    for m in kernel.tensor_maps:
        where = f", in: tensormap {m.name}"
        if m.rank > TMA_RANK_MAX:
            yield f"{m.rank} dimensions, TMA takes 1 to {TMA_RANK_MAX}{where}"
        if m.box and len(m.box) != m.rank:
            yield f"a box of {_by(m.box)} for {_dimensions(m.rank)}{where}"
        elif m.clipped and (m.rank < 2 or prod(m.box[:-2]) != 1):
            yield f"a box of {_by(m.box)} is not one matrix, whose rows could be clipped{where}"


def reference_rules(kernel: Kernel, stmt: Stmt) -> Iterator[str]:
    """Rules that the references of one statement break."""
    values = fields_of(stmt)
    rows = max((v.type.rows for v in values if isinstance(v, Frag)), default=0)
    wrong = False
    for ref in values:
        target = _target(kernel, ref)
        if target is None:
            continue
        rank = len(target.shape) if isinstance(target, SharedBuffer) else target.rank
        if len(ref.coords) != rank:
            wrong = True
            yield f"{target.name} has {_dimensions(rank)}, not {len(ref.coords)}"
        elif rank == 1 and rows > 1:
            yield f"{rows} rows of {target.name}, which has one dimension"
        if isinstance(target, TensorMap):
            wide = [c for c in ref.coords if type_of(c) is not ScalarType.I32]
            for coordinate in wide:
                kind = type_of(coordinate).value
                yield f"coordinate {coordinate} is {kind}, TMA takes i32"
    if wrong:
        return
    match stmt:
        case LoadTile(dst, src) if len(dst.coords) > len(src.coords):
            yield f"{_dimensions(len(dst.coords))} of {dst.buffer} from {len(src.coords)} in memory"
        case TmaLoad(dst=shared, src=memory) | TmaStore(dst=memory, src=shared):
            yield from _box(kernel, shared, memory)


def _box(kernel: Kernel, shared: SmemRef, memory: GmemRef) -> Iterator[str]:
    """A box is as many lines, one after the other in a buffer that is stored in such lines."""
    b = kernel.find(SharedBuffer, shared.buffer)
    m = kernel.find(TensorMap, memory.map)
    if b is None or m is None or not m.box:
        return
    lines, cols = prod(m.box[:-1]), m.box[-1]
    if lines > b.lines or cols != b.box_cols:
        yield (
            f"a box of {_by(m.box)} is {lines} lines of {cols}, "
            f"{b.name} has {b.lines} of {b.box_cols}"
        )


def _target(kernel: Kernel, ref: object) -> SharedBuffer | TensorMap | GlobalTensor | None:
    """What a reference names; None for what is none, or names nothing."""
    if isinstance(ref, SmemRef):
        return kernel.find(SharedBuffer, ref.buffer)
    if isinstance(ref, GmemRef):
        return kernel.find(TensorMap, ref.map) or kernel.find(GlobalTensor, ref.map)
    return None


def _dimensions(count: int) -> str:
    return f"{count} dimension{'s' if count != 1 else ''}"


def _by(extents: tuple[int, ...]) -> str:
    return "x".join(map(str, extents))
