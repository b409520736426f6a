"""Schedules written call by call, each of another form than those of the matmul scheduler."""

from __future__ import annotations

from collections.abc import Callable

from lowering.ground.expr import Special
from tests.schedules import definition
from wsched import LoadStoreOpType, MemoryType, ParallelType, Schedule, WarpSpecialized

__all__ = ["OWN", "Draft"]

P, TMA = ParallelType, LoadStoreOpType.CpAsyncBulkTensorTile
CTAS = Special("nctaid.x")


class Draft:
    """A linear with its tensors by their part in the kernel.

    Args:
        direct: threads write the result, instead of TMA.
        registers: A goes through registers.
        layout: of the operands.
    """

    def __init__(self, direct: bool = False, registers: bool = False, layout: str = "tn") -> None:
        self.s = s = Schedule(definition(layout=layout))
        self.loads = [s.cache_after(x, TMA) for x in (s.a, s.b)]
        self.acc, self.out = s.acc, s.outputs[0]
        self.held = s.cache_before(self.out, LoadStoreOpType.Set if direct else TMA)
        self.box = self.held
        if not direct:
            self.held = s.cache_before(self.box, LoadStoreOpType.StMatrix)
        self.direct = direct
        for t in (*self.loads, *(() if direct else (self.box,))):
            s.set_memory_type(t, MemoryType.Shared)
        read = self.loads[:1] if registers else []
        self.read = [s.cache_after(x, LoadStoreOpType.LdMatrix) for x in read]
        self.after = list(dict.fromkeys((self.held, self.box, self.out)))
        self.sums = [*self.loads, *self.read, self.acc]

    def tile(self, m: int, n: int, k: int) -> None:
        """``[Mo, No, (k), Mi, Ni, (Ki)]``."""
        for t in (*self.sums, *self.after):
            c = self.s[t].split("M", m).split("N", n)
            if t in self.sums:
                c.split("K", k, labels=("k", "Ki"))
            c.reorder(["Mo", "No", "k"] if t in self.sums else ["Mo", "No"])

    def deal(self, neighbours: bool = False) -> None:
        """Tiles in turn to the CTAs, or a share of neighbours to each: ``[cta, tile, ...]``."""
        for t in (*self.sums, *self.after):
            c = self.s[t].merge("Mo", "No", label="tiles")
            labels = ("cta", "tile") if neighbours else ("tile", "cta")
            c.split("tiles", CTAS, inner_split=not neighbours, labels=labels)
            c.reorder(["cta", "tile"]).parallelize("cta", P.BIDx)

    def fill(self, *counted: str, on: ParallelType = P.TIDy) -> None:
        """The loads: ``counted`` merged to the one loop that steps through the stages."""
        for t in self.loads:
            c = self.s[t]
            first = c.loops.index(counted[0])
            for _ in counted[1:]:
                c.merge(first, first + 1)
            for axis in range(first + 1, len(c.loops)):
                c.parallelize(axis, P.Bulk)
            c.circular_buffer(4, 2, WarpSpecialized(on, None, first + 1))

    def share(self, axis: str, size: int, label: str, on: ParallelType, at: int) -> None:
        """Each warpgroup computes ``size`` of the rows or columns of a tile."""
        for t in (*self.read, self.acc, *self.after):
            self.s[t].split(axis, size, labels=(label, axis)).parallelize(label, on)
            self.move(t, label, at)

    def move(self, t: str, label: str, at: int) -> None:
        """One loop to another position."""
        c = self.s[t]
        order = [d for d in c.loops if d != label]
        order.insert(at, label)
        c.reorder(order)

    def part(self, count: int, interleaved: bool = False) -> None:
        """K in parts for CTAs along z: slices that lie together, or every ``count``-th one."""
        labels = ("k", "part") if interleaved else ("part", "k")
        for t in self.sums:
            c = self.s[t].split("k", count, inner_split=interleaved, labels=labels)
            c.parallelize("part", P.BIDz)
            self.move(t, "part", 1 if t in self.loads else 2)

    def multiply(self) -> None:
        """The accumulator: wgmmas inside the loops over k."""
        c = self.s[self.acc].split("Ki", 16, labels=("k16", "K16"))
        c.split("Mi", 64, labels=("m64", "M64"))
        inner = ["k16", "m64", "M64", "Ni", "K16"]
        c.reorder([*(d for d in c.loops if d not in inner), *inner])
        c.parallelize(inner[2:], P.Mma)
        for t in self.read:
            self.s[t].parallelize(["Mi", "Ni", "Ki"], P.Mma).inline_at("k")

    def store(self, inside: str, columns: int | None = 64, rows: int | None = None) -> None:
        """What follows: by chunks of columns, of rows, of both or of neither."""
        chunks = [("rows", "Mi", rows), ("chunk", "Ni", columns)]
        chunks = [(label, axis, size) for label, axis, size in chunks if size is not None]
        for t in self.after:
            c = self.s[t]
            for label, axis, size in chunks:
                c.split(axis, size, labels=(label, axis))
            last = ["Mi", "Ni"]
            if t == self.held or self.direct:
                c.split("Mi", 64, labels=("m64", "Mi"))
                last = ["m64", *last]
            c.reorder([*(d for d in c.loops if d not in last), *last])
            c.parallelize(last[-2:], P.Mma if len(last) == 3 else P.Bulk)
        deepest = chunks[-1][0] if chunks else inside
        self.s[self.held].inline_at("m64" if self.direct else deepest)
        if not self.direct:
            self.s[self.box].inline_at(deepest)
        self.s[self.acc].inline_at(inside)


def _simple(m: int = 64, n: int = 128, k: int = 64, neighbours: bool = False) -> Draft:
    """Tiles in turn, one warpgroup; the rest is to be done."""
    draft = Draft()
    draft.tile(m, n, k)
    draft.deal(neighbours)
    draft.fill("tile", "k")
    return draft


