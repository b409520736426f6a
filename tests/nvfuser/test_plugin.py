"""The heuristic plugin: compiled, loaded by a C++ program, and asked."""

from __future__ import annotations

import ctypes
import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from lowering.ground.errors import InternalError, UnsupportedError
from wsched.choose.problem import Problem
from wsched.cli.app import app
from wsched.fusion import DataType
from wsched.nvfuser import plugin as module
from wsched.nvfuser.choice import choose_params
from wsched.nvfuser.params import to_fields
from wsched.nvfuser.plugin import build_plugin, headers
from wsched.nvfuser.plugin_source import plugin_source

HERE = Path(__file__).resolve().parent

SHAPES = (
    (128, 512, 512), (4096, 3584, 512), (4096, 4096, 4096), (16, 4608, 3584), (8192, 28672, 4096),
    (512, 8192, 8192),
)  # fmt: skip

Ask = Callable[[str], list[int]]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs()
    folder = tmp_path_factory.mktemp("plugin")
    return build_plugin(folder, "1.2.3", folder / "libplugin.so").path


@pytest.fixture(scope="module")
def ask(library: Path) -> Ask:
    """Ask the library ``m n k batch precision im in ik`` in a C++ program."""
    program = library.parent / "ask"
    source, api = HERE / "standin" / "ask.cpp", f"-I{headers()}"
    subprocess.run(["g++", "-std=c++17", api, source, "-o", program, "-ldl"], check=True)

    def answer(text: str) -> list[int]:
        command = [str(program), str(library)]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        return list(map(int, done.stdout.split()))

    return answer


def needs() -> None:
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    try:
        headers()
    except UnsupportedError as e:
        pytest.skip(str(e))


def wanted(m: int, n: int, k: int, result: DataType = DataType.BFloat16) -> list[int]:
    """wsched's choice in the order in which the C++ program prints it."""
    params = choose_params(Problem(m, n, k, DataType.BFloat16, (result,), 132))
    f = to_fields(params)
    stages, gap = f["circular_buffer_options"][2:]
    order = int(f["cta_order"] == "column_major")
    tiles = [*f["cta_tile"], *f["warp_tile"], *f["mma_macro"], *f["cluster_dims"], 1]
    return [*tiles, f["splitk_factor"], stages, gap, f["grid_traversal_factor"][0], order, 0, 1]


@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_the_choice_is_pythons(m: int, n: int, k: int, ask: Ask) -> None:
    assert ask(f"{m} {n} {k} 1 TST 64 256 16") == wanted(m, n, k)
    assert ask(f"{m} {n} {k} 1 HSS 64 256 16") == wanted(m, n, k, DataType.Float)


def test_the_choice_is_pythons_at_random_shapes(ask: Ask) -> None:
    draw = random.Random(0)
    asked = [tuple(8 * draw.randint(1, 1000) for _ in range(3)) for _ in range(300)]
    answers = ask("".join(f"{m} {n} {k} 1 TST 64 256 16\n" for m, n, k in asked))
    own = [wanted(*shape) for shape in asked]
    assert [answers[i : i + 19] for i in range(0, len(answers), 19)] == own


def test_a_batch_has_as_many_tiles(ask: Ask) -> None:
    alone, batch = ask("128 512 512 1 TST 64 256 16"), ask("128 512 512 32 TST 64 256 16")
    assert alone[:3] != batch[:3] == wanted(4096, 512, 512)[:3]


@pytest.mark.parametrize(
    "question", ["64 64 64 1 QSS 64 256 32", "64 64 64 1 TST 16 8 16", "64 0 64 1 TST 64 8 16"]
)
def test_what_wsched_does_not_know_stays_nvfusers(question: str, ask: Ask) -> None:
    """fp8 operands, an instruction of Ampere, nothing to compute: the header's defaults."""
    instruction = list(map(int, question.split()[-3:]))
    assert ask(question) == [
        128, 128, 32, 64, 64, 32, *instruction, 1, 1, 1, 1, 2, 1, 0, 0, 1, 1,
    ]  # fmt: skip


def test_the_library_says_what_it_is(library: Path) -> None:
    version = ctypes.CDLL(str(library)).wsched_plugin_version
    version.restype = ctypes.c_char_p
    assert version() == b"1.2.3"


def test_what_python_puts_in(golden: Any) -> None:
    assert plugin_source("1.2.3").partition("// nvFuser's heuristic")[0] == golden


def test_a_smaller_device() -> None:
    assert "constexpr double SMS = 78;" in plugin_source("1.2.3", 78)


@pytest.fixture
def tools() -> None:
    needs()


@pytest.mark.slow
def test_built_once(tools: None, tmp_path: Path) -> None:
    first, second = (build_plugin(tmp_path, "0") for _ in range(2))
    assert (first.built, second.built, first.path) == (True, False, second.path)
    assert [p.name for p in tmp_path.iterdir()] == [first.path.name]
    assert build_plugin(tmp_path, "1").path != first.path


