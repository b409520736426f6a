"""Schedules by hand with several parts that compute, each with warps of its own."""

from __future__ import annotations

from collections.abc import Callable

from tests.legality.builder import Matmul, P, matmul, unscheduled
from tests.schedule.gated import scheduled
from tests.schedules import definition
from wsched.fusion import DataType, Fusion, LoadStoreOpType, MemoryType, WarpSpecialized
from wsched.schedule import Schedule

__all__ = [
    "CAST", "DOUBLED", "PARTS", "SCHEDULED", "SHIFTED", "apart", "fragments", "of_computed",
]  # fmt: skip

_TMA, _SET = LoadStoreOpType.CpAsyncBulkTensorTile, LoadStoreOpType.Set
_LD, _ST = LoadStoreOpType.LdMatrix, LoadStoreOpType.StMatrix
RING = WarpSpecialized(P.TIDy, None, 3)


def _of(given: str, dtype: str, *lines: str) -> str:
    """A linear of ``a``, which these lines compute of ``x``."""
    tensor = "fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType"
    body = (
        f"x = {tensor}.{given})", f"w = {tensor}.{dtype})", *lines,
        "d = fd.ops.linear(a, w)", "fd.add_output(d)",
    )  # fmt: skip
    head = "def nvfuser_fusion(fd : FusionDefinition) -> None :\n"
    return head + "".join(f"    {line}\n" for line in body)


CAST = _of("Float", "BFloat16", "a = fd.ops.cast(x, dtype=DataType.BFloat16)")
SHIFTED = _of(
    "BFloat16", "BFloat16", "y = fd.ops.add(x, 1.0)", "a = fd.ops.cast(y, dtype=DataType.BFloat16)"
)
DOUBLED = _of("Half", "Half", "y = fd.ops.mul(x, 2.0)", "a = fd.ops.cast(y, dtype=DataType.Half)")

TWO = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    v = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    d = fd.ops.linear(x, w)
    e = fd.ops.linear(x, v)
    f = fd.ops.neg(e)
    g = fd.ops.cast(f, dtype=DataType.BFloat16)
    fd.add_output(d)
    fd.add_output(g)
"""
"""Two results that have nothing to do with each other but A, and are not read alike."""


def apart(m: Matmul, ring: str = "") -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is rounded, by default the sums, goes through shared memory; what is made up to there,
    and what reads that.
    """
    ring = ring or m.epilogue[0]
    held = m.s.cache_before(ring, _ST)
    m.s.set_memory_type(ring, MemoryType.Shared)
    read = m.s.cache_after(ring, _LD)
    made = {*m.s.fusion.made_from([ring]), held}
    stored = (*(tv for tv in m.epilogue if tv in made and tv != ring), held, ring)
    after = (read, *(tv for tv in m.epilogue if tv not in made))
    m.epilogue = (*stored, *after)
    return stored, after


def of_computed(text: str) -> Matmul:
    """A comes by TMA, is computed with, and goes to the mma through a ring; ``rings`` are what is
    made of it.
    """
    s = Schedule(unscheduled(text, by_calls=True))
    (mma,), out = s.fusion.mmas, s.outputs[0]
    given = "T2"  # the view of x
    dtype = s.tensor(given).dtype
    loads = tuple(s.cache_after(x, _TMA) for x in (given, mma.b))
    for tv in loads:
        s.set_memory_type(tv, MemoryType.Shared)
    first = s.cache_after(loads[0], _SET if dtype is DataType.Float else _LD)
    s.cache_before(mma.a, _ST)
    s.set_memory_type(mma.a, MemoryType.Shared)
    copy = s.cache_before(out, _SET)
    made = [e.output for e in s.fusion.exprs]
    chain = tuple(made[made.index(first) : made.index(mma.a) + 1])
    return Matmul(s, loads, mma.output, (copy, out), out, chain)


def fragments(m: Matmul, tensors: tuple[str, ...], loops: str) -> None:
    """Fragments of 64 rows inside these loops, each tensor inlined in what reads it."""
    last = loops.split()[-1]
    for tv in tensors:
        if tv not in m.boxed:
            m.split((tv,), "Mi", 64, "m64 Mi")
        m.order((tv,), loops if "m64" in loops or tv in m.boxed else f"{loops} m64")
        for label in ("Mi", "Ni", "Ki"):
            m.run((tv,), label, P.Bulk if tv in m.boxed else P.Mma)
    for tv in tensors[-2::-1]:
        boxed = any(t.name in m.boxed for t in m.s.fusion.consumers(tv))
        m.s.inline_at(tv, last if boxed or "m64" in loops else "m64")


