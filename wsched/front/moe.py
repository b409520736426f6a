"""A layer of experts without a definition: rows by index, two grouped matmuls, weighted sums.

The rows of each expert are put side by side by a kernel that reads tokens by index; gate and up are
one kernel with what is computed of them, down is one, and each token's rows are summed with their
weights by a kernel that reads them by index: in fp32 and in the order of the token's choices, so
that a result is the same in each run, whatever other tokens there are. Where any order will do,
down adds its rows, times their weights, to tokens itself. The host waits for nothing, so that all
of it can be captured in a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import TYPE_CHECKING, Any

from wsched.front.again import Again, Run
from wsched.front.grouped import by_rows
from wsched.front.operations import (
    Epilogue,
    Operations,
    computed,
    kept,
    listed,
    named,
    require_16_bits,
    require_hashable,
    require_tensors,
    written,
)
from wsched.fusion.types import DataType
from wsched.importer.definition import (
    Definition,
    Node,
    Ref,
    Value,
    Written,
    definition_text,
)
from wsched.importer.input_error import InputError
from wsched.importer.ops import ADDED, GROUPED
from wsched.importer.products import UNROUNDED

if TYPE_CHECKING:
    import torch

__all__ = ["Routing", "gated", "moe", "route"]

_AGAIN = Again()

_WEIGHTS = (DataType.Float, DataType.BFloat16, DataType.Half)


def gated(ops: Operations, gate: Ref, up: Ref) -> Ref:
    """``silu(gate) * up``."""
    return ops.mul(ops.silu(gate), up)


@dataclass(frozen=True, slots=True)
class Routing:
    """Which expert has which rows; made by :func:`route`.

    Args:
        ends: [E] of int32, where each expert's rows end, one expert behind the other.
        rows: [T * k], the token of each row; behind the last end those of no expert.
        places: [T, k], the row of each choice of a token; -1 of no expert.
        choices: [T * k], which of all choices each row is, ``t * k + i`` of choice ``i`` of token
            ``t``: the inverse of ``places``. Only layers whose sums have no order read it, and
            ``tokens``.
        tokens: [T * k], the token that each row is added to: ``rows``, but -1 behind the last end.
    """

    ends: torch.Tensor
    rows: torch.Tensor
    places: torch.Tensor
    choices: torch.Tensor | None = None
    tokens: torch.Tensor | None = None


def route(ids: torch.Tensor, experts: int) -> Routing:
    """Sort the choices of tokens by expert; those of one expert by token.

    Args:
        ids: [T, k] of int64 or int32, experts of each token, such as ``torch.topk`` gives. An id
            that is none of them, such as -1 of an expert of another GPU, adds zeros to its token:
            times its weight, so that one of those must be finite as well.
        experts: how many there are.

    Raises:
        InputError: another shape or type, or no expert.
    """
    import torch

    require_tensors(ids=[ids])
    if ids.dim() != 2 or ids.dtype not in (torch.int64, torch.int32):
        found = f"{list(ids.shape)} of {ids.dtype}"
        raise InputError(f"ids are {found}", "ids", found, "[T, k] of torch.int64 or torch.int32")
    try:
        experts = index(experts)
    except TypeError:
        text = f"experts is {experts!r}, not a number of experts"
        raise InputError(text, "experts", type(experts).__name__, "int") from None
    if experts < 1:
        raise InputError(f"experts is {experts}", "experts", str(experts), "at least one")
    flat, choices = ids.reshape(-1), max(ids.shape[1], 1)
    known = (flat >= 0) & (flat < experts)
    chosen, order = torch.where(known, flat, experts).to(torch.int32).sort(stable=True)
    count = torch.arange(experts, dtype=torch.int32, device=ids.device)
    ends = torch.searchsorted(chosen, count, right=True, out_int32=True)
    places = torch.empty_like(order)
    places[order] = torch.arange(len(order), device=ids.device)
    places = torch.where(known, places, -1)
    rows = order // choices
    tokens = torch.where(chosen < experts, rows, -1)
    return Routing(ends, rows, places.view(ids.shape), order, tokens)


def moe(
    x: torch.Tensor,
    routing: Routing | torch.Tensor,
    weights: torch.Tensor,
    up: torch.Tensor | Sequence[torch.Tensor],
    down: torch.Tensor,
    *,
    epilogue: Epilogue = gated,
    deterministic: bool = True,
) -> torch.Tensor:
    """A layer of experts: of each token its experts' results, weighted and summed.

    An expert is ``epilogue(x @ gate, x @ up) @ down``; what the epilogue computes of products in
    fp32, and the product of that, are rounded to the type of ``x``, the weighted sums once.

    Args:
        x: [T, K] of bf16 or fp16.
        routing: of :func:`route`, which several layers may share; or the experts of each token,
            [T, k], of which it is made by this call.
        weights: [T, k] of fp32, bf16 or fp16; finite, also of ids that are no expert.
        up: the matrices whose products the epilogue takes, one or several [E, K, N] in any order of
            the last two dimensions in memory: ``(w13[:, :n].mT, w13[:, n:].mT)`` of one tensor
            [E, 2 N, K] of both.
        down: [E, N, K]; this and ``up`` are of the type of ``x``.
        epilogue: as of :func:`wsched.grouped_mm`; by default ``silu(gate) * up`` of two products.
        deterministic: whether a token's rows are summed in fp32, in the order of its choices, by a
            kernel of its own. Else ``down``'s adds each row, weighted and rounded to the type of
            ``x``, to its token: no rows lie in memory between, [T * k, K] of them, each choice
            rounds the sum again, and of three and more the last bits may differ between calls.

    Returns:
        [T, K] of the type of ``x``, where gradients stop as in :func:`wsched.grouped_mm`. On CPU
        tensors the machine model computes it.

    Raises:
        InputError: the tensors do not fit each other.
        UnsupportedError: other types than these, or an operation of the epilogue that nobody has.
    """
    matrices = listed("up", up)
    beside = epilogue, len(matrices), bool(deterministic)
    if isinstance(routing, Routing):
        given = _inputs(x, routing, weights, matrices, down, deterministic)
        if (run := _AGAIN.run(given, beside)) is not None:
            return run(given)[0]
    require_tensors(x=[x], weights=[weights], up=matrices, down=[down])
    if not isinstance(routing, Routing):
        routing = route(routing, down.shape[0] if down.dim() else 1)
    require_tensors(routing=[routing.ends, routing.rows, routing.places])
    require_hashable(epilogue)
    _require(x, routing, weights, matrices, down)
    if not x.shape[0]:
        return x.new_empty((0, down.shape[2]))
    kinds = named(x.dtype), named(weights.dtype), named(routing.rows.dtype)
    given = _inputs(by_rows(x), routing, weights, matrices, down, deterministic)
    if deterministic:
        text = _definition(*kinds, len(matrices), weights.shape[1], epilogue)
        return _AGAIN.first(text, given, beside)[0]
    _require_choices(routing.rows, choices=routing.choices, tokens=routing.tokens)
    return _AGAIN.first(_adding(*kinds, len(matrices), epilogue), given, beside, _onto_zeros)[0]


def _onto_zeros(run: Run) -> Run:
    """How a layer's text runs whose rows are added to its last input, which is returned."""

    def added(given: Sequence[Any]) -> list[torch.Tensor]:
        x, rows, ends, *matrices, down, tokens, choices, weights = given
        result = x.new_zeros((x.shape[0], down.shape[2]))
        scales = weights.reshape(-1).index_select(0, choices)
        run((x, rows, ends, *matrices, down, tokens, scales, result))
        return [result]

    return added


