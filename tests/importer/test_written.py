"""Outputs that a text writes into inputs."""

from __future__ import annotations

import pytest

from tests.importer.test_spellings import X, body
from wsched.importer import Written, record_text
from wsched.importer.definition import definition_text


@pytest.mark.parametrize("call", ["T1, T0", "T1, alias_input=T0", "output=T1, alias_input=T0"])
def test_an_output_that_is_written_into_an_input(call: str) -> None:
    definition = body(f"T0 = {X}", "T1 = fd.ops.relu(T0)", f"fd.add_output({call})")
    assert definition.outputs == ("T1",) and definition.returned == () and not definition.marks
    assert definition.written == (Written("T1", "T0", returned=False, line=4),)
    definition.check_complete()


@pytest.mark.parametrize(
    ("calls", "outputs", "returned"),
    [
        (("T1, T0", "T2", "T1"), ("T2", "T1"), ("T2", "T1")),
        (("T1", "T2", "T1, T0"), ("T1", "T2"), ("T1", "T2")),
        (("T1, T0", "T2"), ("T1", "T2"), ("T2",)),
    ],
)
def test_what_is_written_into_an_input_may_be_given_too(
    calls: tuple[str, ...], outputs: tuple[str, ...], returned: tuple[str, ...]
) -> None:
    """As nvFuser has them: one that is given later stands where it is given."""
    made = (f"T0 = {X}", "T1 = fd.ops.relu(T0)", "T2 = fd.ops.neg(T0)")
    definition = body(*made, *(f"fd.add_output({call})" for call in calls))
    assert (definition.outputs, definition.returned) == (outputs, returned)
    assert definition.into == {"T1": "T0"}
    assert record_text(definition_text(definition)).returned == returned
