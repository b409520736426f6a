"""What each operation of nvFuser does to the extents of its tensors.

A rule takes the walk (:mod:`wsched.front.cut.infer`) and an operation, and returns the dimensions
of each result, None for one that it cannot tell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import mul
from typing import Protocol

from lowering.ground.expr import ONE, Const, Expr, ceildiv
from wsched.front.cut.tensors import Dim, numbers_of
from wsched.importer import Node
from wsched.importer.definition import Value
from wsched.importer.ops import FORMS
from wsched.importer.ranks import reduced

__all__ = ["SHAPES", "Dims", "Sizes", "pointwise"]

Dims = tuple[Dim, ...]
Shapes = Sequence[Dims | None]


class Sizes(Protocol):
    """What a rule may ask."""

    def dims(self, value: Value) -> Dims | None:
        """Dimensions of an operand; of a number none."""

    def number(self, value: Value) -> Expr | None:
        """A size; None if it is not known."""

    def sizes(self, value: Value) -> tuple[Expr | None, ...] | None:
        """A list of sizes; None if not even its length is known."""

    def same(self, a: Expr | None, b: Expr | None) -> None:
        """Note that two extents are equal."""

    def are_same(self, a: Expr | None, b: Expr | None) -> bool:
        """Whether two extents are known to be equal."""


Rule = Callable[[Sizes, Node], Shapes]


def aligned(sizes: Sizes, operands: Sequence[Dims]) -> Dims:
    """Dimensions of what is computed element by element, aligned at the last as NumPy's are."""
    rank = max((len(d) for d in operands), default=0)
    found = []
    for at in range(-rank, 0):
        here = [d[at] for d in operands if len(d) >= -at]
        wide = [d for d in here if not d.is_one]
        for d in wide[1:]:
            sizes.same(wide[0].extent, d.extent)
        known = next((d.extent for d in wide if d.extent is not None), None)
        found.append(Dim(known, all(d.repeated for d in wide)) if wide else Dim(ONE))
    return tuple(found)


def pointwise(sizes: Sizes, node: Node) -> Shapes:
    """The rule of every operation that has none of its own and whose operands' ranks are known."""
    operands = [sizes.dims(v) for v in node.values]
    known = [d for d in operands if d is not None]
    shape = aligned(sizes, known) if len(known) == len(operands) else None
    return [shape] * len(node.results)


def _same(sizes: Sizes, node: Node) -> Shapes:
    return [sizes.dims(node.operands[0])] * len(node.results)


def _stored(sizes: Sizes, node: Node) -> Shapes:
    """As the operand, each element in memory."""
    dims = sizes.dims(node.operands[0])
    found = None if dims is None else tuple(Dim(d.extent) for d in dims)
    return [found] * len(node.results)


def _broadcast(sizes: Sizes, node: Node) -> Shapes:
    dims, flags = sizes.dims(node.operands[0]), node.get("is_broadcast_dim")
    if dims is None or not isinstance(flags, tuple):
        return [None]
    left = iter(dims)
    return [tuple(Dim(ONE) if new else next(left, Dim(None)) for new in flags)]


def _spread(sizes: Sizes, dim: Dim, to: Expr | None) -> Dim:
    """A dimension that is expanded to a size; -1 says as it is."""
    if to == Const(-1) or not dim.is_one:
        if to != Const(-1):
            sizes.same(dim.extent, to)
        return dim
    return Dim(to, to != ONE)


def _broadcast_in_dim(sizes: Sizes, node: Node) -> Shapes:
    dims, shape = sizes.dims(node.operands[0]), sizes.sizes(node.get("shape"))
    into = numbers_of(node.get("broadcast_dims"))
    if dims is None or shape is None or len(into) != len(dims):
        return [None]
    by_place = dict(zip(into, dims, strict=True))
    return [tuple(_spread(sizes, by_place.get(at, Dim(ONE)), to) for at, to in enumerate(shape))]


