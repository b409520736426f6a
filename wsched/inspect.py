"""What the command line shows of a definition: its kernel for given extents, and why this one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wsched.api import import_fusion
from wsched.compiled import CompiledFusion, compile_fusion
from wsched.cpu import MULTIPROCESSORS
from wsched.fusion import Fusion
from wsched.heuristics import Problem, choose_params, predicted_cycles
from wsched.schedule.params import MatmulParams

__all__ = ["Explanation", "Extents", "explain", "kernel_for", "write_dumps"]


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
        if len(parts) != 3 or not all(p.isdigit() for p in parts):
            raise ValueError(f"{text!r} is no problem size; write MxNxK, for example 256x512x64")
        return Extents(*map(int, parts))

    def problem(self, fusion: Fusion, sms: int = MULTIPROCESSORS) -> Problem:
        """The heuristic's question for these extents."""
        operand, result = fusion.inputs[0].dtype, fusion.outputs[0].dtype
        return Problem(self.m, self.n, self.k, operand, result, sms)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Which kernel a problem gets and what it costs, as plain data.

    Args:
        kernel: its name.
        params: the parameters, nested.
        relation: the load index in terms of the compute loops, one line each.
        predicted_cycles: by the heuristic's cost model.
        shared_bytes: dynamic shared memory.
        threads: per CTA.
    """

    kernel: str
    params: dict[str, Any]
    relation: tuple[str, ...]
    predicted_cycles: float
    shared_bytes: int
    threads: int


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
    """The choice for a problem on a device with ``sms`` multiprocessors."""
    from wsched.schedule.legality import load_relation

    kernel = kernel_for(definition, extents, sms)
    problem = extents.problem(import_fusion(definition), sms)
    return Explanation(
        kernel.kernel.name,
        kernel.params.to_dict(),
        tuple(str(load_relation(kernel.fusion)).splitlines()),
        predicted_cycles(problem, kernel.params),
        kernel.kernel.shared_bytes,
        kernel.kernel.threads,
    )


def write_dumps(kernel: CompiledFusion, folder: Path) -> list[Path]:
    """Write every stage of a kernel into ``folder``, numbered; what was written."""
    endings = {"dot": "dot", "cuda": "cu", "ptx": "ptx", "sass": "sass"}
    texts = {"fusion", "subdags", "loops"}
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for number, stage in enumerate(kernel.stages()):
        ending = "txt" if stage in texts else endings.get(stage, "ir")
        path = folder / f"{number:02d}_{stage}.{ending}"
        path.write_text(kernel.dump(stage))
        written.append(path)
    return written
