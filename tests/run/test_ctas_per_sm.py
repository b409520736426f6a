"""``ctas_per_sm``: CTAs among which a multiprocessor's shared memory and registers are divided."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lowering.ground.errors import ScheduleError
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.mlir.emit import emit_mlir
from tests.on_machine import Problem, exact, kernel, operands, run
from tests.proofs import proved
from tests.schedules import cooperative, definition, in_tensor_memory, ping_pong, split_k
from wsched.front.known import import_fusion
from wsched.front.schedule import Schedule
from wsched.run.compiled import compile_fusion
from wsched.schedule.matmul.limits import check_params
from wsched.schedule.matmul.params import ClusterDims, MatmulParams
from wsched.schedule.matmul.tiles import fit_stages

ODD = Problem(200, 168, 136, 4)
SMALL = replace(cooperative(128, 64, stages=3), num_registers="auto")
WAYS = {
    "cooperative": SMALL,
    "ping-pong": replace(ping_pong(64, 64, stages=3), num_registers="auto"),
    "cluster": replace(SMALL, cluster_dims=ClusterDims(2, 1)),
    "parts": split_k(SMALL, 2),
    "early": replace(SMALL, prefetched_steps=3),
    "three of them": replace(cooperative(64, 32, stages=3, groups=1), num_registers="auto"),
}


def shared(name: str) -> MatmulParams:
    return replace(WAYS[name], ctas_per_sm=3 if name == "three of them" else 2)


@pytest.mark.sampled
@pytest.mark.parametrize("name", WAYS)
def test_right_proved_and_within_its_share(name: str) -> None:
    params = shared(name)
    made, ctas = kernel(params), params.ctas_per_sm
    assert made.kernel.target.ctas_per_sm == ctas and f"beside{ctas}" in made.kernel.name
    assert ctas * (made.kernel.shared_bytes + 1024) <= 228 * 1024
    assert ctas * made.kernel.threads * made.resources.registers <= 65536
    assert made.resources.clean
    x, w = operands(ODD, "bf16", 0, integer=True)
    assert np.array_equal(run(made, ODD, x, w, "bf16", races=True).astype("f4"), exact(x, w))
    proved(made.kernel, made.plan)


def test_compilers_are_told() -> None:
    made, alone = kernel(shared("cooperative")), kernel(SMALL)
    assert "__launch_bounds__(384, 2)" in made.source
    assert "__launch_bounds__(384, 1)" in alone.source
    assert "nvvm.minctasm = 2 : i32" in emit_mlir(made.kernel)
    assert (made.resources.registers, alone.resources.registers) == (80, 168)
    text = print_kernel(made.kernel)
    assert " ctas_per_sm 2 grid " in text and parse_kernel(text) == made.kernel
    assert "ctas_per_sm" not in print_kernel(alone.kernel)


def test_as_many_stages_as_fit_a_share() -> None:
    fusion = import_fusion(definition())
    operand = fusion.tensor("T0").dtype
    wide = replace(cooperative(128, 64, stages=6), num_registers="auto")
    found = [fit_stages(replace(wide, ctas_per_sm=n), operand, (operand,), (), 1) for n in (1, 2)]
    assert [p and p.circular_buffer_options.smem_circular_buffer_stage for p in found] == [8, 4]
    with pytest.raises(ScheduleError) as error:
        compile_fusion(fusion, replace(wide, ctas_per_sm=2))
    assert error.value.rule == "smem" and error.value.why.endswith("limit 113 KiB")


@pytest.mark.parametrize(
    ("params", "why"),
    [
        (replace(SMALL, ctas_per_sm=0), "ctas_per_sm=0: 1 means a multiprocessor for each CTA"),
        (
            replace(SMALL, ctas_per_sm=2, num_registers=(40, 232)),
            "num_registers=(40, 232): 128 x 40 + 256 x 232 = 64512 registers, the CTA has "
            "384 x 80 = 30720",
        ),
        (
            replace(in_tensor_memory(128, 128), ctas_per_sm=2),
            "ctas_per_sm=2: a CTA allocates the tensor memory of sm_100a as if it were alone",
        ),
    ],
    ids=["none", "registers", "tensor memory"],
)
def test_what_is_illegal(params: MatmulParams, why: str) -> None:
    assert why in check_params(params, params.mma_macro.target)


def test_a_schedule_keeps_it() -> None:
    made = Schedule.of(definition(), shared("cooperative"))
    assert made.target.ctas_per_sm == 2
    assert Schedule.parse(str(made)).target is made.target
