"""The load loop as a number whose digits are loops of the compute side.

Both sides reach their loops from the same groups by splits and merges, and each of these keeps the
order of what it counts: a row-major merge puts the digits of its inner part behind those of its
outer part, a split does the same to its input. So the load loop is taken back to groups that the
compute side knows (:func:`load_digits`), as far as its parts stand beside each other in order, and
from there along the compute side's own transforms down to its loops (:func:`compute_digits`). What
is found counts every load step once and in order, by construction; no coefficients are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lowering.ground.expr import ONE, Const
from lowering.ground.poly import Poly, poly
from wsched.fusion import Merge, Split, TensorView
from wsched.schedule.graph import Group, TransformGraph, divides
from wsched.schedule.proof.splits import inner_part

__all__ = ["STEP", "Digit", "Digits", "compute_digits", "load_digits"]

STEP: None = None
"""What every digit counts in the end: load steps."""

_ONE = poly(ONE)


@dataclass(frozen=True, slots=True)
class Digit:
    """A digit of the load index.

    Args:
        group: the loops that it is.
        weights: by how much an index rises from one of its iterations to the next: the load step
            (``STEP``), and that of each group that it was made from. A group that is missing has
            no index that is linear in the digits.
    """

    group: Group
    weights: Mapping[Group | None, Poly]

    @property
    def weight(self) -> Poly:
        """Load steps from one of its iterations to the next."""
        return self.weights[STEP]


@dataclass(frozen=True, slots=True)
class Digits:
    """The load index in the compute side's groups.

    Args:
        digits: slowest first.
        tails: groups among and above them that were split with a tail: the compute side has to
            keep their indices in range itself.
        lost: groups above them whose index is not linear in theirs.
    """

    digits: tuple[Digit, ...]
    tails: tuple[Group, ...]
    lost: frozenset[Group]


def load_digits(
    graph: TransformGraph, loops: Sequence[Group], known: frozenset[Group]
) -> tuple[tuple[Group, ...], tuple[Group, ...]]:
    """The groups that load loops count, slowest first, and those that they cut short.

    Args:
        graph: the transform graph.
        loops: the load loops, outermost first.
        known: groups of the compute side; a merge that it knows is not taken apart.

    Returns:
        The groups, and the inputs of splits with a tail that were put together again: the load
        loops pass over what is behind their ends.
    """
    found, cut = list(loops), list[Group]()
    at = 0
    while at < len(found):
        step = graph.producer(found[at])
        if step is None:
            at += 1
        elif isinstance(step.transform, Merge):
            if step.transform.traversal or found[at] in known:
                at += 1
            else:
                found[at : at + 1] = step.inputs
                at = max(at - 1, 0)
        elif (inner := inner_part(graph, found, at)) is not None:
            found[at : inner + 1] = [*found[at + 1 : inner], *step.inputs]
            if not divides(step.transform):
                cut.append(step.inputs[0])
            at = max(at - 1, 0)
        else:
            at += 1
    return tuple(found), tuple(cut)


def compute_digits(
    graph: TransformGraph, counted: Sequence[tuple[Group, Poly]], compute: TensorView
) -> Digits:
    """The same number in digits as far down as the compute side's transforms lead.

    Args:
        graph: the transform graph.
        counted: groups with the load steps between two of their indices, slowest first.
        compute: the tensor that consumes the steps.
    """
    digits = [Digit(g, {STEP: weight, g: _ONE}) for g, weight in counted]
    tails: list[Group] = []
    lost: set[Group | None] = set()
    for t in compute.transforms:
        inputs = tuple(map(graph.group, t.inputs))
        at = next((p for p, d in enumerate(digits) if d.group == inputs[0]), None)
        if at is None:
            continue
        if isinstance(t, Split):
            if not t.dynamic:
                digits[at : at + 1] = _split(graph, digits[at], t)
                if not divides(t):
                    tails.append(inputs[0])
        elif tuple(d.group for d in digits[at : at + 2]) == inputs and not t.traversal:
            outer, inner = digits[at : at + 2]
            merged = _merge(graph, outer, inner, t)
            if merged is not None:
                digits[at : at + 2] = [merged]
                lost |= {*outer.weights, *inner.weights} - {*merged.weights}
    digits = [x for d in digits for x in _apart(graph, d, [graph.group(x) for x in compute.loop])]
    return Digits(tuple(digits), tuple(tails), frozenset(g for g in lost if g is not STEP))


def _apart(graph: TransformGraph, digit: Digit, loops: Sequence[Group]) -> list[Digit]:
    """A digit as loops that are together the same digits of a number; itself if there are none."""
    found = () if digit.group in loops else graph.tiled(digit.group, loops)
    apart = [(g, {x: w * poly(Const(n)) for x, w in digit.weights.items()}) for g, n in found]
    return [Digit(g, {**weights, g: _ONE}) for g, weights in apart] or [digit]


def _split(graph: TransformGraph, digit: Digit, t: Split) -> tuple[Digit, Digit]:
    """The two parts of a digit; both also count in the digit itself."""
    size = poly(t.inner.extent)
    inner = {**digit.weights, graph.group(t.inner): _ONE}
    outer = {g: w * size for g, w in digit.weights.items()}
    return Digit(graph.group(t.outer), {**outer, graph.group(t.outer): _ONE}), Digit(
        graph.group(t.inner), inner
    )


def _merge(graph: TransformGraph, outer: Digit, inner: Digit, t: Merge) -> Digit | None:
    """Two digits as one; None if the outer one does not begin where the inner one ends."""
    size = poly(t.inner.extent)
    weights = {
        g: w
        for g, w in inner.weights.items()
        if g in outer.weights and outer.weights[g] == w * size
    }
    group = graph.group(t.output)
    return Digit(group, {**weights, group: _ONE}) if STEP in weights else None
