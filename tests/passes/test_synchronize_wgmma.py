from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowering.ground.errors import InternalError, ScheduleError, UnsupportedError
from lowering.ground.expr import evaluate
from lowering.kernel.nodes import Release, WaitFull, WgmmaWait
from lowering.kernel.text import parse_kernel
from passes.options import LoweringOptions
from passes.synchronize_wgmma import synchronize_wgmma
from tests.lowering.ground.expressions import budget
from tests.passes.evaluator import execute_role
from tests.passes.texts import full, kernel, lowered, unchanged

HEAD = """
param n: i32
shared A_s: bf16[4][64x32] swizzle 64
shared B_s: bf16[4][256x32] swizzle 64
circular_buffer ring(A_s, B_s) stages 4 groups 1 consumers 1 in_flight {in_flight}
"""
LOOP = """
roles {
  role compute warps 0 .. 4 {
    zero: frag<f32, 64x256> = frag.fill 0.0
    for k in 0 .. n carry (acc: frag<f32, 64x256> = zero -> sum) {
      wait_full ring, k
      acc1: frag<f32, 64x256> = mma.tile acc, A_s[k % 4, 0, 0], B_s[k % 4, 0, 0], 32, 0 < k
      release ring, k
      yield acc1
    }
    half: frag<bf16, 64x256> = frag.cast sum
  }
}
"""


def before(in_flight: int) -> str:
    return HEAD.format(in_flight=in_flight) + LOOP


def test_k_runs_along_the_rows_of_mn_major_operands() -> None:
    text = (
        before(0)
        .replace("[64x32] swizzle 64", "[32x64] swizzle 128")
        .replace("32, 0 < k", "32, 0 < k, trans_a=true")
    )
    lines = [line.strip() for line in lowered(synchronize_wgmma, text).splitlines()]
    first, second = (line for line in lines if " = wgmma a" in line)
    assert first.endswith(
        "wgmma acc, A_s[k % 4, 0, 0], B_s[k % 4, 0, 0], accumulate=0 < k, trans_a=true"
    )
    assert second.endswith("wgmma acc1_k0, A_s[k % 4, 16, 0], B_s[k % 4, 0, 16], trans_a=true")


IN_REGISTERS = """
      left: frag<bf16, 64x32> = ldmatrix A_s[k % 4, 0, 0]
      acc1: frag<f32, 64x256> = mma.tile acc, left, B_s[k % 4, 0, 0], 32, 0 < k
"""


def in_registers(in_flight: int) -> str:
    product = (
        "acc1: frag<f32, 64x256> = mma.tile acc, A_s[k % 4, 0, 0], B_s[k % 4, 0, 0], 32, 0 < k"
    )
    return before(in_flight).replace(product, IN_REGISTERS)


def test_a_in_registers_is_taken_apart_in_front_of_the_fence() -> None:
    lines = [x.strip() for x in lowered(synchronize_wgmma, in_registers(0)).splitlines()]
    first = lines.index("left: frag<bf16, 64x32> = ldmatrix A_s[k % 4, 0, 0]") + 1
    assert lines[first : first + 7] == [
        "left_k0: frag<bf16, 64x16> = frag.columns left, 0",
        "left_k16: frag<bf16, 64x16> = frag.columns left, 16",
        "wgmma.fence",
        "acc1_k0: frag<f32, 64x256, async> = wgmma acc, left_k0, B_s[k % 4, 0, 0], "
        "accumulate=0 < k",
        "acc1_k16: frag<f32, 64x256, async> = wgmma acc1_k0, left_k16, B_s[k % 4, 0, 16]",
        "wgmma.commit",
        "acc1: frag<f32, 64x256> = wgmma.wait acc1_k16, 0",
    ]


def test_a_in_registers_that_the_next_step_would_write() -> None:
    with pytest.raises(UnsupportedError) as error:
        lowered(synchronize_wgmma, in_registers(1))
    assert str(error.value) == (
        "in_flight 1 with A in registers that each step writes is not supported; "
        "supported: in_flight 0, or A written in front of the loop"
    )


def test_a_in_registers_for_all_steps() -> None:
    text = in_registers(1).replace(IN_REGISTERS.splitlines()[1], "")
    outside = "left: frag<bf16, 64x32> = frag.fill 1.0"
    text = text.replace("zero: frag<f32", f"{outside}\n    zero: frag<f32")
    after = lowered(synchronize_wgmma, text)
    assert after.count("wgmma acc, left_k0") == 1 and "wgmma.wait acc1_k16, 1" in after


