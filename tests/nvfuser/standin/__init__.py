"""nvFuser without a GPU: a stand-in for CUDA's runtime and driver, in a process of its own.

nvFuser's Hopper heuristics, scheduling, code generation and NVRTC need a device for its properties
only. ``runtime.cpp`` and ``driver.c`` answer for one; :func:`probe` runs ``probe.py`` behind them
and with ``plugin.cpp`` as nvFuser's heuristic plugin. What that printed once lies in
``tests/data/nvfuser.json``, written by ``python -m tests.nvfuser.standin``: those are nvFuser's
decisions and kernels, not readings of a GPU.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["ANSWERS", "missing", "probe", "text"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
ANSWERS = ROOT / "tests" / "data" / "nvfuser.json"


def missing() -> str:
    """Why nvFuser cannot be probed here, empty if it can."""
    if find_spec("nvfuser_direct") is None:
        return "nvfuser_direct is not installed"
    if not (shutil.which("g++") and shutil.which("gcc")):
        return "there is no g++ and gcc"
    if not includes():
        return "there are no headers of the CUDA runtime"
    return ""


def includes() -> list[Path]:
    """Folders with CUDA's runtime headers: the wheel's, then those of a toolkit for crt/."""
    found = [Path(p) / "include" for p in _locations("nvidia.cuda_runtime")]
    found = [p for p in found if (p / "driver_types.h").is_file()]
    home = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    toolkit = [p for p in (home / "include",) if (p / "crt" / "host_defines.h").is_file()]
    crt = any((p / "crt" / "host_defines.h").is_file() for p in found)
    return [*found, *toolkit] if found and (crt or toolkit) else []


def probe(folder: Path) -> dict[str, Any]:
    """What nvFuser decides and generates, as ``probe.py`` prints it.

    Args:
        folder: empty, for the libraries and the plugin.
    """
    flags = [f"-I{path}" for path in includes()]
    _run("g++", "-shared", "-fPIC", *flags, HERE / "runtime.cpp", "-o", folder / "runtime.so")
    _run(
        "gcc", "-w", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", HERE / "driver.c",
        "-o", folder / "libcuda.so.1",
    )  # fmt: skip
    from wsched.nvfuser.plugin import headers

    plugin = folder / "plugin.so"
    api = f"-I{headers()}"
    _run("g++", "-std=c++17", "-shared", "-fPIC", api, HERE / "plugin.cpp", "-o", plugin)
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}",
        "LD_PRELOAD": str(folder / "runtime.so"),
        "NVFUSER_ENABLE": "fuse_matmul",
        "NVFUSER_DISABLE": "matmul_expr_eval",
        "NVFUSER_DUMP": "cuda_kernel",
        "NVFUSER_MATMUL_HEURISTIC_PLUGIN": str(plugin),
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, str(HERE / "probe.py"), str(folder)]
    _run(*command, env=environment)
    found: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return found


def text(found: dict[str, Any]) -> str:
    """What was found as JSON, a case a line."""
    parts = []
    for name, cases in sorted(found.items()):
        if not isinstance(cases, dict | list):
            parts.append(f" {json.dumps(name)}: {json.dumps(cases)}")
            continue
        rows = cases if isinstance(cases, list) else cases.items()
        lines = [
            f"  {json.dumps(row[0])}: {json.dumps(row[1])}" if isinstance(row, tuple)
            else f"  {json.dumps(row)}"
            for row in rows
        ]  # fmt: skip
        opens, closes = "[]" if isinstance(cases, list) else "{}"
        parts.append(f" {json.dumps(name)}: {opens}\n" + ",\n".join(lines) + f"\n {closes}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _locations(name: str) -> list[str]:
    try:
        spec = find_spec(name)
    except ModuleNotFoundError:
        return []
    return list(spec.submodule_search_locations or ()) if spec else []


def _run(*command: Any, env: dict[str, str] | None = None) -> None:
    words = list(map(str, command))
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, f"{words}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
