"""The fusion IR: immutable tensors, iteration domains and the expressions between them."""

from __future__ import annotations

from wsched.fusion.domain import (
    IterDomain,
    Merge,
    Split,
    Transform,
    merge_index,
    split_extents,
    unmerge_index,
)
from wsched.fusion.expr import (
    BroadcastOp,
    CastOp,
    FusionExpr,
    IndexOp,
    LoadStoreOp,
    MmaOp,
    PointwiseOp,
    ReductionOp,
    Scale,
    Scales,
    inputs_of,
    rewire,
)
from wsched.fusion.exprs import Exprs
from wsched.fusion.fusion import Entry, Fusion, TensorBinding
from wsched.fusion.groups import Groups
from wsched.fusion.history import History
from wsched.fusion.primitive_call import PrimitiveCall, call_text
from wsched.fusion.product import (
    Product,
    Role,
    computed_inputs,
    operands_of,
    product_of,
    products,
    prologue,
    the_matmul,
    the_products,
)
from wsched.fusion.rounding import Rounding, roundings
from wsched.fusion.tensor import (
    CircularBuffer,
    CircularBufferType,
    Pipelined,
    TensorView,
    WarpSpecialized,
    roots,
)
from wsched.fusion.text import (
    buffer_text,
    fusion_text,
    history_text,
    loop_text,
    nest_text,
    type_text,
)
from wsched.fusion.types import (
    BOX,
    DataType,
    IterType,
    LoadStoreOpType,
    MemoryType,
    ParallelType,
    type_of,
)
from wsched.fusion.unknown import Unknown

__all__ = [
    "BOX",
    "BroadcastOp",
    "CastOp",
    "CircularBuffer",
    "CircularBufferType",
    "DataType",
    "Entry",
    "Exprs",
    "Fusion",
    "FusionExpr",
    "Groups",
    "History",
    "IndexOp",
    "IterDomain",
    "IterType",
    "LoadStoreOp",
    "LoadStoreOpType",
    "MemoryType",
    "Merge",
    "MmaOp",
    "ParallelType",
    "Pipelined",
    "PointwiseOp",
    "PrimitiveCall",
    "Product",
    "ReductionOp",
    "Role",
    "Rounding",
    "Scale",
    "Scales",
    "Split",
    "TensorBinding",
    "TensorView",
    "Transform",
    "Unknown",
    "WarpSpecialized",
    "buffer_text",
    "call_text",
    "computed_inputs",
    "fusion_text",
    "history_text",
    "inputs_of",
    "loop_text",
    "merge_index",
    "nest_text",
    "operands_of",
    "product_of",
    "products",
    "prologue",
    "rewire",
    "roots",
    "roundings",
    "split_extents",
    "the_matmul",
    "the_products",
    "type_of",
    "type_text",
    "unmerge_index",
]
