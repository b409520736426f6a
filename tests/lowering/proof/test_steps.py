"""Places: which step a stage and a parity belong to."""

from __future__ import annotations

import pytest

from lowering.ground.expr import Var
from lowering.ground.poly import poly
from lowering.kernel.control import For
from lowering.kernel.text import parse_kernel
from lowering.kernel.visit import walk
from lowering.proof.linear import Facts
from lowering.proof.steps import Steps, congruent

TEXT = """
kernel k threads 32 cluster 1 grid 1 {{
  param n: i32
  param skip: i32
  let skip_stage: i32 = skip % 5
  let skip_parity: i32 = skip // 5 % 2
  for t in 0 .. n carry (s: i32 = {init} -> s_end, p: i32 = 0 -> p_end) {{
    let next: i32 = s + {add}
    let wraps: pred = 5 <= next
    yield select(wraps, next - 5, next), {parity}
  }}
}}
"""
CASES = [
    ("0", "1", "p ^ select(wraps, 1, 0)", "1"),
    ("3", "4", "p ^ select(wraps, 1, 0)", "4"),
    ("0", "skip_stage", "p ^ skip_parity ^ select(wraps, 1, 0)", "skip"),
    ("0", "1", "p", None),
    ("0", "1", "p ^ select(wraps, 0, 1)", "-4"),
    ("0", "skip_stage", "p ^ select(wraps, 1, 0)", None),
    ("5", "1", "p ^ select(wraps, 1, 0)", None),
]


@pytest.mark.parametrize(("init", "add", "parity", "delta"), CASES)
def test_a_pair(init: str, add: str, parity: str, delta: str | None) -> None:
    """A step of one, of several, of a run-time number; and what is no step at all."""
    kernel = parse_kernel(TEXT.format(init=init, add=add, parity=parity))
    steps = Steps.of(kernel.body, (5,), Facts(natural=frozenset({"n", "skip"})))
    (loop,) = (s for s in walk(kernel.body) if isinstance(s, For))
    heads = steps.heads[loop.var.name]
    if delta is None:
        assert not heads
        return
    (head,) = heads
    wanted = poly(Var("skip")) if delta == "skip" else poly(Var("one") - Var("one") + int(delta))
    assert congruent(head.delta, wanted, 10)
    assert head.first.constant() == int(init)
    assert head.moved == poly(Var("n")) * head.delta
