"""Loops, branches and roles as operations of scf."""

from __future__ import annotations

import re

import pytest

from lowering.ground.errors import InternalError
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel
from lowering.mlir.emit import emit_mlir


def kernel(body: str, threads: int = 128) -> Kernel:
    return parse_kernel(
        f"""
        kernel k threads {threads} cluster 1 grid 1 {{
          param K: i32
          shared S: s32[4][1] at 0
          {body}
        }}
        """
    )


def body_of(body: str, threads: int = 128) -> list[str]:
    """Operations of the kernel's own statements, without comments and indentation."""
    lines = [line.strip() for line in emit_mlir(kernel(body, threads)).splitlines()]
    start = next(i for i, line in enumerate(lines) if line.startswith("%S = "))
    end = lines.index("llvm.return")
    frame = re.compile(r"//|.*nvvm\.(read|shfl)|.*i %tid_x|.*i %warp,")
    return [line for line in lines[start + 1 : end] if not frame.match(line)]


def test_a_loop_carries_scalars() -> None:
    text = body_of(
        """
        for i in 0 .. K step 2 carry (a: i32 = 0 -> a9, b: i32 = 1 -> b9) {
          yield b, a + b
        }
        on %warp 0 { elect { st.word S[0, 0], a9 } }
        """
    )
    assert re.fullmatch(
        r"%\d+:2 = scf\.for %i = %c0_i32 to %K step %c2_i32 "
        r"iter_args\(%a = %c0_i32, %b = %c1_i32\) -> \(i32, i32\) : i32 \{",
        text[0],
    )
    assert re.fullmatch(r"%\d+ = arith\.addi %a, %b : i32", text[1])
    assert text[2].startswith("scf.yield %b, ")
    assert text[3] == "} {loop_annotation = #llvm.loop_annotation<unroll = <disable = true>>}"
    assert f"{text[0].partition(':')[0]}#0" in " ".join(text[4:])


@pytest.mark.parametrize(("shape", "count"), [("1x1", 1), ("1x8", 2)])
def test_a_loop_carries_the_registers_of_a_fragment_together(shape: str, count: int) -> None:
    kind = f"frag<f32, {shape}>"
    text = body_of(
        f"""
        zero: {kind} = frag.fill 0.0
        for i in 0 .. K carry (x: {kind} = zero -> last) {{
          y: {kind} = frag.pointwise add, x, 1.0
          yield y
        }}
        """
    )
    (loop,) = (line for line in text if "scf.for" in line)
    packed = f"!f32x{count}"
    assert f") -> ({packed}) : i32" in loop
    (given,) = re.findall(r"iter_args\(%x = (%\d+)\)", loop)
    assert any(line.startswith(f"{given} = ") and line.endswith(packed) for line in text)
    for i in range(count):
        assert any(re.match(rf"%\d+ = llvm.extractvalue %x\[{i}\] : {packed}", x) for x in text)
    assert next(line for line in text if "scf.yield" in line).endswith(f" : {packed}")


def test_an_unrolled_loop_is_written_out() -> None:
    text = body_of(
        """
        for i in 0 .. 3 carry (a: i32 = K -> last) unroll {
          on %warp 0 { elect { st.word S[i, 0], a } }
          yield a + i
        }
        """
    )
    assert not any("scf.for" in line for line in text)
    stores = [line for line in text if "st.shared" in line]
    assert len(stores) == 3
    assert " %S, %K :" in stores[0]
    assert sum(line.startswith("%") and "%K, %c1_i32" in line for line in text) == 1


def test_a_loop_that_is_left_goes_on_by_a_condition() -> None:
    text = body_of(
        """
        for i in 0 .. K carry (a: i32 = 0 -> a9) {
          w: i32 = ld.word S[0, 0]
          break w < 1
          v: i32 = ld.word S[1, 0]
          break v < 2
          yield a + v
        }
        """
    )
    assert sum(re.search(r"arith\.addi %i_\d, %c1_i32", line) is not None for line in text) == 1
    loops = [line.partition("(")[0] for line in text if "scf.while" in line]
    assert len(loops) == 1
    condition = next(line for line in text if line.startswith("scf.condition"))
    assert condition.endswith("%i, %go, %a : i32, i1, i32")
    yields = [line for line in text if line.startswith("scf.yield")]
    # Left at the first break, left at the second, not left; then what each branch gave.
    assert yields[0].startswith("scf.yield %i_2, %false, %a_2")
    assert yields[1] == yields[0]
    assert ", %true, " in yields[2]
    assert len(yields) == 5
    loads = [i for i, line in enumerate(text) if "ld.shared" in line]
    branches = [i for i, line in enumerate(text) if "= scf.if" in line]
    assert loads[0] < branches[0] < loads[1] < branches[1]


def test_what_a_branch_computes_is_not_known_behind_it() -> None:
    text = body_of(
        """
        if K < 5 {
          on %warp 0 { elect { st.word S[0, 0], K * 3 } }
        } else {
          on %warp 0 { elect { st.word S[0, 0], K * 3 } }
        }
        let x: i32 = K * 3
        """
    )
    assert sum("arith.muli %K, %c3_i32" in line for line in text) == 3
    assert text.count("} else {") == 1


def test_roles_are_one_chain_of_branches() -> None:
    text = body_of(
        """
        roles {
          role compute warps 0 .. 8 as group {
            setmaxnreg inc, 232
          }
          role load warps 8 .. 12 {
            setmaxnreg dec, 40
          }
        }
        """,
        384,
    )
    assert re.fullmatch(r"%\d+ = arith\.cmpi slt, %warp, %c8_i32 : i32", text[0])
    assert text[1] == f"scf.if {text[0].partition(' ')[0]} {{"
    assert "nvvm.setmaxregister increase 232" in text[2:5]
    other = text.index("} else {")
    assert text[other:][:1] + text[-2:] == ["} else {", "nvvm.setmaxregister decrease 40", "}"]
    # Each of them takes the address of shared memory itself.
    own = [i for i, line in enumerate(text) if '"mov.u32 $0, shared_memory;"' in line]
    assert own[0] < other < own[1]
    assert len(own) == 2


def test_roles_that_leave_warps_out_are_refused() -> None:
    with pytest.raises(InternalError, match="do not tile"):
        emit_mlir(kernel("roles { role a warps 0 .. 2 { } }"))


def test_elect_meets_behind_its_body() -> None:
    text = body_of("on %warp 0 { elect { st.word S[0, 0], K } }")
    at = next(i for i, line in enumerate(text) if line.endswith("= nvvm.elect.sync -> i1"))
    assert text[at + 1] == f"scf.if {text[at].partition(' ')[0]} {{"
    assert text[-2] == "nvvm.bar.warp.sync %c-1_i32 : i32"


def test_a_value_that_is_computed_once() -> None:
    text = body_of("let x: i32 = K * 2 once\n on %warp 0 { elect { st.word S[0, 0], x } }")
    once = next(line for line in text if '""' in line or 'att ""' in line)
    assert '"=r,0"' in once
    assert "has_side_effects" in once