def k_in_two_levels() -> Schedule:
    """Three slices, then the next three; their number need not be a multiple of three."""
    draft = _simple()
    draft.s[draft.acc].split("k", 3, labels=("ko", "ki"))
    draft.multiply()
    draft.store("tile")
    return draft.s


def tiles_in_two_levels() -> Schedule:
    """Only the compute side has a loop over pairs of a CTA's tiles."""
    draft = _simple()
    for t in (draft.acc, *draft.after):
        draft.s[t].split("tile", 2, labels=("pair", "tile"))
    draft.multiply()
    draft.store("tile")
    return draft.s


def a_in_registers(layout: str = "tn") -> Schedule:
    """A comes by TMA as ever, and its step is read into registers; B is read by wgmma itself."""
    draft = Draft(registers=True, layout=layout)
    draft.tile(128, 128, 64)
    draft.deal()
    draft.fill("tile", "k")
    draft.share("Mi", 64, "group", P.TIDy, 2)
    draft.multiply()
    draft.store("group")
    return draft.s


def column_groups() -> Schedule:
    """Two warpgroups with half the columns each."""
    draft = _simple()
    draft.share("Ni", 64, "column", P.TIDy, 2)
    draft.multiply()
    draft.store("column")
    return draft.s


def two_by_two_groups() -> Schedule:
    """Four warpgroups: two of the rows by two of the columns."""
    draft = _simple(128)
    draft.share("Mi", 64, "row", P.TIDz, 2)
    draft.share("Ni", 64, "column", P.TIDy, 3)
    draft.multiply()
    draft.store("column", 32)
    return draft.s


def no_chunks() -> Schedule:
    """Threads write the whole tile at once."""
    draft = Draft(direct=True)
    draft.tile(64, 96, 64)
    draft.deal()
    draft.fill("tile", "k")
    draft.multiply()
    draft.store("tile", None)
    return draft.s


def one_big_store() -> Schedule:
    """TMA stores the whole tile at once."""
    draft = _simple(128, 64)
    draft.multiply()
    draft.store("tile", None)
    return draft.s


def chunks_over_rows() -> Schedule:
    """Stored 64 rows after the other."""
    draft = _simple(192, 64)
    draft.multiply()
    draft.store("tile", None, rows=64)
    return draft.s


def chunks_over_both() -> Schedule:
    """Stored 64 rows after the other, each by chunks of columns."""
    draft = _simple(128, 128)
    draft.multiply()
    draft.store("tile", 32, rows=64)
    return draft.s


def neighbouring_shares() -> Schedule:
    """Each CTA has tiles that follow each other, the last ones fewer or none."""
    draft = _simple(neighbours=True)
    draft.multiply()
    draft.store("tile")
    return draft.s


def neighbours_in_turn() -> Schedule:
    """The same in ping-pong."""
    draft = Draft()
    draft.tile(64, 128, 64)
    draft.deal(neighbours=True)
    for t in (*draft.sums, *draft.after):
        draft.s[t].split("tile", 2, labels=("tile", "turn"))
    for t in (draft.acc, *draft.after):
        draft.s[t].parallelize("turn", P.TIDy)
    draft.fill("tile", "turn", "k")
    draft.multiply()
    draft.store("turn")
    return draft.s


def a_pair_of_tiles() -> Schedule:
    """Ping-pong with one turn for each warpgroup; the last one may have none."""
    draft = Draft()
    draft.tile(64, 128, 64)
    for t in (*draft.sums, *draft.after):
        c = draft.s[t].merge("Mo", "No", label="tiles").split("tiles", 2, labels=("cta", "turn"))
        c.parallelize("cta", P.BIDx)
        if t not in draft.loads:
            c.parallelize("turn", P.TIDy)
    draft.fill("turn", "k")
    draft.multiply()
    draft.store("turn")
    return draft.s


def interleaved_parts() -> Schedule:
    """Split-K: every other slice of K is another CTA's."""
    draft = Draft()
    draft.tile(64, 128, 64)
    draft.deal()
    draft.part(2, interleaved=True)
    draft.fill("tile", "k")
    draft.multiply()
    draft.store("tile")
    return draft.s


def parts_of_a_row_of_tiles() -> Schedule:
    """Split-K where a CTA has a whole row of tiles, with a bound of its own."""
    draft = Draft()
    draft.tile(64, 64, 64)
    for t in (*draft.sums, *draft.after):
        draft.s[t].parallelize("Mo", P.BIDx)
    draft.part(2)
    draft.fill("No", "k")
    draft.multiply()
    draft.store("No")
    return draft.s


def halves_of_a_tile() -> Schedule:
    """A serial loop over the rows of a tile, each half with loads of its own."""
    draft = Draft()
    draft.tile(128, 128, 64)
    draft.deal()
    for t in (*draft.sums, *draft.after):
        draft.s[t].split("Mi", 64, labels=("half", "Mi"))
        draft.move(t, "half", 2)
    draft.fill("tile", "half", "k")
    draft.multiply()
    draft.store("half")
    return draft.s


OWN: dict[str, Callable[[], Schedule]] = {
    f.__name__: f
    for f in (
        k_in_two_levels, tiles_in_two_levels, a_in_registers, column_groups, two_by_two_groups,
        no_chunks, one_big_store, chunks_over_rows, chunks_over_both, neighbouring_shares,
        neighbours_in_turn, a_pair_of_tiles, interleaved_parts, parts_of_a_row_of_tiles,
        halves_of_a_tile,
    )
}  # fmt: skip
"""By name; each is legal, and unlike what parameters of the matmul scheduler make."""
