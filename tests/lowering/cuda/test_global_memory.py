"""Loads of fragments from global memory: the emitted text, evaluated for every thread."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from lowering.cuda.emit import emit_cuda, emit_kernel
from lowering.cuda.nvrtc import compile_cubin
from lowering.ground.dtypes import DType
from lowering.ground.errors import InternalError
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import FragLoadGlobal
from lowering.kernel.text import parse_kernel

STRIDE, ROWS, COLS = 1000, 150, 90


def kernel(frag: str, tensor: str, ref: str) -> Kernel:
    return parse_kernel(
        f"""
        kernel k threads 128 cluster 1 grid 1 {{
          param M: i32
          param N: i32
          tensormap A: bf16[M, N] box 64x64 swizzle 128
          global T: {tensor}
          f: frag<{frag}> = frag.load_global {ref}
        }}
        """
    )


def value(text: str, env: dict[str, Any]) -> int:
    return int(eval(text.replace("&&", "and").replace("true", "True"), {}, env))


def emitted(k: Kernel, warp: int, lane: int) -> tuple[list[str], dict[str, Any]]:
    """Lines of a kernel, a statement on each, and what a thread knows when it begins."""
    text = re.sub(r"\(\n\s+|,\n\s+", lambda m: m[0][0] + " ", emit_kernel(k))
    env = {"lane": lane, "warpgroup_warp": warp, "M": ROWS, "N": COLS, "T": 0, "T_stride": STRIDE}
    return text.splitlines(), env


def loads(k: Kernel, warp: int, lane: int) -> dict[int, list[tuple[str, int, bool]]]:
    """By register: (form, offset, whether in bounds) of the loads that fill it, low part first."""
    lines, env = emitted(k, warp, lane)
    found: dict[int, list[tuple[str, int, bool]]] = {}
    steps = 0
    for line in lines:
        if match := re.search(r"const int (row|col) = (.*);", line):
            env[match[1]] = value(match[2], env)
        elif match := re.search(r"\* at = (.*);", line):
            env["at"] = value(match[1], env)
        elif match := re.search(r"r < (\d+)", line):
            steps = int(match[1])
        elif match := re.search(r"v2_f32\( ?f\[(.*?)\], f\[(.*?)\], (.*), (.*)\);", line):
            for env["r"] in range(steps):
                low, high = value(match[1], env), value(match[2], env)
                assert high == low + 1
                at, inside = value(match[3], env), bool(value(match[4], env))
                found[low] = [("v2", at, inside)]
                found[high] = [("v2", at + 1, inside)]
        elif match := re.search(r"f\[(.*?)\] = (ptx.*);", line):
            for env["r"] in range(steps):
                calls = re.findall(r"ptx::ld_global_(\w+)\((.*?), ([^)]*)\)", match[2])
                assert len(calls) == 1 or match[2].endswith(") << 16")
                found[value(match[1], env)] = [
                    (form, value(at, env), bool(value(inside, env))) for form, at, inside in calls
                ]
    return found


def held(rows: int, cols: int, warp: int, lane: int) -> Iterator[tuple[int, int]]:
    """Row and column of each element that a lane has of a fragment, in the order of registers."""
    for block in range(max(rows // 64, 1)):
        for group in range(max(cols // 8, 1)):
            for half in (0, 8) if rows > 1 else (0,):
                for pair in (0, 1) if cols > 1 else (0,):
                    row = 64 * block + 16 * warp + lane // 4 + half if rows > 1 else 0
                    yield row, 8 * group + lane % 4 * 2 + pair if cols > 1 else 0


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@pytest.mark.parametrize("align", ["", " align 16"])
@pytest.mark.parametrize("shape", ["128x32", "1x32", "128x1", "1x1"])
def test_addresses(dtype: str, align: str, shape: str) -> None:
    """Every element comes from its row and column, and is loaded only if both are in bounds."""
    rows, cols = map(int, shape.split("x"))
    extent = f"[{'M' if rows > 1 else '1'}, {'N' if cols > 1 else '1'}]"
    ref = f"T[{'64' if rows > 1 else '0'}, {'72' if cols > 1 else '0'}]"
    k = kernel(f"{dtype}, {shape}", f"{dtype}{extent}{align}", ref)
    first = (64 if rows > 1 else 0, 72 if cols > 1 else 0)
    for warp, lane in ((0, 0), (1, 5), (3, 31)):
        elements = [(first[0] + r, first[1] + c) for r, c in held(rows, cols, warp, lane)]
        found = loads(k, warp, lane)
        got = []
        for _, parts in sorted(found.items()):
            for form, at, inside in parts:
                got.append((at, inside))
                if form == "b32":
                    got.append((at + 1, inside))
        inside = [(r < ROWS or rows == 1) and (c < COLS or cols == 1) for r, c in elements]
        assert got == [(r * STRIDE + c, i) for (r, c), i in zip(elements, inside, strict=True)]
        forms = {form for parts in found.values() for form, _, _ in parts}
        pairs = align and cols > 1
        assert forms == {
            ("v2" if pairs else "f32") if dtype == "f32" else "b32" if pairs else "b16"
        }


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@pytest.mark.parametrize("align", ["", " align 16"])
@pytest.mark.parametrize("shape", ["128x32", "1x32", "128x1"])
def test_addresses_transposed(dtype: str, align: str, shape: str) -> None:
    """Rows of the fragment are columns of the tensor; never two at once."""
    rows, cols = map(int, shape.split("x"))
    extent = f"[{'M' if cols > 1 else '1'}, {'N' if rows > 1 else '1'}]"
    first = (136 if cols > 1 else 0, 8 if rows > 1 else 0)
    ref = f"T[{first[0]}, {first[1]}], trans=true"
    k = kernel(f"{dtype}, {shape}", f"{dtype}{extent}{align}", ref)
    for warp, lane in ((0, 0), (1, 5), (3, 31)):
        wanted = []
        for r, c in held(rows, cols, warp, lane):
            row, col = first[0] + c, first[1] + r
            inside = (row < ROWS or cols == 1) and (col < COLS or rows == 1)
            wanted.append((row * STRIDE + col, inside))
        found = sorted(loads(k, warp, lane).items())
        assert [(at, inside) for _, parts in found for _, at, inside in parts] == wanted
        forms = {form for _, parts in found for form, _, _ in parts}
        assert forms == {"f32" if dtype == "f32" else "b16"}


@pytest.mark.parametrize(
    ("dtype", "form"), [("bf16", "b16"), ("f16", "b16"), ("f32", "f32")], ids=["bf16", "f16", "f32"]
)
def test_what_the_l2_fetches_at_once(dtype: str, form: str) -> None:
    """Two elements of a column, each with bytes around it, of the same addresses as without."""
    plain, hinted = (
        kernel(f"{dtype}, 64x1", f"{dtype}[M, N]", f"T[64, 72]{more}")
        for more in ("", ", fetched=128")
    )
    text = emit_cuda(hinted)
    assert f" @p ld.global.L2::128B.{form} %0, [%1];" in text
    body = emit_kernel(hinted).split('extern "C"')[1]
    wanted = emit_kernel(plain).split('extern "C"')[1]
    assert wanted.count("ptx::ld_global_") == 2
    assert body == wanted.replace("ptx::ld_global_", "ld_global_l2_128b_")
    compile_cubin(text)


def test_parameters_stand_between_maps_and_scalars() -> None:
    text = emit_kernel(kernel("f32, 1x8", "f32[1, N]", "T[0, 0]"))
    assert (
        "k(const __grid_constant__ TensorMap A, const float* __restrict__ T, long long T_stride,"
        " int M, int N) {"
    ) in re.sub(r"\s+", " ", text).replace("( ", "(")


def test_a_row_of_a_row_is_in_bounds() -> None:
    text = emit_kernel(kernel("f32, 1x8", "f32[1, N]", "T[0, 0]"))
    assert "< M" not in text
    assert "< M" in emit_kernel(kernel("f32, 1x8", "f32[M, N]", "T[0, 0]"))


def test_names_that_are_taken() -> None:
    k = kernel("f32, 1x8", "f32[1, N]", "T[0, 0]")
    text = emit_kernel(replace(k, params=(*k.params, replace(k.params[0], name="T_stride"))))
    assert "long long T_stride_2" in text


def test_another_type_is_rejected() -> None:
    k = kernel("f32, 1x8", "f32[1, N]", "T[0, 0]")
    other = replace(k.globals[0], dtype=DType.F16)
    with pytest.raises(InternalError) as e:
        emit_kernel(k.redeclare(other))
    assert e.value.why == "frag.load_global of frag<f32, 1x8> and f16 elements"


def test_an_unknown_tensor_is_rejected() -> None:
    k = kernel("f32, 1x8", "f32[1, N]", "T[0, 0]")
    (load,) = k.body
    assert isinstance(load, FragLoadGlobal)
    wrong = replace(load, src=replace(load.src, map="A"))
    with pytest.raises(InternalError) as e:
        emit_kernel(replace(k, body=(wrong,)))
    assert e.value.why == "no global tensor A"


# --- stores ---------------------------------------------------------------------------------------


def storing(dtype: str, shape: str, align: str, trans: str = "") -> Kernel:
    return parse_kernel(
        f"""
        kernel k threads 128 cluster 1 grid 1 {{
          param M: i32
          param N: i32
          global T: {dtype}[M, N]{align}
          one: frag<f32, {shape}> = frag.fill 1.0
          f: frag<{dtype}, {shape}> = {"frag.cast one" if dtype == "e4m3" else "frag.fill 1.0"}
          frag.store_global T[64, 72], f{trans}
        }}
        """
    )


def stores(k: Kernel, warp: int, lane: int) -> list[tuple[str, int, list[tuple[int, int]], bool]]:
    """(form, offset, register of each value and its bits on the right, whether in bounds) of each
    store.
    """
    lines, env = emitted(k, warp, lane)
    found = []
    body: list[str] = []
    steps = 0
    for line in lines:
        if match := re.search(r"const int (row|col|left|wide) = (.*);", line):
            env[match[1]] = value(match[2], env)
        elif match := re.search(r"\* at = (.*);", line):
            env["at"] = value(match[1], env)
        elif match := re.search(r"r < (\d+)", line):
            steps, body = int(match[1]), []
        elif "st_global" in line:
            body.append(line)
        elif body and line.strip() == "}":
            for env["r"] in range(steps):
                for call in body:
                    match = re.search(r"st_global_(\w+)\( ?(.*)\);", call)
                    assert match is not None
                    at, *values, inside = match[2].split(", ")
                    places = [
                        (value(v[2 : v.index("]")], env), int(v.partition(">> ")[2] or 0))
                        for v in values
                    ]
                    found.append((match[1], value(at, env), places, bool(value(inside, env))))
            body = []
    return found


def place_of(index: int, bits: int) -> tuple[int, int]:
    """Register of a thread's element, and its bits on the right of it."""
    register, part = divmod(index, 32 // bits)
    return register, bits * part


@pytest.mark.parametrize(
    ("dtype", "bits", "alone", "both"),
    [("e4m3", 8, "b8", "pair"), ("bf16", 16, "b16", "b32"), ("f32", 32, "f32", "v2_f32")],
)
@pytest.mark.parametrize("align", ["", " align 16"])
def test_stores(dtype: str, bits: int, alone: str, both: str, align: str) -> None:
    """Each element of the fragment goes to its row and column, if both are in bounds."""
    k = storing(dtype, "128x32", align)
    for warp, lane in ((0, 0), (1, 5), (3, 31)):
        got = {}
        for form, at, places, inside in stores(k, warp, lane):
            if form in ("pair", "b32"):
                ((register, low),) = places
                places = [(register, low), (register, low + bits)]
            for i, place in enumerate(places):
                assert place not in got
                got[place] = (at + i, inside)
        wanted = {}
        for block in range(2):
            for group in range(4):
                for half in (0, 1):
                    for pair in (0, 1):
                        row = 64 + 64 * block + 16 * warp + lane // 4 + 8 * half
                        col = 72 + 8 * group + lane % 4 * 2
                        index = ((block * 4 + group) * 2 + half) * 2 + pair
                        first = col if align else col + pair
                        wanted[place_of(index, bits)] = (
                            row * STRIDE + col + pair,
                            row < ROWS and first < COLS,
                        )
        assert got == wanted
        assert {form for form, _, _, _ in stores(k, warp, lane)} == {both if align else alone}


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@pytest.mark.parametrize("trans", ["false", "true"])
def test_stores_up_to_a_limit(dtype: str, trans: str) -> None:
    """Rows and columns of the fragment count, whichever they are of the tensor."""
    limited = storing(dtype, "128x32", "", f", limit=70, trans={trans}, limit_cols=21")
    whole = storing(dtype, "128x32", "", f", trans={trans}")
    for warp, lane in ((0, 0), (1, 5), (3, 31)):
        every, counted = stores(whole, warp, lane), stores(limited, warp, lane)
        for (_, at, places, inside), found in zip(every, counted, strict=True):
            down, right = divmod(at - 64 * STRIDE - 72, STRIDE)
            row, col = (right, down) if trans == "true" else (down, right)
            assert found[1:] == (at, places, inside and row < 70 and col < 21)


@pytest.mark.parametrize(("dtype", "bits"), [("e4m3", 8), ("bf16", 16), ("f32", 32)])
@pytest.mark.parametrize("align", ["", " align 16"])
def test_stores_transposed(dtype: str, bits: int, align: str) -> None:
    k = storing(dtype, "128x32", align, ", trans=true")
    for warp, lane in ((0, 0), (1, 5), (3, 31)):
        got = {places[0]: (at, inside) for _, at, places, inside in stores(k, warp, lane)}
        wanted = {}
        for block in range(2):
            for group in range(4):
                for half in (0, 1):
                    for pair in (0, 1):
                        row = 64 + 8 * group + lane % 4 * 2 + pair
                        col = 72 + 64 * block + 16 * warp + lane // 4 + 8 * half
                        index = ((block * 4 + group) * 2 + half) * 2 + pair
                        wanted[place_of(index, bits)] = (
                            row * STRIDE + col,
                            row < ROWS and col < COLS,
                        )
        assert got == wanted and len(stores(k, warp, lane)) == len(wanted)


def test_what_is_stored_is_not_const() -> None:
    text = emit_kernel(storing("f32", "64x8", ""))
    assert "(float* __restrict__ T, long long T_stride, int M, int N) {" in re.sub(
        r"\s+", " ", text
    ).replace("( ", "(")


def test_a_store_of_another_type_is_rejected() -> None:
    k = storing("bf16", "64x8", "")
    with pytest.raises(InternalError) as e:
        emit_kernel(k.redeclare(replace(k.globals[0], dtype=DType.F32)))
    assert e.value.why == "frag.store_global of frag<bf16, 64x8> and f32 elements"