def epilogue_apart(*, dynamic: bool = False) -> Fusion:
    """Two warpgroups multiply, a third one stores: half a tile is rounded while it does."""
    m = matmul(by_tma=False)
    made, after = apart(m)
    m.tile(128, 64, 32)
    m.deal(dynamic=dynamic)
    m.steps("tile k")
    m.stage(3, 1)
    for tv in (m.acc, *made):
        m.split((tv,), "Mi", 64, "row Mi")
        m.run((tv,), "row", P.TIDy)
    m.order((m.acc,), "cta tile row")
    m.wgmma()
    m.split((*made, *after), "Ni", 32, "chunk Ni")
    fragments(m, made, "cta tile chunk row")
    fragments(m, after, "cta tile chunk")
    m.s.circular_buffer(made[-1], 2, 1, RING)
    m.s.inline_at(m.acc, "tile")
    return m.s.fusion


def epilogue_of_a_queue() -> Fusion:
    """Both parts read from a queue which tile is next."""
    return epilogue_apart(dynamic=True)


def _two_store(
    steps: str,
    columns: int = 16,
    tile: int = 32,
    stepping: int = 3,
    stored: str = "cta tile chunk row",
    dynamic: bool = False,
) -> Fusion:
    """One warpgroup multiplies tiles of so many columns, and fills a ring in these loops, some
    columns at a time, of which so many step; two store by TMA in others, half of the rows each;
    tiles in runs of neighbours, or dealt out at run time.
    """
    m = matmul()
    made, after = apart(m)
    m.tile(128, tile, 32)
    m.deal(runs=not dynamic, dynamic=dynamic)
    m.steps("tile k")
    m.stage(4, 2)
    for tv in after:
        m.split((tv,), "Mi", 64, "row Mi")
        m.run((tv,), "row", P.TIDy)
    m.order((m.acc,), "cta tile")
    m.wgmma()
    if "pair" in steps:
        m.split((*made, *after), "Ni", 32, "pair Ni")
    m.split(made, "Ni", columns, "chunk Ni")
    m.split(after, "Ni", 16, "chunk Ni")
    fragments(m, made, steps)
    fragments(m, after, stored)
    m.s.circular_buffer(made[-1], 3, 2, WarpSpecialized(P.TIDy, None, stepping))
    m.s.inline_at(m.acc, "tile")
    return m.s.fusion


def epilogue_by_tma() -> Fusion:
    """A step is a chunk of the columns of a tile, of all its rows: both that store take each."""
    return _two_store("cta tile chunk")


def epilogue_in_turns() -> Fusion:
    """A step is 64 rows of a tile, of all its columns; of two warpgroups each takes every other
    one, and stores it in chunks of columns.
    """
    return _two_store("cta tile m64 chunk")


def epilogue_in_turns_of_a_queue() -> Fusion:
    """In turns, where a queue says which tile is next: both read its entries, the last one, too."""
    return _two_store("cta tile m64 chunk", dynamic=True)


def epilogue_of_whole_rows() -> Fusion:
    """The same, where a step is stored at once: 64 rows of it, as it has."""
    return _two_store("cta tile m64 chunk", columns=32)


def epilogue_in_blocks() -> Fusion:
    """A step is a block of 64 rows and some columns of a tile, which has four of these side by
    side; of two warpgroups each takes every other step, that of its rows.
    """
    return _two_store("cta tile chunk m64", tile=64, stepping=4)


def epilogue_in_blocks_of_a_queue() -> Fusion:
    """The same, where a queue says which tile is next."""
    return _two_store("cta tile chunk m64", tile=64, stepping=4, dynamic=True)


def epilogue_in_pairs_of_blocks() -> Fusion:
    """Blocks, where each takes two of its rows, one behind the other, before it is the other's
    turn.
    """
    steps, stored = "cta tile pair m64 chunk", "cta tile pair row chunk"
    return _two_store(steps, tile=64, stepping=5, stored=stored)


def epilogue_of_one_block() -> Fusion:
    """A step is the 64 rows of a tile that has no others: the loop that steps has one trip, and in
    it a step is read in chunks of columns.
    """
    m = matmul(by_tma=False)
    made, after = apart(m)
    m.tile(64, 32, 32)
    m.deal(runs=True)
    m.steps("tile k")
    m.stage(3, 1)
    m.order((m.acc,), "cta tile")
    m.wgmma()
    m.split((*made, *after), "Ni", 16, "chunk Ni")
    fragments(m, made, "cta tile m64 chunk")
    fragments(m, after, "cta tile m64 chunk")
    m.s.circular_buffer(made[-1], 2, 1, RING)
    m.s.inline_at(m.acc, "tile")
    return m.s.fusion


def epilogue_of_one_chunk() -> Fusion:
    """A step is the one chunk of a tile, and is stored in two: a loop of one trip steps, and is
    none of those that read.
    """
    m = matmul()
    made, after = apart(m)
    m.tile(64, 32, 32)
    m.deal(runs=True)
    m.steps("tile k")
    m.stage(3, 1)
    m.order((m.acc,), "cta tile")
    m.wgmma()
    m.split(made, "Ni", 32, "chunk Ni")
    m.split(after, "Ni", 16, "chunk Ni")
    fragments(m, made, "cta tile chunk")
    fragments(m, after, "cta tile chunk")
    m.s.circular_buffer(made[-1], 2, 1, RING)
    m.s.inline_at(m.acc, "tile")
    return m.s.fusion


