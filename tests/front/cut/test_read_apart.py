"""What is multiplied and read beside the product as well is loaded in both ways by one kernel."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import wsched
from wsched.front.cut.epilogues import Take
from wsched.front.cut.segments import Cutter
from wsched.importer import record_text


def text(x: str, *lines: str) -> str:
    """A definition of x, w and lines that make d from them, in 16 bits."""
    tensors = {"x": x, "w": "shape=[-1, -1], contiguity=[True, True]"}
    inputs = [f"{n} = fd.define_tensor({t}, dtype=DataType.BFloat16)" for n, t in tensors.items()]
    end = ("d = fd.ops.cast(s, dtype=DataType.BFloat16)", "fd.add_output(d)")
    body = ("def nvfuser_fusion(fd : FusionDefinition) -> None :", *inputs, *lines, *end)
    return "\n    ".join(body) + "\n"


def of_rank(rank: int) -> str:
    return f"shape={[-1] * rank}, contiguity={[True] * rank}"


def integers(*shape: int) -> Any:
    return torch.randint(-4, 5, shape).bfloat16()


def runs(definition: str, inputs: list[Any]) -> list[str]:
    told = wsched.explain(definition, inputs)
    return [p.runs for p in told.parts or ()]


RESIDUAL = ("y = fd.ops.linear(x, w)", "s = fd.ops.add(y, x)")


@pytest.mark.parametrize("shape", [(40, 48), (3, 24, 48), (2, 3, 8, 48)])
def test_a_layer_that_is_added_to_its_input(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x, w, definition = integers(*shape), integers(48, 48), text(of_rank(len(shape)), *RESIDUAL)
    (d,) = wsched.execute(definition, [x, w])
    assert torch.equal(d, ((x.float() @ w.float().T) + x.float()).bfloat16())
    assert runs(definition, [x, w]) == ["wsched"]


def test_what_lies_by_columns() -> None:
    torch.manual_seed(0)
    definition = text("shape=[-1, -1], contiguity=[True, True], stride_order=[0, 1]", *RESIDUAL)
    x, w = integers(48, 40).T, integers(48, 48)
    (d,) = wsched.execute(definition, [x, w])
    assert torch.equal(d, ((x.float() @ w.float().T) + x.float()).bfloat16())


@pytest.mark.parametrize("repeated", [0, 1])
def test_what_is_repeated_is_no_operand_as_it_lies(repeated: int) -> None:
    torch.manual_seed(0)
    contiguity = ["None" if at == repeated else "True" for at in range(2)]
    x = integers(*(1 if at == repeated else n for at, n in enumerate((40, 48)))).expand(40, 48)
    definition = text(f"shape=[-1, -1], contiguity=[{', '.join(contiguity)}]", *RESIDUAL)
    w = integers(48, 48)
    (d,) = wsched.execute(definition, [x, w])
    assert torch.equal(d, ((x.float() @ w.float().T) + x.float()).bfloat16())


def test_the_other_operand() -> None:
    torch.manual_seed(0)
    definition = text(of_rank(2), "y = fd.ops.matmul(x, w)", "s = fd.ops.mul(y, w)")
    x, w = integers(48, 48), integers(48, 24)
    (d,) = wsched.execute(definition, [x, w])
    assert torch.equal(d, ((x.float() @ w.float()) * w.float()).bfloat16())
    assert runs(definition, [x, w]) == ["wsched"]


def test_what_leads_from_it_to_both() -> None:
    """A residual around an activation that is in front of the product: its cast is in both."""
    torch.manual_seed(0)
    definition = text(
        of_rank(2), "f = fd.ops.cast(x, dtype=DataType.Float)", "r = fd.ops.relu(f)",
        "a = fd.ops.cast(r, dtype=DataType.BFloat16)", "y = fd.ops.linear(a, w)",
        "s = fd.ops.add(y, f)",
    )  # fmt: skip
    x, w = integers(40, 48), integers(48, 48)
    (d,) = wsched.execute(definition, [x, w])
    assert torch.equal(d, (x.float().relu() @ w.float().T + x.float()).bfloat16())


def test_what_leads_from_it_is_a_part_of_it() -> None:
    """Columns of x that are multiplied and added: found by a drawn program."""
    torch.manual_seed(0)
    definition = text(
        of_rank(2), "h = fd.ops.slice(x, start_indices=[0, 16], end_indices=[40, 64])",
        "f = fd.ops.cast(h, dtype=DataType.Float)", "g = fd.ops.mul(f, 2.0)",
        "a = fd.ops.cast(g, dtype=DataType.BFloat16)", "y = fd.ops.linear(a, w)",
        "s = fd.ops.add(y, a)",
    )  # fmt: skip
    x, w = integers(40, 64), integers(48, 48)
    (d,) = wsched.execute(definition, [x, w])
    a = 2 * x[:, 16:].float()
    assert torch.equal(d, (a @ w.float().T + a).bfloat16())
    assert runs(definition, [x, w]) == ["wsched"]


def test_two_products_and_their_input() -> None:
    """Gate and up of one input, which is added to what they make."""
    torch.manual_seed(0)
    definition = text(
        of_rank(2), "y = fd.ops.linear(x, w)", "t = fd.ops.permute(w, dims=[1, 0])",
        "z = fd.ops.linear(x, t)", "p = fd.ops.mul(y, z)", "s = fd.ops.add(p, x)",
    )  # fmt: skip
    x, w = integers(40, 48), integers(48, 48)
    (d,) = wsched.execute(definition, [x, w])
    y, z = (x.float() @ m for m in (w.float().T, w.float()))
    assert torch.equal(d, (y * z + x.float()).bfloat16())


def test_a_step_of_newton_and_schulz() -> None:
    """``b a + b² a``, as Muon's, is two kernels: a square with what it is of, and a product so."""
    definition = record_text(text(
        of_rank(2), "t = fd.ops.permute(x, dims=[1, 0])", "a = fd.ops.matmul(x, t)",
        "f = fd.ops.mul(a, 3.0)", "b = fd.ops.matmul(a, a)", "c = fd.ops.add(f, b)",
        "e = fd.ops.cast(c, dtype=DataType.BFloat16)", "g = fd.ops.matmul(e, x)",
        "s = fd.ops.add(g, x)", "q = fd.ops.add(s, w)",
    ))  # fmt: skip
    cut = Cutter(definition).all(Take.NARROW)
    assert [s.inputs for s in cut.segments] == [("x", "x"), ("a", "a", "a"), ("x", "x", "e")]


def test_the_input_is_written_over() -> None:
    """Not by the kernel, which multiplies it: by a copy behind it."""
    torch.manual_seed(0)
    definition = text(of_rank(2), *RESIDUAL).replace("add_output(d)", "add_output(d, x)")
    x, w = integers(40, 48), integers(48, 48)
    wanted = ((x.float() @ w.float().T) + x.float()).bfloat16()
    wsched.execute(definition, [x, w])
    assert torch.equal(x, wanted)


def test_nothing_is_read_twice_without_need() -> None:
    lines = ("y = fd.ops.linear(x, w)", "s = fd.ops.neg(y)")
    (segment,) = Cutter(record_text(text(of_rank(2), *lines))).all(Take.ALL).segments
    assert segment.reads == ("x", "w") and not segment.looks


def test_explain() -> None:
    told = wsched.explain(text(of_rank(2), *RESIDUAL), [integers(40, 48), integers(48, 48)])
    assert "x@beside is x once more" in str(told)
