"""What is told of machine, driver and versions."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

import wsched
from wsched.bench.method import environment as module
from wsched.bench.method.environment import (
    commit,
    cpu_name,
    driver_version,
    environment,
    version_text,
    versions,
)


def test_all_of_it() -> None:
    found = environment({"name": "NVIDIA H200", "sms": 132})
    assert list(found) == [
        "date", "host", "gpu", "driver", "cuda_driver", "cuda_runtime", "python", "wsched",
        "versions",
    ]  # fmt: skip
    assert datetime.fromisoformat(found["date"]).utcoffset() == timedelta(0)
    assert found["gpu"] == {"name": "NVIDIA H200", "sms": 132}
    assert found["wsched"]["version"] == wsched.__version__
    assert found["host"]["cpu"]


def test_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = {"torch": ["torch"], "nvfuser_direct": ["nvfuser-cu128-torch210"]}
    installed = {"torch": "2.10.0", "nvfuser-cu128-torch210": "0.2.36", "cuda-bindings": "12.9.4"}

    def version(name: str) -> str:
        if name not in installed:
            raise module.metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(module.metadata, "packages_distributions", lambda: owners)
    monkeypatch.setattr(module.metadata, "version", version)
    specs = {"triton": module.importlib.util.find_spec("json"), "cutlass": None}
    monkeypatch.setattr(module.importlib.util, "find_spec", specs.__getitem__)
    assert versions() == {
        "torch": "2.10.0",
        "triton": "unknown",
        "nvfuser": "0.2.36",
        "cutlass": None,
        "cuda-bindings": "12.9.4",
    }


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    command = ["git", "-C", str(folder), *identity, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_commit_of_the_own_checkout_only(tmp_path: Path) -> None:
    package, installed = tmp_path / "wsched", tmp_path / "site" / "wsched"
    for folder in (package, installed):
        folder.mkdir(parents=True)
        (folder / "x.py").touch()
    assert commit(package) == {"commit": None, "changed": None}
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "--no-verify", "-m", "x")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert commit(package) == {"commit": head, "changed": False}
    assert commit(installed) == {"commit": None, "changed": None}
    (package / "x.py").write_text("1")
    assert commit(package) == {"commit": head, "changed": True}


def test_cpu_name(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: Xeon 8480\nmodel name\t: Xeon 8480\n")
    assert cpu_name(info) == "Xeon 8480"


@pytest.mark.parametrize("told", ["", "arm"])
def test_a_processor_without_a_name(
    told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Is what the system calls it, or its architecture; there may be a file that says no more."""
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nBogoMIPS\t: 2000.00\n")
    monkeypatch.setattr(module.platform, "processor", lambda: told)
    monkeypatch.setattr(module.platform, "machine", lambda: "aarch64")
    assert cpu_name(info) == cpu_name(tmp_path / "none") == (told or "aarch64")


def test_driver_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "version"
    monkeypatch.setattr(module, "_output", lambda command: "580.159.03\n580.159.03")
    assert driver_version(file) == "580.159.03"
    monkeypatch.setattr(module, "_output", lambda command: None)
    assert driver_version(file) is None
    file.write_text("NVRM version: NVIDIA UNIX Open Kernel Module  580.95.05  Release Build\n")
    assert driver_version(file) == "580.95.05"


def test_version_text() -> None:
    assert (version_text(13000), version_text(12080)) == ("13.0", "12.8")


@pytest.mark.parametrize("found", [None, "12.8"])
def test_the_cuda_that_torch_was_built_with(
    found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = SimpleNamespace(version=SimpleNamespace(cuda=found))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert module._cuda_runtime() == found
    monkeypatch.setitem(sys.modules, "torch", None)  # as Python has it that there is none
    assert module._cuda_runtime() is None
