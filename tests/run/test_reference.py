"""The check of a kernel against its own fusion in fp32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lowering.ground.errors import UnsupportedError
from lowering.kernel.pointwise import OPS
from tests.epilogues import GELU, RESIDUAL, SILU, TWO_OUTPUTS, epilogue
from tests.legality.by_hand.parts import PARTS
from tests.schedule import chain
from tests.schedule.gated import gated, scheduled
from tests.schedules import definition
from wsched.cli.check import check, random_inputs
from wsched.front.own import kernel_of
from wsched.front.sizes import Extents, kernel_for
from wsched.importer import build_fusion, record_text
from wsched.run.reference import FUNCTIONS, computed_operands, multiplied, reference
from wsched.schedule import Schedule

EXTENTS = Extents(72, 64, 40)
SCALARS = epilogue(
    "s: []", "c: [-1, 1] Float", "t = fd.ops.mul(y, s)", "d = fd.ops.sub(t, c)"
)  # fmt: skip
TEXTS = {
    "linear": definition(), "gelu": GELU, "residual": RESIDUAL, "silu": SILU,
    "two_outputs": TWO_OUTPUTS, "scalars": SCALARS,
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", TEXTS)
def test_right(name: str) -> None:
    kernel = kernel_for(TEXTS[name], EXTENTS)
    outcome = check(kernel, random_inputs(kernel.fusion, EXTENTS, 0, "cpu"))
    assert outcome.passed and outcome.text.startswith("RIGHT: 72 x 64 ")


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wsched.cli.check.find_spec", lambda name: None)
    kernel = kernel_for(SCALARS, EXTENTS)
    inputs: list[Any] = random_inputs(kernel.fusion, EXTENTS, 0, "cpu")
    assert all(isinstance(x, np.ndarray) for x in inputs)
    assert check(kernel, inputs).passed


def test_an_epilogue_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FUNCTIONS, "silu", lambda x: x)
    kernel = kernel_for(SILU, EXTENTS)
    outcome = check(kernel, random_inputs(kernel.fusion, EXTENTS, 0, "cpu"))
    assert not outcome.passed and outcome.text.startswith("WRONG: ")


def test_the_reference_knows_every_operation() -> None:
    assert set(FUNCTIONS) == set(OPS)


def test_reference_of_a_row() -> None:
    fusion = build_fusion(record_text(GELU))
    product, row = np.zeros((2, 3), np.float32), np.array([0, 1, -1], np.float32)
    (found,) = reference(fusion, {fusion.mmas[0].output: product}, {"T2": row})
    assert found == pytest.approx(np.array([[0, 0.841192, -0.158808]] * 2), abs=1e-6)


def test_what_is_rounded_is_read_so() -> None:
    """265 is no number of bf16: 264 is what is squared. Results are not rounded."""
    product = np.full((2, 3), 265, np.float32)
    squared = "f = fd.ops.cast(y, dtype=DataType.Float)", "d = fd.ops.mul(f, f)"
    for lines, wanted in (((), 265), (squared, 264 * 264)):
        fusion = build_fusion(record_text(epilogue(*lines)))
        (found,) = reference(fusion, {fusion.mmas[0].output: product}, {})
        assert np.array_equal(found, np.full((2, 3), wanted))


def test_two_products() -> None:
    """The gate's is multiplied with the other one, element by element."""
    pytest.importorskip("torch")
    kernel = kernel_of(scheduled(gated()))
    inputs = random_inputs(kernel.fusion, EXTENTS, 0, "cpu")
    assert check(kernel, inputs).passed
    a, gate, up = (np.asarray(x.float(), np.float32) for x in inputs)
    made = {"T4": a @ gate.T, "T8": a @ up.T}
    (found,) = reference(kernel.fusion, made, {})
    assert np.array_equal(found, made["T4"] * made["T8"])


@pytest.mark.parametrize("torch", [True, False])
@pytest.mark.parametrize("name", ["operand_shifted", "operand_cast"])
def test_an_operand_that_is_computed(
    name: str, torch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is rounded wherever a tensor is, here to millions."""
    if torch:
        pytest.importorskip("torch")
    else:
        monkeypatch.setattr("wsched.cli.check.find_spec", lambda name: None)
    kernel = kernel_of(Schedule({m.__name__: m for m in PARTS}[name]()))
    inputs = random_inputs(kernel.fusion, EXTENTS, 0, "cpu")
    outcome = check(kernel, inputs)
    assert outcome.passed, outcome.text
    inputs[0] = inputs[0] + 2**20
    x = np.asarray(inputs[0].float() if torch else inputs[0], np.float32)
    rounded = computed_operands(kernel.fusion, {"T0": x}.__getitem__, lambda v, _: np.round(v, -6))
    (operand,) = rounded.values()
    assert operand.shape == x.shape and np.all(operand == 1_000_000)


def test_a_product_of_a_product() -> None:
    fusion = chain.chain()
    shapes = dict.fromkeys((axis for b in fusion.inputs for axis in b.axes), 4)
    inputs = [np.zeros([shapes[x] for x in b.axes], np.float32) for b in fusion.inputs]
    with pytest.raises(UnsupportedError) as error:
        multiplied(fusion, inputs, np.einsum)
    assert (error.value.what, error.value.supported) == (
        "T10 = mma(T9, T5), of T7, which is computed", "matrix products of inputs",
    )  # fmt: skip
