"""Programs as text, and back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.kernel.lexer import IRSyntaxError
from tests.program.programs import TEXT, K, M, N, buffer, plans, whole
from wsched.program.parse import parse_program
from wsched.program.program import Buffer, Program, WorkspaceStep
from wsched.program.text import print_program


def test_the_text_of_every_kind_of_step() -> None:
    assert print_program(whole().program) == TEXT


def test_it_is_read_back() -> None:
    parsed = parse_program(TEXT, plans())
    assert parsed == whole().program
    assert parsed.steps[1].plan is plans()["matmul"]  # type: ignore[union-attr]


def test_comments_and_space_mean_nothing() -> None:
    text = TEXT.replace("\n", "  # and so on\n\n")
    assert parse_program(text, plans()) == whole().program


def test_an_unknown_type_has_a_shape_or_none() -> None:
    known, unknown = Buffer("x", None, (M, N)), Buffer("s")
    program = Program((known, unknown, buffer("f")), (WorkspaceStep(buffer("c", 4), True),), ())
    text = print_program(program)
    assert "  x: any[M, N]\n  s: any\n  f: bf16[]\n" in text
    assert "  workspace c zeroed\n" in text
    assert parse_program(text, {}) == program


@pytest.mark.parametrize(
    ("old", "new", "line", "expected"),
    [
        ("program (", "kernel (", 1, "'program'"),
        ("(y, z)", "(y, u)", 1, "a declaration of u"),
        ("w: bf16", "w: bf17", 3, "an element type: "),
        ("y: bf16[M, P] at r", "y: bf16[M, P] at q", 11, "a buffer: x, w, v, r, s, a, h"),
        ("w: bf16", "x: bf16", 3, "another name"),
        ("kernel matmul", "kernel matmull", 14, "a kernel: matmul, residual"),
        ("copy x", "move x", 13, "a step: copy, workspace, join, kernel, summary, sweep, call; "),
        ("deterministic\n}", "deterministic\n} {", 19, "the end"),
        ("copy x -> a", "copy x, a", 13, "'->'"),
    ],
)
def test_what_is_no_program(old: str, new: str, line: int, expected: str) -> None:
    text = TEXT.replace(old, new, 1)
    assert text != TEXT
    with pytest.raises(IRSyntaxError) as e:
        parse_program(text, plans())
    assert e.value.line == line
    assert e.value.expected.startswith(expected)


def test_sizes_are_those_of_the_inputs() -> None:
    a = whole().a
    extents = {"M": 3, "K": 13}
    assert (a.sizes(extents), a.pitches(extents)) == ((3, 13), (16, 1))
    assert a.nbytes(extents) == (2 * 16 + 13) * 2
    assert a.nbytes({"M": 0, "K": 13}) == 0
    dense = replace(a, strides=None)
    assert dense.pitches(extents) == (13, 1)
    assert [str(e) for e in buffer("t", M, N, K).steps] == ["N * K", "K", "1"]
    assert Buffer("s").nbytes({}) == 0