@pytest.mark.slow
def test_command(tools: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WSCHED_CACHE_DIR", str(tmp_path))
    done = CliRunner().invoke(app, ["plugin", "build"])
    (path,) = (tmp_path / "plugin").iterdir()
    assert (done.exit_code, done.stdout) == (
        0,
        f"export NVFUSER_MATMUL_HEURISTIC_PLUGIN={path}\n",
    )
    output = tmp_path / "other place" / "x.so"
    done = CliRunner().invoke(app, ["plugin", "build", "--json", "--output", str(output)])
    said = json.loads(done.stdout)
    assert (done.exit_code, said["path"], said["sms"]) == (0, str(output), 132)
    assert said["export"] == f"export NVFUSER_MATMUL_HEURISTIC_PLUGIN='{output}'"
    assert output.is_file()


def test_a_place_that_cannot_be_written(tools: None, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    output = tmp_path / "file" / "x.so"
    done = CliRunner().invoke(app, ["plugin", "build", "--output", str(output)])
    assert done.exit_code == 2
    said = " ".join(done.stderr.replace("│", " ").split())
    assert "File exists" in said


@pytest.mark.parametrize("given", [True, False], ids=["output", "cache"])
def test_what_cannot_be_written_is_named(
    given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("wsched.nvfuser.cli.build_plugin", refused)
    monkeypatch.setenv("WSCHED_CACHE_DIR", str(tmp_path / "cache"))
    output = tmp_path / "x.so"
    done = CliRunner().invoke(app, ["plugin", "build", *(["--output", str(output)] * given)])
    said = "".join(done.stderr.replace("│", "").split())
    where = output if given else tmp_path / "cache" / "plugin"
    assert done.exit_code == 2 and f"--output:{where}:Permissiondenied" in said


def test_without_a_compiler(tools: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UnsupportedError) as error:
        build_plugin(tmp_path, "0")
    assert str(error.value) == (
        "building the plugin without a C++ compiler (no-such-compiler) is not supported; "
        "supported: a compiler of C++17 on PATH, or in CXX. Install one, for example the package "
        "g++"
    )


def test_without_nvfuser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedError) as error:
        build_plugin(tmp_path, "0")
    assert str(error.value) == (
        "building the plugin without nvFuser is not supported; supported: an environment with "
        "nvfuser_direct. Its wheel has the header of the interface"
    )


def test_an_nvfuser_without_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = SimpleNamespace(origin=str(tmp_path / "nvfuser_direct" / "__init__.py"))
    monkeypatch.setattr(module, "find_spec", lambda name: spec)
    with pytest.raises(UnsupportedError) as error:
        headers()
    assert str(error.value) == (
        "building the plugin for an nvFuser without scheduler/matmul_heuristic_plugin_api.h is not "
        "supported; supported: a wheel that has its headers"
    )


def test_a_source_that_does_not_compile(
    tools: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "plugin_source", lambda *_: "no C++")
    with pytest.raises(InternalError, match="refuses the source") as error:
        build_plugin(tmp_path, "0")
    assert list(tmp_path.iterdir()) == []
    assert "no C++" in error.value.ir  # what the compiler says


@pytest.mark.parametrize("which", ["folder", "library"])
def test_a_library_that_others_can_write(
    which: str, tools: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program loads and runs it: the folder is refused, the library made anew."""
    made = []

    def compiled(compiler: str, source: str, include: Path, path: Path) -> None:
        made.append(path)
        path.write_text("")

    monkeypatch.setattr(module, "_compile", compiled)
    folder = tmp_path / "plugin"
    path = build_plugin(folder, "0").path
    assert folder.stat().st_mode & 0o777 == 0o700
    if which == "library":
        path.chmod(0o666)
        assert build_plugin(folder, "0").built and made == [path, path]
        return
    folder.chmod(0o777)
    with pytest.raises(UnsupportedError, match="can be written by others") as error:
        build_plugin(folder, "0")
    assert str(folder) in error.value.what and "--output" in error.value.hint
    assert build_plugin(folder, "0", folder / "x.so").built


@pytest.mark.slow
def test_a_pipe_keeps_its_name(tools: None, tmp_path: Path) -> None:
    """As /dev/full and /dev/stdout do: to be replaced they would be lost to everybody."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        build_plugin(tmp_path, "0", pipe)
        assert os.read(reader, 4) == b"\x7fELF" and pipe.is_fifo()
    finally:
        os.close(reader)


def test_multiprocessors_that_no_gpu_has() -> None:
    done = CliRunner().invoke(app, ["plugin", "build", "--sms", "99999999999999999999"])
    assert done.exit_code == 2 and "less than or equal to 4096" in done.stderr
