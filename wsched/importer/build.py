"""From a definition to the canonical fusion of a matmul, or of several that share an operand.

nvFuser computes a linear or matmul as broadcast, mma with an fp32 accumulator, and a cast to the
operation's type; what follows is the epilogue (:mod:`wsched.importer.epilogue`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType, Fusion, TensorBinding, type_of
from wsched.fusion.names import BATCH, EXTENTS, HEADS, SUMMED, in_order
from wsched.importer.definition import Definition, Node, Ref
from wsched.importer.emit import emit_fusion, needed
from wsched.importer.epilogue import EpilogueImport
from wsched.importer.grouped import build_grouped, grouped_matmuls
from wsched.importer.layout import Axes, Result, moves_no_data, result_layout
from wsched.importer.lists import part_of, parts_of, side_by_side
from wsched.importer.missing import unknown_op
from wsched.importer.only_summed import sums_before_rounding
from wsched.importer.operands import (
    Computable,
    ImportedOperand,
    Pair,
    dtype_of,
    fixed_sizes,
    form_of,
    operand_pair,
)
from wsched.importer.ops import MATMULS
from wsched.importer.reductions import reduced_result
from wsched.importer.scaled import without_scaled
from wsched.importer.scales import block_scales
from wsched.importer.signatures import known_ops
from wsched.importer.steps import REDUCED, Step, unread_inputs
from wsched.importer.sums import summands
from wsched.importer.weights import with_weights

__all__ = ["build_fusion"]


def build_fusion(definition: Definition, by_calls: bool = False) -> Fusion:
    """The fusion of a definition: a matmul, then pointwise operations.

    Args:
        definition: what to import.
        by_calls: for a schedule that is written call by call: all operands may be computed, and
            results of several matmuls need not meet; they have the same extents.

    One operand of a single matmul may be computed: element by element, from one matrix, vectors
    with a number for each of its rows, and numbers.

    Several matmuls are one fusion if they share an operand and their results meet in an output;
    they have the same extents then. An output that no matmul has a part in is one of the fusion if
    it meets the others in an input. So are several that share an operand and are read by the same
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
    definition.check_pure("a kernel")
    definition = with_weights(without_scaled(definition))
    if grouped_matmuls(definition):
        return build_grouped(definition, _bare)
    if by_calls:
        return _build(definition, Computable.ANY)
    apart = parts_of(definition, _matmuls(definition))
    if len(apart) == 1:
        apart = tuple(part_of(d, d.outputs) for d in summands(definition))
    found = side_by_side(definition, apart, _built(apart)) if apart else None
    return found or _build(definition)


def _built(parts: tuple[Definition, ...]) -> tuple[Fusion, ...]:
    """The fusion of each part; none where one has none, which the whole is refused for."""
    try:
        return tuple(map(_bare, parts))
    except UnsupportedError:
        return ()


def _bare(definition: Definition) -> Fusion:
    """The same of operands that are inputs as they are."""
    return _build(definition, Computable.NONE)


