"""How a kernel looks at an input that is a view of another tensor."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.expr import Expr

__all__ = ["Look", "Move"]


@dataclass(frozen=True, slots=True)
class Move:
    """A step of a view.

    Args:
        op: ``permute``, ``select``, ``slice`` or ``reshape``.
        places: the order of dimensions of a permutation, the dimension and the place along it of a
            selection, the first elements of a slice.
        extents: of the result.
    """

    op: str
    places: tuple[int, ...]
    extents: tuple[Expr, ...]

    @property
    def is_still(self) -> bool:
        """Whether it moves nothing: it gives a tensor a second name."""
        return self.op == "permute" and self.places == tuple(range(len(self.places)))

    def __str__(self) -> str:
        said = self.extents if self.op == "reshape" else self.places
        word = {"select": "at", "slice": "from"}.get(self.op, "to")
        return f"{self.op} {word} [{', '.join(map(str, said))}]"


@dataclass(frozen=True, slots=True)
class Look:
    """An input of a kernel that is a view.

    Args:
        name: what the kernel calls it.
        source: what it is a view of.
        moves: how, one after the other.
    """

    name: str
    source: str
    moves: tuple[Move, ...]

    def __str__(self) -> str:
        steps = ", ".join(str(m) for m in self.moves if not m.is_still)
        return f"{self.name} is {self.source} {f'by {steps}' if steps else 'once more'}"
