"""Ten schedules of one matmul: each is the one before with one decision changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from typing import Any

from wsched.ladder.decisions import Copies, Decisions, Grid

__all__ = ["DEFINITION", "RUNGS", "Rung", "changed"]

DEFINITION = """
def nvfuser_fusion(fd : FusionDefinition) -> None :
    a = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    b = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    d = fd.ops.linear(a, b)
    fd.add_output(d)
"""
"""What all of them compute, for all sizes."""


@dataclass(frozen=True, slots=True)
class Rung:
    """A schedule of the ladder.

    Args:
        number: its place, from 1.
        title: what is new, in a few words.
        why: what it is for, what it costs.
        decided: all that it decides.
        in_tensor_memory: why, where sums are in tensor memory; empty where that is the same.
    """

    number: int
    title: str
    why: str
    decided: Decisions
    in_tensor_memory: str = ""

    @property
    def name(self) -> str:
        """``v1``, ``v2`` and so on."""
        return f"v{self.number}"


_FIRST = Rung(
    1, "one tile at a time, loaded and multiplied in turn",
    "One CTA of one warpgroup. Its threads copy into shared memory as much of A and B as one "
    "instruction takes along K, all wait, it multiplies, all wait. Nothing overlaps.",
    Decisions(),
)  # fmt: skip

_NEXT: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("a loop along K inside what is loaded",
     "A slice is four instructions deep: a quarter of the waits for the same bytes, and lines of "
     "128 bytes where there were 32.",
     {"slice": 64}),
    ("a CTA for each tile",
     "The other multiprocessors take part, and while threads of one CTA wait those of another one "
     "on the same multiprocessor work.",
     {"grid": Grid.A_CTA_EACH}),
    ("TMA copies, in both directions",
     "One thread starts a copy of a whole box, which goes past the registers: no addresses, no "
     "stores to shared memory by threads. The slice is still waited for when it is started.",
     {"copies": Copies.TMA}),
    ("two stages: the next slice is on its way",
     "While a slice is multiplied the next one is being loaded, by the same warps.",
     {"stages": 2}),
    ("a CTA for each multiprocessor, tiles in an order for the L2",
     "CTAs stay and take every n-th tile: barriers are set up once, the first slice of a tile is "
     "loaded under the end of the one before. Tiles go in groups of eight rows, so that what runs "
     "at a time shares rows of A and of B in the L2. The price: no other CTA fills the waits.",
     {"grid": Grid.RESIDENT}),
    ("warps of their own load",
     "Load and compute have loop nests of their own. Who multiplies does not issue loads, and who "
     "loads does not wait for products: under the epilogue the next tile is loaded as far as "
     "stages reach.",
     {"load_warps": True}),
    ("four stages",
     "A load may take as long as three slices are multiplied, and one wgmma stays in flight while "
     "the next is issued.",
     {"stages": 4}),
    ("pairs of CTAs share B",
     "Two CTAs whose tiles lie above one another need the same columns of B: each loads half of "
     "them for both. A quarter of the bytes from the L2 is saved, and the two wait for each other.",
     {"cluster": 2}),
    ("two warpgroups multiply",
     "A tile of 256 x 128: two blocks of A and one of B in a stage. A byte from shared memory and "
     "from the L2 is used more often, and of two warpgroups one can issue while the other waits.",
     {"consumers": 2}),
)  # fmt: skip


_IN_TENSOR_MEMORY: Mapping[int, str] = {
    7: "Three parts with loop nests of their own: a warp loads, one thread multiplies, a warpgroup "
    "reads the sums and stores. The sums are a ring of two stages: while a tile is stored the "
    "next one is multiplied, and the one behind it loaded as far as stages reach.",
    8: "A load may take as long as three slices are multiplied.",
    9: "Two CTAs whose tiles lie above one another multiply together: one thread of the first "
    "issues for both, and each holds its rows of A and half of the columns of B. A stage is a "
    "quarter smaller, and the two wait for each other.",
    10: "A tile of 256 x 128: two blocks of A and one of B in a stage, and two warpgroups that "
    "store. A byte from shared memory and from the L2 is used more often.",
}
"""Why, by number, where one thread multiplies."""


def _after(before: Rung, change: tuple[str, str, dict[str, Any]]) -> Rung:
    title, why, decided = change
    number, made = before.number + 1, replace(before.decided, **decided)
    return Rung(number, title, why, made, _IN_TENSOR_MEMORY.get(number, ""))


RUNGS: tuple[Rung, ...] = tuple(accumulate(_NEXT, _after, initial=_FIRST))
"""All of them, in order."""


def changed(before: Decisions, after: Decisions) -> tuple[str, ...]:
    """Names of the fields in which two differ."""
    names = (f.name for f in fields(Decisions))
    return tuple(n for n in names if getattr(before, n) != getattr(after, n))
