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
    "data": "waits until a slice has come, while that before may be multiplied",
    "room": "waits until a stage is free",
    "multiply": "products run, and it waits for nothing else",
    "convert": "rounds the result and puts it where it is stored from",
    "stored": "waits until a store has read its buffer",
    "reckon": "reckons which tile and slice come next, and where they lie",
    "others": "waits for other warps or CTAs",
}
"""Names of what a warp does, with what they mean."""

_KINDS: tuple[tuple[str, tuple[type[nodes.Stmt], ...]], ...] = (
    ("copy", (nodes.CopyTile, nodes.CpAsync, nodes.CpAsyncArrive, nodes.TmaLoad,
              nodes.MBarrierExpectTx)),
    ("multiply", (nodes.Wgmma, nodes.WgmmaFence, nodes.WgmmaCommit, nodes.WgmmaWait,
                  nodes.Tcgen05Mma, nodes.Tcgen05Commit)),
    ("convert", (nodes.FragCast, nodes.StMatrix, nodes.StShared, nodes.FragStoreGlobal,
                 nodes.FenceProxyAsync, nodes.TmaStore, nodes.BulkCommit,
                 nodes.Tcgen05Load, nodes.Tcgen05WaitLoad)),
    ("stored", (nodes.BulkWait,)),
    ("reckon", (nodes.Let,)),
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
        name: its role and group: ``compute[0]``; of a warp that does what no earlier one of them
            does its number too, ``load[0] warp 1``.
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
    """Lanes of each warpgroup of the first CTA: of its first warp that does anything there, and of
    those that do nothing of what one before them does.
    """
    warps: dict[tuple[str, int, int], list[Stretch]] = {}
    for s in sorted(stretches, key=lambda s: (s.cta, s.warp, s.begin)):
        if s.cta == 0 and s.role:
            warps.setdefault((s.role, s.group, s.warp), []).append(s)
    found: dict[str, list[Stretch]] = {}
    done: dict[str, set[int]] = {}
    for (role, group, warp), mine in sorted(warps.items()):
        name, doing = f"{role}[{group}]", {id(s.stmt) for s in mine}
        if doing & done.setdefault(name, set()):
            continue
        found[f"{name} warp {warp % 4}" if name in found else name] = mine
        done[name] |= doing
    return tuple(Lane(name, _joined(mine)) for name, mine in found.items())


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
    """The word for a stretch; sums that are not there are products that run."""
    if isinstance(s.stmt, nodes.MBarrierWait | nodes.MBarrierArrive):
        if not s.stmt.bar.array.endswith("_full"):
            return "room"
        return "multiply" if s.stmt.bar.array.startswith("acc") else "data"
    return next((name for name, kinds in _KINDS if isinstance(s.stmt, kinds)), "others")
