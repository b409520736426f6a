"""Definitions as torch computes them: where values are, and whose memory results have."""

from __future__ import annotations

import pytest

from lowering.ground.errors import UnsupportedError
from tests.told import Told
from wsched.doors.fallback import evaluated, interpret, unknown_ops
from wsched.importer import record_text

torch = pytest.importorskip("torch", reason="torch is not installed")


def text(body: str, *outputs: str) -> str:
    """A definition of a matrix and what is computed of it."""
    lines = [
        "x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)",
        *filter(None, body.split("; ")),
        *(f"fd.add_output({name})" for name in outputs),
    ]
    return "\n    ".join(["def nvfuser_fusion(fd : FusionDefinition) -> None :", *lines]) + "\n"


FULL = "c = fd.ops.full(shape=[2, 3], fill_value=2.0, dtype=DataType.Float)"


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    "made", [FULL, "c = fd.ops.iota(3, 0, 1, dtype=DataType.Int)"], ids=["full", "iota"]
)
def test_what_is_made_is_where_the_inputs_are(made: str, device: str) -> None:
    """Also beside an input that stays on the CPU."""
    x = torch.ones(2, 3, device=device)
    results = evaluated(record_text(text(f"{made}; y = fd.ops.mul(x, c)", "c", "y")), [x])
    assert [r.device.type for r in results] == [device, device]
    number = "s = fd.define_tensor(shape=[], contiguity=[], dtype=DataType.Float, is_cpu=True)"
    (found,) = evaluated(record_text(text(f"{number}; {made}", "c")), [x, torch.tensor(2.0)])
    assert found.device.type == device


@pytest.mark.parametrize("length", ["3", "n"])
def test_what_is_made_of_no_tensor_is_where_it_is_asked_for(length: str) -> None:
    """What reads it is there."""
    given = "    n = fd.define_scalar(None, dtype=DataType.Int)\n" * (length == "n")
    made = f"    c = fd.ops.iota({length}, 0, 1, dtype=DataType.Int)\n    fd.add_output(c)\n"
    source = f"def nvfuser_fusion(fd : FusionDefinition) -> None :\n{given}{made}"
    (found,) = interpret(record_text(source), [3] * (length == "n"), torch.device("meta"))
    assert found.device.type == "meta" and list(found.shape) == [3]


def test_indices_without_values() -> None:
    """Where shapes alone are asked for, a length is a number all the same."""
    made = record_text(text("c = fd.ops.iota(3, 0, 1, dtype=DataType.Int)", "c"))
    with torch.device("meta"):
        (found,) = evaluated(made, [torch.ones(2, 3)])
    assert list(found.shape) == [3]


@pytest.mark.parametrize(
    ("body", "output"),
    [
        ("", "x"),
        ("y = fd.ops.permute(x, dims=[1, 0])", "y"),
        ("y = fd.ops.broadcast_in_dim(x, shape=[4, 2, 3], broadcast_dims=[1, 2])", "y"),
        (f"{FULL}; z = fd.ops.broadcast_in_dim(c, shape=[4, 2, 3], broadcast_dims=[1, 2])", "z"),
    ],
    ids=["input", "view", "expanded", "expanded constant"],
)
def test_results_have_memory_of_their_own(body: str, output: str) -> None:
    """Whoever writes into one changes neither an input nor another element."""
    x = torch.arange(6.0).view(2, 3)
    (found,) = interpret(record_text(text(body, output)), [x])
    before, one = found.clone(), (0,) * found.dim()
    found[one] = -1.0
    before[one] = -1.0
    assert torch.equal(found, before) and torch.equal(x, torch.arange(6.0).view(2, 3))


def test_a_result_that_is_made_is_not_copied() -> None:
    definition = record_text(text("y = fd.ops.neg(x)", "y"))
    x = torch.ones(2, 3)
    with Told() as told:
        interpret(definition, [x])
    assert "neg" in told.names and "clone" not in told.names


def test_operations_that_torch_does_not_have() -> None:
    """Each once, in the order of the definition; the first one is what is refused."""
    body = "a = fd.ops.rand_like(x); b = fd.ops.erfcinv(a); c = fd.ops.rand_like(b)"
    definition = record_text(text(body, "c"))
    assert unknown_ops(definition) == ("rand_like", "erfcinv")
    with pytest.raises(UnsupportedError) as error:
        interpret(definition, [torch.ones(2, 3)])
    assert str(error.value) == (
        "fd.ops.rand_like without nvFuser is not supported; supported: operations that torch has "
        "as well"
    )


def test_types_that_torch_does_not_have() -> None:
    definition = record_text(text("a = fd.ops.cast(x, dtype=DataType.Float4_e2m1fn)", "a"))
    assert unknown_ops(definition) == ("cast with Float4_e2m1fn",)
