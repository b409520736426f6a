"""Damaged and hostile texts: a definition, or a refusal that names the line; quickly, always."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lowering.ground.errors import UnsupportedError
from wsched.importer import build_fusion, missing_ops, record_text
from wsched.importer.text.expressions import DEPTH

TEXT = """\
import torch
from nvfuser import FusionDefinition, DataType

def nvfuser_fusion_id0(fd : FusionDefinition) -> None :
    # a gated layer
    T0 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    T1 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    S2 = fd.define_scalar(1.70200, dtype=DataType.Double)
    V3 = fd.define_vector([S2, 4], dtype=DataType.Int)
    T4 = fd.ops.linear(T0, T1)
    T5 = fd.ops.cast(T4, dtype=DataType.Float)
    T6 = fd.ops.mul(T5, fd.ops.sigmoid(fd.ops.mul(T5, S2)))
    T7, T8 = fd.ops.var_mean(T6, dims=[1], correction=0, keepdim=False)
    T9 = fd.ops.reshape(T6, new_shape=V3)
    for t in [T7, T8]:
        fd.add_output(fd.ops.neg(t))
    fd.add_output(T9)

with FusionDefinition() as fd:
    nvfuser_fusion_id0(fd)
fd.execute([torch.randn(8, 8, dtype=torch.bfloat16)])
"""
TOKEN = re.compile(r"\w+|[^\w\s]|\s+")
ODD = (
    "\0", "\ufeff", "\ud800", "\u2028", "\x0c", "(", ")", "[", "'", '"', "@", "**", ":", "=", ",",
    "lambda", "del", "yield", "await", "class", "x" * 300, "9" * 5000, "1e999", "0x", "-", "\\\n",
)  # fmt: skip


def damaged(seed: int) -> str:
    """``TEXT`` with a few tokens gone, doubled, exchanged, cut off or put in."""
    rng = random.Random(seed)
    tokens = TOKEN.findall(TEXT)
    for _ in range(rng.randint(1, 4)):
        at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        match rng.randrange(6):
            case 0:
                del tokens[at : at + rng.randint(1, 3)]
            case 1:
                tokens.insert(at, tokens[at])
            case 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens.insert(at, rng.choice(ODD))
            case 4:
                tokens[at] = tokens[other]
            case 5:
                del tokens[max(at, 20) :]
    return "".join(tokens)


def refusal(text: str) -> str | None:
    """The error, if there is one; what else is raised is raised here, too."""
    try:
        definition = record_text(text)
        missing_ops(definition)
        definition.check_complete()
    except UnsupportedError as e:
        return str(e)
    return None


def test_the_text_is_whole() -> None:
    assert refusal(TEXT) is None
    assert len(record_text(TEXT).nodes) == 12


@pytest.mark.parametrize("block", range(30))
def test_damaged_texts_are_refused_by_line(block: int) -> None:
    refused = 0
    for seed in range(block * 10, block * 10 + 10):
        start = time.perf_counter()
        found = refusal(damaged(seed))
        assert time.perf_counter() - start < 2, seed
        if found is not None:
            refused += 1
            assert re.match(r"line \d+: |text with \d+ fusion definitions ", found), (seed, found)
    assert refused > 2


NESTED = "    x = {}\n    fd.add_output(x)\n"
HEAD = "def f(fd: FusionDefinition):\n    t = fd.define_tensor(shape=[2])\n"


def test_as_deep_as_texts_may_be() -> None:
    """The statement is a level, each call one, and the name of the innermost has three."""
    calls = DEPTH - 4
    for more, message in ((0, None), (1, "line 3: deeper nesting in `x = ")):
        nested = "fd.ops.neg(" * (calls + more) + "t" + ")" * (calls + more)
        found = refusal(HEAD + NESTED.format(nested))
        assert found is message if message is None else str(found).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + NESTED.format("fd.ops.neg(" * 150 + "t" + ")" * 150), "line 3: deeper nesting in "),
        (
            HEAD + NESTED.format("fd.ops.neg(" * 5000 + "t" + ")" * 5000),
            "line 3: the nesting of `x = fd.ops.neg(",
        ),
        (HEAD + "    x = (\u202e t\x1b[31m\n", "line 3: `x = (\\u202e t\\x1b[31m` is not"),
        (HEAD + NESTED.format("[" * 90 + "]" * 90), "line 3: deeper nesting in "),
        (HEAD + NESTED.format("-" * 20000 + "1"), "line 3: the nesting of `x = ----"),
        (HEAD + NESTED.format("fd" + ".ops" * 20000), "line 3: the nesting of `x = fd.ops"),
        (HEAD + NESTED.format("+".join(["1"] * 5000)), "line 3: "),
        (HEAD + NESTED.format("9 ** 9 ** 9 ** 9"), "line 3: `x = 9 ** 9 ** 9 ** 9`"),
        (HEAD + NESTED.format("[0] * 10 ** 30"), "line 3: "),
        (HEAD + NESTED.format("1 / 0"), "line 3: "),
        (
            HEAD + "    x = [0]\n    for i in range(99):\n        x = x + x\n    fd.ops.neg(x)",
            "line 5: `x = x + x`",
        ),
        (
            HEAD + "    for i in range(9999):\n        for j in range(9999):\n            pass\n",
            "line 5: one step too many in ",
        ),
        pytest.param(
            HEAD + NESTED.format("[0 for i in range(999) for j in range(999) if j < 0]"),
            "line 3: one step too many in ",
            marks=pytest.mark.slow,
        ),
        ("def g(fd):\n    return g(fd)\n" + HEAD + "    g(fd)\n", "line 2: deeper nesting in "),
        (HEAD + "    t\0 = 3\n", "line 3: the character NUL in `t\\0 = 3`"),
        (HEAD + "    # \ud800\n", "line 3: the character '\\ud800' in `# "),
        ("", "text with 0 fusion definitions"),
        ("\0", "line 1: the character NUL in "),
    ],
)
def test_hostile_texts(text: str, message: str) -> None:
    start = time.process_time()
    found = refusal(text)
    assert time.process_time() - start < 5
    assert found is not None and found.startswith(message), found
    assert len(found) < 1000


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_marks_and_line_ends_that_editors_leave(ending: str) -> None:
    text = "\ufeff" + TEXT.replace("\n", ending)
    assert record_text(text) == record_text(TEXT)
    with pytest.raises(UnsupportedError, match=r"^line 9: the name S9 in `V3 = "):
        record_text(text.replace("[S2, 4]", "[S9, 4]").replace("# a", "# \x0c\u2028 a"))


# --- without torch and nvFuser -------------------------------------------------------------------

BLOCKED = """
import sys
for name in ("torch", "nvfuser_direct", "nvfuser"):
    sys.modules[name] = None
from wsched.cli.entry import main
main()
"""


def explained(path: Path, text: str) -> subprocess.CompletedProcess[str]:
    path.write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-c", BLOCKED, "explain", str(path)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_explain_without_torch(tmp_path: Path) -> None:
    done = explained(tmp_path / "gated.py", TEXT)
    assert (done.returncode, done.stderr) == (0, "")
    told = " ".join(done.stdout.split())
    assert "torch is not installed" in told and "nvFuser is not installed" in told
    assert "fd.ops.var_mean (line 13): a reduction or scan over a dimension" in told
    assert "fd.ops.reshape (line 14): moves elements" in told


@pytest.mark.slow
def test_explain_a_kernel_without_torch(tmp_path: Path) -> None:
    text = HEAD.replace("[2]", "[-1, -1], dtype=DataType.Half").replace("t =", "w =")
    text += (
        text.splitlines()[1].replace("w =", "x =") + "\n    fd.add_output(fd.ops.linear(x, w))\n"
    )
    done = explained(tmp_path / "linear.py", text)
    assert (done.returncode, done.stderr) == (0, "")
    assert "wsched's kernel" in " ".join(done.stdout.split())
    build_fusion(record_text(text))
