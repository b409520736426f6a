"""What warps do and wait for, in a few words, of the stretches that the machine's clock notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lowering.kernel import nodes
from lowering.machine.clock import Stretch

__all__ = ["ACTIVITIES", "Lane", "Part", "lanes"]

ACTIVITIES = {
    "copy": "starts copies, or copies itself",
    "data": "waits until a slice has come",
    "room": "waits until a stage is free",
    "multiply": "products run, and it waits for them",
    "convert": "rounds the result and puts it where it is stored from",
    "stored": "waits until a store has read its buffer",
    "others": "waits for other warps or CTAs",
}
"""Names of what a warp does, with what they mean."""

_KINDS: tuple[tuple[str, tuple[type[nodes.Stmt], ...]], ...] = (
    ("copy", (nodes.CopyTile, nodes.CpAsync, nodes.CpAsyncArrive, nodes.TmaLoad,
              nodes.MBarrierExpectTx)),
    ("multiply", (nodes.Wgmma, nodes.WgmmaFence, nodes.WgmmaCommit, nodes.WgmmaWait)),
    ("convert", (nodes.FragCast, nodes.StMatrix, nodes.StShared, nodes.FragStoreGlobal,
                 nodes.FenceProxyAsync, nodes.TmaStore, nodes.BulkCommit)),
    ("stored", (nodes.BulkWait,)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """A warp's time in cycles, spent on one thing."""

    activity: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Lane:
    """What a warp did from beginning to end.

    Args:
        name: its role and group: ``compute[0]``.
        parts: in order of time, neighbours of one activity joined.
    """

    name: str
    parts: tuple[Part, ...]

    def shares(self, cycles: float) -> dict[str, float]:
        """By activity, its part of so many cycles."""
        spent: Counter[str] = Counter()
        for p in self.parts:
            spent[p.activity] += p.end - p.begin  # type: ignore[assignment]
        return {name: spent[name] / cycles for name in ACTIVITIES if spent[name]}


def lanes(stretches: Iterable[Stretch]) -> tuple[Lane, ...]:
    """A lane for each warpgroup of the first CTA: its first warp that does anything there."""
    rows: dict[tuple[str, int], list[Stretch]] = {}
    for s in sorted(stretches, key=lambda s: (s.cta, s.warp, s.begin)):
        if s.cta == 0 and s.role:
            row = rows.setdefault((s.role, s.group), [])
            if not row or row[0].warp == s.warp:
                row.append(s)
    return tuple(Lane(f"{role}[{g}]", _joined(found)) for (role, g), found in sorted(rows.items()))


def _joined(stretches: Sequence[Stretch]) -> tuple[Part, ...]:
    found: list[Part] = []
    for s in stretches:
        activity = _activity(s)
        if found and found[-1].activity == activity and s.begin <= found[-1].end:
            found[-1] = Part(activity, found[-1].begin, s.end)
        else:
            found.append(Part(activity, s.begin, s.end))
    return tuple(found)


def _activity(s: Stretch) -> str:
    """The word for a stretch."""
    if isinstance(s.stmt, nodes.MBarrierWait | nodes.MBarrierArrive):
        return "data" if s.stmt.bar.array.endswith("_full") else "room"
    return next((name for name, kinds in _KINDS if isinstance(s.stmt, kinds)), "others")
