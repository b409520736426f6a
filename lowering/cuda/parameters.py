"""A parameter of a kernel in C++: how its function declares it, and one that is handed it."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["Parameter"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel.

    Args:
        type: in C++.
        name: an identifier.
        constant: whether it is read where the launch has put it, as a tensor map is.
    """

    type: str
    name: str
    constant: bool = False

    def __str__(self) -> str:
        """As the kernel's function declares it."""
        where = "const __grid_constant__ " if self.constant else ""
        return f"{where}{self.type} {self.name}"

    @property
    def handed(self) -> str:
        """As a function declares it that the kernel's hands it to, which leaves it where it is."""
        return f"const {self.type}& {self.name}" if self.constant else str(self)

    def of_row(self, row: int) -> Parameter:
        """That of a kernel of a stack, beside those of others."""
        return replace(self, name=f"{self.name}_{row}")
