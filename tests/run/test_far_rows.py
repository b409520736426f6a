"""Tensors whose rows lie more than 2**31 elements apart from each other, through a whole call.

Memory is sparse files: many GB long, of which only the rows are stored.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import wsched
from tests.schedules import cooperative

torch = pytest.importorskip("torch")

BF16 = torch.bfloat16
STRIDE = 2**25 + 8

TEXT = """def nvfuser_fusion(fd : FusionDefinition) -> None :
    a = fd.define_tensor(shape=[-1, -1], contiguity=[None, True], dtype=DataType.BFloat16)
    b = fd.define_tensor(shape=[-1, -1], contiguity=[None, True], dtype=DataType.BFloat16)
    c = fd.define_tensor(shape=[-1, -1], contiguity=[None, True], dtype=DataType.BFloat16)
    p = fd.ops.linear(a, b)
    d = fd.ops.add(p, c)
    e = fd.ops.cast(d, dtype=DataType.BFloat16)
    fd.add_output(e)
"""


def far(path: Path, values: Any) -> Any:
    """The same values in rows far apart."""
    rows, cols = values.shape
    memory = torch.from_file(str(path), shared=True, size=rows * STRIDE, dtype=values.dtype)
    found = memory.as_strided((rows, cols), (STRIDE, 1))
    found.copy_(values)
    assert found[-1].storage_offset() > 2**31
    return found


@pytest.mark.slow
@pytest.mark.parametrize("smem", [True, False])
def test_rows_far_apart(tmp_path: Path, smem: bool) -> None:
    """Operands by TMA, the matrix of the epilogue and the result by TMA or by threads."""
    params = cooperative(64, 64, 64, groups=1, registers=None)
    params = replace(params, use_smem_epilogue=smem, epilogue_input_stages=int(smem))
    draw = torch.Generator().manual_seed(1)
    m, n, k = 128, 72, 64
    a, b, c = (
        far(tmp_path / name, torch.randint(-3, 4, size, generator=draw).to(BF16))
        for name, size in (("a", (m, k)), ("b", (n, k)), ("c", (m, n)))
    )
    out = far(tmp_path / "out", torch.full((m, n), float("nan"), dtype=BF16))
    wsched.compile(TEXT, [a, b, c], params=params)(a, b, c, out=out)
    assert torch.equal(out, (a.float() @ b.float().T + c.float()).to(BF16))
