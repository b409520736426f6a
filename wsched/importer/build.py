"""From a definition to the canonical fusion of a matmul.

nvFuser computes a linear or matmul as broadcast, mma with an fp32 accumulator, and a cast to the
operation's type. Where the next operation casts that result to fp32, the pair of casts is folded
and the reader sees the accumulator unrounded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lowering.errors import UnsupportedError
from lowering.ir.expr import Expr, Var
from wsched.fusion import (
    BroadcastOp,
    CastOp,
    DataType,
    Fusion,
    FusionExpr,
    IterDomain,
    IterType,
    MemoryType,
    MmaOp,
    TensorBinding,
    TensorView,
)
from wsched.importer.definition import Definition, Node, Ref
from wsched.importer.layout import Result, in_memory, moves_no_data, operand_axes, result_layout

__all__ = ["build_fusion"]

_SUPPORTED = (
    "fd.ops.linear or fd.ops.matmul of two 2-D tensors, bf16 or fp16, and fd.ops.cast of its "
    "result to bf16, fp16 or fp32"
)
_OPERAND_TYPES = (DataType.BFloat16, DataType.Half)
_RESULT_TYPES = (DataType.BFloat16, DataType.Half, DataType.Float)


@dataclass(frozen=True, slots=True)
class _Operand:
    """An input of the fusion as one side of the matmul.

    ``axes`` are in the caller's order, ``memory`` has the contiguous one last.
    """

    node: Node
    axes: tuple[str, str]
    memory: tuple[str, str]

    @property
    def name(self) -> str:
        return self.node.results[0]


def build_fusion(definition: Definition) -> Fusion:
    """The fusion of a definition: one matmul, then casts.

    Extents are the symbols M, N and K (``i32``); sizes that the definition fixes are kept in the
    bindings. Operand tensors are [M, K] and [N, K] in the fusion; an MN-major one has an
    ``allocation``. Results are stored row by row; one that is wanted by columns is computed as
    [N, M], with the operands exchanged.

    Raises:
        UnsupportedError: an operation, type, rank, layout or use that is not supported.
    """
    matmul, casts, result = _chain(definition)
    a, b = _operands(definition, matmul)
    inputs = tuple(_binding(n, a, b) for n in _used_inputs(definition, a, b))
    sizes = _sizes(matmul, inputs)
    steps = _rounding(_dtype(a.node), casts)
    left, right = (a, b) if result.memory == ("M", "N") else (b, a)
    tensors, exprs, next_id = _tensors(inputs, left, right, steps)
    shape = tuple(sizes[axis] for axis in result.axes)
    out = TensorBinding(tensors[-1].name, result.axes, shape, tensors[-1].dtype)
    inputs = tuple(replace(b, tensor=t.name) for b, t in zip(inputs, tensors, strict=False))
    return Fusion(inputs, (out,), tensors, exprs, next_id)


def _chain(definition: Definition) -> tuple[Node, tuple[DataType, ...], Result]:
    """The matmul, the types that its result is cast to, first to last, and its layout."""
    if len(definition.outputs) != 1:
        raise UnsupportedError(f"a fusion with {len(definition.outputs)} outputs", "one output")
    casts: list[DataType] = []
    moves: list[Node] = []
    name = definition.outputs[0]
    while True:
        node = definition.node(name)
        if node is None or node.op in ("define_tensor", "define_scalar"):
            raise UnsupportedError(f"the output {name}, which is an input,", _SUPPORTED)
        if node.op in ("linear", "matmul"):
            return node, tuple(reversed(casts)), result_layout(moves[::-1])
        to = node.get("dtype", node.operands[1] if len(node.operands) > 1 else None)
        match node.op, node.operands[:1]:
            case "cast", (Ref(source),) if isinstance(to, DataType):
                if to not in _RESULT_TYPES:
                    raise UnsupportedError(f"fd.ops.cast to DataType.{to}", _SUPPORTED)
                casts.append(to)
                name = source
            case _, (Ref(source),) if moves_no_data(node):
                moves.append(node)
                name = source
            case _:
                raise UnsupportedError(f"fd.ops.{node.op}", _SUPPORTED)


def _operands(definition: Definition, matmul: Node) -> tuple[_Operand, _Operand]:
    """Both operands; their axes named, their layout and type checked."""
    call = f"fd.ops.{matmul.op}"
    if len(matmul.operands) + len(matmul.kwargs) != 2:
        with_bias = len(matmul.operands) > 2 or any(k == "bias" for k, _ in matmul.kwargs)
        raise UnsupportedError(f"{call} with {'a bias' if with_bias else 'options'}", _SUPPORTED)
    axes = (("M", "K"), ("N", "K") if matmul.op == "linear" else ("K", "N"))
    named = [*matmul.operands, *(v for _, v in matmul.kwargs)]
    a, b = (_operand(definition, v, x, call) for v, x in zip(named, axes, strict=True))
    if a.name == b.name:
        raise UnsupportedError(f"{call} of {a.name} with itself", "two different tensors")
    if _dtype(a.node) is not _dtype(b.node) or _dtype(a.node) not in _OPERAND_TYPES:
        types = f"{_dtype(a.node)} and {_dtype(b.node)}"
        raise UnsupportedError(f"{call} of {types}", "BFloat16 and BFloat16, Half and Half")
    return a, b


def _operand(definition: Definition, value: object, axes: tuple[str, str], call: str) -> _Operand:
    """The input behind an operand, through transpositions."""
    node = definition.node(value.name) if isinstance(value, Ref) else None
    while node is not None and moves_no_data(node):
        axes = operand_axes(node, axes)
        source = node.operands[0]
        node = definition.node(source.name) if isinstance(source, Ref) else None
    if node is None:
        raise UnsupportedError(f"an operand {value} of {call}", "a tensor")
    if node.op != "define_tensor":
        raise UnsupportedError(f"fd.ops.{node.op} on an operand of {call}", "an input as it is")
    return _Operand(node, axes, in_memory(node, axes, call))


def _dtype(node: Node) -> DataType:
    dtype = node.get("dtype", DataType.Float)
    return dtype if isinstance(dtype, DataType) else DataType.Float


def _used_inputs(definition: Definition, a: _Operand, b: _Operand) -> tuple[Node, ...]:
    """Inputs in the caller's order; all of them must be operands."""
    inputs = tuple(n for n in definition.nodes if n.op in ("define_tensor", "define_scalar"))
    for n in inputs:
        constant = n.op == "define_scalar" and n.operands[:1] not in ((), (None,))
        if n.results[0] not in (a.name, b.name) and not constant:
            what = f"the input {n.results[0]}, which is not an operand,"
            raise UnsupportedError(what, _SUPPORTED)
    return tuple(n for n in inputs if n.results[0] in (a.name, b.name))


