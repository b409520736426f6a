"""What the command line shows of a definition: its kernel for given extents, and why this one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowering.errors import UnsupportedError
from wsched.api import import_fusion
from wsched.arguments import InputError
from wsched.compiled import CompiledFusion, compile_fusion
from wsched.cpu import MULTIPROCESSORS
from wsched.fusion import Fusion
from wsched.heuristics import Problem, choose_params, ranked
from wsched.schedule.legality import load_relation
from wsched.schedule.params import MatmulParams

__all__ = [
    "DEFAULT", "Dumps", "Explanation", "Extents", "explain", "extents_for", "kernel_for",
    "write_dumps",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Extents:
    """Sizes of a problem, written ``MxNxK``."""

    m: int
    n: int
    k: int

    @staticmethod
    def parse(text: str) -> Extents:
        """Read ``256x512x64``.

        Raises:
            ValueError: not three non-negative integers.
        """
        parts = text.lower().split("x")
        if len(parts) != 3 or not all(p.isascii() and p.isdigit() for p in parts):
            raise ValueError(f"{text!r} is no problem size; write MxNxK, for example 256x512x64")
        return Extents(*map(int, parts))

    def of(self, axis: str) -> int:
        """Size along ``M``, ``N`` or ``K``."""
        return {"M": self.m, "N": self.n, "K": self.k}[axis]

    def problem(self, fusion: Fusion, sms: int = MULTIPROCESSORS) -> Problem:
        """The heuristic's question for these extents."""
        operand, result = fusion.inputs[0].dtype, fusion.outputs[0].dtype
        m, n = (self.of(axis) for axis in fusion.result_axes)
        return Problem(m, n, self.k, operand, result, sms)

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"


DEFAULT = Extents(256, 256, 512)
"""Sizes of what neither the definition nor the user fixes: fast on the machine model."""


def extents_for(fusion: Fusion, asked: Extents | None = None) -> Extents:
    """The extents to look at: those asked for, else those that the definition fixes.

    Raises:
        InputError: the definition fixes a size that is not the one asked for.
    """
    fixed = {
        axis: size
        for b in (*fusion.inputs, *fusion.outputs)
        for axis, size in zip(b.axes, b.sizes, strict=True)
        if size is not None
    }
    found = asked or Extents(*(fixed.get(a, DEFAULT.of(a)) for a in "MNK"))
    for axis, size in fixed.items():
        if found.of(axis) != size:
            raise InputError(f"{axis} is {found.of(axis)} in {found}, the definition says {size}")
    return found


@dataclass(frozen=True, slots=True)
class Explanation:
    """Which kernel a problem gets and what it costs, as plain data.

    Args:
        problem: the extents, ``MxNxK``.
        sms: multiprocessors that it was planned for.
        kernel: its name.
        grid: CTAs.
        threads: per CTA.
        shared_bytes: dynamic shared memory of a CTA.
        predicted_us: microseconds on an H200, by the heuristic's cost model.
        others: predicted microseconds of the schedules that were not chosen, best first.
        relation: the load index in terms of the compute loops, one line each.
        params: the parameters, nested.
    """

    problem: str
    sms: int
    kernel: str
    grid: int
    threads: int
    shared_bytes: int
    predicted_us: float
    others: dict[str, float]
    relation: tuple[str, ...]
    params: dict[str, Any]

    def __str__(self) -> str:
        params = str(MatmulParams.from_dict(self.params)).splitlines()
        return "\n".join(
            [
                f"{self.problem} on {self.sms} multiprocessors: {self.kernel}",
                f"  {self.grid} CTAs of {self.threads} threads and {self.shared_bytes} bytes of "
                "shared memory",
                f"  predicted: {self.predicted_us:.1f} us; the others: "
                + ", ".join(f"{name} {us:.1f}" for name, us in self.others.items()),
                "",
                "legal, because the index of the load loop follows from compute's loops:",
                *(f"  {line}" for line in self.relation),
                "",
                "parameters, under nvFuser's names:",
                *(f"  {line}" for line in params),
                "",
            ]
        )


def kernel_for(
    definition: Any,
    extents: Extents,
    sms: int = MULTIPROCESSORS,
    params: MatmulParams | None = None,
) -> CompiledFusion:
    """The kernel that a definition gets for a problem; needs neither torch nor a GPU."""
    fusion = import_fusion(definition)
    return compile_fusion(fusion, params or choose_params(extents.problem(fusion, sms)))


def explain(definition: Any, extents: Extents, sms: int) -> Explanation:
    """The heuristic's choice for a problem on a device with ``sms`` multiprocessors.

    Raises:
        UnsupportedError: a definition for which there is no kernel.
    """
    kernel = kernel_for(definition, extents, sms)
    problem = extents.problem(import_fusion(definition), sms)
    sizes = {axis: extents.of(axis) for axis in "MNK"}
    best, *others = ranked(problem)
    return Explanation(
        problem=str(extents),
        sms=sms,
        kernel=kernel.kernel.name,
        grid=kernel.grid(sizes, sms),
        threads=kernel.kernel.threads,
        shared_bytes=kernel.kernel.shared_bytes,
        predicted_us=best[0],
        others={_short(params): us for us, params in others},
        relation=tuple(str(load_relation(kernel.fusion)).splitlines()),
        params=kernel.params.to_dict(),
    )


def _short(params: MatmulParams) -> str:
    return f"{'ping-pong' if params.ping_pong else 'cooperative'} {params.output_tile}"


@dataclass(frozen=True, slots=True)
class Dumps:
    """What :func:`write_dumps` wrote, and why stages are missing."""

    files: tuple[Path, ...]
    missing: tuple[str, ...]


def write_dumps(kernel: CompiledFusion, folder: Path) -> Dumps:
    """Write every stage of a kernel into ``folder``, numbered.

    A stage whose tool is not installed (NVRTC for PTX, nvdisasm for SASS) is left out.
    """
    endings = {"dot": "dot", "cuda": "cu", "ptx": "ptx", "sass": "sass"}
    texts = {"fusion", "subdags", "loops"}
    folder.mkdir(parents=True, exist_ok=True)
    written, missing = [], []
    for number, stage in enumerate(kernel.stages()):
        ending = "txt" if stage in texts else endings.get(stage, "ir")
        path = folder / f"{number:02d}_{stage}.{ending}"
        try:
            path.write_text(kernel.dump(stage))
        except UnsupportedError as e:
            missing.append(f"{stage}: {e}")
            continue
        written.append(path)
    return Dumps(tuple(written), tuple(missing))
