"""``wsched bundle``: what it writes loads, what it says is what it has."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import wsched
from lowering.ground.errors import UnsupportedError
from lowering.target.blackwell import BLACKWELL
from lowering.target.hopper import HOPPER
from lowering.target.target import Target
from tests.schedules import definition
from wsched.choose.gpus import GPUS
from wsched.cli.app import app
from wsched.cli.bundle import _gpu
from wsched.front.schedule import Schedule
from wsched.run import bundles

pytestmark = pytest.mark.usefixtures("plain")


def invoke(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["bundle", *map(str, words)])
    return result.exit_code, result.output


@pytest.mark.slow
def test_definitions_and_schedules(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "_bundles", {})
    mine, out = tmp_path / "mine.sched", tmp_path / "model.bundle"
    Schedule.of(definition(), wsched.MatmulParams()).save(mine)
    shapes = ("--shape", "128x4096x512", "--shape", "128x4096x1024")
    code, text = invoke(file, mine, "-o", out, *shapes, "--gpu", "H100 PCIe", "--jobs", 2)
    assert code == 0, text
    *lines, last = text.splitlines()
    names = [line.rpartition(" ")[2] for line in lines]
    assert len(set(names)) == len(names) >= 2
    assert lines[0].startswith(f"{file}: ") and lines[-1].startswith(f"{mine}: ")
    wanted = f"{out}: {len(names)} kernels for NVIDIA H100 PCIe with 114 multiprocessors"
    assert last == wanted
    assert sorted(wsched.load_bundle(out)) == sorted(names)


def test_a_part_of_a_gpu(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "b"
    code, text = invoke(file, "-o", out, "--gpu", "H200", "--sms", "16")
    assert (code, text.splitlines()[-1]) == (
        0, f"{out}: 1 kernel for NVIDIA H200 with 16 multiprocessors",
    )  # fmt: skip


def test_a_gpu_that_is_not_here(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels for a B200, by the target's name or by the GPU's; they compile on any machine."""
    monkeypatch.setattr(bundles, "_bundles", {})
    shape = ("--shape", "256x512x128")
    found = []
    for words in (["--gpu", "B200"], ["--target", "sm_100a"]):
        out = tmp_path / words[1]
        code, text = invoke(file, "-o", out, *shape, *words)
        assert code == 0, text
        assert text.endswith(": 1 kernel for NVIDIA B200 with 148 multiprocessors\n")
        found.append(wsched.load_bundle(out))
        (bundle,) = (b for p, b in bundles._bundles.items() if p == out.absolute())
        assert bundle.archs == ("sm_100a",)
    assert found[0] == found[1] and "sm100a" in found[0][0]
    code, text = invoke(file, "-o", tmp_path / "b", "--gpu", "H200", "--target", "sm_100a")
    assert code == 2 and "--gpu H200 is of sm_90a" in " ".join(text.split())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["--gpu", "A100"],
            "--gpu A100 is not supported; supported: H200, H200 NVL, H100, H100 PCIe, B200",
        ),
        (["--shape", "8x8"], "'8x8' is no problem size"),
    ],
)
def test_what_is_refused(file: Path, tmp_path: Path, words: list[str], told: str) -> None:
    code, text = invoke(file, "-o", tmp_path / "b", *words)
    assert code == 2 and told in text
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("gpu", "target", "found"),
    [("B200", None, "B200"), ("B200", BLACKWELL, "B200"), ("H100 PCIe", HOPPER, "H100 PCIe")],
)
def test_the_gpu_that_is_planned_for(gpu: str, target: Target | None, found: str) -> None:
    assert _gpu(gpu, target) == GPUS[found]


@pytest.mark.parametrize(
    ("gpu", "target", "said"),
    [
        ("H200", BLACKWELL,
         "--gpu H200 is of sm_90a: --target sm_100a beside it is not supported; supported: "
         "--target sm_90a, or none"),
        ("B200", HOPPER,
         "--gpu B200 is of sm_100a: --target sm_90a beside it is not supported; supported: "
         "--target sm_100a, or none"),
        ("A100", HOPPER,
         "--gpu A100 is not supported; supported: H200, H200 NVL, H100, H100 PCIe, B200"),
    ],
)  # fmt: skip
def test_a_gpu_of_another_target(gpu: str, target: Target, said: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        _gpu(gpu, target)
    assert str(error.value) == said


def test_a_definition_without_a_kernel_is_named(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text(definition().replace("BFloat16", "Float"))
    code, text = invoke(file, other, "-o", tmp_path / "b")
    assert code == 2 and text.splitlines()[-1].startswith(f"{other}: ")
    assert not (tmp_path / "b").exists()


@pytest.mark.slow
def test_a_size_that_no_kernel_takes(file: Path, tmp_path: Path) -> None:
    """A kernel of the definition's own sizes was written in its place, and the size not named."""
    code, text = invoke(file, "-o", tmp_path / "b", "--shape", "2147483647x64x64")
    assert code == 2 and text.startswith(f"{file}: M = 2147483647 is not supported")
    assert not (tmp_path / "b").exists()


def test_what_is_not_supported_is_said_once(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text("hello(")
    code, text = invoke(other, "-o", tmp_path / "b")
    assert code == 2
    assert text == f"{other}: line 1: `hello(` is not supported; supported: Python\n"


def test_a_folder_that_is_not_there(file: Path, tmp_path: Path) -> None:
    """Said before anything is compiled, and by the name that was given."""
    code, text = invoke(file, "-o", tmp_path / "none" / "b")
    assert code == 2 and "--out" in text and "matmul" not in text
    assert "no such folder" in " ".join(text.replace("│", " ").split())


def test_a_folder_in_the_place_of_the_file(file: Path, tmp_path: Path) -> None:
    """Said before anything is compiled, too."""
    (tmp_path / "b").mkdir()
    code, text = invoke(file, "-o", tmp_path / "b", "--shape", "64x64x64")
    assert code == 2 and "--out" in text and "matmul" not in text
    assert "a folder, where a file is to be" in " ".join(text.replace("│", " ").split())
