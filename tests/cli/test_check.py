"""Random inputs, the comparison, and its verdict; with torch and without."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from lowering.ground.errors import UnsupportedError
from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from lowering.target.targets import named as named_target
from tests import int4
from tests.computed import cast
from tests.epilogues import epilogue
from tests.grouped import BIAS, FORMS, GATE, grouped
from tests.run.test_siblings import kernel as siblings
from tests.schedules import definition
from wsched.cli import check as module
from wsched.cli.check import check, random_inputs
from wsched.front.drawn import drawn_values
from wsched.front.known import import_fusion
from wsched.front.sizes import Extents, kernel_for
from wsched.fusion import DataType, the_matmul
from wsched.run.compiled import CompiledFusion

SMALL = Extents(72, 136, 64)


@pytest.fixture(params=["torch", "numpy"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "torch":
        pytest.importorskip("torch")
    else:
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    return str(request.param)


@pytest.mark.sampled
@pytest.mark.parametrize("op", ["linear", "matmul", "matmul_t"])
def test_right(op: str, library: str) -> None:
    text = definition("f16", "f32", op)
    kernel = kernel_for(text, SMALL)
    inputs = random_inputs(kernel.fusion, SMALL, 0, "cpu")
    assert isinstance(inputs[0], np.ndarray) == (library == "numpy")
    outcome = check(kernel, inputs)
    assert outcome.passed and outcome.error < outcome.limit == 2e-5
    assert outcome.text.startswith("RIGHT: 72 x 136 Float result against ")
    assert "ran on the machine model (CPU, byte for byte) in " in outcome.text


def test_right_in_other_layouts(library: str) -> None:
    """B by rows of K, the result by columns: inputs lie in memory as the definition says."""
    text = definition("f16", "f16", "matmul").replace("stride_order=[0, 1], ", "")
    text = text.replace("add_output(d)", "add_output(e)").replace(
        "    fd.add_output",
        "    e = fd.ops.stride_order(d, stride_order=[0, 1])\n    fd.add_output",
    )
    kernel = kernel_for(text, SMALL)
    inputs = random_inputs(kernel.fusion, SMALL, 0, "cpu")
    assert the_matmul(kernel.fusion).a.in_memory[-1].label == "N"
    assert check(kernel, inputs).text.startswith("RIGHT: 72 x 136 Half result against ")


GROUPS = {name: grouped(ranks=ranks) for name, ranks in FORMS.items()}
GROUPS |= {"gate and up": GATE, "bias and residual": BIAS}


@pytest.mark.parametrize("groups", [1, 5])
@pytest.mark.parametrize("name", GROUPS)
def test_groups(name: str, groups: int, library: str) -> None:
    """Rows, columns or what is summed over, shared out at ends that are drawn."""
    extents = Extents.parse(f"{groups}x72x40x96")
    kernel = kernel_for(GROUPS[name], extents)
    inputs = random_inputs(kernel.fusion, extents, 3, "cpu")
    outcome = check(kernel, inputs)
    count = "1 group" if groups == 1 else "5 groups"
    assert outcome.passed and f"72 x 40 in {count} BFloat16 result against " in outcome.text
    if groups > 1:  # the first has all: another result
        other = [*inputs[:2], inputs[2] * 0 + inputs[2][-1], *inputs[3:]]
        assert check(kernel, other).passed
        assert not _alike(kernel, inputs, other)


def _alike(kernel: CompiledFusion, first: Any, second: Any) -> bool:
    run = module._run_numpy if isinstance(first[0], np.ndarray) else module._run_torch
    return bool(np.array_equal(run(kernel, first)[0][0], run(kernel, second)[0][0]))


def test_kernels_that_share_groups_out(library: str) -> None:
    """What is compared is what all of them have written."""
    made = siblings("near")
    extents = Extents.parse("3x500x40x96")
    outcome = check(made, random_inputs(made.fusion, extents, 0, "cpu"))
    assert outcome.passed and all(k.kernel.name in outcome.text for k in made.launched)


def of_words(group: int) -> tuple[str, Extents]:
    """A linear of integers of 4 bits, which may have scales of groups of K."""
    to = [f"r = fd.ops.reshape(e, new_shape=[{int4.N}, {int4.K}])",
          "w = fd.ops.cast(r, dtype=DataType.BFloat16)"]  # fmt: skip
    lines = int4.scaled(group)["by groups"] if group else to
    more = int4.scales(group) if group else ()
    text = int4.definition(*int4.IOTA, *lines, "d = fd.ops.linear(x, w)", more=more)
    return text, Extents(int4.M, int4.N, int4.K)


@pytest.mark.parametrize("group", [0, 32])
def test_weights_in_words(group: int, library: str) -> None:
    """Eight integers each, of which all values are drawn; the reference is that of the integers."""
    text, extents = of_words(group)
    kernel = kernel_for(text, extents)
    inputs = random_inputs(kernel.fusion, extents, 0, "cpu")
    words = np.asarray(inputs[1])
    assert (words.shape, words.dtype) == ((int4.N, int4.K // 8), np.int32)
    for place in range(8):
        assert {*(words >> 4 * place & 15).flat} == {*range(16)}
    outcome = check(kernel, inputs)
    assert outcome.passed and outcome.error < outcome.limit == 4e-3
    assert outcome.text.startswith("RIGHT: 24 x 72 BFloat16 result against ")


def test_rows_that_end_within_a_word(library: str) -> None:
    text, extents = cast("UInt4"), Extents(24, 72, 100)
    with pytest.raises(UnsupportedError) as error:
        random_inputs(import_fusion(text), extents, 0, "cpu")
    assert str(error.value) == (
        "rows of 100 integers of 4 bits in words of 32 is not supported; supported: multiples of 8 "
        "of them"
    )


def test_wrong(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that computes with half of K is found out."""
    kernel = kernel_for(definition(), SMALL)
    inputs = random_inputs(kernel.fusion, SMALL, 0, "cpu")
    real: Any = module._run_torch if library == "torch" else module._run_numpy

    def half(kernel: Any, inputs: Any) -> tuple[list[Any], float]:
        results, seconds = real(kernel, inputs)
        return [result / 2 for result in results], seconds

    monkeypatch.setattr(module, f"_run_{library}", half)
    outcome = check(kernel, inputs)
    assert not outcome.passed
    assert outcome.text.startswith("WRONG: 72 x 136 BFloat16 result against ")
    assert outcome.error == pytest.approx(0.5, abs=0.01)


