"""What the command line shows: extents, explanations, dumps."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowering.errors import UnsupportedError
from lowering.ir.parse import parse_kernel
from tests.schedules import definition
from wsched.api import import_fusion
from wsched.arguments import InputError
from wsched.compiled import CompiledFusion
from wsched.inspect import Extents, explain, extents_for, kernel_for, write_dumps

FIXED = definition().replace("shape=[-1, -1]", "shape=[96, -1]", 1)


def test_parse() -> None:
    assert Extents.parse("256X512x64") == Extents(256, 512, 64)
    assert str(Extents(1, 2, 3)) == "1x2x3"


@pytest.mark.parametrize("text", ["12", "1x2", "1x2x3x4", "axbxc", "1x-2x3", "1x2x", "\u0661x2x3"])
def test_parse_refuses(text: str) -> None:
    with pytest.raises(ValueError) as error:
        Extents.parse(text)
    assert str(error.value) == (f"{text!r} is no problem size; write MxNxK, for example 256x512x64")


def test_extents_come_from_the_definition() -> None:
    assert extents_for(import_fusion(definition())) == Extents(256, 256, 512)
    assert extents_for(import_fusion(FIXED)) == Extents(96, 256, 512)
    assert extents_for(import_fusion(FIXED), Extents(96, 8, 8)) == Extents(96, 8, 8)


def test_extents_against_the_definition() -> None:
    with pytest.raises(InputError) as error:
        extents_for(import_fusion(FIXED), Extents(32, 64, 64))
    assert str(error.value) == "M is 32 in 32x64x64, the definition says 96"


def test_explanation_agrees_with_the_kernel() -> None:
    extents = Extents(512, 1024, 256)
    found, kernel = explain(definition(), extents, 8), kernel_for(definition(), extents, 8)
    assert (found.kernel, found.threads) == (kernel.kernel.name, kernel.kernel.threads)
    assert found.grid == 8 and found.params == kernel.params.to_dict()
    lines = str(found).splitlines()
    assert lines[0] == f"512x1024x256 on 8 multiprocessors: {kernel.kernel.name}"
    assert all(f"  {line}" in lines for line in (*found.relation, *str(kernel.params).splitlines()))


def test_dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stage has a file, IR parses back, and what cannot be made is named."""
    kernel = kernel_for(definition(), Extents(256, 256, 128))
    real = CompiledFusion.dump

    def no_tools(self: CompiledFusion, stage: str) -> str:
        if stage in ("ptx", "sass"):
            raise UnsupportedError("a tool", "another", "Install it")
        return real(self, stage)

    monkeypatch.setattr(CompiledFusion, "dump", no_tools)
    dumps = write_dumps(kernel, tmp_path / "new")
    reason = "a tool is not supported; supported: another. Install it"
    assert dumps.missing == (f"ptx: {reason}", f"sass: {reason}")
    assert [p.stem[3:] for p in dumps.files] == [*kernel.stages()][:-2]
    final = next(p for p in dumps.files if p.name.endswith("_kernel.ir"))
    assert parse_kernel(final.read_text()) == kernel.kernel
