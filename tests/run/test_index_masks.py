"""Masks by the indices of elements: threads compare them, nothing is read."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import wsched
from lowering.kernel.nodes import FragBelow
from lowering.kernel.visit import walk
from tests.epilogues import epilogue
from tests.masks import (
    BATCHED_INDICES,
    BF16,
    COMPUTING,
    KEPT,
    PLACES,
    K,
    M,
    N,
    W,
    X,
    bools,
    check,
    check_one_kernel,
    integers,
)
from tests.proofs import proved
from tests.schedules import QUICK, SCHEDULES, cooperative, ping_pong
from tests.tiers import in_tiers
from wsched.importer.input_error import InputError
from wsched.run.reference import reference
from wsched.schedule.matmul.params import MatmulParams


@pytest.mark.sampled
@pytest.mark.parametrize("schedule", [cooperative(128, 64), ping_pong(64, 64)])
@pytest.mark.parametrize("name", PLACES)
def test_masks(name: str, schedule: MatmulParams) -> None:
    check(PLACES[name], schedule, BF16)


@pytest.mark.sampled
@pytest.mark.parametrize("name", PLACES)
def test_the_kernel_of_a_call_has_them(name: str) -> None:
    """No part is cut off, and none is read from memory."""
    check_one_kernel(PLACES[name], BF16)


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["below the diagonal", "another slope"])
@pytest.mark.parametrize("schedule", in_tiers(COMPUTING, QUICK))
def test_every_schedule(schedule: str, name: str) -> None:
    check(PLACES[name], SCHEDULES[schedule], BF16)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 150), st.integers(1, 150), st.integers(-9, 9), st.integers(-3, 3),
    st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]),
)  # fmt: skip
def test_any_shape_and_line(m: int, n: int, first: int, step: int, op: str) -> None:
    text = epilogue(
        f"i = fd.ops.iota({m}, {first}, {step}, dtype=DataType.Int)",
        "r = fd.ops.broadcast(i, [False, True])",
        f"c = fd.ops.iota({n}, 0, 1, dtype=DataType.Int)",
        f"m = fd.ops.{op}(r, c)",
        *KEPT,
    )
    x, w = integers(m, K, seed=m), integers(n, K, seed=n)
    kept = getattr(torch, op)(first + step * torch.arange(m)[:, None], torch.arange(n))
    (d,) = wsched.execute(text, [x, w])
    assert torch.equal(d, (x.float() @ w.float().T * kept).to(BF16))


@pytest.mark.parametrize("schedule", [None, "exchanged_boxes"])
def test_an_index_of_a_batch(schedule: str | None) -> None:
    x, w = integers(3, M, K), integers(3, K, N)
    given_ = None if schedule is None else SCHEDULES[schedule]
    (d,) = wsched.execute(BATCHED_INDICES, [x, w], params=given_)
    kept = torch.arange(N) > 20 * torch.arange(3)[:, None, None]
    assert torch.equal(d, torch.where(kept, x.float() @ w.float(), -1).to(BF16))


@pytest.mark.sampled
@pytest.mark.parametrize("schedule", ["coop_128x256", "pingpong_128x128", "exchanged_boxes"])
@pytest.mark.parametrize("name", ["below the diagonal", "a band", "columns in front"])
def test_nothing_is_spilled(name: str, schedule: str) -> None:
    text, inputs, _ = PLACES[name]
    found = wsched.compile(text, [X, W, *inputs], params=SCHEDULES[schedule])
    assert found.resources.clean, str(found.resources)
    assert not found.kernel.globals


@pytest.mark.slow
def test_a_kernel_with_one_is_proved() -> None:
    """The mask says nothing of where data ends."""
    k = wsched.compile(PLACES["beside an input"][0], [X, W, *PLACES["beside an input"][1]])
    proved(k.kernel)


def test_a_mask_is_one_statement() -> None:
    """A line in a tile, whatever is computed of indices; in 64 bits."""
    k = wsched.compile(PLACES["another slope"][0], [X, W], params=cooperative(128, 64))
    (below,) = [s for s in walk(k.kernel.body) if isinstance(s, FragBelow)]
    assert (below.down, below.right) == (-3, 1)
    assert "ll" in k.dump("cuda").split("const int left = ")[1].splitlines()[0]


def test_far_indices_are_exact() -> None:
    """fp32 could not tell these numbers from the next ones."""
    far = 1 << 29
    text = epilogue(
        f"i = fd.ops.iota({M}, {far}, 1, dtype=DataType.Int)",
        "r = fd.ops.broadcast(i, [False, True])",
        f"m = fd.ops.ge(r, {far + 60})",
        *KEPT,
    )
    (d,) = wsched.execute(text, [X, W])
    assert torch.equal(d, PLACES["rows behind"][2].to(BF16))


@pytest.mark.slow
def test_the_reference_knows_them() -> None:
    text, _, wanted = PLACES["a band"]
    fusion = wsched.compile(text, [X, W]).fusion
    (product,) = fusion.mmas
    (found,) = reference(fusion, {product.output: (X.float() @ W.float().T).numpy()}, {})
    assert torch.equal(torch.tensor(found), wanted)


def test_an_iota_says_a_size() -> None:
    with pytest.raises(InputError) as error:
        wsched.execute(PLACES["rows behind"][0], [X[:100], W])
    assert str(error.value) == "dimension 0 of input 0 is 100, the definition says 137"


def test_masks_by_indices_and_by_inputs_of_all_kinds() -> None:
    m, q = bools(M, N), bools(M, 1, seed=5)
    text = epilogue(
        "m0: [-1, -1] Bool", "q: [-1, 1] Bool",
        f"i = fd.ops.iota({N}, 0, 1, dtype=DataType.Int)", "a = fd.ops.lt(i, 50)",
        "b = fd.ops.logical_or(a, q)", "m = fd.ops.logical_and(b, m0)", *KEPT,
    )  # fmt: skip
    (d,) = wsched.execute(text, [X, W, m, q])
    kept = ((torch.arange(N) < 50) | q) & m
    assert torch.equal(d, (X.float() @ W.float().T * kept).to(BF16))


@pytest.mark.slow
@pytest.mark.parametrize("sizes", ["fixed", "open"])
def test_triu_of_a_live_definition(sizes: str) -> None:
    """NvFuser makes it of ``iota``s of its index type, which begin at the diagonal."""
    nvfuser = pytest.importorskip("nvfuser_direct", reason="nvFuser is not installed")
    kind = {"contiguity": [True, True], "dtype": nvfuser.DataType.BFloat16}
    shapes = ([M, K], [N, K]) if sizes == "fixed" else ([-1, -1], [-1, -1])
    with nvfuser.FusionDefinition() as fd:
        x, w = (fd.define_tensor(shape=shape, **kind) for shape in shapes)
        fd.add_output(fd.ops.triu(fd.ops.linear(x, w), 3))
    (d,) = wsched.execute(fd, [X, W])
    assert torch.equal(d, torch.triu(X.float() @ W.float().T, 3).to(BF16))
    said = str(wsched.explain(fd, [X, W])).splitlines()[0]
    assert "matmul_bfloat16_bfloat16_epilogue" in said, said
