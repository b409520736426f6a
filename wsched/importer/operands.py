"""The operands of matmuls: inputs as they are, or what is computed from one.

An operand that is computed is a cast, a scale, a pointwise operation. The built-in scheduler takes
one for a product, which the threads that multiply compute in registers; schedules that are written
call by call say who computes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError
from lowering.target.mma import MmaForm
from lowering.target.targets import DEFAULT
from wsched.fusion import DataType, type_of
from wsched.fusion.names import BATCH, COLS, HEADS, ROWS, SUMMED
from wsched.importer.definition import Definition, Node, Ref, Value, text_of
from wsched.importer.emit import needed
from wsched.importer.epilogue import STORED, EpilogueImport
from wsched.importer.layout import (
    Axes,
    broadcast_flags,
    in_memory,
    moves_no_data,
    operand_axes,
    shape_of,
)
from wsched.importer.ops import MATMULS
from wsched.importer.steps import Step
from wsched.importer.tf32 import retyped

__all__ = [
    "Computable", "ImportedOperand", "Pair", "dtype_of", "fixed_sizes", "form_of", "operand_pair",
    "product_type",
]  # fmt: skip

_AXES: dict[str, tuple[Axes, Axes]] = {
    "linear": ((ROWS, SUMMED), (COLS, SUMMED)),
    "matmul": ((ROWS, SUMMED), (SUMMED, COLS)),
}
"""The axes of both operands of what multiplies matrices."""

_FLOATS_OF_8_BITS = (DataType.Float8_e4m3fn, DataType.Float8_e5m2)
_OF_8_BITS = (*_FLOATS_OF_8_BITS, DataType.Int8, DataType.UInt8, DataType.UInt4)
_HOLDS = {
    **dict.fromkeys(_FLOATS_OF_8_BITS, (DataType.BFloat16, DataType.Half)),
    **dict.fromkeys((DataType.BFloat16, DataType.Half), (DataType.Float,)),
}
"""Types of matmuls that have every value of an operand's, and of whose products the kernel's are as
exact: of 16 bits these are exact in fp32, of 8 bits sums keep fewer.
"""

_TF32 = (
    "fp32 is multiplied as TF32 where torch may do so (torch.backends.cuda.matmul.allow_tf32 and "
    "its like), or by wsched.with_tf32"
)

_TWICE = (
    "For a kernel alone define two inputs and pass the tensor as both; wsched.execute reads it "
    "twice by itself"
)
_ONCE = "wsched.execute reads what is repeated once, or stores it in front of the kernel"
"""What to do where a kernel alone was asked for: the importer knows operands by their names, and a
kernel reads each of them from memory. A cut gives a tensor a second name, or memory.
"""

_REPEATS = ("expand", "broadcast_in_dim")
"""Operations that make dimensions without memory of their own."""

_BRANCHES = ("log1p", "reciprocal", "sqrt")
"""Operations that are compiled to branches whatever they are of (NVRTC 12.8, each of
``lowering.kernel.pointwise.OPS`` tried); quotients and powers are if the second operand is no
number.
"""

_BATCHES: dict[str, tuple[Axes, ...]] = {
    "linear": ((), (BATCH,)),
    "matmul": ((), (BATCH,), (BATCH, HEADS)),
}
"""What operands may have outside of their matrices; one of them all of it, the other the inner
ones, or without those that a ``broadcast`` in front of it makes. ``linear`` has it of its first
operand.
"""


@dataclass(frozen=True, slots=True)
class ImportedOperand:
    """One side of a matmul.

    What it is computed of may be, beside its matrix, vectors with a number for each row.

    Args:
        node: the input that it is, or that it is computed from.
        name: of the operand in the definition: of the input, or of what is computed.
        axes: of the input in the caller's order.
        memory: the same in the order of memory, the contiguous one last.
        dtype: of the operand.
        wide: the type to which the definition casts it first, which the kernel need not do: the
            matrix instruction takes the operand as it is; else ``dtype``.
        steps: what computes it, in order, the operand last; none of an input as it is.
    """

    node: Node
    name: str
    axes: Axes
    memory: Axes
    dtype: DataType
    wide: DataType
    steps: tuple[Step, ...] = ()

    @property
    def input(self) -> str:
        """Name of the input."""
        return self.node.results[0]


Pair = tuple[ImportedOperand, ImportedOperand]


class Computable(Enum):
    """Which operands of a product may be computed."""

    NONE = "inputs as they are"
    ONE = "one operand that is computed, as the built-in scheduler takes it"
    ANY = "any, for a schedule by calls, which says who computes them"


def operand_pair(definition: Definition, matmul: Node, computable: Computable) -> Pair:
    """Both operands; their axes named, their layout and type checked.

    Two that are cast to a type that has all their values, fp32 among them, are the inputs as they
    are, but for a schedule by calls.

    Args:
        definition: where they are.
        matmul: what multiplies them.
        computable: which of them may be computed.

    Raises:
        UnsupportedError: otherwise, with what is supported.
    """
    call = f"fd.ops.{matmul.op}"
    named = matmul.factors
    if len(named) != 2:
        raise UnsupportedError(f"{call} with {len(named)} operands", "two operands")
    outer = [max(_rank(definition, v) - 2, 0) for v in named]
    most = max(outer) if matmul.op == "matmul" else outer[0]
    if most > 1 and min(outer) == 0:  # beside a matrix all are rows, which is for who cuts to say
        most = 1
    batches = _BATCHES[matmul.op][-1]
    batches = next((x for x in _BATCHES[matmul.op] if len(x) == most), batches)
    own = [batches[len(batches) - n :] if n <= len(batches) else batches for n in outer]
    own = own if matmul.op == "matmul" else [own[0], ()]
    whole = [(*outside, *axes) for outside, axes in zip(own, _AXES[matmul.op], strict=True)]
    wide = None if computable is Computable.ANY else _widened(definition, named)
    a, b = (
        _operand(definition, v, axes, call, computable is not Computable.NONE, wide)
        for v, axes in zip(named, whole, strict=True)
    )
    _require_batch(call, a, b)
    a, b = _read_as(a, b), _read_as(b, a)
    if a.name == b.name:
        raise UnsupportedError(f"{call} of {a.name} with itself", "two different tensors", _TWICE)
    form_of(call, a, b)
    if a.steps and b.steps and computable is Computable.ONE:
        what = f"{call} of {a.name} and {b.name}, which are both computed,"
        raise UnsupportedError(what, Computable.ONE.value)
    for x in (a, b) if computable is Computable.ONE else ():
        _require_straight(call, x)
    return a, b


def _read_as(x: ImportedOperand, beside: ImportedOperand) -> ImportedOperand:
    """An input of fp32 beside an operand of TF32, which says how both are multiplied."""
    if x.steps or x.dtype is beside.dtype or x.dtype is not beside.dtype.made:
        return x
    return replace(x, node=retyped(x.node, beside.dtype), dtype=beside.dtype, wide=beside.wide)


def form_of(call: str, a: ImportedOperand, b: ImportedOperand) -> MmaForm:
    """How the matrix instruction multiplies them.

    Raises:
        UnsupportedError: it does not.
    """
    stored = a.dtype.is_stored and b.dtype.is_stored
    found = DEFAULT.mma.multiplying(a.dtype.element, b.dtype.element) if stored else None
    if found is None:
        wide = a.dtype is b.dtype is DataType.Float
        kinds = (f"{x.dtype} ({x.name})" if x.steps else f"{x.dtype}" for x in (a, b))
        what = f"{call} of {' and '.join(kinds)}"
        raise UnsupportedError(what, _products(), _TF32 * wide)
    return found


def product_type(a: DataType, b: DataType) -> DataType:
    """The type of what a linear or matmul of such operands makes: the first one's, but of integers
    that of their sums.
    """
    stored = a.is_stored and b.is_stored
    found = DEFAULT.mma.accumulator(a.element, b.element) if stored else None
    return a.made if found in (None, DType.F32) else type_of(found)


def _products() -> str:
    """Which types are multiplied, in words."""
    names = {d.element: d.name for d in DataType if d.is_stored}
    sets = ([names[d] for d in f.operands if d in names] for f in DEFAULT.mma.forms)
    return f"pairs of {'; of '.join(', '.join(found) for found in sets if found)}"


def _widened(definition: Definition, values: Sequence[object]) -> DataType | None:
    """The type to which both operands are cast that could be multiplied as they are: the cast is
    exact and so are its products, so that the kernel need not make it; None where they are not.
    """
    found = [_widens(definition, v) for v in values]
    kinds = [x for x in found if x is not None]
    if len(kinds) < len(found) or len({wide for _, wide in kinds}) > 1:
        return None
    (first, wide), (second, _) = kinds
    multiplied = DEFAULT.mma.multiplying(first.element, second.element)
    return None if multiplied is None else wide


def _widens(definition: Definition, value: object) -> tuple[DataType, DataType] | None:
    """The type of an input that is cast to one that has all its values, and that one."""
    node = definition.node(value.name) if isinstance(value, Ref) else None
    wide: Value = None
    while node is not None and (_is_looked_at(node) or (node.op == "cast" and wide is None)):
        if node.op == "cast":
            wide = node.get("dtype")
        source = node.operands[0]
        node = definition.node(source.name) if isinstance(source, Ref) else None
    if node is None or node.op != "define_tensor" or not isinstance(wide, DataType):
        return None
    narrow = dtype_of(node)
    return (narrow, wide) if wide in _HOLDS.get(narrow, ()) else None


def _operand(
    definition: Definition, value: object, axes: Axes, call: str, computed: bool,
    wide: DataType | None,
) -> ImportedOperand:  # fmt: skip
    """An operand of these axes, through transpositions; and through the cast to ``wide``."""
    node = definition.node(value.name) if isinstance(value, Ref) else None
    while node is not None and (_is_looked_at(node) or (wide is not None and node.op == "cast")):
        axes = operand_axes(node, axes)
        source = node.operands[0]
        node = definition.node(source.name) if isinstance(source, Ref) else None
    if node is None:
        raise UnsupportedError(f"an operand {value} of {call}", "a tensor")
    if node.op == "define_tensor":
        memory = in_memory(node, axes, call)
        dtype = dtype_of(node)
        return ImportedOperand(node, node.results[0], axes, memory, dtype, wide or dtype)
    if node.op in _REPEATS:
        repeated = f"{call} of {node.results[0]}, which fd.ops.{node.op} repeats,"
        raise UnsupportedError(repeated, "an input as it is, or one matrix for all batches", _ONCE)
    if not computed or node.op in MATMULS:
        made = f"{call} of {node.results[0]}, which fd.ops.{node.op} makes,"
        raise UnsupportedError(made, "an input as it is")
    return _computed(definition, node, axes, call)


def _is_looked_at(node: Node) -> bool:
    """Whether an operand is what an operation reads: moved, or the same for more batches."""
    return moves_no_data(node) or node.op == "broadcast"


class _OperandImport(EpilogueImport):
    """The steps of an operand, which may be of 8 bits before they are cast."""

    LOADED = (*STORED, *_OF_8_BITS)
    ROUNDED = ()


def _computed(definition: Definition, node: Node, axes: Axes, call: str) -> ImportedOperand:
    """What is computed from one matrix, element by element, with vectors of a number for each of
    its rows.
    """
    name = node.results[0]
    of = f"{call} of {name}, which is computed"
    made = _OperandImport(definition, {}, DataType.Float, axes, f"for the operand {name} of {call}")
    rank = made.ranks.of(Ref(name))
    if rank != len(axes):
        raise UnsupportedError(f"{of} and has {rank} dimensions", shape_of(axes))
    step = made.operand(Ref(name), axes)
    inputs = [s for s in needed(step) if s.op == "input"] if isinstance(step, Step) else []
    whole = [s for s in inputs if s.spread == set(axes)]
    source = definition.node(whole[0].source) if len(whole) == 1 else None
    if not isinstance(step, Step) or source is None:
        count = f"{len(whole)} matrices" if whole else f"no matrix {shape_of(axes)}"
        given = {s.source for s in whole or inputs}
        named = [n.results[0] for n in definition.inputs if n.results[0] in given]
        what = f"{of} of {' and '.join(named) or 'numbers'}, {count},"
        raise UnsupportedError(what, "of one matrix, a number for each of its rows, and numbers")
    for s in inputs:
        if s not in whole and SUMMED in s.spread:
            what = f"{of} with {s.source}, which differs along {SUMMED}"
            raise UnsupportedError(what, f"of one matrix and what is the same along {SUMMED}")
    memory = in_memory(source, axes, call)
    if (axes[-1], memory) != (SUMMED, axes):
        raise UnsupportedError(
            f"{of} of {source.results[0]} with {memory[-1]} contiguous",
            f"of matrices of which {SUMMED} is",
        )
    steps = tuple(s for s in made.steps if s in needed(step))
    return ImportedOperand(source, name, axes, memory, step.dtype, step.dtype, steps)


def _require_straight(call: str, x: ImportedOperand) -> None:
    """Between wgmmas that are in flight ptxas takes no branches or calls (warning C7513: all of
    them would wait for each other); some operations are compiled to such.
    """
    for s in x.steps:
        divides = s.op in ("div", "pow") and isinstance(s.inputs[1], Step)
        if divides or s.op in _BRANCHES:
            what = f"{call} of {x.name}, for which fd.ops.{s.op} is computed,"
            raise UnsupportedError(what, "operations without branches, and numbers as divisors")


def _require_batch(call: str, *operands: ImportedOperand) -> None:
    """One batch is not repeated along another: one matrix is, where an operand is that."""
    axes = {axis for x in operands for axis in x.axes}
    if HEADS in axes and BATCH not in axes:
        what = f"{call} of {' and '.join(x.name for x in operands)}, which have no batch in common,"
        raise UnsupportedError(what, "a batch of one")
    for name in (BATCH, HEADS):
        bound = [(x, dict(zip(x.axes, fixed_sizes(x.node), strict=False))) for x in operands]
        sizes = [(x, found[name]) for x, found in bound if name in found]
        ones = [x for x, size in sizes if size == 1]
        others = [x for x, size in sizes if size != 1]
        if ones and others:
            one = f"{ones[0].name} with shape {text_of(ones[0].node.get('shape'))}"
            raise UnsupportedError(
                f"{call} of {one}, which has one batch for several of {others[0].name},",
                "batches of the same size, or a matrix",
            )


def _rank(definition: Definition, value: object) -> int:
    """Number of dimensions of an operand, by the input behind it; 0 if that is not known."""
    node = definition.node(value.name) if isinstance(value, Ref) else None
    made = 0
    while node is not None and node.op not in ("define_tensor", *MATMULS):
        made += sum(broadcast_flags(node)) if node.op == "broadcast" else 0
        refs = [v for v in node.values if isinstance(v, Ref)]
        node = definition.node(refs[0].name) if refs else None
    shape = node.get("shape") if node is not None else None
    return made + len(shape) if isinstance(shape, tuple) else 0


def dtype_of(node: Node) -> DataType:
    """The type of an input."""
    dtype = node.get("dtype", DataType.Float)
    return dtype if isinstance(dtype, DataType) else DataType.Float


def fixed_sizes(node: Node) -> tuple[int | None, ...]:
    """The sizes that a definition fixes, None for the others."""
    shape = node.get("shape")
    dims = shape if isinstance(shape, tuple) else ()
    return tuple(d if isinstance(d, int) and d >= 0 else None for d in dims)
