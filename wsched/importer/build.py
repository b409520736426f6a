"""From a definition to the canonical fusion of a matmul, or of several that share an operand.

nvFuser computes a linear or matmul as broadcast, mma with an fp32 accumulator, and a cast to the
operation's type; what follows is the epilogue (:mod:`wsched.importer.epilogue`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType, Fusion, TensorBinding
from wsched.fusion.names import BATCH, COLS, EXTENTS, HEADS, ROWS, SUMMED, in_order
from wsched.importer.definition import Definition, Node, Ref
from wsched.importer.emit import emit_fusion, needed
from wsched.importer.epilogue import EpilogueImport
from wsched.importer.layout import (
    Axes,
    Result,
    in_memory,
    moves_no_data,
    operand_axes,
    result_layout,
)
from wsched.importer.lists import part_of, parts_of, side_by_side
from wsched.importer.missing import unknown_op
from wsched.importer.reductions import reduced_result
from wsched.importer.steps import REDUCED, Step
from wsched.importer.sums import summands
from wsched.importer.text.signatures import known_ops

__all__ = ["build_fusion"]

_OPERAND_TYPES = (DataType.BFloat16, DataType.Half)
_AXES: dict[str, tuple[Axes, Axes]] = {
    "linear": ((ROWS, SUMMED), (COLS, SUMMED)),
    "matmul": ((ROWS, SUMMED), (SUMMED, COLS)),
}
_BATCHES: dict[str, tuple[Axes, ...]] = {
    "linear": ((), (BATCH,)),
    "matmul": ((), (BATCH,), (BATCH, HEADS)),
}
"""What operands may have outside of their matrices; one of them all of it, the other the inner
ones. ``linear`` has it of its first operand.
"""


@dataclass(frozen=True, slots=True)
class _Operand:
    """An input of the fusion as one side of the matmul.

    ``axes`` are in the caller's order, ``memory`` has the contiguous one last.
    """

    node: Node
    axes: Axes
    memory: Axes

    @property
    def name(self) -> str:
        return self.node.results[0]


_Pair = tuple[_Operand, _Operand]


def build_fusion(definition: Definition) -> Fusion:
    """The fusion of a definition: a matmul, then pointwise operations.

    Several matmuls are one fusion if they share an operand and their results meet in an output;
    they have the same extents then. So are several that share an operand and are read by the same
    operations each, whose results do not meet (:mod:`wsched.importer.lists`), and two that share
    none and are added (:mod:`wsched.importer.sums`).

    Extents are the symbols M, N and K (``i32``); sizes that the definition fixes are kept in the
    bindings. Operand tensors are [M, K] and [N, K] in the fusion; an MN-major one has an
    ``allocation``. Inputs of the epilogue are [M, N], [M], [N] or [], outputs [M, N], or reductions
    of that over rows, columns or both. Results are
    stored row by row; if they are wanted by columns, [N, M] is computed with the operands
    exchanged. Where an operand has a batch dimension B, results have it, too, outside of the
    others; what has none is the same for all of the batch.

    Raises:
        UnsupportedError: an operation, type, rank, layout or use that is not supported.
    """
    definition.check_complete()
    apart = parts_of(definition, _matmuls(definition))
    if len(apart) == 1:
        apart = tuple(part_of(d, d.outputs) for d in summands(definition))
    found = side_by_side(definition, apart, _built(apart)) if apart else None
    return found or _build(definition)


def _built(parts: tuple[Definition, ...]) -> tuple[Fusion, ...]:
    """The fusion of each part; none where one has none, which the whole is refused for."""
    try:
        return tuple(map(_build, parts))
    except UnsupportedError:
        return ()


def _build(definition: Definition) -> Fusion:
    """The fusion of a definition whose results meet."""
    matmuls = _matmuls(definition)
    pairs = [_operands(definition, node) for node in matmuls]
    operands = _alike(matmuls, pairs)
    a, b = pairs[0]
    dims = in_order({*a.axes, *b.axes} - {SUMMED})
    products = _products(matmuls, pairs)
    epilogue = EpilogueImport(definition, products, _dtype(a.node), dims)
    made = [_output(definition, epilogue, name, dims) for name in definition.outputs]
    outputs, layouts = [step for step, _ in made], [layout for _, layout in made]
    _require_meeting(set(products.values()), outputs)
    inputs = tuple(_bindings(definition, operands, epilogue.steps))
    sizes = _sizes(matmuls[0], inputs)
    mn_major = {x.name for x in operands.values() if x.memory[-1] != SUMMED}
    matrices = [x for s, x in made if s.op not in REDUCED]
    memory = _one_order(matrices) if matrices else dims
    turn = 1 if memory == dims else -1
    names = {
        node.results[0]: (left.name, right.name)
        for node, (left, right) in zip(matmuls, (p[::turn] for p in pairs), strict=True)
        if node.results[0] in products.values()
    }
    emitted = emit_fusion(inputs, names, epilogue.steps, outputs, memory, mn_major)
    bound = tuple(
        TensorBinding(t.name, x.axes, tuple(1 if a == "1" else sizes[a] for a in x.axes), t.dtype)
        for t, x in zip(emitted.outputs, layouts, strict=True)
    )
    inputs = tuple(replace(b, tensor=f"T{n}") for n, b in enumerate(inputs))
    return Fusion(inputs, bound, emitted.tensors, emitted.exprs, emitted.next_id)


def _output(
    definition: Definition, epilogue: EpilogueImport, name: str, dims: Axes
) -> tuple[Step, Result]:
    """The step of an output, and how it lies in memory."""
    found = reduced_result(definition, name, dims)
    if found is not None:
        return epilogue.reduction(found), Result(found.axes, found.axes)
    source, layout = _result(definition, name, dims)
    return epilogue.output(source), layout


def _result(definition: Definition, name: str, dims: Axes) -> tuple[str, Result]:
    """What an output is before the operations at its end that move no data, and its layout."""
    moves: list[Node] = []
    while (node := definition.node(name)) is not None and moves_no_data(node):
        source = node.operands[0]
        if not isinstance(source, Ref):
            break
        moves.append(node)
        name = source.name
    return name, result_layout(moves[::-1], dims)


def _one_order(layouts: list[Result]) -> Axes:
    """The order in memory that all results have."""
    orders = {x.memory for x in layouts}
    if len(orders) > 1:
        raise UnsupportedError("results by rows and by columns", "one order for all results")
    return orders.pop()


def _matmuls(definition: Definition) -> tuple[Node, ...]:
    """The linears and matmuls that outputs depend on, in the order of the definition."""
    pending, found = list(definition.outputs), dict[str, Node]()
    while pending:
        node = definition.node(pending.pop())
        if node is not None and node.results[0] not in found:
            found[node.results[0]] = node
            pending += [v.name for v in node.values if isinstance(v, Ref)]
    if not definition.outputs:
        raise UnsupportedError("a fusion without outputs", "one output or more")
    for node in found.values():
        if node.op not in known_ops() and not node.op.startswith("define_"):
            raise unknown_op(node)
    matmuls = tuple(n for n in definition.nodes if n.op in _AXES and n.results[0] in found)
    if not matmuls:
        raise _several(0)
    return matmuls


def _several(count: int, which: str = "") -> UnsupportedError:
    supported = "one of them" + (", or several of one operand that meet" if count else "")
    what = f"a fusion with {count or 'no'} fd.ops.linear or fd.ops.matmul{which}"
    return UnsupportedError(what, supported)


def _alike(matmuls: tuple[Node, ...], pairs: list[_Pair]) -> dict[str, _Operand]:
    """All operands by their names, those that have the rows first.

    Raises:
        UnsupportedError: the matmuls have no operand in common, on the same side; or operands of
            one side differ in type, dimensions or layout.
    """
    sides = [{x.name: x for x in side} for side in zip(*pairs, strict=True)]
    if all(len(side) > 1 for side in sides):
        raise _several(len(matmuls), " with no operand in common")
    for side in sides:
        if len({(x.axes, x.memory, _dtype(x.node)) for x in side.values()}) > 1:
            raise _several(len(matmuls), f" of {' and '.join(side)}, which lie or are typed apart")
    if twice := sides[0].keys() & sides[1].keys():
        raise _several(len(matmuls), f" with {', '.join(twice)} on both sides")
    return sides[0] | sides[1]


def _products(matmuls: tuple[Node, ...], pairs: list[_Pair]) -> dict[str, str]:
    """Each matmul's name, with that of the first that has the same operands."""
    first: dict[tuple[str, str], str] = {}
    found = {}
    for node, (left, right) in zip(matmuls, pairs, strict=True):
        name = node.results[0]
        found[name] = first.setdefault((left.name, right.name), name)
    return found


