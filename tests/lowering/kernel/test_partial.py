"""What ``verify`` demands of workspaces and partial results."""

from __future__ import annotations

import pytest

from lowering.ground.expr import Const, Var
from lowering.kernel.kernel import Workspace
from lowering.kernel.nodes import PartialRef, Publish
from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.kernel.visit import Names, used

KERNEL = """kernel k threads 128 cluster 1 splits 2 grid 1 {{
  param n: i32
  workspace parts: f32[ctas * n][64x8]
  mine: frag<f32, 64x8> = frag.fill 1.0
  {0}
}}"""
ADD = "sum: frag<f32, 64x8> = frag.add_partial mine, parts[n]"


def test_well_formed() -> None:
    kernel = parse_kernel(KERNEL.format(f"frag.store_partial parts[%ctaid.z], mine {ADD}"))
    assert verify(kernel) == []
    assert kernel.splits == 2
    assert kernel.workspaces == (Workspace("parts", 64, 8, Var("ctas") * Var("n")),)
    assert kernel.workspace("parts") == kernel.workspaces[0]
    assert Names(kernel).new("parts") == "parts2"
    assert used(Publish(PartialRef("parts", Var("n") + Const(1)))) == {"n"}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("frag.store_partial slots[0], mine",
         "no storage named slots, in: frag.store_partial slots[0], mine"),
        ("part: frag<f32, 64x16> = frag.fill 0.0 frag.store_partial parts[0], part",
         "part is frag<f32, 64x16>, a slot of parts takes frag<f32, 64x8>, "
         "in: frag.store_partial parts[0], part"),
        ("h: frag<bf16, 64x8> = frag.cast mine frag.store_partial parts[0], h",
         "h is frag<bf16, 64x8>, a slot of parts takes frag<f32, 64x8>, "
         "in: frag.store_partial parts[0], h"),
        (f"{ADD} {ADD.replace('sum', 'more')}",
         f"mine is consumed twice, in: {ADD.replace('sum', 'more')}"),
        (ADD.replace("sum: frag<f32, 64x8>", "sum: frag<f32, 64x16>"),
         "sum is frag<f32, 64x16>, a slot of parts takes frag<f32, 64x8>, "
         "in: sum: frag<f32, 64x16> = frag.add_partial mine, parts[n]"),
        ("elect { frag.store_partial parts[0], mine }",
         "frag.store_partial under elect, in: frag.store_partial parts[0], mine"),
        ("elect { await parts[0], 1 }", "await under elect, in: await parts[0], 1"),
        ("elect { publish parts[0] }", "publish under elect, in: publish parts[0]"),
    ],
)  # fmt: skip
def test_what_a_partial_result_may_be(body: str, problem: str) -> None:
    assert verify(parse_kernel(KERNEL.format(body))) == [problem]
