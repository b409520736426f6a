"""What is known of the tensors of a definition before it runs: types and extents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import ONE, Const, Expr, evaluate, free_vars
from wsched.fusion import DataType
from wsched.importer import Node
from wsched.importer.consistent import MOST_ELEMENTS, too_many
from wsched.importer.definition import Value

__all__ = ["Dim", "TensorType", "Tensors", "dense_input", "numbers_of", "sizes_of"]


@dataclass(frozen=True, slots=True)
class Dim:
    """A dimension of a tensor.

    Args:
        extent: in the extents of the inputs; None if they do not tell it.
        repeated: whether it is one element read again and again, without memory of its own.
    """

    extent: Expr | None
    repeated: bool = False

    @property
    def is_one(self) -> bool:
        """Whether its extent is known to be 1."""
        return self.extent == Const(1)


def numbers_of(value: Value) -> tuple[int, ...]:
    """The numbers of an argument, one or a list."""
    listed = value if isinstance(value, tuple) else (value,)
    return tuple(v for v in listed if isinstance(v, int))


def dense_input(
    name: str, extents: Sequence[Expr], dtype: Value, line: int, *named: tuple[str, Value]
) -> Node:
    """An input that lies in memory whole.

    Args:
        name: of the tensor.
        extents: of its dimensions; those that are no numbers are left open.
        dtype: of its elements.
        line: of the text.
        named: further arguments.
    """
    shape = tuple(e.value if isinstance(e, Const) else -1 for e in extents)
    kwargs: tuple[tuple[str, Value], ...] = (
        ("shape", shape),
        ("contiguity", tuple(None if size == 1 else True for size in shape)),
        ("dtype", dtype),
        ("is_cpu", False),
    )
    return Node("define_tensor", (name,), (), (*kwargs, *named), line)


def sizes_of(extents: Sequence[Expr | None], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Extents as numbers.

    Args:
        extents: None of one that is not known.
        sizes: value of each symbol.

    Raises:
        UnsupportedError: one that the symbols do not tell.
    """
    known = [e for e in extents if e is not None and {str(v) for v in free_vars(e)} <= set(sizes)]
    if len(known) < len(extents):
        texts = ", ".join("?" if e is None else str(e) for e in extents)
        raise UnsupportedError(f"a tensor of shape [{texts}]", "extents that inputs have")
    return tuple(evaluate(e, sizes) for e in known)


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor before it has been made.

    Args:
        dtype: None of one that wsched has no word for.
        dims: its dimensions, outermost first; None where even their number is not known.
    """

    dtype: DataType | None
    dims: tuple[Dim, ...] | None

    @property
    def extents(self) -> tuple[Expr, ...] | None:
        """The extents of a tensor that lies in memory whole; None of any other."""
        found = tuple(d.extent for d in self.dims or () if d.extent is not None and not d.repeated)
        return found if self.dims is not None and len(found) == len(self.dims) else None

    @property
    def spread(self) -> tuple[Expr, ...] | None:
        """The extents of a tensor, repeated dimensions among them; None where one is not known."""
        found = tuple(d.extent for d in self.dims or () if d.extent is not None)
        return found if self.dims is not None and len(found) == len(self.dims) else None

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The sizes of its dimensions, repeated ones among them.

        Args:
            sizes: value of each symbol.

        Raises:
            UnsupportedError: one that the inputs' sizes do not tell, or more than there can be.
        """
        if self.dims is None:
            raise UnsupportedError("a tensor of unknown shape", "extents that inputs have")
        found = sizes_of(tuple(d.extent for d in self.dims), sizes)
        if too_many(found):
            what = f"a tensor of shape {list(found)}"
            raise UnsupportedError(what, f"fewer than {MOST_ELEMENTS} elements")
        return found


@dataclass(frozen=True, slots=True)
class Tensors:
    """The tensors of a definition by name; what is no tensor is a number.

    Args:
        types: of each tensor.
        numbers: of each number that sizes may be made of, where the definition tells it.
        orders: places of the dimensions, that of the largest stride first, of what is read behind
            where it was made and does not lie row by row; None of what lies within other memory.
    """

    types: Mapping[str, TensorType]
    numbers: Mapping[str, Expr] = field(default_factory=dict)
    orders: Mapping[str, tuple[int, ...] | None] = field(default_factory=dict)

    def strides(self, name: str) -> tuple[Expr, ...] | None:
        """Elements from one index to the next of a dense tensor; None where it lies in rows."""
        order, extents = self.orders.get(name), self.types[name].extents
        if order is None or extents is None:
            return None
        found = dict[int, Expr]()
        step: Expr = ONE
        for at in reversed(order):
            found[at], step = step, extents[at] * step
        return tuple(found[at] for at in range(len(order)))

    def __contains__(self, name: str) -> bool:
        return name in self.types

    def __getitem__(self, name: str) -> TensorType:
        return self.types[name]
