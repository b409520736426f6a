"""Several sums over the steps of one ring; what of several parts and rings has no rule yet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.ground.errors import UnsupportedError
from lowering.kernel.text import print_kernel
from lowering.nest.lower import lower
from tests.schedule import chain
from tests.schedule.gated import gated, scheduled
from tests.schedule.proof.test_readers import read_twice
from wsched.schedule import InTurn, Plan, make_plan
from wsched.schedule.parts import Filled


def refused(p: Plan) -> UnsupportedError:
    with pytest.raises(UnsupportedError) as error:
        lower(p, "refused")
    return error.value


def test_two_sums(golden: object) -> None:
    """One ring, two accumulators in the same loops, an epilogue that has both."""
    assert print_kernel(lower(scheduled(gated()).plan(), "gated")) == golden


def test_a_step_is_waited_for_once() -> None:
    """By the first of the copies that read it; both have the same part of the matrix."""
    lines = print_kernel(lower(make_plan(read_twice(joined=True)), "twice")).splitlines()
    at = next(n for n, s in enumerate(lines) if "consume aux" in s)
    assert [s.split("= ")[-1] for s in lines[at + 1 : at + 3]] == [
        "ldmatrix T11[0, group * 64, 0]",
        "ldmatrix T11[0, group * 64, 0]",
    ]
    assert sum("consume aux" in s for s in lines) == 1


def test_a_sum_over_another_ring() -> None:
    """The chain of two products is legal, and its second ring steps once in a row of the first."""
    p = chain.scheduled().plan()
    assert [(part.name, part.rings) for part in p.parts] == [
        ("load", (Filled("ring", ("T12", "T13")),)),
        ("load", (Filled("ring1", ("T14",)),)),
        ("compute", ()),
    ]
    first, second = p.relations
    assert [str(s.domain.extent) for s in first.digits] == ["ceildiv(N, 64)", "ceildiv(K, 64)"]
    assert [str(s.domain.extent) for s in second.digits] == ["ceildiv(N, 64)"]
    error = refused(p)
    assert (error.what, error.supported) == (
        "T10 = mma(T9, T14) over the steps of another ring than T12, T13",
        "sums over the steps of one ring",
    )


def test_sums_of_which_ctas_have_parts() -> None:
    p = scheduled(gated()).plan()
    (edge,) = p.edges
    assert isinstance(p.work, InTurn)
    parts = replace(edge, relation=replace(edge.relation, work=replace(p.work, splits=2)))
    error = refused(replace(p, edges=(parts,)))
    assert (error.what, error.supported) == (
        "T4 and T8 of which CTAs add up parts", "one accumulator where they do",
    )  # fmt: skip
