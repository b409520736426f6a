"""What ``verify`` and the parser demand of counters and atomics."""

from __future__ import annotations

import pytest

from lowering.ground.expr import Const, Var
from lowering.kernel.kernel import CounterArray
from lowering.kernel.lexer import IRSyntaxError
from lowering.kernel.nodes import Atom, CounterRef
from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.kernel.visit import Names, defined, used

KERNEL = """kernel k threads 128 cluster 1 grid 1 {{
  param n: i32
  counter next[n]
  roles {{ role all warps 0 .. 4 {{ {0} }} }}
}}"""
ATOM = "old: i32 = atom add, next[n - 1], 1"


def test_well_formed() -> None:
    kernel = parse_kernel(KERNEL.format(f"elect {{ {ATOM} counter.wait next[old], old + 1 }}"))
    assert verify(kernel) == []
    assert kernel.counters == (CounterArray("next", Var("n")),)


def test_the_result_is_a_scalar_of_its_own() -> None:
    atom = Atom(Var("old"), "add", CounterRef("next", Var("n")), Const(1))
    assert defined(atom) == {"old"}
    assert used(atom) == {"n"}
    assert Names(parse_kernel(KERNEL.format(""))).new("next") == "next2"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (ATOM, f"atom outside elect, in: {ATOM}"),
        ("elect { x: i32 = atom add, last[0], 1 }",
         "no storage named last, in: x: i32 = atom add, last[0], 1"),
        ("elect { x: i32 = atom sub, next[0], 1 }",
         "no operation of atom named sub, but add, exch, inc, max, min, "
         "in: x: i32 = atom sub, next[0], 1"),
        ("elect { x: i32 = atom add, next[0], 1, order=release.cta }",
         "no order of atom named release.cta, but relaxed.gpu, acquire.gpu, release.gpu, "
         "acq_rel.gpu, in: x: i32 = atom add, next[0], 1, order=release.cta"),
        ("elect { x: i64 = atom add, next[0], 1 }",
         "x is i64, a counter i32, in: x: i64 = atom add, next[0], 1"),
        (f"elect {{ {ATOM} {ATOM} }}", f"old is defined twice, in: {ATOM}"),
    ],
)  # fmt: skip
def test_what_an_atomic_may_be(body: str, problem: str) -> None:
    assert verify(parse_kernel(KERNEL.format(body))) == [problem]


def test_a_fragment_is_no_result_of_an_atomic() -> None:
    with pytest.raises(IRSyntaxError) as e:
        parse_kernel(KERNEL.format("x: frag<f32, 64x64> = atom add, next[0], 1"))
    assert str(e.value) == "line 4: found 'atom', expected a statement that gives a fragment"
