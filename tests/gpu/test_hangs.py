"""Kernels that hang on a GPU, with a watchdog: each in a process of its own, which it loses."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[2]

HANG = """
from dataclasses import replace
import torch
from lowering.kernel.nodes import Atom, MBarrierArrive
from lowering.kernel.visit import rewrite
from tests.schedules import SCHEDULES, definition
from wsched.front.known import import_fusion
from wsched.run.compiled import compile_fusion
from wsched.run.watched import HangError

def dropped(s):
    return () if {dropped} else None

made = compile_fusion(import_fusion(definition()), SCHEDULES["{name}"])
x, w = (torch.randn(n, 4096, device="cuda").bfloat16() for n in (1024, 512))
torch.testing.assert_close(made(x, w)[0], x @ w.T, rtol=2e-2, atol=1)
made = replace(made, kernel=replace(made.kernel, body=rewrite(made.kernel.body, dropped)))
try:
    made(x, w)
except HangError as e:
    print(e)
"""

RELEASE = 'isinstance(s, MBarrierArrive) and s.bar.array == "ring_empty"'
PUBLISH = 'isinstance(s, Atom) and s.op == "add"'


@pytest.mark.parametrize(
    ("name", "dropped", "found"),
    [
        ("coop_128x128", RELEASE, r"ring_empty\[0\] parity 0.*\(at: mbarrier\.wait"),
        # whose wait was over first in the grid tells what its barrier lacks
        ("coop_128x128", RELEASE, r"ring_(empty\[0\] parity 0 lacks 8 of 8|"
                                  r"full\[0\] parity 0 lacks 1 of 1) arrivals"),
        ("cluster_pingpong", RELEASE, r"ring_empty\[0\] parity 0"),
        ("stream_k", PUBLISH, "is 0, not yet"),
    ],
)  # fmt: skip
def test_a_hang_says_who_waits(name: str, dropped: str, found: str) -> None:
    code = HANG.format(name=name, dropped=dropped)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=50,
        env={**os.environ, "WSCHED_WATCHDOG": "0.5"}, check=False,
    )  # fmt: skip
    print(done.stdout, done.stderr[-2000:])
    assert done.stdout.startswith("watchdog: matmul_bfloat16")
    assert "_watched hangs" in done.stdout
    assert re.search(found, done.stdout)
