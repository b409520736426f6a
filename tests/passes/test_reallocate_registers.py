from __future__ import annotations

import pytest

from lowering.ground.errors import InternalError, ScheduleError
from lowering.target.hopper import HOPPER
from passes.reallocate_registers import reallocate_registers
from tests.passes.texts import full, lowered, unchanged

PLAIN = """
roles {
  role compute warps 0 .. 8 as wg {
    fence.proxy.async
  }
  role load warps 8 .. 12 {
  }
}
"""
ENTRY = "{} and {} must lie on either side of the {} registers that {} threads start with"
LEGAL_384 = "num_registers=(24, 240); num_registers=(40, 232)"
LEGAL_512 = "num_registers=(32, 160); num_registers=(40, 152)"


def before(load: int, compute: int, warps: int = 8) -> str:
    return f"""
roles {{
  role compute warps 0 .. {warps} as wg registers {compute} {{
    fence.proxy.async
  }}
  role load warps {warps} .. {warps + 4} registers {load} {{
  }}
}}
"""


def test_the_load_role_gives_and_the_compute_role_takes() -> None:
    assert lowered(reallocate_registers, before(40, 232)) == full("""
roles {
  role compute warps 0 .. 8 as wg {
    setmaxnreg inc, 232
    fence.proxy.async
  }
  role load warps 8 .. 12 {
    setmaxnreg dec, 40
  }
}
""")


@pytest.mark.parametrize(("pair", "entry"), [((24, 216), 152), ((40, 200), 152), ((24, 208), 152)])
def test_what_the_roles_do_not_want_is_left(pair: tuple[int, int], entry: int) -> None:
    """To CTAs of another grid; counts of CTAs are multiples of 8 for each thread."""
    text = lowered(reallocate_registers, before(*pair), leaves_registers=True)
    assert text.startswith(f"kernel k threads 384 registers {entry} cluster 1 grid 1 {{")
    assert [line.strip() for line in text.splitlines() if "setmaxnreg" in line] == [
        f"setmaxnreg inc, {pair[1]}", f"setmaxnreg dec, {pair[0]}"
    ]  # fmt: skip
    assert unchanged(reallocate_registers, PLAIN, leaves_registers=True)


def test_the_entry_count_itself() -> None:
    """168 registers at 384 threads: neither side needs more than it has."""
    text = lowered(reallocate_registers, before(168, 168))
    assert text.count("setmaxnreg dec, 168") == 2


def test_without_a_pair_nothing_changes() -> None:
    assert unchanged(reallocate_registers, PLAIN)


def test_a_pair_that_is_none() -> None:
    with pytest.raises(InternalError) as error:
        lowered(reallocate_registers, PLAIN.replace("as wg", "as wg registers 232"))
    assert "registers of roles: {'load': None}" in str(error.value)


@pytest.mark.parametrize(
    ("threads", "pair", "why", "legal"),
    [
        (384, (40, 240), "128 x 40 + 256 x 240 = 66560 registers, the CTA has 384 x 168 = 64512",
         LEGAL_384),
        (384, (36, 232), "setmaxnreg takes multiples of 8 from 24 to 240, not 36", LEGAL_384),
        (384, (16, 232), "setmaxnreg takes multiples of 8 from 24 to 240, not 16", LEGAL_384),
        (384, (24, 248), "setmaxnreg takes multiples of 8 from 24 to 240, not 248", LEGAL_384),
        (384, (176, 168), ENTRY.format(176, 168, 168, 384), LEGAL_384),
        (384, (40, 160), ENTRY.format(40, 160, 168, 384), LEGAL_384),
        (512, (40, 232), "128 x 40 + 384 x 232 = 94208 registers, the CTA has 512 x 128 = 65536",
         LEGAL_512),
    ],
)  # fmt: skip
def test_a_pair_that_would_hang(threads: int, pair: tuple[int, int], why: str, legal: str) -> None:
    with pytest.raises(ScheduleError) as error:
        lowered(reallocate_registers, before(*pair, threads // 32 - 4))
    assert str(error.value) == (
        f"ScheduleError[registers]: WarpSpecialized(num_registers={pair}): {why}\n"
        f"  legal here: {legal}"
    )


def test_at_256_threads_no_pair_is_legal() -> None:
    """A thread has 248 registers at entry, more than setmaxnreg can name."""
    with pytest.raises(ScheduleError) as error:
        lowered(reallocate_registers, before(40, 240, 4))
    assert str(error.value) == (
        "ScheduleError[registers]: WarpSpecialized(num_registers=(40, 240)): "
        "40 and 240 must lie on either side of the 248 registers that 256 threads start with\n"
        "  legal here: num_registers=None"
    )


SHARED = """
roles {
  role compute warps 0 .. 8 registers 232 {
  }
  role left warps 8 .. 9 registers 40 {
    cta.sync
  }
  role right warps 9 .. 12 registers 40 {
  }
}
"""


def test_roles_that_share_a_warpgroup_change_its_registers_together() -> None:
    assert lowered(reallocate_registers, SHARED) == full("""
roles {
  role compute warps 0 .. 8 {
    setmaxnreg inc, 232
  }
  role left_right warps 8 .. 12 {
    setmaxnreg dec, 40
    roles {
      role left warps 8 .. 9 {
        cta.sync
      }
      role right warps 9 .. 12 {
      }
    }
  }
}
""")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("9 registers 40", "9 registers 24", "registers of roles: {'left': 24, 'right': 40}"),
        ("9 registers 40", "9", "registers of roles: {'left': None, 'right': 40}"),
        ("12 registers", "11 registers", "left, right: not a whole warpgroup in the end"),
    ],
)
def test_a_warpgroup_has_one_count(old: str, new: str, why: str) -> None:
    with pytest.raises(InternalError) as error:
        lowered(reallocate_registers, SHARED.replace(old, new))
    assert str(error.value).startswith(f"reallocate_registers: {why}\n")


def test_a_pair_is_one_of_the_schedule_whatever_the_roles_are_called() -> None:
    said = []
    for names in (("compute", "load"), ("sum", "fetch"), ("load", "compute")):
        text = before(40, 240)
        for old, new in zip(("role compute", "role load"), names, strict=True):
            text = text.replace(f"{old} ", f"role_{new} ")
        with pytest.raises(ScheduleError) as error:
            lowered(reallocate_registers, text.replace("role_", "role "))
        said.append(str(error.value))
    assert said[0].startswith("ScheduleError[registers]: WarpSpecialized(num_registers=(40, 240)):")
    assert said[1:] == said[:1] * 2


def test_roles_of_any_names_beyond_the_pool() -> None:
    with pytest.raises(ScheduleError) as error:
        lowered(reallocate_registers, SHARED.replace("registers 40", "registers 72"))
    assert str(error.value) == (
        "ScheduleError[registers]: registers of roles: compute 232, left 72, right 72: "
        "256 x 232 + 128 x 72 = 68608 registers, the CTA has 384 x 168 = 64512\n"
        "  legal here: num_registers=None"
    )


@pytest.mark.parametrize(
    ("threads", "count"), [(256, 248), (288, 168), (384, 168), (512, 128), (640, 96)]
)
def test_registers_at_entry(threads: int, count: int) -> None:
    assert HOPPER.registers_at_entry(threads) == count
