"""Which tensors in global memory an epilogue reads, which of them TMA loads, and its chunks."""

from __future__ import annotations

from wsched.fusion import (
    BroadcastOp,
    DataType,
    Fusion,
    computed_inputs,
    inputs_of,
    the_products,
)
from wsched.schedule.matmul.chunks import chunk_columns
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.reductions import Reductions

__all__ = [
    "MAX_LOADED", "epilogue_columns", "epilogue_inputs", "loaded_inputs", "loaded_types",
    "matrix_inputs",
]  # fmt: skip

MAX_LOADED = 3
"""Each of them has a warp of the load warpgroup; one of the four loads the operands."""


def epilogue_inputs(fusion: Fusion) -> tuple[str, ...]:
    """What the epilogue reads before it is scheduled: inputs [M, N] and views of smaller ones."""
    order = [e.output for e in fusion.exprs]
    after = fusion.exprs[order.index(the_products(fusion)[-1].mma.output) + 1 :]
    made = set(order) - {e.output for e in fusion.exprs if isinstance(e, BroadcastOp)}
    return tuple(dict.fromkeys(name for e in after for name in inputs_of(e) if name not in made))


def matrix_inputs(fusion: Fusion) -> tuple[str, ...]:
    """Those that are matrices of the result's size and can have a load warp, in order.

    A matrix of Bool has none: a byte for each element is little to load, and threads hold
    conditions, which neither ``ldmatrix`` nor loads of packed elements give.
    """
    inputs = {b.tensor for b in fusion.inputs if b.dtype is not DataType.Bool}
    return tuple(name for name in epilogue_inputs(fusion) if name in inputs)[:MAX_LOADED]


def loaded_inputs(fusion: Fusion, params: MatmulParams) -> tuple[str, ...]:
    """Those that the load warpgroup loads by TMA; threads read the others themselves."""
    most = MAX_LOADED - int(params.dynamic)  # a warp that fetches tiles loads nothing
    most -= params.mma_macro.target.tensor_memory is not None  # nor one that issues products
    most -= bool(computed_inputs(fusion))  # whose two operands fill a ring each
    return matrix_inputs(fusion)[:most] if params.loads_epilogue_inputs else ()


def loaded_types(fusion: Fusion, params: MatmulParams) -> tuple[DataType, ...]:
    """Element types of :func:`loaded_inputs`."""
    return tuple(fusion.tensor(name).dtype for name in loaded_inputs(fusion, params))


def epilogue_columns(fusion: Fusion, params: MatmulParams) -> int:
    """Columns of a chunk, the same for all that the epilogue reads and writes."""
    results = (fusion.tensor(b.tensor).dtype for b in fusion.matrices)
    loaded = loaded_types(fusion, params)
    return chunk_columns(params, *results, *loaded, *Reductions.of(fusion).types)
