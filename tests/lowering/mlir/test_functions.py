"""Functions of wsched's own in MLIR: the numbers of the machine, and what the CUDA text has."""

from __future__ import annotations

import re
from importlib.util import find_spec

import numpy as np
import pytest

from lowering.cuda import trigonometry as cuda
from lowering.cuda.nvrtc import compile_ptx
from lowering.cuda.resources import read_resources
from lowering.kernel.random import PHILOX_KEYS
from lowering.kernel.text import parse_kernel
from lowering.machine.random import philox, uniform
from lowering.mlir.emit import emit_mlir
from lowering.mlir.random import PHILOX
from lowering.mlir.toolchain import compile_mlir, lowered
from tests.lowering.mlir.functions import call
from tests.lowering.mlir.interpreter import run
from tests.ways import made

with_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")


def functions(text: str) -> dict[str, str]:
    """Those that a module has beside its kernel, by name."""
    parts = re.split(r"\n  (?=\S)", text)
    return {m[1]: part for part in parts if (m := re.match(r"llvm\.func internal @(\w+)", part))}


def module(body: str) -> str:
    return emit_mlir(parse_kernel(f"kernel k threads 128 cluster 1 grid 1 {{ {body} }}"))


# --- random numbers ------------------------------------------------------------------------------

SEED, OFFSET = 0x9876543210ABCDEF, 0x123456789


def test_philox_gives_the_words_of_the_machine() -> None:
    for high in (0, 7, (1 << 62) + 12345):
        found = call({"philox": PHILOX}, "philox", SEED, OFFSET, high)
        assert found == tuple(map(int, philox(SEED, OFFSET, np.array(high))))
    assert all(str(key - (1 << 32)) in PHILOX for key in PHILOX_KEYS)


