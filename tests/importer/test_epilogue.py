"""Import of epilogues: which expressions an operation becomes, types, inputs, outputs, refusals."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from tests.epilogues import GELU, TWO_OUTPUTS, epilogue, tensor
from wsched.fusion import Fusion, PointwiseOp, TensorBinding, fusion_text
from wsched.fusion.types import DataType
from wsched.importer import build_fusion, record_text

POINTWISE = "the operations of design/pointwise-ops.md"
RESULTS = "BFloat16, Half, Float, Float8_e4m3fn, Float8_e5m2"


def build(text: str) -> Fusion:
    return build_fusion(record_text(text))


def math(text: str) -> list[str]:
    """The expressions behind the mma, with the types of their results."""
    f = build(text)
    after = f.exprs[f.exprs.index(f.mmas[0]) + 1 :]
    return [f"{f.tensor(e.output).head} = {e}" for e in after]


def test_bias_and_gelu(golden: object) -> None:
    assert fusion_text(build(GELU)) == golden


def test_an_output_that_is_read_is_copied(golden: object) -> None:
    assert fusion_text(build(TWO_OUTPUTS)) == golden


def test_masks_are_inputs(golden: object) -> None:
    """A matrix of Bool as it is; of a smaller one a view."""
    text = epilogue(
        "m: [-1, -1] Bool", "c: [-1, 1] Bool", "k = fd.ops.logical_and(m, c)",
        "z = fd.ops.where(k, y, 0.0)", "d = fd.ops.cast(z, dtype=DataType.BFloat16)",
    )  # fmt: skip
    assert fusion_text(build(text)) == golden


def test_scalars_are_folded() -> None:
    text = epilogue(
        "c = fd.define_scalar(0.044715123456, dtype=DataType.Double)",
        "e = fd.ops.mul(c, 2)",
        "g = fd.ops.cast(e, dtype=DataType.Float)",
        "d = fd.ops.mul(y, g)",
    )
    assert math(text)[2:] == ["T7_g_float = T6 * double(0.089430246911999994)"]


@pytest.mark.parametrize(
    ("shape", "read", "axes", "sizes"),
    [
        ("[-1]", "b", ("N",), (None,)),
        ("[1, -1]", "b", ("1", "N"), (1, None)),
        ("[-1, 1]", "b", ("M", "1"), (None, 1)),
        ("[1, 1]", "b", ("1", "1"), (1, 1)),
        ("[1]", "b", ("1",), (1,)),
        ("[]", "b", (), ()),
        ("[-1]", "fd.ops.broadcast(b, is_broadcast_dim=[False, True])", ("M",), (None,)),
        ("[-1]", "fd.ops.broadcast(b, [True, False])", ("N",), (None,)),
        ("[-1]", "fd.ops.broadcast_in_dim(b, shape=[4, 4], broadcast_dims=[0])", ("M",), (None,)),
        ("[1, -1]", "fd.ops.squeeze(b, dims=[0])", ("1", "N"), (1, None)),
        ("[1, -1]", "fd.ops.expand(b, shape=[-1, -1])", ("1", "N"), (1, None)),
        ("[-1, 256]", "b", ("M", "N"), (None, 256)),
    ],
)
def test_inputs(
    shape: str, read: str, axes: tuple[str, ...], sizes: tuple[int | None, ...]
) -> None:
    lines = [f"b: {shape} Float", f"v = {read}"] if read != "b" else [f"b: {shape} Float"]
    f = build(epilogue(*lines, f"d = fd.ops.add(y, {'v' if read != 'b' else 'b'})"))
    assert f.inputs[2] == TensorBinding("T2", axes, sizes, DataType.Float)


@pytest.mark.parametrize("size", ["-1", "256", "fd.ops.size(w, dim=0)"])
def test_an_expand_to_a_size_of_a_transposed_operand(size: str) -> None:
    text = epilogue(
        "b: [1, 1]",
        "t = fd.ops.permute(w, dims=[1, 0])",
        "y = fd.ops.matmul(x, t)",
        f"e = fd.ops.expand(b, shape=[-1, {size}])",
        "d = fd.ops.add(y, e)",
    )
    x, _, rest = text.partition("    w = ")
    text = f"{x}    w = {rest.replace('[-1, -1]', '[256, -1]', 1)}"
    assert [b.axes for b in build(text).inputs] == [("M", "K"), ("N", "K"), ("1", "1")]
    if size == "256":
        with pytest.raises(UnsupportedError, match=r"fd\.ops\.expand to shape=\[-1, 255\]"):
            build(text.replace("[-1, 256]", "[-1, 255]"))


def test_run_time_scalar_does_not_widen() -> None:
    lines = ("s = fd.define_scalar(None, dtype=DataType.Double)", "c = fd.ops.gt(y, s)")
    text = epilogue(*lines, "d = fd.ops.where(c, y, s)")
    f = build(text)
    assert f.inputs[2] == TensorBinding("T2", (), (), DataType.Float)
    assert f.outputs[0].dtype is DataType.BFloat16


def test_results_of_8_bits() -> None:
    """Rounded twice where the definition says so: a linear of bf16 gives bf16."""
    lines = ("d = fd.ops.cast(y, dtype=DataType.Float8_e5m2)",)
    assert math(epilogue(*lines)) == ["T5_l___bfloat = cast(T4)", "T6_g___e5m2 = cast(T5)"]
    text = epilogue("f = fd.ops.cast(y, dtype=DataType.Float)", lines[0].replace("(y", "(f"))
    assert math(text)[1:] == ["T6_l_float = cast(T5)", "T7_g___e5m2 = cast(T6)"]
    wide = epilogue("y = fd.ops.linear(x, w, dtype=DataType.Float)", *lines)
    assert math(wide) == ["T5_g___e5m2 = cast(T4)"]


def test_matmul_and_its_epilogue_as_outputs() -> None:
    """Rounded once, for the memory and for the epilogue, which widens it again."""
    text = epilogue("d = fd.ops.exp(y)", outputs="y d")
    assert math(text) == [
        "T5_l___bfloat = cast(T4)",
        "T6_l_float = cast(T5)",
        "T7_g_float = exp(T6)",
        "T8_g___bfloat = Set(T5)",
    ]


@pytest.mark.parametrize(
    ("lines", "behind"),
    [
        (("y = fd.ops.linear(x, w, dtype=DataType.Float)",), []),
        (
            ("t = fd.ops.permute(w, dims=[1, 0])", "y = fd.ops.matmul(x, t, dtype=DataType.Float)"),
            [],
        ),
        (("b: [-1]", "y = fd.ops.linear(x, w, b, dtype=DataType.Float)"), ["cast", "add"]),
    ],
    ids=["linear", "matmul", "bias"],
)
def test_a_product_that_is_not_rounded(lines: tuple[str, ...], behind: list[str]) -> None:
    """By a word of wsched's own: the sums, to which a bias has been added in fp32."""
    f = build(epilogue(*lines, "d = fd.ops.relu(y)"))
    after = f.exprs[f.exprs.index(f.mmas[0]) + 1 :]
    assert [getattr(e, "op", "cast") for e in after] == [*behind, "relu"]
    assert all(f.tensor(e.output).dtype is DataType.Float for e in after)


