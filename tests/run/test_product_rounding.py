"""Products are rounded where the definition says so: bit by bit what torch makes of it.

Sums are exact in fp32 and none of them is a number of bf16, so each rounding shows.
"""

from __future__ import annotations

from typing import Any

import pytest

import wsched
from lowering.cuda import nvrtc
from tests.epilogues import epilogue, tensor
from tests.schedules import cooperative, exchanged, ping_pong
from wsched.choose.gpus import H200_SMS
from wsched.choose.heuristics import choose_params
from wsched.front.known import import_fusion
from wsched.front.sizes import Extents
from wsched.importer import record_text
from wsched.run.registers import compile_clean

torch = pytest.importorskip("torch")

M, N, K = 137, 72, 40
FP32, BF16 = "dtype=DataType.Float", "dtype=DataType.BFloat16"
WIDE = f"f = fd.ops.cast(y, {FP32})"


def eighths(*shape: int, seed: int) -> Any:
    """Multiples of 1/8 with six bits: sums of their products are multiples of 1/64."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randint(-40, 41, shape, generator=generator) / 8).bfloat16()


X, W, V = eighths(M, K, seed=0), eighths(N, K, seed=1), eighths(N, K, seed=2)
ROW, FULL = eighths(N, seed=3), eighths(M, N, seed=4)
SUMS = X.float() @ W.float().T
Y, H = SUMS.bfloat16().float(), SUMS.half().float()
B = (SUMS + ROW.float()).bfloat16().float()

CASES: dict[str, tuple[str, list[Any], list[Any]]] = {
    "fp32": (epilogue(WIDE), [], [Y]),
    "promoted": (epilogue("d = fd.ops.mul(y, 3.0)"), [], [3 * Y]),
    "residual": (
        epilogue("r: [-1, -1]", "s = fd.ops.add(y, r)", f"d = fd.ops.cast(s, {BF16})"),
        [FULL], [(Y + FULL.float()).bfloat16()],
    ),
    "bias": (
        epilogue("b: [-1]", "y = fd.ops.linear(x, w, b)", WIDE, "d = fd.ops.mul(f, f)"),
        [ROW], [(SUMS + ROW.float()).bfloat16().float() ** 2],
    ),
    "product as well": (
        epilogue(WIDE, "d = fd.ops.mul(f, f)", outputs="y d"), [], [Y.bfloat16(), Y * Y],
    ),
    "fp16": (
        epilogue(WIDE, "d = fd.ops.neg(f)", dtype="Half"), [], [-SUMS.half().float()],
    ),
    "sums": (  # of the product alone, and nothing else is computed of it: summed as it was
        epilogue(WIDE, "s = fd.ops.sum(f, dims=[1])", "t = fd.ops.sum(f, dims=[0])",
                 outputs="y s t"),
        [], [Y.bfloat16(), SUMS.sum(1), SUMS.sum(0)],
    ),
    "sums of monomials": (
        epilogue("a = fd.ops.neg(y)", "b = fd.ops.div(a, 64.0)", "s = fd.ops.sum(b, dims=[1])",
                 "c = fd.ops.mul(0.5, y)", "t = fd.ops.sum(c, dims=[0])", outputs="y s t"),
        [], [Y.bfloat16(), -SUMS.sum(1) / 64, SUMS.sum(0) / 2],
    ),
    "sums of fp16": (
        epilogue(WIDE, "s = fd.ops.sum(f, dims=[1])", "t = fd.ops.sum(f, dims=[0])",
                 outputs="y s t", dtype="Half"),
        [], [SUMS.half(), H.sum(1), H.sum(0)],
    ),
    "a product by two names": (  # one product: something else is computed of it
        epilogue("y = fd.ops.linear(x, w)", "z = fd.ops.linear(x, w)", "n = fd.ops.neg(z)",
                 WIDE, "s = fd.ops.sum(f, dims=[1])", outputs="s n"),
        [], [Y.sum(1), -Y],
    ),
    "largest": (  # an element: who compares others with it finds it
        epilogue(WIDE, "s = fd.ops.sum(f, dims=[1])", "m = fd.ops.max(f, dims=[0])",
                 outputs="y s m"),
        [], [Y.bfloat16(), Y.sum(1), Y.amax(0)],
    ),
    "largest of 16 bits": (
        epilogue("m = fd.ops.max(y, dims=[0])", f"s = fd.ops.min(y, dims=[1], {FP32})",
                 outputs="y m s"),
        [], [Y.bfloat16(), Y.amax(0).bfloat16(), Y.amin(1)],
    ),
    "largest, as fp16": (  # rounded to bf16 first
        epilogue(WIDE, "m = fd.ops.max(f, dims=[0])", "h = fd.ops.cast(m, dtype=DataType.Half)",
                 outputs="y h"),
        [], [Y.bfloat16(), Y.amax(0).half()],
    ),
    "largest of what is computed": (
        epilogue("t = fd.ops.mul(y, 3.0)", f"d = fd.ops.cast(t, {BF16})",
                 WIDE.replace("(y", "(d"), "a = fd.ops.abs(f)", "m = fd.ops.max(a, dims=[0, 1])",
                 outputs="d m"),
        [], [(3 * Y).bfloat16(), (3 * Y).bfloat16().float().abs().amax()],
    ),
    "largest before and behind": (  # two roundings of one product
        epilogue(WIDE, "h = fd.ops.cast(f, dtype=DataType.Half)",
                 WIDE.replace("(y", "(h").replace("f =", "g ="),
                 "m = fd.ops.max(f, dims=[0])", "n = fd.ops.max(g, dims=[0])", outputs="y m n"),
        [], [Y.bfloat16(), Y.amax(0), Y.half().float().amax(0)],
    ),
    "sums of differences": (
        epilogue("r: [-1, -1]", WIDE, "e = fd.ops.sub(f, r)", "s = fd.ops.sum(e, dims=[1])",
                 outputs="y s"),
        [Y.bfloat16()], [Y.bfloat16(), torch.zeros(M)],
    ),
    "sums of what is counted": (
        epilogue(WIDE, "c = fd.ops.eq(f, -23.5)", "d = fd.ops.where(c, 1.0, 0.0)",
                 "e = fd.ops.cast(d, dtype=DataType.Float)", "s = fd.ops.sum(e, dims=[0])",
                 outputs="y s"),
        [], [Y.bfloat16(), (Y == -23.5).float().sum(0)],
    ),
    "sums beside a matrix": (
        epilogue(WIDE, "s = fd.ops.sum(f, dims=[1])", "n = fd.ops.neg(f)", outputs="y s n"),
        [], [Y.bfloat16(), Y.sum(1), -Y],
    ),
    "sums of 16 bits": (
        epilogue("n = fd.ops.relu(y)", WIDE.replace("(y", "(n"), "s = fd.ops.sum(f, dims=[0])",
                 outputs="n s"),
        [], [Y.relu().bfloat16(), Y.relu().sum(0)],
    ),
    "computed operand": (
        epilogue(f"h = fd.ops.cast(fd.ops.mul(x, 0.5), {BF16})", "y = fd.ops.linear(h, w)", WIDE),
        [], [(SUMS / 2).bfloat16().float()],
    ),
    "said to be fp32": (
        epilogue(f"y = fd.ops.linear(x, w, {FP32})", "d = fd.ops.mul(y, 3.0)"), [], [3 * SUMS],
    ),
}  # fmt: skip
LATER = {  # something is reduced, and the product read again behind it: exact, too
    "a polynomial": (
        epilogue("a = fd.ops.neg(y)", "q = fd.ops.mul(a, a)", "o = fd.ops.sub(1.0, q)",
                 "d = fd.ops.add(o, y)", "s = fd.ops.sum(a, dims=[0])",
                 f"c = fd.ops.cast(d, {BF16})", outputs="c s"),
        [], [((1 - Y * Y) + Y).bfloat16(), -Y.sum(0)],
    ),
    "a matrix": (
        epilogue("r: [-1, -1]", "a = fd.ops.neg(y)", "p = fd.ops.mul(a, r)",
                 "d = fd.ops.add(p, y)", "s = fd.ops.sum(a, dims=[0])",
                 f"c = fd.ops.cast(d, {BF16})", outputs="c s"),
        [FULL], [(Y - Y * FULL.float()).bfloat16(), -Y.sum(0)],
    ),
    "a bias": (
        epilogue("b: [-1]", "y = fd.ops.linear(x, w, b)", "a = fd.ops.neg(y)",
                 "m = fd.ops.maximum(a, y)", "q = fd.ops.mul(a, a)", "o = fd.ops.sub(1.0, q)",
                 "d = fd.ops.add(o, y)", "s = fd.ops.sum(m, dims=[1])",
                 f"c = fd.ops.cast(d, {BF16})", outputs="c s"),
        [ROW], [((1 - B * B) + B).bfloat16(), B.abs().sum(1)],
    ),
    "a largest element": (
        epilogue("t = fd.ops.add(y, y)", "u = fd.ops.sub(y, y)", "m = fd.ops.maximum(u, 0.5)",
                 "r = fd.ops.relu(t)", "d = fd.ops.mul(r, m)", "s = fd.ops.max(m, dims=[0, 1])",
                 f"c = fd.ops.cast(d, {BF16})", f"e = fd.ops.cast(u, {BF16})", outputs="c e s"),
        [], [Y.relu().bfloat16(), torch.zeros(M, N).bfloat16(), torch.tensor(0.5)],
    ),
}  # fmt: skip
PARAMS = {"cooperative": cooperative(128, 64), "ping_pong": ping_pong(64, 64)}
FAMILIES = PARAMS | {
    "exchanged": exchanged(cooperative(128, 64)), "exchanged turns": exchanged(ping_pong(64, 64)),
}  # fmt: skip


def same(found: list[Any], wanted: list[Any]) -> bool:
    pairs = list(zip(found, wanted, strict=True))
    return all(a.dtype is b.dtype and torch.equal(a, b) for a, b in pairs)


def test_sums_are_none_of_16_bits() -> None:
    """Else nothing below would show."""
    assert (SUMS != Y).float().mean() > 0.5 and torch.equal(
        SUMS.double(), X.double() @ W.double().T
    )


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("name", CASES)
def test_one_product(name: str, params: str) -> None:
    text, inputs, wanted = CASES[name]
    dtype = torch.float16 if "DataType.Half" in text.partition("y =")[0] else torch.bfloat16
    operands = [X.to(dtype), W.to(dtype), *inputs]
    chosen = None if name == "computed operand" else PARAMS[params]
    assert same(wsched.compile(text, operands, params=chosen)(*operands), wanted)


@pytest.mark.sampled
@pytest.mark.parametrize("params", FAMILIES)
@pytest.mark.parametrize("name", LATER)
def test_read_again_behind_a_reduction(name: str, params: str) -> None:
    text, inputs, wanted = LATER[name]
    operands = [X, W, *inputs]
    assert same(wsched.compile(text, operands, params=FAMILIES[params])(*operands), wanted)


@pytest.mark.parametrize("params", PARAMS)
def test_sums_of_what_fp16_does_not_hold(params: str) -> None:
    """They are infinite, as the elements are, or the difference of two infinities."""
    x, w = torch.zeros(M, K).half(), torch.zeros(N, K).half()
    x[:, 0], w[:, 0] = 1.0, 1.0
    x[3, 1:3] = 256.0
    w[5, 1], w[6, 2] = 256.0, -256.0
    lines = WIDE, "q = fd.ops.mul(f, f)", "s = fd.ops.sum(f, dims=[1])"
    lines += "t = fd.ops.sum(f, dims=[0])", "u = fd.ops.sum(q, dims=[1])"
    text = epilogue(*lines, outputs="y s t u", dtype="Half")
    y = (x.float() @ w.float().T).half()
    f = y.float()
    assert f.isinf().sum() == 2 and f.sum(1)[3].isnan() and (f * f).sum(1)[3] == torch.inf
    found = wsched.compile(text, [x, w], params=PARAMS[params])(x, w)
    for mine, wanted in zip(found, (y, f.sum(1), f.sum(0), (f * f).sum(1)), strict=True):
        assert torch.allclose(mine, wanted, rtol=0, atol=0, equal_nan=True)


def test_gate_and_up() -> None:
    lines = "v: [-1, -1]", "y = fd.ops.linear(x, w)", "u = fd.ops.linear(x, v)"
    text = epilogue(*lines, "d = fd.ops.mul(y, u)")
    up = (X.float() @ V.float().T).bfloat16().float()
    assert same(wsched.compile(text, [X, W, V])(X, W, V), [Y * up])


def test_sums_of_squares_however_they_are_written() -> None:
    """NvFuser's text has the casts that a definition by hand leaves out."""
    last = "s = fd.ops.sum(q, dims=[1])"
    written = import_fusion(epilogue(WIDE, "q = fd.ops.mul(f, f)", last, outputs="y s"))
    assert import_fusion(epilogue("q = fd.ops.mul(y, y)", last, outputs="y s")) == written