def test_two_neighbours_from_any_place_on() -> None:
    pair = "global X: f32[64, 32]\n t: frag<f32, 64x32> = frag.random S, S, 1:i64, 32:i64"
    texts = functions(module("param S: i64\n" + pair))
    for number in range(8, 13):
        places = [number, number + 1]
        wanted = [
            uniform(philox(SEED, OFFSET, np.array(at // 4)))[at % 4] for at in places
        ]  # fmt: skip
        assert call(texts, "random_2", SEED, OFFSET, number) == tuple(wanted)


def test_a_word_that_is_rounded_to_one_is_zero() -> None:
    pair = "t: frag<f32, 64x1> = frag.random S, S, 1:i64, 32:i64"
    texts = functions(module("param S: i64\n" + pair))
    words = (0xFFFFFFFF, 0, 1, 0x80000000)
    found = [call(texts, "uniform_word", words, i) for i in range(4)]
    assert found == list(uniform(np.array(words, np.uint32)))
    assert found[0] == 0


@pytest.mark.parametrize("tid", [0, 77])
def test_numbers_of_elements(tid: int) -> None:
    """Of a tile, by its place in the tensor; of a row that all rows share, without a stride."""
    body = """
    param S: i64
    param N: i32
    t: frag<f32, 128x16> = frag.random S, S, N * 2 + 1, N
    r: frag<f32, 1x16> = frag.random S, S, 5, 0
    """
    kernel = module(body).partition("nvvm.kernel")[2]
    thread = run(kernel.splitlines(), {"%S": SEED, "%N": 1000, "tid.x": tid})
    calls = [c.values for c in thread.of("llvm.call @random_2")]
    row, col = tid // 32 * 16 + tid % 32 // 4, tid % 4 * 2
    tile = [
        (row + down) * 1000 + 2001 + col + right
        for down_block in (0, 64) for right in (0, 8) for down in (down_block, down_block + 8)
    ]  # fmt: skip
    assert [c[-1] for c in calls] == [*tile, 5 + col, 13 + col]
    assert {c[-3:-1] for c in calls} == {(SEED, SEED)}


def test_random_numbers_are_the_fragments() -> None:
    """Two of a call, one behind the other, as they are stored."""
    body = """
    param S: i64
    global X: f32[64, 16]
    t: frag<f32, 64x16> = frag.random S, S, 0, 16
    frag.store_global X[0, 0], t
    """
    kernel = module(body).partition("nvvm.kernel")[2]
    calls = re.findall(r"(%\w+) = llvm.call @random_2", kernel)
    taken = re.findall(r"(%\w+) = llvm.extractvalue (%\w+)\[(\d)\]", kernel)
    parts = {value: (call, place) for value, call, place in taken}
    stored = re.findall(r", (%\w+) : \(!llvm.ptr<1>, i1, f32\)", kernel)
    assert [parts[x] for x in stored] == [(call, place) for call in calls for place in "01"]
    assert len(calls) == 4


# --- sine and cosine -----------------------------------------------------------------------------


def sine_text() -> dict[str, str]:
    body = """
    global X: f32[64, 8]
    x: frag<f32, 64x8> = frag.load_global X[0, 0]
    s: frag<f32, 64x8> = frag.pointwise sin, x
    """
    return functions(module(body))


@pytest.mark.parametrize("more", [0, 1])
def test_sine_and_cosine_are_right(more: int) -> None:
    rng, texts = np.random.default_rng(more), sine_text()
    exact = (np.sin, np.cos)[more]
    sizes = [2.0**e for e in (-12, -3, 0, 2, 9, 15, 16, 17, 31, 64, 127)]
    for x in (rng.uniform(-2, 2, (6, 1)) * sizes).astype(np.float32).reshape(-1):
        if not np.isfinite(x):
            continue
        found, wanted = call(texts, "sine_of_turns", x, more), exact(np.float64(x))
        assert abs(float(found) - wanted) <= 2 * np.spacing(np.float32(abs(wanted)))


def test_what_is_not_finite_has_no_sine() -> None:
    for x in (np.inf, -np.inf, np.nan):
        assert np.isnan(call(sine_text(), "sine_of_turns", np.float32(x), 0))


def test_the_constants_are_those_of_the_cuda_text() -> None:
    (theirs,) = {text for _, text in cuda.FUNCTIONS.values()}
    (ours,) = sine_text().values()
    numbers = set(re.findall(r"(?<![\w.])-?\d+\.\d+(?:e-?\d+)?(?=f\b)", theirs))
    found = {float(x) for x in re.findall(r"constant (\S+) : f32", ours) if "0x" not in x}
    assert {float(x) for x in numbers} == found
    words = set(re.findall(r"(0x[0-9a-f]{8})u", theirs)) - {"0x7f800000"}
    signed = {int(w, 16) - (int(w, 16) >> 31 << 32) for w in words}
    assert signed <= {int(x) for x in re.findall(r"constant (-?\d+) : i32", ours)}


def test_functions_are_inlined() -> None:
    assert all("always_inline" in text for text in sine_text().values())


# --- stamps --------------------------------------------------------------------------------------


@with_triton
@pytest.mark.parametrize("name", ["coop_128x128", "pingpong_128x128"])
def test_a_traced_kernel(name: str) -> None:
    """A count in a register, none in memory: no stack."""
    kernel = made(name).traced
    text = kernel.dump("mlir")
    compiled = compile_mlir(text, kernel.kernel.name, kernel.kernel.target.arch)
    assert read_resources(compiled, kernel.kernel.name).clean
    ours = lowered(text, name, kernel.kernel.target.arch)
    theirs = compile_ptx(kernel.source, name, arch=kernel.kernel.target.arch)
    for clock in ("%clock64", "%globaltimer"):
        assert ours.count(clock) == theirs.count(clock) > 0
    assert ours.count("st.global.v2.u64") == theirs.count("st.global.v2.u64")


def test_counts_are_in_the_first_block() -> None:
    """Else LLVM's code generator leaves them in memory."""
    lines = made("coop_128x128").traced.dump("mlir").splitlines()
    first = {word: next(i for i, x in enumerate(lines) if word in x) for word in ("alloca", "scf")}
    assert first["alloca"] < first["scf"]
