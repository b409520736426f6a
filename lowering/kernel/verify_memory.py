"""What statements that read and write global memory may ask for.

Part of ``verify``: scalars from memory, limits of rows, and rows by index.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowering.ground.dtypes import DType
from lowering.ground.expr import Expr, ScalarType, type_of
from lowering.ground.types import FragmentType
from lowering.kernel.kernel import GlobalTensor, Kernel
from lowering.kernel.nodes import (
    Frag,
    FragBelow,
    FragStoreGlobal,
    LdGlobalScalar,
    StGlobalScalar,
    Stmt,
)
from lowering.kernel.rules import about, with_field
from lowering.kernel.scalar_memory import LOAD_ORDERS, UNIFORM

__all__ = ["LOADED", "RULES"]

LOADED = {DType.S32: ScalarType.I32, DType.S64: ScalarType.I64, DType.BOOL: ScalarType.PRED}
"""Types of elements that are loaded as scalars."""


def _limited(kernel: Kernel, stmt: Stmt) -> Iterator[str]:
    """Limits of rows and columns, and rows by index. A line may be farther off than 32 bits."""
    far = (ScalarType.I64,) if isinstance(stmt, FragBelow) else ()
    limit, index = getattr(stmt, "limit", None), getattr(stmt, "index", None)
    tile = getattr(stmt, "value", getattr(stmt, "out", None))
    for most, what in ((limit, "rows"), (getattr(stmt, "limit_cols", None), "columns")):
        if isinstance(most, Expr) and type_of(most) not in (ScalarType.I32, *far):
            yield f"limit {most} is {type_of(most).value}, {what} are counted in i32"
    if isinstance(stmt, FragStoreGlobal):
        yield from _columns(kernel, stmt)
    if isinstance(index, Frag) and isinstance(tile, Frag):
        wanted = FragmentType(DType.S32, tile.type.rows, 1, layout=tile.type.layout)
        if index.type != wanted:
            yield f"{index.name} is {index.type}, an index of {tile.type.rows} rows is {wanted}"
    stored = isinstance(stmt, FragStoreGlobal)
    if getattr(stmt, "trans", False) and (index is not None or (limit is not None and not stored)):
        yield f"{stmt.OP}, transposed, of rows {'' if stored else 'up to a limit or '}by index"


def _columns(kernel: Kernel, stmt: FragStoreGlobal) -> Iterator[str]:
    """Pairs of columns have no limit, which may lie between two of them."""
    g = kernel.find(GlobalTensor, stmt.dst.map)
    if stmt.limit_cols is not None and g is not None and g.pairs and not stmt.trans:
        yield f"columns up to a limit of {g.name}, which is stored by pairs of them"


def _stored(kernel: Kernel, stmt: StGlobalScalar) -> Iterator[str]:
    g = kernel.find(GlobalTensor, stmt.dst.map)
    if g is not None and g.dtype is not DType.S32:
        yield f"{g.name} holds {g.dtype.value}, scalars are stored of s32"
    if type_of(stmt.value) is not ScalarType.I32:
        yield f"{stmt.value} is {type_of(stmt.value).value}, s32 is stored from i32"


def _scalar(kernel: Kernel, stmt: LdGlobalScalar) -> Iterator[str]:
    for what, found, legal in (
        ("order", stmt.order, LOAD_ORDERS), ("uniformity", stmt.uniform, UNIFORM),
    ):  # fmt: skip
        if found not in legal:
            yield f"no {what} of {stmt.OP} named {found}, but {', '.join(legal)}"
    if stmt.uniform == "cta" and stmt.order != "weak":
        yield f"{stmt.order} reads what others write, so not all warps of a CTA get the same"
    g = kernel.find(GlobalTensor, stmt.src.map)
    if g is None:
        return
    if g.dtype not in LOADED:
        known = ", ".join(d.value for d in LOADED)
        yield f"{g.name} holds {g.dtype.value}, scalars are loaded of {known}"
    elif LOADED[g.dtype] is not stmt.out.type:
        wanted = LOADED[g.dtype].value
        yield f"{stmt.out.name} is {stmt.out.type.value}, of {g.name} it is {wanted}"


RULES = (
    about(_scalar, LdGlobalScalar),
    about(_stored, StGlobalScalar),
    with_field(_limited, "limit", "limit_cols", "index"),
)
"""Of statements that read and write global memory."""
