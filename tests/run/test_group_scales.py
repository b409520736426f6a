"""Weights whose groups of K have scales of their own: on the machine, proved, as machine code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import wsched
from lowering.ground.errors import ScheduleError, UnsupportedError
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.proof.prove import prove
from tests.computed import drawn, fusion, words
from tests.int4 import definition, scaled, scales
from tests.proofs import proved
from tests.tiers import in_tiers
from wsched.doors.fallback import interpret
from wsched.front.linear import linear_call
from wsched.importer import record_text
from wsched.run.arguments import scale_matrix
from wsched.run.compiled import CompiledFusion, compile_fusion
from wsched.run.counts import admitted_by
from wsched.run.layout import laid_out
from wsched.schedule.matmul.params import GemmTile, MatmulParams
from wsched.schedule.matmul.tiles import tile_choice

torch = pytest.importorskip("torch", reason="torch is not installed")

M, N, K = 24, 200, 672
"""No multiples of a tile, and of no group but 32."""

WAYS = {
    "one group in a step": (128, (128, 16, 128), 2, 1, {}),
    "a group in two steps": (128, (64, 16, 64), 1, 1, {"splitk_factor": 2}),
    "parts of K": (64, (128, 24, 64), 2, 1, {"splitk_factor": 2}),
    "a group for each warpgroup": (128, (64, 16, 512), 4, 4, {}),
    "groups of 64": (64, (64, 16, 256), 4, 4, {}),
    "groups of 32": (32, (64, 16, 128), 4, 4, {}),
    "two warpgroups in a group": (128, (64, 16, 256), 4, 4, {}),
    "three groups": (128, (64, 16, 384), 3, 3, {}),
    "slices without a swizzle": (32, (64, 16, 32), 1, 1, {}),
    "four warpgroups in a group": (128, (64, 16, 128), 4, 4, {}),
}
"""Group, tile, warpgroups, those that share a slice, further parameters."""


def given(weights: str, group: int, shifted: bool = False) -> tuple[Any, list[Any], Any]:
    """The text of a call, its inputs and its result in fp64; groups may have zero points."""
    draw = torch.Generator().manual_seed(1)
    w = torch.randint(0, 16, (N, K), generator=draw)
    w = w if weights == "int32" else drawn(weights, N, K, 1)
    x = drawn("bfloat16", M, K)
    scale = torch.exp2(torch.randint(-6, 7, (-(-K // group), N), generator=draw).float()).t()
    zero = torch.randint(0, 16, (N, -(-K // group)), generator=draw).float() if shifted else None
    q, wide = words(w) if weights == "int32" else w, w.double()
    if zero is not None:
        wide = (wide - zero.repeat_interleave(group, 1)[:, :K]).bfloat16().double()
    wide = wide * scale.double().repeat_interleave(group, 1)[:, :K]
    text, inputs = linear_call(x, q, scale, zero, group=group)
    return text, inputs, x.double() @ wide.T


def made(
    text: str, m: int, n: int, k: int, groups: int, along_k: int, **more: Any
) -> CompiledFusion:
    f, base = fusion(text), MatmulParams(**{"exchange_operands": True, **more})
    choice = tile_choice(f, base, GemmTile(m, n, k), groups, False, along_k=along_k)
    return compile_fusion(f, choice.params)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("weights", ["int32", "int8", "float8_e5m2"])
@pytest.mark.parametrize("name", in_tiers(tuple(WAYS), ("groups of 64",)))
def test_right_and_without_spills(name: str, weights: str) -> None:
    group, tile, groups, along_k, more = WAYS[name]
    text, inputs, wanted = given(weights, group)
    kernel = made(text, *tile, groups, along_k, **more)
    assert (kernel(*inputs)[0].double() - wanted).norm() < 3e-3 * wanted.norm()
    assert kernel.resources.clean


SHIFTED = (
    "slices without a swizzle",
    "one group in a step",
    "a group in two steps",
    "four warpgroups in a group",
)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("weights", ["int32", "float8_e5m2"])
@pytest.mark.parametrize("name", SHIFTED)
def test_zero_points(name: str, weights: str) -> None:
    group, tile, groups, along_k, more = WAYS[name]
    text, inputs, wanted = given(weights, group, shifted=True)
    kernel = made(text, *tile, groups, along_k, **more)
    assert (kernel(*inputs)[0].double() - wanted).norm() < 3e-3 * wanted.norm()
    proved(kernel.kernel, kernel.plan)
    assert kernel.resources.clean


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["a group in two steps", "groups of 64"])
def test_numbers_that_lie_by_rows(name: str) -> None:
    """[N, K / group] in memory: read where they lie, a row apart, of which the L2 fetches more."""
    group, tile, groups, along_k, more = WAYS[name]
    text, (x, q, scale), wanted = given("int32", group)
    by_rows = [x, q, scale.contiguous()]
    assert laid_out(fusion(text), [x, q, scale]) == fusion(text)
    f, base = laid_out(fusion(text), by_rows), MatmulParams(exchange_operands=True)
    assert [str(d.extent) for d in f.tensor("T2").in_memory] == ["N", f"K_{group}"]
    assert scale_matrix(f, f.inputs[2], by_rows[2]) is by_rows[2]
    choice = tile_choice(f, replace(base, **more), GemmTile(*tile), groups, False, along_k=along_k)
    kernel = compile_fusion(f, choice.params)
    assert (kernel(*by_rows)[0].double() - wanted).norm() < 3e-3 * wanted.norm()
    proved(kernel.kernel, kernel.plan)
    lines = [x for x in print_kernel(kernel.kernel).splitlines() if "load_global T2[" in x]
    assert lines and all("trans=true" not in x and "fetched=256" in x for x in lines)
    assert kernel.source.count("ld.global.L2::256B.f32") == 1
    assert "L2::256B" not in made(text, *tile, groups, along_k, **more).source


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [("T2[(k + 1) // 2,", "T2[k // 2,"), ("T2[(k + 1) // 2,", "T2[(k + 2) // 2,"),
     ("T2[(k + 1) // 2,", "T2[k + 1,"), ("T2[0,", "T2[1,"),
     ("T2[0, Mo * 64", "T2[0, Mo * 64 + 8")],
    ids=["the step before", "too early", "of every step", "begins with the second", "rows"],
)  # fmt: skip
def test_the_proof_tells_zero_points_apart(old: str, new: str) -> None:
    """T2 has zero points, T3 scales."""
    group, tile, groups, along_k, _ = WAYS["a group in two steps"]
    kernel = made(given("int32", group, shifted=True)[0], *tile, groups, along_k)
    text = print_kernel(kernel.kernel)
    assert text.count(old) == 1, text
    assert prove(kernel.kernel, admitted_by(kernel.plan)).proved
    assert not prove(parse_kernel(text.replace(old, new)), admitted_by(kernel.plan)).proved


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["int32", "int8", "float8_e5m2"])
@pytest.mark.parametrize("name", WAYS)
def test_proved(name: str, weights: str) -> None:
    group, tile, groups, along_k, more = WAYS[name]
    kernel = made(given(weights, group)[0], *tile, groups, along_k, **more)
    proved(kernel.kernel, kernel.plan)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [("T2[(k + 1) * 4 + share,", "T2[(k + 1) * 4,"),
     ("T2[(k + 1) * 4 + share,", "T2[k * 4 + share,"),
     ("T2[(k + 1) * 4 + share,", "T2[k + 1 + share,"),
     ("T2[share,", "T2[share + 1,")],
    ids=["another warpgroup's", "the step before", "of every step", "begins with the second"],
)  # fmt: skip
def test_the_proof_tells_groups_apart(old: str, new: str) -> None:
    group, tile, groups, along_k, more = WAYS["groups of 64"]
    kernel = made(given("int32", group)[0], *tile, groups, along_k, **more)
    text = print_kernel(kernel.kernel)
    assert text.count(old) == 1, text
    assert not prove(parse_kernel(text.replace(old, new)), admitted_by(kernel.plan)).proved


@pytest.mark.parametrize(
    ("tile", "groups", "along_k", "why"),
    [
        ((128, 16, 128), 2, 1, "the tile's k 128 is no divisor of 64, of which each is scaled"),
        ((64, 16, 96), 3, 3, "the tile's k 96 has parts of 64, of which each is scaled"),
    ],
)
def test_tiles_with_parts_of_groups(
    tile: tuple[int, int, int], groups: int, along_k: int, why: str
) -> None:
    with pytest.raises(ScheduleError) as caught:
        made(given("int32", 64)[0], *tile, groups, along_k)
    assert why in str(caught.value.why)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("group=64", "group=16", "scales of groups of 16 is not supported; supported: groups of "
         "32, 64, 128"),
        (", group=64", "", "scales of groups of None is not supported; supported: groups of 32, "
         "64, 128"),
        ("scale_b=scale, ", "", "scales of groups of 64 in None is not supported; supported: "
         "inputs of fp32 or 16 bits with two dimensions"),
        ("scale_b=scale", "scale_b=w", "scales of groups of 64 in w is not supported; supported: "
         "inputs of fp32 or 16 bits with two dimensions"),
        ("scale_b=scale", "scale_b=x", "x as operand of the matmul and as its scales is not "
         "supported; supported: one way to read it"),
        ("scale = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)",
         "scale = fd.ops.full(shape=[11, 200], fill_value=1.0, dtype=DataType.Float)",
         "scales of groups of 64 in scale is not supported; supported: inputs of fp32 or 16 "
         "bits with two dimensions"),
    ],
)  # fmt: skip
def test_words_that_say_no_groups(old: str, new: str, what: str) -> None:
    text = given("int8", 64)[0]
    assert old in text
    with pytest.raises(UnsupportedError) as caught:
        fusion(text.replace(old, new))
    assert str(caught.value) == what


def test_sums_of_integers() -> None:
    text = given("int8", 64)[0].replace("fd.ops.linear(x, w,", "fd.ops.linear(x, q,")
    lines = (line for line in text.splitlines(True) if "cast(q" not in line)
    with pytest.raises(UnsupportedError) as caught:
        fusion("".join(lines).replace("BFloat16", "Int8"))
    assert caught.value.supported == "those of a linear whose sums are fp32"
    assert caught.value.what.startswith("scales of groups of 64 of fd.ops.linear of ")


@pytest.mark.parametrize(
    ("kind", "to", "of", "scale", "zero"),
    [
        ("bfloat16", "Half", (7e4, 7.5e4), 2.0**-12, None),
        ("float32", "BFloat16", (8.0, 8.03), 1.0, 8.0),
    ],
    ids=["beyond its range", "all that is left of them"],
)
def test_weights_that_the_operands_type_has_not(
    kind: str, to: str, of: tuple[float, float], scale: float, zero: float | None
) -> None:
    """What is scaled is rounded then, not in front of it: as torch computes the definition."""
    n, k, group = 72, 64, 32
    wide, lines = "e = fd.ops.cast(q, dtype=DataType.Float)", scaled(group, n=n, k=k)["by groups"]
    more, numbers = scales(group, n, k), [torch.full((n, k // group), scale)]
    if zero is not None:
        at = lines.index("h = fd.ops.mul(f, g)")
        shift = (
            "u = fd.ops.broadcast(z, is_broadcast_dim=[False, False, True])",
            "y = fd.ops.sub(f, u)", "h = fd.ops.mul(y, g)",
        )  # fmt: skip
        lines = (*lines[:at], *shift, *lines[at + 1 :])
        more = (*more, more[0].replace("s =", "z ="))
        numbers.append(torch.full_like(numbers[0], zero))
    text = definition(wide, *lines, "d = fd.ops.linear(x, w)", more=more, m=M, n=n, k=k)
    named = {"float32": "Float", "bfloat16": "BFloat16"}[kind]
    whole = "[{}, {}], contiguity=[True, True], dtype=DataType.{}"
    text = text.replace("BFloat16", to)
    text = text.replace(whole.format(n, k // 8, "Int32"), whole.format(n, k, named))
    q = torch.linspace(*of, n * k).view(n, k).to(getattr(torch, kind))
    x = torch.ones(M, k, dtype={"Half": torch.half, "BFloat16": torch.bfloat16}[to])
    inputs = [x, q, *numbers]
    (found,), (wanted,) = wsched.execute(text, inputs), interpret(record_text(text), inputs)
    assert wanted.isfinite().all() and wanted.all()
    torch.testing.assert_close(found, wanted)
