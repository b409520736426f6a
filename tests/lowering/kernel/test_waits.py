"""What the rows of a watched kernel say."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.kernel.text import parse_kernel, print_kernel
from lowering.kernel.verify import verify
from lowering.kernel.waits import Rows, row_of, rows_shape, sites, stuck

KERNEL = parse_kernel(
    """kernel k threads 384 cluster 1 grid 2 {
      param n: i32
      mbarrier full[4] arrivals 2
      watch stuck nanoseconds 1000000000
      counter ready[8]
      mbarrier.wait full[0], 0
      roles {
        role compute warps 0 .. 8 as wg {
          for k in 0 .. n {
            mbarrier.wait full[k], 1
          }
        }
        role load warps 8 .. 12 {
          counter.wait ready[n], 3
        }
      }
    }"""
)


def written(*rows: tuple[int, int, list[int]]) -> Rows:
    """Rows by CTA and warp."""
    found = np.zeros(rows_shape(KERNEL, 3, {"n": 1}), np.int64)
    for cta, warp, row in rows:
        found[cta, warp] = row
    return found


def test_a_watch_is_declared() -> None:
    assert verify(KERNEL) == []
    assert parse_kernel(print_kernel(KERNEL)) == KERNEL
    assert KERNEL.watch is not None
    assert KERNEL.watch.nanoseconds == 1_000_000_000
    assert rows_shape(KERNEL, 3, {"n": 1}) == (3, 12, 4)


def test_waits_are_numbered_as_they_stand() -> None:
    found = [(s.role and s.role.name, s.stmt.OP) for s in sites(KERNEL)]
    waits = [(None, "mbarrier.wait"), ("compute", "mbarrier.wait"), ("load", "counter.wait")]
    assert found == waits


AT = "(at: mbarrier.wait full[k], 1)"


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        ([], ()),
        ([(1, 3, row_of(0, 5, 0, 0, None))], ("CTA 1, warp 3: full[0] parity 0 (at: mbarrier.wait "
                                              "full[0], 0)",)),
        (
            [(0, w, row_of(1, 9, 2, 1, 1 if w == 6 else None)) for w in range(4, 8)],
            ("CTA 0, role compute, group 1, warps 4..7: full[2] parity 1 lacks 1 of 2 arrivals "
             f"{AT}",),
        ),
        (
            [(2, 4, row_of(1, 9, 2, 1, 0))],
            ("CTA 2, role compute, group 1, warp 4: full[2] parity 1 has its 2 arrivals and lacks "
             f"bytes of copies {AT}",),
        ),
        (
            [(c, 8, row_of(2, 9, 7, 3, 0)) for c in (0, 2)],
            ("CTAs 0, 2, role load, group 0, warp 8: ready[7] is 0, not yet 3 (at: counter.wait "
             "ready[n], 3)",),
        ),
    ],
    ids=["nothing", "outside of roles", "one knows what all lack", "bytes", "CTAs alike"],
)  # fmt: skip
def test_what_rows_say(rows: list[tuple[int, int, list[int]]], lines: tuple[str, ...]) -> None:
    assert stuck(KERNEL, written(*rows)) == lines


def test_the_first_that_failed_stands_first() -> None:
    late, early = row_of(1, 20, 0, 1, None), row_of(2, 10, 1, 3, 2)
    first, second = stuck(KERNEL, written((0, 0, late), (1, 8, early)))
    assert first.startswith("CTA 1, role load, group 0, warp 8: ready[1] is 2, not yet 3 ")
    assert second == f"CTA 0, role compute, group 0, warp 0: full[0] parity 1 {AT}"


def test_what_one_cta_lacks_says_nothing_of_another() -> None:
    known, other = row_of(1, 1, 0, 1, 2), row_of(1, 2, 0, 1, None)
    lines = stuck(KERNEL, written((0, 0, known), (1, 0, other)))
    assert ["lacks" in line for line in lines] == [True, False]