def _expand(sizes: Sizes, node: Node) -> Shapes:
    dims, shape = sizes.dims(node.operands[0]), sizes.sizes(node.get("shape"))
    if dims is None or shape is None or len(shape) != len(dims):
        return [None]
    return [tuple(_spread(sizes, d, to) for d, to in zip(dims, shape, strict=True))]


def _squeeze(sizes: Sizes, node: Node) -> Shapes:
    dims = sizes.dims(node.operands[0])
    if dims is None:
        return [None]
    gone = {d % len(dims) for d in numbers_of(node.get("dims"))}
    return [tuple(d for at, d in enumerate(dims) if at not in gone)]


def _permute(sizes: Sizes, node: Node) -> Shapes:
    dims, order = sizes.dims(node.operands[0]), numbers_of(node.get("dims"))
    if dims is None:
        return [None]
    places = [at + len(dims) if at < 0 else at for at in order]
    known = sorted(places) == list(range(len(dims)))
    return [tuple(dims[at] for at in places) if known else None]


def _reshape(sizes: Sizes, node: Node) -> Shapes:
    dims, shape = sizes.dims(node.operands[0]), sizes.sizes(node.get("new_shape"))
    if shape is None:
        return [None]
    found = list(shape)
    if Const(-1) in found:
        at = found.index(Const(-1))
        rest, all_of = [e for n, e in enumerate(found) if n != at], [d.extent for d in dims or ()]
        known = [e for e in (*rest, *all_of) if e is not None]
        whole = dims is not None and len(known) == len(rest) + len(all_of)
        count, other = (reduce(mul, (e for e in es if e), ONE) for es in (all_of, rest))
        found[at] = count // other if whole else None
    return [tuple(map(Dim, found))]


def _slice(sizes: Sizes, node: Node) -> Shapes:
    dims = sizes.dims(node.operands[0])
    starts, ends = (sizes.sizes(node.get(name)) for name in ("start_indices", "end_indices"))
    if dims is None or starts is None or ends is None:
        return [None]
    steps = sizes.sizes(node.get("strides") or (1,) * len(dims)) or ()
    by = [step.value for step in steps if isinstance(step, Const) and step.value]
    if {len(starts), len(ends), len(by)} != {len(dims)}:
        return [None]
    found = []
    for d, start, end, step in zip(dims, starts, ends, by, strict=True):
        if start == Const(0) and sizes.are_same(end, d.extent) and step == 1:
            found.append(d)
        elif isinstance(start, Const) and isinstance(end, Const) and isinstance(d.extent, Const):
            found.append(Dim(Const(len(range(d.extent.value)[start.value : end.value : step]))))
        elif (
            isinstance(start, Const) and isinstance(end, Const) and min(start.value, end.value) >= 0
        ):
            # It ends at the end of a shorter operand; nvFuser's texts slice what there is.
            found.append(Dim(ceildiv(end - start, step)))
        elif node.get("manual_normalization") and start is not None and end is not None:
            found.append(Dim(ceildiv(end - start, step)))  # within the operand, as the text says
        else:
            found.append(Dim(None))
    return [tuple(found)]


def _cat(sizes: Sizes, node: Node) -> Shapes:
    listed = node.argument("tensors", 0)
    shapes = [sizes.dims(v) for v in listed] if isinstance(listed, tuple) else [None]
    known = [s for s in shapes if s is not None]
    along = node.get("dim")
    if len(known) < len(shapes) or not known:
        return [None]
    if node.get("manual_padding"):
        return [aligned(sizes, known)]
    at = (along if isinstance(along, int) else 0) % len(known[0])
    extents = [s[at].extent for s in known]
    total = None if None in extents else sum((e for e in extents if e is not None), Const(0))
    others = aligned(sizes, [(*s[:at], Dim(ONE), *s[at + 1 :]) for s in known])
    return [tuple(Dim(total) if n == at else Dim(d.extent) for n, d in enumerate(others))]


