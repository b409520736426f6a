"""The kernel's structure against the pseudo-code of the proposal, NVIDIA/Fuser issue 3941.

``test_skeleton`` has its roles, loops and operations in order. The tests after it have what the
pseudo-code leaves out; each of them is also run on kernels from which that very thing was taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import takewhile

import pytest

from lowering.ground.expr import Binary, Const, Expr, children, evaluate, substitute
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    BarSync,
    Body,
    BulkWait,
    CtaSync,
    Elect,
    FenceMBarrierInit,
    FenceProxyAsync,
    For,
    FragCast,
    FragColumns,
    FragFill,
    If,
    Let,
    MBarrierArrive,
    MBarrierExpectTx,
    MBarrierInit,
    MBarrierInval,
    MBarrierRef,
    OnWarp,
    Role,
    Roles,
    SetMaxNReg,
    StMatrix,
    Stmt,
    StShared,
    TmaLoad,
    TmaStore,
    Wgmma,
)
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.kernel.visit import bodies, expressions, walk
from tests.lowering.nest.kernels import WARP_SPECIALIZED, final

SKELETON = """\
warp 1:
  one thread:
    prefetch.tensormap x3
warp 0:
  one thread:
    for stage:
      mbarrier.init full
      mbarrier.init empty
    fence.mbarrier_init
cta.sync
role compute:
  setmaxnreg inc
  one thread:
    for stage:
      mbarrier.arrive empty
  griddepcontrol.wait
  griddepcontrol.launch_dependents
  for tile:
    for k:
      mbarrier.wait full
      wgmma.fence
      wgmma x4
      wgmma.commit
      wgmma.wait 1
      if there was a step before:
        one thread:
          mbarrier.arrive empty
    wgmma.wait 0
    if there was a step:
      one thread:
        mbarrier.arrive empty
    for chunk:
      frag.cast
      warp 0 of the group:
        one thread:
          bulk.wait 1
      bar.sync store
      stmatrix
      fence.proxy.async
      bar.sync store
      warp 0 of the group:
        one thread:
          tma.store
          bulk.commit
  warp 0 of the group:
    one thread:
      bulk.wait 0
role load:
  setmaxnreg dec
  griddepcontrol.wait
  griddepcontrol.launch_dependents
  warp 0 of the group:
    for tile:
      for k:
        one thread:
          mbarrier.wait empty
          mbarrier.expect_tx full
          tma.load x2
cta.sync
warp 0:
  one thread:
    for stage:
      mbarrier.inval full
      mbarrier.inval empty
