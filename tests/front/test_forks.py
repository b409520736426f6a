"""A fork while another thread compiles: the child compiles the same kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.schedules import definition

pytest.importorskip("torch")

PROGRAM = """
import os, sys, threading, time
import torch, wsched
from lowering.cuda.nvrtc import compilations

inputs = [torch.empty(64, 64, dtype=torch.bfloat16)] * 2
failed = 0
for n in range(3):
    text = sys.argv[1].replace("add_output(d)", f"add_output(fd.ops.mul(d, {n + 1.5}))")
    kernel = wsched.compile(text, inputs)
    thread = threading.Thread(target=lambda: kernel.compiled)
    thread.start()
    time.sleep(0.05 * n)
    child = os.fork()
    if child == 0:
        threading.Timer(20, os._exit, [7]).start()
        wsched.compile(text, inputs)
        os._exit(0 if kernel.compiled.cubin else 8)
    failed |= os.waitpid(child, 0)[1]
    thread.join()
print(compilations(), failed)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_while_compiling(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, definition()],
        env={**os.environ, "WSCHED_CACHE_DIR": str(tmp_path)},
        capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["3", "0"], done.stderr
