"""Damaged definitions that still are some compute what they say; all others are refused, in words.

What a text says is told by Python and torch (:mod:`tests.said`), in fp64 and in the types of the
definition. A result may be as far off as the second is, and a little.
"""

from __future__ import annotations

import contextlib
import random
import re
import time
import warnings
from collections import Counter
from typing import Any

import pytest

import wsched

torch = pytest.importorskip("torch", reason="torch is not installed")

from tests.random_program import RandomProgram  # noqa: E402
from tests.said import Said, SaysNothingError, said  # noqa: E402

WRITTEN = """\
def gelu(fd, x):
    more = fd.ops.add(fd.ops.erf(fd.ops.mul(x, 0.70710678)), 1.0)
    return fd.ops.mul(fd.ops.mul(x, 0.5), more)

def nvfuser_fusion(fd : FusionDefinition) -> None :
    kind = DataType.BFloat16
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=kind)
    weights = [fd.define_tensor(shape=[-1, 24], contiguity=True, dtype=kind) for n in range(2)]
    bias = fd.define_tensor(shape=[16], contiguity=[True], dtype=kind)
    column = fd.define_tensor(shape=[-1, 1], contiguity=[True, None], dtype=DataType.Float)
    s = fd.define_scalar(1.25, dtype=DataType.Double)
    y = fd.ops.linear(x, weights[0], bias)
    y = fd.ops.cast(gelu(fd, fd.ops.cast(y, DataType.Float)), dtype=kind)
    z = fd.ops.cast(fd.ops.linear(x, weights[1]), dtype=DataType.Float)
    variance, mean = fd.ops.var_mean(z, dims=[1], correction=0, keepdim=True)
    z = fd.ops.mul(fd.ops.sub(z, mean), fd.ops.rsqrt(fd.ops.add(variance, 1e-2)))
    z = fd.ops.where(fd.ops.gt(z, 0.5), fd.ops.mul(z, s), fd.ops.neg(z))
    rows = fd.ops.size(x, dim=0)
    flat = fd.ops.squeeze(column, dims=[1])
    spread = fd.ops.expand(fd.ops.broadcast(flat, [False, True]), shape=[rows, 16])
    z = fd.ops.add(z, fd.ops.abs(spread))
    for t in [z, fd.ops.pad(y, [1, 2, 0, 3], 0.5)]:
        fd.add_output(t)
    if kind == DataType.BFloat16:
        fd.add_output(fd.ops.max(z, dims=[0]))
    fd.add_output(fd.ops.slice(y, start_indices=[1, 0], end_indices=[8, 7]))
"""

SIZES = ((9, 24), (16, 24), (16, 24), (16,), (9, 1))

TOKEN = re.compile(r"\w+|\s+|.", re.DOTALL)
WORDS = (
    "None", "True", "False", "-1", "0", "1", "2", "3.0", '"a"', "t0", "t1", "v0", "[]", "()",
    "[-1]", "[[1]]", "1e400", "2**70", "DataType.Float", "DataType.Half", "DataType.Int",
    "lambda: 1", "1j", ")", "[", "=", ",",
)  # fmt: skip

KINDS = (
    "gone", "twice", "turned", "word", "exchanged", "more", "argument",
    "value", "value", "value", "operation", "operation", "operation", "number", "number",
    "flag", "flag",
)  # fmt: skip


def whole(rng: random.Random) -> tuple[str, list[Any]]:
    """A definition and inputs of its sizes."""
    number = rng.randrange(440)
    if number >= 400:
        return WRITTEN, [torch.zeros(n) for n in SIZES]
    program = RandomProgram(number, 32, 2)
    if "heads" in program.blocks:  # takes the machine seconds
        program = RandomProgram(8, 32, 2)
    return program.text, program.inputs