def _inputs(
    x: torch.Tensor, routing: Routing, weights: torch.Tensor, up: Sequence[Any],
    down: torch.Tensor, deterministic: bool,
) -> list[Any]:  # fmt: skip
    """What the definition reads; or what is made of it, where rows are added in any order."""
    where = (routing.places,) if deterministic else (routing.tokens, routing.choices)
    return [x, routing.rows, routing.ends, *up, down, *where, weights]


def _require(
    x: torch.Tensor, routing: Routing, weights: torch.Tensor, up: Sequence[Any], down: torch.Tensor
) -> None:
    """Refuse what a definition cannot say, or says of no operand by its name."""
    shape = tuple(routing.places.shape)
    if not up:
        raise InputError("up has no tensor", "up", "0", "one or several")
    require_16_bits(x=[x], up=up, down=[down])
    for name, tensor, rank in (("x", x, 2), ("down", down, 3), *(("up", t, 3) for t in up)):
        if tensor.dim() != rank:
            found = str(list(tensor.shape))
            raise InputError(f"{name} has shape {found}", name, found, f"{rank} dimensions")
    if shape[0] != x.shape[0] or not shape[1]:
        text = f"the routing is of {shape[0]} tokens with {shape[1]} experts, x has {x.shape[0]}"
        raise InputError(text, "routing", str(list(shape)), f"[{x.shape[0]}, k], k at least 1")
    if tuple(weights.shape) != shape:
        found = str(list(weights.shape))
        raise InputError(f"weights has shape {found}", "weights", found, str(list(shape)))
    if named(weights.dtype) not in _WEIGHTS:
        known = ", ".join(f"torch.{d.element.torch}" for d in _WEIGHTS)
        raise InputError(f"weights of {weights.dtype}", "weights", str(weights.dtype), known)
    experts = routing.ends.shape[0]
    if experts != down.shape[0]:
        text = f"the routing is of {experts} experts, down has {down.shape[0]}"
        raise InputError(text, "routing", str(experts), str(down.shape[0]))


