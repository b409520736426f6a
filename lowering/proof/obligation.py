"""What is claimed of a kernel, and what came of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

__all__ = ["Obligation", "Proof", "RefutedError", "UnknownError", "Verdict"]


class Verdict(Enum):
    """What came of a claim; the value is its word.

    ``REFUTED``: there is a path on which it does not hold, or on which nothing holds that it could
    follow from. ``UNPROVED``: it was not decided, or what it follows from is not there; a kernel
    with such a claim is not proved. ``ABSENT``: it is not made of this kernel, and nobody has
    looked; it is said, and not counted.
    """

    PROVED = "proved"
    REFUTED = "refuted"
    UNPROVED = "not proved"
    ABSENT = "not claimed"


@dataclass(frozen=True, slots=True)
class Obligation:
    """A claim about all launches of a kernel.

    Args:
        name: what kind of claim, a few words of the design note.
        subject: the ring, or the warps, that it is about.
        verdict: what came of it.
        why: where it is not proved, one line.
        trace: of a refuted one the steps of one agent that lead there, the last one wrong.
    """

    name: str
    subject: str
    verdict: Verdict = Verdict.PROVED
    why: str = ""
    trace: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        """Whether it is made and not proved."""
        return self.verdict in (Verdict.REFUTED, Verdict.UNPROVED)

    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ""
        lines = [f"{self.verdict.value:10} {self.name} ({self.subject}){why}"]
        return "\n".join([*lines, *(f"             {t}" for t in self.trace)])


@dataclass(frozen=True, slots=True)
class Proof:
    """All claims about one kernel, in the order of the design note."""

    kernel: str
    obligations: tuple[Obligation, ...]

    @property
    def proved(self) -> bool:
        """Whether every claim that is made is."""
        return not self.open

    @property
    def open(self) -> tuple[Obligation, ...]:
        """The claims that are not proved, refuted ones first."""
        found = [o for o in self.obligations if o.open]
        return tuple(sorted(found, key=lambda o: o.verdict is not Verdict.REFUTED))

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        found = [asdict(o) | {"verdict": o.verdict.value} for o in self.obligations]
        return {"kernel": self.kernel, "proved": self.proved, "obligations": found}

    @staticmethod
    def of_dict(plain: dict[str, Any]) -> Proof:
        """What :meth:`to_dict` made plain, also if JSON was between."""
        found = (
            Obligation(**o | {"verdict": Verdict(o["verdict"]), "trace": tuple(o["trace"])})
            for o in plain["obligations"]
        )
        return Proof(plain["kernel"], tuple(found))

    def __str__(self) -> str:
        count = sum(o.verdict is Verdict.PROVED for o in self.obligations)
        made = sum(o.verdict is not Verdict.ABSENT for o in self.obligations)
        head = f"{self.kernel}: {count} of {made} obligations proved"
        return "\n".join([head, *map(str, self.obligations)])


class RefutedError(Exception):
    """A claim does not hold on the path that is being walked."""

    def __init__(self, name: str, ring: str, why: str) -> None:
        super().__init__(f"{name} of {ring}: {why}")
        self.name, self.ring, self.why = name, ring, why
        self.trace: tuple[str, ...] = ()


class UnknownError(Exception):
    """A statement, or a form of one, of which nothing is known here: refused, never skipped."""
