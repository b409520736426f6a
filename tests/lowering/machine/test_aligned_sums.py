"""Products of 8-bit floats as the tensor core adds them: with fewer bits than fp32."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.ground.dtypes import DType
from lowering.machine.fragment import add_aligned
from lowering.target.hopper import WGMMA

BITS = 13


def test_the_table_says_how_many() -> None:
    forms = {d: form.aligned for form in WGMMA.forms for d in form.operands}
    assert forms[DType.E4M3] == forms[DType.E5M2] == BITS
    assert {d for d, bits in forms.items() if bits is None} == {
        DType.F16, DType.BF16, DType.TF32, DType.S8, DType.U8
    }  # fmt: skip


@pytest.mark.parametrize(("power", "kept"), [(1, True), (BITS, True), (BITS + 1, False)])
@pytest.mark.parametrize("sign", [1, -1])
def test_what_is_measured(power: int, kept: bool, sign: int) -> None:
    """``1 + 2^-j``: of two products of an instruction, and of one and an accumulator."""
    one = np.array([[1.0, 0.0]], np.float32)
    small = np.array([[sign * 2.0**-power]], np.float32)
    wanted = 1 + sign * 2.0**-power if kept else 1.0
    both = np.array([[1.0, sign * 2.0**-power]], np.float32)
    assert add_aligned(None, both, np.ones((1, 2), np.float32), BITS) == wanted
    assert add_aligned(small, one, one, BITS) == wanted
    assert add_aligned(np.ones((1, 1), np.float32), small, np.ones((1, 1), np.float32), BITS) == (
        wanted
    )


def test_many_small_ones_are_lost_one_by_one() -> None:
    """Each is aligned to the largest term, not their sum."""
    a = np.full((1, 32), 2.0**-14, np.float32)
    a[0, 0] = 1
    assert add_aligned(None, a, np.ones((1, 32), np.float32), BITS) == 1
    a[0, 0] = 0
    assert add_aligned(None, a, np.ones((1, 32), np.float32), BITS) == 31 * 2.0**-14


def test_bits_are_cut_towards_zero() -> None:
    a = np.array([[1.0, 1.75 * 2.0**-BITS, -1.75 * 2.0**-BITS]], np.float32)
    ones = np.ones((1, 3), np.float32)
    assert add_aligned(None, a[:, :2], ones[:, :2], BITS) == 1 + 2.0**-BITS
    assert add_aligned(None, a[:, ::2], ones[:, ::2], BITS) == 1 - 2.0**-BITS


def test_zeros_and_what_is_not_finite() -> None:
    a = np.array([[0.0, 0.0], [np.inf, 1.0], [np.inf, -np.inf], [np.nan, 1.0]], np.float32)
    found = add_aligned(None, a, np.ones((1, 2), np.float32), BITS)[:, 0]
    assert found[0] == 0 and found[1] == np.inf and np.isnan(found[2:]).all()
