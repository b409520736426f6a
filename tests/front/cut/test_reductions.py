"""Reductions in cuts: in the kernel where they are, what reads them behind it."""

from __future__ import annotations

import pytest

import wsched
from tests.reductions import ALL, definition, expected
from wsched.front.cut.epilogues import Take
from wsched.front.cut.segments import Cutter
from wsched.front.known import recorded
from wsched.importer import Definition

torch = pytest.importorskip("torch")

MEAN = (
    definition(ALL[:2])
    .replace("    fd.add_output(y)", "    mean = fd.ops.mul(r0, 0.5)\n    fd.add_output(y)")
    .replace("fd.add_output(r0)", "fd.add_output(mean)")
)
"""A sum that an operation reads, and one that is a result."""


def read(text: str) -> Definition:
    found = recorded(text)
    assert isinstance(found, Definition)
    return found


@pytest.mark.parametrize("take", [Take.ALL, Take.NARROW])
def test_segments(take: Take) -> None:
    """Fp32 parts are small: they may leave the kernel where wide matrices may not."""
    kernel, rest = Cutter(read(MEAN)).all(take).segments
    assert (kernel.matmul, kernel.outputs) == (True, ("y", "r0", "r1"))
    assert [n.op for n in rest.definition.nodes if not n.is_input] == ["mul"]


def test_nothing_taken() -> None:
    kernel, rest = Cutter(read(MEAN)).all(Take.NONE).segments
    assert [n.op for n in kernel.definition.nodes if not n.is_input] == ["linear"]
    assert {"sum", "mul"} <= {n.op for n in rest.definition.nodes}


@pytest.mark.slow
def test_executed() -> None:
    torch.manual_seed(0)
    shapes = (200, 72), (136, 72), (136,)
    given = tuple(torch.randint(-2, 3, s).bfloat16() for s in shapes)
    y, sums, rows = expected(ALL[:2], *given)
    found = wsched.execute(MEAN, given)
    wanted = [y, sums / 2, rows]
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


KEPT: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "batches of one operand": ("matmul", (8, 8), (2, 3, 8, 8), (2, 3)),
    "batches of one, of two": ("matmul", (1, 1, 8, 8), (2, 3, 8, 8), (2, 3)),
    "batches by batches": ("matmul", (2, 1, 1, 8, 8), (1, 2, 2, 8, 8), (3, 4)),
    "other columns": ("matmul", (8, 8), (2, 3, 8, 16), (2, 3)),
    "rows of three dimensions": ("linear", (1, 5, 1, 8), (5, 8), (1, 3)),
    "rows behind ones": ("linear", (1, 1, 5, 8), (8, 8), (0, 1, 2, 3)),
    "a vector": ("linear", (8,), (8, 8), (0,)),
    "a vector behind": ("matmul", (8, 8), (8,), (0,)),
}
"""Products of other ranks: their operands, and dimensions that are reduced with the rank kept."""


@pytest.mark.parametrize("op", ["sum", "max"])
@pytest.mark.parametrize("name", KEPT)
def test_dimensions_that_are_one_to_a_kernel(name: str, op: str) -> None:
    """Counted from the front or from the back, a dimension is that of the definition."""
    product, *shapes, dims = KEPT[name]
    torch.manual_seed(0)
    a, b = (torch.randint(-2, 3, s).bfloat16() for s in shapes)
    y = a.float() @ (b.float() if product == "matmul" else b.float().T)
    declared = [f"{n} = fd.define_tensor(shape={[*x.shape]}, dtype=DataType.BFloat16)"
                for n, x in (("a", a), ("b", b))]  # fmt: skip
    for dim in (d for each in dims for d in (each, each - y.dim())):
        text = "def nvfuser_fusion(fd : FusionDefinition) -> None :\n" + "".join(
            f"    {line}\n"
            for line in (*declared, f"y = fd.ops.{product}(a, b)",
                         f"s = fd.ops.{op}(y, dims=[{dim}], keepdim=True)", "fd.add_output(s)")
        )  # fmt: skip
        (found,) = wsched.execute(text, [a, b])
        wanted = y.amax(dim, keepdim=True) if op == "max" else y.sum(dim, keepdim=True)
        assert torch.equal(found.float(), wanted.bfloat16().float()), dim
