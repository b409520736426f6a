"""The rounds of a lane exchange, against the layouts that they lead from and to."""

from __future__ import annotations

import pytest

from lowering.ground.exchange import rounds
from lowering.ground.layouts import RegisterLayout


@pytest.mark.parametrize("span", [1, 2])
@pytest.mark.parametrize("widen", [True, False])
def test_every_piece_arrives(span: int, widen: bool) -> None:
    """Two rounds of a row's four lanes carry each column from its owner to its new owner."""
    narrow, wide = RegisterLayout(span), RegisterLayout(2 * span)

    def piece_of(layout: RegisterLayout, col: int) -> tuple[int, int]:
        _, lane, (_, group, _, inner) = layout.owner(0, col)
        return lane, group if layout == narrow else inner // span

    before, after = (narrow, wide) if widen else (wide, narrow)
    held = {piece_of(before, col): col // span for col in range(8 * span)}
    found = {}
    for step in rounds(widen):
        assert sorted(step.source) == [0, 1, 2, 3], "each lane is asked once"
        for lane in range(4):
            source = step.source[lane]
            found[lane, step.place[lane]] = held[source, step.sends[source]]
    assert found == {piece_of(after, col): col // span for col in range(8 * span)}
