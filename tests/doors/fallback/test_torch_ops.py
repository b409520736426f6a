"""The table of operations against the real nvFuser: which there are, and which types they give."""

from __future__ import annotations

from typing import Any

import pytest

from wsched.doors.fallback import interpret, rebuild, unknown_ops
from wsched.doors.fallback.torch_ops import PROMOTED, operations
from wsched.importer import definition_of, record_text

torch = pytest.importorskip("torch", reason="torch is not installed")

HALVES = ["BFloat16", "Half"]
_UNARY = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc erfinv exp exp2 expm1 floor frac "
    "isfinite isinf isnan isneginf isposinf isreal lgamma log log10 log1p log2 neg reciprocal relu "
    "round rsqrt set sigmoid sign signbit silu sin sinh sqrt tan tanh trunc"
)
_BINARY = "add atan2 div eq fmod ge gt le lt maximum minimum mod mul ne pow remainder sub truediv"
WITHOUT = {
    # Random numbers, attention, quantization, grouped matmuls: torch computes others, or not these.
    "cutlass_nvfp4_grouped_mm", "erfcinv",
    "normal", "nv_block_quantize", "nv_grouped_block_quantize",
    "preprocess_grouped_matmul_input_sf", "rand_like", "randn_like", "scaled_mm",
    "sdpfa_bwd", "sdpfa_fwd", "uniform", "cummax", "cummin",
}  # fmt: skip


def text(body: str, *dtypes: str, rank: int = 2) -> str:
    """A definition with inputs a, b, ... and the output r."""
    shape, contiguity = [-1] * rank, [True] * rank
    lines = ["def nvfuser_fusion(fd : FusionDefinition) -> None :"]
    lines += [
        f"    {name} = fd.define_tensor(shape={shape}, contiguity={contiguity}, "
        f"dtype=DataType.{dtype})"
        for name, dtype in zip("abc", dtypes, strict=False)
    ]
    lines += [f"    {line.strip()}" for line in body.strip().splitlines()]
    return "\n".join([*lines, "    fd.add_output(r)", ""])


def run(body: str, *inputs: Any, rank: int = 2) -> Any:
    """The result of a definition with these inputs."""
    names = {torch.bfloat16: "BFloat16", torch.float16: "Half", torch.float32: "Float",
             torch.int64: "Int", torch.bool: "Bool"}  # fmt: skip
    source = text(body, *(names[t.dtype] for t in inputs), rank=rank)
    (result,) = interpret(record_text(source), list(inputs))
    return result


def test_every_operation_of_nvfuser_is_here_or_named() -> None:
    nvfuser = pytest.importorskip("nvfuser_direct")
    with nvfuser.FusionDefinition() as fd:
        theirs = {name for name in dir(fd.ops) if not name.startswith("_")}
    assert theirs - set(operations()) == WITHOUT
    assert set(operations()) - theirs == {"index_put_accumulate"}  # of its IR, not of its Python
    assert set(operations()) >= PROMOTED


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "call", [f"{op}(a)" for op in _UNARY.split()] + [f"{op}(a, b)" for op in _BINARY.split()]
    + ["add(a, 0.5)", "mul(2.0, a)", "clamp(a, -1.0, 1.0)", "lerp(a, b, 0.5)",
       "threshold(a, 0.1, 2.0)", "addcmul(a, b, b, 0.5)", "matmul(a, b)", "linear(a, b)",
       "sum(a, dims=[0])", "sum(a, dim=1)", "prod(a)", "max(a, dims=[1])", "cumsum(a, dim=1)",
       "triu(a)"]
)  # fmt: skip
def test_types_are_nvfusers(call: str, dtype: str) -> None:
    """Written by hand, without a cast: the result has the type that nvFuser's IR gives it."""
    pytest.importorskip("nvfuser_direct")
    recorded = record_text(text(f"r = fd.ops.{call}", dtype, dtype))
    fd = rebuild(recorded)
    (theirs,) = (str(v.dtype()).split(".")[-1].split(":")[0] for v in fd.fusion.outputs())
    kind = torch.bfloat16 if dtype == "BFloat16" else torch.float16
    (ours,) = interpret(recorded, [torch.rand(4, 4).to(kind), torch.rand(4, 4).to(kind)])
    names = {"Float": torch.float32, "Bool": torch.bool, dtype: kind}
    assert ours.dtype is names[theirs]


