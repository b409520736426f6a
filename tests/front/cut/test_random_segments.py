"""Random definitions, cut in every way: the segments one after the other are the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowering.ground.errors import UnsupportedError
from tests.doors.dropin.definitions import BF16, F32, built, matrix, torch
from wsched.doors.fallback import interpret
from wsched.front.cut.epilogues import Take
from wsched.front.cut.segments import Cutter
from wsched.importer import build_fusion, definition_of

N = 8
"""All matrices are square, so that any can meet any."""

OPS = ("linear", "matmul", "relu", "add", "mul", "wide", "narrow", "silu", "rows", "columns")

Steps = list[tuple[str, int, int]]
steps_of = st.lists(
    st.tuples(st.sampled_from(OPS), st.integers(0, 30), st.integers(0, 30)), min_size=2, max_size=14
)


def write(fd: Any, steps: Steps, outputs: Sequence[int], count: int = 3) -> None:
    """Inputs, then each step's operation on two of the values before it."""
    inputs = [matrix(fd) for _ in range(count)]
    values, wide = list(inputs), [False] * count
    for op, i, j in steps:
        i, j = i % len(values), j % len(values)
        x, y, is_wide = values[i], values[j], wide[i]
        if op in ("linear", "matmul"):
            x, y = (fd.ops.cast(v, dtype=BF16) if w else v for v, w in ((x, wide[i]), (y, wide[j])))
            made, is_wide = getattr(fd.ops, op)(x, y), False
        elif op in ("add", "mul"):
            made, is_wide = getattr(fd.ops, op)(x, y), True
        elif op in ("wide", "narrow"):
            is_wide = op == "wide"
            made = fd.ops.cast(x, dtype=F32 if is_wide else BF16)
        elif op in ("rows", "columns"):
            f = fd.ops.cast(x, dtype=F32)
            least = fd.ops.max(f, dims=[int(op == "rows")], keepdim=True)
            made, is_wide = fd.ops.sub(f, least), True
        else:
            made = getattr(fd.ops, op)(x)
        values.append(made)
        wide.append(is_wide)
    made_here = values[len(inputs) :]
    for at in sorted({o % len(made_here) for o in outputs} | {len(made_here) - 1}):
        fd.add_output(made_here[at])


@settings(max_examples=25, deadline=None)
@given(steps_of, st.lists(st.integers(0, 30), max_size=2), st.integers(0, 1000))
def test_the_segments_are_the_whole(steps: Steps, outputs: list[int], seed: int) -> None:
    fd = built(lambda fd: write(fd, steps, outputs, 4))  # so that two matmuls may share nothing
    whole = definition_of(fd)
    generator = torch.Generator().manual_seed(seed)
    inputs = [torch.randint(-1, 2, (N, N), generator=generator).bfloat16() for _ in whole.inputs]
    for take in (Take.ALL, Take.NARROW, Take.NONE):
        try:
            segments = Cutter(whole).all(take).segments
        except UnsupportedError:
            continue
        values = dict(zip((n.results[0] for n in whole.inputs), inputs, strict=True))
        for s in segments:
            if s.matmul:
                build_fusion(s.definition)
            results = interpret(s.definition, [values[n] for n in s.inputs])
            values |= dict(zip(s.outputs, results, strict=True))
        for n, w in zip(whole.outputs, interpret(whole, inputs), strict=True):
            assert torch.equal(values[n], w) or bool((values[n].isnan() == w.isnan()).all())


def test_nvfuser_between_two_matmuls() -> None:
    fd = built(lambda fd: write(fd, [("linear", 0, 1), ("rows", 3, 0), ("linear", 4, 2)], []))
    whole = definition_of(fd)
    assert [s.matmul for s in Cutter(whole).all(Take.ALL).segments] == [True, False, True]


@pytest.mark.parametrize("take", [Take.ALL, Take.NARROW, Take.NONE])
def test_a_value_that_two_matmuls_need(take: Take) -> None:
    """It stands before both, whichever of them comes first."""
    steps = [("rows", 0, 0), ("linear", 3, 1), ("linear", 3, 2), ("add", 4, 5)]
    fd = built(lambda fd: write(fd, steps, [0]))
    found = Cutter(definition_of(fd)).all(take).segments
    made = [set(s.outputs) for s in found]
    assert found[0].matmul is False and len(found) == 3 + (take is Take.NONE)
    for k, s in enumerate(found):
        later = set().union(*made[k:])
        assert not later & set(s.inputs)
