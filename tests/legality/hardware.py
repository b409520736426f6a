"""What no index says: memories, who loads, who asks for tiles, registers, wgmma's shapes."""

from __future__ import annotations

from math import prod

from lowering.ground.expr import ONE, Const, Expr
from tests.legality.parts import BIDS, TIDS, Illegal, Parts, Shapeless, constant
from wsched.fusion import (
    CastOp,
    IterType,
    LoadStoreOp,
    LoadStoreOpType,
    MemoryType,
    ParallelType,
    PointwiseOp,
    Split,
    TensorView,
    WarpSpecialized,
)

__all__ = ["check_hardware"]

_LOCAL, _SHARED, _GLOBAL = MemoryType.Local, MemoryType.Shared, MemoryType.Global
_COPIES = {
    LoadStoreOpType.CpAsyncBulkTensorTile: {(_GLOBAL, _SHARED), (_SHARED, _GLOBAL)},
    LoadStoreOpType.LdMatrix: {(_SHARED, _LOCAL)},
    LoadStoreOpType.StMatrix: {(_LOCAL, _SHARED)},
}
"""Memories (from, to) of the copies that go between two memories only."""


def check_hardware(parts: Parts) -> None:
    """Refuse what the hardware has not.

    Raises:
        Illegal: the first fault.
    """
    _memories(parts)
    _rings(parts)
    _grid(parts)
    _queue(parts)
    _registers(parts)
    _threads(parts)
    _fragment(parts)


def _memories(parts: Parts) -> None:
    f = parts.fusion
    staged = {t.name for t in (*parts.loads, *parts.stored)}
    for e in f.exprs:
        out = f.tensor(e.output).memory
        if isinstance(e, LoadStoreOp) and e.op in _COPIES:
            way = f.tensor(e.input).memory, out
            if way not in _COPIES[e.op]:
                raise Illegal(f"{e.op} does not copy from {way[0]} to {way[1]} memory")
        if isinstance(e, CastOp | PointwiseOp) and f.tensor(e.output) in parts.computed:
            names = (
                [e.input] if isinstance(e, CastOp) else [x for x in e.inputs if isinstance(x, str)]
            )
            for name in names:
                if f.tensor(name).memory is _SHARED and name in staged:
                    raise Illegal(f"{e.output} computes with {name}, which is in shared memory")
    for name in (x for mma in f.mmas for x in (mma.a, mma.b)):
        if name not in staged or f.tensor(name).memory is not _SHARED:
            raise Illegal(f"operand {name} is not in a ring in shared memory")
    if any(t.memory is not _LOCAL for t in parts.sums):
        raise Illegal("the accumulator is not in registers")


def _rings(parts: Parts) -> None:
    kinds = set()
    for ring in parts.rings:
        buffers = {t.circular_buffer for t in ring.fills}
        if len(buffers) != 1 or None in buffers:
            readers = " and ".join(t.name for t, _ in ring.readers)
            raise Illegal(f"what is read by {readers} is not circular-buffered alike")
        kinds |= {b.type for b in buffers if b is not None}
        threads = [t for t in ring.fills if t.name in parts.fusion.loaded_by_threads]
        if len({_shares(t) for t in threads}) > 1:
            names = " and ".join(t.name for t in threads)
            raise Illegal(f"the warpgroups that load {names} are counted in two ways")
    on = {k.on for k in kinds if isinstance(k, WarpSpecialized)}
    if len(on) > 1:
        raise Illegal("rings are filled by different warps")
    for t in parts.computed:
        constant(tuple(d for d in t.loop if d.parallel in TIDS), f"the warpgroups of {t.name}")
    roles = [d for t in parts.computed for axis in TIDS if (d := t.axis_on(axis)) is not None]
    counted = any(d.extent != ONE for d in roles)
    if ParallelType.TIDx in on and counted:
        raise Illegal("warpgroups are counted on other axes than the load warpgroup's")


