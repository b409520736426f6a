"""The main job from end to end: define, schedule, show, run, check."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wsched.cli.check import check, device, multiprocessors, random_inputs
from wsched.front.known import import_fusion
from wsched.front.sizes import Extents, kernel_for
from wsched.importer.linear import LINEAR
from wsched.run.compiled import CompiledFusion
from wsched.run.cpu import MULTIPROCESSORS
from wsched.schedule.loops import side_by_side

__all__ = ["run_demo"]

EXTENTS = {"cpu": Extents(256, 512, 256), "cuda": Extents(4096, 4096, 4096)}
"""Few tiles for the machine model, but several for each CTA; a usual problem for a GPU."""


def run_demo(folder: Path = Path("wsched-dump")) -> int:
    """Print the demo, write the dumps below ``folder``; the exit status, 0 if the result is right.

    Raises:
        UnsupportedError: a GPU that has no kernel, or no NVRTC.
    """
    definition, origin = _definition()
    where = device()
    extents = EXTENTS[where]
    fusion = import_fusion(definition)
    sms = multiprocessors(MULTIPROCESSORS if where == "cpu" else None)
    kernel = kernel_for(definition, extents, sms)
    print(f"1. A fusion, from {origin}\n")
    print(_indented(str(definition)))
    print(f"2. Scheduled for M x N x K = {extents} on {sms} multiprocessors:")
    print(f"   {kernel.kernel.name}\n")
    print(_indented(side_by_side(kernel.fusion, 100 - len(_INDENT))))
    print("   The schedule is legal because the load loop's index follows from compute's loops:\n")
    print(_indented("".join(map(str, kernel.plan.relations))))
    print("3. Executed and checked\n")
    outcome = check(kernel, random_inputs(fusion, extents, 0, where))
    print(_indented(outcome.text))
    print("4. Every stage of its making\n")
    print(_indented(_stages(kernel, folder / kernel.kernel.name)))
    return 0 if outcome.passed else 1


_INDENT = " " * 3


def _indented(text: str) -> str:
    return "".join(f"{_INDENT}{line}".rstrip() + "\n" for line in text.rstrip().splitlines())


def _stages(kernel: CompiledFusion, folder: Path) -> str:
    try:
        dumps = kernel.dump_all(folder)
    except OSError as e:
        return f"not written, because {folder}: {e.strerror}"
    first, last = dumps.files[0].name, dumps.files[-1].name
    lines = [f"{len(dumps.files)} files, {first} to {last}, in", f"{folder}/"]
    lines += [f"without {reason}" for reason in dumps.missing]
    if not dumps.missing:
        r = kernel.resources
        lines.append(
            f"ptxas: {r.registers} registers at entry, {r.spilled} bytes "
            f"spilled, {r.stack} bytes of stack, {len(r.warnings)} warnings"
        )
    return "\n".join(lines)


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
