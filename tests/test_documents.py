"""The documents against the tree: links, the table of passes, the examples."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from lowering.ground.expr import SPECIALS
from lowering.ground.scalar_ops import OPS
from passes.pipeline import PASSES
from wsched.cli.app import app
from wsched.importer import build_fusion, record_text
from wsched.importer.linear import LINEAR
from wsched.run.compiled import compile_fusion
from wsched.schedule.loops import side_by_side
from wsched.schedule.matmul.params import MatmulParams

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "design").glob("*.md")])


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def python_blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text_of(name), flags=re.DOTALL)


WORDS = re.compile(r"^\$ (?:[^#\n]*?\W)?wsched ([^#|>)\n]*)|`wsched ([a-z][^`]*)`", flags=re.M)
"""Of the command line: lines of a console, and what stands between backquotes."""


def test_commands_are_those_of_the_command_line() -> None:
    """With options that they have; nothing is run."""
    whole: Any = typer.main.get_command(app)
    found, wrong = 0, []
    for document in DOCUMENTS:
        for match in WORDS.finditer(document.read_text(encoding="utf-8")):
            command, words = whole, (match[1] or match[2]).split()
            while words and words[0] in getattr(command, "commands", ()):
                command = command.commands[words.pop(0)]
            known = {"-h", "--help"}.union(*(p.opts + p.secondary_opts for p in command.params))
            odd = [w for w in words if re.match("--?[a-z]", w) and w not in known]
            found += command is not whole
            if odd or (words and hasattr(command, "commands") and not words[0].startswith("-")):
                wrong.append(f"{document.name}: wsched {match[1] or match[2]}")
    assert found > 150 and wrong == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_links_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text(encoding="utf-8"))
    local = [t for t in targets if "://" not in t]
    assert [t for t in local if not (document.parent / t).exists()] == []


def test_every_note_is_in_the_index() -> None:
    linked = re.findall(r"\]\(([^)]+\.md)\)", text_of("design/README.md"))
    notes = sorted(p.name for p in (ROOT / "design").glob("*.md") if p.name != "README.md")
    assert sorted(set(linked)) == notes


def test_places_of_the_sources() -> None:
    """What the table of the sources names is there: paths, and files of tests by their name."""
    text = text_of("design/sources.md")
    named = set(re.findall(r"`([\w./]+(?:\.py|/[a-z_]+))`", text)) - {"gemm_kernels.py"}
    files = {str(f.relative_to(ROOT)) for d in ("lowering", "passes", "wsched", "tests")
             for f in (ROOT / d).rglob("*")}  # fmt: skip
    ends = tuple(files)
    assert len(named) > 60
    assert [n for n in sorted(named) if not any(f == n or f.endswith(f"/{n}") for f in ends)] == [
        "mlir/test/Integration/GPU/CUDA/sm90/python/tools/matmulBuilder.py"
    ]
    declined = text.partition("## Declined")[2]
    assert 0 < len(re.findall(r"^\d+\. ", declined, flags=re.M)) <= 8


def test_table_of_passes() -> None:
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", text_of("design/0003-passes.md"), flags=re.M)
    assert rows == [(str(i), p.__name__) for i, p in enumerate(PASSES, 1)]


def test_expressions_of_the_grammar() -> None:
    text = text_of("design/0002-kernel-ir.md")
    (infix,) = re.findall(r"Python's operators `(.*?)`", text)
    assert sorted(infix.split()) == sorted(op for op, (_, level) in OPS.items() if level)
    assert all(f"%{name}" in text for name in SPECIALS)


def test_nests_of_the_proposal() -> None:
    fusion = build_fusion(record_text(LINEAR))
    nests = side_by_side(compile_fusion(fusion, MatmulParams()).fusion)
    assert nests.partition("\nextents\n")[0] in text_of("design/0001-separate-sub-dags.md")


@pytest.mark.slow
def test_examples_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("nvfuser_direct")
    monkeypatch.chdir(tmp_path)  # what the examples save
    names: dict[str, object] = {}
    for block in python_blocks("README.md"):
        exec(compile(block, "README.md", "exec"), names)
    a, b, out = names["a"], names["b"], names["out"]
    expected = a.float() @ b.float().T  # type: ignore[attr-defined]
    assert (out.float() - expected).norm() < 4e-3 * expected.norm()  # type: ignore[attr-defined]


@pytest.mark.slow
def test_what_the_readme_shows_of_a_prediction(tmp_path: Path) -> None:
    """Each of its lines is one of those of the command."""
    pytest.importorskip("torch")
    file = tmp_path / "linear.py"
    file.write_text(LINEAR)
    words = ["why", str(file), "--shape", "2304x4352x1024", "--params", "cooperative"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    told = [" ".join(line.split()) for line in done.output.splitlines()]
    (block,) = re.findall(r"```\n(predicted .*?)```", text_of("README.md"), flags=re.DOTALL)
    shown = [" ".join(line.split()) for line in block.splitlines()]
    assert len(shown) > 12
    assert [line for line in shown if line not in told] == []


def test_a_matmul_from_nothing_takes_few_lines() -> None:
    (block,) = (b for b in python_blocks("README.md") if "wsched.Schedule(fd)" in b)
    assert len(lines := block.strip().splitlines()) <= 25
    assert max(map(len, lines)) <= 100


def test_example_of_the_debug_ladder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fusion = build_fusion(record_text(LINEAR.replace("BFloat16", "Half")))
    kernel = compile_fusion(fusion, MatmulParams())
    Path("chunk_epilogue.ir").write_text(kernel.dump("chunk_epilogue"))
    (example,) = python_blocks("design/0007-debug-ladder.md")
    names: dict[str, object] = {}
    exec(compile(example, "0007-debug-ladder.md", "exec"), names)
    assert names["kernel"] == kernel.kernel
