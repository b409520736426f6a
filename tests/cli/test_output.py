"""Where what is printed goes: to a reader that has enough, in an encoding with few signs."""

from __future__ import annotations

import os
import subprocess
import sys
from io import TextIOWrapper
from pathlib import Path

import pytest

from wsched.cli.output import lenient

ROOT = Path(__file__).resolve().parents[2]


def ended(words: list[str], env: dict[str, str], out: int) -> subprocess.CompletedProcess[bytes]:
    """A command's end whose standard output is ``out``."""
    return subprocess.run(
        [sys.executable, "-m", "wsched", *words], stdout=out, stderr=subprocess.PIPE, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | env, timeout=110,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["--help"], ["--version"], ["ladder", "v1"], ["dump", "FILE"]])
def test_a_pipe_that_nobody_reads(words: list[str], unbuffered: str, file: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        given = [str(file) if w == "FILE" else w for w in words]
        done = ended(given, {"PYTHONUNBUFFERED": unbuffered}, write)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr.count(b"Traceback"), b"Broken" in done.stderr) == (0, 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8"])
def test_an_encoding_without_blocks(encoding: str, file: Path) -> None:
    words = ["why", str(file), "--shape", "512x512x256", "--params", "cooperative"]
    done = ended(words, {"PYTHONIOENCODING": encoding}, subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    block = "█" if encoding == "utf-8" else "#"
    assert block * 24 in done.stdout.decode(encoding)


def test_streams_that_are_no_files_stay(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    lenient()
    assert (sys.stdout, sys.stderr) == before


@pytest.mark.parametrize("buffering", [0, -1])
def test_what_nobody_reads_is_lost(buffering: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what the encoding lacks is a question mark."""
    read, write = os.pipe()
    with open(write, "wb", buffering) as file:
        text = TextIOWrapper(file, encoding="latin-1", write_through=True)
        monkeypatch.setattr(sys, "stdout", text)
        lenient()
        made = sys.stdout
        made.write("é█\n")
        made.flush()
        assert os.read(read, 9) == b"\xe9?\n"
        os.close(read)
        made.write("x" * 100_000)
        made.flush()
        text.detach()
