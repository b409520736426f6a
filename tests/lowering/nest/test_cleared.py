"""Where accumulators are cleared: once, or in each tile."""

from __future__ import annotations

import pytest

from lowering.kernel.nodes import For, FragFill, Section
from lowering.kernel.visit import walk
from lowering.nest.lower import lower
from tests.epilogues import GELU, RESIDUAL, WIDE_RESIDUAL, epilogue
from tests.schedules import cooperative, definition, ping_pong
from wsched.front.known import import_fusion
from wsched.schedule.matmul.params import MatmulParams
from wsched.schedule.matmul.scheduler import plan_matmul

GATED = epilogue(
    "v: [-1, -1]", "y = fd.ops.linear(x, w)", "u = fd.ops.linear(x, v)", "d = fd.ops.mul(y, u)"
)

AGAIN = epilogue(
    "y = fd.ops.linear(x, w, dtype=DataType.Float)", "t = fd.ops.tanh(y)",
    "h = fd.ops.cast(t, dtype=DataType.BFloat16)", "d = fd.ops.mul(h, 3.0)",
)  # fmt: skip


@pytest.mark.parametrize("params", [cooperative(128, 64), ping_pong(64, 64)], ids=["all", "turns"])
@pytest.mark.parametrize(
    ("text", "in_tiles"),
    [
        pytest.param(definition(), False, id="stored"),
        pytest.param(definition("bf16", "f32"), False, id="not rounded"),
        pytest.param(WIDE_RESIDUAL, False, id="not rounded, and computed"),
        pytest.param(epilogue("d = fd.ops.relu(y)"), False, id="computed in 16 bits"),
        pytest.param(epilogue("d = fd.ops.tanh(y)"), True, id="computed in fp32"),
        pytest.param(RESIDUAL, True, id="a matrix is added"),
        pytest.param(GELU, True, id="a bias, and gelu"),
        pytest.param(GATED, True, id="two products"),
        pytest.param(AGAIN, False, id="read, and what is made of that is rounded"),
    ],
)
def test_sums_that_are_rounded_are_no_longer_than_their_tile(
    text: str, in_tiles: bool, params: MatmulParams
) -> None:
    kernel = lower(plan_matmul(import_fusion(text), params), "k")
    (compute,) = (s for s in kernel.body if isinstance(s, Section) and s.name == "compute")
    (tiles,) = (s for s in compute.body if isinstance(s, For))
    zeros = {s.out for s in compute.body if isinstance(s, FragFill)}
    fills = [s for s in walk(tiles.body) if isinstance(s, FragFill)]
    carried = [c for c in tiles.carries if c.init in zeros]
    products = 2 if text == GATED else 1
    assert (len(fills), len(carried)) == ((products, 0) if in_tiles else (0, products))