def test_a_nan_is_wrong(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_for(definition(), SMALL)
    inputs = random_inputs(kernel.fusion, SMALL, 0, "cpu")
    nothing = np.full((72, 136), np.nan, np.float32), 0.0
    monkeypatch.setattr(module, f"_run_{library}", lambda *args: nothing)
    assert not check(kernel, inputs).passed


@pytest.mark.parametrize("problem", [Extents(0, 8, 8), Extents(8, 8, 0)])
def test_empty(problem: Extents, library: str) -> None:
    kernel = kernel_for(definition(), problem)
    assert check(kernel, random_inputs(kernel.fusion, problem, 0, "cpu")).passed


def test_inputs_depend_on_the_seed_only(library: str) -> None:
    fusion = import_fusion(definition())
    first, same, other = (random_inputs(fusion, SMALL, s, "cpu") for s in (1, 1, 2))
    assert (first[0] == same[0]).all() and not (first[0] == other[0]).all()


def test_values_are_drawn_in_fp32() -> None:
    """Before they are rounded to what an input has; integers are all those of their type."""
    for text, extents in ((definition(), SMALL), (cast("Int8"), SMALL)):
        for binding, values, axes in drawn_values(import_fusion(text), extents, 0):
            assert values.dtype == np.float32 and len(axes) == values.ndim == 2
            if binding.dtype is DataType.Int8:
                assert {*values.flat} == {*range(-128, 128)}


def test_limit_is_that_of_the_coarsest_rounding() -> None:
    """bf16 between accumulator and an fp16 result costs what bf16 costs."""
    text = definition("bf16", "f16")
    kernel = kernel_for(text, SMALL)
    outcome = check(kernel, random_inputs(kernel.fusion, SMALL, 0, "cpu"))
    assert outcome.passed and outcome.limit == 4e-3
    assert replace(outcome, passed=False).text == outcome.text


# --- values that are not finite ------------------------------------------------------------------


def overflowing(op: str) -> str:
    """Results of which some are inf or nan: logarithms of what is negative, squares of squares."""
    head, _, tail = definition("f16", "f16").partition("    fd.add_output(d)")
    lines = {
        "log": ["e = fd.ops.log(d)"],
        "div": ["e = fd.ops.div(d, 0.0)"],
        "cubes": ["e = fd.ops.mul(fd.ops.mul(d, d), fd.ops.mul(d, d))"],
        "half": ["e = fd.ops.mul(d, 9000.0)"],
    }[op]
    lines += ["f = fd.ops.cast(e, dtype=DataType.Half)", "fd.add_output(f)"]
    return head + "".join(f"    {line}\n" for line in lines) + tail.lstrip("\n")


@pytest.mark.sampled
@pytest.mark.parametrize("op", ["log", "div", "cubes", "half"])
def test_infinities_and_nans_are_right(op: str, library: str) -> None:
    kernel = kernel_for(overflowing(op), SMALL)
    outcome = check(kernel, random_inputs(kernel.fusion, SMALL, 0, "cpu"))
    assert outcome.passed, outcome.text
    assert "values are inf or nan, as expected" in outcome.text


def test_sums_of_what_fp16_does_not_hold(library: str) -> None:
    """The reference has infinities there, too: of every product and every row that has one."""
    lines = "f = fd.ops.cast(y, dtype=DataType.Float)", "s = fd.ops.sum(f, dims=[1])"
    text = epilogue(*lines, outputs="y s", dtype="Half")
    kernel = kernel_for(text, SMALL)
    x, w = (64 * t for t in random_inputs(kernel.fusion, SMALL, 0, "cpu"))
    with np.errstate(over="ignore"):
        y = (np.float32(x) @ np.float32(w).T).astype(np.float16)
    products, rows = np.isinf(y).sum(), np.isinf(y).any(1).sum()
    outcome = check(kernel, [x, w])
    assert rows > 0 and outcome.passed, outcome.text
    assert f"; {products + rows} values are inf or nan, as expected" in outcome.text


@pytest.mark.parametrize(
    ("got", "expected", "error"),
    [
        ([1.0, math.nan], [1.0, math.nan], 0.0),
        ([1.0, math.inf], [1.0, math.inf], 0.0),
        ([1.0, math.inf], [1.0, -math.inf], math.inf),
        ([1.0, math.nan], [1.0, math.inf], math.inf),
        ([1.0, math.inf], [1.0, 3.0], math.inf),
        ([1.0, 3.0], [1.0, math.nan], math.inf),
        ([2.0, math.nan], [1.0, math.nan], 1.0),
        ([1.0, math.inf], [1.0, 65519.0], 0.0),
        ([1.0, 65504.0], [1.0, math.inf], 6e-4),
        ([1.0, 65504.0], [1.0, -math.inf], 2.0),
        ([3e30, 3e30], [3e30, 3e30], 0.0),
    ],
)
def test_the_error(got: list[float], expected: list[float], error: float) -> None:
    found = module._error(np.float32(got), np.float32(expected), DataType.Half)
    assert found == pytest.approx(error, rel=0.01, abs=7e-4)


def test_a_result_with_infinities_in_other_places(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = kernel_for(overflowing("log"), SMALL)
    real = module._error
    monkeypatch.setattr(module, "_error", lambda got, *rest: real(np.nan_to_num(got), *rest))
    outcome = check(kernel, random_inputs(kernel.fusion, SMALL, 0, "cpu"))
    assert not outcome.passed and outcome.error == math.inf
    assert "error (Frobenius norm) inf, limit 6e-04; inf or nan in other places" in outcome.text


@pytest.mark.parametrize(
    ("driver", "torch", "seen", "named"),
    [
        (True, True, DEFAULT, "cuda"),
        (True, True, None, "cpu"),
        (False, True, DEFAULT, "cpu"),
        (True, False, DEFAULT, "cpu"),
    ],
)
def test_where_it_runs(
    driver: bool, torch: bool, seen: Target | None, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU that torch sees and that there are kernels for; torch is asked if there is any."""
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    monkeypatch.setattr(module, "has_driver", lambda: driver)
    monkeypatch.setattr(module, "find_spec", lambda name: object() if torch else None)
    monkeypatch.setattr(module, "target_of_device", lambda torch: seen)
    assert module.device() == named
    assert module.device(DEFAULT) == named
    assert module.device(named_target("sm_100a")) == "cpu"


def test_multiprocessors_that_are_asked_for_are_planned_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever is here; without a GPU those of the first one of a target."""
    for here in ("cuda", "cpu"):
        monkeypatch.setattr(module, "device", lambda target, here=here: here)
        assert module.multiprocessors(7) == 7
    assert module.multiprocessors() == 132
    assert module.multiprocessors(target=named_target("sm_100a")) == 148


def test_an_error_at_the_limit_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_for(definition(), SMALL)
    inputs = random_inputs(kernel.fusion, SMALL, 0, "cpu")
    found = check(kernel, inputs)
    for limit, passed in ((math.nextafter(found.error, 1), True), (found.error, False)):
        monkeypatch.setitem(module.TOLERANCE, DataType.BFloat16, limit)
        assert check(kernel, inputs).passed is passed
