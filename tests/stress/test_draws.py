"""What is drawn, and how often: all of it, and none of it always."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import fields
from math import log

import pytest

from wsched.choose.heuristics import CLUSTERS
from wsched.choose.problem import Problem
from wsched.fusion import DataType
from wsched.schedule.matmul.params import (
    CircularBufferingStrategy,
    MatmulParams,
    SmemSwizzles,
    TileRasterizationOrder,
    TilingStrategy,
)
from wsched.schedule.options import MmaInputSmemSwizzle
from wsched.stress import schedules
from wsched.stress.draws import drawn_form
from wsched.stress.epilogue import Epilogue
from wsched.stress.form import drawn_size
from wsched.stress.several import Joined, Product, Several, drawn_several
from wsched.stress.weights import NARROW

PARAMS = MatmulParams(splitk_factor=9, cta_order=TileRasterizationOrder.ColumnMajor)
"""Of which each change changes what it is about."""

DRAWN: dict[str, tuple[float, set[object]]] = {
    "tiling_strategy": (0.6, {*TilingStrategy}),
    "splitk_factor": (0.2, {2, 3, 4, 5, 6}),
    "cluster_dims": (0.4, {*CLUSTERS}),
    "cta_order": (0.3, {*TileRasterizationOrder}),
    "grid_traversal_factor": (0.3, {(n, 1) for n in range(2, 10)}),
    "circular_buffer_options": (0.3, {2, 3, 4}),
    "wgmma_in_flight": (0.3, {0, 1, 2}),
    "programmatic_dependent_launch": (0.15, {False}),
    "circular_buffering_strategy": (0.1, {CircularBufferingStrategy.Pipelined}),
    "epilogue_input_stages": (0.15, {0}),
    "use_smem_epilogue": (0.15, {False}),
    "smem_swizzles": (
        0.15,
        {SmemSwizzles(a, b) for a in MmaInputSmemSwizzle for b in MmaInputSmemSwizzle},
    ),
    "prefetched_steps": (0.2, {*range(1, 9)}),
    "epilogue_columns": (0.3, {8, 16, 32, 64, 128, 256}),
    "deferred_stores": (0.3, {True}),
}


def test_each_parameter_takes_all_values() -> None:
    for (name, wanted), (share, change) in zip(DRAWN.items(), schedules._CHANGES, strict=True):
        rng, found = random.Random(name), set()
        for _ in range(400):
            made = change(rng, PARAMS)
            others = [f.name for f in fields(made) if f.name != name]
            assert all(getattr(made, n) == getattr(PARAMS, n) for n in others)
            value = getattr(made, name)
            found.add(
                value.smem_circular_buffer_stage if name == "circular_buffer_options" else value
            )
        assert (share, found) == wanted, name


@pytest.mark.parametrize(("work", "drawn"), [(0, True), (3, False)])
def test_parts_of_k_are_results_of_what_can_have_them(work: int, drawn: bool) -> None:
    """Bare products; others have parts that a CTA adds up."""
    problem = Problem(520, 264, 136, DataType.BFloat16, (DataType.BFloat16,), 132, work=work)
    rng = random.Random(7)
    params = [schedules.drawn_params(rng, problem) for _ in range(150)]
    stored = [p.splitk_factor for p in params if p.stores_parts]
    assert ({2, 3, 4, 5, 6} <= {*stored} and 20 < len(stored) < 60) if drawn else not stored
    assert sum(p.splitk_factor > 1 and p.combines for p in params) > 5


FAMILIES: dict[str, dict[str, set[object]]] = {
    "Linear": {
        "operand": {"BFloat16", "Half"}, "batched": {False, True}, "aligned": {False, True},
        "a_by_rows": {False, True}, "b_by_rows": {False, True},
    },
    "Listed": {
        "operand": {"BFloat16", "Half"}, "count": {2, 3}, "of_one_weight": {False, True},
        "aligned": {True},
    },
    "Gated": {
        "operand": {"BFloat16", "Half"}, "function": {"silu", "relu", "sigmoid"},
        "of_one_weight": {False, True}, "aligned": {True},
    },
    "Reduced": {
        "operand": {"BFloat16", "Half"}, "op": {"sum", "max", "min"}, "over": {0, 1},
        "aligned": {True},
    },
    "Eight": {"floats": {False, True}, "aligned": {True}},
    "Grouped": {"operand": {"BFloat16", "Half"}, "aligned": {True}},
    "Rounded": {
        "operand": {"BFloat16", "Half"}, "to": {"Float8_e4m3fn", "Float8_e5m2"},
        "scale": {0.25, 12.5, 4096.0}, "aligned": {True},
    },
    "Summed": {"operand": {"BFloat16", "Half"}, "aligned": {True}},
    "Several": {"operand": {"BFloat16", "Half"}, "aligned": {True}},
    "Weights": {
        "operand": {"BFloat16", "Half"}, "weights": {*NARROW}, "group": {0, 32, 64, 128},
        "zero": {"", "columns", "groups"}, "by_groups": {False, True}, "aligned": {True},
    },
}  # fmt: skip


def test_forms_and_their_shares() -> None:
    rng, count = random.Random(5), 3000
    found: dict[str, dict[str, list[object]]] = defaultdict(lambda: defaultdict(list))
    for _ in range(count):
        form = drawn_form(rng)
        for f in fields(form):
            value = getattr(form, f.name)
            if not isinstance(value, Epilogue | tuple):
                found[type(form).__name__][f.name].append(value)
    values = {n: {f: {*v} for f, v in of.items()} for n, of in found.items()}
    assert values == FAMILIES
    linear = found["Linear"]
    assert len(linear["operand"]) / count == pytest.approx(0.5, abs=0.03)
    assert len(found["Several"]["operand"]) / count == pytest.approx(0.15, abs=0.03)
    shares = {n: linear[n].count(True) / len(linear[n]) for n in linear if n != "operand"}
    assert shares == pytest.approx(
        {"batched": 0.125, "a_by_rows": 0.8, "b_by_rows": 0.8, "aligned": 5 / 6}, abs=0.03
    )


def test_several_products() -> None:
    """Two to four, sums and extremes of two; of what others read one in four is a result."""
    rng = random.Random(6)
    forms = [drawn_several(rng) for _ in range(400)]
    steps = [s for f in forms for s in f.steps]
    products = [sum(isinstance(s, Product) for s in f.steps) for f in forms]
    assert {*products} == {2, 3, 4}
    assert {s.op for s in steps if isinstance(s, Joined)} == {"add", "sub", "maximum", "minimum"}
    assert {s.by_rows for s in steps if isinstance(s, Product)} == {False, True}
    assert {s.made.depth for s in steps} == {1, 2}
    read = [(f, s.made.name) for f in forms for s in f.steps if is_read(f, s.made.name)]
    assert sum(n in f.results for f, n in read) / len(read) == pytest.approx(0.25, abs=0.06)
    others = [(f, s.made.name) for f in forms for s in f.steps if not is_read(f, s.made.name)]
    assert all(n in f.results for f, n in others)


def is_read(form: Several, name: str) -> bool:
    """Whether a step reads what another one makes."""
    pairs = (
        (s.left, s.right) if isinstance(s, Product) else (s.first, s.second) for s in form.steps
    )
    return any(name in (a.name, b.name) for a, b in pairs)


def test_what_a_number_draws(golden: object) -> None:
    """A run is told by its seed: other draws are another run."""
    pytest.importorskip("torch")
    lines = list[str]()
    for number in range(30):
        rng = random.Random(number)
        form = drawn_form(rng)
        sizes = [form.sizes(rng, largest) for largest in (1, 64, 700)]
        lines += [f"{number}: {form.text}", *map(repr, sizes), ""]
    assert "\n".join(lines) == golden


def test_sizes() -> None:
    """Up to the largest, all lengths of a number alike, a third beside multiples of 64."""
    rng = random.Random(3)
    found = [drawn_size(rng, 4096) for _ in range(6000)]
    assert (min(found), max(found)) == (1, 4096)
    beside = sum((n + d) % 64 == 0 for n in found for d in (-8, -1, 0, 1, 8)) / len(found)
    assert 0.33 < beside < 0.42
    small = sum(n <= 55 for n in found) / len(found)
    assert small == pytest.approx(2 / 3 * log(55.5) / log(4096), abs=0.02)
    assert {drawn_size(rng, 100, 8) % 8 for _ in range(200)} == {0}
    assert {drawn_size(rng, 1) for _ in range(50)} == {1}
