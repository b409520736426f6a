"""A file is replaced as a whole or not at all, and one that others can write is not trusted."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from lowering.ground.files import distrust, replace_file, save_file


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_replaced_with_its_mode(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "f"
    file.write_text("before")
    with file.open() as reader:
        replace_file(file, b"after", mode)
        assert reader.read() == "before"
    assert file.read_text() == "after" and stat.S_IMODE(file.stat().st_mode) == mode
    assert list(tmp_path.iterdir()) == [file]


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    """As ``/dev/stdout`` and ``/dev/null`` do, which a superuser could have replaced."""
    os.mkfifo(pipe := tmp_path / "p")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        replace_file(pipe, b"data")
        assert os.read(reader, 16) == b"data"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode) and list(tmp_path.iterdir()) == [pipe]


def test_a_link_to_a_result_stays_one(tmp_path: Path) -> None:
    file, link = tmp_path / "f", tmp_path / "link"
    link.symlink_to(file)
    for data in (b"before", b"after"):
        save_file(link, data)
        assert link.is_symlink() and file.read_bytes() == data


def test_who_can_read_a_result_is_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "f"
    for mask in (0o077, 0o022):
        before = os.umask(mask)
        try:
            save_file(file, b"new")
            assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~mask
            file.chmod(0o640)
            save_file(file, b"again")
        finally:
            assert os.umask(before) == mask
        assert stat.S_IMODE(file.stat().st_mode) == 0o640
        file.unlink()


def test_a_name_of_what_is_open_is_written_to(tmp_path: Path) -> None:
    """As ``/dev/stdout`` is where that is a file: nothing takes its name or its file's."""
    file = tmp_path / "f"
    with file.open("wb") as out:
        save_file(Path(f"/dev/fd/{out.fileno()}"), b"data")
        assert os.fstat(out.fileno()).st_size == len(b"data")
    assert file.read_bytes() == b"data" and list(tmp_path.iterdir()) == [file]


def test_the_data_are_on_the_disk_before_they_take_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, synced = tmp_path / "f", list[int]()
    file.write_text("before")

    def sync(handle: int) -> None:
        assert file.read_text() == "before"
        synced.append(os.fstat(handle).st_size)

    monkeypatch.setattr(os, "fsync", sync)
    replace_file(file, b"after")
    assert synced == [len(b"after")] and file.read_text() == "after"


@pytest.mark.parametrize("step", ["fchmod", "fsync", "replace"])
@pytest.mark.parametrize("end", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_nothing_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, end: BaseException
) -> None:
    file = tmp_path / "f"
    file.write_text("before")

    def ended(*args: Any) -> None:
        raise end

    monkeypatch.setattr(os, step, ended)
    with pytest.raises(type(end)):
        replace_file(file, b"after")
    assert file.read_text() == "before" and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("mode", "said"),
    [(0o600, ""), (0o755, ""), (0o620, "can be written by others"),
     (0o602, "can be written by others")],
)  # fmt: skip
def test_distrust(tmp_path: Path, mode: int, said: str) -> None:
    tmp_path.chmod(mode | 0o100)
    assert distrust(tmp_path.stat()) == said
    tmp_path.chmod(0o700)


def test_distrust_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    assert distrust(tmp_path.stat()) == "belongs to another user"
