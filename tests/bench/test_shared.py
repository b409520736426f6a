"""Products of one operand, and batches: what is computed, the text of a line, without a GPU."""

from __future__ import annotations

import pytest

from wsched.bench.method.operands import relative_error
from wsched.bench.shared import CASES, Case, batch, front, list_of, main, report
from wsched.front.api import execute

torch = pytest.importorskip("torch")

SMALL = (
    front(40, 24, 64),
    list_of(24, (16, 8, 40), 32),
    batch(3, 24, 16, 32),
    batch(2, 16, 24, 32, shared=True),
)


@pytest.mark.parametrize("case", SMALL, ids=lambda c: c.part)
def test_the_definition_is_what_its_peers_compute(case: Case) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(s).bfloat16() for s in case.sizes]
    found = torch.cat([r.float() for r in execute(case.text, inputs)], -1)
    assert relative_error(found, case.wanted(*(t.float() for t in inputs))) < 6e-3


def test_cases() -> None:
    names = [c.name for cases in CASES.values() for c in cases()]
    assert len(set(names)) == len(names) == 10
    assert all(c.part == part for part, cases in CASES.items() for c in cases())
    assert "fronts 8192x(2x14336)x4096" in names


def test_report() -> None:
    found = {"case": "lists 1x(2+3)x4", "us": {"wsched": 100.0, "bare": 99.0, "torch": 104.5}}
    assert report(found) == (
        "lists 1x(2+3)x4                       100.0 us  bare     99.0 us (0.990)  "
        "torch    104.5 us (1.045)"
    )


def test_an_unknown_part(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as status:
        main(["--parts", "backs"])
    assert status.value.code == 2
    assert "no part is called 'backs'; there are fronts, lists, batches" in capsys.readouterr().err


def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as status:
        main([])
    assert status.value.code == 2
    told = "python -m wsched.bench.shared here (torch.cuda finds no GPU) is not supported; "
    assert capsys.readouterr().err == f"{told}supported: a CUDA GPU with torch\n"
