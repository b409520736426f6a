"""Walking, rewriting and renaming; what the visitor does not enter is lost to passes."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.expr import ONE, Const, Expr, Special, Var
from lowering.ground.types import FragmentType
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    BulkCommit,
    CtaSync,
    Elect,
    For,
    Frag,
    FragCast,
    If,
    Let,
    Role,
    Roles,
    Section,
    Stmt,
)
from lowering.kernel.text import parse_kernel, print_body
from lowering.kernel.visit import (
    Names,
    bodies,
    defined,
    defined_in,
    expressions,
    inside,
    map_bodies,
    map_exprs,
    map_roles,
    reads_in,
    rename,
    rewrite,
    used,
    used_in,
    walk,
)
from tests.lowering.kernel.samples import ALL_NODES, NODE_KINDS, WELL_FORMED

KERNEL = parse_kernel(ALL_NODES)
STATEMENTS = {type(s): s for s in walk(KERNEL.body)}
INNER = (CtaSync(),)


@pytest.mark.parametrize("kind", NODE_KINDS, ids=lambda kind: kind.__name__)
def test_bodies_are_all_statement_lists(kind: type[Stmt]) -> None:
    stmt = STATEMENTS[kind]
    inside = [
        inner
        for field in fields(stmt)
        for value in [getattr(stmt, field.name)]
        if isinstance(value, tuple)
        for inner in value
        if isinstance(inner, (Stmt, Role))
    ]
    assert bool(inside) == bool([b for b in bodies(stmt) if b])


@pytest.mark.parametrize(
    "stmt",
    [
        For(Var("i"), Const(0), ONE, INNER),
        If(Var("c"), INNER, INNER),
        Elect(INNER),
        Section("load", INNER),
        Roles((Role("a", 0, 4, INNER), Role("b", 4, 4, INNER))),
    ],
    ids=lambda stmt: stmt.OP,
)
def test_recursion(stmt: Stmt) -> None:
    nested = map_bodies(map_bodies(stmt, lambda b: (replace_all(stmt, b),)), lambda b: b)
    count = len(bodies(stmt))
    assert list(map(type, walk((stmt,)))).count(CtaSync) == count
    assert list(map(type, walk((nested,)))).count(CtaSync) == count**2
    changed = rewrite((nested,), lambda s: (BulkCommit(),) if isinstance(s, CtaSync) else None)
    assert list(map(type, walk(changed))).count(BulkCommit) == count**2
    assert rewrite((nested,), lambda s: None) == (nested,)


def replace_all(stmt: Stmt, body: tuple[Stmt, ...]) -> Stmt:
    """``stmt`` with ``body`` in each of its lists."""
    return map_bodies(stmt, lambda _: body)


def test_a_missing_else_stays_missing() -> None:
    stmt = map_bodies(If(Var("c"), INNER), lambda body: (*body, BulkCommit()))
    assert stmt == If(Var("c"), (CtaSync(), BulkCommit()))


def test_walk_is_in_program_order() -> None:
    ops = [s.OP for s in walk(parse_kernel(WELL_FORMED).body)]
    assert ops[:8] == [
        "roles", "for", "frag.fill", "for", "if", "mbarrier.wait", "wgmma", "wgmma.commit",
    ]  # fmt: skip


def test_rewrite_is_bottom_up_and_may_drop_or_multiply() -> None:
    body = (If(Var("c"), (CtaSync(), Elect(()))),)

    def visit(stmt: Stmt) -> tuple[Stmt, ...] | None:
        match stmt:
            case CtaSync():
                return (stmt, stmt)
            case Elect(body=()):
                return ()
        return None

    assert rewrite(body, visit) == (If(Var("c"), (CtaSync(), CtaSync())),)


def test_rename_reaches_everything() -> None:
    body = parse_kernel(WELL_FORMED).body
    half = Frag("h", FragmentType(DType.BF16, 64, 64))
    renamed = rename(
        body,
        {Var(n): Var(n.upper() + "2") for n in ("t", "k", "c", "m", "wg", "M")},
        {"half": half, "total": replace(half, name="sum2")},
    )
    text = print_body(renamed)
    for line in (
        "for T2 in 0 .. M2 {",
        "mbarrier.wait full[K2], 0",
        "h: frag<bf16, 64x64> = frag.cast sum2",
        "if WG2 == 0 {",
        "stmatrix A_s[C2, 0, 0], h",
        "tma.store A[T2, 0], A_s[C2, 0, 0]",
        "tma.load A_s[M2 % 2, 0, 0], A[M2, 0], bar=full[M2 % 2]",
    ):
        assert line in text


def test_map_exprs_stays_outside_the_statement_lists() -> None:
    loop = For(Var("i"), Const(0), Var("n"), (Let(Var("a"), Var("n")),))

    def next_name(e: Expr) -> Expr:
        return Var(e.name + "_") if isinstance(e, Var) else e

    assert map_exprs(loop, next_name) == For(
        Var("i_"), Const(0), Var("n_"), (Let(Var("a"), Var("n")),)
    )


def test_what_a_statement_reads_and_binds() -> None:
    kernel = parse_kernel(ALL_NODES)
    found = {s.var.name: s for s in walk(kernel.body) if isinstance(s, For)}
    assert used(found["t"]) == {"g", "M", "n", "s", "wide"}
    assert defined(found["t"]) == {"t", "s", "s_end", "wide", "wide_end"}
    assert [str(e) for e in expressions(found["t"])] == [
        "g", "M - -1", "1", "0", "n", "s + 1", "g * 2",
    ]  # fmt: skip
    cast = next(s for s in walk(kernel.body) if isinstance(s, FragCast))
    assert (used(cast), defined(cast)) == ({"part"}, {"half"})
    section = STATEMENTS[Section]
    roles = STATEMENTS[Roles]
    assert (used(roles), defined(roles)) == (set(), {"wg"})
    assert defined(replace(section, group=Var("g"))) == {"g"}


def naive(body: Body) -> list[Stmt]:
    return [s for stmt in body for s in (stmt, *(x for b in bodies(stmt) for x in naive(b)))]


def test_what_is_kept_with_a_statement_is_its_own() -> None:
    """It is found once, and anew of a statement that others stand in or that reads others."""
    loop = next(s for s in walk(KERNEL.body) if isinstance(s, For) and s.carries)
    assert inside(loop) is inside(loop) == tuple(naive(loop.body))
    assert used(loop) is used(loop) and defined(loop) is defined(loop)
    new = replace(loop, var=Var("other"), stop=Var("end"), body=INNER)
    assert inside(new) == INNER != inside(loop)
    assert used(new) == used(loop) - {"M"} | {"end"}
    assert defined(new) == defined(loop) - {"t"} | {"other"}
    fresh = replace(new)
    assert (new, hash(new), repr(new)) == (fresh, hash(fresh), repr(fresh))


@pytest.mark.parametrize("kernel", [KERNEL, parse_kernel(WELL_FORMED)], ids=["nodes", "whole"])
def test_names_of_all_statements(kernel: Kernel) -> None:
    statements = naive(kernel.body)
    assert list(walk(kernel.body)) == statements
    reads = [name for s in statements for name in used(s)]
    assert reads_in(kernel.body) == {name: reads.count(name) for name in reads}
    assert used_in(kernel.body) == set(reads)
    assert defined_in(kernel.body) == {name for s in statements for name in defined(s)}


def test_map_roles() -> None:
    kernel = parse_kernel(WELL_FORMED)
    empty = map_roles(kernel, lambda r: replace(r, body=(Let(Var("x"), Special("warp")),)))
    assert [s.OP for s in walk(empty.body)] == ["roles", "let", "let"]


def test_new_names() -> None:
    names = Names(KERNEL)
    taken = ("M", "A", "A_s", "full", "turn", "odd", "t", "s_end", "wg", "half", "last")
    taken = (*taken, "bias", "scale_stride")
    assert [names.new(n) for n in taken] == [f"{n}2" for n in taken]
    assert names.new("ring") == "ring3"
    assert [names.new("fresh") for _ in range(3)] == ["fresh", "fresh2", "fresh3"]


def test_a_list_once_more() -> None:
    """What it binds has new names, loops inside it too; what is given takes the place of names."""
    text = """
kernel k threads 128 cluster 1 grid 1 {
  zero: frag<f32, 64x8> = frag.fill 0.0
  for t in 0 .. 2 {
    let n: i32 = t + 1
    for i in 0 .. n carry (x: frag<f32, 64x8> = zero -> y) {
      z: frag<f32, 64x8> = frag.cast x
      yield z
    }
  }
}
"""
    kernel = parse_kernel(text)
    _, outer = kernel.body
    assert isinstance(outer, For)
    names, given = Names(kernel), Frag("total", FragmentType(DType.F32, 64, 8))
    made = print_body(names.once_more(outer.body, {outer.var: Const(1)}, {"y": given}))
    assert made.splitlines() == [
        "let n2: i32 = 2",
        "for i2 in 0 .. n2 carry (x2: frag<f32, 64x8> = zero -> total) {",
        "  z2: frag<f32, 64x8> = frag.cast x2",
        "  yield z2",
        "}",
    ]
