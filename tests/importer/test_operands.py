"""Operands that are computed: one for the built-in scheduler, any for schedules by calls."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.fusion import (
    BroadcastOp,
    CastOp,
    DataType,
    Fusion,
    MmaOp,
    PointwiseOp,
    TensorBinding,
    computed_inputs,
    prologue,
)
from wsched.importer import build_fusion, record_text

X = "fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)"
W = X.replace("Float", "BFloat16")
COLUMNS = X.replace("dtype", "stride_order=[0, 1], dtype")
CAST = "dtype=DataType.BFloat16)"


def build(*lines: str, by_calls: bool = True, out: str = "d") -> Fusion:
    body = "".join(f"    {line}\n" for line in lines)
    text = f"def f(fd: FusionDefinition):\n{body}    fd.add_output({out})\n"
    return build_fusion(record_text(text), by_calls=by_calls)


def test_a_chain_in_front_of_the_mma() -> None:
    """In the operand's dimensions, with types as nvFuser promotes them."""
    f = build(
        f"x = {X}", f"w = {W}", "h = fd.ops.mul(x, 0.5)", "g = fd.ops.relu(h)",
        f"a = fd.ops.cast(g, {CAST}", "d = fd.ops.linear(a, w)",
    )  # fmt: skip
    assert f.inputs == (
        TensorBinding("T0", ("M", "K"), (None, None), DataType.Float),
        TensorBinding("T1", ("N", "K"), (None, None), DataType.BFloat16),
    )
    assert f.exprs[:6] == (
        BroadcastOp("T2", "T0", (False, True, False)),
        PointwiseOp("T3", "mul", ("T2", 0.5)),
        PointwiseOp("T4", "relu", ("T3",)),
        CastOp("T5", "T4"),
        BroadcastOp("T6", "T1", (True, False, False)),
        MmaOp("T7", "T5", "T6"),
    )
    assert f.operands == ("T0", "T1")


def test_either_operand_or_both() -> None:
    """``matmul`` takes w transposed; a cast between 16-bit types goes by way of fp32 there, too."""
    f = build(
        f"x = {X}", f"w = {W.replace('BFloat16', 'Half')}", f"a = fd.ops.cast(x, {CAST}",
        f"c = fd.ops.cast(w, {CAST}", "b = fd.ops.permute(c, dims=[1, 0])",
        "d = fd.ops.matmul(a, b)",
    )  # fmt: skip
    assert [b.axes for b in f.inputs] == [("M", "K"), ("N", "K")]
    (mma,) = f.mmas
    assert [f.definition(x) for x in (mma.a, mma.b)] == [CastOp("T3", "T2"), CastOp("T5", "T4")]


def test_batches() -> None:
    rank3 = X.replace("[-1, -1]", "[-1, -1, -1]").replace("[True, True]", "[True, True, True]")
    f = build(f"x = {rank3}", f"w = {W}", f"a = fd.ops.cast(x, {CAST}", "d = fd.ops.linear(a, w)")
    assert [b.axes for b in (*f.inputs, *f.outputs)] == [
        ("B", "M", "K"), ("N", "K"), ("B", "M", "N")
    ]  # fmt: skip


CASTS = (f"x = {X}", f"w = {W}", f"a = fd.ops.cast(x, {CAST}", "d = fd.ops.linear(a, w)")


def test_one_is_for_the_built_in_scheduler() -> None:
    assert build(*CASTS, by_calls=False).exprs == build(*CASTS).exprs


V = X.replace("[-1, -1]", "[-1]").replace("[True, True]", "[True]")
BY_ROWS = (
    f"x = {W}", f"q = {X.replace('Float', 'Int8')}", f"v = {V}",
    "p = fd.ops.cast(q, dtype=DataType.Float)",
    "b = fd.ops.broadcast(v, is_broadcast_dim=[False, True])",
    "s = fd.ops.mul(b, p)", f"w = fd.ops.cast(s, {CAST}", "d = fd.ops.linear(x, w)",
)  # fmt: skip


