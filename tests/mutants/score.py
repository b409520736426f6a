"""What came of many mutants: lines of JSON, and tables of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.judge import Fate
from tests.mutants.subjects import family

__all__ = ["Line", "cost", "open_ones", "report", "score", "write"]

BEGIN, END = "<!-- mutants -->", "<!-- end of mutants -->"
"""Around what the tool writes into a note."""

_VERDICTS = (*(f.name.lower() for f in Fate if f is not Fate.NEITHER), "harmless", "open")


@dataclass(frozen=True, slots=True)
class Line:
    """A mutant that was judged: the number of it among those of its kernel, and what came of it.

    Args:
        name: of the kernel.
        number: of the mutant.
        kind: class of the edit.
        what: the edit.
        fate: what became of it, a name of ``Fate``, or ``ERROR`` where a judge failed.
        why: who says so; of one that nobody catches, why it is harmless, if that is known.
        seconds: that it took, of one core.
        method: of one that nobody catches, what else says that it is harmless.
    """

    name: str
    number: int
    kind: str
    what: str
    fate: str
    why: str
    seconds: float
    method: str = ""

    @property
    def verdict(self) -> str:
        """One of :data:`_VERDICTS`."""
        if self.fate == Fate.NEITHER.name:
            return "harmless" if self.why and self.method else "open"
        return "open" if self.fate == "ERROR" else self.fate.lower()


def score(lines: Sequence[Line], of: Callable[[Line], str], what: str) -> list[list[str]]:
    """A table: what became of those of each class, or family, and of all; the head first."""
    table = Counter((of(line), line.verdict) for line in lines)
    found = sorted({of(line) for line in lines})
    rows = [[k, *(str(table[k, v]) for v in _VERDICTS)] for k in found]
    total = ["all", *(str(sum(table[k, v] for k in found)) for v in _VERDICTS)]
    return [[what, *_VERDICTS], *rows, total]


def open_ones(lines: Sequence[Line]) -> list[Line]:
    """Those that can misbehave unnoticed."""
    return [line for line in lines if line.verdict == "open"]


def cost(lines: Sequence[Line]) -> str:
    """Processor time that judging took, of each verdict, and the dearest mutant."""
    spent: dict[str, float] = defaultdict(float)
    for line in lines:
        spent[line.verdict] += line.seconds
    counts = Counter(line.verdict for line in lines)
    each = (f"{v} {spent[v] / n:.2f}" for v, n in sorted(counts.items()))
    most = max(lines, key=lambda line: line.seconds)
    return (
        f"{sum(spent.values()):.0f} s of processor time, a mutant: {', '.join(each)}; "
        f"most {most.seconds:.1f} ({most.name} {most.number})"
    )


def _markdown(table: list[list[str]]) -> str:
    head, *rows = table
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def report(lines: Sequence[Line]) -> str:
    """The score by class and by family, and what is harmless by argument and second method."""
    harmless = Counter((x.kind, x.why, x.method) for x in lines if x.verdict == "harmless")
    reasons = [["harmless", "why", "second method", "count"]]
    reasons += [[kind, why, how, str(n)] for (kind, why, how), n in sorted(harmless.items())]
    tables = (
        score(lines, lambda line: line.kind, "class"),
        score(lines, lambda line: family(line.name), "family"),
        reasons,
    )
    kernels = len({line.name for line in lines})
    told = f"{len(lines)} mutants of {kernels} kernels, {len(open_ones(lines))} open:"
    return "\n\n".join([told, *map(_markdown, tables)])


def write(note: Path, text: str) -> None:
    """Put a report into a note, between its marks."""
    before, rest = note.read_text().split(BEGIN)
    _, after = rest.split(END)
    note.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