def test_the_largest_of_two_products() -> None:
    lines = "v: [-1, -1]", "y = fd.ops.linear(x, w)", "u = fd.ops.linear(x, v)"
    lines += "p = fd.ops.mul(y, u)", f"d = fd.ops.cast(p, {BF16})", "m = fd.ops.max(d, dims=[0])"
    text = epilogue(*lines, outputs="d m")
    found = (Y * (X.float() @ V.float().T).bfloat16().float()).bfloat16()
    assert same(wsched.compile(text, [X, W, V])(X, W, V), [found, found.amax(0)])


def test_a_vector_in_front_of_batches_that_says_fp32() -> None:
    a, b = eighths(K, seed=10), eighths(3, K, N, seed=11)
    lines = f"a = {tensor('[-1]')}", f"b = {tensor('[-1, -1, -1]')}"
    lines += f"y = fd.ops.matmul(a, b, {FP32})", "d = fd.ops.mul(y, 3.0)", "fd.add_output(d)"
    text = "def nvfuser_fusion(fd: FusionDefinition):\n" + "".join(f"    {s}\n" for s in lines)
    assert same(wsched.execute(text, [a, b]), [3 * torch.matmul(a.float(), b.float())])


def test_batches() -> None:
    a, b = eighths(3, M, K, seed=5), eighths(3, K, N, seed=6)
    lines = [f"{name} = {tensor('[-1, -1, -1]')}" for name in "ab"]
    lines += ["y = fd.ops.matmul(a, b)", "d = fd.ops.mul(y, y)", "fd.add_output(d)"]
    text = "def nvfuser_fusion(fd: FusionDefinition):\n" + "".join(f"    {s}\n" for s in lines)
    wanted = torch.matmul(a.float(), b.float()).bfloat16().float() ** 2
    assert same(wsched.compile(text, [a, b])(a, b), [wanted])


