"""``wsched trace``: when each warp waited, computed and stored, recorded or predicted."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lowering.ground.errors import UnsupportedError
from lowering.ground.files import save_file
from wsched.cli.asked import asked_kernel
from wsched.cli.check import device, sized_inputs
from wsched.cli.options import (
    File,
    Params,
    Shape,
    Sms,
    TargetName,
    file_of,
    named,
    planned_for,
    read_problem,
    require_folder,
)
from wsched.front.sizes import Extents
from wsched.run.compiled import CompiledFusion
from wsched.run.cpu import MULTIPROCESSORS
from wsched.trace.overlay import Overlay
from wsched.trace.perfetto import load_trace

if TYPE_CHECKING:
    from wsched.trace.timeline import Trace

__all__ = ["trace"]

RESTED = "  of one launch on a GPU that has rested: what the power limit takes is in wsched why\n"
"""Why a predicted time line is shorter than what is predicted of a kernel that runs for ever."""

FEW = f"  run by the machine model, which has {MULTIPROCESSORS} multiprocessors\n"
"""Why CTAs are few."""


def trace(
    file: File,
    shape: Shape = None,
    sms: Sms = None,
    params: Params = None,
    target: TargetName = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the random inputs.")] = 0,
    predict: Annotated[
        bool,
        typer.Option("--predict", help="Predict it by the cost model; beside a GPU's, if any."),
    ] = False,
    measured: Annotated[
        Path | None,
        typer.Option(
            "--measured",
            help="What --json has written elsewhere, in place of a run, beside --predict.",
        ),
    ] = None,
    json_path: Annotated[
        Path | None, typer.Option("--json", help="Write the time line for ui.perfetto.dev.")
    ] = None,
    plot_path: Annotated[
        Path | None, typer.Option("--plot", help="Write the first CTAs' time line as a PNG.")
    ] = None,
) -> None:
    """Run a definition with clocks: when each warp waited, computed and stored."""
    if measured is not None and not predict:
        why = "is shown beside a prediction; give --predict, too"
        raise typer.BadParameter(why, param_hint="--measured")
    require_folder(json_path, "--json")
    require_folder(plot_path, "--plot")
    if find_spec("torch") is None and not predict:
        raise UnsupportedError("tracing without torch", "torch tensors", "Install torch")
    definition, extents = read_problem(file, shape)
    asked = asked_kernel(definition, params, target, sms)
    where, sms = device(asked.planned), asked.sms
    recorded: Trace | None = None
    if measured is not None:
        with file_of(measured, "--measured"):
            recorded = load_trace(measured)
    with named(file):
        kernel = asked.kernel(definition, extents)
        if measured is None and (not predict or where == "cuda"):
            recorded = _timeline(kernel, extents, seed, where)
        if predict or recorded is None:
            found: Trace | Overlay = _predicted(kernel, extents, sms, recorded)
        else:
            found = recorded
    note = RESTED if recorded is None else FEW if recorded.unit != "ns" else ""
    typer.echo(f"{found.table()}{planned_for(definition, sms)}{note}", nl=False)
    if json_path is not None:
        with file_of(json_path, "--json"):
            save_file(json_path, json.dumps(found.perfetto()).encode())
    if plot_path is not None:
        with file_of(plot_path, "--plot"):
            found.plot(plot_path)


def _timeline(kernel: CompiledFusion, extents: Extents, seed: int, where: str) -> Trace:
    inputs: list[Any] = sized_inputs(kernel, extents, seed, where)
    return kernel.trace(*inputs)


def _predicted(
    kernel: CompiledFusion, extents: Extents, sms: int, recorded: Trace | None
) -> Trace | Overlay:
    from wsched.predict.line import beside, predicted

    problem = extents.problem(kernel.fusion, sms)
    if recorded is not None:
        return beside(kernel, extents, problem, recorded)
    return predicted(kernel, extents, problem, stamped=True).trace
