"""Launches of a stress run on the machine, and each thing that may be wrong with one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import wsched.run.on_device
from lowering.ground.errors import InternalError, ScheduleError, UnsupportedError, WschedError
from wsched.run.compiled import CompiledFusion
from wsched.schedule.matmul.params import CircularBufferOptions, MatmulParams
from wsched.stress import launches
from wsched.stress.epilogue import LARGEST
from wsched.stress.launches import (
    WRONG,
    Executed,
    Where,
    Worked,
    _differ,
    drawn_kernel,
    launched,
    sizes_of,
)
from wsched.stress.linear import Linear
from wsched.stress.run import judged
from wsched.stress.tensors import NONZEROS, _set, filled, poison_in, poisoned, sparse

torch = pytest.importorskip("torch", reason="torch is not installed")

WHERE = Where("cpu", 96, 0)
PLAIN = 9
"""A kernel with a result and inputs of its own, whose rows are aligned."""


@pytest.fixture(scope="module")
def worked() -> Worked:
    return drawn_kernel(WHERE, PLAIN)


Spoil = Callable[[dict[str, Any]], None]


@pytest.fixture
def spoiled(monkeypatch: pytest.MonkeyPatch) -> Callable[[Spoil], None]:
    """Lets something happen to the tensors behind each run."""
    run = wsched.run.on_device.run_on_cpu

    def set_to(spoil: Spoil) -> None:
        def running(kernel: Any, arguments: Any) -> Any:
            result = run(kernel, arguments)
            spoil(arguments.matrices)
            return result

        monkeypatch.setattr(wsched.run.on_device, "run_on_cpu", running)

    return set_to


def result(matrices: dict[str, Any]) -> Any:
    return matrices[max(matrices, key=lambda name: int(name[1:]))]


def wrong(worked: Worked, launch: int = 0) -> dict[str, int]:
    """What is wrong, and how often."""
    found = launched(WHERE, worked, launch)
    assert not isinstance(found, str)
    return {what: n for what, n in zip(WRONG, found.tolist(), strict=True) if n}


def test_an_illegal_choice_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a schedule that is drawn it is one."""
    stages = CircularBufferOptions(smem_circular_buffer_stage=64)
    illegal = MatmulParams(circular_buffer_options=stages)
    for name in ("choose_params", "drawn_params"):
        monkeypatch.setattr(launches, name, lambda *_: illegal)
    said = set[type[WschedError]]()
    for number in range(12):
        try:
            drawn_kernel(WHERE, number)
        except WschedError as e:
            said.add(type(e))
    assert {InternalError, ScheduleError} <= said


@pytest.mark.sampled
@pytest.mark.parametrize("number", range(12))
def test_the_machine_passes(number: int) -> None:
    row = judged(WHERE, drawn_kernel(WHERE, number), range(2))
    assert row.failures == ()
    assert row.launches + row.refused == 2


def test_the_same_is_drawn_again(worked: Worked) -> None:
    again = drawn_kernel(WHERE, PLAIN)
    assert again.form == worked.form
    assert again.kernel.params == worked.kernel.params
    assert len({sizes_of(WHERE, again, n) for n in range(20)}) > 10
    assert sizes_of(WHERE, again, 3) == sizes_of(WHERE, worked, 3)
    assert drawn_kernel(replace(WHERE, seed=1), PLAIN).form != worked.form


def test_what_is_executed_has_few_sizes(worked: Worked) -> None:
    """For each of which something is compiled."""
    executed = replace(worked, kernel=Executed(worked.form.text))
    found = [sizes_of(WHERE, executed, n) for n in range(12)]
    assert len({*found}) == 4 and found[:4] == found[4:8] == found[8:]


def test_an_element_that_is_wrong(worked: Worked, spoiled: Any) -> None:
    def spoil(matrices: dict[str, Any]) -> None:
        result(matrices)[..., 0, 0] += 1

    spoiled(spoil)
    assert wrong(worked, 1) == {WRONG[1]: 1}


def test_an_element_that_is_not_written(worked: Worked, spoiled: Any) -> None:
    def spoil(matrices: dict[str, Any]) -> None:
        result(matrices)[..., 0, 0] = float("nan")

    spoiled(spoil)
    assert wrong(worked, 1) == {WRONG[0]: 1, WRONG[1]: 1}


def test_a_store_in_front_of_a_result(worked: Worked, spoiled: Any) -> None:
    def spoil(matrices: dict[str, Any]) -> None:
        d = result(matrices)
        d.as_strided((1,), (1,), d.storage_offset() - 1).zero_()

    spoiled(spoil)
    assert wrong(worked, 1) == {WRONG[2]: 1}


