"""Places in shared memory, boxes in buffers and bytes of a phase, each held against its limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.expr import ONE, ZERO, Const, Expr, Var, as_expr
from lowering.ground.poly import poly
from lowering.ground.types import Swizzle
from lowering.kernel.kernel import Kernel, MBarrierArray, SharedBuffer, TensorMap
from lowering.kernel.memory import TmaLoad, TmaStore
from lowering.kernel.operands import GmemRef, SmemRef, Stmt
from lowering.proof.agent import Agent
from lowering.proof.linear import Facts
from lowering.proof.obligation import Obligation, Verdict
from lowering.proof.state import Fill
from lowering.proof.storage import TX_LIMIT, disjoint, few_bytes, layouts

BF16, N = DType.BF16, Var("n")
A = SharedBuffer("a", BF16, 2, (8, 64), Swizzle.B128, 0)
B = SharedBuffer("b", BF16, 1, (8, 64), Swizzle.B128, 2048)
BAR = MBarrierArray("bar", 3, 1, 3072)


def verdict(found: Obligation) -> tuple[Verdict, str, str]:
    return found.verdict, found.subject, found.why


def placed(*storage: SharedBuffer | MBarrierArray) -> tuple[Verdict, str, str]:
    kernel = Kernel("k", 32, ONE, (), storage, ())
    found = disjoint(kernel)
    assert found.name == "storage is disjoint"
    return verdict(found)


RIGHT = Verdict.PROVED, "k", ""
LIMIT = Kernel("k", 32, ONE, (), (), ()).target.shared_bytes


def test_places() -> None:
    """One behind the other up to the last byte; over each other only where one says so."""
    assert placed(A, B, BAR) == placed(B, A) == placed() == RIGHT
    assert placed(replace(A, offset=None), B) == (Verdict.UNPROVED, "a", "it has no place")
    assert placed(A, replace(BAR, offset=None)) == (Verdict.UNPROVED, "bar", "it has no place")
    near = replace(B, offset=1024)
    assert placed(A, near) == (Verdict.REFUTED, "a, b", "b begins within a")
    assert placed(A, replace(near, over=("a",))) == RIGHT
    assert placed(A, replace(BAR, offset=2040))[1:] == ("a, bar", "bar begins within a")
    last = replace(B, offset=LIMIT - 1024)
    assert placed(A, last) == RIGHT
    assert placed(A, replace(BAR, offset=LIMIT - 24)) == RIGHT
    why = f"bytes {LIMIT - 16} to {LIMIT + 8}, aligned to 8, of {LIMIT}"
    assert placed(A, replace(BAR, offset=LIMIT - 16)) == (Verdict.REFUTED, "bar", why)
    odd = f"bytes 2056 to 3080, aligned to {B.align}, of {LIMIT}"
    assert placed(A, replace(B, offset=2056)) == (Verdict.REFUTED, "b", odd)
    skew = f"bytes 3076 to 3100, aligned to 8, of {LIMIT}"
    assert placed(A, B, replace(BAR, offset=3076)) == (Verdict.REFUTED, "bar", skew)


MAP = TensorMap("T", BF16, (N, N), (8, 64), Swizzle.B128)
WIDE = SharedBuffer("w", BF16, 1, (16, 128), Swizzle.B128, 0)
THREE = SharedBuffer("c", BF16, 1, (2, 8, 64), Swizzle.B128, 0)
BOXES = TensorMap("M", BF16, (N, N, N), (2, 8, 64), Swizzle.B128)
STORAGE = (
    A, WIDE, THREE, MAP, BOXES,
    replace(MAP, name="f16", dtype=DType.F16),
    replace(MAP, name="plain", swizzle=Swizzle.NONE),
    replace(MAP, name="narrow", box=(8, 32)),
    replace(MAP, name="low", box=(9, 64)),
)  # fmt: skip


def said(stmt: Stmt) -> tuple[Verdict, str, str]:
    kernel = Kernel("k", 32, ONE, (), STORAGE, ())
    found = layouts(kernel, (Agent("r", None, (0,), 0, (stmt,)),))
    assert found.name == "boxes of buffers"
    return verdict(found)


def both(name: str, buffer: str, *coords: Expr | int) -> tuple[Verdict, str, str]:
    """Of a copy there and back, of which the same is said."""
    at = SmemRef(buffer, ZERO, tuple(Const(c) if isinstance(c, int) else c for c in coords))
    ref = GmemRef(name, (ZERO,) * (3 if name == "M" else 2))
    found, back = said(TmaLoad(at, ref)), said(TmaStore(ref, at))
    assert found == back
    return found


def test_boxes() -> None:
    assert both("T", "a", 0, 0) == both("T", "w", 8, 64) == both("M", "c", 0, 0, 0) == RIGHT
    assert both("T", "c", 1, 0, 0) == RIGHT
    for name in ("f16", "plain", "narrow"):
        why = f"{name} and a differ in type, swizzle or columns of a box"
        assert both(name, "a", 0, 0) == (Verdict.REFUTED, "a", why)
    assert both("T", "a", N, 0) == both("T", "a", 0, N) == (
        Verdict.UNPROVED, "a", "a coordinate is no number")  # fmt: skip
    for name, buffer, lines, at in (
        ("T", "a", 8, (1, 0)), ("T", "a", 8, (0, 64)), ("T", "w", 8, (0, 128)),
        ("T", "w", 8, (0, 32)), ("T", "w", 8, (9, 0)), ("low", "a", 9, (0, 0)),
        ("M", "c", 16, (1, 0, 0)), ("M", "c", 16, (0, 1, 0)), ("T", "c", 8, (1, 1, 0)),
    ):  # fmt: skip
        shape = next(s for s in (A, WIDE, THREE) if s.name == buffer).shape
        why = f"a box of {lines} lines at {list(at)} is not within {shape}"
        assert both(name, buffer, *at) == (Verdict.REFUTED, buffer, why)


@pytest.mark.parametrize(
    ("bytes_", "right"),
    [
        (None, True), (as_expr(TX_LIMIT), True), (as_expr(TX_LIMIT + 1), False), (N, False),
        (Const(TX_LIMIT) - N, True), (Const(TX_LIMIT + 1) - N, False),
    ],
)  # fmt: skip
def test_bytes_of_a_phase(bytes_: Expr | None, right: bool) -> None:
    """At every size, of each fill."""
    assert TX_LIMIT == 1048575
    none = poly(ZERO)
    fills = [
        Fill("f", none, True, bytes=none),
        Fill("f", none, True, bytes=None if bytes_ is None else poly(bytes_)),
    ]
    found = few_bytes("ring", fills, Facts(natural=frozenset("n")))
    assert found.name == "transaction count"
    why = "" if right or bytes_ is None else f"{poly(bytes_).expr()} may be above 1048575"
    assert verdict(found) == (Verdict.PROVED if right else Verdict.UNPROVED, "ring", why)
