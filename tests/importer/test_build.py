"""From definitions to fusions."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.fusion import (
    BroadcastOp,
    CastOp,
    DataType,
    Fusion,
    LoadStoreOp,
    LoadStoreOpType,
    MmaOp,
    TensorBinding,
    fusion_text,
    the_matmul,
)
from wsched.importer import build_fusion, record_text

X = "fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)"
COLUMNS = X.replace("dtype", "stride_order=[0, 1], dtype")
NO_MATMUL = "a fusion with no fd.ops.linear or fd.ops.matmul"
BF16, HALF, FLOAT = DataType.BFloat16, DataType.Half, DataType.Float


def build(*lines: str, out: str | None = None) -> Fusion:
    """A definition with one statement a line; the last line's result is the output."""
    body = "".join(f"    {line}\n" for line in lines)
    name = out or lines[-1].split(" = ")[0]
    return build_fusion(
        record_text(f"def f(fd: FusionDefinition):\n{body}    fd.add_output({name})\n")
    )


def test_linear(golden: object) -> None:
    f = build(f"x = {X}", f"w = {X}", "y = fd.ops.linear(x, w)")
    assert f.inputs == (
        TensorBinding("T0", ("M", "K"), (None, None), BF16),
        TensorBinding("T1", ("N", "K"), (None, None), BF16),
    )
    assert f.outputs == (TensorBinding("T5", ("M", "N"), (None, None), BF16),)
    assert f.exprs == (
        BroadcastOp("T2", "T0", (False, True, False)),
        BroadcastOp("T3", "T1", (True, False, False)),
        MmaOp("T4", "T2", "T3"),
        CastOp("T5", "T4"),
    )
    assert fusion_text(f) == golden


def test_operands_in_the_callers_order() -> None:
    f = build(f"w = {X}", f"x = {X}", "y = fd.ops.linear(x, w)")
    assert [b.axes for b in f.inputs] == [("N", "K"), ("M", "K")]
    assert f.exprs[:3] == (
        BroadcastOp("T2", "T1", (False, True, False)),
        BroadcastOp("T3", "T0", (True, False, False)),
        MmaOp("T4", "T2", "T3"),
    )


def test_fixed_sizes_are_kept_in_the_bindings() -> None:
    f = build(
        f"x = {X.replace('[-1, -1]', '[128, -1]')}",
        f"w = {X.replace('[-1, -1]', '[-1, 64]')}",
        "y = fd.ops.linear(x, w)",
    )
    assert [b.sizes for b in (*f.inputs, *f.outputs)] == [(128, None), (None, 64), (128, None)]


@pytest.mark.parametrize(
    ("b", "axes"),
    [
        ((f"b = {COLUMNS}",), ("K", "N")),
        ((f"w = {X}", "b = fd.ops.permute(w, dims=[1, 0])"), ("N", "K")),
    ],
    ids=["stride_order", "permute"],
)
def test_matmul_with_k_innermost(b: tuple[str, ...], axes: tuple[str, str]) -> None:
    f = build(f"a = {X}", *b, "y = fd.ops.matmul(a, b)")
    assert [x.axes for x in f.inputs] == [("M", "K"), axes]
    assert [str(d.extent) for d in f.tensor("T1").logical] == ["N", "K"]
    assert f.tensor("T1").allocation == ()


@pytest.mark.parametrize(
    ("lines", "orders"),
    [
        ((f"a = {X}", f"b = {X}", "y = fd.ops.matmul(a, b)"), ["M K", "K N"]),
        ((f"a = {COLUMNS}", f"b = {COLUMNS}", "y = fd.ops.matmul(a, b)"), ["K M", "N K"]),
        ((f"x = {COLUMNS}", f"w = {X}", "y = fd.ops.linear(x, w)"), ["K M", "N K"]),
        ((f"x = {X}", f"w = {COLUMNS}", "y = fd.ops.linear(x, w)"), ["M K", "K N"]),
        (
            (
                f"x = {X}",
                "t = fd.ops.permute(x, dims=[1, 0])",
                f"b = {X}",
                "y = fd.ops.matmul(t, b)",
            ),
            ["K M", "K N"],
        ),
        (
            (
                f"x = {X}",
                "s = fd.ops.stride_order(x, [0, 1])",
                f"w = {X}",
                "y = fd.ops.linear(s, w)",
            ),
            ["M K", "N K"],
        ),
    ],
    ids=[
        "matmul",
        "matmul_columns",
        "x_columns",
        "w_columns",
        "permute",
        "stride_order_of_operand",
    ],
)
def test_order_of_memory(lines: tuple[str, ...], orders: list[str]) -> None:
    """The logical domain stays [M, K] or [N, K]; the allocation says which is contiguous."""
    f = build(*lines)
    inputs = [f.tensor(b.tensor) for b in f.inputs]
    assert [str(t.logical[-1].extent) for t in inputs] == ["K", "K"]
    assert [" ".join(str(d.extent) for d in t.in_memory) for t in inputs] == orders


