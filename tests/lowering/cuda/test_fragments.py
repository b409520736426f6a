from __future__ import annotations

import pytest

from lowering.cuda.fragments import plan_fragments
from lowering.ground.errors import InternalError
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel

ACC = "frag<f32, 64x64, async>"


def kernel(body: str) -> Kernel:
    return parse_kernel(
        f"""
        kernel k threads 128 cluster 1 grid 1 {{
          param K: i32
          shared A: bf16[1][64x64] swizzle 128 at 0
          shared B: bf16[1][64x64] swizzle 128 at 8192
          shared D: f32[1][64x32] swizzle 128 at 16384
          {body}
        }}
        """
    )


def wgmma(out: str, acc: str) -> str:
    return f"{out}: {ACC} = wgmma {acc}, A[0, 0, 0], B[0, 0, 0]"


def refusal(body: str) -> str:
    with pytest.raises(InternalError) as e:
        plan_fragments(kernel(body).body)
    return e.value.why


def test_updates_share_one_array_named_after_the_carried_value() -> None:
    plan = plan_fragments(
        kernel(
            f"""
            zero: frag<f32, 64x64> = frag.fill 0.0
            for k in 0 .. K carry (acc: {ACC} = zero -> last) {{
              {wgmma("acc1", "acc")}
              acc2: {ACC} = wgmma.wait acc1, 1
              yield acc2
            }}
            sum: frag<f32, 64x64> = wgmma.wait last, 0
            """
        ).body
    )
    assert {v.array for v in plan.views.values()} == {"zero"}
    assert plan.arrays == {"zero": "acc"}


def test_columns_are_a_view() -> None:
    plan = plan_fragments(
        kernel(
            """
            a: frag<f32, 128x64> = frag.fill 0.0
            c: frag<f32, 128x32> = frag.columns a, 32
            h: frag<bf16, 128x32> = frag.cast c
            g: frag<bf16, 128x16> = frag.columns h, 16
            """
        ).body
    )
    c, g = plan.views["c"], plan.views["g"]
    assert (c.array, str(c.start), c.block, c.per_block, c.blocks) == ("a", "16", 32, 16, 2)
    assert (g.array, str(g.start), g.block, g.per_block) == ("h", "4", 8, 4)


def test_rows_are_a_view() -> None:
    plan = plan_fragments(
        kernel(
            """
            a: frag<f32, 192x64> = frag.fill 0.0
            r: frag<f32, 128x64> = frag.rows a, 64
            c: frag<f32, 128x32> = frag.columns r, 32
            for i in 0 .. 3 unroll {
              one: frag<f32, 64x64> = frag.rows a, i * 64
              st.shared D[0, 0, 0], one
            }
            """
        ).body
    )
    r, c, one = (plan.views[name] for name in ("r", "c", "one"))
    assert (r.array, str(r.start), r.block, r.per_block, r.blocks) == ("a", "32", 32, 32, 2)
    assert (c.array, str(c.start), c.block, c.per_block, c.blocks) == ("a", "48", 32, 16, 2)
    assert (one.array, str(one.start), one.blocks) == ("a", "i * 32", 1)


def test_columns_of_an_unrolled_loop() -> None:
    plan = plan_fragments(
        kernel(
            """
            a: frag<f32, 64x64> = frag.fill 0.0
            for i in 0 .. 2 unroll {
              c: frag<f32, 64x32> = frag.columns a, i * 32
              st.shared D[0, 0, 0], c
            }
            """
        ).body
    )
    assert str(plan.views["c"].start) == "i * 16"


def test_read_after_consumption_is_rejected() -> None:
    body = f"""
        zero: frag<f32, 64x64> = frag.fill 0.0
        {wgmma("acc", "zero")}
        h: frag<bf16, 64x64> = frag.cast zero
        """
    assert refusal(body) == "fragment zero is read by frag.cast after wgmma consumed it"


def test_read_of_a_view_after_consumption_is_rejected() -> None:
    body = f"""
        zero: frag<f32, 64x64> = frag.fill 0.0
        c: frag<f32, 64x32> = frag.columns zero, 0
        {wgmma("acc", "zero")}
        st.shared D[0, 0, 0], c
        """
    assert refusal(body) == "fragment c is read by st.shared after wgmma consumed it"


def test_consumption_in_an_inner_loop_is_rejected() -> None:
    body = f"""
        zero: frag<f32, 64x64> = frag.fill 0.0
        for tile in 0 .. 2 {{
          if tile == 0 {{
            {wgmma("acc", "zero")}
          }}
        }}
        """
    why = "fragment zero is consumed by wgmma in a loop that does not define it"
    assert refusal(body) == why


def test_consumption_of_a_part_is_rejected() -> None:
    body = """
        a: frag<f32, 128x64> = frag.fill 0.0
        c: frag<f32, 128x32> = frag.columns a, 0
        s: frag<f32, 128x32> = wgmma.wait c, 0
        """
    assert refusal(body) == "fragment c is a part of a and cannot be consumed by wgmma.wait"


ANEW = """
        zero: frag<f32, 64x64> = frag.fill 0.0
        for k in 0 .. K carry (acc: frag<f32, 64x64> = zero -> last) {
          other: frag<f32, 64x64> = frag.fill 1.0
          yield other
        }
        """
"""A loop of which the last trip alone counts."""


def test_what_is_made_anew_is_made_in_the_registers_that_are_carried() -> None:
    views = plan_fragments(kernel(ANEW).body).views
    assert {v.array for v in views.values()} == {"zero"} and set(views) >= {"acc", "other", "last"}


def test_yield_of_another_array_is_rejected() -> None:
    """Where what is carried is read, it would be overwritten."""
    body = ANEW.replace("yield", "half: frag<bf16, 64x64> = frag.cast acc\n          yield")
    assert refusal(body) == "fragment other is yielded for acc but lives in other registers"


def test_accumulator_carried_through_both_loops() -> None:
    plan = plan_fragments(
        kernel(
            f"""
            zero: frag<f32, 64x64> = frag.fill 0.0
            for tile in 0 .. K carry (outer: frag<f32, 64x64> = zero -> end) {{
              for k in 0 .. K carry (acc: {ACC} = outer -> last) {{
                {wgmma("next", "acc")}
                yield next
              }}
              sum: frag<f32, 64x64> = wgmma.wait last, 0
              c: frag<f32, 64x32> = frag.columns sum, 32
              st.shared D[0, 0, 0], c
              yield sum
            }}
            """
        ).body
    )
    assert {v.array for v in plan.views.values()} == {"zero"}
    assert set(plan.arrays.values()) == {"outer"}
