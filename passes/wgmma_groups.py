"""Groups of wgmmas for ``synchronize_wgmma``: all of a k slice at once, or rolling.

A *rolling* step is for A that the step makes in registers. A wgmma reads them until it is done, so
that the next step may write piece j of A only when piece j of this step is done. Each piece is a
group of its own; with n pieces, n - 1 groups may be pending in front of what writes the next one:
the tensor core has work while threads compute, and A takes no more registers than one slice of it.
A piece is the K of two instructions, of four where one warpgroup multiplies alone (``pieces_of``),
which threads wait for and fence off once. A step whose sums are read in it waits for all pieces
behind the last one: the first ones multiply while threads make the others, and of the next step
nothing is in flight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lowering.ground.errors import UnsupportedError
from lowering.ground.expr import TRUE, Const
from lowering.ground.frozen import replaced
from lowering.kernel.columns import Chain
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    Frag,
    FragColumns,
    MmaTile,
    Roles,
    SmemRef,
    Stmt,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from lowering.kernel.visit import Names
from lowering.target import ptx
from lowering.target.wgmma import pieces_of

__all__ = ["flying", "group", "multiplying_warps", "pieces", "rolling"]


def flying(frag: Frag) -> Frag:
    """The value while a wgmma may write it."""
    return replaced(frag, type=frag.type.flying())


def multiplying_warps(kernel: Kernel) -> int:
    """Warps of the largest role whose warpgroups multiply; 0 before there are roles."""
    roles = (r for s in kernel.body if isinstance(s, Roles) for r in s.roles)
    return max((r.warps for r in roles if r.group is not None), default=0)


def pieces(kernel: Kernel, mma: MmaTile) -> int:
    """Groups that a rolling step has for a product.

    Raises:
        UnsupportedError: no wgmma computes it.
    """
    return pieces_of(mma.k // _instruction_k(kernel, mma), multiplying_warps(kernel) == ptx.WARPS)


def group(
    kernel: Kernel, names: Names, run: list[MmaTile], waited: list[MmaTile], pending: int = 0
) -> Body:
    """Products as one committed group, and the waits for some that leave ``pending`` groups.

    Raises:
        UnsupportedError: no wgmma computes such a product.
    """
    lefts = [_pieces(names, p, _instruction_k(kernel, p)) for p in run]
    out: list[Stmt] = [s for of_one in lefts for s in of_one]
    out.append(WgmmaFence())
    waits: list[Stmt] = []
    taken: dict[str, Frag] = {}
    for p, parts in zip(run, lefts, strict=True):
        acc = taken.get(p.acc.name, p.acc)
        step = _instruction_k(kernel, p)
        for k in range(0, p.k, step):
            new = _wgmma(names, p, acc, k, parts[k // step].out if parts else None)
            if k + step == p.k and p not in waited:
                new = replaced(new, out=replaced(new.out, name=p.out.name))
            acc = new.out
            out.append(new)
        if p in waited:
            waits.append(WgmmaWait(flying(p.out) if pending else p.out, acc, pending))
        taken[p.out.name] = acc
    return (*out, WgmmaCommit(), *waits)


def rolling(
    kernel: Kernel,
    names: Names,
    run: list[MmaTile],
    chains: Mapping[str, Chain],
    flies: bool = True,
) -> Iterator[Stmt]:
    """Products of one K as groups of a piece of it each, in front of each a wait for the one of the
    step before that reads the same registers.

    Args:
        kernel: for its target and buffers.
        names: of the kernel.
        run: products; none goes into the accumulator of another.
        chains: the statements that make A, by its name, where the step makes it; those that need
            not be taken apart come first of all.
        flies: whether all stay in flight; else all are waited for behind the last piece, and no
            piece has one of a step before to wait for.

    Raises:
        UnsupportedError: no wgmma computes such a product.
    """
    step = {_instruction_k(kernel, p) for p in run}.pop()
    groups = pieces(kernel, run[0])
    whole = run[0].k // groups
    accs = [flying(p.acc) if flies else p.acc for p in run]
    for chain in chains.values():
        yield from chain.first
    for k in range(0, run[0].k, whole):
        made = {name: chain.columns(names, k, whole) for name, chain in chains.items()}
        for stmts in made.values():
            yield from stmts[:-1]
        if flies:
            done = replaced(accs[0], name=names.new(f"{run[0].out.name}_before{k}"))
            done = done if groups > 1 else replaced(done, type=done.type.settled())
            yield WgmmaWait(done, accs[0], groups - 1)
            accs[0] = done
        for stmts in made.values():
            yield stmts[-1]
        ready = {name: _out(stmts[-1]) for name, stmts in made.items()}
        lefts: dict[tuple[str, int], Frag] = {}
        yield from _cut(names, run, ready, range(k, k + whole, step), lefts)
        yield WgmmaFence()
        for i, p in enumerate(run):
            for at in range(k, k + whole, step):
                a = lefts[p.a.name, at] if isinstance(p.a, Frag) else None
                new = _wgmma(names, p, accs[i], at, a)
                if flies and at + step == p.k:
                    new = replaced(new, out=replaced(new.out, name=p.out.name))
                accs[i] = new.out
                yield new
        yield WgmmaCommit()
    if not flies:
        yield from (WgmmaWait(p.out, acc, 0) for p, acc in zip(run, accs, strict=True))


def _cut(
    names: Names,
    run: list[MmaTile],
    ready: dict[str, Frag],
    at: range,
    lefts: dict[tuple[str, int], Frag],
) -> Iterator[Stmt]:
    """A piece of each A, taken apart into the instructions' own, which ``lefts`` gets by their K.

    Args:
        names: of the kernel.
        run: products.
        ready: pieces that were made, by the name of the whole; others are taken from that.
        at: where the instructions' K begins.
        lefts: what they read.
    """
    whole = len(at) * at.step
    for p in run:
        if isinstance(p.a, Frag) and p.a.name not in ready:
            part = FragColumns(_piece(names, p.a, at.start, whole), p.a, Const(at.start))
            ready[p.a.name] = part.out
            yield part
    for name, piece in ready.items():
        for k in at:
            cut = FragColumns(
                _piece(names, piece, k - at.start, at.step), piece, Const(k - at.start)
            )
            lefts[name, k] = piece if whole == at.step else cut.out
            yield from () if whole == at.step else (cut,)


def _out(stmt: Stmt) -> Frag:
    found = getattr(stmt, "out", None)
    assert isinstance(found, Frag)
    return found


def _instruction_k(kernel: Kernel, mma: MmaTile) -> int:
    """K of one wgmma of a product; refuses what no wgmma computes."""
    family, kind, b = kernel.target.mma, mma.out.type, kernel.buffer(mma.b.buffer).dtype
    a = mma.a.type.dtype if isinstance(mma.a, Frag) else kernel.buffer(mma.a.buffer).dtype
    step, form = family.k(b), family.form(a, b, kind.dtype)
    if form is None:
        what = f"a product of {a.value} by {b.value} into {kind.dtype.value}"
        raise UnsupportedError(what, f"what {family.name} has: {'; '.join(family.types)}")
    if mma.k % step or mma.width not in form.n or kind.rows % family.m:
        raise UnsupportedError(
            f"a warp tile of {kind.rows}x{mma.width}x{mma.k}",
            f"what {family.name} multiplies: M a multiple of {family.m}, N {form.columns}, K a "
            f"multiple of {step}",
        )
    return step


def _wgmma(names: Names, mma: MmaTile, acc: Frag, k: int, piece: Frag | None) -> Wgmma:
    """The wgmma of one instruction's K from ``k`` on; ``piece`` is A of it in registers."""
    out = Frag(names.new(f"{mma.out.name}_k{k}"), mma.out.type.flying())
    a = mma.a.along(0, k, mma.trans_a) if isinstance(mma.a, SmemRef) else piece or mma.a
    b = mma.b.along(0, k, mma.trans_b)
    keep = TRUE if k else mma.accumulate
    return Wgmma(out, acc, a, b, keep, mma.trans_a, mma.trans_b, mma.col, mma.cols)


def _pieces(names: Names, mma: MmaTile, step: int) -> list[FragColumns]:
    """A in registers, an instruction's K at a time; nothing for A in shared memory."""
    left = mma.a
    if isinstance(left, SmemRef):
        return []
    parts = [(_piece(names, left, k, step), k) for k in range(0, mma.k, step)]
    return [FragColumns(part, left, Const(k)) for part, k in parts]


def _piece(names: Names, a: Frag, k: int, step: int) -> Frag:
    return Frag(names.new(f"{a.name}_k{k}"), replaced(a.type, cols=step))