def test_an_input_that_changes_and_bits_that_do(worked: Worked, spoiled: Any) -> None:
    calls: list[int] = []

    def spoil(matrices: dict[str, Any]) -> None:
        calls.append(1)
        if len(calls) == 2:
            min(matrices.items(), key=lambda item: int(item[0][1:]))[1][0, 0] += 1
            d = result(matrices)
            d[0, 0] = torch.nextafter(d.float()[0, 0], torch.tensor(1e9)) + d[0, 0] / 64

    spoiled(spoil)
    found = wrong(worked, 0)
    assert found == {WRONG[3]: 1, WRONG[4]: 1}


def test_what_a_kernel_does_not_take(worked: Worked, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise UnsupportedError("this", "that")

    monkeypatch.setattr(wsched.run.on_device, "run_on_cpu", refuse)
    why = "this is not supported; supported: that"
    assert launched(WHERE, worked, 0) == why
    row = judged(WHERE, worked, range(1, 4))
    assert (row.launches, row.refused, row.failures) == (0, 3, ())
    assert row.untaken == (1, why)


@pytest.mark.parametrize("number", [18, 36, 91], ids=["epilogue", "one column", "other order"])
def test_rows_that_lie_anywhere(number: int) -> None:
    """No launch of what is drawn is refused: matrices of the epilogue whose rows begin anywhere,
    operands of one column, kernels that were drawn for such.
    """
    worked = drawn_kernel(WHERE, number)
    assert isinstance(worked.form, Linear) and not worked.form.aligned
    assert isinstance(worked.kernel, CompiledFusion)
    for launch in range(12):
        asked = worked.form.asked(sizes_of(WHERE, worked, launch), 0, "cpu")
        out = [poisoned(tuple(w.value.shape), w.padding, w.dtype, "cpu") for w in asked.wanted]
        worked.kernel.bind(*asked.inputs, out=[p.tensor for p in out])


def test_an_error_of_a_launch(worked: Worked, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(wsched.run.on_device, "run_on_cpu", fail)
    row = judged(WHERE, worked, range(2))
    assert [(f.launch, f.wrong) for f in row.failures] == [
        (0, "ValueError: broken"), (1, "ValueError: broken"),
    ]  # fmt: skip
    assert row.failures[0].sizes == str(sizes_of(WHERE, worked, 0))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "bfloat16", "int32"])
def test_numbers_are_drawn_where_the_tensor_is(dtype: str) -> None:
    """Of 8 bits in another type, on the device all the same: here one without memory."""
    where: list[tuple[str, tuple[int, ...]]] = []

    def draw(t: Any) -> Any:
        where.append((t.device.type, tuple(t.shape)))
        return t

    _set(torch.empty((3, 5), dtype=getattr(torch, dtype), device="meta"), draw)
    assert where == [("meta", (3, 5))]


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.bfloat16, torch.int32])
def test_numbers_that_are_drawn(dtype: Any) -> None:
    """Whole ones of either sign, the same again of the same seed; of sums over K few are not 0."""
    one, two = (
        filled(torch.empty((40, 50), dtype=dtype), torch.Generator().manual_seed(3)).float()
        for _ in range(2)
    )
    assert torch.equal(one, two) and torch.equal(one, one.round())
    assert (one.min(), one.max()) == (-LARGEST, LARGEST)
    few, all_ = (
        sparse(torch.empty((40, 400), dtype=dtype), k, torch.Generator().manual_seed(3)).float()
        for k in (10 * NONZEROS, NONZEROS)
    )
    assert set(few.unique().tolist()) == {0.0, 1.0} and bool(all_.all())
    assert 0.05 < few.mean() < 0.15


@pytest.mark.parametrize("dtype", ["Half", "Float8_e4m3fn", "Int8", "Int32"])
@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (2, 3, 5)])
def test_poison(shape: tuple[int, ...], dtype: str) -> None:
    p = poisoned(shape, 2, dtype, "cpu")
    assert p.tensor.shape == shape
    assert poison_in(p.tensor).all()
    p.tensor.fill_(1)
    assert int((~poison_in(p.whole)).sum()) == p.tensor.numel()
    begin, width = p.tensor.storage_offset(), (shape or (1,))[-1] + 2
    rows = p.tensor.numel() // max(width - 2, 1)
    assert p.whole.numel() - begin - rows * width == begin >= 64  # as much behind as in front
    assert p.intact()
    p.whole[0] = 1
    assert not p.intact()
    if len(shape) > 1:
        assert p.tensor.stride(-2) == shape[-1] + 2


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "bfloat16", "float32", "int8", "int32"])
def test_what_differs(dtype: str) -> None:
    """One element does; NaN is as NaN, and as no number."""
    kind = getattr(torch, dtype)
    one, other = (torch.tensor([1.0, last]).to(kind) for last in (2.0, 3.0))
    assert not _differ(one, one.clone()) and _differ(one, other)
    if kind.is_floating_point:
        none = torch.tensor([1.0, float("nan")]).to(kind)
        assert not _differ(none, none.clone())
        assert _differ(none, one) and _differ(one, none)
