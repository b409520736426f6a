"""The cost of reductions: definitions, the text of a line, what it says without a GPU."""

from __future__ import annotations

import pytest

from wsched.bench.reductions import REDUCTIONS, definition, main, report
from wsched.front.known import import_fusion


@pytest.mark.parametrize(
    ("name", "op", "axes"),
    [("columns", "sum", ("N",)), ("rows", "sum", ("M",)), ("squares", "sum", ("M",)),
     ("amax", "max", ()), ("norm", "sum", ())],
)  # fmt: skip
def test_definitions(name: str, op: str, axes: tuple[str, ...]) -> None:
    fusion = import_fusion(definition(name))
    product, reduced = fusion.outputs
    assert (product.axes, reduced.axes) == (("M", "N"), axes)
    assert getattr(fusion.reduction(reduced.tensor), "op", "") == op


def test_all_are_tested() -> None:
    assert set(REDUCTIONS) == {"columns", "rows", "squares", "amax", "norm"}


def test_report() -> None:
    us = {"alone": 100.0, "same": 101.0, "kernel": 102.0, "whole": 105.5}
    line = report({"shape": "1x2x3", "reduction": "amax", "us": us})
    assert line == (
        "1x2x3              amax     alone    100.0 us  with its schedule +1.0%  with its parts "
        "+2.0%  and put together +5.5%"
    )


def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    with pytest.raises(SystemExit) as status:
        main(["--shapes", "64x64x64"])
    assert status.value.code == 2
    told = "python -m wsched.bench.reductions here (torch.cuda finds no GPU) is not supported; "
    assert capsys.readouterr().err == f"{told}supported: a CUDA GPU with torch\n"
