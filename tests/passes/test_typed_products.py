"""Every pair of operand types of the target's matrix instruction, with each of its accumulators:
through all passes, on the machine and to machine code.
"""

from __future__ import annotations

import re
from itertools import product

import ml_dtypes
import numpy as np
import pytest

from lowering.cuda.emit import emit_cuda
from lowering.cuda.nvrtc import compile_cubin
from lowering.cuda.sass import disassemble
from lowering.ground.dtypes import DType
from lowering.ground.errors import UnsupportedError
from lowering.ground.layouts import operand_layout
from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.target.hopper import WGMMA
from passes.options import LoweringOptions
from passes.pipeline import run_passes
from tests.passes.products import Array, execute, final, machine_code_is_clean, text

TYPES = [
    (a, b, acc)
    for form in WGMMA.forms
    for a, b, acc in product(form.operands, form.operands, form.accumulators)
]
IDS = ["-".join(d.value for d in types) for types in TYPES]


def typed(a: DType, b: DType, acc: DType, registers: bool = False) -> str:
    """The kernel of X · Wᵀ for these types, with A by ``ldmatrix`` where ``registers``."""
    step = 128 // a.bytes
    source = re.sub(r"128(?! cluster)", str(step), text("typed"))
    for old in ("s8", "u8", "s32"):
        source = re.sub(rf"\b{old}\b", f"<{old}>", source)
    for old, new in (("s8", a), ("u8", b), ("s32", acc)):
        source = source.replace(f"<{old}>", new.value)
    if registers:
        kind = f"frag<{a.value}, 64x{step}, span {operand_layout(a).span}>"
        source = source.replace("acc_next: ", f"left: {kind} = ldmatrix X_s[0, 0, 0]\nacc_next: ")
        source = source.replace("mma.tile acc, X_s[0, 0, 0]", "mma.tile acc, left")
    return source


def numpy_type(dtype: DType) -> np.dtype[np.generic]:
    return np.dtype(getattr(ml_dtypes, dtype.numpy, dtype.numpy))


def values(rng: np.random.Generator, dtype: DType, acc: DType, *shape: int) -> Array:
    """All integers of the type; of floats such whose products sum up exactly in ``acc``."""
    kind = numpy_type(dtype)
    if acc is DType.S32:
        info = np.iinfo(kind)
        return rng.integers(info.min, info.max + 1, shape).astype(kind)
    if acc is DType.F16:
        return rng.integers(-1, 2, shape).astype(kind)
    return (rng.integers(-7, 8, shape) / 4).astype(kind)


@pytest.mark.sampled
@pytest.mark.parametrize("registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize("types", TYPES, ids=IDS)
def test_products(types: tuple[DType, DType, DType], registers: bool) -> None:
    a, b, acc = types
    rng = np.random.default_rng(1)
    m, n, k = 130, 104, 208
    x, w = values(rng, a, acc, m, k), values(rng, b, acc, n, k)
    d = np.full((m, n), 99, numpy_type(acc))
    execute(final(typed(a, b, acc, registers)), {"X": x, "W": w, "D": d}, M=m, N=n, K=k)
    assert np.array_equal(d, x.astype(np.float64) @ w.astype(np.float64).T)


@pytest.mark.slow
@pytest.mark.parametrize("registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize("types", TYPES, ids=IDS)
def test_machine_code(types: tuple[DType, DType, DType], registers: bool) -> None:
    assert machine_code_is_clean(final(typed(*types, registers)))


FORM = """
  zero{n}: frag<{acc}, 64x{n}> = frag.fill 0.0
  wgmma.fence
  one{n}: frag<{acc}, 64x{n}, async> = wgmma zero{n}, A[0, 0, 0], B[0, 0, 0]
  two{n}: frag<{acc}, 64x{n}, async> = wgmma one{n}, left, B[0, 0, 0]
  wgmma.commit
  sum{n}: frag<{acc}, 64x{n}> = wgmma.wait two{n}, 0
  wide{n}: frag<f32, 64x{n}> = frag.cast sum{n}
  frag.store_global out{n}[0, 0], wide{n}
"""


@pytest.mark.slow
@pytest.mark.parametrize("types", TYPES, ids=IDS)
def test_instructions(types: tuple[DType, DType, DType]) -> None:
    """A from shared memory and from registers, with a few of the legal N."""
    a, b, acc = types
    widths, k = (8, 24, 96, 256), WGMMA.k(a)
    left = f"frag<{a.value}, 64x{k}, span {operand_layout(a).span}>"
    lines = [
        "kernel k threads 128 cluster 1 grid 1 {",
        *(f"global out{n}: f32[64, {n}]" for n in widths),
        f"shared A: {a.value}[1][64x{128 // a.bytes}] swizzle 128 at 0",
        f"shared B: {b.value}[1][256x{128 // b.bytes}] swizzle 128 at 8192",
        f"left: {left} = ldmatrix A[0, 0, 0]",
        *(FORM.format(n=n, acc=acc.value) for n in widths),
        "}",
    ]
    kernel = parse_kernel("\n".join(lines))
    assert verify(kernel) == []
    sass = disassemble(compile_cubin(emit_cuda(kernel)).cubin)
    found = re.findall(r"[HQI]GMMA\.(\S+) R\d+, (R\d+|gdesc)", sass)
    names = [acc] if acc is not DType.S32 else []
    names += [d for d in ((a, b) if a.bits == 8 else (a,)) if d is not DType.F16]
    tail = "".join(f".{d.value.upper()}" for d in names)
    assert [(form, first == "gdesc") for form, first in found] == [
        (f"64x{n}x{k}{tail}", shared) for n in widths for shared in (True, False)
    ]


def test_an_n_that_only_floats_have() -> None:
    source = typed(DType.S8, DType.S8, DType.S32).replace("96", "40")
    with pytest.raises(UnsupportedError) as error:
        run_passes(parse_kernel(source), LoweringOptions())
    assert str(error.value) == (
        "a warp tile of 64x40x128 is not supported; supported: what wgmma multiplies: "
        "M a multiple of 64, N 8, 24, or a multiple of 16 from 16 to 256, K a multiple of 32"
    )


def test_results_that_no_thread_puts_into_shared_memory() -> None:
    source = typed(DType.E4M3, DType.E4M3, DType.F32)
    source = source.replace("D: f32", "D: s64").replace("frag.columns total, chunk * 32", "X")
    source = source.replace("part: frag<f32, 64x32> = X", "part: frag<s64, 64x32> = frag.fill 0.0")
    with pytest.raises(UnsupportedError) as error:
        run_passes(parse_kernel(source), LoweringOptions())
    assert str(error.value) == (
        "a TMA store of s64 is not supported; supported: types of 8, 16 and 32 bits"
    )
