"""Forms of every family: definitions, sizes, and launches on the machine."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import wsched.stress.launches
from wsched.importer import build_fusion, record_text
from wsched.stress.draws import drawn_form
from wsched.stress.families import Eight, Gated, Grouped, Listed, Reduced, Rounded, Summed
from wsched.stress.form import Form, Sizes
from wsched.stress.launches import WRONG, Where, drawn_kernel, launched
from wsched.stress.linear import Linear, drawn_linear
from wsched.stress.run import judged
from wsched.stress.several import Several
from wsched.stress.tensors import poison_in, poisoned
from wsched.stress.weights import Weights

torch = pytest.importorskip("torch", reason="torch is not installed")

WHERE = Where("cpu", 96, 1)
FORMS: tuple[Form, ...] = (
    Listed("BFloat16", 3), Gated("Half", "silu"), Reduced("BFloat16", "sum", 0),
    Reduced("Half", "max", 1), Eight(True), Eight(False), Grouped("BFloat16"), Summed("Half"),
    Listed("Half", 2, of_one_weight=True), Gated("BFloat16", "relu", of_one_weight=True),
    Rounded("BFloat16", "Float8_e4m3fn", 12.5), Rounded("Half", "Float8_e5m2", 0.25),
    Weights("BFloat16", "UInt4", 64, "columns"), Weights("Half", "Int8"),
    Weights("BFloat16", "UInt8", 32, by_groups=False),
    Weights("Half", "Float8_e4m3fn", 128, "groups"),
)  # fmt: skip


def name(form: Form) -> str:
    return type(form).__name__


def test_all_families_are_drawn() -> None:
    found = [drawn_form(random.Random(seed)) for seed in range(900)]
    count = Counter(type(form) for form in found)
    assert set(count) == {
        Linear, Listed, Gated, Reduced, Eight, Grouped, Rounded, Summed, Several, Weights,
    }  # fmt: skip
    assert min(count.values()) > 20
    assert drawn_form(random.Random(7)) == found[7]


@pytest.mark.parametrize("form", FORMS, ids=name)
def test_a_definition_and_its_launches(form: Form) -> None:
    fusion = build_fusion(record_text(form.text))
    for seed in range(20):
        sizes = form.sizes(random.Random(seed), 96)
        assert max(sizes.m, sizes.n, sizes.k) <= 96
        asked = form.asked(sizes, seed, "cpu")
        assert len(asked.inputs) == len(form.text.split("define_tensor")) - 1
        assert len(asked.wanted) == len(fusion.outputs)
        assert not any(poison_in(t).any() for t in asked.inputs)
        again = form.asked(sizes, seed, "cpu")
        assert all(map(torch.equal, asked.inputs, again.inputs))
        assert all(w.value.abs().max() < 2**15 for w in asked.wanted if w.value.numel())


def test_where_inputs_lie(golden: object) -> None:
    """Shapes and strides with padding, types, and what is expected, of every form."""
    rng, lines = random.Random(2), list[str]()
    linears = (drawn_linear(rng) for _ in range(12))
    for form in (*FORMS, *linears):
        lines += [form.text]
        asked = form.asked(Sizes(2, 24, 40, 16, 8), 3, "cpu")
        for t in (*asked.inputs, *asked.wanted):
            told = t if isinstance(t, torch.Tensor) else t.value
            more = "" if told is t else f", results of {t.dtype}, {t.padding} behind a row"
            lines.append(f"{told.dtype} {tuple(told.shape)} by {told.stride()}{more}")
        lines.append("")
    assert "\n".join(lines) == golden


@pytest.fixture
def of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Form], None]:
    """Lets every kernel be of one form."""
    return lambda form: monkeypatch.setattr(wsched.stress.launches, "drawn_form", lambda rng: form)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("form", FORMS, ids=name)
def test_the_machine_passes(form: Form, of: Any) -> None:
    of(form)
    row = judged(WHERE, drawn_kernel(WHERE, 1), range(2))
    assert row.failures == () and row.launches == 2


@pytest.mark.sampled
@pytest.mark.parametrize("form", FORMS, ids=name)
def test_an_element_that_is_wrong(form: Form, of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is never written, and so wrong as well."""
    of(form)
    worked = drawn_kernel(WHERE, 1)
    wanted = form.asked(form.sizes(random.Random(0), 96), 0, "cpu").wanted[0]
    poison = poisoned((1,), 0, wanted.dtype, "cpu").tensor[0]
    called = type(worked.kernel).__call__

    def spoil(kernel: Any, *inputs: Any, out: Any) -> Any:
        found = called(kernel, *inputs, out=out)
        out[0][(0,) * out[0].dim()] = poison
        return found

    monkeypatch.setattr(type(worked.kernel), "__call__", spoil)
    found = launched(WHERE, worked, 1)
    assert found is not None
    assert {what: n for what, n in zip(WRONG, found.tolist(), strict=True) if n} == {
        WRONG[0]: 1, WRONG[1]: 1
    }  # fmt: skip


@pytest.mark.parametrize("dtype", ["Int8", "Int32", "Float8_e4m3fn"])
def test_poison_of_narrow_types(dtype: str) -> None:
    p = poisoned((3, 5), 2, dtype, "cpu")
    assert poison_in(p.tensor).all()
    p.tensor.fill_(1)
    assert int((~poison_in(p.whole)).sum()) == 15
    assert p.intact()
    p.whole[0] = 1
    assert not p.intact()