def _require_meeting(products: set[str], outputs: list[Step]) -> None:
    """Each product meets the others in what an output is computed from, so that extents agree."""
    sets = [{s.source for s in needed(x) if s.op == "mma"} for x in outputs]
    joined, left = sets[0], sets[1:]
    while met := [s for s in left if s & joined]:
        joined = joined.union(*met)
        left = [s for s in left if s not in met]
    if joined != products:
        raise _several(len(products), " whose results do not meet")


def _operands(definition: Definition, matmul: Node) -> _Pair:
    """Both operands; their axes named, their layout and type checked."""
    call = f"fd.ops.{matmul.op}"
    named = [*matmul.operands, *(v for k, v in matmul.kwargs if k != "bias")][:2]
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
    names = zip(named, own, _AXES[matmul.op], strict=True)
    a, b = (_operand(definition, v, (*outside, *axes), call) for v, outside, axes in names)
    _require_batch(call, a, b)
    if a.name == b.name:
        raise UnsupportedError(f"{call} of {a.name} with itself", "two different tensors")
    if _dtype(a.node) is not _dtype(b.node) or _dtype(a.node) not in _OPERAND_TYPES:
        types = f"{_dtype(a.node)} and {_dtype(b.node)}"
        raise UnsupportedError(f"{call} of {types}", "BFloat16 and BFloat16, Half and Half")
    return a, b


