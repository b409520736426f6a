"""What kernels print: a call with the numbers of the line, by the thread that has them."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel
from lowering.mlir.emit import emit_mlir
from lowering.mlir.toolchain import compile_mlir, lowered
from tests.lowering.mlir.interpreter import run

FRAGMENT = "frag.print compute, T4, sum, v, 77, 13"


def kernel(body: str) -> Kernel:
    return parse_kernel(
        f"""
        kernel k threads 128 cluster 1 grid 1 {{
          param K: i32
          v: frag<f32, 128x64> = frag.fill 2.5
          {body}
        }}
        """
    )


def written(*statements: str) -> str:
    return emit_mlir(kernel("\n".join(statements)))


PRINT = "elect {{ print load, T1, k, K * 2{} }}"


def test_a_number() -> None:
    text = written(PRINT.format(""))
    said = "%lld cta %d load warp %d: T1: k = %d"
    assert f'@printed0("{said}\\0A\\00")' in text
    assert f"!llvm.array<{len(said) + 2} x i8>" in text
    assert text.count("llvm.call @vprintf") == text.count("llvm.func @vprintf") == 1


def test_a_line_under_a_condition() -> None:
    text = written(PRINT.format(", when=4 < K"))
    assert text.count("scf.if") == written(PRINT.format("")).count("scf.if") + 1


def test_the_numbers_of_a_line_lie_in_the_order_of_its_text() -> None:
    """The clock, the CTA, the warp and the number, as the structure has them."""
    for text, kind in ((written(PRINT.format("")), "i32"), (written(FRAGMENT), "f64")):
        fields = f"(i64, i32, i32, {kind})"
        ((frame, count),) = re.findall(
            rf"(%\w+) = llvm.alloca %(\w+) x !llvm.struct<{re.escape(fields)}>", text
        )
        assert count == "c1_i32"
        places = dict(re.findall(
            rf"(%\w+) = llvm.getelementptr {frame}\[0, (\d)\] .*{re.escape(fields)}>", text
        ))  # fmt: skip
        stored = re.findall(r"llvm.store (%\w+), (%\w+) : (\w+), !llvm.ptr", text)
        assert [places[at] for _, at, _ in stored] == ["0", "1", "2", "3"]
        assert [type_ for *_, type_ in stored] == ["i64", "i32", "i32", kind]
        clock, cta, warp, number = (value for value, *_ in stored)
        assert f"{clock} = nvvm.read.ptx.sreg.clock64 : i64" in text
        assert (cta, warp) == ("%ctaid_x", "%warp")
        made = "arith.muli %K, %c2_i32 : i32" if kind == "i32" else "arith.extf"
        assert f"{number} = {made}" in text
        ((form, given),) = re.findall(r"llvm.call @vprintf\((%\w+), (%\w+)\)", text)
        assert given == frame and f"{form} = llvm.mlir.addressof @printed0 : !llvm.ptr" in text


def test_texts_are_there_once() -> None:
    text = written(PRINT.format(""), PRINT.format(""), PRINT.format("").replace("T1", "T2"))
    assert len(re.findall(r"global internal constant @printed\d", text)) == 2
    assert text.count("llvm.call @vprintf") == 3


def test_an_element_is_printed_by_its_lane() -> None:
    text = written(FRAGMENT)
    given = {"%K": 1, "ctaid.x": 0, "clock64": 9}
    found = [run(text.splitlines(), {**given, "tid.x": lane}) for lane in range(32)]
    asked = [lane for lane, thread in enumerate(found) if thread.values[_asked(text)]]
    assert asked == [77 % 8 * 4 + 13 % 8 // 2]
    assert "arith.extf" in text


def _asked(text: str) -> str:
    """The name of the condition of the only branch."""
    (found,) = re.findall(r"scf.if (%\w+) ", text)
    return str(found)


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_ptxas_takes_it() -> None:
    text = written(PRINT.format(""), FRAGMENT)
    assert lowered(text, "k", "sm_90a").count("vprintf,") == 2
    assert compile_mlir(text, "k", "sm_90a").cubin
