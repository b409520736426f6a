"""Inputs that do not fit each other are refused before anything runs, by torch's own words."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.told import Told
from wsched.doors.fallback import require_fitting, require_fitting_sizes
from wsched.importer import record_text
from wsched.importer.input_error import InputError

torch = pytest.importorskip("torch", reason="torch is not installed")


def text(body: str, *inputs: tuple[list[int], str]) -> str:
    """A definition with inputs a, b of these shapes and types, and the output r."""
    lines = ["def nvfuser_fusion(fd : FusionDefinition) -> None :"]
    lines += [
        f"    {name} = fd.define_tensor(shape={shape}, contiguity={[True] * len(shape)}, "
        f"dtype=DataType.{dtype})"
        for name, (shape, dtype) in zip("ab", inputs, strict=False)
    ]
    lines += [f"    {line}" for line in (*body.split("; "), "fd.add_output(r)")]
    return "\n".join(lines)


ANY = [-1, -1]
LINEAR = "r = fd.ops.linear(a, b)"
GATHER = "r = fd.ops.gather(a, b, dim=1)"
SQUEEZE = "r = fd.ops.squeeze(a, dims=[0], squeeze_expanded=True)"


@pytest.mark.parametrize(
    ("body", "dtypes", "inputs"),
    [
        (LINEAR, ["BFloat16"] * 2, [torch.ones(3, 8).bfloat16(), torch.ones(5, 8).bfloat16()]),
        (GATHER, ["Float", "Int"], [torch.ones(3, 8), torch.ones(3, 2).long()]),
        (SQUEEZE, ["Float"], [torch.ones(1, 8).expand(3, 8)]),
        ("s = fd.define_scalar(None, dtype=DataType.Int); r = fd.ops.mul(a, s)", ["Float"],
         [torch.ones(3, 8), 2]),
    ],
)  # fmt: skip
def test_what_fits(body: str, dtypes: list[str], inputs: list[Any]) -> None:
    require_fitting(record_text(text(body, *((ANY, d) for d in dtypes))), inputs)


@pytest.mark.parametrize(
    ("body", "dtypes", "inputs", "told"),
    [
        (LINEAR, ["BFloat16", "BFloat16"],
         [torch.ones(3, 8).bfloat16(), torch.ones(5, 9).bfloat16()],
         "line 4: fd.ops.linear of [[3, 8], [5, 9]]: "),
        (GATHER, ["Float", "Float"], [torch.ones(3, 8)] * 2,
         "line 4: fd.ops.gather of [[3, 8], [3, 8]]: "),
        (SQUEEZE.replace(", squeeze_expanded=True", ""), ["Float"], [torch.ones(3, 8)],
         "line 3: fd.ops.squeeze of [[3, 8]]: dimension 0 of extent 3 is squeezed"),
    ],
)  # fmt: skip
def test_what_does_not_fit(body: str, dtypes: list[str], inputs: list[Any], told: str) -> None:
    """By shapes and types."""
    with pytest.raises(InputError, match=f"^{re.escape(told)}"):
        require_fitting(record_text(text(body, *((ANY, d) for d in dtypes))), inputs)


def test_numbers_stay_as_they_are() -> None:
    """Beside tensors that do not fit they are no reason to say nothing."""
    body = "s = fd.define_scalar(None, dtype=DataType.Int); t = fd.ops.mul(a, s); "
    definition = record_text(text(body + "r = fd.ops.linear(t, b)", (ANY, "Float"), (ANY, "Float")))
    require_fitting(definition, [torch.ones(3, 8), torch.ones(5, 8), 2])
    with pytest.raises(InputError, match=re.escape("fd.ops.linear of [[3, 8], [5, 9]]: ")):
        require_fitting(definition, [torch.ones(3, 8), torch.ones(5, 9), 2])


def test_values_are_not_read() -> None:
    """Nothing of the caller's memory is computed with."""
    inputs = [torch.ones(3, 8), torch.ones(5, 8)]
    with Told() as told:
        require_fitting(record_text(text(LINEAR, (ANY, "Float"), (ANY, "Float"))), inputs)
    asked = [t.device.type for t in told.results if isinstance(t, torch.Tensor)]
    assert set(asked) == {"meta"}


@pytest.mark.parametrize(
    "body",
    [
        "n = fd.ops.size(a, dim=0); c = fd.ops.cast(n, dtype=DataType.Double); "
        "m = fd.ops.reciprocal(c); r = fd.ops.mul(a, m)",  # a number that torch computes
        "r = fd.ops.rand_like(a)",  # that torch does not have
    ],
)
def test_what_torch_cannot_say_is_nothing(body: str) -> None:
    require_fitting(record_text(text(body, (ANY, "Float"))), [torch.ones(3, 8)])


@pytest.mark.parametrize(
    ("body", "first", "second", "fits"),
    [
        (LINEAR, ([3, 8], "BFloat16"), ([5, 8], "BFloat16"), True),
        (LINEAR, ([3, 8], "BFloat16"), ([5, 9], "BFloat16"), False),
        (LINEAR, ([0, 8], "BFloat16"), ([5, 9], "BFloat16"), False),
        (GATHER, ([3, 8], "Float"), ([3, 2], "Int"), True),
        (GATHER, ([3, 8], "Float"), ([3, 2], "Float"), False),
        (LINEAR, ([-1, 8], "BFloat16"), ([5, 9], "BFloat16"), True),  # which nobody knows yet
        (LINEAR, ([3, 8], "BFloat16"), ([5, -1], "BFloat16"), True),
    ],
)
def test_sizes_that_a_definition_fixes(body: str, first: Any, second: Any, fits: bool) -> None:
    definition = record_text(text(body, first, second))
    if fits:
        require_fitting_sizes(definition)
        return
    with pytest.raises(InputError, match=r"^line 4: fd\.ops\.(linear|gather) of "):
        require_fitting_sizes(definition)


def test_numbers_are_not_fixed_by_a_definition() -> None:
    body = f"s = fd.define_scalar(None, dtype=DataType.Float); {LINEAR}"
    require_fitting_sizes(record_text(text(body, ([3, 8], "BFloat16"), ([5, 9], "BFloat16"))))


def test_without_torch_nothing_is_said_of_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wsched.doors.fallback.fit.find_spec", lambda name: None)
    require_fitting_sizes(record_text(text(LINEAR, ([3, 8], "BFloat16"), ([5, 9], "BFloat16"))))
