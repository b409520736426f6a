"""Schedules with one fault each; all were accepted once, and were then a deadlock or wrong.

``ILLEGAL`` are so by what they mean. ``TRIMMED`` mean something, but only a kernel that cuts off
the loops of one side where the other's end, or that is launched on the grid they say, does it:
they are refused or run right. ``SOUND`` are the same without the fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lowering.ground.expr import Const, Expr, Special
from tests.legality.builder import ON_TIDY, Matmul, P, matmul
from wsched.fusion import Fusion, MemoryType, WarpSpecialized
from wsched.schedule import Schedule

__all__ = ["ILLEGAL", "SOUND", "TRIMMED", "cooperative", "ping_pong"]

CTAS = Special("nctaid.x")


def cooperative(
    ctas: Expr = CTAS,
    on: WarpSpecialized = ON_TIDY,
    k_split: tuple[int, int] = (0, 0),
    rows: str = "inside",
) -> Fusion:
    """Two groups share a tile of 128 x 64 x 32: row groups on TIDy, all CTAs take tiles in turn.

    Args:
        ctas: what tiles are split by.
        on: who loads.
        k_split: factors by which loads and compute split their k loop.
        rows: ``outside`` makes the accumulator run 64 rows at a time, all of k for each.
    """
    m = matmul()
    m.tile(128, 64, 32)
    m.merge(m.every, "Mo No", "tiles")
    m.split(m.every, "tiles", ctas, "tile cta")
    m.order(m.every, "cta tile k")
    m.run(m.every, "cta", P.BIDx)
    _split_k(m, k_split)
    m.stage(how=on)
    if rows == "outside":
        m.split(m.compute, "Mi", 64, "row Mi")
        m.order(m.compute, "cta tile row")
        m.fragments("row")
        m.inline("tile")
    else:
        m.split(m.compute, "Mi", 64, "group Mi")
        m.order(m.compute, "cta tile group")
        m.run(m.compute, "group", P.TIDy)
        m.fragments("group")
        m.inline("group")
    return m.s.fusion


def _split_k(m: Matmul, factors: tuple[int, int]) -> None:
    """Each side's k loop in two, then the loads' loops into one."""
    load, compute = factors
    if compute:
        m.split((m.acc,), "k", compute, "ko ki")
    if load:
        m.split(m.loads, "k", load, "ko ki")
        m.merge(m.loads, "ko ki", "k")
    m.merge(m.loads, "tile k", "tile·k")


def ping_pong(order: str = "tile group k", compute_only: bool = False) -> Fusion:
    """Two groups take turns with tiles of 64 x 64 x 32.

    Args:
        order: the loads' loops, slowest first.
        compute_only: whether only the compute side splits its tiles between the groups, and those
            are rows of tiles, in place of all tiles of a CTA.
    """
    m = matmul()
    m.tile(64, 64, 32)
    if compute_only:
        m.run(m.every, "No", P.BIDx)
        m.order(m.every, "No Mo k")
        m.split(m.compute, "Mo", 2, "tile group")
        m.merge(m.loads, "Mo k", "tile·k")
        m.order(m.compute, "No tile group")
    else:
        m.merge(m.every, "Mo No", "tiles")
        m.split(m.every, "tiles", CTAS, "tile cta")
        m.order(m.every, "cta tile k")
        m.run(m.every, "cta", P.BIDx)
        m.split(m.every, "tile", 2, "tile group")
        a, b, c = order.split()
        m.merge(m.loads, f"{a} {b}", "ab")
        m.merge(m.loads, f"ab {c}", "abc")
    m.run(m.compute, "group", P.TIDy)
    m.stage()
    m.fragments("group")
    m.inline("group")
    return m.s.fusion


def shares_in_turn(groups: int, *, runs: bool) -> Fusion:
    """Each CTA has tiles of 64 x 64 x 32, neighbours in ``runs``, each warpgroup an equal share of
    those: the first one the first tiles.
    """
    m = matmul()
    m.tile(64, 64, 32)
    m.deal(runs=runs)
    m.split(m.every, "tile", groups, "share it", outer=True)
    m.order(m.every, "cta it share")
    m.run(m.compute, "share", P.TIDy)
    m.steps("it share k")
    m.stage()
    m.fragments("share")
    m.inline("share")
    return m.s.fusion


def eight_in_turns() -> Fusion:
    """Eight warpgroups take turns with tiles of 64 x 32 x 32, and a ninth one loads."""
    m = matmul()
    m.tile(64, 32, 32)
    m.deal()
    m.split(m.every, "tile", 8, "it turn")
    m.run(m.compute, "turn", P.TIDy)
    m.order(m.every, "cta it turn k")
    m.steps("it turn k")
    m.stage()
    m.fragments("turn", 16)
    m.inline("turn")
    return m.s.fusion


def steps_in_quarters() -> Fusion:
    """Load steps are dealt out; each of four warpgroups has a quarter of all tiles of 64 x 64 x 32,
    in turns with the others: of nine tiles the last one has none, and the third one less turns.
    """
    m = matmul()
    m.tile(64, 64, 32)
    m.merge(m.every, "Mo No", "tile")
    m.split(m.every, "tile", 4, "quarter it", outer=True)
    m.run(m.compute, "quarter", P.TIDy)
    m.order(m.every, "it quarter k")
    m.steps("it quarter k")
    m.split(m.loads, "it·quarter·k", CTAS, "cta step", outer=True)
    m.run(m.loads, "cta", P.BIDx)
    m.stage()
    m.fragments("quarter")
    m.inline("quarter")
    return m.s.fusion


def _after(change: Callable[[Schedule], None]) -> Fusion:
    s = Schedule(cooperative())
    change(s)
    return s.fusion


def _serial_cta(s: Schedule) -> None:
    s.parallelize(s.fusion.outputs[0].tensor, 0, P.Serial)


def _reordered(s: Schedule) -> None:
    s.reorder(s.fusion.outputs[0].tensor, {0: 1})


def _load_in_registers(s: Schedule) -> None:
    s.set_memory_type(s.a, MemoryType.Local)


SOUND: dict[str, Callable[[], Fusion]] = {
    "cooperative": cooperative,
    "ping_pong": ping_pong,
}

TRIMMED: dict[str, Callable[[], Fusion]] = {
    "(a) odd rows of tiles between two groups": lambda: ping_pong(compute_only=True),
    "(d) tiles split by 4": lambda: cooperative(Const(4)),
    "(f) k split by 3 by the compute side": lambda: cooperative(k_split=(0, 3)),
    "(f) k split by 3 by the loads": lambda: cooperative(k_split=(3, 0)),
    "k split by 3 by both": lambda: cooperative(k_split=(3, 3)),
}

_NOT_LOADED = "takes other steps than are filled"

ILLEGAL: dict[str, tuple[Callable[[], Fusion], str]] = {
    "(b) ping-pong loaded tile·k·group": (
        lambda: ping_pong("tile k group"),
        "a role's turn is not the next of those that are filled",
    ),
    "(c) ping-pong loaded group·tile·k": (
        lambda: ping_pong("group tile k"),
        "a role's turn is not the next of those that are filled",
    ),
    "ping-pong of the halves of a share": (
        lambda: shares_in_turn(2, runs=True),
        "T4 at CTA (1, 0, 0): the roles do not take turns (M=320 N=64 K=64 on 2 CTAs)",
    ),
    "three in turns, each with a third of a CTA's tiles": (
        lambda: shares_in_turn(3, runs=False),
        "T4 at CTA (0, 0, 0): the roles do not take turns (M=448 N=64 K=32 on 2 CTAs)",
    ),
    "more warpgroups than a CTA has": (eight_in_turns, "a CTA has no 1152 threads"),
    "stream-K, the quarters of all tiles in turns": (
        steps_in_quarters,
        "T4 at CTA (0, 0, 0): the roles do not take turns",
    ),
    "(d) tiles split by nctaid * 2": (
        lambda: cooperative(CTAS * Const(2)),
        "no grid has the extents of the loops on CTAs",
    ),
    "(e) specialized on TIDx, groups on TIDy": (
        lambda: cooperative(on=replace(ON_TIDY, on=P.TIDx)),
        "warpgroups are counted on other axes than the load warpgroup's",
    ),
    "(g) a row loop outside k": (lambda: cooperative(rows="outside"), _NOT_LOADED),
    "(h) a loop on CTAs made serial": (
        lambda: _after(_serial_cta),
        "T8 is computed in loop cta of T5, which is cta",
    ),
    "(h) loops reordered": (
        lambda: _after(_reordered),
        "T8 is computed in loop cta of T5, which is tile",
    ),
    "(h) a load set to local": (
        lambda: _after(_load_in_registers),
        "CpAsyncBulkTensorTile does not copy from Global to Local memory",
    ),
}
"""With a part of the reason. The letters are those of the list that they come from."""
