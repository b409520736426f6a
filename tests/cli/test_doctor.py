"""``wsched doctor``: what is found, what to do, and the exit status."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from lowering.ground.errors import UnsupportedError
from wsched.cli import doctor
from wsched.cli.app import app
from wsched.cli.doctor import Finding, State, findings, verdict


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache, no table and no driver, of this test's own."""
    monkeypatch.setattr(doctor, "DRIVER", tmp_path / "driver")
    monkeypatch.setenv("WSCHED_CACHE_DIR", str(tmp_path / "cubins"))
    monkeypatch.delenv("WSCHED_TUNED")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def found(name: str) -> Finding:
    return next(f for f in findings() if f.name == name)


def test_everything_that_is_looked_at() -> None:
    names = ["wsched", "NVRTC", "nvdisasm", "torch", "GPU", "nvFuser", "cubin cache"]
    everything = list(findings())
    assert [f.name for f in everything] == [*names, "tuned tables"]
    assert all(bool(f.advice) == (f.state is not State.WORKS) for f in everything)


def test_what_works_ends_with_0_and_as_json_has_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "2000")
    shown = CliRunner().invoke(app, ["doctor"])
    assert shown.exit_code == 0
    text = CliRunner().invoke(app, ["doctor", "--json"]).stdout
    data = json.loads(text)
    assert text == f"{json.dumps(data, indent=2)}\n"
    everything = list(findings())
    assert data == {"findings": [f.to_dict() for f in everything], "verdict": verdict(everything)}
    assert shown.stdout.splitlines()[-1] == data["verdict"]
    for f in everything:
        assert f"{f.state.value:>8}  {f.name}: {f.found}\n" in shown.stdout
        assert f.advice in shown.stdout


def test_a_driver_of_whose_gpu_torch_knows_nothing() -> None:
    pytest.importorskip("torch")
    doctor.DRIVER.touch()
    asked = found("GPU")
    assert (asked.state, asked.found) == (State.FAILS, "a driver, but torch.cuda finds no GPU")


def test_without_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> tuple[int, int]:
        raise UnsupportedError("compiling without NVRTC", "NVRTC 12.8 or later")

    monkeypatch.setattr(doctor, "nvrtc_version", missing)
    asked = found("NVRTC")
    assert (asked.state, asked.found) == (State.FAILS, "compiling without NVRTC")
    shown = CliRunner().invoke(app, ["doctor"])
    assert shown.exit_code == 1
    assert shown.stdout.endswith("run on the machine model, but not compiled.\n")


