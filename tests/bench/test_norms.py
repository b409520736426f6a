"""Norms in front of linears: definitions, the ways that are compared, the text of a line."""

from __future__ import annotations

from typing import Any

import pytest

from wsched.bench import norms
from wsched.bench.norms import definition, main, report, run_of
from wsched.bench.problem import Shape
from wsched.front.cut.route import rest_by
from wsched.front.cut.segments import Segment

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("weight", [True, False])
def test_both_ways_compute_the_norm(weight: bool) -> None:
    torch.manual_seed(0)
    x, w, g = (torch.randn(s).bfloat16() for s in ((40, 64), (24, 64), (64,)))
    inputs = (x, w, g) if weight else (x, w)
    text, wide = definition(Shape(40, 24, 64), weight), x.double()
    wanted = wide / (wide.pow(2).mean(1, keepdim=True) + 1e-5).sqrt()
    wanted = (wanted * g.double() if weight else wanted) @ w.double().T
    for behind in (False, True):
        (found,) = run_of(text, inputs, behind)(inputs)
        assert (found.double() - wanted).norm() < 0.004 * wanted.norm()


def test_what_wsched_has_no_kernel_for_is_torchs() -> None:
    torch.manual_seed(0)
    x, w = (torch.randint(-2, 3, s).bfloat16() for s in ((40, 64), (24, 64)))
    text = definition(Shape(40, 24, 64), False)
    text += "    z = fd.ops.cumsum(x, 0)\n    fd.add_output(z)\n"
    _, found = run_of(text, (x, w), False)((x, w))
    assert torch.equal(found, x.cumsum(0))


def test_nvfuser_is_for_a_gpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What wsched has no kernel for is given to torch where the inputs are on the CPU."""
    asked: list[str] = []

    def watched(segment: Segment, device: Any) -> tuple[str, Any]:
        runner, run = rest_by(segment, device)
        asked.append(runner)
        return runner, run

    monkeypatch.setattr(norms, "rest_by", watched)
    inputs = [torch.ones(s, dtype=torch.bfloat16) for s in ((40, 64), (24, 64))]
    text = definition(Shape(40, 24, 64), False)
    text += "    z = fd.ops.cumsum(x, 0)\n    fd.add_output(z)\n"
    run_of(text, inputs, False)(inputs)
    assert set(asked) == {"torch"}


def test_report() -> None:
    us = {"nvfuser": 110.0, "first": 103.0, "behind": 101.0, "folded": 100.0}
    assert report({"shape": "1x2x3", "us": us}) == (
        "1x2x3              nvfuser    110.0  first    103.0  behind    101.0  folded    100.0 "
        "us; of the best that normalises first: behind 1.020  folded 1.030"
    )


def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as status:
        main(["--shapes", "64x64x64"])
    assert status.value.code == 2
    told = "python -m wsched.bench.norms here (torch.cuda finds no GPU) is not supported; "
    assert capsys.readouterr().err == f"{told}supported: a CUDA GPU with torch\n"