@pytest.mark.parametrize(
    ("ops", "axes", "rows"),
    [
        ((), "M N", "M"),
        (("fd.ops.stride_order(y0, stride_order=[0, 1])",), "M N", "N"),
        (("fd.ops.stride_order(y0, stride_order=[1, 0])",), "M N", "M"),
        (("fd.ops.permute(y0, dims=[1, 0])",), "N M", "N"),
        (
            ("fd.ops.permute(y0, dims=[1, 0])", "fd.ops.stride_order(y1, [0, 1])"),
            "N M",
            "M",
        ),
        (("fd.ops.permute(y0, dims=[1, 0])", "fd.ops.permute(y1, dims=[1, 0])"), "M N", "M"),
        (
            ("fd.ops.cast(y0, dtype=DataType.Half)", "fd.ops.stride_order(y1, [0, 1])"),
            "M N",
            "N",
        ),
        # The order of a tensor in between is nobody's business.
        (
            ("fd.ops.stride_order(y0, [0, 1])", "fd.ops.cast(y1, dtype=DataType.Half)"),
            "M N",
            "M",
        ),
    ],
)
def test_order_of_the_result(ops: tuple[str, ...], axes: str, rows: str) -> None:
    """Computed with the rows that the result has in memory, operands exchanged where needed."""
    lines = [f"y{n + 1} = {op}" for n, op in enumerate(ops)]
    f = build(f"x = {X}", f"w = {X}", "y0 = fd.ops.linear(x, w)", *lines)
    assert " ".join(f.outputs[0].axes) == axes
    assert f.result_axes[-2] == rows
    a = the_matmul(f).a
    assert str(a.logical[0].extent) == rows
    assert [str(d.extent) for d in f.tensor(f.outputs[0].tensor).stored] == list(f.result_axes)


