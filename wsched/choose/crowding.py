"""What CTAs have asked of memory before they need it, where threads compute what streams."""

from __future__ import annotations

from lowering.ground.frozen import replaced
from wsched.choose.memory import bytes_per_us
from wsched.choose.problem import Problem
from wsched.choose.step import stage_bytes
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["crowded_us", "in_few_stages"]

CROWDED, ENOUGH = 0.46, 96 * 1024
"""Share of the time that memory takes for what a CTA has asked for beyond as many bytes, which is
in front of what another one waits for, as all begin together. Of 263 kernels (H200, 2026-11-28):
64x16x256 of 8 bits by four takes 22.4 to 22.9 us with eight stages of 24 KiB, 21.2 to 21.5 with
four, 64x16x384 of 4 bits 15.9 and 15.4, with scales of groups 18.2 and 17.0."""

FEW, FEWER, LONG = 4, 3, 512
"""Stages that are enough to load ahead (64x32x384 of 8 bits takes 22.1 us, 23.5 with three), and of
4 bits with so much of K in each (64x16x512 takes 14.4 us by columns and 15.1 by groups, 14.7 and
15.4 with four)."""


def crowded_us(problem: Problem, params: MatmulParams, ctas: int) -> float:
    """Microseconds that first stages come later, of so many CTAs whose rings hold more."""
    if problem.computed is None:
        return 0.0
    stages = params.circular_buffer_options.smem_circular_buffer_stage
    beyond = stages * stage_bytes(problem, params.output_tile) - ENOUGH
    return CROWDED * ctas * max(float(beyond), 0.0) / bytes_per_us(problem)


def in_few_stages(problem: Problem, params: MatmulParams) -> tuple[MatmulParams, ...]:
    """The parameters, and where threads compute an operand also with fewer stages."""
    options, made = params.circular_buffer_options, problem.computed
    if made is None:
        return (params,)
    long = made.dtype.element.bits < 8 and params.output_tile.k >= LONG
    few = [n for n in (FEW, FEWER)[: 1 + long] if n < options.smem_circular_buffer_stage]
    sized = (replaced(options, smem_circular_buffer_stage=n) for n in few)
    return params, *(replaced(params, circular_buffer_options=o) for o in sized)
