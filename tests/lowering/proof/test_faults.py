"""The faults that are seeded for the machine, by the proof alone: nothing runs."""

from __future__ import annotations

import pytest

from lowering.kernel.text import parse_kernel
from lowering.proof.prove import prove
from tests.lowering.machine.kernels import matmul_text
from tests.lowering.machine.test_faults import NAMED, SILENT

EDITS = {**SILENT, **{name: edit for name, (edit, _) in NAMED.items()}}


@pytest.mark.sampled
@pytest.mark.parametrize("name", EDITS)
def test_a_fault(name: str) -> None:
    """Each is rejected."""
    text = matmul_text()
    assert EDITS[name][0] in text
    found = prove(parse_kernel(text.replace(*EDITS[name])))
    assert not found.proved, str(found)