@pytest.mark.parametrize(
    "body",
    [
        "r = fd.ops.var(a, dims=[0], correction=1)",
        "r, m = fd.ops.var_mean(a, dims=[1], correction=0, keepdim=True)",
        "r = fd.ops.slice(a, start_indices=[1, 0], end_indices=[3, 2])",
        "r = fd.ops.cat([a, b], dim=0)",
        "r = fd.ops.pad(a, pad_widths=[1, 2])",
        "r = fd.ops.full(shape=[2, 3], fill_value=1.5, dtype=DataType.Float)\nr = fd.ops.neg(r)",
        "r = fd.ops.broadcast_in_dim(a, shape=[5, 4, 4], broadcast_dims=[1, 2])",
        "r = fd.ops.triu(a, diagonal=1)",
        "r = fd.ops.sign(a)",
        "r = fd.ops.stride_order(a, stride_order=[0, 1])",
    ],
)
def test_what_nvfuser_prints_for_it_gives_the_same(body: str) -> None:
    """NvFuser prints these as other operations, some of them on sizes; both forms are run."""
    pytest.importorskip("nvfuser_direct")
    first = record_text(text(body, "Float", "Float"))
    printed = definition_of(rebuild(first))
    inputs = [torch.randn(4, 4), torch.randn(4, 4)]
    inputs = inputs[: sum(n.op == "define_tensor" for n in first.nodes)]
    assert not unknown_ops(printed)
    (ours,), (theirs,) = interpret(first, inputs), interpret(printed, inputs)
    assert ours.stride() == theirs.stride() or "stride_order" not in body
    torch.testing.assert_close(ours, theirs)


def test_integers_are_divided_as_c_does() -> None:
    a, b = torch.tensor([[-7, 7]]), torch.tensor([[2, -2]])
    assert run("r = fd.ops.div(a, b)", a, b).tolist() == [[-3, -3]]
    assert run("r = fd.ops.mod(a, b)", a, b).tolist() == [[-1, 1]]
    assert run("r = fd.ops.truediv(a, b)", a, b).tolist() == [[-3.5, -3.5]]


def test_scalars_are_computed_as_scalars() -> None:
    """As nvFuser prints a mean: the extent as a number, divided by."""
    a = torch.arange(12.0).reshape(3, 4)
    mean = run(
        """s = fd.ops.sum(a, dims=[0], dtype=DataType.Float)
        n = fd.ops.size(a, dim=0)
        d = fd.ops.cast(n, dtype=DataType.Double)
        e = fd.ops.mul(1.0, d)
        i = fd.ops.reciprocal(e)
        r = fd.ops.mul(s, i)""",
        a,
    )
    assert torch.equal(mean, a.mean(0))


def test_welford_gives_mean_deviations_and_count() -> None:
    a = torch.randn(5, 3)
    source = text("m, s, n = fd.ops.welford(a, dims=[0])", "Float").rsplit("    fd.add", 1)[0]
    outputs = "".join(f"    fd.add_output({x})\n" for x in "msn")
    mean, squares, count = interpret(record_text(source + outputs), [a])
    torch.testing.assert_close(mean, a.mean(0))
    torch.testing.assert_close(squares, (a - a.mean(0)).square().sum(0))
    assert count.tolist() == [5, 5, 5]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("r = fd.ops.prod(a, dims=[0, 1])", 24.0),
        ("r = fd.ops.sum(a)", 10.0),
        ("r = fd.ops.min(a, dims=[1])", [1.0, 3.0]),
        ("r = fd.ops.permute(a, dims=[1, 0])", [[1.0, 3.0], [2.0, 4.0]]),
        ("r = fd.ops.reshape(a, new_shape=[4])", [1.0, 2.0, 3.0, 4.0]),
        ("i = fd.ops.iota(2, 0, 1)\nr = fd.ops.index_select(a, i, dim=1)",
         [[1.0, 2.0], [3.0, 4.0]]),
        ("r = fd.ops.select(a, 1, dim=0)", [3.0, 4.0]),
        ("s = fd.ops.broadcast(a, is_broadcast_dim=[True, False, False])\n"
         "r = fd.ops.squeeze(s, dims=[0])", [[1.0, 2.0], [3.0, 4.0]]),
        ("n = fd.ops.shape(a)\nr = fd.ops.full(shape=n, fill_value=2.0, dtype=DataType.Float)",
         [[2.0, 2.0], [2.0, 2.0]]),
        ("r = fd.ops.argsort(a, dim=1, descending=True)", [[1, 0], [1, 0]]),
        ("r = fd.ops.cumprod(a, dim=1)", [[1.0, 2.0], [3.0, 12.0]]),
        ("v, r = fd.ops.topk(a, 1)", [[1], [1]]),
        ("i = fd.ops.argsort(a, dim=1)\nr = fd.ops.gather(a, i, dim=1)", [[1.0, 2.0], [3.0, 4.0]]),
        ("i = fd.ops.argsort(a, dim=1)\nr = fd.ops.take_along_axis(a, i, dim=1)",
         [[1.0, 2.0], [3.0, 4.0]]),
    ],
)  # fmt: skip
def test_values(body: str, wanted: Any) -> None:
    (result,) = interpret(
        record_text(text(body, "Float")), [torch.tensor([[1.0, 2.0], [3.0, 4.0]])]
    )
    assert result.tolist() == wanted


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("rows", [3, 0])
def test_indices_that_are_none(dim: int, rows: int) -> None:
    """Zeros, as kernels have for them; torch's own ends the process's context on a GPU."""
    x = torch.arange(1.0, 1 + rows * rows).view(rows, rows)
    index = "i = fd.define_tensor(shape=[-1], dtype=DataType.Int32)"
    body = f"{index}\nr = fd.ops.index_select(a, i, dim={dim})"
    places = torch.tensor([2, -1, 3, 0, 2**31 - 1], dtype=torch.int32)
    (result,) = interpret(record_text(text(body, "Float")), [x, places])
    wanted = torch.zeros((5, rows))
    if rows:
        wanted[0], wanted[3] = (x if dim == 0 else x.T)[[2, 0]]
    assert torch.equal(result if dim == 0 else result.T, wanted)


