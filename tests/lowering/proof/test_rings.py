"""Rings by what warps do: programs of who fills and who reads.

Words: ``e``, ``f``, ``x`` wait at an array of that name, ``E``, ``F`` and ``X`` arrive there;
``load`` is a copy that completes at ``f``, ``pair`` one of two CTAs, ``bare`` one that completes
nowhere; ``st`` stores a stage, ``cp`` copies one, ``CP`` tells of such copies at ``f``; ``ld``
reads a stage, ``mma`` in a product.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import InternalError
from lowering.ground.expr import ONE, ZERO, Var, as_expr
from lowering.kernel.cp_async import CpAsync, CpAsyncArrive
from lowering.kernel.kernel import Kernel, MBarrierArray
from lowering.kernel.nodes import (
    GmemRef,
    LdShared,
    Let,
    MBarrierArrive,
    MBarrierRef,
    MBarrierWait,
    SmemRef,
    Stmt,
    StShared,
    TmaLoad,
    Wgmma,
)
from lowering.kernel.operands import TmemRef
from lowering.kernel.tensor_memory import Tcgen05Commit, Tcgen05Fence, Tcgen05Load
from lowering.kernel.traits import Memory
from lowering.proof.rings import Ring, defined, rings_of, written
from tests.lowering.proof.by_words import ACC, NEXT, V, agent

S, T = SmemRef("s", ZERO, (ZERO, ZERO)), SmemRef("t", ZERO, (ZERO, ZERO))
FROM, CELLS = GmemRef("T", (ZERO, ZERO)), TmemRef("cells", ZERO, (ZERO, ZERO))
BARS = {name: MBarrierRef(name, ZERO) for name in "efx"}
MEANS: dict[str, Stmt] = {
    **{name: MBarrierWait(bar, ZERO) for name, bar in BARS.items()},
    **{name.upper(): MBarrierArrive(bar) for name, bar in BARS.items()},
    "FAR": MBarrierArrive(BARS["e"], ONE, "release.cluster"),
    "FULL": MBarrierArrive(BARS["f"], ONE, "release.cluster"),
    "load": TmaLoad(S, FROM, BARS["f"]),
    "pair": TmaLoad(S, FROM, BARS["f"], cta_group=2),
    "bare": TmaLoad(S, FROM),
    "st": StShared(S, V),
    "st_t": StShared(T, V),
    "cp": CpAsync(S, FROM, 64, 8),
    "CP": CpAsyncArrive(BARS["f"]),
    "ld": LdShared(V, S),
    "ld_t": LdShared(V, T),
    "mma": Wgmma(NEXT, ACC, S, T),
    "CELLS": Tcgen05Commit(BARS["f"]),
    "CELLS2": Tcgen05Commit(BARS["e"], as_expr(3)),
    "cells": Tcgen05Load(V, CELLS),
    "after": Tcgen05Fence("after"),
    "before": Tcgen05Fence("before"),
}


def found(*programs: str, stages: tuple[int, int, int] = (2, 2, 2)) -> tuple[list[Ring], str]:
    """The rings, and what belongs to none."""
    storage = tuple(MBarrierArray(name, n, 1) for name, n in zip("efx", stages, strict=True))
    warps = tuple(agent(words, MEANS, n) for n, words in enumerate(programs))
    rings, alone = rings_of(Kernel("k", 64, ONE, (), storage, ()), warps)
    return list(rings), " ".join(alone)


NONE: frozenset[str] = frozenset()
LOADED = Ring("f", "e", 2, frozenset("s"), True, False, Memory.SHARED, NONE)
STORED = replace(LOADED, loaded=False, stored=True)
COPIED = replace(STORED, copied=True)
SUMS = replace(LOADED, loaded=False, buffers=frozenset({"cells"}), proxies=Memory.NONE)
RINGS = {
    ("e load", "f ld E"): LOADED,
    ("[ e load ]", "[ f ? ld ] E ]"): LOADED,
    ("e load", "f mma E"): replace(LOADED, proxies=Memory.SHARED_ASYNC),
    ("e load", "f ld mma E"): replace(LOADED, proxies=Memory.SHARED | Memory.SHARED_ASYNC),
    ("e load", "f ld_t E"): None,
    ("e load", "x ld E"): None,
    ("e st F", "f ld E"): STORED,
    ("e one st F ]", "f ld E"): STORED,
    ("e st st_t F", "f ld ld_t E"): replace(STORED, buffers=frozenset("st")),
    ("e st F st_t", "f ld ld_t E"): STORED,
    ("st e F", "f ld E"): None,
    ("st F", "f ld E"): None,
    ("e F", "f ld E"): None,
    ("e st E", "f ld E"): None,
    ("e st E F", "f ld E"): STORED,
    ("e cp CP", "f ld E"): COPIED,
    ("e cp F", "f ld E"): COPIED,
    ("e st CP", "f ld E"): STORED,
    ("e cp CP st F", "f ld E"): COPIED,
    ("e cp e st F", "f ld E"): STORED,
    ("e load st F", "f ld E"): replace(LOADED, stored=True),
    ("e load st", "f ld E"): replace(LOADED, stored=True),
    ("e load", "f ld E", "st"): replace(LOADED, stored=True),
    ("e bare", "f ld E"): None,
    ("e load", "x load", "f ld E"): None,
    ("f load", "f ld E"): None,
    ("e load", "f ld FAR"): replace(LOADED, scoped=frozenset("e")),
    ("e st FULL", "f ld E"): replace(STORED, scoped=frozenset("f")),
    ("e pair", "f ld E"): replace(LOADED, reached=frozenset("f")),
    ("e load", "f ld E CELLS2"): replace(LOADED, reached=frozenset("e")),
    ("e load", "f ld E CELLS"): LOADED,
    ("e CELLS", "f after cells before E"): SUMS,
    ("e CELLS", "f cells E"): SUMS,
    ("e CELLS", "f after x cells before E"): SUMS,
    ("e CELLS", "f after cells X before E"): SUMS,
    ("e CELLS", "f after cells E X"): SUMS,
    ("e CELLS", "f after before E"): None,
}  # fmt: skip


@pytest.mark.parametrize("programs", RINGS, ids="; ".join)
def test_rings(programs: tuple[str, ...]) -> None:
    rings, alone = found(*programs)
    wanted = RINGS[programs]
    assert (rings, alone) == (([], "e f x") if wanted is None else ([wanted], "x"))


def test_rings_have_as_many_barriers_of_both_kinds() -> None:
    programs = "e load", "f ld E"
    assert found(*programs, stages=(3, 3, 1)) == ([replace(LOADED, stages=3)], "x")
    assert found(*programs, stages=(2, 3, 2)) == found(*programs, stages=(3, 2, 2)) == (
        [], "e f x")  # fmt: skip


def test_what_a_wait_has_to_acquire() -> None:
    """Of what is told to a cluster its scope; of copies of other CTAs too, but for relaxed ones."""
    relaxed, cta, cluster = "relaxed.cluster", "acquire.cta", "acquire.cluster"
    published, told = "{} of what release.cluster has published", "{} of what other CTAs tell of"
    assert [LOADED.unheard("f", o) for o in (relaxed, cta, cluster)] == [""] * 3
    scoped = replace(LOADED, scoped=frozenset("e"))
    assert scoped.unheard("f", cta) == scoped.unheard("e", cluster) == ""
    assert scoped.unheard("e", cta) == published.format(cta)
    assert scoped.unheard("e", relaxed) == published.format(relaxed)
    both = frozenset("ef")
    for array in both:
        ring = replace(LOADED, proxies=Memory.SHARED_ASYNC, reached=both)
        assert ring.unheard(array, relaxed) == ring.unheard(array, cluster) == ""
        assert ring.unheard(array, cta) == told.format(cta)
    sums = replace(SUMS, reached=both)
    assert sums.unheard("e", relaxed) == sums.unheard("f", cluster) == ""
    assert sums.unheard("f", relaxed) == told.format(relaxed)
    assert replace(sums, reached=frozenset("e")).unheard("f", cta) == ""


def test_what_a_relaxed_wait_does_not_acquire() -> None:
    """What threads have stored, loaded or multiplied in tensor memory, and do behind it."""
    order, told = "relaxed.cluster", "relaxed.cluster of what threads have stored or loaded"
    assert SUMS.unheard("e", order) == "" and SUMS.unheard("f", order) == told
    copies = replace(LOADED, proxies=Memory.SHARED_ASYNC)
    for array in "ef":
        assert copies.unheard(array, order) == "" and copies.unheard(array, order, True) == told
        assert STORED.unheard(array, order) == told and STORED.unheard(array, "acquire.cta") == ""
    assert LOADED.unheard("e", order) == told and LOADED.unheard("f", order) == ""
    stored = replace(STORED, proxies=Memory.SHARED_ASYNC)
    assert stored.unheard("e", order) == "" and stored.unheard("f", order) == told


def test_names() -> None:
    assert replace(LOADED, full="a_full").name == "a" and LOADED.name == "f"
    x, y, z = Var("x"), Var("y"), Var("z")
    kernel = Kernel("k", 64, ONE, (), (), (Let(x, y + 1), Let(y, z * 2)))
    assert defined(kernel, x + z) == z * 2 + 1 + z
    assert defined(kernel, z) == z


def test_where_a_statement_writes() -> None:
    assert [*written(MEANS["st"])] == [S] and [*written(MEANS["cp"])] == [S]
    assert [*written(MEANS["ld"])] == [*written(MEANS["load"])] == []

    class Nowhere(StShared):
        """A store without a place."""

    wrong = Nowhere(S, V)
    object.__setattr__(wrong, "dst", FROM)
    with pytest.raises(InternalError, match="has no place that it writes to"):
        list(written(wrong))
