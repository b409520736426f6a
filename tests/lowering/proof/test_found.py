"""What the proof finds in a kernel of each family in front of its claims: a table.

Sizes to look at, words of memory, rings, and what scalars that loops carry are places of. Claims
say no more of these than that they hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from lowering.ground.expr import Var
from lowering.kernel.control import Let
from lowering.kernel.kernel import Kernel
from lowering.proof.agent import Agent, agents
from lowering.proof.ends import Tables, Way, Words, grouped
from lowering.proof.linear import Facts
from lowering.proof.obligation import Verdict
from lowering.proof.odometer import Odometers
from lowering.proof.prove import _Ways
from lowering.proof.rings import rings_of
from lowering.proof.same import _wait, same_steps
from lowering.proof.shape import text
from lowering.proof.sizes import grids_of, groups_of, units_of
from lowering.proof.state import Walked
from lowering.proof.steps import Steps
from tests.conftest import Golden
from tests.mutants.families import FAMILIES
from tests.on_machine import kernel as compiled
from tests.schedules import QUICK, SCHEDULES

MADE: dict[str, Callable[[], Kernel]] = {
    **{name: (lambda n=name: compiled(SCHEDULES[n]).kernel) for name in sorted(QUICK)},
    **{
        name: (lambda make=make: make().kernel)
        for family in FAMILIES.values()
        for name, make in family.items()
    },
}


def listed(values: Any) -> str:
    return ", ".join(sorted(map(str, values))) or "none"


def sizes(kernel: Kernel) -> Iterator[str]:
    units = units_of(kernel)
    yield f"units: {listed(f'{p} {n}' for p, n in units.items())}"
    for most in (2, 7):
        groups = (f"{g.param} by {g.unit} {g.count}{' rounded up' * g.extent}, {g.one} {g.two}"
                  for g in groups_of(kernel, most))  # fmt: skip
        yield f"groups of {most} or more: {listed(groups)}"
    yield f"grids: {listed(grids_of(kernel))}; groups end at {listed(grouped(kernel))}"
    words, tables = Words.of(kernel), Tables.of(kernel, units)
    if words.names:
        counts = (f"{t} has {e}" for t, e in tables.counts.items())
        yield f"words: {listed(words.names)} in {listed(words.bounds)}; {listed(counts)}"
        at = {p.name: 100 * n for n, p in enumerate(kernel.params, 3)}
        at |= {e.name: 5 for e in tables.counts.values() if isinstance(e, Var)}
        for way in (w for w in Way if kernel.share or w is not Way.PARTS):
            yield f"  {way.name}: {tables.ends(way, at).all}"


def places(agent: Agent, stages: tuple[int, ...], facts: Facts) -> Iterator[str]:
    """Of each loop what it carries, and digits of numbers."""
    steps = Steps.of(agent.body, stages, facts)
    for loop, heads in steps.heads.items():
        for h in heads:
            first, delta, moved = (p.expr() for p in (h.first, h.delta, h.moved))
            yield f"  {loop}: {h.name} of {h.stages}, {h.at}: {first}, {delta} each, {moved} in all"
    yield from (f"  {loop} {stage}: {why}" for (loop, stage), why in steps.wrong.items())
    if steps.indices:
        yield f"  stages: {listed(steps.indices)}"
    for digits, number in Odometers.of(agent.body, steps).known.items():
        bases = listed(b.expr() for b in number.bases)
        yield f"  {listed(digits)}: {number.at.expr()} by {bases}, {number.radix.expr()}"


@pytest.mark.parametrize("name", MADE)
def test_found(name: str, golden: Golden) -> None:
    kernel = MADE[name]()
    warps = agents(kernel)
    rings, alone = rings_of(kernel, warps)
    facts = Facts(
        natural=frozenset(p.name for p in kernel.params),
        defined={s.var.name: s.value for s in kernel.body if isinstance(s, Let)},
    )
    lines = [*sizes(kernel), f"in no ring: {listed(alone)}"]
    for r in rings:
        lines.append(
            f"{r.name}: {r.stages} stages, {r.full}, {r.empty}, of {listed(r.buffers)}; "
            f"loaded {r.loaded}, copied {r.copied}, {r.proxies}, scoped {listed(r.scoped)}, "
            f"reached {listed(r.reached)}"
        )
    told: dict[str, list[str]] = {}
    for agent in warps:
        found = "\n".join(places(agent, tuple(sorted({r.stages for r in rings})), facts))
        told.setdefault(found, []).append(str(agent))
    lines += [f"{', '.join(names)}\n{found}" for found, names in told.items()]
    assert "\n".join(lines) == golden


def steps_of_a_walk(way: Walked) -> Iterator[str]:
    """What one agent does with steps of rings."""
    for ring, fills in way.fills.items():
        yield from sorted(
            f"  fills {ring}: one {f.one}, {len(f.copies)} copies, bytes "
            f"{f.bytes and f.bytes.expr()}, stored {listed(f.stored)}, told {listed(f.told)}, "
            f"untold {listed(f.untold)}, ordered {bool(f.ordered)}, issued {f.issued}"
            for f in fills
        )
    for ring, releases in way.releases.items():
        yield f"  releases {ring}: {listed(listed(r) for r in releases)}"
    yield f"  first: {listed(way.first)}; late {listed(way.late)}; idle {listed(way.idle)}"
    for what in ("begins", "skips", "lengths"):
        found = (f"{loop} {ring} {at.expr()}" for (loop, ring), at in getattr(way, what).items())
        yield f"  {what}: {listed(found)}"


WALKED = [n for n in MADE if n not in SCHEDULES or "dynamic" in n or "pingpong" in n]


@pytest.mark.parametrize("name", WALKED)
def test_walked(name: str, golden: Golden) -> None:
    """What warps do with steps, as each is walked; what teams they are, and what words end."""
    kernel = MADE[name]()
    warps = agents(kernel)
    rings, _ = rings_of(kernel, warps)
    facts = Facts(
        natural=frozenset(p.name for p in kernel.params),
        defined={s.var.name: s.value for s in kernel.body if isinstance(s, Let)},
    )
    ways = _Ways(warps, rings, facts)
    assert all(o.verdict is Verdict.PROVED for o in ways.walk())
    lines: list[str] = []
    for ring in rings:
        dealt = same_steps(kernel, rings, ring, ways.walked, ways.places, facts)
        teams = (f"{a} {team}" for a, team in dealt.teams.items())
        lines.append(f"{ring.name}: teams {listed(teams)} {dealt.why}")
        for array in (ring.full, ring.empty):
            shapes: dict[str, list[str]] = {}
            for agent in warps:
                found = text(ways.views.shape(agent, partial(_wait, array)))
                shapes.setdefault(found, []).append(str(agent))
            lines += [f"  waits at {array} of {', '.join(a)}: {t}" for t, a in shapes.items()]
    told: dict[str, list[str]] = {}
    for agent, way in ways.walked.items():
        told.setdefault("\n".join(steps_of_a_walk(way)), []).append(str(agent))
    lines += [f"{', '.join(names)}\n{found}" for found, names in told.items()]
    assert "\n".join(lines) == golden