@pytest.mark.parametrize(
    ("line", "what", "supported"),
    [
        ("fd.ops.permute(y, dims=[0, 1])", "fd.ops.permute with dims=[0, 1]", "dims=[1, 0]"),
        (
            "fd.ops.stride_order(y, stride_order=[0, 2])",
            "fd.ops.stride_order with stride_order=[0, 2]",
            "[1, 0], [0, 1]",
        ),
    ],
)
def test_an_order_of_the_result_that_is_refused(line: str, what: str, supported: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        build(f"x = {X}", f"w = {X}", "y = fd.ops.linear(x, w)", f"z = {line}")
    assert str(error.value) == f"{what} is not supported; supported: {supported}"


def test_a_stride_order_that_is_none() -> None:
    with pytest.raises(UnsupportedError) as error:
        build(f"x = {X.replace('dtype', 'stride_order=[1, 1], dtype')}", f"w = {X}",
              "y = fd.ops.linear(x, w)")  # fmt: skip
    assert str(error.value) == (
        "x with stride_order=[1, 1] is not supported; supported: the numbers [0, 1] in some order"
    )


@pytest.mark.parametrize(
    ("casts", "kept"),
    [
        ((), (BF16,)),
        (("Float",), (BF16, FLOAT)),
        (("Float", "Half"), (BF16, FLOAT, HALF)),
        (("Half",), (BF16, HALF)),
        (("Float", "BFloat16"), (BF16,)),
        (("Float", "BFloat16", "Float"), (BF16, FLOAT)),
        (("Half", "Float", "BFloat16"), (BF16, HALF, FLOAT, BF16)),
        (("BFloat16",), (BF16,)),
        (("Float", "Float"), (BF16, FLOAT)),
    ],
)
def test_casts(casts: tuple[str, ...], kept: tuple[DataType, ...]) -> None:
    lines = [f"x = {X}", f"w = {X}", "y0 = fd.ops.linear(x, w)"]
    for n, dtype in enumerate(casts):
        lines.append(f"y{n + 1} = fd.ops.cast(y{n}, dtype=DataType.{dtype})")
    f = build(*lines)
    assert tuple(f.tensor(e.output).dtype for e in f.exprs if isinstance(e, CastOp)) == kept
    assert f.outputs[0].dtype is (kept[-1] if kept else FLOAT)


@pytest.mark.parametrize(
    ("lines", "what", "supported"),
    [
        ((f"x = {X}", "y = fd.ops.relu(x)"), NO_MATMUL, "one of them"),
        (
            (f"x = {X}", f"w = {X}", f"b = {X}", "y = fd.ops.linear(x, w, bias=b)"),
            "a bias with 2 dimensions",
            "a bias [N]",
        ),
        (
            (f"x = {X}", f"w = {X}", "y = fd.ops.linear(x, w, foo=1)"),
            "line 4: the argument foo of fd.ops.linear in `y = fd.ops.linear(x, w, foo=1)`",
            "arg1, arg2, bias",
        ),
        (
            (
                f"x = {X}",
                f"w = {X}",
                "y = fd.ops.linear(x, w)",
                "z = fd.ops.cast(y, dtype=DataType.Double)",
            ),
            "fd.ops.cast to DataType.Double",
            "BFloat16, Half, Float, Bool, Float8_e4m3fn, Float8_e5m2",
        ),
        (
            (f"x = {X}", "y = fd.ops.linear(x, x)"),
            "fd.ops.linear of x with itself",
            "two different tensors. For a kernel alone define two inputs and pass the tensor as "
            "both; wsched.execute reads it twice by itself",
        ),
        (
            (
                f"x = {X}",
                f"v = {X}",
                "w = fd.ops.relu(v)",
                "y = fd.ops.linear(x, w)",
                "z = fd.ops.linear(v, x)",
                "s = fd.ops.add(y, z)",
            ),
            "fd.ops.linear of w, which fd.ops.relu makes,",
            "an input as it is",
        ),
        (
            (f"x = {X}", "y = fd.ops.linear(x, 3.0)"),
            "an operand 3.0 of fd.ops.linear",
            "a tensor",
        ),
        (
            (
                f"x = {X}",
                f"v = {X}",
                "w = fd.ops.permute(v, dims=[0, 1])",
                "y = fd.ops.linear(x, w)",
            ),
            "fd.ops.permute with dims=[0, 1]",
            "dims=[1, 0]",
        ),
        (
            (f"x = {X.replace('BFloat16', 'Half')}", f"w = {X}", "y = fd.ops.linear(x, w)"),
            "fd.ops.linear of Half and BFloat16",
            "pairs of Half; of BFloat16; of TF32; of Float8_e4m3fn, Float8_e5m2; of Int8, UInt8",
        ),
        (
            (
                f"x = {X.replace('BFloat16', 'Float')}",
                f"w = {X.replace('BFloat16', 'Float')}",
                "y = fd.ops.linear(x, w)",
            ),
            "fd.ops.linear of Float and Float",
            "pairs of Half; of BFloat16; of TF32; of Float8_e4m3fn, Float8_e5m2; of Int8, UInt8. "
            "fp32 is multiplied as TF32 where torch may do so (torch.backends.cuda.matmul."
            "allow_tf32 and its like), or by wsched.with_tf32",
        ),
        (
            (f"x = {X.replace('[-1, -1]', '[-1]')}", f"w = {X}", "y = fd.ops.linear(x, w)"),
            "fd.ops.linear of x with shape [-1]",
            "[M, K]",
        ),
        (
            (
                f"x = {X.replace('dtype', 'is_cpu=True, dtype')}",
                f"w = {X}",
                "y = fd.ops.linear(x, w)",
            ),
            "x with is_cpu=True",
            "tensors on the GPU",
        ),
        (
            (f"x = {X}", f"w = {X}", f"u = {X}", "y = fd.ops.linear(x, w)"),
            "the input u, which nothing reads,",
            "inputs that are read",
        ),
        (
            (
                f"x = {X.replace('[-1, -1]', '[-1, 32]')}",
                f"w = {X.replace('[-1, -1]', '[-1, 64]')}",
                "y = fd.ops.linear(x, w)",
            ),
            "fd.ops.linear with K = 32 and 64",
            "one size of K",
        ),
        ((f"x = {X}",), NO_MATMUL, "one of them"),
    ],
)
def test_refused(lines: tuple[str, ...], what: str, supported: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        build(*lines)
    assert str(error.value) == f"{what} is not supported; supported: {supported}"


def test_an_operand_without_a_contiguous_dimension() -> None:
    """Every second column, say: the tensors of a call say what is copied."""
    f = build(f"x = {X.replace('True]', 'False]')}", f"w = {X}", "y = fd.ops.linear(x, w)")
    assert [str(d.extent) for d in f.tensor(f.inputs[0].tensor).in_memory] == ["M", "K"]


def test_an_output_twice_is_stored_twice() -> None:
    text = (
        f"def f(fd: FusionDefinition):\n    x = {X}\n    w = {X}\n    y = fd.ops.linear(x, w)\n"
        "    fd.add_output(y)\n    fd.add_output(y)\n"
    )
    f = build_fusion(record_text(text))
    assert [b.tensor for b in f.outputs] == ["T6", "T7"]
    assert f.exprs[-3:] == (
        CastOp("T5", "T4"),
        LoadStoreOp("T6", "T5", LoadStoreOpType.Set),
        LoadStoreOp("T7", "T5", LoadStoreOpType.Set),
    )


def test_results_in_different_orders() -> None:
    text = (
        f"def f(fd: FusionDefinition):\n    x = {X}\n    w = {X}\n    y = fd.ops.linear(x, w)\n"
        "    z = fd.ops.stride_order(y, stride_order=[0, 1])\n"
        "    fd.add_output(y)\n    fd.add_output(z)\n"
    )
    with pytest.raises(UnsupportedError) as error:
        build_fusion(record_text(text))
    assert str(error.value) == (
        "results by rows and by columns is not supported; supported: one order for all results"
    )