def operand_cast_in_one_block() -> Fusion:
    """A step of the rounded operand is the one block of rows of a tile, so that a loop of one trip
    steps; in front of it the products go over k in a step.
    """
    m = of_computed(CAST)
    m.tile(64, 64, 32)
    m.deal()
    m.steps("tile k")
    m.stage(3, 1)
    m.order(m.compute, "cta tile")
    m.fragments("tile", 32)
    m.inline("tile")
    fragments(m, m.rings, "cta tile k m64")
    m.s.circular_buffer(m.rings[-1], 3, 1, WarpSpecialized(P.TIDy, None, 4))
    return m.s.fusion


def operand_cast(*, dynamic: bool = False) -> Fusion:
    """A of 32 bits is rounded by a warpgroup on its way to the two that multiply."""
    m = of_computed(CAST)
    m.tile(128, 64, 32)
    m.deal(dynamic=dynamic)
    m.steps("tile k")
    m.stage(3, 1)
    m.split(m.compute, "Mi", 64, "row Mi")
    m.run(m.compute, "row", P.TIDy)
    m.order(m.compute, "cta tile row")
    m.fragments("row", 32)
    m.inline("row")
    fragments(m, m.rings, "cta tile k")
    m.s.circular_buffer(m.rings[-1], 3, 1, RING)
    return m.s.fusion


def operand_cast_of_a_queue() -> Fusion:
    """So do who rounds and who multiplies."""
    return operand_cast(dynamic=True)


def operand_shifted() -> Fusion:
    """1 is added to A by two warpgroups; what lies behind the end of K stays zero."""
    m = of_computed(SHIFTED)
    m.tile(128, 32, 64)
    m.deal("No Mo")
    m.steps("tile k")
    m.stage(2, 1)
    m.order(m.compute, "cta tile")
    m.fragments("tile", 16)
    m.inline("tile")
    m.split(m.rings, "Mi", 64, "row Mi")
    m.run(m.rings, "row", P.TIDy)
    fragments(m, m.rings, "cta tile k row")
    m.s.circular_buffer(m.rings[-1], 2, 1, RING)
    return m.s.fusion


def operand_and_epilogue_apart() -> Fusion:
    """Four parts in a row, one tile for each CTA: load, double, multiply, store."""
    m = of_computed(DOUBLED)
    made, after = apart(m)
    m.tile(64, 64, 32)
    m.merge(m.every, "Mo No", "tiles")
    m.run(m.every, "tiles", P.BIDx)
    m.stage(3, 2)
    m.order((m.acc,), "tiles")
    m.wgmma()
    m.split((*made, *after), "Ni", 16, "chunk Ni")
    fragments(m, made, "tiles chunk")
    fragments(m, after, "tiles chunk")
    fragments(m, m.rings, "tiles k")
    for tv in (m.rings[-1], made[-1]):
        m.s.circular_buffer(tv, 2, 1, WarpSpecialized(P.TIDy, None, 2))
    m.s.inline_at(m.acc, "tiles")
    return m.s.fusion


def two_products() -> Fusion:
    """A times B₁ and minus A times B₂, results that have nothing else to do with each other."""
    return scheduled(unscheduled(TWO, by_calls=True), m=64, n=32, k=32, groups=1, chunk=16).fusion


PARTS = (
    epilogue_apart, epilogue_by_tma, epilogue_in_blocks, epilogue_in_blocks_of_a_queue,
    epilogue_in_pairs_of_blocks, epilogue_in_turns, epilogue_in_turns_of_a_queue,
    epilogue_of_a_queue, epilogue_of_one_block, epilogue_of_one_chunk, operand_cast,
    operand_cast_in_one_block, operand_cast_of_a_queue, operand_shifted,
    operand_and_epilogue_apart, two_products,
)  # fmt: skip

SCHEDULED: dict[Callable[[], Fusion], str] = {
    epilogue_apart: definition(),
    epilogue_by_tma: definition(),
    epilogue_in_blocks: definition(),
    epilogue_in_blocks_of_a_queue: definition(),
    epilogue_in_pairs_of_blocks: definition(),
    epilogue_in_turns: definition(),
    epilogue_in_turns_of_a_queue: definition(),
    epilogue_of_a_queue: definition(),
    epilogue_of_one_block: definition(),
    epilogue_of_one_chunk: definition(),
    operand_cast: CAST,
    operand_cast_in_one_block: CAST,
    operand_cast_of_a_queue: CAST,
    operand_shifted: SHIFTED,
    operand_and_epilogue_apart: DOUBLED,
    two_products: TWO,
}
"""The definitions that they schedule."""
