"""Turns: nobody arrives for the next one while somebody still has to come for this one.

Words stand for statements of a warp: ``s0`` syncs at barrier 0, ``a1`` arrives at barrier 1; in
parentheses stands what each trip of a loop does, in braces what it does if another trip follows, in
brackets what is done if there is any.
"""

from __future__ import annotations

import re

import pytest

from lowering.kernel.text import parse_kernel
from lowering.kernel.verify import verify
from lowering.machine import run_kernel
from lowering.machine.errors import MachineError
from lowering.proof.prove import prove

CIRCLE = "a1 (s0 a1) s0", "(s1 a0) s1 a0"
"""Two warps in turns, of which the first one hands the first turn to the other."""

PUT = {"s": "bar.sync x[{}]", "a": "bar.arrive x[{}]"}


def text(*warps: str, threads: int = 64) -> str:
    """A kernel whose barriers are of so many threads each."""
    lines, count = list[str](), 0
    for warp, words in enumerate(warps):
        lines.append(f"on %warp {warp} {{")
        for word in re.findall(r"[sa]\d|[][(){}]", words):
            match word:
                case "(":
                    lines.append(f"for i{warp} in 0 .. n {{")
                case "{":
                    lines.append(f"if i{warp} + 1 < n {{")
                case "[":
                    lines.append("if 0 < n {")
                case ")" | "}" | "]":
                    lines.append("}")
                case _:
                    lines.append(PUT[word[0]].format(word[1]))
                    count = max(count, int(word[1]) + 1)
        lines.append("}")
    body = "\n".join(lines)
    return f"""
    kernel k threads {32 * len(warps)} cluster 1 grid 1 {{
      param n: i32
      named_barrier x[{count}] id 1 threads {threads}
      {body}
    }}
    """


def open_claims(*warps: str, threads: int = 64) -> list[str]:
    """What is not proved of a kernel, in a line each."""
    kernel = parse_kernel(text(*warps, threads=threads))
    assert verify(kernel) == []
    return [str(o).splitlines()[0] for o in prove(kernel).open]


RIGHT = {
    "two": CIRCLE,
    "three": ("a1 (s0 a1) s0", "(s1 a2) s1 a2", "(s2 a0) s2 a0"),
    "four": ("a1 (s0 a1) s0", "(s1 a2) s1 a2", "(s2 a3) s2 a3", "(s3 a0) s3 a0"),
}
"""One circle each."""

TEXT = "named barriers (x): role all, warp "
EARLY = {
    "one runs ahead": (
        ("(s0)", "[a0] ({a0})"),
        f"{TEXT}1 arrives twice in a row: ((if 0 < n ((arrive 0)) ()) "
        "(loop 0 n 1 () ((if %0 + 1 < n ((arrive 0)) ()))))",
    ),
    "both begin with an arrival, beside a circle": (
        (*CIRCLE, "(a2 s3)", "(a3 s2)"),
        f"{TEXT}0 and role all, warp 2 and role all, warp 3 begin with an arrival",
    ),
}
"""What each warp does, and what is not proved of that."""


@pytest.mark.parametrize("name", RIGHT)
def test_one_circle(name: str) -> None:
    """The last of each begins again; of three and more each waits for the one in front."""
    assert open_claims(*RIGHT[name]) == []
    for seed in range(20):
        run_kernel(parse_kernel(text(*RIGHT[name])), {}, {"n": 3}, 1, seed=seed)


@pytest.mark.parametrize("name", EARLY)
def test_an_early_arrival(name: str) -> None:
    """In some order; one that comes to an end shows nothing."""
    warps, why = EARLY[name]
    assert open_claims(*warps) == [f"not proved {why}"]
    kernel, faults = parse_kernel(text(*warps)), set[str]()
    for seed in range(20):
        try:
            run_kernel(kernel, {}, {"n": 3}, 1, seed=seed)
        except MachineError as e:
            faults.add(e.what)
    assert faults
    assert all(
        re.fullmatch(r"CTA 0, warp \d arrives twice at .* before it completes", f) for f in faults
    )


def test_a_team_of_two_programs() -> None:
    """What one does elsewhere could let it arrive twice; that it does not is not proved."""
    warps = "(s0 a1) s0 a1", "(s0 a1 s2 a3) s0 a1", "a0 (s1 a0) s1", "(a2 s3)", "(a2 s3)"
    assert open_claims(*warps, threads=96) == [
        f"not proved {TEXT}0 and role all, warp 1 come to x[1], each by a program of its own"
    ]


def test_an_index_that_is_computed() -> None:
    """It could be that of any barrier."""
    kernel = parse_kernel(
        text("s0", "s0", "a0").replace("bar.arrive x[0]", "bar.arrive x[min(n, 0)]")
    )
    assert [str(o) for o in prove(kernel).open] == [
        "not proved named barriers (x): an index is no number"
    ]
