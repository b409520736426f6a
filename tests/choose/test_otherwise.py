from __future__ import annotations

from dataclasses import replace

import pytest

from tests.schedules import dynamic
from wsched.choose.cost_model import cost
from wsched.choose.heuristics import candidates, modelled
from wsched.choose.learned.order import predicted
from wsched.choose.otherwise import MOST, Alternative, Priced, alternatives
from wsched.choose.problem import Problem
from wsched.fusion import DataType
from wsched.schedule.matmul.params import ClusterDims, MatmulParams

BF16 = DataType.BFloat16
ASKED = Problem(4096, 4096, 4096, BF16, (BF16,), 132)


def chosen() -> MatmulParams:
    return modelled(ASKED)


def priced() -> dict[str, Priced]:
    return {p.name: p for p in alternatives(ASKED, chosen())}


def of(name: str, value: str) -> Alternative:
    (found,) = [a for a in priced()[name].others if a.value == value]
    return found


def test_the_chosen_value_is_no_alternative() -> None:
    for row in priced().values():
        assert row.value and row.value not in {a.value for a in row.others}
        legal = [a.us for a in row.others if a.us is not None]
        assert legal == sorted(legal)
        assert [a.us for a in row.others] == legal + [None] * (len(row.others) - len(legal))


def test_no_candidate_is_cheaper_than_what_the_model_chose() -> None:
    best, others = predicted(ASKED, chosen()).us, priced()["tile_sizes"].others
    assert others and all(a.us is not None and a.us >= best for a in others)


def test_where_the_laws_are_all_there_is_nothing_is_cheaper() -> None:
    asked = replace(ASKED, batch=2)
    rows, best = alternatives(asked, modelled(asked)), cost(asked, modelled(asked)).us
    assert all(a.us is None or a.us >= best - 1e-9 for p in rows for a in p.others)


def test_a_tile_is_priced_by_the_best_schedule_that_has_it() -> None:
    rows = priced()["tile_sizes"].others
    assert 0 < len(rows) <= MOST
    for row in rows:
        same = [c for c in candidates(ASKED) if str(c.params.tile_sizes.cta_tile) == row.value]
        assert row.us == min(c.cost.us for c in same)


def test_a_cluster_is_changed_alone() -> None:
    assert chosen().cluster_dims == ClusterDims(1, 1)
    found = of("cluster_dims", "2x1")
    other = cost(ASKED, replace(chosen(), cluster_dims=ClusterDims(2, 1)))
    assert found.us == pytest.approx(other.by_laws * predicted(ASKED, chosen()).factor)
    assert " us more in " in found.why


def test_what_is_illegal_says_why() -> None:
    found = of("smem_circular_buffer_stage", "9")
    assert found.us is None
    assert found.why.startswith("9 stages of ") and found.why.endswith(" KiB")


def test_what_costs_the_same_says_so() -> None:
    """What waits for the tensor cores does not wait less with more stages."""
    asked = Problem(512, 512, 512, BF16, (BF16,), 132)
    rows = {p.name: p for p in alternatives(asked, modelled(asked))}
    words = {a.why for a in rows["smem_circular_buffer_stage"].others if a.us is not None}
    assert "the same by the model" in words


@pytest.mark.parametrize("name", ["splitk_factor", "programmatic_dependent_launch"])
def test_parameters_that_are_always_priced(name: str) -> None:
    assert any(a.us is not None for a in priced()[name].others)


def test_what_is_not_built_says_so() -> None:
    """Of tiles from a queue no parts are summed."""
    rows = {p.name: p for p in alternatives(ASKED, dynamic(chosen()))}
    found = {a.value: a for a in rows["splitk_factor"].others}
    assert set(found) == {"2", "4", "8"}
    for value, row in found.items():
        assert row.us is None
        assert row.why.startswith(f"splitk_factor={value} with DistributeTilesDynamically is not ")
