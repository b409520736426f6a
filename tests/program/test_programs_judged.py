"""What random programs are held against finds what is wrong, and no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from wsched.doors.fallback import interpret
from wsched.importer import record_text

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

from tests.programs_judged import Judge  # noqa: E402  (it imports torch)

TEXT = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[8, 32], contiguity=True, dtype=DataType.Half)
    w = fd.define_tensor(shape=[40, 32], contiguity=True, dtype=DataType.Half)
    y = fd.ops.linear(x, w)
    s = fd.ops.sum(fd.ops.cast(y, dtype=DataType.Float), dims=[0, 1])
    fd.add_output(y)
    fd.add_output(s)
"""


def given() -> list[Any]:
    draw = torch.Generator().manual_seed(0)
    return [torch.randn(s, generator=draw).half() for s in ((8, 32), (40, 32))]


def test_right_results() -> None:
    """By torch, and where every element is rounded otherwise: a sum of 320 has their luck."""
    y, s = interpret(record_text(TEXT), given())
    judge = Judge(TEXT, given())
    assert judge.wrong([y, s]) == ""
    draw = torch.Generator().manual_seed(1)
    other = (y.float() * (1 + 2.0**-11 * (torch.rand(y.shape, generator=draw) - 0.5))).half()
    assert judge.wrong([other, other.float().sum()]) == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda y, s: [y * 1.03, s], "result 0"),
        (lambda y, s: [y.roll(1, 0), s], "beyond the limit"),
        (lambda y, s: [y, s + 1.0], "result 1"),
        (lambda y, s: [y, s.half()], "torch.float16, not torch.float32"),
        (lambda y, s: [y[:4], s], "shape [4, 40]"),
        (lambda y, s: [y, s * torch.inf], "not finite"),
        (lambda y, s: [y], "1 results, not 2"),
    ],
)
def test_wrong_results(change: Callable[..., list[Any]], said: str) -> None:
    y, s = interpret(record_text(TEXT), given())
    assert said in Judge(TEXT, given()).wrong(change(y, s))


def test_where_torch_overflows_not_everything_is_right() -> None:
    text = TEXT.replace("    fd.add_output(y)\n", "")
    x, w = (300 * t for t in given())
    exact = (x.double() @ w.double().t()).sum().float()
    assert not interpret(record_text(text), [x, w])[0].isfinite()
    judge = Judge(text, [x, w])
    assert judge.wrong([exact]) == ""
    assert "beyond the limit" in judge.wrong([exact + 10 * exact.abs()])


OVERFLOWS = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Half, is_cpu=False)
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Half, is_cpu=False)
    y = fd.ops.linear(x, w)
    fd.add_output(y)
"""


def test_elements_that_torch_has_no_number_for() -> None:
    """They may be inf, others not: rows that are a thousand times as large leave 16 bits."""
    x, w = given()
    x[::2] *= 1000
    w *= 100
    (y,) = interpret(record_text(OVERFLOWS), [x, w])
    finite = y.isfinite()
    assert finite[1::2].all() and not finite[::2].all()
    judge = Judge(OVERFLOWS, [x, w])
    assert judge.wrong([y]) == ""
    y[1, 0] = torch.inf
    assert judge.wrong([y]) == "result 0: not finite"
    assert judge.wrong([y.roll(1, 0)]) == "result 0: not finite"
