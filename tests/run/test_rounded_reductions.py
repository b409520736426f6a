"""Largest and least elements of what is rounded, bit by bit: elements as they are stored.

Each element of the product is a number of 16 bits and another one over 256, so that it is rounded.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import wsched
from tests.epilogues import epilogue
from tests.schedules import QUICK, SCHEDULES, for_result
from tests.tiers import in_tiers
from wsched.front.cut.route import cut_route
from wsched.front.known import import_fusion
from wsched.front.route import WSCHED
from wsched.fusion import DataType
from wsched.importer import record_text
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.reference import reduced
from wsched.schedule.matmul.reductions import Reductions

torch = pytest.importorskip("torch")

M, N = 70, 72
FP32 = "dtype=DataType.Float"
TYPES = {"BFloat16": torch.bfloat16, "Half": torch.float16}
MOST = {"BFloat16": ((2 - 2.0**-7) * 2.0**127, 2.0**127), "Half": (65504.0, 4096.0)}
"""The largest number, and what over 256 makes of it one that is rounded to infinity."""
TINY = {"BFloat16": 2.0**-130, "Half": 2.0**-18}
"""What over 256 is rounded to zero."""
REDUCED = {
    "a": ("max", "f", (0,)), "b": ("min", "f", (1,)), "c": ("max", "abs", (0, 1)),
    "d": ("max", "neg", (1,)), "e": ("min", "both", (0,)), "g": ("min", "f", (0, 1)),
}  # fmt: skip
WAYS = (
    "coop_128x256", "coop_narrow", "cluster_2x2", "pingpong_64x128", "pipelined", "split_2",
    "stream_k", "dynamic", "exchanged", "exchanged_boxes", "exchanged_split", "exchanged_stream_k",
)  # fmt: skip


@cache
def text(dtype: str) -> str:
    lines = ["bias: [-1] Float", "y = fd.ops.linear(x, w, bias)", f"f = fd.ops.cast(y, {FP32})",
             "abs = fd.ops.abs(f)", "neg = fd.ops.neg(f)", "both = fd.ops.neg(abs)"]  # fmt: skip
    lines += [f"{s} = fd.ops.{op}({of}, dims={[*dims]})" for s, (op, of, dims) in REDUCED.items()]
    return epilogue(*lines, outputs=f"y {' '.join(REDUCED)}", dtype=dtype)


def made(name: str, dtype: str) -> CompiledFusion:
    fusion = import_fusion(text(dtype))
    result = {"BFloat16": "bf16", "Half": "f16"}[dtype]
    params = for_result(SCHEDULES[name], result, reductions=Reductions.of(fusion))
    return compile_fusion(fusion, params)


def sums(dtype: str, special: bool) -> tuple[Any, Any, Any, Any]:
    """Operands and a bias, and what they are multiplied to in fp32, exactly."""
    torch.manual_seed(0)
    whole, part = (torch.randint(-255, 256, (M, N)).float() for _ in range(2))
    bias = torch.zeros(N)
    if special:
        whole[3, 4], part[3, 4] = MOST[dtype]
        whole[5, 6], part[5, 6] = (-x for x in MOST[dtype])
        whole[8], part[8] = MOST[dtype][0], 0.0  # none of which is rounded to infinity
        whole[:, 9], part[:, 9] = 0.0, -TINY[dtype]
        whole[:, 10], part[:, 10] = 0.0, TINY[dtype]
        bias[11], bias[12] = torch.inf, -torch.inf
    x = torch.cat([torch.eye(M), torch.eye(M) / 256], 1).to(TYPES[dtype])
    w = torch.cat([whole.T, part.T], 1).to(TYPES[dtype])
    return x, w, bias, whole + part / 256 + bias


def element(op: str, x: Any, over: tuple[int, ...]) -> Any:
    """An element in the order of their bits, in which +0 is greater than -0; NaN if one is."""
    sign = np.where(x.view(np.int32) < 0, np.int32(0x7FFFFFFF), np.int32(0))
    key = (np.amax if op == "max" else np.amin)(x.view(np.int32) ^ sign, axis=over)
    key = np.asarray(key, np.int32)
    found = (key ^ np.where(key < 0, np.int32(0x7FFFFFFF), np.int32(0))).view(np.float32)
    return np.where(np.isnan(x).any(axis=over), np.float32(np.nan), found)


def check(kernel: CompiledFusion, dtype: str, given: tuple[Any, Any, Any, Any]) -> None:
    *inputs, exact = given
    y, *found = kernel(*inputs)
    rounded = exact.to(TYPES[dtype])
    assert torch.equal(torch.nan_to_num(y, 7.0), torch.nan_to_num(rounded, 7.0))
    wide = rounded.float().numpy()
    of = {"f": wide, "abs": np.abs(wide), "neg": -wide, "both": -np.abs(wide)}
    for got, (op, name, over) in zip(found, REDUCED.values(), strict=True):
        wanted = element(op, of[name], over)
        mine = got.numpy()
        assert (mine.shape, mine.dtype) == (wanted.shape, np.float32)
        assert np.array_equal(np.isnan(mine), np.isnan(wanted))
        a, b = (np.where(np.isnan(x), np.float32(0), x).view(np.int32) for x in (mine, wanted))
        assert np.array_equal(a, b)


@pytest.mark.parametrize("dtype", TYPES)
def test_each_is_rounded(dtype: str) -> None:
    """Else nothing here would show: most elements are not numbers of 16 bits, and neither are the
    largest and the least of fp32.
    """
    *_, exact = sums(dtype, special=False)
    rounded = exact.to(TYPES[dtype]).float()
    assert (exact != rounded).float().mean() > 0.5
    assert exact.amax() != rounded.amax() and exact.amin() != rounded.amin()
    *_, exact = sums(dtype, special=True)
    rounded = exact.to(TYPES[dtype]).float()
    assert exact[3, 4].isfinite() and rounded[3, 4] == torch.inf and rounded[5, 6] == -torch.inf
    assert exact[0, 9] < 0 and not rounded[:, 9].any() and rounded[:, 9].signbit().all()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", in_tiers(WAYS, QUICK))
@pytest.mark.parametrize("dtype", TYPES)
def test_schedules(name: str, dtype: str) -> None:
    """In parts over rows, columns and both, whoever has them."""
    kernel = made(name, dtype)
    for special in (False, True):
        check(kernel, dtype, sums(dtype, special))


@pytest.mark.parametrize("name", ["coop_narrow", "exchanged"])
@pytest.mark.parametrize("dtype", TYPES)
def test_nan(name: str, dtype: str) -> None:
    """A column of them: it, all rows and all."""
    x, w, bias, exact = sums(dtype, special=True)
    bias[20], exact[:, 20] = torch.nan, torch.nan
    check(made(name, dtype), dtype, (x, w, bias, exact))


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("op", ["max", "min"])
def test_which_elements_are_the_largest(op: str, dims: tuple[int, ...]) -> None:
    """A kernel reduces what it stores, another compares: each row or column has one at least."""
    lines = [f"f = fd.ops.cast(y, {FP32})", f"s = fd.ops.{op}(f, dims={[*dims]}, keepdim=True)",
             "m = fd.ops.eq(f, s)", "n = fd.ops.where(m, 1.0, 0.0)",
             f"d = fd.ops.cast(n, {FP32})"]  # fmt: skip
    definition = epilogue(*lines, outputs="y d")
    x, w, _, exact = sums("BFloat16", special=False)
    assert "reductions that are results" in str(wsched.explain(definition, [x, w]))
    y, mask = wsched.execute(definition, [x, w])
    rounded = exact.bfloat16()
    most = (torch.amax if op == "max" else torch.amin)(rounded, dims, keepdim=True)
    assert torch.equal(y, rounded) and torch.equal(mask, (rounded == most).float())
    assert mask.amax(dims).all()


@pytest.mark.parametrize("kept", [False, True])
def test_what_follows_in_a_cut(kept: bool) -> None:
    """It is computed of the rounded one, in the kernel that puts parts together, be that a result
    or not.
    """
    lines = [f"f = fd.ops.cast(y, {FP32})", "s = fd.ops.max(f, dims=[0])",
             "t = fd.ops.mul(s, 3.0)"]  # fmt: skip
    definition = epilogue(*lines, outputs="y t" + " s" * kept)
    x, w, _, exact = sums("BFloat16", special=False)
    route = cut_route(record_text(definition), (x, w), ())
    assert {p.runs for p in route.parts} == {WSCHED}
    found, most = route.run(None, (x, w)), exact.bfloat16().float().amax(0)
    assert torch.equal(found[1], most * 3) and (not kept or torch.equal(found[2], most))


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("rounded", [DataType.BFloat16, DataType.Half])
def test_to_round_is_monotone(op: str, rounded: DataType) -> None:
    """Of any elements, and of those at the ends of what the type has."""
    dtype = TYPES[str(rounded)]
    rng = np.random.default_rng(0)
    ends = [MOST[str(rounded)][0], TINY[str(rounded)] / 256, 2.0**-149, np.inf, 65519.996, 65520]
    drawn = rng.integers(0, 2**32, 4096, np.uint32).view(np.float32)
    pool = np.concatenate([drawn[~np.isnan(drawn)], np.array(ends, np.float32)])
    x = rng.choice(np.concatenate([pool, -pool]), (2000, 7))
    each = torch.from_numpy(x).to(dtype).float().numpy()
    assert np.array_equal(reduced(op, x, (1,), rounded), reduced(op, each, (1,)))
