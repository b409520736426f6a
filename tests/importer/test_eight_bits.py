"""Operands of 8 bits: as they are, with casts around the matmul, and as ``scaled_mm``."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from tests.importer.test_operands import build as build_any
from wsched.fusion import BroadcastOp, CastOp, DataType, Fusion, MmaOp, PointwiseOp

X = "fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float8_e4m3fn)"
Y = X.replace("e4m3fn", "e5m2")
I8, U8 = (X.replace("Float8_e4m3fn", name) for name in ("Int8", "UInt8"))
WIDE, FLOAT = "dtype=DataType.BFloat16)", "dtype=DataType.Float)"
SCALE = "fd.define_tensor(shape=[{}], contiguity=[{}], dtype=DataType.Float)"
ROWS, COLUMNS = SCALE.format("-1, 1", "True, None"), SCALE.format("1, -1", "None, True")


def build(*lines: str, out: str = "d") -> Fusion:
    return build_any(*lines, by_calls=False, out=out)


@pytest.mark.parametrize(
    ("x", "w", "summed", "promotion"),
    [(X, X, DataType.Float, 128), (X, Y, DataType.Float, 128), (I8, U8, DataType.Int32, 0)],
)
def test_the_target_says_what_is_summed_in_what(
    x: str, w: str, summed: DataType, promotion: int
) -> None:
    f = build(f"x = {x}", f"w = {w}", "s = fd.ops.linear(x, w)", f"d = fd.ops.cast(s, {FLOAT}")
    (mma,) = f.mmas
    assert (f.tensor(mma.output).dtype, mma.promotion) == (summed, promotion)
    assert f.outputs[0].dtype is DataType.Float


def test_integers_are_their_own_result() -> None:
    f = build(f"x = {I8}", f"w = {I8}", "d = fd.ops.linear(x, w)")
    assert f.outputs[0].dtype is DataType.Int32
    assert f.exprs[-1] == MmaOp(f.outputs[0].tensor, "T2", "T3")


def test_casts_around_the_matmul() -> None:
    """They are exact, so the kernel reads 8 bits; the result is rounded as bf16's would be."""
    f = build(
        f"x = {X}", f"w = {Y}", f"a = fd.ops.cast(x, {WIDE}",
        f"b = fd.ops.permute(fd.ops.cast(w, {WIDE}, dims=[1, 0])", "s = fd.ops.matmul(a, b)",
        "d = fd.ops.relu(s)",
    )  # fmt: skip
    assert [b.dtype for b in f.inputs] == [DataType.Float8_e4m3fn, DataType.Float8_e5m2]
    assert f.exprs[2:] == (
        MmaOp("T4", "T2", "T3", 128), CastOp("T5", "T4"), PointwiseOp("T6", "relu", ("T5",)),
    )  # fmt: skip
    assert f.outputs[0].dtype is DataType.BFloat16


def test_a_cast_of_one_operand_is_made() -> None:
    """The other one has 16 bits: they are multiplied as such."""
    lines = f"x = {X}", f"b = {X.replace('Float8_e4m3fn', 'BFloat16')}"
    f = build(*lines, f"a = fd.ops.cast(x, {WIDE}", "d = fd.ops.linear(a, b)")
    (mma,) = f.mmas
    assert [f.tensor(n).dtype for n in (mma.a, mma.b)] == [DataType.BFloat16] * 2
    assert f.source(mma.a).dtype is DataType.Float8_e4m3fn and mma.promotion == 0


def test_casts_to_several_types() -> None:
    with pytest.raises(UnsupportedError) as error:
        build(
            f"x = {X}", f"w = {X}", "b = fd.ops.cast(w, dtype=DataType.Half)",
            f"a = fd.ops.cast(x, {WIDE}", "d = fd.ops.linear(a, b)",
        )  # fmt: skip
    assert error.value.what == "fd.ops.linear of BFloat16 (a) and Half (b)"


SCALED = (f"x = {X}", f"w = {X.replace('dtype', 'stride_order=[0, 1], dtype')}",
          f"p = {ROWS}", f"q = {COLUMNS}")  # fmt: skip