def test_groups_have_a_shape_whatever_torch_multiplies() -> None:
    """Shapes are told of fp16, and of rows that are not a multiple of 16 bytes."""

    def shape(*sizes: tuple[int, ...]) -> tuple[int, ...]:
        a, b = (torch.empty(s, dtype=torch.float16, device="meta") for s in sizes)
        ends = torch.empty(4, dtype=torch.int32, device="meta")
        return tuple(operations()["grouped_mm"](a, b, ends).shape)

    assert shape((9, 3), (4, 3, 5)) == (9, 5)
    assert shape((4, 9, 3), (3, 5)) == (9, 5)
    assert shape((9, 3), (3, 5)) == (4, 9, 5)
    with pytest.raises(RuntimeError):
        shape((9, 3), (4, 2, 5))
    with pytest.raises(ValueError, match="of 3 groups, offsets of 4"):
        shape((9, 3), (3, 3, 5))


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32, torch.float8_e4m3fn])
def test_what_is_selected_keeps_its_type(dtype: Any) -> None:
    table, index = torch.ones(2, 3).to(dtype), torch.tensor([1, 0, 7, -1])
    found = operations()["index_select"](table, index, 0)
    assert found.dtype is dtype and found.float().sum(1).tolist() == [3.0, 3.0, 0.0, 0.0]


@pytest.mark.parametrize("source", [torch.float16, torch.float32, torch.float8_e5m2])
def test_the_largest_number_of_8_bits(source: Any) -> None:
    large = torch.tensor([57344.0, -512.0, 2.0, torch.inf]).to(source)
    found = operations()["cast"](large, torch.float8_e4m3fn)
    assert found.float().tolist() == [448.0, -448.0, 2.0, 448.0]


def test_sums_products_and_copies() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    known = operations()
    assert known["sum"](x, dims=[0]).tolist() == [4.0, 6.0]
    assert known["prod"](x, dims=[1]).tolist() == [2.0, 12.0]
    copy = known["set"](x)
    assert torch.equal(copy, x) and copy.data_ptr() != x.data_ptr()


_WHOLE = (
    "bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor gcd maximum minimum "
    "mod fmod remainder pow"
)


@pytest.mark.parametrize(
    ("op", "a", "number"),
    [
        *(
            (op, torch.tensor([[0.5, -1.25], [2.0, 7.0]]), 2.0)
            for op in (*_BINARY.split(), "nextafter")
        ),
        *((op, torch.tensor([[3, 1], [2, 12]]), 2) for op in _WHOLE.split()),
        *((op, torch.tensor([[True, False]]), True) for op in ("logical_and", "logical_or")),
        ("maximum", torch.tensor([[3, 1], [2, 12]]), 2.5),
        ("le", torch.tensor([[3, 1], [2, 12]]), 2.5),
    ],
)
@pytest.mark.parametrize("order", ["{a}, {number}", "{number}, {a}"])
def test_numbers_are_operands_as_nvfuser_takes_them(
    op: str, a: Any, number: Any, order: str
) -> None:
    """On either side; the result is that of a tensor of this number."""
    found = run(f"r = fd.ops.{op}({order.format(a='a', number=number)})", a)
    whole = torch.full_like(a, number, dtype=torch.result_type(a, number))
    wanted = run(f"r = fd.ops.{op}({order.format(a='a', number='b')})", a, whole)
    assert found.dtype is wanted.dtype and torch.equal(found, wanted)
