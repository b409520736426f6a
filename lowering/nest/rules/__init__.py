"""How each expression is lowered, by its kind and by the memories of what it reads and makes.

A rule adds the statements of a leaf to its place. There is one for each kind of expression and
combination of memories that kernels have; what the table does not list is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable

from lowering.nest.place import Place
from lowering.nest.prints import printed
from lowering.nest.refusal import refused
from lowering.nest.rules.copies import copy
from lowering.nest.rules.copy_box import copy_box
from lowering.nest.rules.from_global import from_global
from lowering.nest.rules.from_shared import from_shared
from lowering.nest.rules.from_tensor import from_tensor
from lowering.nest.rules.index import index
from lowering.nest.rules.load_box import load_box
from lowering.nest.rules.mma import mma
from lowering.nest.rules.mma_tensor import mma_tensor
from lowering.nest.rules.pointwise import cast, pointwise
from lowering.nest.rules.reduction import reduction
from lowering.nest.rules.store_box import store_box, to_shared
from lowering.nest.rules.to_global import to_global
from wsched.fusion import (
    BroadcastOp,
    CastOp,
    Fusion,
    FusionExpr,
    IndexOp,
    LoadStoreOp,
    MemoryType,
    MmaOp,
    ReductionOp,
    TensorView,
    inputs_of,
)

__all__ = ["RULES", "Rule", "lower_leaf", "rule_for"]

Rule = Callable[[Place], None]
Key = tuple[str, tuple[MemoryType, ...], MemoryType]

_G, _S, _L = MemoryType.Global, MemoryType.Shared, MemoryType.Local
_T = MemoryType.Tensor

RULES: dict[Key, Rule] = {
    ("CpAsyncBulkTensorTile", (_G,), _S): load_box,
    ("Set", (_G,), _S): copy_box,
    ("mma", (_S,), _L): mma,
    ("mma", (_S, _L), _L): mma,
    ("mma", (_S,), _T): mma_tensor,
    ("LdTMem", (_T,), _L): from_tensor,
    ("LdMatrix", (_S,), _L): from_shared,
    ("Set", (_S,), _L): from_shared,
    ("Set", (_G,), _L): from_global,
    ("Set", (_L,), _L): copy,
    ("cast", (_L,), _L): cast,
    ("pointwise", (_L,), _L): pointwise,
    ("index", (), _L): index,
    ("reduction", (_L,), _L): reduction,
    ("StMatrix", (_L,), _S): to_shared,
    ("Set", (_L,), _S): to_shared,
    ("CpAsyncBulkTensorTile", (_S,), _G): store_box,
    ("Set", (_L,), _G): to_global,
}
"""By kind, the memories that it reads, each once, and the one that it writes."""


def lower_leaf(place: Place) -> None:
    """The statements of a leaf, and of what is printed behind them."""
    rule_for(place.fusion, place.tensor)(place)
    if place.scopes.shared.prints:
        place.emit(*printed(place))


def rule_for(fusion: Fusion, t: TensorView) -> Rule:
    """The rule for the expression that makes a tensor.

    Raises:
        UnsupportedError: there is none.
    """
    e = fusion.definition(t.name)
    assert e is not None
    found = {fusion.tensor(name).memory for name in inputs_of(e)}
    key = _kind(e), tuple(m for m in MemoryType if m in found), t.memory
    if key not in RULES:
        rules = "; ".join(_text(k) for k in RULES)
        raise refused(t, f"{t.name} = {e}, {_text(key)},", rules)
    return RULES[key]


def _kind(e: FusionExpr) -> str:
    match e:
        case LoadStoreOp(op=op):
            return str(op)
        case MmaOp():
            return "mma"
        case CastOp():
            return "cast"
        case ReductionOp():
            return "reduction"
        case IndexOp():
            return "index"
        case BroadcastOp():
            return "broadcast"
    return "pointwise"


def _text(key: Key) -> str:
    kind, read, made = key
    of = f" {' and '.join(map(str, read))}" if read else ""
    return f"{kind}{of} -> {made}"