def _pad(sizes: Sizes, node: Node) -> Shapes:
    dims, widths = sizes.dims(node.operands[0]), sizes.sizes(node.get("pad_widths"))
    if dims is None or widths is None:
        return [None]
    found = list(dims)
    for at in range(len(widths) // 2):
        before, after, extent = widths[2 * at], widths[2 * at + 1], dims[-1 - at].extent
        if before is None or after is None or extent is None:
            found[-1 - at] = Dim(None)
        elif (before, after) != (Const(0), Const(0)):
            found[-1 - at] = Dim(extent + before + after)
    return [tuple(found)]


def _linear(sizes: Sizes, node: Node) -> Shapes:
    x, w = sizes.dims(node.operands[0]), sizes.dims(node.argument("arg2", 1))
    if not x or not w:
        return [None]
    sizes.same(x[-1].extent, w[-1].extent)
    columns = (Dim(w[0].extent),) if len(w) > 1 else ()
    return [(*(Dim(d.extent) for d in x[:-1]), *columns)]


def _matmul(sizes: Sizes, node: Node) -> Shapes:
    a, b = sizes.dims(node.operands[0]), sizes.dims(node.argument("arg2", 1))
    if not a or not b:
        return [None]
    sizes.same(a[-1].extent, b[-2 if len(b) > 1 else 0].extent)
    batch = tuple(Dim(d.extent) for d in aligned(sizes, [a[:-2], b[:-2]]))
    rows = (Dim(a[-2].extent),) if len(a) > 1 else ()
    columns = (Dim(b[-1].extent),) if len(b) > 1 else ()
    return [(*batch, *rows, *columns)]


def _grouped(sizes: Sizes, node: Node) -> Shapes:
    """A matrix, of which groups are rows or columns; or one for each group that is summed over."""
    a, b = sizes.dims(node.operands[0]), sizes.dims(node.argument("mat2", 1))
    ends = sizes.dims(node.argument("offsets", 2))
    if not a or not b or (len(a), len(b)) not in FORMS or not ends:
        return [None]
    sizes.same(a[-1].extent, b[-2].extent)
    for matrices in (a[:-2], b[:-2]):
        if matrices:
            sizes.same(matrices[0].extent, ends[0].extent)
    rows, columns = Dim(a[-2].extent), Dim(b[-1].extent)
    return [(Dim(ends[0].extent), rows, columns) if len(a) == len(b) else (rows, columns)]


def _reduction(sizes: Sizes, node: Node) -> Shapes:
    dims = sizes.dims(node.operands[0])
    if dims is None:
        return [None] * len(node.results)
    gone = reduced(node, len(dims))
    if node.get("keepdim"):
        kept = tuple(Dim(ONE) if at in gone else d for at, d in enumerate(dims))
    else:
        kept = tuple(d for at, d in enumerate(dims) if at not in gone)
    return [kept] * len(node.results)


def _select(sizes: Sizes, node: Node) -> Shapes:
    dims, along = sizes.dims(node.operands[0]), node.get("dim")
    if dims is None or not isinstance(along, int):
        return [None]
    return [tuple(d for at, d in enumerate(dims) if at != along % len(dims))]


def _topk(sizes: Sizes, node: Node) -> Shapes:
    dims, along = sizes.dims(node.operands[0]), node.get("dim")
    if dims is None or not isinstance(along, int | None):
        return [None] * len(node.results)
    at = (-1 if along is None else along) % len(dims)
    taken = Dim(sizes.number(node.argument("k", 1)))
    return [tuple(taken if n == at else d for n, d in enumerate(dims))] * len(node.results)


def _index(sizes: Sizes, node: Node) -> Shapes:
    dims, index = sizes.dims(node.operands[0]), sizes.dims(node.argument("index", 1))
    along = node.get("dim")
    if dims is None or index is None or not isinstance(along, int):
        return [None]
    at = along % len(dims)
    new = index[0].extent if index else ONE
    return [tuple(Dim(new) if n == at else Dim(d.extent) for n, d in enumerate(dims))]


def _gathered(sizes: Sizes, node: Node) -> Shapes:
    return [sizes.dims(node.argument("index", 1))]


def _taken(sizes: Sizes, node: Node) -> Shapes:
    dims, index = sizes.dims(node.operands[0]), sizes.dims(node.argument("index", 1))
    along = node.get("dim")
    if not dims or index is None or len(index) != len(dims) or not isinstance(along, int):
        return [None]
    found = []
    for at, (ours, theirs) in enumerate(zip(dims, index, strict=True)):
        ours_is_flat, theirs_is_flat = (d.is_one or d.repeated for d in (ours, theirs))
        if at == along % len(dims) or (ours_is_flat and (theirs.repeated or not theirs_is_flat)):
            found.append(theirs)
            continue
        found.append(ours)
        if not (ours_is_flat or theirs_is_flat):
            sizes.same(ours.extent, theirs.extent)
    return [tuple(found)]


def _embedding(sizes: Sizes, node: Node) -> Shapes:
    index, table = sizes.dims(node.operands[0]), sizes.dims(node.argument("weight", 1))
    return [None if index is None or not table else (*map(_own, index), _own(table[-1]))]


def _own(dim: Dim) -> Dim:
    return Dim(dim.extent)


def _attention(sizes: Sizes, node: Node) -> Shapes:
    query, value = sizes.dims(node.operands[0]), sizes.dims(node.argument("value", 2))
    if not query or not value:
        return [None] * len(node.results)
    # Log-sum-exp, then seed and offset, whose shapes depend on torch's version.
    shapes = (*query[:-1], value[-1]), query[:-1]
    return [*(tuple(map(_own, s)) for s in shapes), *[None] * len(node.results[2:])]


def _attention_gradients(sizes: Sizes, node: Node) -> Shapes:
    operands = [sizes.dims(v) for v in node.operands[1:4]]
    return [None if dims is None else tuple(map(_own, dims)) for dims in operands]


def _made(sizes: Sizes, node: Node) -> Shapes:
    at = 2 if node.op in ("normal", "uniform") else 0
    shape = sizes.sizes(node.argument("shape", at))
    return [None if shape is None else tuple(map(Dim, shape))]


def _iota(sizes: Sizes, node: Node) -> Shapes:
    return [(Dim(sizes.number(node.argument("length", 0))),)]


def _unknown(sizes: Sizes, node: Node) -> Shapes:
    return [None] * len(node.results)


SHAPES: dict[str, Rule] = {
    "broadcast": _broadcast, "broadcast_in_dim": _broadcast_in_dim, "cast": _same, "cat": _cat,
    "embedding_fwd": _embedding, "expand": _expand, "full": _made, "gather": _gathered,
    "grouped_mm": _grouped, "index_select": _index, "iota": _iota, "linear": _linear,
    "matmul": _matmul, "normal": _made, "pad": _pad, "permute": _permute, "reshape": _reshape,
    "sdpfa_bwd": _attention_gradients, "sdpfa_fwd": _attention, "segment_set": _same,
    "select": _select, "set": _same, "slice": _slice, "squeeze": _squeeze, "stride_order": _stored,
    "take_along_axis": _taken, "topk": _topk, "uniform": _made,
    **dict.fromkeys(("argsort", "cummax", "cummin", "cumprod", "cumsum", "rand_like", "randn_like",
                     "index_put_accumulate", "scatter", "triu"), _stored),
    **dict.fromkeys(("max", "min", "prod", "sum", "var", "var_mean", "welford"), _reduction),
    **dict.fromkeys(("cutlass_nvfp4_grouped_mm", "nv_block_quantize", "nv_grouped_block_quantize",
                     "preprocess_grouped_matmul_input_sf", "scaled_mm"), _unknown),
}  # fmt: skip
"""By the name below ``fd.ops``; pointwise operations are not among them."""
