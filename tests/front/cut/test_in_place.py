"""Results that a definition writes into inputs: by a kernel, or by a copy at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from tests.front.cut.features import torch
from wsched.doors.fallback import interpret, rebuild
from wsched.front.cut.program import make
from wsched.front.cut.route import chosen_cut, cutter_of
from wsched.front.known import recorded
from wsched.importer import Definition, record_text
from wsched.importer.definition import definition_text
from wsched.program.program import CopyStep, Program

B16, F32 = "DataType.BFloat16", "DataType.Float"


def matrix(dtype: str = B16, rank: int = 2, order: str = "") -> str:
    dense = f"shape={[-1] * rank}, contiguity={[True] * rank}, dtype={dtype}"
    return f"fd.define_tensor({dense}{order and f', stride_order={order}'})"


def text(*lines: str) -> str:
    body = (f"    {line}" for line in lines)
    return "\n".join(["def nvfuser_fusion(fd : FusionDefinition) -> None :", *body, ""])


def inputs_like(definition: Definition, *shapes: tuple[int, ...]) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    found = []
    for node, shape in zip(definition.inputs, shapes, strict=True):
        dtype = torch.float32 if "Float" in repr(node.get("dtype"))[-6:] else torch.bfloat16
        values = torch.randint(-2, 3, shape, generator=generator).to(dtype)
        turned = node.get("stride_order") == (0, 1)
        found.append(values.t().contiguous().t() if turned else values)
    return found


def program_of(definition: Definition, inputs: Sequence[Any]) -> Program:
    chosen = chosen_cut(cutter_of(definition), inputs)
    cutter, segments = chosen.cutter, chosen.cut.segments

    def rest(segment: Any, _: Any) -> Any:
        return lambda values: interpret(segment.definition, values)

    made = make(cutter.definition, cutter.graph.types, segments, inputs, rest)
    return made.run.program  # type: ignore[attr-defined,no-any-return]


def copies(program: Program) -> int:
    return sum(isinstance(step, CopyStep) for step in program.steps)


BACKWARD = text(
    *(f"{n} = {matrix()}" for n in ("dy", "x", "w")),
    f"g = {matrix(F32)}",
    f"gb = {matrix(F32, 1)}",
    "dyt = fd.ops.permute(dy, dims=[1, 0])",
    "dw = fd.ops.matmul(dyt, x)",
    "s = fd.ops.add(g, fd.ops.cast(dw, dtype=DataType.Float))",
    "db = fd.ops.sum(fd.ops.cast(dy, dtype=DataType.Float), dims=[0])",
    "sb = fd.ops.add(gb, db)",
    "dx = fd.ops.matmul(dy, w)",
    "fd.add_output(s, g)",
    "fd.add_output(sb, gb)",
    "fd.add_output(dx)",
)
"""A linear layer's, whose gradients are added to what is there."""

MLP = text(
    *(f"{n} = {matrix()}" for n in ("dy", "h", "x", "w2")),
    *(f"{n} = {matrix(F32)}" for n in ("g1", "g2")),
    "a = fd.ops.relu(h)",
    "dyt = fd.ops.permute(dy, dims=[1, 0])",
    "dw2 = fd.ops.matmul(dyt, a)",
    "s2 = fd.ops.add(g2, fd.ops.cast(dw2, dtype=DataType.Float))",
    "da = fd.ops.cast(fd.ops.matmul(dy, w2), dtype=DataType.Float)",
    "zero = fd.define_scalar(0.0, dtype=DataType.Double)",
    "dh = fd.ops.cast(fd.ops.where(fd.ops.gt(h, zero), da, zero), dtype=DataType.BFloat16)",
    "dht = fd.ops.permute(dh, dims=[1, 0])",
    "dw1 = fd.ops.matmul(dht, x)",
    "s1 = fd.ops.add(g1, fd.ops.cast(dw1, dtype=DataType.Float))",
    "dx = fd.ops.set(dh)",
    "fd.add_output(s1, g1)",
    "fd.add_output(s2, g2)",
    "fd.add_output(dx)",
)
"""The backward pass of two layers with relu between."""

RESIDUAL = text(
    *(f"{n} = {matrix()}" for n in ("x", "w", "c")),
    "h = fd.ops.linear(x, w)",
    "d = fd.ops.cast(fd.ops.add(h, c), dtype=DataType.BFloat16)",
    "fd.add_output(d)",
    "fd.add_output(d, c)",
)

