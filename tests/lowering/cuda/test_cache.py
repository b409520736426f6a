from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lowering.cuda import cache as cache_module
from lowering.cuda.cache import CubinCache, default_directory
from lowering.cuda.nvrtc import Compiled
from lowering.cuda.sealed import with_header
from lowering.cuda.shelf import Shelf
from lowering.ground.errors import UnsupportedError


class Compiler:
    """Counts; the cubin tells how often it was called."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, source: str, name: str, options: Sequence[str], arch: str) -> Compiled:
        self.calls += 1
        return Compiled(f"{source} {self.calls}".encode() * 50, "log", (12, 8), 0.5)


@pytest.fixture
def compiler() -> Compiler:
    return Compiler()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "cache"


def cache(
    directory: Path, compiler: Compiler, version: str = "1", limit: int = 1 << 20
) -> CubinCache:
    return CubinCache(directory, version, limit, compiler)


def files(directory: Path) -> list[Path]:
    return sorted(directory.iterdir())


@pytest.mark.parametrize(
    "payload",
    [b"", b"\x05", b"\x04\0\0\0null", b"\x02\0\0\0{} cubin", b"\xff\xff\0\0{",
     b"\x02\0\0\0\xff\xff",
     with_header({"log": "", "nvrtc": [12], "seconds": 0.5}, b""),
     with_header({"log": "", "nvrtc": [12, "x"], "seconds": 0.5}, b""),
     with_header({"log": "", "nvrtc": [12, 8], "seconds": None}, b"")],
)  # fmt: skip
def test_a_whole_file_of_something_else(
    directory: Path, compiler: Compiler, payload: bytes
) -> None:
    first = cache(directory, compiler)
    first._shelf.put(first.key("text"), payload)
    made = first.compile("text", "k.cu")
    assert compiler.calls == 1 and cache(directory, compiler).compile("text", "k.cu") == made
    assert compiler.calls == 1


def test_second_process_compiles_nothing(directory: Path, compiler: Compiler) -> None:
    first = cache(directory, compiler).compile("text", "k.cu")
    again = cache(directory, compiler)
    assert again.compile("text", "k.cu") == first
    assert again.compile("text", "k.cu") == first
    assert compiler.calls == 1


def test_memory_needs_no_file(directory: Path, compiler: Compiler) -> None:
    c = cache(directory, compiler)
    c.compile("text", "k.cu")
    files(directory)[0].unlink()
    c.compile("text", "k.cu")
    assert compiler.calls == 1


def test_key_holds_text_options_and_versions(
    directory: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    c = cache(directory, compiler)
    keys = {
        c.key("a"),
        c.key("b"),
        c.key("a", ["-G"]),
        c.key("a", arch="sm_100a"),
        cache(directory, compiler, "2").key("a"),
    }
    monkeypatch.setattr(cache_module, "nvrtc_version", lambda: (99, 0))
    keys.add(c.key("a"))
    assert len(keys) == 6


def test_directory_is_private_and_holds_no_leftovers(directory: Path, compiler: Compiler) -> None:
    c = cache(directory, compiler)
    c.compile("text", "k.cu")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert [p.name for p in files(directory)] == [f"{c.key('text')}.cubin"]


@pytest.mark.parametrize("damage", ["truncate", "flip", "magic", "empty"])
def test_damaged_file_is_replaced(directory: Path, compiler: Compiler, damage: str) -> None:
    cache(directory, compiler).compile("text", "k.cu")
    (path,) = files(directory)
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[-1] ^= 1
    elif damage == "magic":
        data[0] ^= 1
    path.write_bytes(data[: {"truncate": len(data) - 7, "empty": 0}.get(damage, len(data))])
    repaired = cache(directory, compiler).compile("text", "k.cu")
    assert compiler.calls == 2
    assert cache(directory, compiler).compile("text", "k.cu") == repaired
    assert compiler.calls == 2


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_directory_that_others_can_write_is_refused(
    directory: Path, compiler: Compiler, mode: int
) -> None:
    cache(directory, compiler).compile("text", "k.cu")
    directory.chmod(mode)
    c = cache(directory, compiler)
    with pytest.warns(RuntimeWarning) as caught:
        c.compile("text", "k.cu")
        c.compile("other", "k.cu")
    assert [str(w.message) for w in caught] == [
        f"wsched: the kernel cache {directory} can be written by others; kernels are compiled "
        "again in each process. Choose another directory with WSCHED_CACHE_DIR."
    ]
    assert compiler.calls == 3 and len(files(directory)) == 1


def test_directory_of_another_user_is_refused(
    directory: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.mkdir(parents=True, mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: os.stat(directory).st_uid + 1)
    with pytest.warns(RuntimeWarning, match="belongs to another user"):
        cache(directory, compiler).compile("text", "k.cu")
    assert files(directory) == []


def test_file_in_the_way_is_refused(directory: Path, compiler: Compiler) -> None:
    directory.parent.mkdir()
    directory.write_text("")
    with pytest.warns(
        RuntimeWarning, match=r"cannot be written \(File exists\)|is not a directory"
    ):
        cache(directory, compiler).compile("text", "k.cu")


def test_full_disk_warns_once_and_goes_on(
    directory: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    c = cache(directory, compiler)
    with pytest.warns(RuntimeWarning, match=r"cannot be written \(No space left on device\)") as w:
        c.compile("one", "k.cu")
        c.compile("two", "k.cu")
    assert len(w) == 1 and compiler.calls == 2
    assert files(directory) == []


def test_read_only_disk_is_still_read(
    directory: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache(directory, compiler).compile("text", "k.cu")

    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    c = cache(directory, compiler)
    c.compile("text", "k.cu")
    assert compiler.calls == 1
    with pytest.warns(RuntimeWarning, match="Read-only file system"):
        c.compile("new", "k.cu")


def test_oldest_use_goes_first(directory: Path, compiler: Compiler) -> None:
    c = cache(directory, compiler)
    for age, text in enumerate(("used", "old", "new")):
        c.compile(text, "k.cu")
        os.utime(directory / f"{c.key(text)}.cubin", (age, age))
    cache(directory, compiler).compile("used", "k.cu")  # marks it as used now
    size = max(p.stat().st_size for p in files(directory))
    cache(directory, compiler, limit=3 * size).compile("more", "k.cu")
    names = {p.stem for p in files(directory)}
    assert names == {c.key(text) for text in ("used", "new", "more")}


def test_the_folder_is_not_looked_through_at_every_file(
    directory: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first, and when what was written since is a 64th of the limit; which then holds."""
    looks: list[int] = []
    monkeypatch.setattr(Shelf, "_prune", lambda _: looks.append(len(files(directory))))
    c = cache(directory, compiler)
    c.compile("text 0", "k.cu")
    (first,) = files(directory)
    size = first.stat().st_size
    c = cache(directory, compiler, limit=64 * (4 * size + size // 2))
    looks.clear()
    for i in range(1, 12):
        c.compile(f"text {i}", "k.cu")
    assert looks == [2, 7, 12]


def test_a_look_is_due_behind_a_64th_of_the_limit(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the byte; what was written in front of a look counts no more."""
    looks: list[int] = []
    monkeypatch.setattr(Shelf, "_prune", lambda _: looks.append(len(files(directory))))
    shelf = Shelf(directory, b"sixteen bytes...", ".x", 1 << 20, "nothing")
    shelf.put("a", b"1234")
    (first,) = files(directory)
    exactly = replace(shelf, limit=64 * 3 * first.stat().st_size)
    for name in "bcdefghi":
        exactly.put(name, b"1234")
    assert looks == [1, 2, 6]
    looks.clear()
    shorter = replace(shelf, limit=64 * 3 * first.stat().st_size - 1)
    for name in "bcdefghi":
        shorter.put(name, b"1234")
    assert looks == [9, 9, 9]


def test_error_of_the_compiler_is_not_cached(directory: Path, compiler: Compiler) -> None:
    def broken(source: str, name: str, options: Sequence[str], arch: str) -> Compiled:
        raise ValueError("no")

    c = CubinCache(directory, "1", compiler=broken)
    with pytest.raises(ValueError, match="no"):
        c.compile("text", "k.cu")
    assert not directory.exists()


@pytest.mark.parametrize("where", ["compiler", "fsync", "replace"])
def test_interrupt_leaves_nothing_half_done(
    directory: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Ctrl-C passes, no file of it is left, and the next call compiles as if nothing had been."""

    def interrupt(*args: object) -> Compiled:
        raise KeyboardInterrupt

    c = cache(directory, compiler)
    with monkeypatch.context() as m:
        if where == "compiler":
            m.setattr(c, "_compiler", interrupt)
        else:
            m.setattr(os, where, interrupt)
        with pytest.raises(KeyboardInterrupt):
            c.compile("text", "k.cu")
    assert not directory.exists() or files(directory) == []
    before = compiler.calls
    c.compile("text", "k.cu")
    assert compiler.calls == before + 1
    assert [p.suffix for p in files(directory)] == [".cubin"]


def test_what_a_killed_writer_left_is_removed(directory: Path, compiler: Compiler) -> None:
    c = cache(directory, compiler)
    c.compile("one", "k.cu")
    old, young = directory / ".old.tmp", directory / ".young.tmp"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    cache(directory, compiler).compile("two", "k.cu")
    assert not old.exists() and young.exists()


def test_unreadable_file_is_compiled_again(directory: Path, compiler: Compiler) -> None:
    c = cache(directory, compiler)
    path = directory / f"{c.key('text')}.cubin"
    path.mkdir(parents=True, mode=0o700)  # reading it is an error for root, too
    directory.chmod(0o700)
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        c.compile("text", "k.cu")
    assert compiler.calls == 1


WRITER = """
import sys
import tempfile
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from lowering.cuda.cache import CubinCache
from lowering.cuda.nvrtc import Compiled
from lowering.cuda.sealed import with_header
fake = lambda *a: Compiled(b"x" * 100000, "", (12, 8), 0.0)
for i in range(100):
    c = CubinCache(Path(sys.argv[1]), "1", 1 << 20, fake)
    assert c.compile("text", "k.cu").cubin == b"x" * 100000
    if i % 3 == 0:
        (Path(sys.argv[1]) / f"{c.key('text')}.cubin").unlink(missing_ok=True)
"""


def test_two_processes_at_once(directory: Path) -> None:
    root = str(Path(__file__).resolve().parents[3])
    command = [sys.executable, "-W", "error", "-c", WRITER, str(directory), root]
    writers = [subprocess.Popen(command) for _ in range(2)]
    assert [w.wait(60) for w in writers] == [0, 0]


def test_default_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WSCHED_CACHE_DIR", str(tmp_path))
    assert default_directory() == tmp_path
    monkeypatch.delenv("WSCHED_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_directory() == tmp_path / "xdg" / "wsched"


def test_missing_platformdirs_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WSCHED_CACHE_DIR", raising=False)
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    with pytest.raises(UnsupportedError) as e:
        default_directory()
    assert str(e.value) == (
        "finding the cache directory without platformdirs is not supported; supported: "
        "platformdirs, or a directory in WSCHED_CACHE_DIR. Install platformdirs"
    )


def test_no_warning_in_the_usual_case(directory: Path, compiler: Compiler) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache(directory, compiler).compile("text", "k.cu")
        cache(directory, compiler).compile("text", "k.cu")