def test_a_number_for_each_row() -> None:
    """The matrix is what the operand is computed from, whichever comes first."""
    f = build(*BY_ROWS, by_calls=False)
    assert [(b.axes, b.dtype) for b in f.inputs] == [
        (("M", "K"), DataType.BFloat16), (("N", "K"), DataType.Int8), (("N",), DataType.Float),
    ]  # fmt: skip
    (mma,) = f.mmas
    assert f.source(mma.b).name == "T1" and f.operands == ("T0", "T1")
    assert prologue(f, mma.b) == ("T6", "T7", "T8") and prologue(f, mma.a) == ()
    assert computed_inputs(f) == {"T1"}


@pytest.mark.parametrize(
    ("lines", "what", "supported"),
    [
        (
            (*(line.replace("[False, True])", "[True, False])") for line in BY_ROWS),),
            "fd.ops.linear of w, which is computed with v, which differs along K",
            "of one matrix and what is the same along K",
        ),
        (
            (f"x = {X}", f"v = {X}", f"a = fd.ops.cast(x, {CAST}", f"w = fd.ops.cast(v, {CAST}",
             "d = fd.ops.linear(a, w)"),
            "fd.ops.linear of a and w, which are both computed,",
            "one operand that is computed, as the built-in scheduler takes it",
        ),
        (
            (f"x = {X}", f"w = {W}", "s = fd.ops.sqrt(x)", f"a = fd.ops.cast(s, {CAST}",
             "d = fd.ops.linear(a, w)"),
            "fd.ops.linear of a, for which fd.ops.sqrt is computed,",
            "operations without branches, and numbers as divisors",
        ),
        (
            (*(line.replace("mul(b, p)", "div(p, b)") for line in BY_ROWS),),
            "fd.ops.linear of w, for which fd.ops.div is computed,",
            "operations without branches, and numbers as divisors",
        ),
        (
            (f"x = {X.replace('Float', 'Float8_e5m2')}", f"w = {W}", "s = fd.ops.mul(x, 2.0)",
             f"a = fd.ops.cast(s, {CAST}", "d = fd.ops.linear(a, w)"),
            "fd.ops.mul of Float8_e5m2", "BFloat16, Half, Float",
        ),
    ],
    ids=["along K", "both", "branches", "divisor", "narrow"],
)  # fmt: skip
def test_refused_of_the_built_in_scheduler(
    lines: tuple[str, ...], what: str, supported: str
) -> None:
    with pytest.raises(UnsupportedError) as error:
        build(*lines, by_calls=False)
    assert (error.value.what, error.value.supported) == (what, supported)


