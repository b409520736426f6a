"""Dimensions that an operation cannot have: refused by their line, where a text alone tells them.

nvFuser refuses them while a definition is built. Sizes are another question: most are open until a
call, which compares them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lowering.ground.errors import UnsupportedError
from wsched.fusion import DataType
from wsched.importer.definition import Node, Ref, Value, text_of
from wsched.importer.ops import MATMULS, arity_of
from wsched.importer.text.signatures import parameters

__all__ = ["Dimensions", "reduced_dims"]

_REDUCTIONS = ("max", "min", "prod", "sum", "var", "var_mean", "welford")

_AS_THEIR_OPERAND = frozenset((
    "argsort", "cast", "cummax", "cummin", "cumprod", "cumsum", "index_select", "pad", "permute",
    "rand_like", "randn_like", "scatter", "set", "slice", "stride_order", "topk", "triu",
))  # fmt: skip
"""Operations whose results have as many dimensions as their first operand."""

_SAID = {
    "broadcast": "is_broadcast_dim", "broadcast_in_dim": "shape", "define_tensor": "shape",
    "expand": "shape", "full": "shape", "normal": "shape", "reshape": "new_shape",
    "uniform": "shape",
}  # fmt: skip
"""Operations that say how many: the argument that does."""


@dataclass(slots=True)
class Dimensions:
    """A walk over operations in their order, which knows how many dimensions each tensor has."""

    _ranks: dict[str, int] = field(default_factory=dict)
    _tensors: set[str] = field(default_factory=set)

    def visit(self, node: Node, number: bool) -> None:
        """Check an operation and enter its results.

        Args:
            node: the next one.
            number: whether it makes a number, not a tensor.

        Raises:
            UnsupportedError: it names dimensions or a type that it cannot have.
        """
        _check_type(node)
        if number:
            return
        rank = self._of(node.operands[0]) if node.operands else None
        if rank is not None:
            _check(node, rank)
        if node.op == "cat":
            self._check_cat(node)
        if node.op in MATMULS:
            self._check_product(node)
        self._tensors.update(node.results)
        if (found := self._made(node, rank)) is not None:
            self._ranks |= dict.fromkeys(node.results, found)

    def _of(self, value: Value) -> int | None:
        """Dimensions of an operand: of a number none; None where they are not known."""
        if not isinstance(value, Ref):
            return None if isinstance(value, tuple) else 0
        return self._ranks.get(value.name) if value.name in self._tensors else 0

    def _made(self, node: Node, rank: int | None) -> int | None:
        if node.op in _SAID:
            said = _argument(node, _SAID[node.op])
            return len(said) if isinstance(said, tuple) else None
        if node.op == "cat":
            listed = node.argument("tensors", 0)
            return self._of(listed[0]) if isinstance(listed, tuple) and listed else None
        if node.op in ("linear", "matmul"):
            return self._of_product(node)
        if arity_of(node.op) is not None:
            known = [self._of(v) for v in node.values]
            return None if None in known else max((r for r in known if r is not None), default=0)
        if rank is None:
            return None
        if node.op in _AS_THEIR_OPERAND:
            return rank
        if node.op == "squeeze":
            dims = node.argument("dims", 1)
            return rank - len(dims) if isinstance(dims, tuple) else None
        if node.op in _REDUCTIONS:
            return rank if _argument(node, "keepdim") else rank - len(reduced_dims(node, rank))
        return None

    def _of_product(self, node: Node) -> int | None:
        ranks = [self._of(v) for v in node.factors]
        if len(ranks) < 2 or ranks[0] is None or ranks[1] is None:
            return None
        a, b = ranks[0], ranks[1]
        if node.op == "linear":
            return a + b - 2
        return max(a, b, 2) - (a == 1) - (b == 1)

    def _check_cat(self, node: Node) -> None:
        listed = node.argument("tensors", 0)
        if not isinstance(listed, tuple):
            return
        for value in listed:
            if not isinstance(value, Ref) or value.name not in self._tensors:
                raise _refusal(node, f" of {text_of(value)}, which is no tensor,", "tensors")
        ranks = {r for v in listed if (r := self._of(v)) is not None}
        if len(ranks) > 1:
            several = " and ".join(map(str, sorted(ranks)))
            raise _refusal(node, f" of {several} dimensions", "tensors of as many dimensions each")
        if ranks:
            _check_dim(node, *ranks)

    def _check_product(self, node: Node) -> None:
        for value in node.factors:
            if self._of(value) == 0:
                what = f" of {text_of(value)}, which has no dimensions,"
                raise _refusal(node, what, "vectors, matrices and batches of them")


def _argument(node: Node, name: str) -> Value:
    """An argument by its name, wherever the call has it."""
    names = parameters(node.op) or ()
    return node.argument(name, names.index(name)) if name in names else node.get(name)


def _refusal(node: Node, what: str, supported: str) -> UnsupportedError:
    return UnsupportedError(f"line {node.line}: fd.ops.{node.op}{what}", supported)


def _wrong(node: Node, name: str, value: Value, rank: int, supported: str) -> UnsupportedError:
    what = f" of {rank} dimensions with {name}={text_of(value)}"
    return _refusal(node, what, supported)


def _check_type(node: Node) -> None:
    """What is called ``dtype`` is one; a cast has one."""
    dtype = _argument(node, "dtype")
    if isinstance(dtype, DataType) or (dtype is None and node.op != "cast"):
        return
    call = node.op if node.op.startswith("define_") else f"ops.{node.op}"
    raise UnsupportedError(
        f"line {node.line}: fd.{call} with dtype={text_of(dtype)}", "a type, as DataType.Float"
    )


def _check(node: Node, rank: int) -> None:
    """An operation on a tensor of so many dimensions."""
    match node.op:
        case "broadcast":
            _check_flags(node, rank)
        case "broadcast_in_dim":
            into, shape = _argument(node, "broadcast_dims"), _argument(node, "shape")
            if not isinstance(into, tuple) or not isinstance(shape, tuple):
                return
            if {len(into), len(_places(into, len(shape)))} != {rank}:
                supported = f"{rank} of {len(shape)} dimensions"
                raise _wrong(node, "broadcast_dims", into, rank, supported)
        case "expand":
            shape = _argument(node, "shape")
            if isinstance(shape, tuple) and len(shape) < rank:
                raise _wrong(node, "shape", shape, rank, f"{rank} sizes or more")
        case "pad":
            widths = _argument(node, "pad_widths")
            if isinstance(widths, tuple) and (len(widths) % 2 or len(widths) > 2 * rank):
                raise _wrong(node, "pad_widths", widths, rank, f"pairs for {rank} or fewer")
        case "permute" | "stride_order":
            name: str = "dims" if node.op == "permute" else node.op
            order = _argument(node, name)
            if isinstance(order, tuple) and {len(order), len(_places(order, rank))} != {rank}:
                raise _wrong(node, name, order, rank, f"dimensions of {rank}, each of them once")
        case "slice":
            for name in ("start_indices", "end_indices", "strides"):
                given = _argument(node, name)
                if isinstance(given, tuple) and len(given) != rank:
                    raise _wrong(node, name, given, rank, f"{rank} numbers")
        case "squeeze":
            _check_dims(node, _argument(node, "dims"), rank)
        case op if op in _REDUCTIONS:
            reduced_dims(node, rank)
            kept = _argument(node, "keepdim")
            if kept is not None and not isinstance(kept, bool):
                raise _refusal(node, f" with keepdim={text_of(kept)}", "True or False")
        case op if op != "cat" and "dim" in (parameters(op) or ()):
            _check_dim(node, rank)


def _check_flags(node: Node, rank: int) -> None:
    flags = _argument(node, "is_broadcast_dim")
    if not isinstance(flags, tuple):
        return
    kinds = all(isinstance(f, bool) for f in flags)
    if not kinds or flags.count(False) != rank:
        supported = f"a list of True and {rank} times False"
        raise _wrong(node, "is_broadcast_dim", flags, rank, supported)


def _check_dim(node: Node, rank: int) -> None:
    dim = _argument(node, "dim")
    if dim is not None and not isinstance(dim, Ref) and not _places((dim,), rank):
        raise _wrong(node, "dim", dim, rank, f"a dimension of {rank}")


def _check_dims(node: Node, dims: Value, rank: int) -> None:
    """Each of some dimensions is there, and named once."""
    named = dims if isinstance(dims, tuple) else (dims,)
    if len(_places(named, rank)) < len(named):
        supported = f"dimensions of {rank}, each once" if rank else "tensors with dimensions"
        raise _wrong(node, "dims", dims, rank, supported)


def reduced_dims(node: Node, rank: int) -> set[int]:
    """The dimensions that a reduction of a tensor of that rank is over, all by default.

    Raises:
        UnsupportedError: dimensions that there are not, or one twice.
    """
    dims = _argument(node, "dims")
    dims = node.get("dim") if dims is None else dims
    if dims is None:
        return set(range(rank))
    _check_dims(node, dims, rank)
    return _places(dims if isinstance(dims, tuple) else (dims,), rank)


def _places(dims: tuple[Value, ...], rank: int) -> set[int]:
    """Those that are dimensions of so many; below 0 they count from the end."""
    return {d % rank for d in dims if type(d) is int and -rank <= d < rank}