def test_a_product_of_another_type() -> None:
    with pytest.raises(UnsupportedError) as error:
        build(epilogue("y = fd.ops.linear(x, w, dtype=DataType.Half)"))
    assert (error.value.what, error.value.supported) == (
        "fd.ops.linear with dtype=DataType.Half", "Float, or no dtype: that of the operands",
    )  # fmt: skip


@pytest.mark.parametrize("outputs", ["e d", "d e"])
def test_an_output_of_other_matrices_alone(outputs: str) -> None:
    """It is made beside what the matmul has a part in, whichever comes first."""
    f = build(epilogue("c: [-1, -1]", "d = fd.ops.mul(y, c)", "e = fd.ops.exp(c)", outputs=outputs))
    ops = {e.output: e.op for e in f.exprs if isinstance(e, PointwiseOp)}
    assert [ops[b.tensor] for b in f.outputs] == [
        {"d": "mul", "e": "exp"}[name] for name in outputs.split()
    ]


TWICE = ("y = fd.ops.linear(x, w)", "z = fd.ops.linear(x, v)", "d = fd.ops.mul(y, z)")


@pytest.mark.parametrize("outputs", ["d e", "e d"])
@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(("c: [-1, -1]", "d = fd.ops.neg(y)", "e = fd.ops.exp(c)"), id="a matrix"),
        pytest.param(
            ("v: [-1, -1]", "c: [-1, -1]", *TWICE, "e = fd.ops.exp(c)"), id="of two products"
        ),
        pytest.param(
            ("r: [-1, 1]", "c: [1, -1]", "d = fd.ops.add(y, c)", "e = fd.ops.add(c, r)"),
            id="rows of its own",
        ),
    ],
)
def test_an_output_whose_extents_nothing_says(lines: tuple[str, ...], outputs: str) -> None:
    """It is refused wherever it stands: it may be smaller or larger than the product."""
    with pytest.raises(UnsupportedError, match="whose results do not meet"):
        build(epilogue(*lines, outputs=outputs))


