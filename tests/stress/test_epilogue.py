"""Random epilogues: what is drawn, and that right results are within the tolerance."""

from __future__ import annotations

import random

import pytest

from wsched.importer import build_fusion, record_text
from wsched.stress.epilogue import Epilogue, Given, Operation, tolerance
from wsched.stress.linear import Linear, drawn_linear

torch = pytest.importorskip("torch", reason="torch is not installed")


def test_what_is_drawn() -> None:
    forms = [drawn_linear(random.Random(seed)) for seed in range(400)]
    found = [f.epilogue for f in forms]
    assert {o.op for e in found for o in e.operations} == {
        "relu", "neg", "abs", "tanh", "sigmoid", "silu", "add", "sub", "minimum", "maximum", "lt",
        "ge", "where", "mul",
    }  # fmt: skip
    assert {g.kind for e in found for g in e.given} == {"matrix", "row", "column", "number"}
    assert {len(e.results) for e in found} == {1, 2}
    assert {dtype for e in found for _, dtype in e.results} == {"BFloat16", "Half", "Float"}
    for part in ("batched", "a_by_rows", "b_by_rows", "aligned"):
        assert {getattr(f, part) for f in forms} == {True, False}
    assert drawn_linear(random.Random(7)) == forms[7]


@pytest.mark.parametrize("seed", range(40))
def test_every_input_is_read_and_nothing_is_made_for_nobody(seed: int) -> None:
    made = drawn_linear(random.Random(seed)).epilogue
    read = {a for o in made.operations for a in o.args} | {name for name, _ in made.results}
    assert read >= {f"f{g.name}" for g in made.given}
    assert read >= {o.name for o in made.operations}


@pytest.mark.parametrize("seed", range(25))
def test_each_is_a_definition(seed: int) -> None:
    form = drawn_linear(random.Random(seed))
    fusion = build_fusion(record_text(form.text))
    assert len(fusion.inputs) == 2 + len(form.epilogue.given)
    assert len(fusion.outputs) == len(form.epilogue.results)


def test_the_values() -> None:
    given = Given("i0", "row", "Float")
    operations = (
        Operation("v0", "mul", ("f", 0.5)), Operation("c", "lt", ("f", "fi0")),
        Operation("v1", "where", ("c", "v0", "fi0")),
    )  # fmt: skip
    made = Epilogue((given,), operations, (("v1", "Half"), ("fi0", "Float")))
    y, row = torch.tensor([[1.0, 2.0], [3.0, -4.0]]), torch.tensor([2.0, 2.0])
    one, two = made.values(y, {"i0": row})
    assert one.tolist() == [[0.5, 2.0], [2.0, -2.0]]
    assert two.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert given.shape((5, 4, 3)) == (3,)


@pytest.mark.parametrize("dtype", ["BFloat16", "Half", "Float"])
def test_the_tolerance_lets_a_rounding_pass_and_no_wrong_integer(dtype: str) -> None:
    kind = {"BFloat16": torch.bfloat16, "Half": torch.float16, "Float": torch.float32}[dtype]
    value = torch.linspace(-300, 300, 4001)
    assert ((value.to(kind).float() - value).abs() <= tolerance(value, dtype)).all()
    small = torch.arange(-30.0, 31.0)
    assert not (torch.full_like(small, 0.5) <= tolerance(small, dtype)).any()


def test_sizes() -> None:
    plain = Epilogue((), (), (("f", "Half"),))
    for aligned in (True, False):
        form = Linear("Half", True, True, True, aligned, plain)
        sizes = [form.sizes(random.Random(s), 96) for s in range(300)]
        all_sizes = {n for z in sizes for n in (z.m, z.n, z.k)}
        assert min(all_sizes) == (8 if aligned else 1)
        assert max(all_sizes) == 96
        assert all(n % 8 == 0 for n in all_sizes) is aligned
        assert all(z.padding % 8 == 0 for z in sizes) is aligned
        assert {z.batch for z in sizes} == {1, 2, 3, 4, 5}
