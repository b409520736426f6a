"""The faults that are seeded for the machine, by the proof alone: nothing runs."""

from __future__ import annotations

import pytest

from lowering.kernel.text import parse_kernel
from lowering.proof.prove import prove
from tests.lowering.machine.kernels import matmul_text
from tests.lowering.machine.test_faults import NAMED, SILENT

EDITS = {**SILENT, **{name: edit for name, (edit, _) in NAMED.items()}}

VALUES = frozenset({
    "row of an operand", "column of an operand", "consumed accumulator", "division by zero",
})  # fmt: skip
"""Faults of values, which no claim is about: a wrong number on the machine, or ``verify``'s."""


@pytest.mark.parametrize("name", EDITS)
def test_a_fault(name: str) -> None:
    """Each is rejected, except those of values."""
    text = matmul_text()
    assert EDITS[name][0] in text
    found = prove(parse_kernel(text.replace(*EDITS[name])))
    assert found.proved == (name in VALUES), str(found)
