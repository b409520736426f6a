"""The file of a bundle: what is in it comes back, and nothing else is taken for one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lowering.cuda.bundle import Bundle, Entry, read_bundle, write_bundle
from lowering.cuda.nvrtc import Compiled, CompileError
from lowering.cuda.sealed import seal, with_header
from lowering.ground.errors import UnsupportedError

FIRST = Compiled(b"\x7fELF first", "Used 168 registers", (12, 8), 0.5)
SECOND = Compiled(b"\x7fELF 2", "", (12, 8), 0.25)
TOO_FEW = "ptxas fatal   : (C7602) Insufficient registers (128)"


def entry(source: str, made: Compiled | CompileError, arch: str = "sm_90a") -> Entry:
    return Entry(Bundle.key(source, arch), f"{source}.cu", arch, made)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A bundle of two kernels and one that does not compile."""
    refused = CompileError("c.cu", "NVRTC_ERROR_COMPILATION", TOO_FEW)
    made = [entry("a", FIRST), entry("c", refused), entry("b", SECOND)]
    write_bundle(tmp_path / "model.bundle", "0.1", "a GPU with 4 multiprocessors", made)
    return tmp_path / "model.bundle"


def test_what_is_in_it_comes_back(path: Path) -> None:
    found = read_bundle(path, "0.1")
    assert (found.version, found.gpu) == ("0.1", "a GPU with 4 multiprocessors")
    assert found.archs == ("sm_90a",)
    assert (found.find("a", "sm_90a"), found.find("b", "sm_90a")) == (FIRST, SECOND)
    assert found.find("a", "sm_100a") is None and found.find("d", "sm_90a") is None


def test_what_did_not_compile_does_not_compile(path: Path) -> None:
    with pytest.raises(CompileError) as caught:
        read_bundle(path, "0.1").find("c", "sm_90a")
    assert (caught.value.status, caught.value.log) == ("NVRTC_ERROR_COMPILATION", TOO_FEW)


def test_a_text_is_in_it_once(tmp_path: Path) -> None:
    path = tmp_path / "model.bundle"
    write_bundle(path, "0.1", "a GPU", [entry("a", FIRST), entry("a", SECOND)])
    assert read_bundle(path, "0.1").find("a", "sm_90a") == SECOND
    assert path.stat().st_mode & 0o777 == 0o600


def replaced(at: int) -> Callable[[Path], None]:
    """A change of one byte."""

    def change(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)

    return change


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def headed(header: dict[str, Any] | list[Any], rest: bytes = b"") -> Callable[[Path], None]:
    """A whole file with another header."""

    def change(path: Path) -> None:
        magic, payload = path.read_bytes()[:16], with_header(header, rest)  # type: ignore[arg-type]
        path.write_bytes(seal(magic, payload))

    return change


def nested(path: Path) -> None:
    """A header that JSON's reader cannot follow."""
    text = b"[" * 100_000
    path.write_bytes(seal(path.read_bytes()[:16], len(text).to_bytes(4, "little") + text))


def without_header(path: Path) -> None:
    path.write_bytes(seal(path.read_bytes()[:16], b"no"))


KERNEL = {"key": "a", "name": "a", "arch": "sm_90a", "nvrtc": (12, 8), "seconds": 0.5, "log": ""}


def of_one(**facts: Any) -> dict[str, Any]:
    return {"version": "0.1", "gpu": "a GPU", "kernels": [KERNEL | facts]}


STRANGE: tuple[dict[str, Any], ...] = (
    {"key": 5}, {"name": 5}, {"arch": None}, {"log": 5}, {"seconds": "x"}, {"seconds": 10**400},
    {"seconds": float("nan")}, {"seconds": -1}, {"nvrtc": ["12", "8"]}, {"nvrtc": [12, 8, 1]},
    {"nvrtc": [1.5, 2]}, {"bytes": 5.0}, {"bytes": True}, {"bytes": None},
)  # fmt: skip
OTHER = "has a header that this version cannot read"


@pytest.mark.parametrize(
    ("change", "version", "why", "supported"),
    [
        (Path.unlink, "0.1", "cannot be read (No such file or directory)",
         "a file that can be read"),
        (lambda p: p.chmod(0o620), "0.1", "can be written by others",
         "a file of your own that nobody else can write"),
        (replaced(0), "0.1", "is no bundle", "a whole file that `wsched bundle` wrote"),
        (replaced(40), "0.1", "is damaged or cut", "a whole file that `wsched bundle` wrote"),
        (replaced(-1), "0.1", "is damaged or cut", "a whole file that `wsched bundle` wrote"),
        (cut, "0.1", "is damaged or cut", "a whole file that `wsched bundle` wrote"),
        (lambda p: None, "0.2", "is of wsched 0.1, this is 0.2", "a bundle of this version"),
        (headed({"version": "0.3"}), "0.1", "is of wsched 0.3, this is 0.1",
         "a bundle of this version"),
        *((change, "0.1", OTHER, "a bundle of this version") for change in (
            headed({"kernels": []}), headed({"version": "0.1", "kernels": []}), headed([]),
            headed({"version": "0.1", "gpu": "", "kernels": 7}), headed(of_one(), b"cubin"),
            headed(of_one(bytes="5"), b"cubin"), headed(of_one(bytes=5), b"cub"),
            headed(of_one(bytes=3), b"cubin"), headed(of_one(bytes=5, nvrtc=7), b"cubin"),
            *(headed(of_one(**{"bytes": 5} | strange), b"cubin") for strange in STRANGE),
            headed(of_one(status=5)), headed(of_one(status="no", log=5)),
            headed(of_one(bytes=5) | {"gpu": None}, b"cubin"),
            headed({"version": 5}), headed({"version": None}), nested, without_header,
        )),
    ],
)  # fmt: skip
def test_what_is_refused(
    path: Path, change: Callable[[Path], None], version: str, why: str, supported: str
) -> None:
    change(path)
    with pytest.raises(UnsupportedError) as caught:
        read_bundle(path, version)
    assert str(caught.value) == (
        f"the bundle {path}, which {why}, is not supported; supported: {supported}. "
        "Write it again with `wsched bundle`"
    )


def test_a_name_with_a_nul() -> None:
    with pytest.raises(UnsupportedError) as caught:
        read_bundle(Path("a\0b"), "0.1")
    assert "cannot be read (embedded null byte)" in str(caught.value)


def test_what_is_read_is_what_was_looked_at(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another file under the name between the look and the reading would not be looked at."""
    real = os.fstat

    def looked(handle: int) -> os.stat_result:
        path.unlink(missing_ok=True)
        return real(handle)

    monkeypatch.setattr(os, "fstat", looked)
    assert read_bundle(path, "0.1").archs == ("sm_90a",)


def test_a_pipe_that_nobody_writes_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "p", 0o600)
    with pytest.raises(UnsupportedError, match="is no file"):
        read_bundle(pipe, "1")
