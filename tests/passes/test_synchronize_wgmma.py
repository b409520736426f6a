from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import evaluate
from lowering.kernel.nodes import Release, WaitFull, WgmmaWait
from passes.options import LoweringOptions
from passes.synchronize_wgmma import synchronize_wgmma
from tests.lowering.ground.expressions import budget
from tests.passes.evaluator import execute_role
from tests.passes.texts import full, kernel, lowered, unchanged

HEAD = """
param n: i32
shared A_s: bf16[4][64x32] swizzle 64
shared B_s: bf16[4][256x32] swizzle 64
ring ring(A_s, B_s) stages 4 in_flight {in_flight}
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
    assert lowered(synchronize_wgmma, before(0)) == full(
        HEAD.replace(" in_flight {in_flight}", "") + after
    )


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
    with pytest.raises(UnsupportedError) as error:
        lowered(
            synchronize_wgmma, before(1).replace("64x256>", f"{tile}>").replace("32, 0", f"{k}, 0")
        )
    assert str(error.value) == (
        f"a warp tile of {text} is not supported; supported: what wgmma multiplies: "
        "M a multiple of 64, N a multiple of 8 from 8 to 256, K a multiple of 16"
    )


TWO = """
roles {
  role compute warps 0 .. 4 {
    zero: frag<f32, 64x256> = frag.fill 0.0
    none: frag<f32, 64x64> = frag.fill 0.0
    for k in 0 .. n carry (i: i32 = 0 -> j, acc: frag<f32, 64x256> = zero -> sum,
        small: frag<f32, 64x64> = none -> rest) {
      wait_full ring, k
      acc1: frag<f32, 64x256> = mma.tile acc, A_s[k % 4, 0, 0], B_s[k % 4, 0, 0], 16, 0 < k
      BETWEEN
      small1: frag<f32, 64x64> = mma.tile small, A_s[k % 4, 0, 16], B_s[k % 4, 0, 16], 16, 0 < k
      release ring, k
      yield i + 1, acc1, small1
    }
    AFTER
  }
}
"""


def two(in_flight: int, between: str = "", after: str = "") -> list[str]:
    text = HEAD.format(in_flight=in_flight) + TWO.replace("BETWEEN", between)
    lines = lowered(synchronize_wgmma, text.replace("AFTER", after)).splitlines()
    return [line.strip() for line in lines]


def test_neighbouring_products_are_one_group() -> None:
    lines = two(1)
    first = lines.index("wgmma.fence")
    assert lines[first : first + 9] == [
        "wgmma.fence",
        "acc1: frag<f32, 64x256, async> = "
        "wgmma acc, A_s[k % 4, 0, 0], B_s[k % 4, 0, 0], accumulate=0 < k",
        "small1_k0: frag<f32, 64x64, async> = "
        "wgmma small, A_s[k % 4, 0, 16], B_s[k % 4, 0, 16], accumulate=0 < k",
        "wgmma.commit",
        "small1: frag<f32, 64x64, async> = wgmma.wait small1_k0, 1",
        "if 0 < k {",
        "release ring, k - 1",
        "}",
        "yield i + 1, acc1, small1",
    ]
    assert lines[first + 10 : first + 15] == [
        "sum: frag<f32, 64x256> = wgmma.wait sum_async, 0",
        "rest: frag<f32, 64x64> = wgmma.wait rest_async, 0",
        "if 0 < n {",
        "release ring, n - 1",
        "}",
    ]


def test_each_of_them_is_waited_for_where_none_stays_in_flight() -> None:
    lines = two(0)
    first = lines.index("wgmma.commit")
    assert lines[first + 1 : first + 5] == [
        "acc1: frag<f32, 64x256> = wgmma.wait acc1_k0, 0",
        "small1: frag<f32, 64x64> = wgmma.wait small1_k0, 0",
        "release ring, k",
        "yield i + 1, acc1, small1",
    ]


def test_products_apart_are_groups_of_their_own() -> None:
    """Two groups a step, so two stay pending; a release in front of the second waits for it."""
    lines = two(1, between="release ring, k")
    first = lines.index("wgmma.commit")
    assert lines[first + 1] == "wgmma.fence"
    assert lines[first + 4 : first + 9] == [
        "small1: frag<f32, 64x64, async> = wgmma.wait small1_k0, 2",
        "if 0 < k {",
        "release ring, k - 1",
        "}",
        "if 0 < k {",
    ]


READ = "half: frag<bf16, 64x256> = frag.cast acc1"


def test_what_the_step_reads_does_not_stay_in_flight() -> None:
    lines = two(1, between=READ)
    assert [line for line in lines if "wgmma.wait" in line or "cast" in line] == [
        "acc1: frag<f32, 64x256> = wgmma.wait acc1_k0, 0",
        READ,
        "small1: frag<f32, 64x64> = wgmma.wait small1_k0, 0",
    ]


def test_a_product_onto_another() -> None:
    again = (
        "acc1: frag<f32, 64x256> = mma.tile more, A_s[k % 4, 0, 16], B_s[k % 4, 0, 16], 16, true"
    )
    for in_flight in (0, 1):
        text = before(in_flight).replace("32, 0 < k", f"16, 0 < k\n{again}")
        text = text.replace(
            "acc1: frag<f32, 64x256> = mma.tile acc,", "more: frag<f32, 64x256> = mma.tile acc,"
        )
        lines = [line.strip() for line in lowered(synchronize_wgmma, text).splitlines()]
        first = lines.index("wgmma.fence")
        tail = ", async" * in_flight
        assert lines[first + 1 : first + 5] == [
            "more: frag<f32, 64x256, async> = "
            "wgmma acc, A_s[k % 4, 0, 0], B_s[k % 4, 0, 0], accumulate=0 < k",
            "acc1_k0: frag<f32, 64x256, async> = wgmma more, A_s[k % 4, 0, 16], B_s[k % 4, 0, 16]",
            "wgmma.commit",
            f"acc1: frag<f32, 64x256{tail}> = wgmma.wait acc1_k0, {in_flight}",
        ]


RELEASED = """
ring slow(C_s) stages 2
"""


def test_the_fewest_in_flight_of_the_buffers_that_products_read() -> None:
    """A release of what only threads read stays where it is."""
    head = "shared C_s: bf16[2][64x32] swizzle 64\n" + HEAD.format(in_flight=2) + RELEASED
    text = LOOP.replace("release ring, k", "release ring, k\nrelease slow, k")
    read = lowered(synchronize_wgmma, head + text)
    assert "wgmma.wait acc1_k16, 2" in read and "\n        release slow, k\n" in read
    text = text.replace("A_s[k % 4", "C_s[k % 2")
    read = lowered(synchronize_wgmma, head + text)
    assert "wgmma.wait acc1_k16, 0" in read and "release ring, k - 2" not in read


def test_products_outside_of_loops() -> None:
    once = LOOP.replace("for k in 0 .. n carry (acc: frag<f32, 64x256> = zero -> sum) {", "")
    once = once.replace("yield acc1\n    }", "").replace("frag.cast sum", "frag.cast acc1")
    once = once.replace("tile acc,", "tile zero,").replace("k % 4", "0").replace("0 < k", "false")
    once = once.replace("ring, k", "ring, 0")
    text = lowered(synchronize_wgmma, HEAD.format(in_flight=1) + once)
    assert "acc1: frag<f32, 64x256> = wgmma.wait acc1_k16, 0\n      release ring, 0\n" in text


def test_parts_of_an_accumulator_are_one_group() -> None:
    """The second adds to the other columns of what the first one has added to."""
    halves = """
    roles {
      role compute warps 0 .. 4 {
        zero: frag<f32, 64x256> = frag.fill 0.0
        for k in 0 .. n carry (acc: frag<f32, 64x256> = zero -> sum) {
          wait_full ring, k
          low: frag<f32, 64x256> = mma.tile acc, A_s[k % 4, 0, 0], B_s[k % 4, 0, 0], 16, 0 < k, \
cols=128
          all: frag<f32, 64x256> = mma.tile low, A_s[k % 4, 0, 0], B_s[k % 4, 128, 0], 16, 0 < k, \
col=128, cols=128
          release ring, k
          yield all
        }
      }
    }
    """
    text = lowered(synchronize_wgmma, HEAD.format(in_flight=1) + halves)
    lines = [line.strip() for line in text.splitlines()]
    first = lines.index("wgmma.fence")
    assert [line.split(" = ")[-1] for line in lines[first : first + 5]] == [
        "wgmma.fence",
        "wgmma acc, A_s[k % 4, 0, 0], B_s[k % 4, 0, 0], accumulate=0 < k, cols=128",
        "wgmma low, A_s[k % 4, 0, 0], B_s[k % 4, 128, 0], accumulate=0 < k, col=128, cols=128",
        "wgmma.commit",
        "wgmma.wait all_k0, 1",
    ]
