"""Programs that cannot run: which rule, why, and what is legal, word for word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import ScheduleError
from tests.program.programs import TEXT, plans, whole
from wsched.program.parse import parse_program
from wsched.program.prepare import prepare
from wsched.program.verify import verify


def refusal(text: str) -> str:
    """The error of a program as text, without the program that it ends with."""
    with pytest.raises(ScheduleError) as e:
        verify(parse_program(text, plans()))
    head, _, tail = str(e.value).partition("\n  in:\n")
    assert tail.splitlines()[0].startswith("    program (")
    return head


def test_a_program_of_all_steps() -> None:
    verify(whole().program)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (
            "copy x -> a\n",
            "",
            "ScheduleError[buffer-defined]: kernel matmul(a, w) -> h: a is read, and nothing has "
            "written it before\n  legal here: x; w; v; r; s",
        ),
        (
            "workspace memory\n  call scale(h, s) -> g",
            "workspace memory\n  call scale(memory, s) -> g",
            "ScheduleError[buffer-defined]: call scale(memory, s) -> g deterministic "
            "batch_invariant: memory is read, a workspace that holds nothing\n"
            "  legal here: workspace memory zeroed; a buffer at memory that a step has written",
        ),
        (
            "call widen(y)",
            "call widen(r)",
            "ScheduleError[buffer-taken]: call widen(r) -> z deterministic: r is read, and its "
            "memory holds y\n  legal here: x; w; v; s; a; h; g; y",
        ),
        (
            "call widen(y) -> z",
            "call widen(y) -> h",
            "ScheduleError[buffer-written]: call widen(y) -> h deterministic: h is written again: "
            "it was written by kernel matmul(a, w) -> h\n  legal here: a buffer of its own",
        ),
        (
            "call widen(y) -> z",
            "call widen(y) -> x",
            "ScheduleError[buffer-written]: call widen(y) -> x deterministic: x is written again: "
            "it is an input\n  legal here: a buffer of its own",
        ),
        (
            "workspace memory\n  call scale",
            "call scale",
            "ScheduleError[in-place]: call scale(h, s) -> g deterministic batch_invariant: g lies "
            "at memory, which is no memory before this step\n"
            "  legal here: x; w; v; r; s; a; h; g",
        ),
        (
            "z: f32[M, P]",
            "z: bf16[M, P] at r",
            "ScheduleError[in-place]: call widen(y) -> z deterministic: z lies at r, whose memory "
            "holds y\n  legal here: z at y",
        ),
        (
            "z: f32[M, P]",
            "z: f32[M, P] at y",
            "ScheduleError[in-place]: call widen(y) -> z deterministic: z lies at y, which has "
            "another type, shape or strides",
        ),
        (
            "a: bf16[M, K] strides [ceildiv(K, 8) * 8, 1]",
            "a: bf16[M, K] at x",
            "ScheduleError[in-place]: copy x -> a: a lies at x: it is no copy",
        ),
        (
            "h: bf16[M, N]",
            "h: bf16[M, Q]",
            "ScheduleError[buffer-extent]: h: Q: no input has a dimension Q\n"
            "  legal here: K; M; N; P",
        ),
        (
            "-> (y, z)",
            "-> (y, x)",
            "ScheduleError[output]: output x: x is an input, and a result is memory of its own or "
            "written in place\n  legal here: a copy of it",
        ),
        (
            "-> (y, z)",
            "-> (y, y)",
            "ScheduleError[output]: output y: it is a result already\n  legal here: a copy of it",
        ),
        (
            "-> (y, z)",
            "-> (y, r)",
            "ScheduleError[buffer-taken]: output r: r is read, and its memory holds y\n"
            "  legal here: x; w; v; s; a; h; g; y; z",
        ),
        (
            "kernel matmul(a, w)",
            "kernel matmul(a, w, v)",
            "ScheduleError[kernel]: kernel matmul(a, w, v) -> h: it reads 3 buffers, the plan 2",
        ),
        (
            "w: bf16[N, K]",
            "w: f16[N, K]",
            "ScheduleError[kernel]: kernel matmul(a, w) -> h: w has elements of type f16, the plan "
            "bf16",
        ),
        (
            "h: bf16[M, N]",
            "h: any",
            "ScheduleError[kernel]: kernel matmul(a, w) -> h: h has elements of type any, the plan "
            "bf16",
        ),
        (
            "w: bf16[N, K]",
            "w: bf16[K]",
            "ScheduleError[kernel]: kernel matmul(a, w) -> h: w has 1 dimensions, the plan 2",
        ),
        (
            "w: bf16[N, K]",
            "w: bf16[N, K + 1]",
            "ScheduleError[kernel]: kernel matmul(a, w) -> h: K is K + 1 in w and K in a",
        ),
        (
            "a: bf16[M, K] strides",
            "a: f16[M, K] strides",
            "ScheduleError[copy]: copy x -> a: a copy has the type of what is copied, which has to "
            "be known: bf16 is f16",
        ),
        (
            "a: bf16[M, K] strides",
            "a: bf16[M, K + 8] strides",
            "ScheduleError[copy]: copy x -> a: [M, K] into [M, K + 8]",
        ),
        (
            "  memory: bf16[M, N]\n",
            "  memory: bf16[M, N] at h\n",
            "ScheduleError[in-place]: workspace memory: a workspace is new memory of a size that "
            "is known",
        ),
        (
            "w: bf16[N, K]",
            "w: bf16[N, K] at x",
            "ScheduleError[in-place]: input w: it is an input, and lies at x\n"
            "  legal here: memory of its own",
        ),
    ],
)
def test_refused(old: str, new: str, text: str) -> None:
    changed = TEXT.replace(old, new, 1)
    assert changed != TEXT
    assert refusal(changed) == text


def test_a_kernel_overwrites_nothing_that_it_still_reads() -> None:
    """An operand is read by CTAs that compute other tiles; a matrix of the epilogue is not."""
    text = """\
program (x, w) -> (y) {
  x: bf16[M, M]
  w: bf16[M, M]
  y: bf16[M, M] at x
  kernel matmul(x, w) -> y
}
"""
    assert refusal(text) == (
        "ScheduleError[in-place]: kernel matmul(x, w) -> y: y [M, N] lies at x, which the kernel "
        "reads as [M, K], elements of it after others have been written\n"
        "  legal here: a buffer of its own for y"
    )


def test_two_buffers_of_one_name() -> None:
    """A text cannot say that, so the program is made by hand."""
    w = whole()
    other = replace(w.x, dtype=None)
    with pytest.raises(ScheduleError) as e:
        verify(replace(w.program, outputs=(w.y, other)))
    assert str(e.value).startswith(
        "ScheduleError[buffer-name]: x: there are two buffers of this name that differ\n  in:\n"
    )


def test_what_cannot_run_is_not_prepared() -> None:
    program = parse_program(TEXT.replace("copy x -> a\n", ""), plans())
    with pytest.raises(ScheduleError) as e:
        prepare(program, {}, {}, [])
    assert e.value.rule == "buffer-defined"
