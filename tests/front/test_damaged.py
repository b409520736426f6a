"""Definitions of real programs with other words in them are explained or refused."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from wsched.choose.gpus import H200_SMS
from wsched.front.explain import explain_definition
from wsched.front.sizes import extents_for
from wsched.importer import record_text
from wsched.importer.input_error import InputError

TEXTS = sorted((Path(__file__).parents[1] / "data" / "definitions").glob("*.txt"))
TOKEN = re.compile(r"\w+|\s+|.", re.DOTALL)
WORDS = (
    "None", "True", "-1", "0", "3.0", '"a"', "tv0", "tv1", "[]", "()", "[-1]", "[[1]]", "1e400",
    "2**70", "DataType.Float", "DataType.Half", "DataType.Int", "lambda: 1", "1j",
)  # fmt: skip


def damaged(seed: int) -> str:
    """A definition in which a word or line is gone, doubled, or another one."""
    rng = random.Random(seed)
    text = rng.choice(TEXTS).read_text(encoding="utf-8")
    for _ in range(rng.choice([1, 1, 2])):
        lines, tokens = text.splitlines(keepends=True), TOKEN.findall(text)
        words = [n for n, t in enumerate(tokens) if re.match(r"[-\w]", t)]
        match rng.randrange(5):
            case 0:
                del lines[rng.randrange(len(lines))]
                tokens = lines
            case 1:
                lines.insert(rng.randrange(len(lines)), rng.choice(lines))
                tokens = lines
            case 2:
                tokens[rng.choice(words)] = rng.choice(WORDS)
            case 3:
                tokens[rng.choice(words)] = tokens[rng.choice(words)]
            case 4:
                tokens.insert(rng.choice(words), rng.choice(WORDS))
        text = "".join(tokens)
    return text


def explained(text: str) -> str:
    """What ``wsched explain`` prints, the refusal too."""
    try:
        made = explain_definition(
            text, "a GPU", lambda fusion: extents_for(fusion).problem(fusion, H200_SMS)
        )
    except (UnsupportedError, InputError) as e:
        return str(e)
    return str(made)


def named(stem: str) -> str:
    """One of the texts."""
    return next(p for p in TEXTS if p.stem == stem).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:invalid decimal literal:SyntaxWarning")
@pytest.mark.parametrize("block", range(8))
def test_damaged_definitions_are_explained_or_refused(block: int) -> None:
    found = [explained(damaged(seed)) for seed in range(block * 12, block * 12 + 12)]
    assert all(found)
    assert any("is not supported" in text for text in found)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("bias=tv5", "bias=tv6", "fd.ops.linear of operands of 3, 2, 2 dimensions"),
        ("linear(tv29, tv4,", "linear(tv29, tv29,", "of operands of 3, 3, 1 dimensions"),
    ],
)
def test_products_of_too_many_dimensions(old: str, new: str, message: str) -> None:
    text = named("hf_gpt_neox_parallel")
    assert old in text
    text = text.replace("shape=[2560]", "shape=[-1]", 1)  # of all sizes torch says what is wrong
    text = explained(text.replace(old, new))
    assert (
        f"{message} is not supported; supported: weights of 1 or 2, a bias of one less, other "
        "operands of 1 or more"
    ) in text


@pytest.mark.slow
def test_a_number_is_cast_beside_products() -> None:
    text = named("th_llama2_feed_forward")
    assert "cast(tv14, " in text
    assert explained(text.replace("cast(tv14, ", "cast(0, ")).startswith("route on a GPU")


def test_an_extent_that_nobody_counts_to() -> None:
    """Of a result, whose size a plan asks for before anybody makes it."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    text = named("hf_vit_patches")
    old = "new_shape=[32, 196, 768]"
    assert old in text
    given = [n.get("shape") for n in record_text(text).inputs]
    inputs = [torch.empty(s, dtype=torch.bfloat16, device="meta") for s in given]
    with pytest.raises(InputError, match=r"^line 11: fd\.ops\.reshape of "):
        wsched.explain(text.replace(old, f"new_shape=[{2**63}, 768, 768]"), inputs, gpu="H200")
