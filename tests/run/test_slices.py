"""CTAs of a cluster share a tile whatever its rows: a slice may begin within the pattern of a
swizzle, which follows from the address.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lowering.ground.errors import ScheduleError
from lowering.target import ptx
from tests.on_machine import Problem, exact, kernel, operands, run
from tests.proofs import proved
from tests.schedules import cooperative, definition
from wsched.front.known import import_fusion
from wsched.run.compiled import compile_fusion
from wsched.schedule.matmul.params import ClusterDims, MatmulParams

ODD = Problem(400, 352, 136, 4)


def shared(n: int, cluster: tuple[int, int], chunk: int = 0, k: int = 64) -> MatmulParams:
    base = cooperative(128, n, k, stages=3, epilogue_stages=1)
    return replace(base, cluster_dims=ClusterDims(*cluster), epilogue_columns=chunk)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("params", "rows"),
    [(shared(152, (2, 1), 152), 76), (shared(80, (4, 1)), 20), (shared(168, (4, 1), 168), 42),
     (shared(88, (2, 2), 88), 44), (shared(72, (2, 1), 72, k=32), 36)],
    ids=lambda x: str(x) if isinstance(x, int) else "",
)  # fmt: skip
def test_right_and_proved(params: MatmulParams, rows: int) -> None:
    made = kernel(params)
    assert made.kernel.tensor_maps[1].box[0] == rows
    x, w = operands(ODD, "bf16", 0, integer=True)
    assert np.array_equal(run(made, ODD, x, w, "bf16", races=True).astype("f4"), exact(x, w))
    proved(made.kernel, made.plan)


@pytest.mark.parametrize(
    ("rows", "cols", "span", "count", "found"),
    [
        (152, 64, 64, 2, (76, 64)),  # 76 lines of 128 bytes
        (64, 192, 64, 3, (64, 64)),  # whole boxes, which are fewer and larger
        (72, 32, 32, 2, (36, 32)),  # lines of 64 bytes
        (72, 32, 32, 8, None),  # 9 lines of 64 bytes are no multiple of 128
        (72, 16, 16, 4, None),  # 18 lines of 32 bytes
        (152, 64, 64, 3, None),  # no whole rows
    ],
)
def test_what_each_cta_loads(
    rows: int, cols: int, span: int, count: int, found: tuple[int, int] | None
) -> None:
    assert ptx.multicast_slice(rows, cols, span, count, 2 * span) == found


def test_what_is_refused() -> None:
    with pytest.raises(ScheduleError) as error:
        compile_fusion(import_fusion(definition()), shared(88, (8, 1), 88, k=32))
    assert error.value.why == (
        "the tile's n 88, loaded by 8 CTAs together: each would load 11 rows, and a slice is whole "
        "rows and multiples of 128 bytes"
    )