@pytest.mark.parametrize("outputs", ["d e", "e d"])
@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(
            ("b: [-1, -1]", "c: [-1, -1]", "d = fd.ops.mul(y, c)", "e = fd.ops.mul(c, b)"),
            id="by a matrix",
        ),
        pytest.param(
            (
                "r: [-1, 1]", "c: [1, -1]", "p = fd.ops.add(y, c)", "d = fd.ops.mul(p, r)",
                "e = fd.ops.add(c, r)",
            ),
            id="by a row and a column",
        ),
    ],
)  # fmt: skip
def test_an_output_whose_extents_are_those_of_another(lines: tuple[str, ...], outputs: str) -> None:
    assert len(build(epilogue(*lines, outputs=outputs)).outputs) == 2


@pytest.mark.parametrize(
    ("lines", "what", "supported"),
    [
        (
            ["d = fd.ops.prod(y, dims=[1])"],
            "fd.ops.prod (a reduction or scan over a dimension) in an epilogue",
            POINTWISE,
        ),
        (
            ["t = fd.ops.permute(y, dims=[1, 0])", "d = fd.ops.relu(t)"],
            "fd.ops.permute in an epilogue",
            POINTWISE,
        ),
        (
            ["c = fd.define_scalar(2.0)", "d = fd.ops.mul(y, fd.ops.exp(c))"],
            "line 6: fd.ops.exp of constants alone",
            "of constants: fd.ops.{cast, add, sub, mul, div, truediv, neg, reciprocal, lt, le, "
            "gt, ge, where}",
        ),
        (
            ["d = fd.ops.lineer(y, y)"],
            "line 5: the unknown operation fd.ops.lineer",
            "operations of nvFuser. Did you mean fd.ops.linear?",
        ),
        (["d = fd.ops.add(y)"], "fd.ops.add with 1 operands", "2 operands"),
        (
            [
                "e = fd.ops.cast(y, dtype=DataType.Float8_e4m3fn)",
                "d = fd.ops.cast(e, dtype=DataType.Half)",
            ],
            "fd.ops.cast of what is cast to Float8_e4m3fn",
            "results of it",
        ),
        (
            ["e = fd.ops.cast(y, dtype=DataType.Float8_e5m2)", "d = fd.ops.relu(e)"],
            "fd.ops.relu of Float8_e5m2",
            "BFloat16, Half, Float",
        ),
        (["d = fd.ops.gt(y, 0.0)"], "the output d of type Bool", RESULTS),
        (
            ["a = fd.ops.gt(y, 0.0)", "d = fd.ops.where(a, 1.0, 0.0)"],
            "the output d of type Double",
            RESULTS,
        ),
        (
            ["a = fd.ops.gt(y, 0.0)", "b = fd.ops.where(a, 1.0, 0.0)", "d = fd.ops.mul(b, y)"],
            "fd.ops.mul of Double",
            "BFloat16, Half, Float",
        ),
        (
            ["a = fd.ops.gt(y, 0.0)", "b = fd.ops.where(a, 0.1, 0.0)", "d = fd.ops.mul(b, y)"],
            "fd.ops.where of constants alone",
            "one tensor beside them",
        ),
        (
            ["b: [-1]", "e = fd.ops.exp(b)", "d = fd.ops.broadcast(e, [True, False])"],
            "a fusion with no fd.ops.linear or fd.ops.matmul",
            "one of them",
        ),
        (
            [
                "b: [-1]",
                "c = fd.ops.broadcast(b, [True, False])",
                "e = fd.ops.exp(c)",
                "z = fd.ops.add(y, e)",
            ],
            "the output e, which is the same along a dimension of the matmul,",
            "outputs that the matmul or a full matrix has a part in",
        ),
        (
            ["b: [-1] Int", "d = fd.ops.add(y, b)"],
            "the input b of type Int",
            "BFloat16, Half, Float, Bool",
        ),
        (
            ["d = fd.ops.add(y, x)"],
            "x as operand of the matmul and in the epilogue",
            "one way to read it",
        ),
        (
            [
                "b: [-1]",
                "c = fd.ops.broadcast(b, [True, False])",
                "e = fd.ops.broadcast(b, [False, True])",
                "g = fd.ops.add(y, c)",
                "d = fd.ops.add(g, e)",
            ],
            "b as row and as column",
            "one way to read an input",
        ),
        (
            ["b: [1, -1]", "e = fd.ops.expand(b, shape=[7, 7])", "d = fd.ops.add(y, e)"],
            "fd.ops.expand to shape=[7, 7]",
            "the sizes of the matmul's result",
        ),
        (
            ["s = fd.define_scalar(None, dtype=DataType.Int)", "d = fd.ops.mul(y, s)"],
            "the run-time scalar s of type Int",
            "Double, Float",
        ),
    ],
)
def test_refused(lines: list[str], what: str, supported: str) -> None:
    outputs = "z e" if "z =" in lines[-1] else ""
    with pytest.raises(UnsupportedError) as error:
        build(epilogue(*lines, outputs=outputs))
    assert str(error.value) == f"{what} is not supported; supported: {supported}"


