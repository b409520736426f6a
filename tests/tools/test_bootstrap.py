from __future__ import annotations

import fcntl
import json
import os
import re
import sys
from pathlib import Path

import bootstrap
import interpreters
import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Python but the running one: bin/ on PATH, home/ for pyenv."""
    for name in ("bin", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PYENV_ROOT", raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    return tmp_path


def script(path: Path, body: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def python(path: Path, version: str, ensurepip: bool = True) -> str:
    probe = {"version": version, "exe": str(path), "ensurepip": ensurepip}
    return script(path, f"echo '{json.dumps(probe)}'")


def find(machine: Path, *versions: str) -> str:
    return str(interpreters.find_python(versions, machine / ".venv", None)["exe"])


def test_packages_that_are_checked_are_those_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]

    def names(requirements: list[str]) -> set[str]:
        found = {re.split(r"[<>=; ]", r)[0] for r in requirements}
        return found - {"nvidia-cuda-cuobjdump", "nvidia-cuda-nvdisasm"}  # programs, no modules

    assert set(interpreters.RUNTIME.values()) == names(project["dependencies"])
    tests = interpreters.PYTEST | interpreters.LINT
    assert set(tests.values()) == names(extras["test"])
    assert set(interpreters.OPTIONAL.values()) == names(extras["nvfuser"])


def test_constraints_are_exact_and_name_no_address() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pin = re.compile(r"[a-z0-9.-]+==[a-z0-9.]+( ; [a-z_]+ [<>=]+ '[a-z0-9_.*]+'.*)?")
    assert [x for x in lines if not x.startswith("#") and not pin.fullmatch(x)] == []


def test_a_shim_that_does_not_start_is_passed_over(machine: Path) -> None:
    script(machine / "bin/python3.12", "exit 127")
    script(machine / "bin/python3", "exit 127")
    real = python(machine / "home/.pyenv/versions/3.12.1/bin/python", "3.12.1")
    assert find(machine, "3.12", "3.10") == real


def test_the_newest_patch_release_under_pyenv_is_taken(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYENV_ROOT", str(machine / "pyenv"))
    for version in ("3.12.9", "3.12.10", "3.11.7"):
        python(machine / f"pyenv/versions/{version}/bin/python", version)
    assert find(machine, "3.12") == str(machine / "pyenv/versions/3.12.10/bin/python")


def test_the_first_version_is_preferred_wherever_it_is(machine: Path) -> None:
    python(machine / "bin/python3.10", "3.10.4")
    real = python(machine / "home/.pyenv/versions/3.12.1/bin/python", "3.12.1")
    assert find(machine, "3.12", "3.10") == real


def test_the_environment_itself_is_no_candidate(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python(machine / ".venv/bin/python3.12", "3.12.1")
    monkeypatch.setenv("PATH", str(machine / ".venv/bin"))
    with pytest.raises(interpreters.SetupError):
        find(machine, "3.12")


def test_no_python_says_what_was_found_and_what_to_do(machine: Path) -> None:
    bare = python(machine / "bin/python3.12", "3.12.3", ensurepip=False)
    other = python(machine / "bin/python3", "3.11.2")
    with pytest.raises(interpreters.SetupError) as caught:
        find(machine, "3.12", "3.10")
    assert str(caught.value) == (
        "no Python 3.12 or 3.10 was found on PATH, under pyenv or through uv.\n"
        f"found: 3.11.2 at {other}; 3.12.3 at {bare}\n"
        "Do one of:\n"
        "    apt-get install python3.12-venv   (that Python has no ensurepip)\n"
        "    pyenv install 3.12\n"
        "    uv python install 3.12   (python3 -m pip install --user uv)\n"
        "    apt-get install python3.12 python3.12-venv   (Ubuntu 24.04; Debian 12 has 3.11)\n"
        "    make test PYTHON=/path/to/python   (one that has the packages already)\n"
        "    WSCHED_NO_NVFUSER=1 make test   (3.11 and 3.13 do, without nvFuser)\n"
        "and run the same command again."
    )


def test_a_chosen_interpreter_is_told_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(interpreters.NEEDS, "demo", {"json": "json", "no.such": "no-such"})
    monkeypatch.setattr(interpreters, "OPTIONAL", {"neither": "neither-dist"})
    monkeypatch.setenv("WSCHED_PYTHON", sys.executable)
    assert bootstrap.main(["--need", "demo"]) == 1
    out, err = capsys.readouterr()
    version = ".".join(map(str, sys.version_info[:3]))
    assert out == (
        f"[setup] using {sys.executable} (Python {version}) as it is; nothing is installed\n"
        "[setup] going on without neither-dist\n"
    )
    assert err == f"error: {sys.executable} lacks what `make demo` needs: no-such\n"


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("3.9.1", "{0} is Python 3.9.1; wsched needs 3.10 or later"),
        ("", "WSCHED_PYTHON={0} does not start"),
    ],
)
def test_a_chosen_interpreter_may_be_refused(machine: Path, version: str, text: str) -> None:
    path = machine / "bin/python3"
    chosen = python(path, version) if version else script(path, "exit 127")
    with pytest.raises(interpreters.SetupError) as caught:
        interpreters.check_interpreter(chosen, "test")
    assert str(caught.value) == text.format(chosen)


@pytest.fixture
def environment(tmp_path: Path) -> bootstrap.Environment:
    python(tmp_path / ".venv/bin/python", "3.12.1")
    return bootstrap.Environment(tmp_path / ".venv", nvfuser=True)


def test_a_stamp_holds_for_its_inputs_and_folder(
    environment: bootstrap.Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert environment.current() is None
    environment.write_stamp("")
    assert environment.current() is not None
    moved = environment.venv.rename(environment.venv.with_name("moved"))
    assert bootstrap.Environment(moved, nvfuser=True).current() is None
    moved.rename(environment.venv)
    monkeypatch.setattr(bootstrap, "INPUTS", ("constraints.txt",))
    assert environment.current() is None


def test_a_half_written_stamp_is_none(environment: bootstrap.Environment) -> None:
    environment.stamp.write_text('{"key": ')
    assert environment.current() is None


def test_an_environment_without_nvfuser_serves_only_who_does_without(tmp_path: Path) -> None:
    python(tmp_path / ".venv/bin/python", "3.12.1")
    without = bootstrap.Environment(tmp_path / ".venv", nvfuser=False)
    without.write_stamp("WSCHED_NO_NVFUSER is set")
    assert without.current() is not None
    assert bootstrap.Environment(tmp_path / ".venv", nvfuser=True).current() is None


@pytest.mark.parametrize(
    ("need", "note", "variable", "wanted"),
    [
        ("lint", "left out", "", False),
        ("lint", "", "", True),
        ("test", "left out", "", True),
        ("test", "left out", "0", True),
        ("test", "", "1", False),
    ],
)
def test_who_wants_nvfuser(
    environment: bootstrap.Environment, monkeypatch: pytest.MonkeyPatch,
    need: str, note: str, variable: str, wanted: bool,
) -> None:  # fmt: skip
    """A check of the text brings no 7 GB into an environment that was made without."""
    monkeypatch.setenv("WSCHED_NO_NVFUSER", variable)
    assert bootstrap.wants_nvfuser(environment.venv, need) is (variable != "1")  # nothing is there
    bootstrap.Environment(environment.venv, nvfuser=not note).write_stamp(note)
    assert bootstrap.wants_nvfuser(environment.venv, need) is wanted


def test_an_interrupted_set_up_leaves_no_stamp(
    environment: bootstrap.Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: bootstrap.Environment, uv: str | None) -> str:
        raise KeyboardInterrupt

    environment.write_stamp("")
    monkeypatch.setattr(bootstrap.Environment, "fill", interrupt)
    monkeypatch.setattr(bootstrap, "INPUTS", ("constraints.txt",))
    with pytest.raises(KeyboardInterrupt):
        bootstrap.set_up(environment, again=False)
    assert not environment.stamp.exists()


def test_a_half_installed_package_is_forgotten(environment: bootstrap.Environment) -> None:
    packages = environment.venv / "lib/python3.12/site-packages"
    for name in ("half-1.0.dist-info", "whole-1.0.dist-info"):
        (packages / name).mkdir(parents=True)
    (packages / "whole-1.0.dist-info/INSTALLER").write_text("pip")
    environment.forget_halves()
    assert [p.name for p in packages.iterdir()] == ["whole-1.0.dist-info"]


def test_going_on_without_nvfuser_is_said_each_time(
    environment: bootstrap.Environment,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(bootstrap.Environment, "install", lambda *args: True)
    monkeypatch.setattr(bootstrap, "NVFUSER_GIB", 1 << 30)
    for _ in range(2):
        bootstrap.set_up(environment, again=False)
        last = capsys.readouterr().out.splitlines()[-1]
        said = r"\[setup\] going on without nvFuser: \d+ GiB free on disk, 1073741824 needed"
        assert re.fullmatch(said, last)


def test_the_lock_keeps_a_second_set_up_out(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with bootstrap.locked(path):
        other = os.open(path, os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)
