"""Stamps as CUDA C++: the text, the machine code, and the parameter."""

from __future__ import annotations

import pytest

from lowering.cuda.emit import emit_cuda, emit_kernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.resources import read_resources
from lowering.cuda.sass import disassemble
from lowering.kernel.text import parse_kernel

KERNEL = """
kernel stamps threads 256 cluster 1 grid 1 {
  param n: i32
  trace spans[3](cta, loop)
  stamp spans, cta, begin, %smid, clock=globaltimer
  for i in 0 .. n {
    stamp spans, loop, end, i * 2
  }
}
"""


def test_text(golden: object) -> None:
    assert emit_kernel(parse_kernel(KERNEL)) == golden


@pytest.mark.parametrize(
    ("launch", "cta"),
    [
        ("grid 1", "ctaid"),
        ("splits 2 grid 1", "ctaid_z * nctaid + ctaid"),
        ("grid 1, n", "ctaid_y * nctaid + ctaid"),
        ("splits 2 grid 1, n", "(ctaid_z * nctaid_y + ctaid_y) * nctaid + ctaid"),
    ],
)
def test_each_cta_of_the_grid_has_a_part(launch: str, cta: str) -> None:
    text = emit_kernel(parse_kernel(KERNEL.replace("grid 1", launch)))
    cta = f"({cta})" if " " in cta else cta
    assert f"spans_of_warp = spans + ({cta} * 8 + warp) * 8;" in text
    assert ("const int nctaid_y = gridDim.y;" in text) == ("nctaid_y" in cta)


def test_machine_code() -> None:
    """One read of each clock, and two stores of 16 bytes for each stamp."""
    compiled = compile_cubin(emit_cuda(parse_kernel(KERNEL)))
    assert read_resources(compiled, "stamps").clean
    sass = disassemble(compiled.cubin)
    counts = [sass.count(what) for what in ("SR_GLOBALTIMERLO", "SR_CLOCKLO", "STG.E.128")]
    assert counts == [1, 1, 4]


def test_names_do_not_collide() -> None:
    clash = KERNEL.replace("param n: i32", "param n: i32\nparam spans_made: i32\nparam smid: i32")
    text = emit_kernel(parse_kernel(clash))
    assert "int spans_made_2 = 0;" in text and "int smid_2" in text
