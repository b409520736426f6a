"""``wsched plugin build``: nvFuser's matmul heuristic as a shared library with wsched's choices.

nvFuser loads the library that ``NVFUSER_MATMUL_HEURISTIC_PLUGIN`` names when its first matmul is
scheduled, and asks it for each one; so any program on nvFuser, in C++ too, gets wsched's tile, warp
tile, instruction, cluster, split-K, traversal and order. Stages, tiling strategy and what is stored
how remain nvFuser's (design/0018-nvfuser-scheduler.md).
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from lowering.ground.errors import InternalError, UnsupportedError
from lowering.ground.files import distrust, replace_file
from wsched.nvfuser.plugin_source import SMS, plugin_source

__all__ = ["VARIABLE", "Plugin", "build_plugin", "headers"]

VARIABLE = "NVFUSER_MATMUL_HEURISTIC_PLUGIN"

_API = "scheduler/matmul_heuristic_plugin_api.h"
_COMPILERS = ("g++", "clang++", "c++")
_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Plugin:
    """A library that was built.

    Args:
        path: where it lies.
        sms: multiprocessors that it plans for.
        compiler: what it was compiled with.
        built: whether it was compiled now, or found as it should be.
    """

    path: Path
    sms: int
    compiler: str
    built: bool

    @property
    def export(self) -> str:
        """The line to set before a program on nvFuser starts."""
        return f"export {VARIABLE}={shlex.quote(str(self.path))}"

    def to_dict(self) -> dict[str, object]:
        """Plain data."""
        return {
            "path": str(self.path),
            "export": self.export,
            "sms": self.sms,
            "compiler": self.compiler,
            "built": self.built,
        }


def build_plugin(folder: Path, version: str, output: Path | None = None, sms: int = SMS) -> Plugin:
    """Compile the plugin, or find it compiled from the same source by the same compiler.

    Args:
        folder: where it is kept unless ``output`` is given.
        version: of wsched.
        output: the file to write; always compiled.
        sms: multiprocessors to plan for.

    Raises:
        UnsupportedError: no nvFuser, no C++ compiler, or others can write to ``folder``.
        InternalError: the compiler refuses the source.
        OSError: the file cannot be written.
    """
    include, compiler = headers(), _compiler()
    source = plugin_source(version, sms)
    api = (include / _API).read_bytes()
    digest = hashlib.sha256(source.encode() + api + compiler.encode()).hexdigest()[:16]
    path = (output or folder / f"libwsched-matmul-{digest}.so").absolute()
    build = output is not None or not _is_ours(path)
    if build:
        path.parent.mkdir(mode=0o777 if output else 0o700, parents=True, exist_ok=True)
        _compile(compiler, source, include, path)
    return Plugin(path, sms, compiler, build)


def _is_ours(path: Path) -> bool:
    """Whether the library is there, and nobody else has written it: a program runs what is in it.

    Raises:
        UnsupportedError: others could put one there.
    """
    try:
        if why := distrust(path.parent.stat()):
            raise UnsupportedError(
                f"a plugin in {path.parent}, which {why},", "a folder that is yours alone",
                "Name a file with --output, or another folder in WSCHED_CACHE_DIR",
            )  # fmt: skip
        return not distrust(path.stat())
    except FileNotFoundError:
        return False


def headers() -> Path:
    """The folder of nvFuser's headers in its wheel; nvFuser is not imported.

    Raises:
        UnsupportedError: nvFuser is not installed, or without headers.
    """
    spec = find_spec("nvfuser_direct")
    if spec is None or spec.origin is None:
        raise UnsupportedError(
            "building the plugin without nvFuser", "an environment with nvfuser_direct",
            "Its wheel has the header of the interface",
        )  # fmt: skip
    include = Path(spec.origin).parent.parent / "nvfuser_common" / "include" / "nvfuser"
    if not (include / _API).is_file():
        raise UnsupportedError(
            f"building the plugin for an nvFuser without {_API}", "a wheel that has its headers"
        )
    return include


def _compiler() -> str:
    wanted = os.environ.get("CXX", "")
    names = (wanted,) if wanted else _COMPILERS
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        raise UnsupportedError(
            f"building the plugin without a C++ compiler ({', '.join(names)})",
            "a compiler of C++17 on PATH, or in CXX",
            "Install one, for example the package g++",
        )
    return found


def _compile(compiler: str, source: str, include: Path, path: Path) -> None:
    """Compile into a file beside ``path`` and move it there, so that no one loads half of it."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".wsched-plugin-") as scratch:
        text, made = Path(scratch) / "plugin.cpp", Path(scratch) / path.name
        text.write_text(source, encoding="utf-8")
        command = [
            compiler, "-std=c++17", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall",
            "-Werror", f"-I{include}", str(text), "-o", str(made),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        if done.returncode:
            raise InternalError("plugin build", f"{compiler} refuses the source", done.stderr)
        replace_file(path, made.read_bytes(), 0o755)  # a device or a pipe keeps its name
