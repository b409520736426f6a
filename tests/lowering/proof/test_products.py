"""What wgmmas multiply: lists of them, right and wrong.

A word is ``acc:out/row,k*k,column`` with the places at which A and B begin; ``t`` in front of A or
B says that it lies turned, a stage may stand behind ``@``, ``~`` is an operand in registers.
"""

from __future__ import annotations

import re

import pytest

from lowering.ground.dtypes import DType
from lowering.ground.expr import ZERO, Const, Var
from lowering.ground.types import FragmentType
from lowering.kernel.control import For
from lowering.kernel.nodes import Frag, SmemRef, Stmt, Wgmma, WgmmaCommit
from lowering.proof.agent import Agent
from lowering.proof.obligation import Verdict
from lowering.proof.products import products

TYPE = FragmentType(DType.F32, 64, 8)


def frag(name: str) -> Frag:
    return Frag(name, TYPE)


def operand(text: str, buffer: str) -> tuple[SmemRef | Frag, bool]:
    if text == "~":
        return frag("x"), False
    plain, _, stage = text.removeprefix("t").partition("@")
    first, second = map(int, plain.split(","))
    return SmemRef(buffer, Const(int(stage or 0)), (Const(first), Const(second))), text[0] == "t"


def product(word: str) -> Stmt:
    found = re.fullmatch(r"(\w+):(\w+)/(.*)\*([^+]*)(\+\d+)?", word)
    assert found is not None
    acc, out, a, b, col = found.groups()
    (left, turned), (right, other) = operand(a, "a"), operand(b, "b")
    assert isinstance(right, SmemRef)
    return Wgmma(frag(out), frag(acc), left, right, trans_a=turned, trans_b=other,
                 col=int(col or 0))  # fmt: skip


def said(words: str, inner: bool = False) -> str:
    body: tuple[Stmt, ...] = tuple(map(product, words.split()))
    if inner:
        body = (WgmmaCommit(), For(Var("i"), ZERO, Var("n"), body))
    empty = Agent("r", None, (1,), 0, (WgmmaCommit(),))
    agent = Agent("r", None, (0,), 0, body)
    (found,) = products("k", (empty, agent))
    assert found.name == "products"
    assert found.verdict is (Verdict.REFUTED if found.why else Verdict.PROVED)
    assert found.subject == (str(agent) if found.why else "k")
    return found.why


ROWS = "{} is of other rows or columns than those in front of it"
AGAIN = "{} adds the slice at {} again"
LISTS = {
    "a:b/0,0*0,0 b:c/0,16*0,16": "",
    "a:b/0,0*0,0 b:c/0,0*0,0": AGAIN.format("c", 0),
    "a:b/0,0*0,0 b:c/0,16*0,16 c:d/0,0*0,0": AGAIN.format("d", 0),
    "a:b/0,0*0,16": "b multiplies the slice at 0 by that at 16",
    "a:b/64,0*8,0 b:c/64,16*8,16": "",
    "a:b/64,0*8,0 b:c/0,16*8,16": ROWS.format("c"),
    "a:b/64,0*8,0 b:c/64,16*0,16": ROWS.format("c"),
    "a:b/64,0*8,0 a2:b2/0,0*8,0": "",
    "a:b/0,0*0,0 a2:b2/0,0*0,0": "",
    "a:b/0,0*0,0 a:c/0,16*0,16": "the registers of a are taken twice",
    "a:b/0,0*0,0 b:c/0,0@1*0,0@1": "",
    "a:b/0,0*0,0 b:c/0,0@1*0,0": "",
    "a:b/0,0*0,0 b:c/64,0@1*0,0@1": "",
    "a:b/0,0*0,0 b:c/0,0*8,0+8": "",
    "a:b/0,0*0,0+8 b:c/0,0*0,0+8": AGAIN.format("c", 0),
    "a:b/t0,64*t0,8 b:c/t16,64*t16,8": "",
    "a:b/t0,64*t16,8": "b multiplies the slice at 0 by that at 16",
    "a:b/t0,64*8,0 b:c/t16,64*8,16": "",
    "a:b/t0,64*8,0 b:c/t16,0*8,16": ROWS.format("c"),
    "a:b/~*0,0 b:c/~*0,16": "",
    "a:b/~*0,0 b:c/~*0,0": AGAIN.format("c", 0),
    "a:b/~*0,0 b:c/~*8,16": ROWS.format("c"),
    "a:b/0,0*0,0 b:c/0,16*0,16 d:e/0,0*0,0 e:f/0,16*0,16": "",
    "a:b/0,0*0,0 b:c/0,16*0,16 d:e/0,0*0,0 e:f/0,0*0,0": AGAIN.format("f", 0),
}


@pytest.mark.parametrize("words", LISTS)
def test_lists_of_products(words: str) -> None:
    assert said(words) == said(words, inner=True) == LISTS[words]


def test_without_products_nothing_is_claimed() -> None:
    assert [*products("k", (Agent("r", None, (0,), 0, (WgmmaCommit(),)),))] == []
