"""Steps of a tile that the warpgroups which share it deal out among them.

What the epilogue reads may come in steps of a warpgroup's own rows or columns: each takes its own,
one warpgroup after the other. They get on with a tile apart then, and may wait for each other where
they take steps of another ring together: one is ahead with steps that the other one has to release,
and waits itself for a step that is filled when the other one has got on. It cannot be where all
rings say in the same order whose steps come first. So the steps of a tile are dealt out alike in
all rings that are read behind its sum, or there is one for all, as long as the tile; and what is
summed is read by all together, before.
"""

from __future__ import annotations

from collections.abc import Sequence

from wsched.schedule.proof.graph import Group
from wsched.schedule.proof.relation import LoadRelation, StepLoop
from wsched.schedule.proof.sides import Sides

__all__ = ["check_tile_steps", "dealt_steps"]


def dealt_steps(digits: Sequence[StepLoop], outside: int) -> int:
    """How many loops deal out the steps of a tile; ``outside`` digits choose it."""
    return sum(s.role for s in digits[outside:])


def check_tile_steps(edges: Sequence[tuple[Sides, LoadRelation]]) -> None:
    """The rings that a part reads let its warpgroups get on with a tile apart.

    Args:
        edges: into the part, one for each ring.

    Raises:
        ScheduleError: ``role``.
    """
    found = [e for e in edges if dealt_steps(e[1].digits, e[1].outside)]
    for sides, relation in found:
        _check_behind_sums(sides, relation)
        for other, its in edges:
            within = its.digits[its.outside :]
            if within and not other.compute.sums and _dealt(other, its) != _dealt(sides, relation):
                raise sides.refuse(
                    "role",
                    f"{_loops(relation)} of {sides.compute.name} deals out the steps of a tile, "
                    f"which its warpgroups share, and those of {_names(other)} otherwise: one that "
                    "is ahead in the one ring would wait for the other in the other one",
                    (f"load all of a tile in one step of {_names(other)}",),
                )


def _check_behind_sums(sides: Sides, relation: LoadRelation) -> None:
    """What is summed is read by all warpgroups of a tile, step by step."""
    sums = [name for part in sides.parts for name in part.tensors if sides.fusion.tensor(name).sums]
    if sides.compute.name in sides.fusion.made_from(sums):
        raise sides.refuse(
            "role",
            f"{_loops(relation)} of {sides.compute.name} deals out the steps of a tile, which its "
            "warpgroups share, and sum up together: all of them take every step",
            (f"load in a step what all iterations of {_loops(relation)} read",),
        )


def _dealt(sides: Sides, relation: LoadRelation) -> tuple[Group, ...]:
    return tuple(sides.graph.group(s.domain) for s in relation.digits[relation.outside :] if s.role)


def _loops(relation: LoadRelation) -> str:
    roles = (s.domain for s in relation.digits[relation.outside :] if s.role)
    return " and ".join(f"loop {d.label} [{d.parallel}]" for d in roles)


def _names(sides: Sides) -> str:
    return ", ".join(t.name for t in sides.ring)
