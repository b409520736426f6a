"""CUDA text of every schedule in the tests, a file each: what a change of the compiler changes.

``python -m tests.replay DIR`` writes the files; do it before and after a change and compare them
with ``diff -r``. A change that claims to alter no kernel shows no difference.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lowering.ground.errors import ScheduleError, UnsupportedError
from tests.epilogues import GELU, RESIDUAL, SILU, TWO_OUTPUTS, WHERE
from tests.schedules import LAYOUTS, SCHEDULES, definition, for_result
from wsched.importer import build_fusion, record_text
from wsched.run.compiled import compile_fusion
from wsched.schedule.matmul.params import MatmulParams

__all__ = ["cases", "replay"]

_EPILOGUES = {
    "gelu": GELU, "residual": RESIDUAL, "silu": SILU, "two_outputs": TWO_OUTPUTS, "where": WHERE,
}  # fmt: skip


def cases() -> Iterator[tuple[str, str, MatmulParams]]:
    """Name, definition and parameters of each kernel; some pairs are refused."""
    for name, params in SCHEDULES.items():
        yield name, definition(), params
        yield f"{name}-f32", definition(result="f32"), for_result(params, "f32")
        stores = replace(params, use_smem_epilogue=False)
        yield f"{name}-registers", definition(), stores
        for epilogue, text in _EPILOGUES.items():
            yield f"{name}-{epilogue}", text, params
        few = replace(for_result(params, "bf16", inputs=("bf16",)), epilogue_input_stages=2)
        yield f"{name}-residual-staged", RESIDUAL, few
    for layout in LAYOUTS:
        for name in ("coop_128x256", "pingpong_128x128", "cluster_2x2", "stream_k", "dynamic"):
            yield f"{name}-{layout}", definition("f16", "f16", layout=layout), SCHEDULES[name]
    for op in ("matmul", "matmul_t"):
        yield f"coop_128x128-{op}", definition(op=op), SCHEDULES["coop_128x128"]


def replay(folder: Path) -> tuple[int, int]:
    """Write each kernel's text, or why there is none; how many of both."""
    folder.mkdir(parents=True, exist_ok=True)
    made = refused = 0
    for name, text, params in cases():
        try:
            source = compile_fusion(build_fusion(record_text(text)), params).source
            made += 1
        except (ScheduleError, UnsupportedError) as e:
            source = f"{type(e).__name__}: {e}\n"
            refused += 1
        (folder / f"{name}.cu").write_text(source)
    return made, refused


if __name__ == "__main__":
    print("{} kernels, {} refused".format(*replay(Path(sys.argv[1]))))