def damaged(rng: random.Random, text: str) -> str:
    """A text with one thing gone, doubled, exchanged or another one."""
    lines, tokens = text.splitlines(keepends=True), TOKEN.findall(text)
    kind = rng.choice(KINDS)
    at = rng.randrange(1, len(lines) - 1)
    if kind == "gone":
        return "".join(lines[:at] + lines[at + 1 :])
    if kind == "twice":
        return "".join([*lines[:at], rng.choice(lines), *lines[at:]])
    if kind == "turned":
        return "".join([*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]])
    if kind == "argument":
        found = re.findall(r", \w+=[^,()\[\]]+(?=[,)])", text) or [""]
        return text.replace(rng.choice(found), "", 1)
    places = {
        "value": r"[tv]\d+$|[xyzs]$",
        "number": r"\d+$",
        "flag": r"(True|False)$",
    }.get(kind, r"\w")
    found = [n for n, t in enumerate(tokens) if re.match(places, t)]
    if kind == "operation":
        found = [n + 2 for n, t in enumerate(tokens[:-2]) if t == "ops"]
    n = rng.choice(found)
    match kind:
        case "word":
            tokens[n] = rng.choice(WORDS)
        case "more":
            tokens.insert(n, rng.choice(WORDS))
        case "number":
            tokens[n] = str(max(0, int(tokens[n][:9]) + rng.choice([-1, 1])))
        case "flag":
            tokens[n] = str(tokens[n] != "True")
        case _:
            tokens[n] = tokens[rng.choice([m for m in found if m < n] or found)]
    return "".join(tokens)


def drawn(seed: int) -> tuple[str, list[Any]]:
    """A damaged definition, and the inputs that it had when it was whole."""
    rng = random.Random(f"said {seed}")
    text, inputs = whole(rng)
    for _ in range(rng.choice([1, 1, 1, 2])):
        text = damaged(rng, text)
    return text, inputs


def difference(found: Any, exact: Any, typed: Any) -> str:
    """What is wrong with a result; empty if it is right."""
    if found.shape != exact.shape or found.dtype != typed.dtype:
        return f"{found.dtype} {list(found.shape)}, not {typed.dtype} {list(exact.shape)}"
    f, e, t = found.double(), exact.double(), typed.double()
    finite = e.isfinite() & t.isfinite()
    alike = (e == t) | (
        e.isnan() & t.isnan()
    )  # where the types lose what fp64 has, nothing is said
    if bool((~finite & alike & (f != t) & ~(f.isnan() & t.isnan())).any()):
        return "infinite or no number elsewhere"
    f, e, t = f[finite], e[finite], t[finite]
    if not e.numel():
        return ""
    size = e.square().mean().sqrt()
    limit = 3 * (t - e).abs().max() + 2**-7 * (e.abs() + size)
    wrong = ~((f - e).abs() <= limit)
    return f"{int(wrong.sum())} of {f.numel()} beyond the limit" if bool(wrong.any()) else ""


def outcome(text: str, inputs: list[Any]) -> str:
    """What became of a text: ``right``, ``refused``, or what is wrong."""
    says: Said | None = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        with contextlib.suppress(SaysNothingError):
            says = said(text, inputs)
        try:
            results = wsched.execute(text, says.inputs if says else inputs)
        except wsched.WschedError as e:
            return f"refused, though it is a definition: {e}" if says else "refused"
    if says is None:
        return "taken, though it is no definition"
    if len(results) != len(says.exact):
        return f"{len(results)} results, not {len(says.exact)}"
    each = [difference(*x) for x in zip(results, says.exact, says.typed, strict=True)]
    return next((f"result {n}: {x}" for n, x in enumerate(each) if x), "right")


def judged(seeds: range) -> Counter[str]:
    """How many texts came to which end, none of them a wrong one, each within ten seconds."""
    found = Counter[str]()
    for seed in seeds:
        text, inputs = drawn(seed)
        begin = time.process_time()
        try:
            end = outcome(text, inputs)
        except Exception as e:
            raise AssertionError(f"seed {seed}\n{text}") from e
        assert end in ("right", "refused"), f"seed {seed}: {end}\n{text}"
        assert time.process_time() - begin < 10, f"seed {seed}\n{text}"
        found[end] += 1
    return found


def test_what_is_whole_is_right() -> None:
    text, inputs = WRITTEN, [torch.zeros(n) for n in SIZES]
    assert outcome(text, inputs) == "right"


