"""Reductions of schedules by hand: what is cut along what no warpgroup reduces over is refused, as
there would be places for which there is no row, and whatever is computed of those would count.
"""

from __future__ import annotations

import re

import pytest

import wsched
from lowering.ground.errors import UnsupportedError
from tests.reductions import Reduced, definition, expected
from tests.run.test_reductions import check, inputs
from wsched.schedule.matmul.params import MatmulParams


def _refused(text: str, *batch: int) -> str:
    with pytest.raises(UnsupportedError) as error:
        wsched.compile(wsched.Schedule.parse(text), inputs(137, 72, 24, batch))
    return str(error.value).partition(". The nest is")[0]


def _text(*dims: int, batched: bool = False) -> str:
    """The built-in schedule of a sum over these dimensions, which cuts the columns."""
    reduced = definition([Reduced("sum", dims)], result=False, batched=batched)
    return str(wsched.Schedule.of(reduced, MatmulParams()))


def test_rows_of_a_sum_over_columns() -> None:
    text, rows = _text(1), ", 0, 128, labels=('Mo', 'Mi'))\n"
    for tv in ("T13", "T9"):
        text = text.replace(f"    s.split('{tv}'{rows}", "")
    rfactor = "    s.rfactor('T13', "
    text = text.replace(f"{rfactor}2)", f"    s.split('T13'{rows}{rfactor}'Ni')")
    assert _refused(text) == (
        "T13 = reduction(T8, op = sum), which is cut along M and reduced over N is not supported; "
        "supported: all of M as a dimension"
    )


def test_matrices_of_a_sum_over_columns() -> None:
    """Two by two of them."""
    text = _text(0, 2, batched=True)
    for tv in ("T10", "T11", "T6", "T12", "T7", "T8", "T13", "T9"):
        two, merge = f"s.split('{tv}', 0, 2, labels=('Bo', 'Bi'))", f"s.merge('{tv}', 0, 1)"
        split = f"s.split('{tv}'"
        if tv == "T13":
            text = text.replace(f"{split}, 2, 256", f"{two}\n    {split}, 'N', 256", 1)
            text = text.replace("s.rfactor('T13', 3)", "s.rfactor('T13', 'Ni')")
        tiles, calls = (
            (f"{split}, 1, 128", [merge]) if tv in ("T13", "T9") else (split, [two, merge])
        )
        text = text.replace(tiles, "\n    ".join((*calls, tiles)), 1)
    assert _refused(text, 3) == (
        "T13 = reduction(T8, op = sum), which is cut along B and reduced over N is not supported; "
        "supported: all of B as a dimension"
    )


def test_rows_that_are_no_fragment_are_stored_at_once() -> None:
    """The loop over them is one over parts of what a statement of a fragment does."""
    text, copied = _text(1), "    s.split('T9', 3, 64, labels=('m64', 'M'))\n"
    assert copied in text
    s = wsched.Schedule.parse(text.replace(copied, copied.replace("64,", "8,", 1)))
    given = inputs(137, 72, 24)
    check(wsched.execute(s, given), expected([Reduced("sum", (1,))], *given)[1:])


def test_row_by_row() -> None:
    """A loop over the rows of a fragment, which has no parts of them."""
    text, rows = _text(0), r"s.parallelize\('(T\d+)', 5, ParallelType.Mma\)\n    s.parallelize"
    changed = re.sub(rows + r"\('\1', 6", r"s.parallelize('\1', 6", text)
    assert changed.count("ParallelType.Mma") < text.count("ParallelType.Mma")
    assert _refused(changed) == (
        "T13 = reduction(T8, op = sum) over a tile of 1 x 32 is not supported; supported: tiles of "
        "a multiple of 64 rows and of 8 columns"
    )
