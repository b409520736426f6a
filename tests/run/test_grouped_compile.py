"""Kernels of grouped matmuls through NVRTC: what is chosen for layers of experts has no spills."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lowering.target.targets import DEFAULT
from tests.grouped import BIAS, FORMS, GATE, grouped
from tests.schedules import QUICK, SCHEDULES
from tests.tiers import in_tiers
from wsched.choose.gpus import H200_SMS
from wsched.choose.heuristics import choose_params
from wsched.choose.problem import Problem
from wsched.front.known import import_fusion
from wsched.fusion import DataType
from wsched.run.compiled import compile_fusion
from wsched.run.registers import compile_clean
from wsched.schedule.matmul.params import SupportedVectorization

LAYERS = {
    "8 experts": (8, 4096, 14336, 4096),
    "16 experts": (16, 8192, 8192, 5120),
    "64 experts": (64, 8192, 2048, 7168),
    "128 experts": (128, 4096, 1536, 4096),
    "a row each": (128, 128, 1536, 4096),
}
"""Groups, rows, N and K."""


@pytest.mark.slow
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("text", [grouped(), GATE, BIAS], ids=["bare", "gate", "epilogue"])
def test_choice(layer: str, text: str) -> None:
    fusion = import_fusion(text)
    extents = dict(zip("BMNK", LAYERS[layer], strict=True))
    inputs = (DataType.BFloat16,) if text == BIAS else ()
    params = choose_params(Problem.of(fusion, extents, H200_SMS, inputs))
    made = compile_clean(fusion, params, DEFAULT)
    assert params.dynamic and params.splitk_factor == 1
    assert made.resources.clean, made.resources


@pytest.mark.sampled(1)
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize(("form", "shared_out"), [("columns", "NMK"), ("sums", "KMN")])
def test_choice_of_other_forms(layer: str, form: str, shared_out: str) -> None:
    """The same sizes, what is shared out first."""
    fusion = import_fusion(grouped(ranks=FORMS[form]))
    groups, *sizes = LAYERS[layer]
    extents = {"B": groups, **dict(zip(shared_out, sizes, strict=True))}
    params = choose_params(Problem.of(fusion, extents, H200_SMS, ()))
    made = compile_clean(fusion, params, DEFAULT)
    assert (params.dynamic, params.use_smem_epilogue) == (True, form == "sums")
    assert made.resources.clean, made.resources


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", in_tiers([n for n in SCHEDULES if "dynamic" in n], QUICK))
@pytest.mark.parametrize("form", FORMS)
def test_schedules(form: str, name: str) -> None:
    """Every way to deal tiles out at run time, from groups."""
    params = SCHEDULES[name]
    if form == "sums" and params.ping_pong:
        pytest.skip("warpgroups that take turns")
    if form == "columns":
        vector = SupportedVectorization(1)
        params = replace(params, use_smem_epilogue=False, supported_vec_size=vector)
        params = replace(params, deferred_stores=False)
    made = compile_fusion(import_fusion(grouped(ranks=FORMS[form])), params)
    assert made.resources.clean, made.resources
