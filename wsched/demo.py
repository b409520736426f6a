"""The main job from end to end: define, schedule, show, run, check."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from wsched.api import compile, import_fusion
from wsched.arguments import torch_dtype
from wsched.inspect import Extents, write_dumps
from wsched.schedule.loops import loops_text

if TYPE_CHECKING:
    import torch

    from wsched.compiled import CompiledFusion

__all__ = ["Outcome", "check_definition", "run_demo"]

LINEAR = """\
def nvfuser_fusion(fd : FusionDefinition) -> None :
    tv0 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    tv1 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    tv2 = fd.ops.linear(tv0, tv1)
    fd.add_output(tv2)
"""

TOLERANCE = {"bfloat16": 4e-3, "float16": 6e-4, "float32": 2e-5}
"""Relative Frobenius error against fp32, by result type."""

_DUMPS = Path("wsched-dump")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a check: ``text`` says what was compared and how it came out."""

    passed: bool
    text: str


def check_definition(definition: Any, extents: Extents, seed: int = 0) -> Outcome:
    """Run a definition on random normal inputs and compare it with torch in fp32."""
    import torch

    fusion = import_fusion(definition)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sizes = {"M": extents.m, "N": extents.n, "K": extents.k}
    generator = torch.Generator().manual_seed(seed)
    inputs = [
        torch.randn([sizes[a] for a in b.axes], generator=generator)
        .to(torch_dtype(b.dtype))
        .to(device)
        for b in fusion.inputs
    ]
    kernel = compile(definition, inputs)
    start = perf_counter()
    (result,) = kernel(*inputs)
    result = result.float().cpu()
    seconds = perf_counter() - start
    return _compare(kernel, inputs, result, seconds)


def _compare(
    kernel: CompiledFusion, inputs: list[torch.Tensor], result: torch.Tensor, seconds: float
) -> Outcome:
    fusion = kernel.fusion
    matrices = {b.tensor: t.float().cpu() for b, t in zip(fusion.inputs, inputs, strict=True)}
    by_axes = {b.axes: matrices[b.tensor] for b in fusion.inputs}
    a = by_axes[("M", "K")]
    expected = a @ (by_axes[("N", "K")].T if ("N", "K") in by_axes else by_axes[("K", "N")])
    scale = float(expected.norm()) or 1.0
    error = float((result - expected).norm()) / scale
    name = str(torch_dtype(fusion.outputs[0].dtype)).removeprefix("torch.")
    limit = TOLERANCE[name]
    where = "the GPU" if inputs[0].is_cuda else "the machine model, byte for byte"
    passed = error < limit
    verdict = "right" if passed else "WRONG"
    m, n = expected.shape
    return Outcome(
        passed,
        f"{verdict}: {m}x{n} {name} result of {kernel.kernel.name} on {where} in {seconds:.2f} s; "
        f"relative Frobenius error against torch in fp32 {error:.1e}, limit {limit:.0e}",
    )


def run_demo() -> int:
    """The demo; the exit status."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    definition, origin = _definition()
    console.print(f"[bold]1. A fusion[/], from {origin}:\n")
    console.print(repr(definition) if not isinstance(definition, str) else definition)
    extents = Extents(256, 512, 256)
    import torch

    inputs = [torch.empty(rows, extents.k, dtype=torch.bfloat16) for rows in (extents.m, extents.n)]
    kernel = compile(definition, inputs)
    console.print(f"[bold]2. Scheduled[/] as {kernel.kernel.name}. Load and compute loops:\n")
    load, _, compute = loops_text(kernel.fusion).partition("compute sub-DAG\n")
    table = Table("load sub-DAG", "compute sub-DAG", expand=True)
    table.add_row(load.partition("\n")[2].rstrip(), compute.rstrip())
    console.print(table, highlight=False)
    console.print("[bold]3. Executed[/] and checked:")
    outcome = check_definition(definition, extents)
    console.print(f"   {outcome.text}\n", highlight=False)
    folder = _DUMPS / kernel.kernel.name
    files = write_dumps(kernel, folder)
    console.print(f"[bold]4. Every stage[/] lies in {folder}: {len(files)} files, from")
    console.print(f"   {files[0].name} to {files[-1].name}. {kernel.resources}", highlight=False)
    return 0 if outcome.passed else 1


def _definition() -> tuple[Any, str]:
    """A live definition where nvFuser is installed, else the text of the same one."""
    try:
        from nvfuser_direct import DataType, FusionDefinition
    except ImportError as e:
        return LINEAR, f"its text, because nvFuser is not installed ({e})"
    with FusionDefinition() as fd:
        x, w = (
            fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
            for _ in range(2)
        )
        fd.add_output(fd.ops.linear(x, w))
    return fd, "the real nvFuser"