def _build(definition: Definition, computable: Computable = Computable.ONE) -> Fusion:
    """The fusion of a definition whose results meet, or of any for a schedule by calls."""
    matmuls, by_calls = _matmuls(definition), computable is Computable.ANY
    one = len(matmuls) == 1 or by_calls
    taken = computable if one else Computable.NONE
    pairs = [operand_pair(definition, node, taken) for node in matmuls]
    operands = _alike(matmuls, pairs)
    a, b = pairs[0]
    dims = in_order({*a.axes, *b.axes} - {SUMMED})
    products = _products(matmuls, pairs)
    form = form_of(f"fd.ops.{matmuls[0].op}", a, b)
    summed = type_of(form.accumulators[0])
    rounded = summed if summed is not DataType.Float or a.wide is not b.wide else a.wide.made
    ones = _batches_of_one(a, b)
    epilogue = EpilogueImport(definition, products, rounded, dims, summed=summed, ones=ones)
    made = [_output(definition, epilogue, name, dims) for name in definition.outputs]
    layouts = [layout for _, layout in made]
    steps, outputs = sums_before_rounding(epilogue.steps, [s for s, _ in made], epilogue.results)
    if not by_calls:
        _require_meeting(set(products.values()), outputs, dims)
    computed = {x.name: x.steps for x in operands.values() if x.steps}
    own = {x.input for x in operands.values()}
    before = [s for x in computed.values() for s in x if s.source not in own]
    read = [*steps, *before]
    scales = block_scales(definition, matmuls, form, dims)
    as_it_is = all(s.op == "input" for s in b.steps)  # a cast to its own type is no step
    if scales is not None and scales.pair[1] and scales.pair[1].zero and as_it_is:
        what = f"zero points of groups of {b.name}, which is multiplied as it is"
        raise UnsupportedError(what, "of what is computed, a cast say")
    inputs = tuple(_bindings(definition, operands, read, {} if scales is None else scales.axes))
    sizes = _sizes(matmuls[0], inputs, epilogue.lengths.found)
    inputs = tuple(_with_lengths(b, epilogue.lengths.found) for b in inputs)
    mn_major = {x.input for x in operands.values() if x.memory[-1] != SUMMED}
    matrices = [x for s, x in made if s.op not in REDUCED]
    memory = _one_order(matrices) if matrices else dims
    turn = 1 if memory == dims else -1
    names = {
        node.results[0]: (left.name, right.name)
        for node, (left, right) in zip(matmuls, (p[::turn] for p in pairs), strict=True)
        if node.results[0] in products.values()
    }
    promotion = 0 if matmuls[0].get("use_fast_accum") else form.promotion
    promotion = promotion if scales is None else scales.span
    numbers = None if scales is None else scales.pair
    if numbers is not None and turn < 0:
        numbers = numbers[1], numbers[0]
    emitted = emit_fusion(
        inputs, names, steps, outputs, memory, mn_major, computed, promotion, numbers
    )
    bound = tuple(
        TensorBinding(t.name, x.axes, tuple(1 if a == "1" else sizes[a] for a in x.axes), t.dtype)
        for t, x in zip(emitted.outputs, layouts, strict=True)
    )
    inputs = tuple(replace(b, tensor=f"T{n}") for n, b in enumerate(inputs))
    return Fusion(inputs, bound, emitted.tensors, emitted.exprs, emitted.next_id)


def _batches_of_one(*operands: ImportedOperand) -> frozenset[str]:
    """The dimensions outside of the matrices that the definition fixes at 1."""
    sized = (pair for x in operands for pair in zip(x.axes, fixed_sizes(x.node), strict=True))
    return frozenset(axis for axis, size in sized if size == 1 and axis in (BATCH, HEADS))


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
    if not definition.outputs:
        raise UnsupportedError("a fusion without outputs", "one output or more")
    found = definition.behind(definition.outputs)
    for node in found.values():
        if node.op not in known_ops() and not node.op.startswith("define_"):
            raise unknown_op(node)
    matmuls = tuple(n for n in definition.nodes if n.op in MATMULS and n.results[0] in found)
    if not matmuls:
        raise _several(0)
    return matmuls


def _several(count: int, which: str = "") -> UnsupportedError:
    supported = "one of them" + (", or several of one operand that meet" if count else "")
    what = f"a fusion with {count or 'no'} fd.ops.linear or fd.ops.matmul{which}"
    return UnsupportedError(what, supported)


def _alike(matmuls: tuple[Node, ...], pairs: list[Pair]) -> dict[str, ImportedOperand]:
    """All operands by their names, those that have the rows first.

    Raises:
        UnsupportedError: the matmuls have no operand in common, on the same side; or operands of
            one side differ in type, dimensions or layout.
    """
    all_of = tuple(zip(*pairs, strict=True))
    sides = [{x.name: x for x in side} for side in all_of]
    if all(len(side) > 1 for side in sides):
        raise _several(len(matmuls), " with no operand in common")
    for side in all_of:  # one input may be two operands, one of them transposed
        if len({(x.axes, x.memory, x.dtype) for x in side}) > 1:
            names = " and ".join(dict.fromkeys(x.name for x in side))
            raise _several(len(matmuls), f" of {names}, which lie or are typed apart")
    left, right = ({x.input for x in side.values()} for side in sides)
    if twice := left & right:
        raise _several(len(matmuls), f" with {', '.join(twice)} on both sides")
    return sides[0] | sides[1]