def test_one_group_stays_in_flight() -> None:
    after = """
roles {
  role compute warps 0 .. 4 {
    zero: frag<f32, 64x256> = frag.fill 0.0
    for k in 0 .. n carry (acc: frag<f32, 64x256, async> = zero -> sum_async) {
      wait_full ring, k
      wgmma.fence
      acc1_k0: frag<f32, 64x256, async> = wgmma acc, A_s[k % 4, 0, 0], B_s[k % 4, 0, 0], ACC
      acc1_k16: frag<f32, 64x256, async> = wgmma acc1_k0, A_s[k % 4, 0, 16], B_s[k % 4, 0, 16]
      wgmma.commit
      acc1: frag<f32, 64x256, async> = wgmma.wait acc1_k16, 1
      if 0 < k {
        release ring, k - 1
      }
      yield acc1
    }
    sum: frag<f32, 64x256> = wgmma.wait sum_async, 0
    if 0 < n {
      release ring, n - 1
    }
    half: frag<bf16, 64x256> = frag.cast sum
  }
}
""".replace("ACC", "accumulate=0 < k")
    assert lowered(synchronize_wgmma, before(1)) == full(HEAD.format(in_flight=1) + after)


def test_none_in_flight() -> None:
    after = """
roles {
  role compute warps 0 .. 4 {
    zero: frag<f32, 64x256> = frag.fill 0.0
    for k in 0 .. n carry (acc: frag<f32, 64x256> = zero -> sum) {
      wait_full ring, k
      wgmma.fence
      acc1_k0: frag<f32, 64x256, async> = wgmma acc, A_s[k % 4, 0, 0], B_s[k % 4, 0, 0], ACC
      acc1_k16: frag<f32, 64x256, async> = wgmma acc1_k0, A_s[k % 4, 0, 16], B_s[k % 4, 0, 16]
      wgmma.commit
      acc1: frag<f32, 64x256> = wgmma.wait acc1_k16, 0
      release ring, k
      yield acc1
    }
    half: frag<bf16, 64x256> = frag.cast sum
  }
}
""".replace("ACC", "accumulate=0 < k")
    assert lowered(synchronize_wgmma, before(0)) == full(HEAD.format(in_flight=0) + after)


@budget(40)
@given(st.integers(0, 9), st.integers(0, 3))
def test_each_step_is_released_once_after_a_wait_that_covers_it(n: int, in_flight: int) -> None:
    new = synchronize_wgmma(kernel(before(in_flight)), LoweringOptions())
    started, released, done = 0, [], 0
    for stmt, env in execute_role(new, "compute", {"n": n}):
        match stmt:
            case WaitFull():
                started += 1
            case WgmmaWait(pending=pending):
                done = started - pending
            case Release(step=step):
                released.append(evaluate(step, env))
                assert released[-1] < done
    assert released == list(range(n))


def test_without_products_nothing_changes() -> None:
    assert unchanged(synchronize_wgmma, "for k in 0 .. 4 { fence.proxy.async }")


@pytest.mark.parametrize(
    ("tile", "k", "text"),
    [("64x256", 24, "64x256x24"), ("64x12", 32, "64x12x32"), ("32x256", 32, "32x256x32")],
)
def test_no_such_wgmma(tile: str, k: int, text: str) -> None:
    with pytest.raises(ScheduleError) as error:
        lowered(
            synchronize_wgmma, before(1).replace("64x256>", f"{tile}>").replace("32, 0", f"{k}, 0")
        )
    assert str(error.value) == (
        f"ScheduleError[wgmma]: a warp tile of {text}: "
        "wgmma multiplies 64xNx16 with N a multiple of 8 up to 256\n"
        "  legal here: M a multiple of 64; N a multiple of 8 from 8 to 256; K a multiple of 16"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("release ring, k", ""),
        ("= zero -> sum)", "= zero -> sum, x: i32 = 0 -> y)"),
    ],
)
def test_a_loop_of_another_shape(old: str, new: str) -> None:
    text = before(1).replace(old, new)
    if "x: i32" in new:
        text = text.replace("yield acc1", "yield acc1, x")
    with pytest.raises(InternalError) as error:
        lowered(synchronize_wgmma, text)
    assert str(error.value) == (
        "synchronize_wgmma: the k loop has no release or carries a scalar\n"
        "This is a defect of wsched, please report it with the dump."
    )


def test_a_loop_that_carries_no_accumulator() -> None:
    text = before(1).replace("acc: frag<f32, 64x256> = zero -> sum", "x: i32 = 0 -> y")
    text = text.replace("mma.tile acc,", "mma.tile zero,").replace("yield acc1", "yield x")
    broken = parse_kernel(full(text.replace("frag.cast sum", "frag.cast zero")))
    with pytest.raises(InternalError) as error:
        synchronize_wgmma(broken, LoweringOptions())
    assert str(error.value) == (
        "synchronize_wgmma: x is not a fragment\n"
        "This is a defect of wsched, please report it with the dump."
    )
