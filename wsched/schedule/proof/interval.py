"""Stream-K: a CTA's interval of the merged loop over tiles and k.

The load side deals its one loop out to CTAs in equal shares, so a CTA may begin and end within a
tile. The compute side keeps a loop over tiles and one over k, whose index together counts the same
steps in the same order (the mixed radix of ``legality``). An interval of one order is an interval
of the other, so both sides run the CTA's interval, from bounds that they share.
"""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.expr import ZERO, Const, Expr, Special, ceildiv, maximum, minimum, select
from wsched.fusion import IterDomain, Merge, Split
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.proof.counting import Counting

__all__ = ["DealtLoop", "Interval", "find_dealt_loop"]


@dataclass(frozen=True, slots=True)
class DealtLoop:
    """A loop that is dealt out to CTAs in shares of neighbouring steps.

    Args:
        merged: the loop, ``tile·k``.
        shares: into how many shares.
        size: CTAs that have a share together, ``ctaid.x = share * size + place``.
    """

    merged: Group
    shares: Expr
    size: int


@dataclass(frozen=True, slots=True)
class Interval:
    """Bounds of a CTA's (with clusters: of a cluster's) share, in steps of the merged loop.

    CTAs take the shares from the last to the first. Who completes a tile has its first step and
    waits for those with the later ones, which are CTAs of smaller numbers: they have started before
    it, so it never waits for a CTA that waits for its place on an SM.

    Args:
        dealt: the loop that is dealt out.
        tiles: the output tiles, as its outer part counts them.
        k: the load steps of a tile, as its inner part counts them.
    """

    dealt: DealtLoop
    tiles: Counting
    k: Counting

    @property
    def label(self) -> str:
        """What the loop is called that is dealt out."""
        return self.dealt.merged.label

    @property
    def size(self) -> int:
        """CTAs of a cluster."""
        return self.dealt.size

    @property
    def inner(self) -> Expr:
        """Load steps of a tile."""
        return self.k.steps

    @property
    def index(self) -> Expr:
        """Which share is this CTA's."""
        return self.place // self.size

    @property
    def place(self) -> Expr:
        """This CTA's number counted from the last one, which is in the first share."""
        return Special("nctaid.x") - 1 - Special("ctaid.x")

    @property
    def per_tile(self) -> Expr:
        """Steps of a tile, but one where K is empty: its tiles have an owner all the same."""
        return maximum(self.inner, 1)

    @property
    def extent(self) -> Expr:
        """Steps of all tiles."""
        return self.tiles.steps * self.per_tile

    @property
    def places(self) -> Expr:
        """The same with the steps that do not exist."""
        return self._counting.places

    @property
    def share(self) -> Expr:
        """Steps of a share, as the loads count them: some of them may not exist."""
        return ceildiv(self.places, self.dealt.shares)

    @property
    def start(self) -> Expr:
        """First step."""
        return self._counting.before(self.index * self.share)

    @property
    def stop(self) -> Expr:
        """The step behind the last."""
        if self._counting.levels is None:
            return minimum(self.start + self.share, self.extent)
        return self._counting.before((self.index + 1) * self.share)

    @property
    def load_stop(self) -> Expr:
        """Likewise, for loads: where K is empty there is nothing to load."""
        return select(self.inner > ZERO, self.stop, self.start)

    @property
    def first(self) -> Expr:
        """The tile that the first step belongs to."""
        return self.start // self.per_tile

    @property
    def count(self) -> Expr:
        """How many tiles the share touches."""
        return ceildiv(self.stop, self.per_tile) - self.first

    def share_of(self, step: Expr) -> Expr:
        """The share that has a step of all tiles."""
        return self._counting.place(step) // self.share

    @property
    def _counting(self) -> Counting:
        """Steps of all tiles, at least one of each."""
        return self.tiles.around(self.k.some())


def find_dealt_loop(
    graph: TransformGraph, loop: IterDomain, cta: IterDomain | None
) -> DealtLoop | None:
    """What a load loop is a share of: the inner part of a split whose outer part runs on CTAs and
    whose input is a merge. What rounds the share up makes steps that do not exist, at its end.

    Args:
        graph: the transform graph.
        loop: the load loop.
        cta: the loop of the same tensor that runs on BIDx.
    """
    share = _before_rounding(graph, graph.group(loop))
    step = graph.producer(share)
    if step is None or cta is None or not isinstance(step.transform, Split):
        return None
    outer, inner = step.outputs
    merge = graph.producer(step.inputs[0])
    if inner != share or merge is None:
        return None
    if not isinstance(merge.transform, Merge) or merge.transform.traversal:
        return None
    size = _ctas_behind(graph, outer, graph.group(cta))
    return None if size is None else DealtLoop(step.inputs[0], outer.extent, size)


def _before_rounding(graph: TransformGraph, g: Group) -> Group:
    """The group that ``g`` is with what splits added that were merged again."""
    while (whole := graph.padded(g)) is not None:
        g = whole
    return g


def _ctas_behind(graph: TransformGraph, outer: Group, cta: Group) -> int | None:
    """Constant factor between the index ``outer`` and that of the CTA; None if there is none."""
    size = 1
    while cta != outer:
        step = graph.producer(cta)
        if step is None or not isinstance(step.transform, Merge):
            return None
        cta, inner = step.inputs
        if not isinstance(inner.extent, Const):
            return None
        size *= inner.extent.value
    return size
