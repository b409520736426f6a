"""MN-major operands on the machine: right ones, and faults that must give a wrong number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from lowering.kernel.descriptor import MatrixDescriptor
from lowering.kernel.kernel import SharedBuffer
from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.machine import MachineError, run_kernel
from tests.lowering.machine.kernels import from_dtype, integers, matmul_text, to_dtype

COLS = 128
LOADS = {
    "a": "tma.load a_s[stage, 0, {c}], a[k * 64, tile % rows * 128 + {c}], bar=full[stage]",
    "b": "tma.load b_s[stage, 0, {c}], b[k * 64, tile // rows * 128 + {c}], bar=full[stage]",
}


def text() -> str:
    """The sample matmul with both operands MN-major: two boxes of 64 columns each, K as rows."""
    found = matmul_text(cols=COLS)
    for name, extent in (("a", "M"), ("b", "N")):
        found = found.replace(
            f"tensormap {name}: bf16[{extent}, K] box 128x64",
            f"tensormap {name}: bf16[K, {extent}] box 64x64",
        ).replace(f"shared {name}_s: bf16[2][128x64]", f"shared {name}_s: bf16[2][64x128]")
        (load,) = (x for x in found.splitlines() if f"tma.load {name}_s" in x)
        found = found.replace(load, "\n".join(LOADS[name].format(c=c) for c in (0, 64)))
    for k in range(0, 64, 16):
        found = found.replace(
            f"a_s[stage2, g * 64, {k}], b_s[stage2, 0, {k}]",
            f"a_s[stage2, {k}, g * 64], b_s[stage2, {k}, 0], trans_a=true, trans_b=true",
        )
    return found


def right(kernel: str, m: int = 200, n: int = 264, k: int = 136, seed: int = 0) -> bool:
    rng = np.random.default_rng(seed)
    a, b = integers(rng, k, m), integers(rng, k, n)
    d = to_dtype(np.full((m, n), np.nan, np.float32), "bf16")
    sizes = {"M": m, "N": n, "K": k}
    run_kernel(parse_kernel(kernel), {"a": a, "b": b, "d": d}, sizes, 2, seed=seed)
    want = from_dtype(a, "bf16").T @ from_dtype(b, "bf16")
    return bool(np.array_equal(from_dtype(d, "bf16"), want))


def in_core_matrices() -> str:
    """The same without a swizzle: boxes of 8 columns."""
    found = text()
    for name, extent in (("a", "M"), ("b", "N")):
        for declared, box in (
            (f"tensormap {name}: bf16[K, {extent}] box 64x", "8"),
            (f"shared {name}_s: bf16[2][64x", "128]"),
        ):
            (line,) = (x for x in found.splitlines() if declared in x)
            place = line.partition("swizzle 128")[2]
            found = found.replace(line, f"  {declared}{box} swizzle 16{place}")
        first, second = (x for x in found.splitlines() if f"tma.load {name}_s" in x)
        boxes = [LOADS[name].format(c=c) for c in range(0, 128, 8)]
        found = found.replace(second, "").replace(first, "\n".join(boxes))
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(3))
def test_both_operands_mn_major(seed: int) -> None:
    assert verify(parse_kernel(text())) == []
    assert right(text(), seed=seed)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (", trans_a=true", ""),
        (", trans_b=true", ""),
        ("b_s[stage2, 16, 0]", "b_s[stage2, 8, 0]"),
        ("b_s[stage2, 16, 0]", "b_s[stage2, 0, 0]"),
        ("a_s[stage2, 32, g * 64]", "a_s[stage2, 32, 0]"),
        ("b_s[stage, 0, 64], b[k * 64, tile // rows * 128 + 64]",
         "b_s[stage, 0, 64], b[k * 64, tile // rows * 128]"),
        ("a: bf16[K, M] box 64x64 swizzle 128", "a: bf16[K, M] box 64x64"),
        ("shared b_s: bf16[2][64x128] swizzle 128", "shared b_s: bf16[2][64x128] swizzle 64"),
    ],
)  # fmt: skip
def test_a_fault_in_the_kernel_shows(old: str, new: str) -> None:
    assert old in text()
    try:
        assert not right(text().replace(old, new))
    except MachineError as error:
        assert "wgmma" in str(error)


def test_an_operand_that_starts_within_a_line() -> None:
    with pytest.raises(MachineError) as error:
        right(text().replace("a_s[stage2, 16, g * 64]", "a_s[stage2, 16, g * 64 + 8]"))
    assert "the rows of a wgmma operand start 16 bytes after a multiple of 1024" in str(error.value)


def _no_leading(right: MatrixDescriptor) -> MatrixDescriptor:
    return replace(right, leading=16)


def _half_a_box(right: MatrixDescriptor) -> MatrixDescriptor:
    return replace(right, leading=right.leading // 2)


def _exchanged(right: MatrixDescriptor) -> MatrixDescriptor:
    """Leading and stride byte offset in each other's field."""
    return replace(right, leading=right.stride, stride=right.leading)


def _half_a_stride(right: MatrixDescriptor) -> MatrixDescriptor:
    return replace(right, stride=right.stride // 2)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("spans", [128, 16])
@pytest.mark.parametrize("fault", [_no_leading, _half_a_box, _exchanged, _half_a_stride])
def test_a_fault_in_the_descriptor_shows(
    fault: Callable[[MatrixDescriptor], MatrixDescriptor],
    spans: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The machine reads the descriptor's bits, not the buffer's layout."""
    made = MatrixDescriptor.of

    def broken(buffer: SharedBuffer, trans: bool) -> MatrixDescriptor:
        return fault(made(buffer, trans))

    kernel = text() if spans == 128 else in_core_matrices()
    assert right(kernel)
    monkeypatch.setattr(MatrixDescriptor, "of", broken)
    try:
        assert not right(kernel)
    except MachineError as error:
        assert "outside" in str(error) or "nobody has written" in str(error)
