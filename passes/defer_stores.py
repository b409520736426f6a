"""Store a tile's results during the main loop of the next one.

Requires: in the compute role a loop over tiles with one main loop in it, and behind that an
unrolled loop over chunks of results, each of which is computed and then stored through shared
memory, or added to rows of a tensor by the threads that hold it.
Guarantees: behind the main loop results are only computed, all chunks of them. They stay in
registers, with where they go, and the loop over tiles carries both. Chunk ``c`` is stored in step
``c`` of the next main loop, or in its last one, behind the products that this step has begun: while
tensor cores compute these, a warpgroup waits for the buffer to be read, meets, writes and meets
once more. Behind a main loop without steps the chunks are stored at once, and those of the last
tile behind the loop over tiles.
A chunk's buffer is written when all stores of its warpgroup have read theirs: a step has the time
for it, and the order of chunks needs no proof.

After ``chunk_epilogue``, which makes the stores, and what moves loads and reductions around them;
before ``trace``, which stamps what is left behind a main loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import ONE, ZERO, Const, Expr, Var, free_vars, minimum, substitute
from lowering.ground.frozen import replaced
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    BulkCommit,
    BulkWait,
    Carry,
    For,
    Frag,
    FragColumns,
    FragFill,
    FragLoadGlobal,
    FragRedGlobal,
    FragRows,
    If,
    OnWarp,
    Stmt,
    TmaStore,
    WgmmaWait,
)
from lowering.kernel.visit import (
    Names,
    defined,
    defined_in,
    expressions,
    map_bodies,
    operands,
    rename,
    rewrite,
    walk,
)
from passes.chunks import trips_of
from passes.options import LoweringOptions

__all__ = ["defer_stores"]


def defer_stores(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """A loop over tiles carries what is still to be stored.

    before::

        for t in 0 .. tiles {
          for k in 0 .. n carry (...) { ... }
          for c in 0 .. 2 unroll {
            part: frag<f32, 64x64> = frag.columns total, c * 64
            out: frag<bf16, 64x64> = frag.cast part
            on %warpgroup.warp 0 { elect { bulk.wait 1, read=true } }
            bar.sync D_store[wg]
            stmatrix D_s[c, 0, 0], out
            fence.proxy.async
            bar.sync D_store[wg]
            on %warpgroup.warp 0 { elect { tma.store D[t * 64, c * 64], ...  bulk.commit } }
          }
        }

    after, with ``store(c, held, t)`` for the last six lines with ``bulk.wait 0``::

        for t in 0 .. tiles carry (
            held0: frag<bf16, 64x64> = none0 -> last0, held1: ... = none1 -> last1,
            t_held: i32 = 0 -> t_last, any_held: i32 = 0 -> any_last) {
          for k in 0 .. n carry (...) {
            ...
            if 0 < any_held {
              if k == min(0, n - 1) { store(0, held0, t_held) }
              if k == min(1, n - 1) { store(1, held1, t_held) }
            }
          }
          if n <= 0 and 0 < any_held { store(0, held0, t_held)  store(1, held1, t_held) }
          part0: frag<f32, 64x64> = frag.columns total, 0
          out0: frag<bf16, 64x64> = frag.cast part0
          ...
          yield out0, out1, t, 1
        }
        if 0 < any_last { store(0, last0, t_last)  store(1, last1, t_last) }

    Raises:
        UnsupportedError: stores that are not of this form.
    """
    if not options.deferred_stores:
        return kernel
    found = list[For]()
    made = replace(kernel, body=_body(kernel.body, Names(kernel), found))
    if len(found) != 1:
        raise _unsupported(
            "a kernel without a loop over tiles that stores each behind its products"
        )
    return made


def _body(body: Body, names: Names, found: list[For]) -> Body:
    """A statement list in which loops over tiles, which are noted, store later."""
    out = list[Stmt]()
    for stmt in body:
        at = _main_loop(stmt) if isinstance(stmt, For) else None
        if isinstance(stmt, For) and at is not None:
            found.append(stmt)
            out += _deferred(stmt, at, names)
        else:
            out.append(map_bodies(stmt, lambda inner: _body(inner, names, found)))
    return tuple(out)


def _unsupported(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"deferred_stores of {what}",
        "tiles that warpgroups share, stored whole, by TMA or added, and of a type that sums are "
        "cast to",
    )


def _main_loop(tiles: For) -> int | None:
    """Where in a loop over tiles their main loop is; None of one that stores nothing behind it."""
    for n, s in enumerate(tiles.body):
        if isinstance(s, For) and s.event is not None and s.event.name == "main_loop":
            return n if _any(_STORES, *tiles.body[n + 1 :]) else None
    return None


_STORES = (TmaStore, FragRedGlobal)
"""What stores a chunk."""


def _any(kind: type[Stmt] | tuple[type[Stmt], ...], *stmts: Stmt) -> bool:
    return any(isinstance(s, kind) for s in walk(stmts))


def _deferred(tiles: For, at: int, names: Names) -> Body:
    """A loop over tiles that stores each during the next one, and what stands around it."""
    main = tiles.body[at]
    assert isinstance(main, For)
    if main.step != ONE:
        raise _unsupported(f"a main loop by steps of {main.step}")
    computing, stores = _parted(tiles.body[at + 1 :], names)
    holds = Var(names.new("any"))
    frags, places = _frags(computing, stores), _places(tiles, computing, stores)
    none, held, last = (_Held.of(frags, (*places, holds), names, n) for n in _WHEN)
    fills = tuple(FragFill(f, 0.0) for f in none.frags.values())
    carries = (
        *(Carry(held.frags[n], none.frags[n], last.frags[n]) for n in frags),
        *(Carry(held.places[v], Const(0, v.type), last.places[v]) for v in (*places, holds)),
    )
    step = tuple(
        If(main.var.eq(minimum(main.start + n, main.stop - 1)), held.stored(store, names))
        for n, store in enumerate(stores)
    )
    some, no_step = held.places[holds] > ZERO, main.stop <= main.start
    body = (
        *tiles.body[:at],
        replace(main, body=(*main.body, If(some, step))),
        If(no_step.logical_and(some), held.all_stored(stores, names)),
        *computing,
    )
    loop = replace(
        tiles, body=body, carries=(*tiles.carries, *carries),
        yields=(*tiles.yields, *frags.values(), *places, ONE),
    )  # fmt: skip
    return (*fills, loop, If(last.places[holds] > ZERO, last.all_stored(stores, names)))


_WHEN = ("none", "held", "last")
"""What a carried value is called in front of the loop, in it, and behind it."""


@dataclass(frozen=True, slots=True)
class _Held:
    """What is held of a tile: where its fragments and its scalars are.

    Args:
        frags: by the names that they have where the tile is computed.
        places: by those of its scalars.
    """

    frags: dict[str, Frag]
    places: dict[Var, Var]

    @staticmethod
    def of(frags: Mapping[str, Frag], places: Iterable[Var], names: Names, when: str) -> _Held:
        """New names for all of it."""
        return _Held(
            {n: replace(f, name=names.new(f"{n}_{when}")) for n, f in frags.items()},
            {v: replaced(v, name=names.new(f"{v.name}_{when}")) for v in places},
        )

    def stored(self, store: Body, names: Names) -> Body:
        """What stores a chunk of it."""
        return names.once_more(store, self.places, self.frags)

    def all_stored(self, stores: Sequence[Body], names: Names) -> Body:
        """What stores all chunks of it."""
        return tuple(s for store in stores for s in self.stored(store, names))


def _parted(body: Body, names: Names) -> tuple[Body, tuple[Body, ...]]:
    """What a statement list computes, and chunk by chunk what stores that."""
    computing, stores, storing = list[Stmt](), list[Body](), list[Stmt]()
    for stmt in _written_out(body, names):
        if isinstance(stmt, FragRedGlobal):
            stores.append((*_index(stmt, computing), stmt))
            continue
        if not storing and not _any(BulkWait, stmt):
            computing.append(stmt)
            continue
        storing.append(stmt)
        if _any(BulkCommit, stmt):
            stores.append(rewrite(tuple(storing), _for_all))
            storing = []
    if storing:
        raise _unsupported("a tile with a wait for stores behind the last one")
    numbers = {s.out.name for store in stores for s in store if isinstance(s, FragLoadGlobal)}
    kept = (s for s in computing if getattr(getattr(s, "out", None), "name", "") not in numbers)
    return tuple(kept), tuple(stores)


def _index(stmt: FragRedGlobal, computing: Sequence[Stmt]) -> Body:
    """What loads the numbers of the rows that a chunk is added to, for that chunk alone."""
    found = (
        s for s in computing
        if isinstance(s, FragLoadGlobal) and stmt.index is not None and s.out == stmt.index
    )  # fmt: skip
    return tuple(found)


def _for_all(stmt: Stmt) -> Body | None:
    """A wait until all stores have read their buffers."""
    return (replace(stmt, pending=0),) if isinstance(stmt, BulkWait) else None


def _written_out(body: Body, names: Names) -> Iterator[Stmt]:
    """A statement list without loops that store: their trips, one behind the other."""
    for stmt in body:
        if not _any(_STORES, stmt) or isinstance(stmt, OnWarp | FragRedGlobal):
            yield stmt
        elif isinstance(stmt, For) and trips_of(stmt):
            yield from _written_out(_trips(stmt, names), names)
        else:
            raise _unsupported(f"chunks in `{stmt.OP}`")


def _trips(loop: For, names: Names) -> Body:
    """The trips of an unrolled loop; what it carries is read by none but the next one."""
    out, values = list[Stmt](), [c.init for c in loop.carries]
    for n in range(trips_of(loop)):
        (fresh,) = names.once_more((loop,))
        assert isinstance(fresh, For)
        scalars, frags = dict[Var, Expr]({fresh.var: Const(n)}), dict[str, Frag]()
        for carry, value in zip(fresh.carries, values, strict=True):
            if isinstance(carry.var, Var) and isinstance(value, Expr):
                scalars[carry.var] = value
            elif isinstance(carry.var, Frag) and isinstance(value, Frag):
                frags[carry.var.name] = value
        out += rename(fresh.body, scalars, frags)
        values = [
            frags.get(y.name, y) if isinstance(y, Frag) else substitute(y, scalars)
            for y in fresh.yields
        ]
    return tuple(out)


_VIEWS = (FragColumns, FragRows, WgmmaWait)
"""Statements whose results are in the registers of what they are of."""


def _frags(computing: Body, stores: Sequence[Body]) -> dict[str, Frag]:
    """The fragments that stores read, by their names."""
    made = {f.name: s for s in computing if isinstance(f := getattr(s, "out", None), Frag)}
    found = dict[str, Frag]()
    for store in stores:
        own = defined_in(store)
        for stmt in walk(store):
            for f in operands(stmt):
                if isinstance(f, Frag) and f.name not in own:
                    found[f.name] = f
    if any(n not in made or isinstance(made[n], _VIEWS) for n in found):
        raise _unsupported("sums as they are, which the next tile's take the registers of")
    return found


def _places(tiles: For, computing: Body, stores: Sequence[Body]) -> tuple[Var, ...]:
    """The scalars of a tile that stores read."""
    bound = defined(tiles) | set[str]().union(*map(defined, (*tiles.body, *computing)))
    statements = (s for store in stores for s in walk(store))
    read = (sorted(free_vars(e), key=str) for s in statements for e in expressions(s))
    return tuple({v: None for some in read for v in some if v.name in bound})