UNREAD = text(
    *(f"{n} = {matrix()}" for n in ("x", "w", "c")),
    "fd.add_output(fd.ops.linear(x, w), c)",
)
"""Over what nobody reads: it has the result's sizes because it is written."""

READ_AFTER = text(
    *(f"{n} = {matrix()}" for n in ("x", "w", "c")),
    "h = fd.ops.linear(x, w)",
    "d = fd.ops.cast(fd.ops.add(h, c), dtype=DataType.BFloat16)",
    "y = fd.ops.linear(d, c)",
    "fd.add_output(d, c)",
    "fd.add_output(y)",
)
"""Another matmul reads what the input held before."""

OPERAND = text(
    *(f"{n} = {matrix()}" for n in ("x", "w")),
    "fd.add_output(fd.ops.linear(x, w), x)",
)
"""Other tiles still read the operand."""

SWEPT = text(
    *(f"{n} = {matrix()}" for n in ("x", "w", "c")),
    "y = fd.ops.linear(fd.ops.cast(fd.ops.silu(x), dtype=DataType.BFloat16), w)",
    "d = fd.ops.cast(fd.ops.mul(c, fd.ops.neg(c)), dtype=DataType.BFloat16)",
    "fd.add_output(d, c)",
    "fd.add_output(y)",
)
"""Pointwise operations beside a matmul."""

COLUMNS = text(
    *(f"{n} = {matrix()}" for n in ("x", "w")),
    f"c = {matrix(order='[0, 1]')}",
    "h = fd.ops.linear(x, w)",
    "d = fd.ops.cast(fd.ops.add(h, c), dtype=DataType.BFloat16)",
    "fd.add_output(d, c)",
)

M, N, K = 40, 48, 64

CASES = {
    "backward": (BACKWARD, ((M, N), (M, K), (N, K), (N, K), (N,)), 1),
    "mlp": (MLP, ((M, N), (M, K), (M, 80), (N, K), (K, 80), (N, K)), 0),
    "residual": (RESIDUAL, ((M, K), (N, K), (M, N)), 0),
    "unread": (UNREAD, ((M, K), (N, K), (M, N)), 0),
    "read_after": (READ_AFTER, ((N, K), (N, K), (N, N)), 1),
    "operand": (OPERAND, ((M, K), (K, K)), 1),
    "swept": (SWEPT, ((M, K), (N, K), (M, N)), 0),
    "columns": (COLUMNS, ((M, K), (N, K), (M, N)), 0),
}  # fmt: skip
"""A definition, sizes, and copies behind its kernels."""


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_inputs_hold_the_results(name: str) -> None:
    given, shapes, copied = CASES[name]
    definition = record_text(given)
    inputs = inputs_like(definition, *shapes)
    wanted = [t.clone() for t in inputs]
    results = interpret(definition, wanted)
    assert copies(program_of(definition, inputs)) == copied
    again = [t.clone() for t in inputs]
    for values in (inputs, again):  # the second call is of a class that is known
        found = wsched.execute(given, values)
        assert len(found) == len(results) == len(definition.returned)
        for ours, theirs in zip((*found, *values), (*results, *wanted), strict=True):
            torch.testing.assert_close(ours.float(), theirs.float(), rtol=2**-6, atol=2**-6)
    assert not all(map(torch.equal, inputs, inputs_like(definition, *shapes)))


def test_explain_says_so() -> None:
    definition = record_text(BACKWARD)
    found = wsched.explain(BACKWARD, inputs_like(definition, *CASES["backward"][1]))
    into = {pair for part in found.parts for pair in part.into}
    assert into == {("s", "g"), ("sb", "gb")} and "-> s (into g): " in str(found)


def test_what_is_given_to_the_caller_lies_there() -> None:
    definition = record_text(RESIDUAL)
    inputs = inputs_like(definition, (M, K), (N, K), (M, N))
    (found,) = wsched.execute(RESIDUAL, inputs)
    assert found.data_ptr() == inputs[2].data_ptr()


def test_an_input_with_gaps_is_copied_into() -> None:
    definition = record_text(UNREAD)
    x, w, wide = inputs_like(definition, (M, K), (N, K), (M, 2 * N))
    rest = wide[:, N:].clone()
    inputs = [x, w, wide[:, :N]]
    assert copies(program_of(definition, inputs)) == 1
    assert wsched.execute(UNREAD, inputs) == []
    assert torch.equal(wide[:, :N], (x.float() @ w.float().T).bfloat16())
    assert torch.equal(wide[:, N:], rest)


