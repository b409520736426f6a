"""A kernel or more of each family on the GPU, on the launches that its mutants are judged on.

``compute-sanitizer --tool memcheck --report-api-errors no python -m tests.gpu.families`` looks at
each access of each; small sizes, because a launch takes a hundred times as long under it. What the
kernels write is compared with what the machine makes of the same launch: operands are small
integers, so products agree to the bit, and functions of them to the error of a GPU's.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

import torch

from lowering.cuda.emit import emit_cuda
from lowering.cuda.launch import LoadedKernel
from lowering.kernel.kernel import Kernel
from tests.mutants.launches import Launch
from tests.mutants.subjects import HOPPER, SUBJECTS, Subject, family, subject
from wsched.run.bundles import compiled_text
from wsched.run.workspace import Workspace

__all__ = ["loaded", "ran", "wrong"]

_THREADS = 8
"""That make cubins."""

TOLERANCE = 0.02
"""Of results that are functions of products, relative and absolute."""


def loaded(right: Subject) -> LoadedKernel:
    """The kernel of a subject in the driver's hands."""
    return LoadedKernel(right.kernel, _cubin(right.kernel, emit_cuda(right.kernel)), Workspace.of)


def _cubin(kernel: Kernel, source: str) -> bytes:
    """From the disk cache, or made."""
    return compiled_text(source, f"{kernel.name}.cu", kernel.target.arch).cubin


def ran(kernel: LoadedKernel, launch: Launch, device: str = "cuda") -> Mapping[str, torch.Tensor]:
    """All matrices after a launch, which is waited for."""
    tensors = {
        name: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=device).copy_(t)
        for name, t in launch.tensors.items()
    }
    kernel.prepare(tensors, launch.extents, launch.grid)()
    torch.cuda.synchronize()
    return tensors


def wrong(right: Subject, launch: Launch, found: Mapping[str, torch.Tensor]) -> str:
    """What differs from the machine's results; empty if nothing does."""
    wanted = launch.after(right.kernel)
    for name, tensor in found.items():
        a, b = tensor.cpu().double(), wanted[name].double()
        if not torch.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
            off = ~torch.isclose(a, b, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
            return f"{int(off.sum())} of {off.numel()} elements of {name} are wrong"
    return ""


def _all(names: list[str], judged: bool) -> Iterator[tuple[str, int, str]]:
    rights = [subject(name) for name in names]
    sources = [emit_cuda(right.kernel) for right in rights]
    with ThreadPoolExecutor(_THREADS) as pool:
        _ = [*pool.map(_cubin, (right.kernel for right in rights), sources)]
    for name, right in zip(names, rights, strict=True):
        kernel = loaded(right)
        for at, launch in enumerate(right.launches):
            found = ran(kernel, launch)
            yield name, at, wrong(right, launch, found) if judged else ""


def main() -> int:
    """Launch all; exit status 1 if one was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=SUBJECTS, default=[*HOPPER])
    parser.add_argument("--unjudged", action="store_true", help="leave the machine out: quicker")
    asked: Any = parser.parse_args()
    begin, done = perf_counter(), []
    for name, at, why in _all(asked.only, not asked.unjudged):
        done.append((name, why))
        if why:
            print(f"WRONG {name}, launch {at}: {why}", flush=True)
    bad = sum(bool(why) for _, why in done)
    families = len({family(name) for name, _ in done})
    print(
        f"{len(done)} launches of {len(asked.only)} kernels of {families} families in "
        f"{perf_counter() - begin:.0f} s, {bad or 'none'} wrong",
        flush=True,
    )
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
