"""Tensor memory is allocated and freed once, by one warp, and before the next grid is let in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.kernel.control import Roles
from lowering.kernel.text import parse_kernel
from lowering.proof.obligation import Verdict
from lowering.proof.prove import prove
from lowering.proof.tensor_memory import allocated
from tests.blackwell import Tile, final
from tests.lowering.machine.test_tensor_memory import text


def test_columns_that_were_not_allocated() -> None:
    kernel = final(Tile())
    (sums,) = kernel.tensors
    wide = kernel.redeclare(replace(sums, column=64))
    found = {o.name: o for o in prove(wide).obligations}["tensor memory"]
    assert found.why == "128 columns are allocated, 128 freed, 192 used"


ALLOCATION = "  on %warp 0 {\n    tcgen05.alloc cells[0, 0, 0], 64\n    tcgen05.relinquish\n  }\n"


@pytest.mark.parametrize("behind", ["", "  cta.sync\n", "  cta.sync\n  tcgen05.fence after\n"])
def test_an_allocation_behind_what_tells_of_it(behind: str) -> None:
    right, behind = text(), f"  tcgen05.fence before\n{behind}"
    assert right.count(f"{ALLOCATION}{behind}") == 1
    late = parse_kernel(right.replace(f"{ALLOCATION}{behind}", f"{behind}{ALLOCATION}"))
    found = {o.name: o for o in prove(late).obligations}["tensor memory"]
    assert found.verdict is Verdict.REFUTED
    assert found.why == "the address is not read behind fence before, a sync and fence after"


ALONE = "not one allocation, its end, its address and its release, by one warp"
FREED = "on %warp 0 {\n    tcgen05.dealloc 64\n  }\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("on %warp 0 {\n    tcgen05.alloc", "on %warpgroup.warp 0 {\n    tcgen05.alloc"),
        ("on %warp 0 {\n    tcgen05.alloc", "on %warp 8 {\n    tcgen05.alloc"),
        ("on %warp 0 {\n    tcgen05.alloc", "on %warp 2 {\n    tcgen05.alloc"),
        (FREED, FREED.replace("%warp 0", "%warpgroup.warp 0")),
        (FREED, FREED.replace("%warp 0", "%warp 8")),
        ("    tcgen05.relinquish\n", "    if %ctaid.x == 0 {\n tcgen05.relinquish\n }\n"),
        ("    tcgen05.relinquish\n", "    on %warp 1 {\n tcgen05.relinquish\n }\n"),
        ("    tcgen05.relinquish\n  }\n", "  }\n  on %warp 1 {\n tcgen05.relinquish\n }\n"),
        (FREED, f"if 0 < M {{\n {FREED} }}\n"),
    ],
    ids=[
        "a warp of each warpgroup", "no warp", "another warp than frees", "freed by several",
        "freed by none", "an end in one CTA", "an end that nobody executes",
        "an end by another warp", "freed at some sizes",
    ],
)  # fmt: skip
def test_who_allocates(old: str, new: str) -> None:
    """One warp of each CTA, whatever its number is, and on no condition."""
    assert text().count(old) == 1
    (found,) = allocated(parse_kernel(text().replace(old, new)))
    assert (found.verdict, found.why) == (Verdict.REFUTED, ALONE)


@pytest.mark.parametrize(
    "around",
    ["on %warp 5 {\n", "on %warp 0 {\n on %warpgroup.warp 0 {\n"],
    ids=["any warp", "one of those that are the first of four"],
)
def test_any_warp_may_allocate(around: str) -> None:
    found = text()
    for part in (ALLOCATION, FREED):
        inner = part[part.index("{") + 2 : part.rindex("}")]
        found = found.replace(part, around + inner + "}\n" * around.count("{"))
    (claim,) = allocated(parse_kernel(found))
    assert (claim.verdict, claim.why) == (Verdict.PROVED, "")


def test_columns_that_are_freed_before_the_parts_are_not_allocated_for_them() -> None:
    kernel = parse_kernel(text())
    at = next(n for n, s in enumerate(kernel.body) if isinstance(s, Roles))
    body = (*kernel.body[:at], *kernel.body[at + 1 :], kernel.body[at])
    found = {o.name: o for o in prove(replace(kernel, body=body)).obligations}["tensor memory"]
    assert found.verdict is Verdict.REFUTED
    assert "fence before, a sync and fence after" in found.why
    (found,) = allocated(replace(kernel, body=body[:-1]))
    assert "the address is not read behind fence" in found.why  # without parts for none


def test_the_next_grid_is_let_in_in_front_of_the_allocation() -> None:
    """Its CTAs may be given the columns that this one then waits for, and wait for its end."""
    in_front = "  griddepcontrol.wait\n  griddepcontrol.launch_dependents\n"
    assert text().count(ALLOCATION) == 1
    proof = prove(parse_kernel(text().replace(ALLOCATION, in_front + ALLOCATION)))
    found = [(o.name, o.why) for o in proof.obligations if o.verdict is Verdict.REFUTED]
    why = "griddepcontrol.launch_dependents before tensor memory is allocated"
    assert found == [("griddepcontrol.launch_dependents", why)]
