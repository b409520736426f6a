"""``wsched bench mlp``: a block of two layers through ``FusionDefinition.execute``, call by call.

gelu(x · w1ᵀ + b) · w2ᵀ + x in one definition: nvFuser alone runs it as two matmuls of cuBLAS and
two kernels of its own, with wsched in front it is two kernels. Calls are eager, one after the other
without a CUDA graph, and timed from a synchronization to the next one, so the host's time counts
where the GPU waits for it. The ways take turns, in an order that is drawn for each round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import typer
from rich.console import Console

from wsched.bench.fused.epilogue import EPILOGUES
from wsched.bench.gemm.results import check_path, save
from wsched.bench.method.environment import environment
from wsched.bench.method.gpu import require_gpu
from wsched.bench.method.operands import relative_error
from wsched.bench.method.statistic import in_turns
from wsched.bench.method.tokens import tokens_of
from wsched.doors.fallback import rebuild
from wsched.importer import record_text

__all__ = ["Row", "Times", "mlp", "mlp_definition", "report", "times_of"]

NVFUSER, WSCHED = "nvfuser", "wsched"

TOLERANCE = 1.5e-2
"""Largest relative Frobenius error against fp32: bf16 results of bf16 intermediates."""

_CHECKED_ROWS = 256


@dataclass(frozen=True, slots=True)
class Times:
    """Microseconds of a call, medians of the rounds.

    Args:
        us: from call to call.
        host_us: until the call returns.
        error: relative, of the result against fp32.
    """

    us: float
    host_us: float
    error: float


@dataclass(frozen=True, slots=True)
class Row:
    """The block for a number of tokens.

    Args:
        tokens: rows of x.
        times: of each way.
        decision: what wsched says it does, and what it predicts.
        taken: whether wsched runs a part.
    """

    tokens: int
    times: dict[str, Times]
    decision: str
    taken: bool

    @property
    def ratio(self) -> float:
        """How much faster it is with wsched."""
        return self.times[NVFUSER].us / self.times[WSCHED].us

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self) | {"ratio": self.ratio}


def mlp(
    tokens: str = typer.Option("512,2048,8192", help="Rows of x, separated by commas."),
    width: int = typer.Option(4096, min=8, help="Columns of x and of the result."),
    hidden: int = typer.Option(14336, min=8, help="Columns between the two layers."),
    rounds: int = typer.Option(20, min=1, help="Counted rounds."),
    burst_ms: float = typer.Option(20.0, min=0.1, help="Time of a way in a round."),
    seed: int = typer.Option(0, help="Of the operands."),
    json_path: Path | None = typer.Option(None, "--json", help="Write what was measured."),
) -> None:
    """Compare a block of two layers with wsched installed and without.

    The exit status is 1 if a result is wrong.
    """
    sizes = tokens_of(tokens)
    if json_path is not None:
        check_path(json_path)
    require_gpu("wsched bench mlp")
    import torch

    rows = []
    for rows_of_x in sizes:
        inputs = _operands(rows_of_x, width, hidden, seed)
        rows.append(_measured(inputs, rounds, burst_ms))
        Console().print(report(rows[-1]), markup=False, highlight=False, soft_wrap=True)
        if json_path is not None:
            command = {"width": width, "hidden": hidden, "rounds": rounds, "burst_ms": burst_ms}
            gpu = {"name": torch.cuda.get_device_name()}
            data = {"environment": environment(gpu), "command": command | {"seed": seed}}
            save(json_path, data | {"rows": [r.to_dict() for r in rows]})
    if any(t.error > TOLERANCE for r in rows for t in r.times.values()):
        raise typer.Exit(1)


def mlp_definition() -> str:
    """The text of the block: x, w1, b, w2, sizes symbolic, bf16."""
    kind = "DataType.BFloat16"
    shapes = {"x": [-1, -1], "w": [-1, -1], "e0": [-1], "w2": [-1, -1]}
    lines = [
        f"{name} = fd.define_tensor(shape={shape}, contiguity={[True] * len(shape)}, "
        f"dtype={kind}, is_cpu=False)"
        for name, shape in shapes.items()
    ]
    lines += [line.format(dtype=kind) for line in EPILOGUES["gelu"].lines]
    lines += [
        "o = fd.ops.linear(d, w2)",
        "s = fd.ops.add(o, x)",
        f"r = fd.ops.cast(s, dtype={kind})",
        "fd.add_output(r)",
    ]
    head = "def nvfuser_fusion(fd : FusionDefinition) -> None :\n"
    return head + "".join(f"    {line}\n" for line in lines)


def _operands(tokens: int, width: int, hidden: int, seed: int) -> list[Any]:
    """x, w1, b, w2, such that every product has deviation 1."""
    import torch

    generator = torch.Generator("cuda").manual_seed(seed)
    shapes = ((tokens, width), (hidden, width), (hidden,), (width, hidden))
    made = [torch.randn(s, generator=generator, device="cuda") for s in shapes]
    made[1] *= width**-0.5
    made[3] *= hidden**-0.5
    return [t.bfloat16() for t in made]


def _measured(inputs: list[Any], rounds: int, burst_ms: float) -> Row:
    import torch

    from wsched.doors.dropin import decision_of, enabled
    from wsched.doors.dropin.patch import nvfusers_own

    alone: Any = rebuild(record_text(mlp_definition()))
    shared: Any = rebuild(record_text(mlp_definition()))
    decision = decision_of(shared, inputs)
    synchronize: Callable[[], object] = torch.cuda.synchronize
    own: Any = nvfusers_own(type(alone))
    with enabled():
        installed: Any = type(shared).execute
        ways: dict[str, Callable[[], Any]] = {
            NVFUSER: lambda: own(alone, inputs),
            WSCHED: lambda: installed(shared, inputs),
        }
        errors = {name: _error(way()[0], inputs) for name, way in ways.items()}
        us = times_of(ways, synchronize, rounds, burst_ms * 1e3, str(inputs[0].shape[0]))
    times = {name: Times(*us[name], errors[name]) for name in ways}
    return Row(inputs[0].shape[0], times, str(decision), decision.taken)


def _error(result: Any, inputs: Sequence[Any]) -> float:
    """Relative Frobenius error of the first rows."""
    from torch.nn.functional import gelu, linear

    x, w1, b, w2 = (t.float() for t in inputs)
    x = x[:_CHECKED_ROWS]
    hidden = gelu(linear(x, w1, b), approximate="tanh").bfloat16().float()
    wanted = linear(hidden, w2) + x
    return relative_error(result[:_CHECKED_ROWS], wanted)


def times_of(
    ways: Mapping[str, Callable[[], object]],
    synchronize: Callable[[], object],
    rounds: int,
    burst_us: float,
    seed: str,
    clock: Callable[[], float] = perf_counter,
) -> dict[str, tuple[float, float]]:
    """Microseconds from call to call and on the host, medians of rounds in which ways take turns,
    each round in another order: a way inherits the clock and the heat of the one in front of it.

    Args:
        ways: name -> one call.
        synchronize: waits until the GPU is idle.
        rounds: that count; there is one before them.
        burst_us: about how long a way runs in a round.
        seed: of the orders.
        clock: seconds.
    """

    def burst(way: Callable[[], object], calls: int) -> tuple[float, float]:
        synchronize()
        begin = clock()
        for _ in range(calls):
            way()
        returned = clock()
        synchronize()
        return (clock() - begin) / calls * 1e6, (returned - begin) / calls * 1e6

    calls = {name: max(3, round(burst_us / burst(way, 3)[0])) for name, way in ways.items()}
    timed = lambda name: burst(ways[name], calls[name])  # noqa: E731
    seen = in_turns(list(ways), rounds, seed, timed, before=1)
    return {
        name: (median(us for us, _ in found), median(host for _, host in found))
        for name, found in seen.items()
    }


def report(row: Row) -> str:
    """Lines for a number of tokens."""
    alone, shared = row.times[NVFUSER], row.times[WSCHED]
    wrong = "".join(
        f"  WRONG: {name} is off by {t.error:.1e}" for name, t in row.times.items()
        if t.error > TOLERANCE
    )  # fmt: skip
    return (
        f"{row.tokens:6} tokens: nvFuser {alone.us:8.1f} us (host {alone.host_us:.1f}), with "
        f"wsched {shared.us:8.1f} us (host {shared.host_us:.1f}), {row.ratio:.3f} as fast{wrong}\n"
        f"       {row.decision}"
    )
