"""What the command line shows: extents, explanations, dumps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.kernel.parse import parse_kernel
from passes.pipeline import PASSES
from tests.batches import batched
from tests.lists import side_by_side
from tests.schedules import definition
from wsched.front import explain
from wsched.front.explain import explain_definition
from wsched.front.known import import_fusion
from wsched.front.sizes import DEFAULT, Extents, extents_for, kernel_for
from wsched.importer.input_error import InputError
from wsched.run.counts import LARGEST
from wsched.run.made import NVGPU

FIXED = definition().replace("shape=[-1, -1]", "shape=[96, -1]", 1)


def test_parse() -> None:
    assert Extents.parse("256X512x64") == Extents(256, 512, 64)
    assert str(Extents(1, 2, 3)) == "1x2x3"
    assert Extents.parse("8x1x2x3") == Extents(1, 2, 3, batch=8)
    assert str(Extents(1, 2, 3, batch=8)) == "8x1x2x3"
    assert Extents.parse("8x4x1x2x3") == Extents(1, 2, 3, batch=8, heads=4)
    assert str(Extents(1, 2, 3, heads=4)) == "1x4x1x2x3"


def test_a_batch() -> None:
    fusion = import_fusion(batched())
    assert extents_for(fusion) == DEFAULT
    assert extents_for(fusion, Extents(8, 8, 8, batch=3)).problem(fusion).batch == 3
    with pytest.raises(InputError) as error:
        extents_for(import_fusion(definition()), Extents(8, 8, 8, batch=3))
    assert str(error.value) == "a batch of 3 in 3x8x8x8, the definition has no batch dimension"


@pytest.mark.parametrize(
    "text", ["12", "1x2", "1x2x3x4x5x6", "axbxc", "1x-2x3", "1x2x", "\u0661x2x3"]
)
def test_parse_refuses(text: str) -> None:
    with pytest.raises(ValueError) as error:
        Extents.parse(text)
    assert str(error.value) == (
        f"{text!r} is no problem size; write MxNxK, for example 256x512x64, BxMxNxK or BxHxMxNxK"
    )


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
    whole = explain_definition(definition(), "a GPU", lambda f: extents.problem(f, 8))
    found, kernel = whole.kernel, kernel_for(definition(), extents, 8)
    assert found is not None and whole.route == "wsched"
    assert (found.kernel, found.threads) == (kernel.kernel.name, kernel.kernel.threads)
    assert found.grid == 8 and found.params == kernel.params.to_dict()
    lines = str(whole).splitlines()
    assert lines[0] == f"512x1024x256 on 8 multiprocessors: {kernel.kernel.name}"
    assert all(f"  {line}" in lines for line in (*found.relation, *str(kernel.params).splitlines()))
    assert "route on a GPU: wsched's kernel" in lines


ROW_SUMS = definition("f32", "f32").replace("(x, w)", "(x, w)\n    d = fd.ops.sum(d, dims=[1])")


@pytest.mark.parametrize("installed", [True, False])
def test_explanation_of_a_definition_without_a_kernel(
    installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(explain, "find_spec", lambda name: name == "torch" or installed or None)
    monkeypatch.setattr(explain, "rebuild", lambda recorded: None)
    found = explain_definition(ROW_SUMS, "a GPU", lambda fusion: None)  # type: ignore[arg-type]
    assert found.route == ("nvfuser" if installed else "torch")
    assert [r.what for r in found.refusals] == [
        "wsched",
        "cut",
        *([] if installed else ["nvfuser"]),
    ]
    assert found.to_dict()["kernel"] is None


def test_explanation_where_nobody_can(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(explain, "find_spec", lambda name: name == "torch" or None)
    text = ROW_SUMS.replace("fd.ops.sum", "fd.ops.frobnicate")
    with pytest.raises(UnsupportedError) as error:
        explain_definition(text, "a GPU", lambda fusion: None)  # type: ignore[arg-type]
    assert str(error.value) == (
        "line 5: the unknown operation fd.ops.frobnicate is not supported; supported: operations "
        "of nvFuser"
    )


@pytest.mark.parametrize(
    ("extents", "what"),
    [(Extents(2**31, 64, 64), "M = 2147483648"), (Extents(64, 64, 2**31 + 8), "K = 2147483656")],
)
def test_what_execute_refuses_for_its_size_is_not_promised(extents: Extents, what: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        extents.problem(import_fusion(definition()))
    assert str(error.value) == (f"{what} is not supported; supported: sizes of at most 2130706431")
    pytest.importorskip("torch")
    found = explain_definition(definition(), "a GPU", lambda f: extents.problem(f, 132))
    assert found.route != "wsched" and "at most 2130706431" in found.refusals[0].reason


@pytest.mark.parametrize("extents", [Extents(31448, 122584, 512), Extents(2**25, 128, 4096)])
def test_tensors_of_any_number_of_elements(extents: Extents) -> None:
    pytest.importorskip("torch")
    found = explain_definition(definition(), "a GPU", lambda f: extents.problem(f, 132))
    assert found.route == "wsched"


def test_what_a_launch_cannot_count_is_not_promised() -> None:
    """Its last tile would begin in front of the largest number and end behind it."""
    extents = Extents(LARGEST, 64, 64)
    pytest.importorskip("torch")
    found = explain_definition(definition(), "a GPU", lambda f: extents.problem(f, 132))
    assert found.route != "wsched"
    assert re.search(r" \* \d+ is 213070[67]\d\d\d, is not supported", found.refusals[0].reason)


KERNEL = Extents(256, 256, 128)


def no_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> str:
        raise UnsupportedError("a tool", "another", "Install it")

    monkeypatch.setattr("wsched.run.grid.compile_ptx", missing)
    monkeypatch.setattr("lowering.cuda.sass.disassemble", missing)
    monkeypatch.setattr("wsched.run.bundles.disk_cache", missing)


def test_dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stage has one file, IR parses back, and what cannot be made is named."""
    kernel = kernel_for(definition(), KERNEL)
    no_tools(monkeypatch)
    dumps = kernel.dump_all(tmp_path / "new")
    reason = "a tool is not supported; supported: another. Install it"
    assert dumps.missing == [f"ptx: {reason}", f"sass: {reason}"]
    stages = (s for s in kernel.stages() if s not in ("kernel", NVGPU))
    made = [f"{i:02d}_{s}" for i, s in enumerate(stages) if s not in ("ptx", "sass")]
    assert [p.stem for p in dumps.files] == made
    final = next(p for p in dumps.files if p.name.endswith(f"_{PASSES[-1].__name__}.ir"))
    assert parse_kernel(final.read_text()) == kernel.kernel