def test_two_products_in_one_accumulator() -> None:
    """One accumulator: what is summed up together is rounded together."""
    lines = "t: [-1, -1]", "v: [-1, -1]", "y = fd.ops.linear(x, w)", "u = fd.ops.linear(t, v)"
    text = epilogue(*lines, "d = fd.ops.add(y, u)")
    t = eighths(M, K, seed=7)
    wanted = SUMS + t.float() @ V.float().T
    assert same(wsched.compile(text, [X, W, t, V])(X, W, t, V), [wanted])


def test_what_is_cut() -> None:
    """nvFuser's issue 2317 in short: a product rounded twice is what a second one multiplies."""
    lines = (
        "r: [-1, -1]", "v: [-1, -1]", "y = fd.ops.linear(x, w)", "s = fd.ops.add(y, r)",
        f"c = fd.ops.cast(s, {BF16})", "z = fd.ops.linear(c, v)", "d = fd.ops.add(c, z)",
    )  # fmt: skip
    narrow, square = eighths(M, N, seed=8) / 4, (eighths(N, N, seed=9) * 8 / 32).bfloat16()
    first = (Y + narrow.float()).bfloat16()
    wanted = first.float() + (first.float() @ square.float().T).bfloat16().float()
    definition = record_text(epilogue(*lines))
    assert same(wsched.execute(definition, [X, W, narrow, square]), [wanted])


SILU_AS_PRINTED = (
    "v: [-1, -1]", "y = fd.ops.linear(x, w)", "u = fd.ops.linear(x, v)", WIDE,
    "n = fd.ops.neg(f)", "e = fd.ops.exp(n)", "o = fd.ops.add(1.0, e)",
    "q = fd.ops.reciprocal(o)", "m = fd.ops.mul(f, q)", f"g = fd.ops.cast(u, {FP32})",
    "s = fd.ops.mul(m, g)", f"d = fd.ops.cast(s, {BF16})",
)  # fmt: skip


@pytest.mark.slow
def test_what_is_rounded_frees_the_registers_of_sums() -> None:
    """Of Llama's gate and up, 192 accumulators: 824 bytes were spilled while these were carried
    through the epilogue.
    """
    if nvrtc.nvrtc_version() is None:
        pytest.skip("needs NVRTC")
    fusion = import_fusion(epilogue(*SILU_AS_PRINTED))
    params = choose_params(Extents(8192, 14336, 4096).problem(fusion, H200_SMS))
    assert compile_clean(fusion, params).resources.clean
