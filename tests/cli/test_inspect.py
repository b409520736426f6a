"""What the command line shows: extents, explanations, dumps."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowering.errors import UnsupportedError
from lowering.ir.parse import parse_kernel
from lowering.pipeline import PASSES
from tests.schedules import definition
from wsched.api import import_fusion
from wsched.arguments import InputError
from wsched.compiled import STAGES
from wsched.explanation import explain_definition
from wsched.inspect import Extents, extents_for, kernel_for, write_dumps

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
    kernel = kernel_for(definition(), extents, 8)
    found = explain_definition(definition(), "a GPU", lambda f: extents.problem(f, 8)).kernel
    assert found is not None
    assert (found.kernel, found.threads) == (kernel.kernel.name, kernel.kernel.threads)
    assert found.grid == 8 and found.params == kernel.params.to_dict()
    lines = str(found).splitlines()
    assert lines[0] == f"512x1024x256 on 8 multiprocessors: {kernel.kernel.name}"
    assert all(f"  {line}" in lines for line in (*found.relation, *str(kernel.params).splitlines()))


KERNEL = Extents(256, 256, 128)


def no_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> str:
        raise UnsupportedError("a tool", "another", "Install it")

    monkeypatch.setattr("wsched.compiled.compile_ptx", missing)
    monkeypatch.setattr("lowering.cuda.sass.disassemble", missing)
    monkeypatch.setattr("wsched.compiled._cache", missing)


def test_dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stage has one file, IR parses back, and what cannot be made is named."""
    kernel = kernel_for(definition(), KERNEL)
    no_tools(monkeypatch)
    dumps = write_dumps(kernel, tmp_path / "new")
    reason = "a tool is not supported; supported: another. Install it"
    assert dumps.missing == (f"ptx: {reason}", f"sass: {reason}")
    assert [p.stem for p in dumps.files] == [f"{i:02d}_{s}" for i, s in enumerate(STAGES)][:-2]
    final = next(p for p in dumps.files if p.name.endswith(f"_{PASSES[-1].__name__}.ir"))
    assert parse_kernel(final.read_text()) == kernel.kernel


def test_dumps_run_the_passes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_for(definition(), KERNEL)
    no_tools(monkeypatch)
    verified = []
    monkeypatch.setattr("lowering.pipeline.verify", lambda k: verified.append(k))
    write_dumps(kernel, tmp_path)
    assert len(verified) == len(PASSES) + 1


def test_dumps_of_a_running_program_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_tools(monkeypatch)
    monkeypatch.setenv("WSCHED_DUMP", "all")
    monkeypatch.setenv("WSCHED_DUMP_DIR", str(tmp_path))
    kernel = kernel_for(definition(), KERNEL)
    dumps = write_dumps(kernel, tmp_path / "again")
    while_compiling = sorted((tmp_path / kernel.kernel.name).iterdir())
    assert [p.name for p in while_compiling] == [p.name for p in dumps.files]
    assert [p.read_text() for p in while_compiling] == [p.read_text() for p in dumps.files]
    assert any("(unchanged)" in p.read_text() for p in dumps.files)