def test_an_input_that_is_written_is_no_constant() -> None:
    given = text(
        *(f"{n} = {matrix()}" for n in ("x", "w", "c")),
        "d = fd.ops.cast(fd.ops.exp(c), dtype=DataType.BFloat16)",
        "y = fd.ops.linear(x, d)",
        "fd.add_output(y)",
        "fd.add_output(fd.ops.linear(x, w), c)",
    )
    definition = record_text(given)
    x, w, c = inputs_like(definition, (48, 48), (48, 48), (48, 48))
    for _ in range(2):
        wanted = interpret(definition, [x, w, c.clone()])
        found = wsched.execute(given, [x, w, c], constants=[2])
        torch.testing.assert_close(found, wanted, rtol=2**-6, atol=2**-6)


@pytest.mark.parametrize("name", CASES)
def test_texts_and_nvfuser_have_it(name: str) -> None:
    definition = record_text(CASES[name][0])
    again = record_text(definition_text(definition))
    assert (again.outputs, again.returned) == (definition.outputs, definition.returned)
    assert again.into == definition.into
    pytest.importorskip("nvfuser_direct", reason="nvFuser is not installed")
    live = recorded(rebuild(definition))
    assert [w.returned for w in live.written] == [w.returned for w in definition.written]
    assert len(live.returned) == len(definition.returned)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("fd.add_output(h, c)",), "line 6: h of BFloat16, written into c of Float"),
        (("fd.add_output(h, h)",), "line 6: the output h, which is written into h,"),
        (
            ("fd.add_output(h, x)", "fd.add_output(fd.ops.linear(x, x), x)"),
            "line 7: the output linear, which is written into x,",
        ),
    ],
)
def test_what_is_refused(lines: tuple[str, ...], message: str) -> None:
    declared = (f"{n} = {matrix(kind)}" for n, kind in (("x", B16), ("w", B16), ("c", F32)))
    given = text(*declared, "h = fd.ops.linear(x, w)", *lines)
    inputs = inputs_like(record_text(given), (48, 48), (48, 48), (48, 48))
    with pytest.raises(UnsupportedError, match=message):
        wsched.execute(given, inputs)


def test_one_kernel_and_gradients_do_not_write_into_inputs() -> None:
    inputs = inputs_like(record_text(UNREAD), (M, K), (N, K), (M, N))
    for what in (wsched.compile, wsched.Schedule):
        with pytest.raises(UnsupportedError, match="written into c, by a kernel"):
            what(UNREAD, inputs)
    with pytest.raises(UnsupportedError, match="written into c, by what torch differentiates"):
        wsched.execute(UNREAD, [inputs[0].requires_grad_(), *inputs[1:]], gradients=True)


def test_an_output_in_two_inputs_is_refused() -> None:
    """nvFuser writes the second one alone."""
    given = text(
        *(f"{n} = {matrix(kind)}" for n, kind in (("x", B16), ("w", B16), ("c", B16), ("e", B16))),
        "h = fd.ops.linear(x, w)", "fd.add_output(h, c)", "fd.add_output(h, e)",
    )  # fmt: skip
    with pytest.raises(UnsupportedError, match=r"line 8: `fd.add_output\(h, e\)` .* one input"):
        record_text(given)


def test_what_is_expanded_is_written_by_who_runs_all_of_it() -> None:
    """It is not in memory whole, so that no copy of a program's reads it."""
    kinds = {"a": "DataType.Half", "i": "DataType.Int", "w": "DataType.Half", "c": F32}
    given = text(
        *(f"{n} = {matrix(kind)}" for n, kind in kinds.items()),
        "v = fd.define_tensor(shape=[-1], contiguity=[True], dtype=DataType.Half)",
        "t = fd.ops.take_along_axis(a, i, dim=1)",
        "f = fd.ops.cast(v, dtype=DataType.Float)",
        "b = fd.ops.broadcast(f, is_broadcast_dim=[False, True])",
        "fd.add_output(fd.ops.expand(b, shape=[8, 3]), c)",
        "fd.add_output(fd.ops.linear(t, w))",
    )
    x, places, held = torch.ones(16, 20).half(), torch.zeros(16, 8).long(), torch.zeros(8, 3)
    rows = torch.arange(8).half()
    *_, product = wsched.execute(given, [x, places, torch.ones(16, 8).half(), held, rows])
    assert torch.equal(held, rows.float()[:, None].expand(8, 3)) and torch.all(product == 8)
