"""Turn sections into roles of their own warps.

Requires: up to four ``load`` sections at the top level, and others with names of their own, of
which a matmul has one, ``compute``. A kernel whose consumers load for themselves
(``interleave_loads``) stays as it is.
Guarantees: one ``roles`` statement; the warpgroups of the other sections first, in their order,
then one load warpgroup: a warp for each load section, of which a single elected thread issues
copies.

First of all passes, because every later one asks "which role am I in?".
"""

from __future__ import annotations

from dataclasses import replace

from lowering.ground.errors import InternalError, ScheduleError
from lowering.ground.expr import Special
from lowering.kernel.kernel import Kernel
from lowering.kernel.nodes import Body, Break, Elect, For, If, Let, NextTile, Role, Roles, Section
from lowering.target import ptx
from passes.options import LoweringOptions

__all__ = ["warp_specialize"]

WARPS = 4
"""Warps of a warpgroup."""


def warp_specialize(kernel: Kernel, options: LoweringOptions) -> Kernel:
    """Sections become roles; the CTA grows by one warpgroup for the load role.

    before::

        section load groups 1 { for m in 0 .. n { load.tile A_s[0, 0, 0], A[0, m] } }
        section compute groups 2 as wg { ... }

    after::

        roles {
          role compute warps 0 .. 8 as wg { ... }
          role load warps 8 .. 12 {
            if %warpgroup.warp == 0 {
              for m in 0 .. n { elect { load.tile A_s[0, 0, 0], A[0, m] } }
            }
          }
        }

    Raises:
        ScheduleError: more warpgroups than a CTA can have.
        InternalError: sections that do not load are missing or share a name, or those that load are
            none or more than a warpgroup has warps.
    """
    if any(ring.prefetch for ring in kernel.rings):
        return kernel
    parts, loads = _parts(kernel)
    groups = sum(s.groups for s in parts)
    threads = (groups + 1) * ptx.WARPGROUP
    if threads > (limit := kernel.target.max_threads):
        most = limit // ptx.WARPGROUP - 1
        raise ScheduleError(
            "threads",
            f"parallelize(TIDy) over {groups} compute warpgroups",
            f"with the load warpgroup the CTA has {threads} threads, limit {limit}",
            (f"at most {most} compute warpgroups",),
        )
    roles: list[Role] = []
    first = 0
    for part in parts:
        warps = WARPS * part.groups
        roles.append(Role(part.name, first, warps, part.body, part.group, part.registers))
        first += warps
    by_warp = (
        If(Special("warpgroup.warp").eq(warp), _elected(load.body))
        for warp, load in enumerate(loads)
    )
    roles.append(Role("load", first, WARPS, tuple(by_warp), registers=loads[0].registers))
    body = [s for s in kernel.body if not isinstance(s, Section)]
    return replace(kernel, threads=threads, body=(*body, Roles(tuple(roles))))


def _parts(kernel: Kernel) -> tuple[list[Section], list[Section]]:
    """The sections of whole warpgroups, and those that load."""
    sections = [s for s in kernel.body if isinstance(s, Section)]
    loads = [s for s in sections if s.name == "load"]
    parts = [s for s in sections if s.name != "load"]
    names = {s.name for s in parts}
    if not names or len(names) < len(parts) or not 1 <= len(loads) <= WARPS:
        found = sorted(s.name for s in sections)
        raise InternalError("warp_specialize", f"sections are {found}")
    return parts, loads


def _elected(body: Body) -> Body:
    """``body`` with each run of statements that act on memory put under one ``elect``."""
    out: list[object] = []
    for stmt in body:
        if isinstance(stmt, For):
            out.append(replace(stmt, body=_elected(stmt.body)))
        elif isinstance(stmt, (Let, NextTile, Break)):
            out.append(stmt)
        elif out and isinstance(out[-1], Elect):
            out[-1] = Elect((*out[-1].body, stmt))
        else:
            out.append(Elect((stmt,)))
    return tuple(out)  # type: ignore[arg-type]
