"""From definitions without matmuls to summaries."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.importer import record_text
from wsched.importer.summary import import_summary

ROWS = """
def fusion(fd: FusionDefinition) -> None:
    x = fd.define_tensor(shape=[16, 1, 24], contiguity=[True, None, True], dtype=DataType.BFloat16)
    {made}
    flat = fd.ops.squeeze(made, dims=[1])
    total = fd.ops.sum(flat, dims=[0], dtype=DataType.Float)
    fd.add_output(total)
"""


def test_a_squeeze_in_front_of_a_sum() -> None:
    summary = import_summary(record_text(ROWS.format(made="made = fd.ops.neg(x)")))
    assert (summary.rank, summary.over, [r.dims for r in summary.results]) == (3, (0,), [(2,)])


def test_a_matmul_has_no_place() -> None:
    with pytest.raises(UnsupportedError) as e:
        import_summary(
            record_text(
                ROWS.format(made="made = fd.ops.matmul(x, fd.ops.permute(x, dims=[0, 2, 1]))")
            )
        )
    assert str(e.value) == (
        "fd.ops.matmul of a summary is not supported; supported: the operations of "
        "design/pointwise-ops.md"
    )