def test_scaled_mm() -> None:
    bias = SCALE.format("-1", "True").replace("Float)", "BFloat16)")
    f = build(
        *SCALED, f"c = {bias}",
        "d, _, _ = fd.ops.scaled_mm(x, w, p, q, bias=c, dtype=DataType.Half)",
    )  # fmt: skip
    assert [b.axes for b in f.inputs] == [("M", "K"), ("K", "N"), ("M", "1"), ("1", "N"), ("N",)]
    assert [str(e) for e in f.exprs if not isinstance(e, BroadcastOp)] == [
        "mma(T5, T6, promotion = 128)", "T10 * T7", "T11 * T8", "cast(T9)", "T12 + T13", "cast(T14)"
    ]  # fmt: skip
    assert f.outputs[0].dtype is DataType.Half


def test_scaled_mm_by_itself() -> None:
    """bf16 where nothing else is said; sums stay in the tensor core where that is asked for."""
    f = build(*SCALED, "d, _, _ = fd.ops.scaled_mm(x, w, p, q, use_fast_accum=True)")
    assert (f.outputs[0].dtype, f.mmas[0].promotion) == (DataType.BFloat16, 0)


@pytest.mark.parametrize(
    ("call", "what", "supported"),
    [
        (
            "d, _, _ = fd.ops.scaled_mm(x, w, p)",
            "fd.ops.scaled_mm with one scale or none", "scale1 and scale2",
        ),
        (
            "d, _, _ = fd.ops.scaled_mm(x, w, p, q, alpha=p)",
            "fd.ops.scaled_mm with alpha=p", "scales of its operands, and a bias",
        ),
        (
            "e, d, _ = fd.ops.scaled_mm(x, w, p, q, output_block_scale_size=16)",
            "fd.ops.scaled_mm with output_block_scale_size=16, d",
            "scales of its operands, and a bias",
        ),
        (
            "d = fd.ops.relu(fd.ops.matmul(x, w))",
            "fd.ops.relu of Float8_e4m3fn", "BFloat16, Half, Float",
        ),
        (
            "d = fd.ops.matmul(x, w)",
            "a matmul's result rounded to Float8_e4m3fn", "what is made of it cast to Float",
        ),
        (
            "d = fd.ops.cast(fd.ops.matmul(x, w), dtype=DataType.Half)",
            "a matmul's result rounded to Float8_e4m3fn", "what is made of it cast to Float",
        ),
        (
            "d = fd.ops.isinf(fd.ops.matmul(x, w))",
            "fd.ops.isinf of Float8_e4m3fn", "BFloat16, Half, Float",
        ),
        (
            "d = fd.ops.sum(fd.ops.matmul(x, w), dims=[1], dtype=DataType.Float)",
            "fd.ops.sum of Float8_e4m3fn as Float",
            "BFloat16, Half, Float, and casts of a reduction in Float",
        ),
    ],
)  # fmt: skip
def test_refused(call: str, what: str, supported: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        build(*SCALED, call)
    assert str(error.value) == f"{what} is not supported; supported: {supported}"


def test_scales_that_may_be_of_anything() -> None:
    """Of rows, columns or blocks: nvFuser asks the tensors of a call, which it is left to."""
    with pytest.raises(UnsupportedError) as error:
        build(*BLOCKS, "d, _, _ = fd.ops.scaled_mm(x, w, p, q)")
    assert str(error.value) == (
        "line 6: fd.ops.scaled_mm with p of shape [-1, -1] is not supported; supported: scales of "
        "shape [-1, 1], [1, -1] or of one number"
    )


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("d = fd.ops.relu(s)", "fd.ops.relu of Int32"),
        ("d = fd.ops.isnan(s)", "fd.ops.isnan of Int32"),
        ("d = fd.ops.mul(s, 2.0)", "fd.ops.mul of Int32"),
        ("b = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.Float)\n"
         "    d = fd.ops.linear(x, w, b)", "fd.ops.linear with a bias of Int32"),
    ],
)  # fmt: skip
def test_integers_are_computed_with_as_float(line: str, what: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        build(f"x = {I8}", f"w = {I8}", "s = fd.ops.linear(x, w)", line)
    assert str(error.value) == f"{what} is not supported; supported: BFloat16, Half, Float"


MATRIX = SCALE.format("-1, -1", "True, True")
BLOCKS = (*SCALED[:2], f"p = {MATRIX}", f"q = {MATRIX}")


def scaled(blocks: str, more: str = "") -> str:
    return f"d, _, _ = fd.ops.scaled_mm(x, w, p, q, scale_blocks={blocks}{more})"


@pytest.mark.parametrize(
    ("blocks", "axes", "lie"),
    [
        ("[1, 128]", [("M", "K_128"), ("K_128", "N_128")], [("K_128", "M"), ("N_128", "K_128")]),
        ("[1, 1]", [("M", "K_128"), ("K_128", "N")], [("K_128", "M"), ("K_128", "N")]),
        ("[128, 1]", [("M_128", "K_128"), ("K_128", "N")], [("M_128", "K_128"), ("K_128", "N")]),
    ],
)
def test_scales_of_blocks(
    blocks: str, axes: list[tuple[str, ...]], lie: list[tuple[str, ...]]
) -> None:
    """They are the product's, which nothing but it reads."""
    f = build(*BLOCKS, scaled(blocks))
    mma, cast = (e for e in f.exprs if not isinstance(e, BroadcastOp))
    first, second = blocks.strip("[]").split(", ")
    assert str(mma) == (f"mma(T4, T5, promotion = 128, scales = {{T2 of {first}, T3 of {second}}})")
    assert str(cast) == "cast(T6)" and f.scales == {"T2", "T3"}
    assert [b.axes for b in f.inputs[2:]] == axes
    assert [f.order(b) for b in f.inputs[2:]] == lie


def test_scales_of_blocks_of_the_transposed_product() -> None:
    """A result by columns is one of the operands exchanged."""
    f = build(*BLOCKS, scaled("[1, 128]"), "e = fd.ops.stride_order(d, stride_order=[0, 1])",
              out="e")  # fmt: skip
    assert f.mmas[0].scales is not None
    assert [(s.tensor, s.rows) for s in f.mmas[0].scales] == [("T3", 128), ("T2", 1)]


def test_scales_of_blocks_of_several_products() -> None:
    """Side by side or in one result, they are refused; without blocks they are one kernel."""
    more = f"v = {X.replace('dtype', 'stride_order=[0, 1], dtype')}", f"r = {MATRIX}"
    second = scaled("[1, 1]").replace("w, p, q", "v, p, r").replace("d,", "e,")
    lines = *BLOCKS, *more, scaled("[1, 1]"), second, "f = fd.ops.add(d, e)"
    with pytest.raises(UnsupportedError) as error:
        build(*lines, out="f")
    assert str(error.value) == (
        "scales of blocks [1, 1] of 2 matmuls along M, N is not supported; "
        "supported: those of one matmul of matrices"
    )
    with pytest.raises(UnsupportedError, match=r"2 fd\.ops\.linear or fd\.ops\.matmul"):
        build(*lines[:-1], "fd.add_output(e)")


_BATCH = (X.replace("[-1, -1]", "[-1, -1, -1]").replace("[True, True]", "[True, True, True]"),) * 2


@pytest.mark.parametrize(
    ("lines", "what", "supported"),
    [
        (
            (*BLOCKS, scaled("[1, 64]")),
            "scales of blocks [1, 64]", "1 or 128 of rows and of columns, 128 of K",
        ),
        (
            (*BLOCKS, scaled("[1]")),
            "scales of blocks [1]", "1 or 128 of rows and of columns, 128 of K",
        ),
        (
            (*BLOCKS[:3], f"q = {COLUMNS}", "r = fd.ops.mul(q, 2.0)",
             scaled("[1, 1]").replace("q,", "r,")),
            "scales of blocks [1, 1] in r", "inputs of fp32 with two dimensions",
        ),
        (
            (*BLOCKS[:3], scaled("[1, 1]").replace("q,", "p,")),
            "scales of blocks [1, 1] of both operands in p", "a tensor for each",
        ),
        (
            (f"x = {_BATCH[0]}", f"w = {_BATCH[1]}", *BLOCKS[2:], scaled("[1, 128]")),
            "scales of blocks [1, 128] of 1 matmuls along B, M, N",
            "those of one matmul of matrices",
        ),
        (
            (*BLOCKS, scaled("[1, 128]", ", use_fast_accum=True")),
            "scales of blocks [1, 128] of a product whose sums stay in the tensor core",
            "those of floats of 8 bits, whose sums are promoted",
        ),
    ],
)  # fmt: skip
def test_scales_of_blocks_that_are_refused(
    lines: tuple[str, ...], what: str, supported: str
) -> None:
    with pytest.raises(UnsupportedError) as error:
        build(*lines)
    assert str(error.value) == f"{what} is not supported; supported: {supported}"
