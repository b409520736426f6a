"""A kernel by way of MLIR has another cubin, and nothing else is different."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from lowering.cuda.elf import kernel_info
from lowering.ground.errors import UnsupportedError
from tests.schedules import SCHEDULES, definition
from wsched import through_mlir
from wsched.importer import build_fusion, record_text
from wsched.run.compiled import compile_fusion
from wsched.run.mlir import ThroughMlir
from wsched.run.watched import VARIABLE

KERNEL = compile_fusion(build_fusion(record_text(definition())), SCHEDULES["coop_128x64"])


def test_it_is_the_same_kernel() -> None:
    other = through_mlir(KERNEL)
    assert (other.kernel, other.plan, other.params) == (KERNEL.kernel, KERNEL.plan, KERNEL.params)
    assert isinstance(other.alone, ThroughMlir)


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_its_cubin_has_the_kernel() -> None:
    other = through_mlir(KERNEL)
    assert list(kernel_info(other.compiled.cubin)) == [KERNEL.kernel.name]
    assert other.compiled.cubin != KERNEL.compiled.cubin
    assert other.resources.clean


def test_what_mlir_cannot_say_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    made = compile_fusion(build_fusion(record_text(definition())), SCHEDULES["coop_128x128"])
    with pytest.raises(UnsupportedError, match=r"mbarrier\.wait with a bound in MLIR is not supp"):
        through_mlir(made).dump("mlir")


def test_on_the_cpu_the_machine_runs_it() -> None:
    torch = pytest.importorskip("torch")
    x, w = (torch.randn(n, 64, dtype=torch.bfloat16) for n in (128, 64))
    assert torch.equal(*(k(x, w)[0] for k in (KERNEL, through_mlir(KERNEL))))