@pytest.mark.parametrize(
    ("lines", "what", "supported"),
    [
        (
            (f"x = {X}", f"v = {X}", f"w = {W}", "y = fd.ops.add(x, v)",
             f"a = fd.ops.cast(y, {CAST}", "d = fd.ops.linear(a, w)"),
            "fd.ops.linear of a, which is computed of x and v, 2 matrices,",
            "of one matrix, a number for each of its rows, and numbers",
        ),
        (
            (f"x = {COLUMNS}", *CASTS[1:]),
            "fd.ops.linear of a, which is computed of x with M contiguous",
            "of matrices of which K is",
        ),
        (
            (f"x = {X}", f"w = {W}", "d = fd.ops.linear(x, w)"),
            "fd.ops.linear of Float and BFloat16",
            "pairs of Half; of BFloat16; of TF32; of Float8_e4m3fn, Float8_e5m2; of Int8, UInt8",
        ),
        (
            (f"x = {X}", f"w = {W}", "s = fd.ops.mul(x, x)", "d = fd.ops.linear(s, w)"),
            "fd.ops.linear of Float (s) and BFloat16",
            "pairs of Half; of BFloat16; of TF32; of Float8_e4m3fn, Float8_e5m2; of Int8, UInt8",
        ),
        (
            (*CASTS[:3], "s = fd.ops.sum(a, dims=[1], keepdim=True)", "d = fd.ops.linear(s, w)"),
            "fd.ops.sum that an operation of the kernel reads",
            "reductions that are results",
        ),
        (
            (f"x = {W}", f"w = {W}", "y = fd.ops.linear(x, w)", "d = fd.ops.linear(y, w)"),
            "fd.ops.linear of y, which fd.ops.linear makes,",
            "an input as it is",
        ),
        (
            (*CASTS[:3], "e = fd.ops.linear(a, w)", f"g = fd.ops.cast(x, {CAST}",
             "d = fd.ops.add(e, g)"),
            "x as operand of the matmul and in the epilogue",
            "one way to read it",
        ),
        (
            (f"v = {X.replace('[-1, -1]', '[-1]').replace('[True, True]', '[True]')}", f"w = {W}",
             "b = fd.ops.broadcast(v, is_broadcast_dim=[True, False])", "n = fd.ops.neg(b)",
             f"a = fd.ops.cast(n, {CAST}", "d = fd.ops.linear(a, w)"),
            "fd.ops.linear of a, which is computed of v, no matrix [M, K],",
            "of one matrix, a number for each of its rows, and numbers",
        ),
        (
            (f"x = {W}", f"w = {W}", "r = fd.ops.reshape(x, new_shape=[8, 8])",
             "d = fd.ops.linear(r, w)"),
            "fd.ops.reshape (moves elements) for the operand r of fd.ops.linear",
            "the operations of design/pointwise-ops.md",
        ),
        (
            (f"x = {W}", f"w = {W}", "e = fd.ops.expand(x, shape=[8, 8])",
             "d = fd.ops.linear(e, w)"),
            "fd.ops.linear of e, which fd.ops.expand repeats,",
            "an input as it is, or one matrix for all batches",
        ),
        (
            (f"x = {W}", f"w = {W}", "e = fd.ops.neg(fd.ops.expand(x, shape=[8, 8]))",
             "d = fd.ops.linear(e, w)"),
            "fd.ops.expand for the operand e of fd.ops.linear",
            "the operations of design/pointwise-ops.md",
        ),
    ],
    ids=[
        "two", "columns", "fp32", "computed", "sum", "product", "twice", "none", "view", "expanded",
        "behind",
    ],
)  # fmt: skip
def test_refused(lines: tuple[str, ...], what: str, supported: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        build(*lines)
    assert (error.value.what, error.value.supported) == (what, supported)


FLOAT = "dtype=DataType.Float)"


@pytest.mark.parametrize("dtype", ["BFloat16", "Half"])
def test_exact_casts_of_both_to_fp32(dtype: str) -> None:
    """The inputs are multiplied as they are, and nothing rounds the sum."""
    x = W.replace("BFloat16", dtype)
    f = build(
        f"x = {x}", f"w = {x}", f"a = fd.ops.cast(x, {FLOAT}",
        f"b = fd.ops.permute(fd.ops.cast(w, {FLOAT}, dims=[1, 0])", "s = fd.ops.matmul(a, b)",
        "d = fd.ops.relu(s)", by_calls=False,
    )  # fmt: skip
    assert f.exprs[2:] == (MmaOp("T4", "T2", "T3"), PointwiseOp("T5", "relu", ("T4",)))
    assert [b.dtype for b in (*f.inputs, *f.outputs)] == [DataType[dtype]] * 2 + [DataType.Float]


@pytest.mark.parametrize(
    "lines",
    [
        (f"a = fd.ops.cast(x, {FLOAT}", f"b = fd.ops.cast(h, {FLOAT}"),
        (f"a = fd.ops.cast(x, {FLOAT}", f"b = fd.ops.neg(fd.ops.cast(z, {FLOAT})"),
        (f"a = fd.ops.cast(x, {FLOAT}", "b = fd.ops.set(y)"),
    ],
)
def test_other_operands_of_fp32(lines: tuple[str, ...]) -> None:
    """Types that are not multiplied with each other; what is computed; an input of fp32."""
    inputs = f"x = {W}", f"z = {W}", f"h = {W.replace('BFloat16', 'Half')}", f"y = {X}"
    with pytest.raises(UnsupportedError) as error:
        build(*inputs, *lines, "d = fd.ops.linear(a, b)", by_calls=False)
    assert error.value.what == "fd.ops.linear of Float (a) and Float (b)"
