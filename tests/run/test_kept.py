"""How many kernels a process keeps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import wsched
from lowering.cuda.cache import CubinCache
from lowering.cuda.nvrtc import Compiled
from lowering.ground.errors import WschedError
from tests.schedules import definition
from wsched.front import kernels, own
from wsched.run.kept import VARIABLE, Kept

torch: Any = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (kernels, own):
        monkeypatch.setattr(module, "_kernels", Kept())


def scaled(factor: float) -> str:
    return definition().replace("add_output(d)", f"add_output(fd.ops.mul(d, {factor}))")


def compiled(factor: float) -> wsched.CompiledFusion:
    return wsched.compile(scaled(factor), [torch.empty(64, 64, dtype=torch.bfloat16)] * 2)


def test_the_kernel_that_was_used_longest_ago_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "2")
    first, second = compiled(1.5), compiled(2.5)
    assert compiled(1.5) is first
    compiled(3.5)
    assert len(kernels._kernels) == 2
    assert compiled(1.5) is first
    assert compiled(2.5) is not second


def test_schedules_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    made = [wsched.Schedule.of(scaled(f), wsched.MatmulParams()) for f in (1.5, 2.5)]
    first = own.kernel_of(made[0])
    assert own.kernel_of(made[0]) is first
    own.kernel_of(made[1])
    assert len(own._kernels) == 1 and own.kernel_of(made[0]) is not first


@pytest.mark.parametrize("setting", ["0", "-1", "many", "1.5", "²", "9" * 5000])
def test_a_number_is_wanted(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, setting)
    with pytest.raises(WschedError) as e:
        compiled(4.5)
    assert str(e.value) == f"WSCHED_KERNELS={setting}: use a number of kernels, 1 or more"


def test_cubins_in_memory() -> None:
    asked: list[str] = []

    def compiler(source: str, *_: object) -> Compiled:
        asked.append(source)
        return Compiled(bytes(30 << 20), "", (12, 8), 0.0)

    cache = CubinCache(Path("/dev/null"), "1", limit=0, compiler=compiler)
    with pytest.warns(RuntimeWarning, match="kernels are compiled again"):
        for source in ("a", "b", "a", "c", "a", "b"):
            cache.compile(source, "k.cu")
    assert asked == ["a", "b", "c", "b"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_process_that_meets_ever_new_definitions() -> None:
    """It is as large after the last hundred as before; each would keep 0.3 MiB."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.many", "--count", "200", "--json"],
        env=os.environ | {VARIABLE: "16"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = {r["definitions"]: r["MiB"] for r in map(json.loads, done.stdout.splitlines())}
    assert found[200] - found[100] < 15
