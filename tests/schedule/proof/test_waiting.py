"""Parts that would wait for each other are refused; those that only seem to are not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import ScheduleError
from lowering.machine.errors import MachineError
from tests.legality.builder import ON_TIDY, Matmul, P, matmul
from tests.legality.by_hand.parts import fragments
from tests.legality.machine import compiled, problems, run_wrong
from wsched.fusion import (
    CastOp,
    Fusion,
    LoadStoreOp,
    LoadStoreOpType,
    MemoryType,
    WarpSpecialized,
    rewire,
)
from wsched.schedule import Schedule, make_plan, plan

ST, LD = LoadStoreOpType.StMatrix, LoadStoreOpType.LdMatrix
RING = WarpSpecialized(P.TIDy, None, 3)

RELU_BESIDE = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    tv0 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    tv1 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    tv2 = fd.ops.linear(tv0, tv1, dtype=DataType.Float)
    tv3 = fd.ops.cast(tv2, dtype=DataType.BFloat16)
    tv4 = fd.ops.relu(tv3)
    tv5 = fd.ops.add(tv4, tv2)
    tv6 = fd.ops.cast(tv5, dtype=DataType.BFloat16)
    fd.add_output(tv6)
"""
"""What is rounded and what is not meet again."""

ADD_MUL = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    tv0 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    tv1 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    tv2 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    tv3 = fd.ops.linear(tv0, tv1, dtype=DataType.Float)
    tv4 = fd.ops.add(tv3, tv2)
    tv5 = fd.ops.cast(tv4, dtype=DataType.BFloat16)
    tv6 = fd.ops.mul(tv5, tv2)
    tv7 = fd.ops.cast(tv6, dtype=DataType.BFloat16)
    fd.add_output(tv7)