@pytest.mark.parametrize("module", ["torch", "nvfuser_direct"])
def test_without_what_is_optional(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    find_spec = doctor.find_spec
    monkeypatch.setattr(doctor, "find_spec", lambda n: None if n == module else find_spec(n))
    asked = found({"torch": "torch", "nvfuser_direct": "nvFuser"}[module])
    assert (asked.state, asked.found) == (State.MISSING, "not installed")


def test_an_nvfuser_of_another_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> object:
        raise ImportError("libnvfuser.so: undefined symbol: _ZN3c104cuda\nand more")

    monkeypatch.setattr(doctor, "find_spec", lambda n: object())
    monkeypatch.setattr(doctor, "import_module", broken)
    assert doctor._nvfuser() == Finding(
        "nvFuser",
        State.FAILS,
        "libnvfuser.so: undefined symbol: _ZN3c104cuda",
        "install the nvFuser that was built for this torch",
    )


@pytest.mark.parametrize(("own", "told"), [("0.2.40", "0.2.40"), ("", "of unknown version")])
def test_the_version_of_nvfuser(monkeypatch: pytest.MonkeyPatch, own: str, told: str) -> None:
    """What the module says, else the package that it is of."""
    monkeypatch.setattr(doctor, "find_spec", lambda n: object())
    monkeypatch.setattr(doctor, "import_module", lambda n: SimpleNamespace(__version__=own))
    monkeypatch.setattr(doctor.metadata, "packages_distributions", dict)
    assert doctor._nvfuser() == Finding("nvFuser", State.WORKS, told)


@pytest.mark.parametrize(
    "mode, text",
    [(0o777, "can be written by others"), (None, "is not a directory"), (0o700, ": 0 kernels")],
)
def test_the_cache(folder: Path, mode: int | None, text: str) -> None:
    cache = folder / "cubins"
    if mode is None:
        cache.write_text("")
    else:
        cache.mkdir()
        cache.chmod(mode)
    asked = found("cubin cache")
    assert str(cache) in asked.found and text in asked.found
    assert asked.state is (State.WORKS if mode == 0o700 else State.FAILS)


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def full(dir: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(doctor, "TemporaryFile", full)
    asked = found("cubin cache")
    assert asked.state is State.FAILS and asked.advice.startswith("set WSCHED_CACHE_DIR")
    assert asked.found == f"{folder}/cubins: No space left on device"
    assert not (folder / "cubins").exists()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("file/cubins", "Not a directory"),
        ("dangling", "File exists"),
        ("dangling/cubins", "File exists"),
        ("loop", "File exists"),
        ("loop/cubins", "Too many levels of symbolic links"),
        ("/proc/none", "No such file or directory"),
    ],
)
def test_a_cache_that_cannot_be_made(
    monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, why: str
) -> None:
    (folder / "file").write_text("")
    (folder / "dangling").symlink_to(folder / "nowhere")
    (folder / "loop").symlink_to(folder / "loop")
    monkeypatch.setenv("WSCHED_CACHE_DIR", str(folder / name))
    asked = found("cubin cache")
    assert (asked.state, asked.found) == (State.FAILS, f"{folder / name}: {why}")
    assert asked.advice.startswith("set WSCHED_CACHE_DIR")
    assert sorted(p.name for p in folder.iterdir()) == ["dangling", "file", "loop"]


def test_a_cache_that_is_not_there_yet(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """It works, and is not there afterwards either."""
    for name in ("a/b/cubins", "cubins"):
        monkeypatch.setenv("WSCHED_CACHE_DIR", str(folder / name))
        asked = found("cubin cache")
        assert (asked.state, asked.found) == (
            State.WORKS, f"{folder / name}: 0 kernels, 0.0 MB",
        )  # fmt: skip
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "setting, state, text",
    [
        ("0", State.MISSING, "WSCHED_TUNED=0: the cost model chooses"),
        ("typo", State.FAILS, "typo does not exist"),
        ("", State.MISSING, "none of yours; shipped: "),
    ],
)
def test_tables(monkeypatch: pytest.MonkeyPatch, setting: str, state: State, text: str) -> None:
    monkeypatch.setenv("WSCHED_TUNED", setting)
    asked = found("tuned tables")
    assert asked.state is state and asked.found.startswith(text)


def test_a_damaged_table(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    file = folder / "tuned.json"
    file.write_text("{")
    monkeypatch.setenv("WSCHED_TUNED", str(file))
    asked = found("tuned tables")
    assert asked.state is State.FAILS and asked.found.startswith(f"{file}: ")
    assert asked.advice == "mend or remove it"


@pytest.mark.parametrize(
    "names, words",
    [((), "not compiled"), (("NVRTC",), "no GPU runs them"), (("NVRTC", "GPU"), "on the GPU")],
)
def test_the_verdict(names: tuple[str, ...], words: str) -> None:
    assert words in verdict([Finding(n, State.WORKS, "") for n in names])


def test_a_home_that_cannot_be_looked_at(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    home = folder / ("x" * 300)
    monkeypatch.setenv("WSCHED_CACHE_DIR", str(home))
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    for name, path in (("cubin cache", home), ("tuned tables", home / "wsched" / "tuned.json")):
        asked = found(name)
        assert (asked.state, asked.found) == (State.FAILS, f"{path}: File name too long")
        assert asked.advice
