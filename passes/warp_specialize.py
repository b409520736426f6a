"""Turn sections into roles of their own warps.

Requires: sections at the top level, at least one of which needs threads. A kernel whose consumers
load for themselves (``interleave_loads``) stays as it is.
Guarantees: one ``roles`` statement. A section that needs threads is a role of its own, of as many
warpgroups as it has groups, in the order of the text: it computes, or fills its part of a ring
through registers or with ``cp.async``. Sections that only issue copies come behind them, four to a
warpgroup, a warp each, of which a single elected thread acts. Copies of a section with threads, and
products in tensor memory, are issued by one thread of it, or of each group whose number they depend
on (``issuer``).

After ``share_slices``, before all others, because every later one asks "which role am I in?"
"""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.errors import InternalError, ScheduleError
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import (
    Body,
    Break,
    Consume,
    Elect,
    For,
    Frag,
    If,
    NextTile,
    OnWarp,
    Produce,
    Role,
    Roles,
    Section,
    Stmt,
)
from lowering.kernel.traits import Threads
from lowering.kernel.visit import defined, map_bodies, operands, walk
from lowering.target import ptx
from passes.issuer import Issuer
from passes.options import LoweringOptions

__all__ = ["only_copies", "warp_specialize"]

WARPS = 4
"""Warps of a warpgroup."""

_STEPS = Produce | Consume
"""What opens a step of a ring."""


def warp_specialize(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Sections become roles; the CTA grows by a warpgroup for those that only issue copies.

    before::

        section load groups 1 { for m in 0 .. n { load.tile A_s[0, 0, 0], A[0, m] } }
        section fill groups 1 { for i in 0 .. n { load.tile B_s[0, 0, 0], B[0, i]  stmatrix ... } }
        section compute groups 2 as wg { ... }

    after::

        roles {
          role fill warps 0 .. 4 {
            for i in 0 .. n {
              on %warpgroup.warp 0 { elect { load.tile B_s[0, 0, 0], B[0, i] } }
              stmatrix ...
            }
          }
          role compute warps 4 .. 12 as wg { ... }
          role load warps 12 .. 16 {
            on %warpgroup.warp 0 {
              for m in 0 .. n { elect { load.tile A_s[0, 0, 0], A[0, m] } }
            }
          }
        }

    Raises:
        ScheduleError: more warpgroups than a CTA can have.
        InternalError: no section needs threads, or two that do have one name.
    """
    if any(ring.prefetch for ring in kernel.rings):
        return kernel
    sections = [s for s in kernel.body if isinstance(s, Section)]
    loads = [s for s in sections if only_copies(s)]
    working = [s for s in sections if s not in loads]
    names = [s.name for s in working]
    if not working or len(set(names)) < len(names):
        found = sorted(s.name for s in sections)
        raise InternalError("warp_specialize", f"sections are {found}")
    shared = [loads[i : i + WARPS] for i in range(0, len(loads), WARPS)]
    threads = _threads(kernel, working, len(shared))
    roles: list[Role] = []
    first = 0
    for s in working:
        body = Issuer.of(kernel, s, first).issued(s.body)
        roles.append(Role(s.name, first, WARPS * s.groups, body, s.group, s.registers))
        first = roles[-1].span.stop
    for run in shared:
        roles.append(_by_warp(run, first, {r.name for r in roles}))
        first = roles[-1].span.stop
    rest = [s for s in kernel.body if not isinstance(s, Section)]
    return replace(kernel, threads=threads, body=(*rest, Roles(tuple(roles))))


def _threads(kernel: Kernel, working: list[Section], loads: int) -> int:
    """Threads of a CTA; refuses more than it can have.

    Args:
        kernel: for its target.
        working: the sections that need threads, which compute or load by themselves.
        loads: warpgroups whose warps only issue copies.
    """
    groups = sum(s.groups for s in working)
    threads = (groups + loads) * ptx.WARPGROUP
    if threads <= (limit := kernel.target.max_threads):
        return threads
    copying = f" and {loads} that only issue copies" if loads else ""
    raise ScheduleError(
        "threads",
        ", ".join(f"section {s.name} groups {s.groups}" for s in working),
        f"{groups} warpgroups{copying} are {threads} threads, limit {limit}",
        (f"at most {limit // ptx.WARPGROUP - loads} warpgroups that compute or load themselves",),
    )


def only_copies(section: Section) -> bool:
    """Whether one thread can do all of it: it knows no group, and no statement needs several."""
    together = (Threads.WARP, Threads.WARPGROUP)
    return section.groups == 1 and section.group is None and not any(
        (s.TRAITS.threads in together and not isinstance(s, NextTile))
        or any(isinstance(x, Frag) for x in operands(s))
        for s in walk(section.body)
    )  # fmt: skip


def _by_warp(sections: list[Section], first: int, taken: set[str]) -> Role:
    """A warpgroup whose warps have a section each; registers are those of the first with some."""
    counts = [s.registers for s in sections if s.registers is not None]
    name = sections[0].name
    while name in taken:
        name += "_"
    body = tuple(
        OnWarp(warp, _elected(s.body), "warpgroup.warp") for warp, s in enumerate(sections)
    )
    return Role(name, first, WARPS, body, registers=counts[0] if counts else None)


def _elected(body: Body) -> Body:
    """``body`` with each run of statements that act on memory put under one ``elect``; not what
    binds a name for those behind it, or ends a loop, nor a step of a ring that a loop behind it is
    in.
    """
    out: list[Stmt] = []
    loops = any(isinstance(s, For) for s in body)
    for stmt in body:
        if isinstance(stmt, For | If):
            out.append(map_bodies(stmt, _elected))
        elif isinstance(stmt, Break) or defined(stmt) or (loops and isinstance(stmt, _STEPS)):
            out.append(stmt)
        elif out and isinstance(last := out[-1], Elect):
            out[-1] = Elect((*last.body, stmt))
        else:
            out.append(Elect((stmt,)))
    return tuple(out)