"""
"""One matrix is read in front of a rounding and behind it."""


def tiled(m: Matmul) -> None:
    """Tiles of 64 x 64, dealt out in turn, steps of 32 of K."""
    m.tile(64, 64, 32)
    m.deal()
    m.steps("tile k")
    m.stage()
    m.order((m.acc,), "cta tile")
    m.wgmma()


def in_a_circle() -> Fusion:
    """What is rounded goes to another part, which gives its relu back."""
    m = matmul(RELU_BESIDE, by_tma=False)
    s = m.s
    rounded, relu, back, total, cast, out = m.epilogue
    rings = (rounded, relu)
    held = {tv: s.cache_before(tv, ST) for tv in rings}
    for tv in rings:
        s.set_memory_type(tv, MemoryType.Shared)
    read = {tv: s.cache_after(tv, LD) for tv in rings}
    chains = [
        (held[rounded], rounded), (read[rounded], held[relu], relu),
        (read[relu], back, total, cast, out),
    ]  # fmt: skip
    m.epilogue = tuple(tv for chain in chains for tv in chain)
    tiled(m)
    m.split(m.epilogue, "Ni", 16, "chunk Ni")
    for chain in chains:
        fragments(m, chain, "cta tile chunk")
    for tv in rings:
        s.circular_buffer(tv, 2, 1, RING)
    s.inline_at(m.acc, "tile")
    return s.fusion


def read_by_two(matrix: str = "chunk", rounded_by: str = "chunk") -> Fusion:
    """``(A B + C) * C``: one part adds and rounds, the next one multiplies, both read C.

    Args:
        matrix: what C comes by, ``tile`` or ``chunk``.
        rounded_by: what the other ring has steps for.
    """
    m = matmul(ADD_MUL, by_tma=False, ring=True)
    copy, wide, total, rounded, again, product, cast, out = m.epilogue
    second, f = twice(m.s.fusion, copy, wide, product)
    m.s = s = Schedule(f)
    held = s.cache_before(rounded, ST)
    s.set_memory_type(rounded, MemoryType.Shared)
    read = s.cache_after(rounded, LD)
    chains = (copy, wide, total, held, rounded), (read, again, *second, product, cast, out)
    m.epilogue = (*chains[0], *chains[1])
    tiled(m)
    chunked = m.epilogue if matrix == "tile" else (*m.rings, *m.epilogue)
    m.split(chunked, "Ni", 16, "chunk Ni")
    (aux,) = m.rings
    m.order((aux,), "cta tile chunk")
    if matrix == "chunk":
        m.merge((aux,), "tile chunk", "tile·chunk")
    m.fill((aux,), 2, 1, ON_TIDY)
    for chain in chains:
        fragments(m, chain, "cta tile chunk")
    position = 3 if rounded_by == "chunk" else 2
    s.circular_buffer(rounded, 2, 1, WarpSpecialized(P.TIDy, None, position))
    s.inline_at(m.acc, "tile")
    return s.fusion


def twice(f: Fusion, copy: str, wide: str, reader: str) -> tuple[tuple[str, str], Fusion]:
    """A second copy of a matrix, and its cast, for one of those that read the first."""
    names = f"T{len(f.tensors)}", f"T{len(f.tensors) + 1}"
    for old, new in zip((copy, wide), names, strict=True):
        domains, next_id = f.fresh(f.tensor(old).logical)
        t = replace(f.tensor(old), name=new, logical=domains, loop=domains)
        f = f.updated((t,), next_id=next_id)
    source = f.definition(copy)
    assert isinstance(source, LoadStoreOp)
    more = replace(source, output=names[0]), CastOp(names[1], names[0])
    exprs = [rewire(e, wide, names[1]) if e.output == reader else e for e in f.exprs]
    at = next(n for n, e in enumerate(exprs) if e.output == reader)
    return names, replace(f.updated((), (*exprs[:at], *more, *exprs[at:])), history=())


def refused(f: Fusion) -> ScheduleError:
    with pytest.raises(ScheduleError) as error:
        make_plan(f)
    return error.value


def test_parts_in_a_circle() -> None:
    error = refused(in_a_circle())
    ring = "WarpSpecialized(on=ParallelType.TIDy, stage_slice_position=3)"
    assert error.wrote == f"circular_buffer('T6', 2, 1, {ring})"
    assert (error.rule, error.why, error.legal) == (
        "parts",
        "T16 reads T6, and T6 is computed from what the part of T16 fills: none of their parts can "
        "be first",
        ("one part: what is read in between is no ring",),
    )


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("matrix", "by"), [("chunk", "chunk"), ("tile", "chunk"), ("tile", "tile")]
)
def test_two_ways_in_one_order(matrix: str, by: str) -> None:
    """Both parts take a step of C first; of what is rounded there are as many, or more."""
    f = read_by_two(matrix, by)
    kernel = compiled(f)
    for problem in problems((64, 64, 32)):
        assert run_wrong(f, kernel, problem) is None


def test_two_ways_in_two_orders() -> None:
    """A tile is rounded behind all chunks of C, and is waited for in front of them."""
    error = refused(read_by_two("chunk", "tile"))
    assert (error.rule, error.why, error.legal) == (
        "parts",
        "T20 and T17 take the steps of aux1 and aux one before the other inside tile, other parts "
        "otherwise: each could wait for what the other holds",
        ("one order of their steps in all parts",),
    )
    ring = "WarpSpecialized(on=ParallelType.TIDy"
    assert error.wrote == (
        f"circular_buffer('T14', 2, 1, {ring})), "
        f"circular_buffer('T8', 2, 1, {ring}, stage_slice_position=2))"
    )
    assert "T8_s___bfloat:" in error.where and "T14_s___bfloat:" in error.where


def test_that_would_be_a_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "check_waiting", lambda *parts: None)
    f = read_by_two("chunk", "tile")
    with pytest.raises(MachineError, match="deadlock"):
        run_wrong(f, compiled(f), problems((64, 64, 32))[0])
