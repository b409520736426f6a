"""What is made of a schedule, stage by stage: texts of each, the cubin, what ptxas says of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lowering.cuda.nvrtc import Compiled
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import print_kernel
from lowering.proof.obligation import Proof
from lowering.target.target import Target
from passes.dump import ALL, Dumper
from passes.options import LoweringOptions
from passes.pipeline import PIPELINES, passes_of, run_passes, steps
from wsched.fusion import Fusion, fusion_text
from wsched.importer.input_error import InputError
from wsched.run.bundles import compiled_text, disk_cache
from wsched.run.counts import admitted_by, admitted_of
from wsched.run.grid import CODE, Grid
from wsched.run.once import once
from wsched.run.proving import proof_of, prove_if_asked
from wsched.schedule.loops import loops_text
from wsched.schedule.plan import Plan
from wsched.schedule.subdags import subdags_text, to_dot

__all__ = ["LINES", "STAGES", "Made", "compiled_kernel", "dump_scheduled"]

_SCHEDULED: dict[str, tuple[str, Callable[[Plan], str]]] = {
    "fusion": ("txt", lambda p: fusion_text(p.fusion)),
    "subdags": ("txt", lambda p: subdags_text(p.fusion)),
    "dot": ("dot", lambda p: to_dot(p.fusion, p.graph)),
    "loops": ("txt", lambda p: loops_text(p.fusion, p.graph)),
}
"""Texts of the scheduled fusion, with the ending of their files."""

_CODE = {**CODE, "mlir": "mlir"}

NVGPU = "mlir-nvgpu"
"""A stage of kernels that the dialect has words for, few: no part of a full dump."""

LINES = "-lineinfo"
"""NVRTC's option for lines of the source in PTX and cubin."""

_PASSES = dict.fromkeys(p.__name__ for passes in PIPELINES.values() for p in passes)
"""Names of the passes of all targets."""

STAGES = (*_SCHEDULED, "lower", *_PASSES, *_CODE)
"""What can be asked for, of a kernel of any target."""


@dataclass(frozen=True)
class Made(Grid):
    """A lowered schedule.

    Attributes:
        plan: the schedule, proved.
        options: what the passes were told.
        tile_level: the kernel before the passes.
        kernel: the final kernel IR, which is executed, simulated and emitted.
    """

    plan: Plan
    options: LoweringOptions
    tile_level: Kernel
    kernel: Kernel

    @property
    def fusion(self) -> Fusion:
        """The scheduled fusion."""
        return self.plan.fusion

    @property
    def name(self) -> str:
        """Of the kernel."""
        return self.kernel.name

    @property
    def target(self) -> Target:
        """The GPU that it is for."""
        return self.kernel.target

    def _emitted(self) -> str:
        from lowering.cuda.emit import emit_cuda

        return emit_cuda(self.kernel)

    @once
    def with_lines(self) -> Compiled:
        """The same code as :attr:`compiled`, with the line of the source that each instruction is
        from.
        """
        return disk_cache().compile(self.source, f"{self.name}.cu", (LINES,), self.target.arch)

    def proof(self) -> Proof:
        """What is proved of the final kernel, for all sizes; needs no GPU (design/0033)."""
        return proof_of(self.kernel, admitted_by(self.plan))

    def dump(self, stage: str) -> str:
        """The text of one stage: one of :meth:`stages`, or the kernel IR after a pass, by name."""
        if stage in _SCHEDULED:
            return _SCHEDULED[stage][1](self.plan)
        if stage == "kernel":
            return print_kernel(self.kernel)
        if stage in _CODE:
            return self._code(stage)
        if stage == NVGPU:
            from lowering.mlir.nvgpu import emit_nvgpu

            return emit_nvgpu(self.kernel)
        for step in steps(self.tile_level, self.options):
            if step.name == stage:
                return print_kernel(step.kernel)
        there = ", ".join(self.stages())
        raise InputError(f"no stage {stage!r}; there are: {there}", "stage", stage, there)

    def stages(self) -> list[str]:
        """Names that :meth:`dump` takes, in the order in which the stages are made; the passes are
        those of the kernel's target.

        ``kernel`` is the final kernel IR, the same as after the last pass.
        """
        passes = (p.__name__ for p in passes_of(self.tile_level))
        return [*_SCHEDULED, "lower", *passes, "kernel", *_CODE, NVGPU]

    def dump_all(self, folder: Path | str) -> Dumper:
        """Write every stage, as ``WSCHED_DUMP=all`` does during compilation; the passes run again.

        Args:
            folder: where the files go; it is made.

        Returns:
            The dumper, with the files and the reasons why stages are missing.

        Raises:
            OSError: a file cannot be written.
        """
        dumper = Dumper(frozenset({ALL}), Path(folder))
        dump_scheduled(self.plan, dumper)
        run_passes(self.tile_level, self.options, dumper)
        self.dump_code(dumper)
        return dumper

    def dump_code(self, dumper: Dumper) -> None:
        """Write what is made of the final kernel."""
        for kind, ending in _CODE.items():
            dumper.text(kind, ending, partial(self._code, kind))

    def _code(self, kind: str) -> str:
        """What is made of the final kernel."""
        if kind != "mlir":
            return self.code(kind)
        from lowering.mlir.emit import emit_mlir

        return emit_mlir(self.kernel)


def dump_scheduled(plan: Plan, dumper: Dumper) -> None:
    """Write the texts of a scheduled fusion."""
    for name, (ending, text) in _SCHEDULED.items():
        dumper.text(name, ending, partial(text, plan))


def compiled_kernel(kernel: Kernel) -> Compiled:
    """The cubin of a final kernel without a plan, from a bundle, the disk cache or NVRTC.

    Raises:
        InternalError: ``WSCHED_PROOF`` asks for a proof, which refutes the kernel.
    """
    from lowering.cuda.emit import emit_cuda

    prove_if_asked(kernel, admitted_of(kernel))
    return compiled_text(emit_cuda(kernel), f"{kernel.name}.cu", kernel.target.arch)