def test_the_judge_sees_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [torch.zeros(n) for n in SIZES]
    other = said(WRITTEN.replace("1.0)", "1.1)"), inputs)
    results = wsched.execute(WRITTEN, other.inputs)
    wrong = [difference(*x) for x in zip(results, other.exact, other.typed, strict=True)]
    assert [bool(w) for w in wrong] == [False, True, False, True]
    assert outcome("def f(fd):\n    fd.add_output(fd.ops.neg())", []) == "refused"
    monkeypatch.setattr(wsched, "execute", lambda text, inputs: [])
    assert outcome(WRITTEN, inputs) == "0 results, not 4"
    assert outcome("def f(fd):\n    fd.ops.what()", []) == "taken, though it is no definition"


HEAD = """\
def f(fd):
    x = fd.define_tensor([-1, -1], [True, True], DataType.BFloat16)
    w = fd.define_tensor([-1, -1], [True, True], DataType.BFloat16, False, [0, 1])
    y = fd.ops.cast(fd.ops.linear(x, w), DataType.Float)
    z = {}
    fd.add_output(z)
"""


@pytest.mark.parametrize(
    "call",
    [
        "sum(y, [1], True)", "sum(y, 1, True)", "mul(y, fd.ops.sum(y, [-1], True))",
        "squeeze(fd.ops.sum(y, [1], True), [-1])", "max(fd.ops.max(y, [1], True), [0])",
        "permute(y, [-1, 0])", "sum(fd.ops.permute(y, [-1, -2]), [-1])", "cat([y, y], -1)",
        "matmul(fd.ops.permute(x, [-1, 0]), x)", "broadcast(y, [True, False, False])",
        "expand(fd.ops.sum(y, [1], True), [-1, 7])", "slice(y, [0, 1], [3, 4], [1, 2])",
        "reshape(fd.ops.permute(y, [1, 0]), [2, 12])", "pad(y, [1, 0], 2.0)",
        "var_mean(y, [1], 1, True)[0]",
    ],
)  # fmt: skip
def test_arguments_by_position(call: str) -> None:
    """nvFuser prints all but operands by name; who writes a definition need not."""
    inputs = [torch.zeros(6, 24), torch.zeros(4, 24)]
    assert outcome(HEAD.format(f"fd.ops.{call}"), inputs) == "right"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "linear(fd.ops.reshape(x, [12, 11]), w)",
            "a tensor of [6, 24], 144 elements, is viewed as one of [12, 11]",
        ),
        (
            "squeeze(y, [0])",
            "line 5: fd.ops.squeeze of [[6, 4]]: dimension 0 of extent 6 is squeezed",
        ),
        (
            "neg(fd.ops.squeeze(y, [0]))",
            "line 5: fd.ops.squeeze of [[6, 4]]: dimension 0 of extent 6 is squeezed",
        ),
        (
            "linear(fd.ops.cat([w, x], 1), fd.ops.cat([x, w], 0))",
            "K is 48 in dimension 1 of input 0 and 24 in dimension 1 of input 1",
        ),
    ],
)
def test_sizes_that_contradict_each_other(call: str, message: str) -> None:
    inputs = [torch.zeros(6, 24, dtype=torch.bfloat16), torch.zeros(24, 4).bfloat16().T]
    if "cat" in call:
        inputs[1] = torch.zeros(24, 6, dtype=torch.bfloat16).T
    with pytest.raises(wsched.InputError) as e:
        wsched.execute(HEAD.format(f"fd.ops.{call}"), inputs)
    assert str(e.value) == message


@pytest.mark.parametrize(
    "block", [0, 1, 2, 3, *(pytest.param(n, marks=pytest.mark.slow) for n in range(4, 100))]
)
def test_damaged_definitions_compute_what_they_say(block: int) -> None:
    judged(range(block * 3, block * 3 + 3))


@pytest.mark.slow
def test_many_of_them_are_definitions() -> None:
    """So that the test above says something."""
    texts = [drawn(seed) for seed in range(300)]
    found = 0
    for text, inputs in texts:
        with contextlib.suppress(SaysNothingError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found += bool(said(text, inputs).exact)
    assert found > 70