def _binding(node: Node, a: _Operand, b: _Operand) -> TensorBinding:
    """How the caller's tensor is passed; tensors are numbered in the caller's order later."""
    operand = a if node.results[0] == a.name else b
    shape = node.get("shape")
    dims = shape if isinstance(shape, tuple) else ()
    sizes = tuple(d if isinstance(d, int) and d >= 0 else None for d in dims)
    return TensorBinding(node.results[0], operand.axes, sizes, _dtype(node))


def _sizes(matmul: Node, inputs: tuple[TensorBinding, ...]) -> dict[str, int | None]:
    """Size of each axis that the definition fixes."""
    found: dict[str, int | None] = {"M": None, "N": None, "K": None}
    for binding in inputs:
        for axis, size in zip(binding.axes, binding.sizes, strict=True):
            if size is not None and found[axis] not in (None, size):
                raise UnsupportedError(
                    f"fd.ops.{matmul.op} with {axis} = {found[axis]} and {size}",
                    f"one size of {axis}",
                )
            found[axis] = found[axis] if size is None else size
    return found


def _rounding(result: DataType, casts: tuple[DataType, ...]) -> tuple[DataType, ...]:
    """Types that the accumulator is rounded to, in order.

    A cast to fp32 right after the matmul is folded with the matmul's own rounding; a widening
    after a rounding is kept, since the rounding has happened.
    """
    steps = casts[1:] if casts[:1] == (DataType.Float,) else (result, *casts)
    kept: list[DataType] = []
    for dtype in steps:
        if dtype is not (kept[-1] if kept else DataType.Float):
            kept.append(dtype)
    return tuple(kept)


class _Domains:
    """Hands out iteration domains with ids in order."""

    def __init__(self) -> None:
        self.next_id = 0

    def make(self, text: str) -> tuple[IterDomain, ...]:
        """Domains from a text such as ``"M bN rK"``."""
        kinds = {"b": IterType.Broadcast, "r": IterType.Reduction}
        made = []
        for word in text.split():
            extent: Expr = Var(word[-1])
            kind = kinds.get(word[0], IterType.Iteration)
            made.append(IterDomain(self.next_id, extent, word[-1], kind))
            self.next_id += 1
        return tuple(made)


def _tensors(
    inputs: tuple[TensorBinding, ...], a: _Operand, b: _Operand, steps: tuple[DataType, ...]
) -> tuple[tuple[TensorView, ...], tuple[FusionExpr, ...], int]:
    """T0, T1 inputs in the caller's order; T2, T3 their broadcasts; T4 the mma; then casts.

    ``a`` has the rows of the result, ``b`` its columns.
    """
    domains, tensors, exprs = _Domains(), list[TensorView](), list[FusionExpr]()
    operand_type = inputs[0].dtype

    def add(dtype: DataType, memory: MemoryType, text: str) -> str:
        made = domains.make(text)
        tensors.append(TensorView(f"T{len(tensors)}", dtype, memory, made, made))
        return tensors[-1].name

    m, n = (next(x for x in operand.axes if x != "K") for operand in (a, b))
    first_is_a = inputs[0].tensor == a.name
    for operand, outer in ((a, m), (b, n)) if first_is_a else ((b, n), (a, m)):
        add(operand_type, MemoryType.Global, f"{outer} K")
        if operand.memory[-1] != "K":
            tensors[-1] = replace(tensors[-1], allocation=tensors[-1].logical[::-1])
    source_a, source_b = ("T0", "T1") if first_is_a else ("T1", "T0")
    view_a = add(operand_type, MemoryType.Global, f"{m} b{n} K")
    view_b = add(operand_type, MemoryType.Global, f"b{m} {n} K")
    exprs.append(BroadcastOp(view_a, source_a, (False, True, False)))
    exprs.append(BroadcastOp(view_b, source_b, (True, False, False)))
    memories = [MemoryType.Local] * len(steps) + [MemoryType.Global]
    last = add(DataType.Float, memories[0], f"{m} {n} rK")
    exprs.append(MmaOp(last, view_a, view_b))
    for dtype, memory in zip(steps, memories[1:], strict=True):
        last, source = add(dtype, memory, f"{m} {n}"), last
        exprs.append(CastOp(last, source))
    return tuple(tensors), tuple(exprs), domains.next_id
