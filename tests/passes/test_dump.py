from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.kernel.text import parse_kernel, print_kernel
from passes.dump import Dumper, DumpSettingError, dump_folder, dumper_from_environment
from passes.options import LoweringOptions
from passes.pipeline import PASSES, run_passes
from tests.lowering.nest.kernels import SMALL, lowered, tile_level

NAMES = ("lower", *(run.__name__ for run in PASSES), "cuda", "ptx", "sass")


def dump(setting: str, folder: Path, name: str = "cooperative") -> list[Path]:
    """The files that a lowering writes."""
    environment = {"WSCHED_DUMP": setting, "WSCHED_DUMP_DIR": str(folder)}
    dumper = dumper_from_environment(name, NAMES, environment)
    run_passes(tile_level(name), LoweringOptions(), dumper)
    return dumper.files if dumper else []


@pytest.mark.sampled
@pytest.mark.parametrize("name", SMALL)
def test_every_dump_is_the_kernel_of_its_step(name: str, tmp_path: Path) -> None:
    files = dump("all", tmp_path, name)
    assert [f.name for f in files] == [
        f"{i:02d}_{step.name}.ir" for i, step in enumerate(lowered(name))
    ]
    for file, step in zip(files, lowered(name), strict=True):
        assert file.parent == tmp_path / name
        assert parse_kernel(file.read_text()) == step.kernel


def test_head_says_what_changed(tmp_path: Path) -> None:
    files = {f.name.partition("_")[2]: f.read_text() for f in dump("all", tmp_path)}
    assert files["expect_tx.ir"].startswith(
        f"# cooperative after expect_tx\n# {LoweringOptions()}\nkernel "
    )
    assert files["order_pingpong.ir"].startswith(
        f"# cooperative after order_pingpong (unchanged)\n# {LoweringOptions()}\n"
    )


def test_some_passes_keep_their_numbers(tmp_path: Path) -> None:
    files = dump(" lower, simplify ,, cuda", tmp_path)
    assert [f.name for f in files] == ["00_lower.ir", f"{len(PASSES):02d}_simplify.ir"]


def test_a_name_that_no_file_system_takes(tmp_path: Path) -> None:
    names = [f"matmul_{'float_' * 60}{end}" for end in "ab"]
    folders = [dump_folder(tmp_path, name) for name in names]
    for folder in folders:
        folder.mkdir()
    assert folders[0] != folders[1] and folders[0].name.startswith("matmul_float_float_")
    assert dump_folder(tmp_path, "matmul") == tmp_path / "matmul"


def test_unset_is_silent(tmp_path: Path) -> None:
    assert dump("", tmp_path) == dump(" , ", tmp_path) == []
    assert dumper_from_environment("k", NAMES, {}) is None
    assert list(tmp_path.iterdir()) == []


def test_default_folder() -> None:
    dumper = dumper_from_environment("k", NAMES, {"WSCHED_DUMP": "ptx"})
    assert dumper is not None
    assert dumper.folder == Path("wsched-dump/k")


def test_other_stages_count_whether_asked_for_or_not(tmp_path: Path) -> None:
    dumper = Dumper(frozenset({"cuda", "sass"}), tmp_path)
    dumper.text("loops", "txt", lambda: "loops")
    dumper.step("lower", lowered("cooperative")[0].kernel, LoweringOptions())
    for kind in ("cuda", "ptx", "sass"):
        dumper.text(kind, kind, partial("code of {}".format, kind))
    assert [f.name for f in dumper.files] == ["02_cuda.cuda", "04_sass.sass"]
    assert dumper.files[1].read_text() == "code of sass"


def test_what_nobody_asked_for_is_not_made(tmp_path: Path) -> None:
    def expensive() -> str:
        raise AssertionError("made")

    Dumper(frozenset({"simplify"}), tmp_path).text("sass", "sass", expensive)


def without_tool() -> str:
    raise UnsupportedError("disassembling without nvdisasm", "nvdisasm")


def test_all_goes_on_without_a_tool(tmp_path: Path) -> None:
    dumper = Dumper(frozenset({"all"}), tmp_path)
    dumper.text("sass", "sass", without_tool)
    dumper.text("loops", "txt", lambda: "loops")
    assert dumper.missing == [
        "sass: disassembling without nvdisasm is not supported; supported: nvdisasm"
    ]
    assert [f.name for f in dumper.files] == ["01_loops.txt"]


def test_a_stage_asked_for_by_name_needs_its_tool(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as error:
        Dumper(frozenset({"sass"}), tmp_path).text("sass", "sass", without_tool)
    assert error.value.what == "disassembling without nvdisasm"


def test_a_word_that_is_no_stage() -> None:
    with pytest.raises(DumpSettingError) as error:
        dumper_from_environment("k", ("one", "two"), {"WSCHED_DUMP": "two,three"})
    assert str(error.value) == (
        "WSCHED_DUMP=two,three: 'three' is no stage; use a comma-separated list of: all, one, two"
    )


@pytest.mark.sampled
@pytest.mark.parametrize("name", SMALL)
def test_text_reads_back_after_every_pass(name: str) -> None:
    for step in lowered(name):
        assert parse_kernel(print_kernel(step.kernel)) == step.kernel
