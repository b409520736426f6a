"""``wsched bundle``: kernels of definitions, compiled at the same time, in one file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from lowering.ground.errors import UnsupportedError, WschedError
from lowering.ground.progress import doing
from lowering.target.target import Target
from lowering.target.targets import DEFAULT
from wsched.choose.gpus import GPUS, Gpu, gpu_of
from wsched.cli.options import (
    Sms,
    TargetName,
    asked_extents,
    asked_target,
    file_of,
    found_file,
    read_definition_file,
    require_folder,
)
from wsched.front.ahead import at_once, kernels_on
from wsched.front.sizes import Extents
from wsched.run.bundles import saved_bundle
from wsched.run.grid import Grid

__all__ = ["bundle", "write"]


def _found_files(files: list[Path]) -> list[Path]:
    return [f for f in files if found_file(f)]


def bundle(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="Definitions or schedules of one.", callback=_found_files
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The bundle to write.")],
    shape: Annotated[
        list[str] | None,
        typer.Option(
            "--shape",
            metavar="MxNxK",
            help="A problem size, as often as wanted; by default the definition's.",
        ),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(
            "--gpu",
            help=f"GPU to plan for: {', '.join(GPUS)}; by default the one here, else the target's "
            "first.",
        ),
    ] = None,
    target: TargetName = None,
    sms: Sms = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, help="Kernels at a time; by default as processors."),
    ] = None,
) -> None:
    """Compile kernels ahead of time into one file, which loads where there is no NVRTC."""
    asked = [asked_extents(s) for s in shape or ()] or [None]
    definitions = [(str(file), read_definition_file(file)) for file in files]
    require_folder(out, "--out")
    lines = write(out, definitions, asked, gpu, sms, jobs, asked_target(target))
    while True:
        with file_of(out, "--out"):
            line = next(lines, None)
        if line is None:
            return
        typer.echo(line)


def write(
    out: Path,
    definitions: Sequence[tuple[str, Any]],
    asked: Sequence[Extents | None],
    gpu: str | None = None,
    sms: int | None = None,
    jobs: int | None = None,
    target: Target | None = None,
) -> Iterator[str]:
    """Write a bundle; yield a line for each kernel, and a last one.

    Args:
        out: the file, in a folder that exists.
        definitions: with the names of their files.
        asked: sizes of each of them; None for what it says itself.
        gpu: short name of the GPU to plan for; None for the one that is here, else an H200.
        sms: multiprocessors that a part of it has.
        jobs: kernels to compile at a time.
        target: of the GPU; where none is named, its first one, unless it is here.

    Raises:
        UnsupportedError: a definition without a kernel, which is named; a GPU that is not known.
        OSError: the file cannot be written.
    """
    device = _gpu(gpu, target)
    if sms is not None:
        device = replace(device, sms=sms)
    seen: set[str] = set()
    with saved_bundle(out, str(device)), at_once(jobs) as pool:
        futures = [
            (name, pool.submit(kernels_on, device, definition, extents))
            for name, definition in definitions
            for extents in asked
        ]
        for number, (name, future) in enumerate(futures, 1):
            try:
                with doing(f"definition {number} of {len(futures)}: {name}"):
                    kernels = future.result()
            except WschedError as e:
                pool.shutdown(cancel_futures=True)
                if isinstance(e, UnsupportedError):
                    raise UnsupportedError(f"{name}: {e.what}", e.supported, e.hint) from None
                raise UnsupportedError(f"{name}: {e}", "definitions with kernels") from None
            yield from (f"{name}: {k.name}" for k in _new(kernels, seen))
    yield f"{out}: {len(seen)} kernel{'s' * (len(seen) != 1)} for {device}"


def _new(kernels: Sequence[Grid], seen: set[str]) -> Iterator[Grid]:
    """Those that no definition before had."""
    for kernel in kernels:
        if kernel.source not in seen:
            seen.add(kernel.source)
            yield kernel


def _gpu(name: str | None, target: Target | None) -> Gpu:
    """The GPU to plan for.

    Raises:
        UnsupportedError: it is not known, or of another target.
    """
    if name is None:
        return _here(target)
    if name not in GPUS:
        raise UnsupportedError(f"--gpu {name}", ", ".join(GPUS))
    found = GPUS[name]
    if target is not None and target.arch != found.target.arch:
        what = f"--gpu {name} is of {found.target.arch}: --target {target.arch} beside it"
        raise UnsupportedError(what, f"--target {found.target.arch}, or none")
    return found


def _here(target: Target | None) -> Gpu:
    """The GPU that is here if it is of a target, or none is asked for; else the target's first."""
    other = gpu_of(target or DEFAULT)
    try:
        import torch
    except ImportError:
        return other
    if not torch.cuda.is_available():
        return other
    here = Gpu.of(torch.cuda.get_device_properties(torch.cuda.current_device()))
    return other if target is not None and here.target.arch != target.arch else here
