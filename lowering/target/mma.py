"""A matrix instruction as a table: which element types it takes together, and which shapes."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.dtypes import DType
from lowering.ground.layouts import ACCUMULATOR, RegisterLayout

__all__ = ["MmaFamily", "MmaForm"]


@dataclass(frozen=True, slots=True)
class MmaForm:
    """Element types that a matrix instruction takes together.

    Args:
        operands: of A and of B, each any of them.
        accumulators: what their products may be summed in.
        n: columns that one instruction may have ...
        columns: ... and in words.
        scales: the instruction has immediates that negate A and B.
        transposes: A and B in shared memory may be MN-major, as immediates say.
        promotion: K after which sums should go to a second accumulator, because the instruction
            adds with fewer bits than the accumulator has; 0 where it does not.
        aligned: bits behind the leading one of the largest term, product or accumulator, that an
            instruction keeps of each before it adds them; None where it keeps all of them.
        kind: what PTX calls the types together, where it does.
    """

    operands: tuple[DType, ...]
    accumulators: tuple[DType, ...]
    n: frozenset[int]
    columns: str
    scales: bool = True
    transposes: bool = False
    promotion: int = 0
    aligned: int | None = None
    kind: str = ""

    @property
    def types(self) -> str:
        """The types in words."""
        a, acc = (" or ".join(d.value for d in ds) for ds in (self.operands, self.accumulators))
        return f"{a} by {a} into {acc}"


@dataclass(frozen=True, slots=True)
class MmaFamily:
    """A matrix instruction: ``m`` rows, columns as its forms say, ``k_bytes`` of K at a time.

    Args:
        name: in PTX.
        m: rows of one instruction, of each CTA that has a part of it.
        k_bytes: bytes of each row of A and of B that one instruction reads.
        forms: no type of an operand is in two of them.
        layout: of accumulators, as registers have them.
        version: of the descriptors of its operands in shared memory.
        macro: nvFuser's name of its architecture (``MmaMacro``).
        ctas: of a cluster that have a part of one instruction, which one of them issues: its rows
            of A, its part of the columns of B, and sums of its rows and all columns.
    """

    name: str
    m: int
    k_bytes: int
    forms: tuple[MmaForm, ...]
    layout: RegisterLayout = ACCUMULATOR
    version: int = 0
    macro: str = "Hopper"
    ctas: int = 1

    def k(self, dtype: DType) -> int:
        """K of one instruction with operands of a type."""
        return self.k_bytes // dtype.bytes

    @property
    def types(self) -> tuple[str, ...]:
        """What it takes, in words."""
        return tuple(f.types for f in self.forms)

    def form(self, a: DType, b: DType, acc: DType) -> MmaForm | None:
        """The form with these operands, summed in ``acc``; None if there is none."""
        legal = (f for f in self.forms if acc in f.accumulators)
        return next((f for f in legal if a in f.operands and b in f.operands), None)

    def accumulator(self, a: DType, b: DType) -> DType | None:
        """What products of these are summed in unless something else is asked for; None if no
        instruction multiplies them.
        """
        found = self.multiplying(a, b)
        return None if found is None else found.accumulators[0]

    def multiplying(self, a: DType, b: DType) -> MmaForm | None:
        """The form with these operands; None if no instruction multiplies them."""
        return next((f for f in self.forms if a in f.operands and b in f.operands), None)

    def transposes(self, dtype: DType) -> bool:
        """Whether an operand of a type may be MN-major in shared memory."""
        return any(f.transposes for f in self.forms if dtype in f.operands)

    def problem(self, a: DType, b: DType, acc: DType, cols: int) -> str | None:
        """Why no instruction multiplies these and has so many columns; None if one does."""
        form, types = self.form(a, b, acc), f"{a.value} by {b.value}"
        if form is None:
            return f"no {self.name} multiplies {types} into {acc.value}"
        if cols not in form.n:
            return f"N of a {self.name} of {types} is {form.columns}, not {cols}"
        return None
