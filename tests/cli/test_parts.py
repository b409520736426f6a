"""``dump`` and ``check --proof`` of a definition that is cut: they look at its parts' kernels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lowering.kernel.parse import parse_kernel
from lowering.proof.obligation import Obligation, Proof, Verdict
from wsched.cli.app import app
from wsched.run.compiled import CompiledFusion

pytestmark = pytest.mark.usefixtures("plain")

TWO = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, 40], contiguity=[True, True], dtype=DataType.BFloat16)
    v = fd.define_tensor(shape=[48, 40], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[24, 48], contiguity=[True, True], dtype=DataType.BFloat16)
    h = fd.ops.relu(fd.ops.linear(x, v))
    c = fd.ops.cumsum(h, 1)
    y = fd.ops.linear(c, w)
    fd.add_output(y)
    fd.add_output(h)
"""
FIRST, LAST = "x, v -> h: linear, relu", "w, c -> y: linear"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "two.py"
    path.write_text(TWO)
    return path


def invoke(*words: object) -> Any:
    return CliRunner().invoke(app, list(map(str, words)))


def names(file: Path) -> dict[int, str]:
    """The kernels that ``explain`` has, by the numbers of their parts."""
    parts = json.loads(invoke("explain", file, "--json").stdout)["parts"]
    return {n: p["kernel"]["kernel"] for n, p in enumerate(parts, 1) if p["kernel"] is not None}


def test_dump_has_the_kernels_of_explain(file: Path) -> None:
    expected = names(file)
    assert len(expected) == 2
    found = invoke("dump", file, "--stage", "kernel")
    assert found.exit_code == 0, found.stderr
    first, last, planned = found.stderr.splitlines()
    (one, two), told = expected, [line.split(", ", 1) for line in (first, last)]
    assert told == [[f"part {one}", f"wsched: {FIRST}"], [f"part {two}", f"wsched: {LAST}"]]
    assert planned.startswith("  planned for ")
    for number, name in expected.items():
        alone = invoke("dump", file, "--stage", "kernel", "--part", number)
        assert parse_kernel(alone.stdout).name == name and alone.stdout in found.stdout


def test_a_part_has_sizes_and_parameters_of_its_own(file: Path) -> None:
    words = "dump", file, "--stage", "kernel", "--part", min(names(file))
    shaped = invoke(*words, "--shape", "4096x48x40", "--params", "ping-pong")
    assert shaped.exit_code == 0, shaped.stderr
    assert "pingpong" in parse_kernel(shaped.stdout).name
    wrong = invoke(*words, "--shape", "64x64x64")
    assert wrong.exit_code == 2 and "the definition says 40" in wrong.stderr


def test_a_part_as_a_schedule(file: Path, tmp_path: Path) -> None:
    made = tmp_path / "mine.sched"
    made.write_text(invoke("dump", file, "--stage", "schedule", "--part", min(names(file))).stdout)
    assert invoke("check", made).exit_code == 0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--stage", "schedule"], "--stage: schedule is of one kernel, this definition has several "
         "parts: --part 1 or {last}"),
        (["--shape", "64x48x40"], "--shape: is for one kernel, this definition has several parts: "
         "--part 1 or {last}"),
        (["--params", "ping-pong"], "--params: is for one kernel, this definition has several "
         "parts: --part 1 or {last}"),
        (["--part", "9"], "--part: the definition has {last} parts; those with a kernel of a "
         "matmul: 1, {last}"),
        (["--part", "2"], "--part: part 2 is {rest}: h -> c: cumsum; those with a kernel of a "
         "matmul: 1, {last}"),
    ],
)  # fmt: skip
def test_refusals(file: Path, words: list[str], text: str) -> None:
    found = invoke("dump", file, *words)
    assert (found.exit_code, found.stdout) == (2, "")
    parts = json.loads(invoke("explain", file, "--json").stdout)["parts"]
    wanted = text.format(last=max(names(file)), rest=parts[1]["runs"])
    assert f"Invalid value for {wanted}" in " ".join(found.stderr.split())


def test_one_kernel_has_no_parts(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    kept = (line for line in TWO.splitlines() if line[4:6] not in ("w ", "c ", "y "))
    path.write_text("\n".join(kept).replace("    fd.add_output(y)\n", ""))
    found = invoke("dump", path, "--part", 1)
    assert found.exit_code == 2 and "--part: the definition is one kernel" in found.stderr
    assert "--part: is for --proof" in invoke("check", path, "--part", 1).stderr


def test_what_has_no_kernel_says_why(tmp_path: Path) -> None:
    path = tmp_path / "sum.py"
    path.write_text(
        "def f(fd: FusionDefinition):\n"
        "    x = fd.define_tensor(shape=[16], dtype=DataType.Float)\n"
        "    fd.add_output(fd.ops.cumsum(x, 0))\n"
    )
    for words in (["dump"], ["check", "--proof"]):
        found = invoke(*words, path)
        assert (found.exit_code, found.stdout) == (2, "")
        assert found.stderr.startswith(f"{path}: ") and "Traceback" not in found.stderr


@pytest.mark.slow
def test_all_of_all_parts(file: Path, tmp_path: Path) -> None:
    found = invoke("dump", file, "--stage", "all", "--dir", tmp_path / "dumps")
    assert found.exit_code == 0, found.stderr
    assert {p.name for p in (tmp_path / "dumps").iterdir()} == {*names(file).values()}


def test_proofs(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, last = names(file), max(names(file))

    def proof(kernel: CompiledFusion) -> Proof:
        name = kernel.kernel.name
        refuted = Verdict.REFUTED if name == expected[last] else Verdict.PROVED
        return Proof(name, (Obligation("steps", "a ring", refuted),))

    monkeypatch.setattr(CompiledFusion, "proof", proof)
    found = invoke("check", file, "--proof")
    assert found.exit_code == 1
    assert found.stdout.splitlines()[:-1] == [
        f"part 1, wsched: {FIRST}",
        f"{expected[1]}: 1 of 1 obligations proved",
        "proved     steps (a ring)",
        f"part {last}, wsched: {LAST}",
        f"{expected[last]}: 0 of 1 obligations proved",
        "refuted    steps (a ring)",
    ]
    assert invoke("check", file, "--proof", "--part", 1).exit_code == 0
    told = json.loads(invoke("check", file, "--proof", "--json").stdout)
    assert told["proved"] is False
    assert [(p["part"], p["kernel"], p["proved"]) for p in told["parts"]] == [
        (1, expected[1], True), (last, expected[last], False),
    ]  # fmt: skip


@pytest.mark.slow
def test_a_proof_of_each(file: Path) -> None:
    told = json.loads(invoke("check", file, "--proof", "--json").stdout)
    assert told["proved"] and len(told["parts"]) == 2
