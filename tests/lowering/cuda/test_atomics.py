"""Counters as CUDA C++: the text and the machine code."""

from __future__ import annotations

import pytest

from lowering.cuda.atomics import atom_function
from lowering.cuda.emit import emit_cuda, emit_kernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.cuda.sass import disassemble
from lowering.ground.errors import InternalError
from lowering.kernel.atomic import ATOM_ORDERS, ATOMS
from lowering.kernel.text import parse_kernel

KERNEL = """
kernel counting threads 128 cluster 1 grid 1 {
  param n: i32
  counter next[1]
  counter arrived[n]
  elect {
    ticket: i32 = atom inc, next[0], n - 1
    unused: i32 = atom add, arrived[ticket], 1, order=release.gpu
    counter.wait arrived[ticket + 1], 2
    again: i32 = atom inc, next[0], ticket
  }
}
"""


def test_text(golden: object) -> None:
    assert emit_kernel(parse_kernel(KERNEL)) == golden


def test_machine_code() -> None:
    compiled = compile_cubin(emit_cuda(parse_kernel(KERNEL)))
    assert read_resources(compiled, "counting").clean
    sass = disassemble(compiled.cubin)
    assert sass.count("ATOMG.E.INC.STRONG.GPU") == 1
    assert sass.count("REDG.E.INC.STRONG.GPU") == 1, "nobody reads what `again` is"
    assert sass.count("LDG.E.STRONG.GPU") == 1


def test_every_form_compiles() -> None:
    atoms = "\n".join(
        f"x{i}: i32 = atom {op}, c[0], 1, order={order}"
        for i, (op, order) in enumerate((op, order) for op in ATOMS for order in ATOM_ORDERS)
    )
    text = f"kernel forms threads 32 cluster 1 grid 1 {{ counter c[1] elect {{ {atoms} }} }}"
    source = emit_cuda(parse_kernel(text))
    assert all(atom_function(op, order) in source for op in ATOMS for order in ATOM_ORDERS)
    assert compile_cubin(source).cubin


@pytest.mark.parametrize("bad", ["sub, next[0], 1", "add, next[0], 1, order=relaxed.cta"])
def test_a_form_that_is_none(bad: str) -> None:
    text = f"kernel k threads 32 cluster 1 grid 1 {{ counter next[1] x: i32 = atom {bad} }}"
    with pytest.raises(InternalError) as e:
        emit_kernel(parse_kernel(text))
    op, order = bad[:3], "relaxed.cta" if "order" in bad else "relaxed.gpu"
    assert e.value.why == f"no atom {op} with order {order}"
