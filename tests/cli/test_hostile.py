"""Environments that nobody would choose: the same answer as elsewhere, or a refusal in words."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from tests.schedules import definition

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 10
"""Of processor time, at most."""

EXPLAIN = ("explain", "FILE", "--shape", "512x512x512", "--sms", "132")
PTX = ("dump", "FILE", "--stage", "ptx")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command runs.

    Args:
        env: variables; ``{}`` is a folder of the test's own, None means unset.
        words: of the command.
        prepare: what is done to the folder before.
        inside: what the process does to itself before.
        refused: words of its refusal; empty where the answer is the usual one.
        narrow: whether the terminal says how many words of the answer stand in a line.
    """

    env: dict[str, str | None] = field(default_factory=dict)
    words: tuple[str, ...] = PTX
    prepare: Callable[[Path], object] = lambda folder: None
    inside: Callable[[], object] = lambda: None
    refused: str = ""
    narrow: bool = False


def file(name: str, data: bytes = b"\0\xff{]") -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(data)


def folder(name: str, mode: int = 0o755) -> Callable[[Path], object]:
    def make(inside: Path) -> None:
        (inside / name).mkdir()
        (inside / name).chmod(mode)

    return make


def no_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))


def gone() -> None:
    """The working directory is removed."""
    here = Path("gone").resolve()
    here.mkdir()
    os.chdir(here)
    here.rmdir()


PLACES = {
    "nothing set": Place({"HOME": None, "PATH": None, "LANG": None, "TMPDIR": None}),
    "no home": Place({"HOME": "/nowhere", "XDG_CACHE_HOME": None, "XDG_DATA_HOME": None}),
    "home is a file": Place({"HOME": "{}/home", "XDG_CACHE_HOME": None}, prepare=file("home")),
    "a cache that is a file": Place({"WSCHED_CACHE_DIR": "{}/c"}, prepare=file("c")),
    "a cache of others": Place({"WSCHED_CACHE_DIR": "{}/c"}, prepare=folder("c", 0o777)),
    "a cache in /proc": Place({"WSCHED_CACHE_DIR": "/proc/none"}),
    "a relative cache": Place({"WSCHED_CACHE_DIR": "here/and/there"}),
    "no temporary folder": Place({"TMPDIR": "/nowhere", "TEMP": None, "TMP": None}),
    "a full disk": Place(inside=no_files),
    "few descriptors": Place(inside=few_descriptors),
    "no working directory": Place(inside=gone, words=EXPLAIN),
    "ASCII only": Place({"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}, EXPLAIN),
    "one column": Place({"COLUMNS": "1", "TERM": "dumb"}, EXPLAIN, narrow=True),
    "no docstrings": Place({"PYTHONOPTIMIZE": "2"}),
    "warnings are errors": Place({"PYTHONWARNINGS": "error"}, EXPLAIN),
    "a table that is a folder": Place({"WSCHED_TUNED": "{}/t"}, EXPLAIN, prepare=folder("t")),
    "a table that is none": Place({"WSCHED_TUNED": "{}/t"}, EXPLAIN, prepare=file("t")),
    "a table without end": Place({"WSCHED_TUNED": "/dev/zero"}, EXPLAIN),
    "kernels without number": Place({"WSCHED_KERNELS": "many"}, EXPLAIN),
    "a bundle that is none": Place({"WSCHED_BUNDLE": "{}/b:/nowhere"}, prepare=file("b")),
    "an unknown stage": Place({"WSCHED_DUMP": "everything"}, refused="WSCHED_DUMP"),
    "dumps into a file": Place(
        {"WSCHED_DUMP": "all", "WSCHED_DUMP_DIR": "{}/d"}, prepare=file("d"), refused="/d/"
    ),
    "a log in no folder": Place({"WSCHED_LOG": "/nowhere/log"}, EXPLAIN),
    "seconds that are none": Place({"WSCHED_MACHINE_SECONDS": "nan"}, EXPLAIN),
}


def ran(place: Place, inside: Path) -> subprocess.CompletedProcess[str]:
    """The command's end in that place."""
    place.prepare(inside)
    text = inside / "definition.py"
    text.write_text(definition())
    env = dict(os.environ) | {"WSCHED_CACHE_DIR": str(inside / "cache")}
    for name, value in place.env.items():
        env.pop(name, None)
        if value is not None:
            env[name] = value.replace("{}", str(inside))
    env["PYTHONPATH"] = str(ROOT)
    env.pop("PYTHONDONTWRITEBYTECODE", None)

    def within() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
        place.inside()

    words = [str(text) if w == "FILE" else w for w in place.words]
    return subprocess.run(
        [sys.executable, "-m", "wsched", *words], cwd=inside, env=env, preexec_fn=within,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=110,
    )  # fmt: skip


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Callable[[tuple[str, ...]], str]:
    """What a command prints elsewhere."""

    @cache
    def output(words: tuple[str, ...]) -> str:
        done = ran(Place(words=words), tmp_path_factory.mktemp("usual"))
        assert done.returncode == 0, done.stderr
        return done.stdout

    return output


@pytest.mark.parametrize("name", PLACES)
def test_the_same_answer_or_a_refusal(
    name: str, tmp_path: Path, usual: Callable[[tuple[str, ...]], str]
) -> None:
    place = PLACES[name]
    done = ran(place, tmp_path)
    assert "Traceback" not in done.stderr, done.stderr
    if place.refused:
        assert (done.returncode, done.stdout) == (2, "") and place.refused in done.stderr
    else:
        parts = str.split if place.narrow else str
        assert done.returncode == 0, done.stderr
        assert parts(done.stdout) == parts(usual(place.words)), done.stderr
