"""How a matmul of any rank is one of matrices, or of batches of them: which dimensions are one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import mul

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import ONE, Expr
from wsched.front.cut.tensors import Dim, TensorType
from wsched.importer import Definition, Node

__all__ = ["BEFORE_OPERANDS", "Form", "form_of", "product_of"]

_DIRECT, _DIRECT_BATCHES = 3, 4
"""Dimensions that the importer knows: batch, rows, columns; of batches of both operands two."""


BEFORE_OPERANDS = ("cast", "permute", "stride_order")
"""Between an input and a matmul of it: a permutation exchanges the last two dimensions."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a matmul is written anew.

    Args:
        runs: how many of the result's first dimensions become one, and how many behind these
            another one.
        extra: dimensions of size 1 that the result gets in front.
        first: extents of the first operand.
        second: of the second operand.
        swapped: whether it becomes ``linear`` of the second operand and the first.
        spread: for each operand which dimensions it gets by a broadcast: the batches that the other
            one has alone.
    """

    runs: tuple[int, ...]
    extra: int
    first: tuple[Expr, ...]
    second: tuple[Expr, ...]
    swapped: bool = False
    spread: tuple[tuple[bool, ...], tuple[bool, ...]] = ((), ())

    @property
    def merges_rows(self) -> bool:
        """Whether rows of several matrices become those of one, the first operand."""
        return len(self.runs) == 1 < self.runs[0] and len(self.first) == len(self.second) == 2


def form_of(definition: Definition, matmul: Node, types: Mapping[str, TensorType]) -> Form | None:
    """How a matmul of a kernel's part is written anew; None of one that is as kernels have it.

    Args:
        definition: the part.
        matmul: of it.
        types: of its tensors.

    Raises:
        UnsupportedError: batches that a kernel has not.
    """
    a, b = (_dims(types, n) for n in matmul.refs[:2])
    if a is None or b is None:
        return None
    found = _form(matmul, a, b)
    if found is None or not found.merges_rows or not _is_turned(definition, matmul.refs[0]):
        return found
    if found.swapped:
        raise UnsupportedError(
            f"fd.ops.{matmul.op} of transposed batches and a vector", "batches as they lie"
        )
    x = [d.extent or ONE for d in a]
    return replace(found, runs=(len(a) - 2,), first=(product_of(x[:-2]), *x[-2:]))


def _is_turned(definition: Definition, name: str) -> bool:
    """Whether an operand is an input with the last two dimensions exchanged: columns of several
    matrices are rows of one only where they are copied, but each matrix may lie so.
    """
    turned, node = False, definition.node(name)
    while node is not None and node.op in BEFORE_OPERANDS:
        turned ^= node.op == "permute"
        node = definition.node(node.refs[0])
    return turned


def _dims(types: Mapping[str, TensorType], name: str) -> tuple[Dim, ...] | None:
    found = types.get(name)
    known = found is not None and found.dims is not None
    dims = found.dims if found is not None and known else ()
    return None if not known or any(d.extent is None for d in dims or ()) else dims


def _form(matmul: Node, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> Form | None:
    """How a matmul is written anew; None as it is, or where it has no such form."""
    x, y = ([d.extent or ONE for d in dims] for dims in (a, b))
    if matmul.op == "linear":
        if len(a) == 1 and len(b) == 2:
            return Form((), 1, (ONE, x[0]), tuple(y))
        return _rows(x, y) if len(a) > _DIRECT and len(b) == 2 else None
    if len(a) == 1 and len(b) == 2:
        return Form((), 1, (ONE, x[0]), tuple(y))
    if len(b) == 1 and len(a) > 1:
        return Form((len(a) - 1,), 1, (product_of(x[:-1]), x[-1]), (ONE, y[0]), swapped=True)
    outer, other = a[:-2], b[:-2]
    one_of_b = bool(other) and all(d.is_one for d in other)
    one_of_a = bool(outer) and all(d.is_one for d in outer)
    if len(b) == 2:
        return _rows(x, y) if len(a) > _DIRECT else None
    if one_of_b and len(other) <= len(outer):
        return None if one_of_a and len(a) <= _DIRECT else _rows(x, y[-2:])
    if max(len(a), len(b)) <= _DIRECT and not one_of_a:
        return None
    if not outer or (one_of_a and len(outer) <= len(other)):
        return Form((len(other),), 0, tuple(x[-2:]), (product_of(y[:-2]), *y[-2:]))
    if [d.extent for d in outer] != [d.extent for d in other]:
        if (apart := _apart(a, b)) is not None:
            return apart
        first, second = matmul.refs[:2]
        raise UnsupportedError(
            f"fd.ops.matmul of {first} with batches {_text(outer)} and {second} with "
            f"{_text(other)}",
            "the same batches of both operands, or two runs of dimensions of batches one behind "
            "the other, of which each operand has one or both; or a matrix",
        )
    if len(a) == _DIRECT_BATCHES and not any(d.is_one for d in outer):
        return None
    return Form((len(outer),), 0, (product_of(x[:-2]), *x[-2:]), (product_of(y[:-2]), *y[-2:]))


def _apart(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> Form | None:
    """A matmul of batches that some operand has alone; None unless these are two runs, each of
    which both operands have, or the same one.
    """
    count = max(len(a), len(b)) - 2
    one = Dim(ONE)
    rows = [(*(one for _ in range(count + 2 - len(x))), *x)[:count] for x in (a, b)]
    if any(d != e and not d.is_one and not e.is_one for d, e in zip(*rows, strict=True)):
        return None
    has = _without_ones([tuple(not d.is_one for d in pair) for pair in zip(*rows, strict=True)])
    runs = tuple(dict.fromkeys(has))
    if len(runs) != 2 or has != sorted(has, key=runs.index):
        return None
    first = has.count(runs[0])
    extents, spread = list[tuple[Expr, ...]](), list[tuple[bool, ...]]()
    for at, (dims, matrix) in enumerate(zip(rows, (a[-2:], b[-2:]), strict=True)):
        sizes = [d.extent or ONE for d in dims]
        outside = (product_of(sizes[:first]), product_of(sizes[first:]))
        kept = tuple(e for e, run in zip(outside, runs, strict=True) if run[at])
        extents.append((*kept, *(d.extent or ONE for d in matrix)))
        spread.append((*(not run[at] for run in runs), False, False))
    both = (first, count - first)
    return Form(both, 0, extents[0], extents[1], spread=(spread[0], spread[1]))


def _without_ones(has: list[tuple[bool, ...]]) -> list[tuple[bool, ...]]:
    """Which operands have each batch; one that none has more than once is as that beside it."""
    for at in range(1, len(has)):
        has[at] = has[at] if any(has[at]) else has[at - 1]
    for at in reversed(range(len(has) - 1)):
        has[at] = has[at] if any(has[at]) else has[at + 1]
    return has


def _rows(a: Sequence[Expr], b: Sequence[Expr]) -> Form:
    """All but the last dimension of the first operand as its rows."""
    return Form((len(a) - 1,), 0, (product_of(a[:-1]), a[-1]), tuple(b))


def product_of(extents: Sequence[Expr]) -> Expr:
    """The extent of dimensions as one."""
    return reduce(mul, extents, ONE)


def _text(dims: Sequence[Dim]) -> str:
    return f"[{', '.join(str(d.extent) for d in dims)}]"