def _require_choices(rows: torch.Tensor, **of_rows: Any) -> None:
    """Refuse what says nothing of each row, of which torch reads some before a definition does."""
    for name, given in of_rows.items():
        require_tensors(**{name: [given]})
        if given.shape != rows.shape or given.dtype != rows.dtype:
            found, wanted = (f"{list(t.shape)} of {t.dtype}" for t in (given, rows))
            raise InputError(f"{name} of {found}, rows of {wanted}", name, found, wanted)


@kept
def _definition(
    dtype: DataType, weight: DataType, index: DataType, count: int, choices: int, epilogue: Epilogue
) -> str:
    """The text of a layer: x, rows, ends, matrices, down, then places and weights."""
    nodes: list[Node] = []
    ops, layer = Operations(nodes), _Layer(nodes, dtype, index, count)
    places, scales = _tensor(nodes, 2, index), _tensor(nodes, 2, weight)
    made = written(nodes, GROUPED, layer.hidden(epilogue), layer.down, layer.ends)
    total: Ref | None = None
    for choice in range(choices):
        place, scale = (ops.select(t, choice, dim=1) for t in (places, scales))
        row = ops.cast(ops.index_select(made, place, dim=0), dtype=DataType.Float)
        wide = ops.cast(scale, dtype=DataType.Float)
        weighted = ops.mul(row, ops.broadcast(wide, is_broadcast_dim=[False, True]))
        total = weighted if total is None else ops.add(total, weighted)
    assert total is not None
    result = ops.cast(total, dtype=dtype)
    return definition_text(Definition(tuple(nodes), (result.name,)))


@kept
def _adding(
    dtype: DataType, weight: DataType, index: DataType, count: int, epilogue: Epilogue
) -> str:
    """The text of a layer whose rows are added to what its last input holds: x, rows, ends,
    matrices, down, then tokens and weights of rows.
    """
    nodes: list[Node] = []
    ops, layer = Operations(nodes), _Layer(nodes, dtype, index, count)
    tokens, scale = _tensor(nodes, 1, index), _tensor(nodes, 1, weight)
    onto = _tensor(nodes, 2, dtype)
    wide = ops.cast(scale, dtype=DataType.Float)
    made = written(nodes, GROUPED, layer.hidden(epilogue), layer.down, layer.ends, **UNROUNDED)
    weighted = ops.mul(made, ops.broadcast(wide, is_broadcast_dim=[False, True]))
    result = written(nodes, ADDED, onto, tokens, ops.cast(weighted, dtype=dtype)).name
    into = (Written(result, onto.name, returned=False, line=0),)
    return definition_text(Definition(tuple(nodes), (result,), written=into))


def _tensor(nodes: list[Node], rank: int, kind: DataType) -> Ref:
    """An input."""
    shape: dict[str, Value] = {"shape": (-1,) * rank, "dtype": kind}
    return written(nodes, "define_tensor", **shape)


class _Layer:
    """What both texts begin with: the inputs up to down."""

    def __init__(self, nodes: list[Node], dtype: DataType, index: DataType, count: int) -> None:
        self._nodes, self._dtype = nodes, dtype
        self.x, self.rows = _tensor(nodes, 2, dtype), _tensor(nodes, 1, index)
        self.ends = _tensor(nodes, 1, DataType.Int32)
        self._matrices = [_tensor(nodes, 3, dtype) for _ in range(count)]
        self.down = _tensor(nodes, 3, dtype)

    def hidden(self, epilogue: Epilogue) -> Ref:
        """What down multiplies: rows by index, gate and up, and what is computed of these."""
        nodes, ops = self._nodes, Operations(self._nodes)
        taken = ops.index_select(self.x, self.rows, dim=0)
        products = [
            written(nodes, GROUPED, taken, m, self.ends, **UNROUNDED) for m in self._matrices
        ]
        return ops.cast(computed(epilogue, nodes, *products), dtype=self._dtype)
