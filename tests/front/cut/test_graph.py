"""What cutting has to know of operations: what is cheap, moved, known and refused."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.front.cut.epilogues import Take
from wsched.front.cut.segments import Cutter
from wsched.fusion import DataType
from wsched.importer import record_text

MATRIX = "fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.{})"
X, F32 = MATRIX.format("BFloat16"), MATRIX.format("Float")
INPUTS = (
    f"x = {X}", f"w = {X}", f"v = {X}", f"r = {F32}",
    f"columns = {F32.replace('dtype', 'stride_order=[0, 1], dtype')}",
    "vector = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.BFloat16)",
    "batch = fd.define_tensor(shape=[-1, -1, -1], contiguity=True, dtype=DataType.BFloat16)",
)  # fmt: skip


def cutter(*lines: str) -> Cutter:
    """The ways to cut a definition with these lines behind its inputs."""
    text = ("def nvfuser_fusion(fd : FusionDefinition) -> None :", *INPUTS, *lines)
    return Cutter(record_text("\n    ".join(text) + "\n"))


def segments(*lines: str, take: Take = Take.ALL) -> list[str]:
    """Operations of each segment."""
    found = cutter(*lines).all(take).segments
    return [
        " ".join(n.op for n in s.definition.nodes if not n.op.startswith("define_")) for s in found
    ]


CHEAP = {
    "cast": "c = fd.ops.cast(r, dtype=DataType.BFloat16)",
    "permute": "c = fd.ops.permute(r, dims=[1, 0])",
    "stride_order": "c = fd.ops.stride_order(r, stride_order=[0, 1])",
}


@pytest.mark.parametrize("take", [Take.ALL, Take.NONE], ids=lambda take: take.name)
@pytest.mark.parametrize("op", CHEAP)
def test_what_is_cheap_of_inputs_is_done_by_whoever_needs_it(op: str, take: Take) -> None:
    """It never lies in memory, though two segments read it."""
    found = segments(
        CHEAP[op], "a = fd.ops.linear(x, v)", "b = fd.ops.linear(x, w)", "d = fd.ops.add(a, c)",
        "e = fd.ops.add(b, c)", "fd.add_output(d)", "fd.add_output(e)", take=take,
    )  # fmt: skip
    readers = [ops for ops in found if "add" in ops]
    assert len(readers) == 2 and all(op in ops.split() for ops in readers)
    assert all("linear" in ops or "add" in ops for ops in found)


@pytest.mark.parametrize(
    ("line", "ops"),
    [
        ("p = fd.ops.neg(r)", "neg lgamma"),
        ("p = fd.ops.neg(columns)", "neg lgamma stride_order"),
        ("p = fd.ops.permute(r, dims=[1, 0])", "permute lgamma stride_order"),
        ("p = fd.ops.reshape(r, new_shape=[8, 16])", "reshape lgamma stride_order"),
    ],
)
def test_a_rest_says_the_order_of_what_torch_may_order_otherwise(line: str, ops: str) -> None:
    """torch takes it from what it reads: of an input by columns, or of what has been moved."""
    found = segments(
        "y = fd.ops.linear(x, w)", line, "d = fd.ops.lgamma(p)", "fd.add_output(d)",
        "fd.add_output(y)",
    )  # fmt: skip
    assert found == [ops, "linear"]


def test_a_rest_says_the_order_behind_a_result_of_another_order() -> None:
    """What the kernel makes lies by columns, and what follows would for torch."""
    found = segments(
        "y = fd.ops.linear(x, w)", "p = fd.ops.stride_order(y, stride_order=[0, 1])",
        "d = fd.ops.lgamma(p)", "fd.add_output(p)", "fd.add_output(d)",
    )  # fmt: skip
    assert found == ["linear stride_order", "lgamma stride_order"]


@pytest.mark.parametrize(
    ("call", "ranks"),
    [
        ("linear(x, batch)", "2, 3"), ("linear(x, w, x)", "2, 2, 2"),
        ("linear(x, vector, vector)", "2, 1, 1"), ("linear(batch, batch, bias=w)", "3, 3, 2"),
    ],
)  # fmt: skip
def test_linears_that_nvfuser_has_not(call: str, ranks: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        cutter("y = fd.ops.linear(x, w)", f"u = fd.ops.{call}", "d = fd.ops.neg(u)",
               "fd.add_output(y)", "fd.add_output(d)")  # fmt: skip
    assert error.value.what == f"line 10: fd.ops.linear of operands of {ranks} dimensions"


@pytest.mark.parametrize(
    "call",
    ["linear(x, vector)", "linear(vector, w)", "linear(vector, vector)", "linear(batch, w, vector)",
     "matmul(batch, batch)", "matmul(vector, batch)"],
)  # fmt: skip
def test_products_of_any_other_dimensions_are_cut(call: str) -> None:
    found = segments("y = fd.ops.linear(x, w)", f"u = fd.ops.{call}", "fd.add_output(y)",
                     "fd.add_output(u)", take=Take.NONE)  # fmt: skip
    apart = ["squeeze"] * (
        call in ("matmul(vector, batch)", "linear(vector, vector)")
    )  # of the row that it makes
    assert sorted(found) in (["linear", "linear", *apart], ["linear", "matmul", *apart])


def test_an_operation_that_is_not_known() -> None:
    """Whose result is an operand, so that nothing else of it is asked for."""
    with pytest.raises(UnsupportedError) as error:
        segments("y = fd.ops.linear(x, w)", "g = fd.ops.real(x)", "u = fd.ops.linear(g, w)",
                 "fd.add_output(y)", "fd.add_output(u)")  # fmt: skip
    assert str(error.value) == (
        "fd.ops.real beside a matmul is not supported; supported: operations that are known"
    )


@pytest.mark.parametrize("op", ["isneginf", "isposinf", "isreal", "signbit"])
def test_tests_that_no_epilogue_has_are_the_rest(op: str) -> None:
    """What they say of each element is Bool, and lies as that does."""
    lines = ("y = fd.ops.linear(x, w)", f"u = fd.ops.{op}(y)", "fd.add_output(u)")
    assert segments(*lines) == ["linear", op]
    graph = cutter(*lines).graph
    assert graph.types["u"].dtype is DataType.Bool
    assert graph.types["u"].dims == graph.types["y"].dims and graph.orders.of("u") == (0, 1)


def test_a_common_divisor_beside_a_matmul() -> None:
    whole = "fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.{})"
    i, j = whole.format("Int"), whole.format("Int32")
    lines = (f"i = {i}", f"j = {j}", "y = fd.ops.linear(x, w)",
             "g = fd.ops.gcd(i, j)", "u = fd.ops.mul(y, g)", "fd.add_output(u)")  # fmt: skip
    assert segments(*lines) == ["linear", "gcd mul"]
    assert cutter(*lines).graph.types["g"].dtype is DataType.Int


ATTENTION = "{0}, l{0}, s{0}, o{0} = fd.ops.sdpfa_fwd(heads, heads, heads, None, None, None)"


@pytest.mark.parametrize(
    ("lines", "drawn"),
    [
        (("d = fd.ops.rand_like(r)",), "rand_like"),
        (("d = fd.ops.normal(0.0, 1.0, shape=[8, 8], dtype=DataType.Float)",), "normal"),
        (("d = fd.ops.uniform(0.0, 1.0, shape=[8, 8], rng_seed=3, rng_offset=1, "
          "dtype=DataType.Float)",), ""),
        ((ATTENTION.format("d"),), ""),
        ((ATTENTION.format("d"), ATTENTION.format("e"), "fd.add_output(e)"), "sdpfa_fwd"),
    ],
)  # fmt: skip
def test_draws_of_one_generator(lines: tuple[str, ...], drawn: str) -> None:
    """Cut, they would be other numbers; attention alone draws the same wherever it runs."""
    heads = "heads = fd.define_tensor(shape=[2, 4, 8, 16], contiguity=True, dtype=DataType.Half)"
    lines = (heads, *lines, "y = fd.ops.linear(x, w)", "fd.add_output(y)", "fd.add_output(d)")
    if not drawn:
        assert "linear" in segments(*lines)
        return
    with pytest.raises(UnsupportedError) as error:
        cutter(*lines)
    assert error.value.what == f"fd.ops.{drawn} beside a matmul"