def test_one_product_of_two_matmuls_that_are_the_same() -> None:
    f = build(
        epilogue("v = fd.ops.linear(x, w)", "y = fd.ops.linear(x, w)", "d = fd.ops.add(y, v)")
    )
    assert [e.output for e in f.mmas] == ["T4"]


def test_an_input_as_output() -> None:
    with pytest.raises(UnsupportedError) as error:
        build(epilogue("r: [-1, -1]", "d = fd.ops.add(y, r)", outputs="d r"))
    assert str(error.value) == (
        "the output r, which is an input, is not supported; supported: a computed output"
    )


def test_tensor_text() -> None:
    assert tensor("[-1, 1]") == (
        "fd.define_tensor(shape=[-1, 1], contiguity=[True, None], dtype=DataType.BFloat16)"
    )


@pytest.mark.parametrize(
    ("given", "shown"),
    [("shape=4, dtype=DataType.Half", "4"), ("shape=[-1, -1], dtype=3", "[-1, -1]")],
)
def test_an_input_that_is_no_tensor_of_a_type(given: str, shown: str) -> None:
    lines = [f"r = fd.define_tensor({given})", "d = fd.ops.add(y, r)"]
    with pytest.raises(UnsupportedError) as error:
        build(epilogue(*lines))
    assert (error.value.what, error.value.supported) == (f"r with shape {shown}", "a list of sizes")