def _operand(definition: Definition, value: object, axes: Axes, call: str) -> _Operand:
    """The input behind an operand of these axes, through transpositions."""
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


def _require_batch(call: str, *operands: _Operand) -> None:
    """One batch is not repeated along another: one matrix is, where an operand is that."""
    for name in (BATCH, HEADS):
        bound = [dict(zip(x.axes, _fixed(x.node), strict=False)) for x in operands]
        sizes = [found[name] for found in bound if name in found]
        if 1 in sizes and set(sizes) != {1}:
            raise UnsupportedError(
                f"{call} of a batch of 1 and a larger one", "batches of the same size, or a matrix"
            )


def _rank(definition: Definition, value: object) -> int:
    """Number of dimensions of the input behind operations that move no data; 0 if there is none."""
    node = definition.node(value.name) if isinstance(value, Ref) else None
    while node is not None and moves_no_data(node):
        source = node.operands[0]
        node = definition.node(source.name) if isinstance(source, Ref) else None
    shape = node.get("shape") if node is not None else None
    return len(shape) if isinstance(shape, tuple) else 0


def _dtype(node: Node) -> DataType:
    dtype = node.get("dtype", DataType.Float)
    return dtype if isinstance(dtype, DataType) else DataType.Float


def _bindings(
    definition: Definition, operands: dict[str, _Operand], steps: list[Step]
) -> Iterator[TensorBinding]:
    """How the caller's tensors are passed, in the order of the definition, by their names there."""
    read = {s.source: s for s in steps if s.op == "input"}
    for node in definition.nodes:
        name = node.results[0]
        constant = node.op == "define_scalar" and node.operands[:1] not in ((), (None,))
        if node.op not in ("define_tensor", "define_scalar") or constant:
            continue
        if name in operands:
            if name in read:
                raise UnsupportedError(
                    f"{name} as operand of the matmul and in the epilogue", "one way to read it"
                )
            yield TensorBinding(name, operands[name].axes, _fixed(node), _dtype(node))
        elif name in read:
            step = read[name]
            sizes = tuple(
                1 if axis == "1" else size
                for axis, size in zip(step.axes, _fixed(node), strict=True)
            )
            yield TensorBinding(name, step.axes, sizes, step.dtype)
        else:
            raise UnsupportedError(
                f"the input {name}, which nothing reads,", "inputs that are read"
            )


def _fixed(node: Node) -> tuple[int | None, ...]:
    """The sizes that a definition fixes, None for the others."""
    shape = node.get("shape")
    dims = shape if isinstance(shape, tuple) else ()
    return tuple(d if isinstance(d, int) and d >= 0 else None for d in dims)


def _sizes(matmul: Node, inputs: tuple[TensorBinding, ...]) -> dict[str, int | None]:
    """Size of each axis that the definition fixes."""
    found: dict[str, int | None] = dict.fromkeys(EXTENTS)
    for binding in inputs:
        for axis, size in zip(binding.axes, binding.sizes, strict=True):
            if axis == "1":
                continue
            if size is not None and found[axis] not in (None, size):
                raise UnsupportedError(
                    f"fd.ops.{matmul.op} with {axis} = {found[axis]} and {size}",
                    f"one size of {axis}",
                )
            found[axis] = found[axis] if size is None else size
    return found
