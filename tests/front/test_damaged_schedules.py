"""Damaged texts of schedules: refused in words, or a kernel that is proved and right."""

from __future__ import annotations

import random
import re
import time
from collections import Counter

import pytest

import wsched
from tests.front.own import cooperative
from tests.schedules import definition
from wsched.run.proving import require_proved

torch = pytest.importorskip("torch", reason="torch is not installed")

TOKEN = re.compile(r"\w+|\s+|.", re.DOTALL)
KINDS = ("gone", "twice", "turned", "number", "number", "number", "word", "exchanged")
SIZES = ((136, 264, 72), (40, 24, 136), (264, 136, 200))


def damaged(rng: random.Random, text: str) -> str:
    """The calls of a schedule with a line gone, doubled or moved, or a word or number another."""
    lines, tokens = text.splitlines(keepends=True), TOKEN.findall(text)
    kind, at = rng.choice(KINDS), rng.randrange(1, len(lines) - 1)
    if kind == "gone":
        return "".join(lines[:at] + lines[at + 1 :])
    if kind == "twice":
        return "".join([*lines[:at], rng.choice(lines[1:]), *lines[at:]])
    if kind == "turned":
        return "".join([*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]])
    found = [n for n, t in enumerate(tokens) if re.match(r"\d+$" if kind == "number" else r"\w", t)]
    n = rng.choice(found)
    if kind == "number":
        value = int(tokens[n])
        tokens[n] = str(rng.choice([value * 2, value // 2, value + 1, max(0, value - 1)]))
    else:
        other = rng.choice(found)
        tokens[n], tokens[other] = tokens[other], tokens[n if kind == "exchanged" else other]
    return "".join(tokens)


def outcome(seed: int) -> str:
    """``right`` or ``refused``; what is wrong is raised."""
    rng = random.Random(f"schedule {seed}")
    head, calls = str(cooperative(definition())).split("def schedule")
    calls = f"def schedule{calls}"
    for _ in range(rng.choice([1, 1, 2])):
        calls = damaged(rng, calls)
    m, n, k = rng.choice(SIZES)
    x, w = (torch.randint(-2, 3, s).bfloat16() for s in ((m, k), (n, k)))
    begin = time.process_time()
    try:
        made = wsched.compile(wsched.Schedule.parse(head + calls), [x, w])
        (d,) = made(x, w)
    except (wsched.ScheduleError, wsched.UnsupportedError) as e:
        assert str(e)
        return "refused"
    finally:
        assert time.process_time() - begin < 10, calls
    assert torch.equal(d, (x.double() @ w.double().T).bfloat16()), calls
    require_proved(made.kernel)
    return "right"


def judged(seeds: range) -> Counter[str]:
    """How many came to which end; a text that raises anything else is told by its seed."""
    found = Counter[str]()
    for seed in seeds:
        try:
            found[outcome(seed)] += 1
        except Exception as e:
            raise AssertionError(f"seed {seed}") from e
    return found


@pytest.mark.slow
def test_some_are_schedules() -> None:
    assert judged(range(12)).keys() == {"right", "refused"}


@pytest.mark.parametrize(
    "block", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 120))]
)
def test_damaged_schedules_are_refused_or_right(block: int) -> None:
    judged(range(block * 2, block * 2 + 2))