def test_dumps_run_the_passes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_for(definition(), KERNEL)
    no_tools(monkeypatch)
    verified = []
    monkeypatch.setattr("passes.pipeline.verify", lambda k, _: verified.append(k))
    kernel.dump_all(tmp_path)
    assert len(verified) == len(PASSES) + 1


def test_dumps_of_a_running_program_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_tools(monkeypatch)
    monkeypatch.setenv("WSCHED_DUMP", "all")
    monkeypatch.setenv("WSCHED_DUMP_DIR", str(tmp_path))
    kernel = kernel_for(definition(), KERNEL)
    dumps = kernel.dump_all(str(tmp_path / "again"))  # paths may be texts, as of save and load
    while_compiling = sorted((tmp_path / kernel.kernel.name).iterdir())
    assert [p.name for p in while_compiling] == [p.name for p in dumps.files]
    assert [p.read_text() for p in while_compiling] == [p.read_text() for p in dumps.files]
    assert any("(unchanged)" in p.read_text() for p in dumps.files)


@pytest.mark.parametrize(
    ("widths", "n", "own", "wanted"),
    [
        ((-1, -1, -1), 256, (), (85, 85, 86)),
        ((-1, -1, -1), 100, (("N1", 50),), (25, 50, 25)),
        ((64, -1, -1), 256, (), (64, 96, 96)),
        ((64, -1, -1), 65, (), (64, 0, 1)),
        ((64, -1, -1), 64, (), (64, 0, 0)),
        ((64, -1, -1), 32, (), (64, 0, 0)),
        ((64, 32, -1), 100, (), (64, 32, 4)),
        ((64, 32, -1), 8, (), (64, 32, 0)),
        ((64, 32, 8), 256, (), (64, 32, 8)),
    ],
)
def test_weights_side_by_side_share_what_is_left(
    widths: tuple[int, ...], n: int, own: tuple[tuple[str, int], ...], wanted: tuple[int, ...]
) -> None:
    """Those that the definition fixes, or the call, have these; N is what they are together."""
    found = Extents(16, n, 24, own=own).named(import_fusion(side_by_side(3, widths=widths)))
    assert tuple(found[f"N{at}"] for at in range(3)) == wanted
    assert found["N"] == sum(wanted)
    assert {found[name] for name in "BH1"} == {1} and (found["M"], found["K"]) == (16, 24)
