"""Masks in epilogues: what a matmul's kernel keeps of its result, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import wsched
from tests.epilogues import epilogue
from tests.masks import (
    BATCHED,
    BF16,
    CASES,
    COMPUTING,
    KEPT,
    K,
    M,
    N,
    W,
    X,
    Y,
    bools,
    check,
    check_one_kernel,
    integers,
)
from tests.schedules import QUICK, SCHEDULES, cooperative, ping_pong
from tests.tiers import in_tiers
from wsched.front.known import import_fusion
from wsched.schedule.matmul.params import MatmulParams


@pytest.mark.parametrize("schedule", [cooperative(128, 64), ping_pong(64, 64)])
@pytest.mark.parametrize("name", CASES)
def test_masks(name: str, schedule: MatmulParams) -> None:
    check(CASES[name], schedule)


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_the_kernel_of_a_call_has_them(name: str) -> None:
    """No part is cut off."""
    check_one_kernel(CASES[name])


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["matrix", "both vectors"])
@pytest.mark.parametrize("schedule", in_tiers(COMPUTING, QUICK))
def test_every_schedule(schedule: str, name: str) -> None:
    check(CASES[name], SCHEDULES[schedule])


def _shifted(t: Any) -> Any:
    wide = torch.zeros(M, N + 2, dtype=t.dtype)
    wide[:, 1 : N + 1] = t
    return wide[:, 1 : N + 1]


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "wider rows": lambda t: torch.cat([t, t], 1)[:, :N],
    "odd start": _shifted,
    "columns": lambda t: t.T.contiguous().T,
    "one row": lambda t: t[:1].expand(M, N),
    "one column": lambda t: t[:, :1].expand(M, N),
}


@pytest.mark.sampled
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_a_matrix(layout: str) -> None:
    m = LAYOUTS[layout](bools(M, N))
    (d,) = wsched.execute(CASES["matrix"][0], [X, W, m])
    assert torch.equal(d, (Y * m).to(BF16))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 150), st.integers(1, 150), st.integers(1, 70), st.sampled_from([*CASES][:6]),
)  # fmt: skip
def test_any_shape(m: int, n: int, k: int, name: str) -> None:
    text, inputs, _ = CASES[name]
    x, w = integers(m, k, seed=m), integers(n, k, seed=n)
    sizes = {M: m, N: n, 1: 1}
    masks = [bools(*(sizes[s] for s in t.shape), seed=k + i) for i, t in enumerate(inputs)]
    kept = masks[0] & masks[-1]
    kept = kept[:, None] if name == "column by a broadcast" else kept
    (d,) = wsched.execute(text, [x, w, *masks])
    assert torch.equal(d, (x.float() @ w.float().T * kept).to(BF16))


@pytest.mark.parametrize("batches", [1, 3])
def test_a_mask_of_a_batch(batches: int) -> None:
    x, w, m = integers(batches, M, K), integers(batches, K, N), bools(batches, 1, N)
    (d,) = wsched.execute(BATCHED, [x, w, m])
    assert torch.equal(d, torch.where(m, x.float() @ w.float(), -1).to(BF16))
    said = str(wsched.explain(BATCHED, [x, w, m])).splitlines()[0]
    assert "epilogue" in said, said


@pytest.mark.sampled
@pytest.mark.parametrize("schedule", ["coop_128x256", "pingpong_128x128", "exchanged_boxes"])
@pytest.mark.parametrize("name", ["matrix", "row", "column", "dropout"])
def test_nothing_is_spilled(name: str, schedule: str) -> None:
    text, inputs, _ = CASES[name]
    found = wsched.compile(text, [X, W, *inputs], params=SCHEDULES[schedule]).resources
    assert found.clean, str(found)


def test_threads_read_a_matrix_of_bool_two_elements_at_once() -> None:
    """No warp loads it; a row of an odd number of elements is read one by one."""
    text, inputs, _ = CASES["matrix"]
    k = wsched.compile(text, [X, W, *inputs])
    assert [g.name for g in k.kernel.globals] == ["T2"]
    assert "ptx::ld_global_b16((const unsigned short*)" in k.dump("cuda")
    odd = wsched.compile(text, [X, W[:71], CASES["matrix"][1][0][:, :71]])
    assert "ld_global_bool(" in odd.dump("cuda")


def test_no_mask_is_a_result() -> None:
    text = epilogue("m: [-1, -1] Bool", *KEPT, "e = fd.ops.logical_not(m)", outputs="d e")
    with pytest.raises(wsched.UnsupportedError) as error:
        import_fusion(text)
    assert str(error.value) == (
        "the output e of type Bool is not supported; supported: BFloat16, Half, Float, "
        "Float8_e4m3fn, Float8_e5m2"
    )
