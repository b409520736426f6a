"""Random problems of groups: every form, rows by index, layers of experts; what comes out.

Operands are integers of which sums stay exact, so that a wrong row is far off; what an epilogue
rounds is bounded by the magnitude of its terms.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import torch

import wsched
from tests.grouped import FORMS, grouped
from tests.schedules import cooperative, dynamic, exchanged, ping_pong
from wsched.schedule.matmul.params import (
    MatmulParams,
    SupportedVectorization,
    TileRasterizationOrder,
)
from wsched.schedule.matmul.siblings import shared
from wsched.stress.form import drawn_size
from wsched.stress.tensors import filled, matrix, sparse

__all__ = ["KINDS", "Problem", "drawn"]

KINDS = ("rows", "index", "columns", "sums", "layer", "shared", "added")
"""Groups of rows, of rows by index, of columns, sums over groups, layers of experts; groups of rows
or columns by kernels that share them out (:data:`SETS`), which only large problems are given; and
layers whose sums have no order."""

NARROW = (1, 7, 63, 64, 65, 127, 128, 129)
"""Sizes of groups beside those of tiles."""

WORK = {"cuda": 1 << 34, "cpu": 1 << 24}
"""Multiplications of a problem at most."""

RELATIVE = 2**-6
"""Of the magnitude of all terms, what a result may be off: two roundings to bf16."""

_COLUMNS = TileRasterizationOrder.ColumnMajor


def _exchanged(n: int, **more: Any) -> MatmulParams:
    """Tiles of so many rows of the result."""
    return exchanged(ping_pong(128, n, stages=4, **more))


_WHOLE = replace(ping_pong(128, 96, stages=4), cta_order=_COLUMNS)
_HALF = cooperative(64, 128, stages=4, groups=1, registers=None, order=_COLUMNS)
_PAIR = cooperative(64, 64, 32, stages=3, groups=1, registers=None, cluster=(2, 1))
_FEW = exchanged(cooperative(64, 16, 32, stages=2, groups=1, registers=None))

SETS: dict[str, tuple[MatmulParams, ...]] = {
    "144, 128": (_exchanged(144), _WHOLE),
    "144, 128, 64": (_exchanged(144), _WHOLE, _HALF),
    "128, 64": (_WHOLE, _HALF),
    "104, 88": (_exchanged(104), _exchanged(88)),
    "104, 96, 88": (_exchanged(104), _exchanged(96), _exchanged(88)),
    "64, 56, 48": (_exchanged(64), _exchanged(56), _exchanged(48)),
    "72, 96 in clusters": (_exchanged(72), _exchanged(48, cluster=(1, 2))),
    "128 in clusters, 104, 16": (_PAIR, _exchanged(104), _FEW),
    "64, 16": (_HALF, _FEW),
}
"""Kernels that share out groups of rows, by the lengths of their tiles."""


def _turned(params: MatmulParams) -> MatmulParams:
    """The same of the transposed product, so that groups of columns find the lengths of rows; any
    number of them is stored by threads.
    """
    turned = replace(params, exchange_operands=not params.exchange_operands)
    one = SupportedVectorization(epilogue=1)
    return replace(turned, use_smem_epilogue=False, supported_vec_size=one)


def _silu(gate: Any) -> Any:
    return gate * torch.sigmoid(gate)


@dataclass(frozen=True)
class Epilogue:
    """What is computed of products.

    Args:
        matrices: products that it takes.
        bias: whether each has a row of a bias for each group.
        extra: what it takes beside: ``residual`` [M, N], ``scale`` [M], ``columns`` [N].
        ops: it, of nvFuser's operations.
        value: it, of torch's, in fp64.
    """

    matrices: int
    bias: bool
    extra: tuple[str, ...]
    ops: Callable[..., Any] | None
    value: Callable[..., Any]


def _gated(ops: Any, gate: Any, up: Any) -> Any:
    return ops.mul(ops.silu(gate), up)


def _scaled(ops: Any, d: Any, s: Any) -> Any:
    return ops.mul(d, ops.broadcast(s, is_broadcast_dim=[False, True]))


def _added(ops: Any, d: Any, r: Any, c: Any) -> Any:
    return ops.add(ops.add(d, r), ops.broadcast(c, is_broadcast_dim=[True, False]))


BARE = Epilogue(1, False, (), None, lambda d: d)

EPILOGUES = (
    BARE,
    Epilogue(1, True, (), None, lambda d: d),
    Epilogue(1, False, (), lambda ops, d: ops.relu(d), torch.relu),
    Epilogue(2, False, (), _gated, lambda g, u: _silu(g) * u),
    Epilogue(2, True, (), _gated, lambda g, u: _silu(g) * u),
    Epilogue(1, False, ("scale",), _scaled, lambda d, s: d * s[:, None]),
    Epilogue(1, False, ("residual", "columns"), _added, lambda d, r, c: d + r + c),
)
"""Of groups of rows; the other forms have the bare product and the third."""


@dataclass
class Problem:
    """Operands on a device, what is asked of them and what comes out.

    Args:
        kind: of :data:`KINDS`.
        told: sizes and all that was drawn, for who reads that it is wrong.
        tensors: what a captured graph reads, by name: with other values it serves other groups.
        call: of the tensors; the result.
        other: puts other groups into the tensors.
        wanted: of the tensors, the result in fp64, and the magnitude of its terms, of its first
            rows and columns.
        inputs: what no call may change.
        rounded: how often a result is rounded; sums that have no order, of as many choices, each
            time that one is added.
    """

    kind: str
    told: str
    tensors: dict[str, Any]
    call: Callable[[], Any]
    other: Callable[[int], None]
    wanted: Callable[[], tuple[Any, Any]]
    inputs: list[Any] = field(default_factory=list)
    rounded: int = 1

    def wrong(self, result: Any) -> str:
        """What is wrong with a result; empty if nothing is."""
        value, terms = self.wanted()
        got = result.double()[tuple(slice(n) for n in value.shape)]
        bad = ~((got - value).abs() <= RELATIVE * self.rounded * terms)
        return f"{int(bad.sum())} of {bad.numel()} elements are off" if bad.any() else ""


def drawn(seed: int, device: str, largest: int, kind: str | None = None) -> Problem:
    """The problem of a number.

    Args:
        seed: its number.
        device: of its tensors.
        largest: most elements of a dimension, but of rows of all groups.
        kind: of :data:`KINDS`; drawn, unless told.
    """
    rng = random.Random(f"groups {seed}")
    kind = kind or rng.choice(KINDS)
    if kind in ("layer", "added"):
        return _layer(kind, rng, seed, device, largest)
    if kind == "shared":
        return _shared(rng, seed, device, largest)
    return _product(kind, rng, seed, device, largest)


def _groups(rng: random.Random, device: str, largest: int) -> int:
    most = 1024 if device == "cuda" else 24
    return min(drawn_size(rng, most), largest) if rng.random() < 0.9 else most


def _sizes(rng: random.Random, count: int, most: int) -> list[int]:
    """Of groups, with at most so many rows in all: empty ones, all alike, one with all, others."""
    way = rng.randrange(4)
    if way == 0:
        found = [0] * count
        found[rng.randrange(count)] = rng.randint(0, most)
    elif way == 1:
        found = [rng.choice((0, *NARROW)) for _ in range(count)]
    elif way == 2:
        found = [most // count] * count
    else:
        shares = [rng.random() ** 3 for _ in range(count)]
        found = [int(s / sum(shares) * most) for s in shares]
    while sum(found) > most:
        found[found.index(max(found))] //= 2
    return found


def _ends(sizes: Sequence[int], device: str) -> Any:
    return torch.tensor(sizes).cumsum(0).to(device=device, dtype=torch.int32)


def _product(kind: str, rng: random.Random, seed: int, device: str, largest: int) -> Problem:
    """A grouped matmul through its door."""
    generator = torch.Generator(device).manual_seed(seed)
    count, step = _groups(rng, device, largest), rng.choice((8, 8, 8, 1))
    n, k = (drawn_size(rng, largest, step) for _ in range(2))
    dtype, padding = rng.choice(("BFloat16", "Half")), rng.choice((0, 0, 8, 64, 3))
    room = max(min(4 * largest, WORK[device] // (n * k)), 1)
    count = min(count, max((1 << 26) // (n * k), 1))
    sizes = _sizes(rng, count, room)
    rows = sum(sizes) + rng.choice((0, 0, 5))
    by_k = rng.random() < 0.6

    shapes: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
        "rows": ((rows, k), (count, k, n)), "columns": ((count, n, k), (k, rows)),
        "sums": ((n, rows), (rows, k)),
    }  # fmt: skip
    left, right = shapes["rows" if kind == "index" else kind]
    few = max(rows, 1) if kind == "sums" else k
    table = (rng.randint(1, max(rows, 1)), k)

    def operand(shape: tuple[int, ...], by_rows: bool) -> Any:
        return matrix(shape, by_rows, padding, dtype, device)

    x = operand(table if kind == "index" else left, rng.random() < 0.7)
    sparse(x, few, generator)
    known = [e for e in EPILOGUES if kind in ("rows", "index") or e in (BARE, EPILOGUES[2])]
    epilogue = rng.choice(known)
    ws = [filled(operand(right, not by_k), generator) for _ in range(epilogue.matrices)]
    tensors: dict[str, Any] = {"ends": _ends(sizes, device)}
    if kind == "index":
        index = torch.randint(-1, table[0], (rows,), generator=generator, device=device)
        tensors["rows"] = index.to(rng.choice((torch.int64, torch.int32)))
    kinds = {"residual": (rows, n), "scale": (rows,), "columns": (n,)}
    extra = [filled(torch.empty(kinds[e], dtype=x.dtype, device=device), generator)
             for e in epilogue.extra]  # fmt: skip
    bias = [filled(torch.empty((count, n), dtype=x.dtype, device=device), generator)
            for _ in range(epilogue.matrices * epilogue.bias)]  # fmt: skip

    def call() -> Any:
        return wsched.grouped_mm(
            x, ws if len(ws) > 1 else ws[0], tensors["ends"], bias=bias or None,
            epilogue=epilogue.ops, inputs=extra, rows=tensors.get("rows"),
        )  # fmt: skip

    def other(turn: int) -> None:
        again = random.Random(f"{seed} {turn}")
        tensors["ends"].copy_(_ends(_sizes(again, count, rows), device))
        if kind == "index":
            tensors["rows"].random_(-1, table[0], generator=generator)

    def wanted() -> tuple[Any, Any]:
        taken = _taken(x, tensors["rows"]) if kind == "index" else x
        return _value(kind, epilogue, taken, ws, tensors["ends"], bias, extra)

    told = f"{kind} {sizes} n {n} k {k} {dtype} padding {padding} epilogue {known.index(epilogue)}"
    return Problem(kind, told, tensors, call, other, wanted, [x, *ws, *extra, *bias])


def _shared(rng: random.Random, seed: int, device: str, largest: int) -> Problem:
    """A grouped matmul by kernels that share its groups out, whose tensors TMA can read."""
    generator = torch.Generator(device).manual_seed(seed)
    count, (n, k) = _groups(rng, device, largest), (drawn_size(rng, largest, 8) for _ in "nk")
    room = max(min(4 * largest, WORK[device] // (n * k)), 1)
    count = min(count, max((1 << 26) // (n * k), 1))
    sizes = _sizes(rng, count, room)
    whole = sum(sizes) + rng.choice((0, 0, 5))
    kind, name = rng.choice(("rows", "rows", "columns")), rng.choice([*SETS])
    by_k, padding = rng.random() < 0.6, rng.choice((0, 8, 64))
    kernels = tuple(map(dynamic, SETS[name]))

    dtype, matrices = rng.choice(("BFloat16", "Half")), "nk" if by_k else "kn"
    if kind == "columns":
        kernels = tuple(map(_turned, kernels))
        left, right, matrices = (count, n, k), (k, whole), "nk"
    else:
        left, right = (whole, k), (count, k, n)
    text = grouped(dtype=dtype, matrix=matrices, ranks=FORMS[kind])
    x = sparse(matrix(left, True, padding, dtype, device), k, generator)
    w = filled(matrix(right, matrices == "kn", padding, dtype, device), generator)
    tensors = {"ends": _ends(sizes, device)}

    def call() -> Any:
        return wsched.execute(text, [x, w, tensors["ends"]], params=shared(kernels))[0]

    def other(turn: int) -> None:
        again = random.Random(f"{seed} {turn}")
        tensors["ends"].copy_(_ends(_sizes(again, count, whole), device))

    def wanted() -> tuple[Any, Any]:
        return _value(kind, BARE, x, [w], tensors["ends"], (), ())

    told = f"shared {kind} {sizes} n {n} k {k} {dtype} {matrices} padding {padding} by {name}"
    return Problem("shared", told, tensors, call, other, wanted, [x, w])


def _value(
    kind: str, epilogue: Epilogue, x: Any, ws: Sequence[Any], ends: Any, bias: Sequence[Any],
    extra: Sequence[Any],
) -> tuple[Any, Any]:  # fmt: skip
    """The result in fp64 and the magnitude of its terms, up to the last end."""
    products, last = [_grouped(kind, x, w, ends) for w in ws], int(ends[-1])
    for i, b in enumerate(bias):
        products[i] = products[i] + torch.repeat_interleave(b.double(), _counts(ends), 0)
    others = [e.double() if name == "columns" else e.double()[:last]
              for e, name in zip(extra, epilogue.extra, strict=True)]  # fmt: skip
    value = epilogue.value(*products, *others)
    terms = epilogue.value(*(p.abs() for p in (*products, *others))).abs()
    return value, terms + value.abs()


def _counts(ends: Any) -> Any:
    return torch.diff(ends, prepend=torch.zeros_like(ends[:1])).long()


def _taken(x: Any, rows: Any) -> Any:
    """Rows by index; one that is none is zeros."""
    found = x[rows.long().clamp(min=0)]
    return torch.where(rows[:, None] >= 0, found, torch.zeros_like(found))


def _grouped(kind: str, x: Any, w: Any, ends: Any) -> Any:
    """The products in fp64; of rows and columns those that are of some group."""
    runs = list(enumerate(pairwise([0, *ends.tolist()])))
    x, w = x.double(), w.double()
    if kind == "columns":
        return torch.cat([x[g] @ w[:, a:b] for g, (a, b) in runs], 1)
    if kind == "sums":
        return torch.stack([x[:, a:b] @ w[a:b] for _, (a, b) in runs])
    return torch.cat([x[a:b] @ w[g] for g, (a, b) in runs])


def _layer(kind: str, rng: random.Random, seed: int, device: str, largest: int) -> Problem:
    """A layer of experts, from tokens to tokens; ids that are no expert, too. Rows are summed in
    order, or added in any.
    """
    generator = torch.Generator(device).manual_seed(seed)
    experts, (k, n) = _groups(rng, device, largest), (drawn_size(rng, largest, 8) for _ in "kn")
    experts = min(experts, max((1 << 25) // (n * k), 1))
    choices = rng.randint(1, min(8, experts))
    room = WORK[device] // (n * k * choices)
    tokens = max(min(drawn_size(rng, largest), room), 1)
    dtype, is_gated = rng.choice(("BFloat16", "Half")), rng.random() < 0.5
    x = sparse(matrix((tokens, k), True, rng.choice((0, 8)), dtype, device), k, generator)
    by_k = rng.random() < 0.6
    first = [filled(matrix((experts, k, n), not by_k, 0, dtype, device), generator)
             for _ in range(1 + is_gated)]  # fmt: skip
    down = sparse(matrix((experts, n, k), not by_k, 0, dtype, device), n, generator)
    tensors = {
        "ids": torch.empty((tokens, choices), dtype=torch.int64, device=device),
        "weights": torch.empty((tokens, choices), device=device),
    }

    def other(turn: int) -> None:
        again = random.Random(f"{seed} {turn}")
        few = max(round(experts ** again.random()), choices)
        drawn_ = torch.rand((tokens, few), generator=generator, device=device)
        ids = drawn_.topk(choices).indices
        none = torch.rand(ids.shape, generator=generator, device=device) < 0.05
        tensors["ids"].copy_(torch.where(none, again.choice((-1, experts)), ids))
        tensors["weights"].uniform_(generator=generator)

    other(0)
    epilogue = None if is_gated else (lambda ops, d: ops.relu(d))
    given: dict[str, Any] = {} if epilogue is None else {"epilogue": epilogue}
    given["deterministic"] = kind == "layer"

    def call() -> Any:
        up = first if is_gated else first[0]
        return wsched.moe(x, tensors["ids"], tensors["weights"], up, down, **given)

    def wanted() -> tuple[Any, Any]:
        value, terms = (torch.zeros((tokens, k), dtype=torch.float64, device=device) for _ in "vt")
        for expert in tensors["ids"].unique().tolist():
            if not 0 <= expert < experts:
                continue
            token, choice = (tensors["ids"] == expert).nonzero(as_tuple=True)
            made = [x[token].double() @ m[expert].double() for m in first]
            hidden = _silu(made[0]) * made[1] if is_gated else made[0].relu()
            scale = tensors["weights"][token, choice, None].double()
            value.index_add_(0, token, scale * (hidden @ down[expert].double()))
            terms.index_add_(0, token, scale * (hidden.abs() @ down[expert].double().abs()))
        return value, terms

    told = f"{kind} of {tokens} tokens, {choices} of {experts} experts, n {n} k {k} {dtype}"
    rounded = 1 if kind == "layer" else 1 + choices
    return Problem(kind, told, tensors, call, other, wanted, [x, *first, down], rounded)