def _grid(parts: Parts) -> None:
    """A grid has 2**31 - 1 CTAs along x, 2**16 - 1 along y and z; a sum has a number of parts."""
    for t in (*parts.loads, *parts.computed):
        for axis, most in zip(BIDS, (2**31 - 1, 2**16 - 1, 2**16 - 1), strict=True):
            d = t.axis_on(axis)
            if d is None:
                continue
            if isinstance(d.extent, Const) and d.extent.value > most:
                raise Illegal(f"no grid has {d.extent} CTAs along {axis}")
            if axis is BIDS[2] and d.iter_type is IterType.Reduction:
                constant((d,), "parts of a sum")


def _queue(parts: Parts) -> None:
    """Who asks for a tile gets it, and no other CTA: those along y and z cannot have the same."""
    if not _dealt_at_run_time(parts):
        return
    for t in (*parts.loads, *parts.computed):
        for d in t.loop:
            if d.parallel in BIDS[1:] and d.extent != ONE:
                raise Illegal(f"loop {d.label} of {t.name} has several CTAs ask for one tile")


def _registers(parts: Parts) -> None:
    """``setmaxnreg``: a warpgroup that loads gives registers, those that compute take no more than
    it gave. 64 Ki of them go to the threads of a CTA in eights, 255 at most to each.
    """
    found = {r.fills[0].circular_buffer for r in parts.rings}
    kinds = {b.type for b in found if b is not None and isinstance(b.type, WarpSpecialized)}
    pairs = {k.num_registers for k in kinds if isinstance(k, WarpSpecialized)}
    if len(parts.sections) > 1 or parts.stored or pairs <= {None}:
        return
    groups, loading = (max(map(_warpgroups, made)) for made in (parts.sums, parts.loads))
    given = min(2**16 // (128 * (groups + loading)), 255) // 8 * 8
    for load, compute in (p for p in pairs if p is not None):
        taken = loading * load + groups * compute
        if not load <= given <= compute or taken > given * (groups + loading):
            told = f"{groups} + {loading} warpgroups with {given} registers"
            raise Illegal(f"{told} want {load}, {compute}")


def _threads(parts: Parts) -> None:
    """A CTA has 1024: eight warpgroups. Unless those that compute load, threads that do have some
    for each ring, and what a single thread does, for other rings and for the queue, a warp each.
    """
    loads = [r.fills for r in parts.rings if r.filler is None]
    apart = [
        ts for ts in loads if (b := ts[0].circular_buffer) and isinstance(b.type, WarpSpecialized)
    ]
    computing = sum(max(map(_warpgroups, section)) for section in parts.sections)
    threads = set(parts.fusion.loaded_by_threads)
    shares = [[_warpgroups(t) for t in ts if t.name in threads] for ts in apart]
    warps = shares.count([]) + bool(apart and _dealt_at_run_time(parts))
    loading = sum(max(share, default=0) for share in shares) + -(-warps // 4)
    if computing + loading > 8:
        raise Illegal(f"a CTA has no {128 * (computing + loading)} threads")


def _dealt_at_run_time(parts: Parts) -> bool:
    steps = (s for t in parts.fusion.tensors for s in t.transforms)
    return any(isinstance(s, Split) and s.dynamic for s in steps)


def _warpgroups(t: TensorView) -> int:
    """How many make a tensor side by side."""
    loops = [d for axis in TIDS if (d := t.axis_on(axis)) is not None]
    return prod(d.extent.value for d in loops if isinstance(d.extent, Const))


def _shares(t: TensorView) -> tuple[Expr, ...]:
    """How many warpgroups have a share of a tensor, along each axis."""
    return tuple(ONE if (d := t.axis_on(axis)) is None else d.extent for axis in TIDS)


def _fragment(parts: Parts) -> None:
    bytes_of_k = 32
    for mma, t in zip(parts.fusion.mmas, parts.sums, strict=True):
        sizes = [d.extent for d in t.loop if d.parallel is ParallelType.Mma]
        numbers = [d.value for d in sizes if isinstance(d, Const)]
        k = bytes_of_k // parts.fusion.tensor(mma.a).dtype.bytes
        legal = len(sizes) == len(numbers) == 3 and (numbers[0], numbers[2]) == (64, k)
        if not legal or numbers[1] % 8 or numbers[1] > 256:
            raise Shapeless(f"{' x '.join(map(str, sizes))} is no wgmma")