def _products(matmuls: tuple[Node, ...], pairs: list[Pair]) -> dict[str, str]:
    """Each matmul's name, with that of the first that has the same operands."""
    first: dict[tuple[str, str], str] = {}
    found = {}
    for node, (left, right) in zip(matmuls, pairs, strict=True):
        name = node.results[0]
        found[name] = first.setdefault((left.name, right.name), name)
    return found


def _require_meeting(products: set[str], outputs: list[Step], dims: Axes) -> None:
    """Results of products meet in these; the others meet them in inputs, which along each dimension
    say that extents agree.
    """
    read = [{s for s in needed(x) if s.op in ("input", "mma")} for x in outputs]
    made = [found for x in read if (found := {s.source for s in x if s.op == "mma"})]
    along = ([{s.source for s in x if axis in s.spread} for x in read] for axis in dims)
    if set().union(*made) != products or not all(map(_meet, (made, *along))):
        raise _several(len(products), " whose results do not meet")


def _meet(sets: list[set[str]]) -> bool:
    """Whether what they share connects them all."""
    joined, *left = sets
    while met := [s for s in left if s & joined]:
        joined = joined.union(*met)
        left = [s for s in left if s not in met]
    return not left


def _bindings(
    definition: Definition, operands: dict[str, ImportedOperand], steps: list[Step],
    scales: Mapping[str, Axes],
) -> Iterator[TensorBinding]:  # fmt: skip
    """How the caller's tensors are passed, in the order of the definition, by their names there;
    ``scales`` are the axes of those of blocks.
    """
    read = {s.source: s for s in steps if s.op == "input"}
    by_input = {x.input: x for x in operands.values()}
    for node in definition.nodes:
        name = node.results[0]
        if not node.is_input:
            continue
        if name in by_input:
            if name in read or name in scales:
                other = "in the epilogue" if name in read else "as its scales"
                what = f"{name} as operand of the matmul and {other}"
                raise UnsupportedError(what, "one way to read it")
            x = by_input[name]
            yield TensorBinding(name, x.axes, fixed_sizes(node), dtype_of(x.node))
        elif name in scales:
            yield TensorBinding(name, scales[name], fixed_sizes(node), dtype_of(node))
        elif name in read:
            step = read[name]
            sizes = tuple(
                1 if axis == "1" else size
                for axis, size in zip(step.axes, fixed_sizes(node), strict=True)
            )
            yield TensorBinding(name, step.axes, sizes, step.dtype)
        else:
            raise unread_inputs(name)


def _with_lengths(b: TensorBinding, lengths: Mapping[str, int]) -> TensorBinding:
    """With the sizes that an ``iota`` along its dimensions says, and it leaves open."""
    sized = zip(b.axes, b.sizes, strict=True)
    return replace(b, sizes=tuple(lengths.get(a) if n is None else n for a, n in sized))


def _sizes(
    matmul: Node, inputs: tuple[TensorBinding, ...], lengths: Mapping[str, int]
) -> dict[str, int | None]:
    """Size of each axis that the definition fixes; by ``lengths`` where no input says it.

    Raises:
        UnsupportedError: one has two, or a size of 1 that another input leaves open: nvFuser
            repeats what is one element long, and no kernel repeats a product.
    """
    found: dict[str, int | None] = dict.fromkeys((*EXTENTS, *(a for b in inputs for a in b.axes)))
    found |= lengths
    left = {a for b in inputs for a, n in zip(b.axes, b.sizes, strict=True) if n is None}
    for binding in inputs:
        for axis, size in zip(binding.axes, binding.sizes, strict=True):
            if axis == "1":
                continue
            if size is not None and found[axis] not in (None, size):
                raise UnsupportedError(
                    f"fd.ops.{matmul.op} with {axis} = {found[axis]} and {size}",
                    f"one size of {axis}",
                )
            if size == 1 and axis in left - {SUMMED}:
                what = f"fd.ops.{matmul.op} with {axis} = 1 where another input leaves it open"
                raise UnsupportedError(what, f"one size of {axis}")
            found[axis] = found[axis] if size is None else size
    return found