"""
LEFT_OUT = (Let, FragFill, FragColumns)


def test_skeleton() -> None:
    """Cooperative and persistent; one wgmma group stays in flight, so a step is released late."""
    lines = list(skeleton(final("cooperative").body))
    for line in sorted(
        {x for x in lines if lines.count(x) > 1 and re.search("wgmma|load|fetch", x)}
    ):
        at, count = lines.index(line), lines.count(line)
        if lines[at : at + count] == [line] * count:
            lines[at : at + count] = [f"{line} x{count}"]
    assert "".join(f"{line}\n" for line in lines) == SKELETON


def skeleton(body: Body) -> Iterator[str]:
    """A line for each statement that is not only a value, indented as the statements nest."""
    for stmt in body:
        if isinstance(stmt, LEFT_OUT):
            continue
        if isinstance(stmt, Roles):
            for role in stmt.roles:
                yield f"role {role.name}:"
                yield from (f"  {line}" for line in skeleton(role.body))
            continue
        inner = bodies(stmt)
        yield head(stmt) + (":" if inner else "")
        yield from (f"  {line}" for part in inner for line in skeleton(part))


def head(stmt: Stmt) -> str:
    match stmt:
        case For():
            return f"for {loop_kind(stmt)}"
        case Elect():
            return "one thread"
        case OnWarp(index, of="warp"):
            return f"warp {index}"
        case OnWarp(0, of="warpgroup.warp"):
            return "warp 0 of the group"
        case If(cond=Binary("<", Const(0), bound)):
            return "if there was a step" + (" before" if str(bound).startswith("k") else "")
        case SetMaxNReg(action=action):
            return f"setmaxnreg {action}"
        case FragCast():
            return "frag.cast"
    bar = getattr(stmt, "bar", None)
    if bar is not None and not isinstance(stmt, TmaLoad):
        return f"{stmt.OP} {bar.array.rpartition('_')[2]}"
    pending = getattr(stmt, "pending", None)
    return stmt.OP if pending is None else f"{stmt.OP} {pending}"


def loop_kind(loop: For) -> str:
    """What a loop goes over, from what stands in it."""
    inside = {type(s) for s in walk(loop.body)}
    if inside & {Wgmma, TmaLoad}:
        nested = any(isinstance(s, For) for s in loop.body)
        return "tile" if nested else "k"
    return "chunk" if TmaStore in inside else "stage"


# ------------------------------------------------------------------ what the pseudo-code leaves out


def init_is_visible_and_teardown_waits(kernel: Kernel) -> bool:
    """Inits, a fence, a sync of the CTA; after all roles a sync, then the invalidation."""
    order = []
    for stmt in kernel.body:
        kinds = [type(s) for s in walk((stmt,))] if isinstance(stmt, OnWarp) else [type(stmt)]
        for kind in (MBarrierInit, FenceMBarrierInit, CtaSync, Roles, MBarrierInval):
            if kind in kinds:
                order.append(kind)
    initialised = {s.bar.array for s in walk(kernel.body) if isinstance(s, MBarrierInit)}
    return order == [
        MBarrierInit,
        FenceMBarrierInit,
        CtaSync,
        Roles,
        CtaSync,
        MBarrierInval,
    ] and initialised == {b.name for b in kernel.mbarriers}


def roles_cover_the_cta_to_its_end(kernel: Kernel) -> bool:
    """Every warp runs one role, and nothing in a role leaves it early or syncs the CTA alone."""
    warps = [w for r in roles(kernel) for w in range(r.first_warp, r.first_warp + r.warps)]
    inside = [s.OP for r in roles(kernel) for s in walk(r.body)]
    return warps == list(range(kernel.threads // 32)) and "cta.sync" not in inside


def writers_fence_before_the_store(kernel: Kernel) -> bool:
    """Write, fence by every writer, barrier of the writers, then one thread's store; in a block."""
    return all(
        ordered(block, is_write, of(FenceProxyAsync), of(BarSync), has(TmaStore))
        for block in writing_blocks(kernel)
    )


def buffers_are_free_before_they_are_written(kernel: Kernel) -> bool:
    """The storing thread waits for its reads, then a barrier tells the others."""
    return all(
        ordered(block, has(BulkWait), of(BarSync), is_write)
        and [(s.of, s.index) for s in block if has(BulkWait)(s) and isinstance(s, OnWarp)]
        == [(s.of, s.index) for s in block if has(TmaStore)(s) and isinstance(s, OnWarp)]
        for block in writing_blocks(kernel)
    )


def stores_are_read_at_the_end(kernel: Kernel) -> bool:
    """A role that stores ends with its thread waiting until all of its stores have read."""
    storing = [r for r in roles(kernel) if any(isinstance(s, TmaStore) for s in walk(r.body))]
    last = [[s for s in walk(r.body[-1:]) if isinstance(s, BulkWait)] for r in storing]
    return bool(storing) and last == [[BulkWait(0, read=True)]] * len(storing)


def no_step_divides(kernel: Kernel) -> bool:
    """Stage and parity are carried: no division at all in a k loop."""
    inside = [
        e
        for loop in walk(kernel.body)
        if isinstance(loop, For) and loop_kind(loop) == "k"
        for s in walk(loop.body)
        for e in expressions(s)
    ]
    return bool(inside) and not any(map(divides, inside))


def announced_bytes_are_those_that_land(kernel: Kernel) -> bool:
    """A phase fills whole stages of the buffers that its copies write, or as many of their rows as
    the tensors have.
    """
    lets = {s.var: s.value for s in walk(kernel.body) if isinstance(s, Let)}
    found = []
    for block in blocks(kernel.body):
        for stmt in block:
            if isinstance(stmt, MBarrierExpectTx):
                loads = {s.dst.buffer: s.src.map for s in block if isinstance(s, TmaLoad)}
                written = {kernel.buffer(b): kernel.tensor_map(m) for b, m in loads.items()}
                assert stmt.bytes is not None
                announced = substitute(stmt.bytes, lets)
                for env in ({"M": 1000, "N": 1000}, {"M": 16, "N": 1000}, {"M": 300, "N": 9}):
                    found.append(evaluate(announced, env) == sum(
                        min(b.rows, evaluate(m.rows, env)) * b.cols * b.dtype.bytes
                        for b, m in written.items()
                    ))  # fmt: skip
    return bool(found) and all(found)


