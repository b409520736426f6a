"""When memory is needed, and who shares it."""

from __future__ import annotations

import random

from lowering.ground.dtypes import DType
from tests.program.programs import buffer, whole
from wsched.program.lifetimes import ALIGNMENT, Lifetime, arena_of, last_uses, lifetimes
from wsched.program.program import Buffer, CallStep, Program


def test_lifetimes_of_every_kind_of_step() -> None:
    found = {b.name: (t.first, t.last) for b, t in lifetimes(whole().program).items()}
    assert found == {
        "x": (-1, 0), "w": (-1, 1), "v": (-1, 4), "r": (-1, 6), "s": (-1, 3), "a": (0, 1),
        "h": (1, 3), "memory": (2, 4), "z": (5, 6),
    }  # fmt: skip


def test_last_uses_name_every_buffer_of_the_memory() -> None:
    names = [[b.name for b in buffers] for buffers in last_uses(whole().program)]
    assert names == [["x"], ["w", "a"], [], ["s", "h"], ["v", "memory", "g"], []]


def test_a_program_allocates_what_lies_nowhere_yet() -> None:
    program = whole().program
    names = [[b.name for b in program.allocates(s)] for s in program.steps]
    assert names == [["a"], ["h"], ["memory"], [], [], ["z"]]


def test_memory_is_used_again() -> None:
    """``memory`` is needed from step 2 on, ``a`` up to step 1; ``h`` overlaps both."""
    extents = {"M": 10, "N": 100, "K": 64, "P": 8}
    arena = arena_of(whole().program, extents)
    offsets = {b.name: at for b, at in arena.offsets.items()}
    assert offsets == {"h": 0, "memory": 2048, "a": 2048}
    assert arena.nbytes == 2048 + 2048  # the last one has 2000


def test_nothing_between_steps() -> None:
    x, y = buffer("x", 4), buffer("y", 4)
    program = Program((x,), (CallStep("f", (x,), (y,)),), (y,))
    assert arena_of(program, {}).nbytes == 0


def drawn(seed: int) -> Program:
    """A chain of calls that read some of what is there, of random sizes."""
    draw = random.Random(seed)
    x = buffer("x", 4)
    there, steps = [x], []
    for number in range(draw.randint(2, 14)):
        reads = tuple(draw.sample(there, draw.randint(1, min(3, len(there)))))
        made: Buffer = buffer(f"b{number}", draw.randint(1, 5000), dtype=DType.U8)
        steps.append(CallStep("f", reads, (made,)))
        there.append(made)
    return Program((x,), tuple(steps), (there[-1],))


def test_what_is_needed_at_once_lies_apart() -> None:
    """200 drawn programs: no byte has two owners at a step, and some bytes have two in turn."""
    shared = 0
    for seed in range(200):
        program = drawn(seed)
        living, arena = lifetimes(program), arena_of(program, {})
        spans = {b: range(at, at + b.nbytes({})) for b, at in arena.offsets.items()}
        assert all(at % ALIGNMENT == 0 for at in arena.offsets.values())
        assert all(span.stop <= arena.nbytes for span in spans.values())
        for a in spans:
            for b in spans:
                meet = max(spans[a].start, spans[b].start) < min(spans[a].stop, spans[b].stop)
                assert a is b or not (meet and living[a].overlaps(living[b])), seed
        at_once = max(
            sum(b.nbytes({}) for b in spans if living[b].overlaps(Lifetime(k, k)))
            for k in range(len(program.steps))
        )
        assert arena.nbytes >= at_once
        shared += arena.nbytes < sum(b.nbytes({}) for b in spans)
    assert shared > 100