def all_stages_start_empty(kernel: Kernel) -> bool:
    """Before its first step a consumer arrives once on every stage: as often as one release."""
    (compute,) = (r for r in roles(kernel) if r.name == "compute")
    head = takewhile(lambda s: not isinstance(s, For), compute.body)
    first = [s for s in walk(tuple(head)) if isinstance(s, For)]
    (empty,) = (b for b in kernel.mbarriers if b.name.endswith("empty"))
    arrives = [s for loop in first for s in loop.body if isinstance(s, MBarrierArrive)]
    return [loop.stop for loop in first] == [Const(empty.stages)] and [s.bar for s in arrives] == [
        MBarrierRef(empty.name, first[0].var)
    ]


RULES: tuple[tuple[Callable[[Kernel], bool], tuple[tuple[str, str], ...]], ...] = (
    (
        init_is_visible_and_teardown_waits,
        (
            ("fence.mbarrier_init", ""),
            ("cta.sync\n  roles", "roles"),
            ("}\n  cta.sync", "}"),
            ("mbarrier.init ring_empty[ring_init], ", "mbarrier.init ring_full[ring_init], "),
        ),
    ),
    (roles_cover_the_cta_to_its_end, (("warps 8 .. 12", "warps 8 .. 11"),)),
    (
        writers_fence_before_the_store,
        (
            ("fence.proxy.async", ""),
            ("fence.proxy.async", "elect { fence.proxy.async }"),
            ("fence.proxy.async\nbar.sync STORE", "bar.sync STORE\nfence.proxy.async"),
            ("fence.proxy.async\nbar.sync STORE", "fence.proxy.async"),
        ),
    ),
    (
        buffers_are_free_before_they_are_written,
        (("bulk.wait 1, read=true", ""), ("bar.sync STORE\nstmatrix", "stmatrix")),
    ),
    (stores_are_read_at_the_end, (("bulk.wait 0, read=true", ""), ("bulk.wait 0", "bulk.wait 1"))),
    (no_step_divides, (("[stage_k], parity_k", "[k % 3], parity_k"),)),
    (announced_bytes_are_those_that_land, (("bytes=step_bytes", "bytes=16384"),)),
    (all_stages_start_empty, (("mbarrier.arrive ring_empty[ring_first]", ""),)),
)


@pytest.mark.parametrize("name", WARP_SPECIALIZED)
@pytest.mark.parametrize("rule", [rule for rule, _ in RULES], ids=lambda rule: rule.__name__)
def test_left_out(rule: Callable[[Kernel], bool], name: str) -> None:
    assert rule(final(name))


@pytest.mark.parametrize(
    ("rule", "old", "new"),
    [(rule, *change) for rule, changes in RULES for change in changes],
)
def test_its_absence_is_found(rule: Callable[[Kernel], bool], old: str, new: str) -> None:
    text = "\n".join(line.strip() for line in print_kernel(final("cooperative")).splitlines())
    (store,) = (b.name for b in final("cooperative").named_barriers)
    old, new = (t.replace("\n  ", "\n").replace("STORE", f"{store}[group]") for t in (old, new))
    assert old in text
    assert not rule(parse_kernel(text.replace(old, new)))


# ------------------------------------------------------------------------------------------ helpers


def roles(kernel: Kernel) -> tuple[Role, ...]:
    return next(s for s in kernel.body if isinstance(s, Roles)).roles


def blocks(body: Body) -> Iterator[Body]:
    """Every statement list, at any depth."""
    yield body
    for stmt in body:
        for inner in bodies(stmt):
            yield from blocks(inner)


def is_write(stmt: Stmt) -> bool:
    return isinstance(stmt, (StMatrix, StShared))


def of(kind: type[Stmt]) -> Callable[[Stmt], bool]:
    """A statement of the kind that all threads execute."""
    return lambda stmt: isinstance(stmt, kind)


def has(kind: type[Stmt]) -> Callable[[Stmt], bool]:
    """A block in which one thread executes such a statement."""
    return lambda stmt: any(isinstance(s, kind) for s in walk((stmt,)))


def writing_blocks(kernel: Kernel) -> list[Body]:
    found = [block for block in blocks(kernel.body) if any(map(is_write, block))]
    assert found
    return found


def ordered(block: Body, *wanted: Callable[[Stmt], bool]) -> bool:
    """Whether the statements of a block match ``wanted`` one after the other."""
    rest = iter(block)
    return all(any(want(stmt) for stmt in rest) for want in wanted)


def divides(e: Expr) -> bool:
    if isinstance(e, Binary) and e.op in ("//", "%", "ceildiv"):
        return True
    return any(map(divides, children(e)))
