"""Products of 8 bits beside torch's: ``wsched.scaled_mm`` and ``torch._scaled_mm``, and of integers
``wsched.int_mm`` and ``torch._int_mm``; and of fp32 as TF32 beside ``torch.matmul``.

``python -m wsched.bench.narrow`` measures the anchors of ``wsched bench gemm``, each with scales
that are single numbers and with one for each row and column, with sums that stay in the tensor core
(``fast``) and without, and with scales of blocks of 128 along K. Both sides are captured in CUDA
graphs whose launches rotate among sets of operands that together exceed the L2, and replayed in
turn. A line has the median of the rounds' ratios, TFLOP/s of both, and of both the error against
fp32 (of fp32 against fp64): root of the mean square of the difference over that of the result.
``--settings`` and ``--shapes`` choose; a line takes 2 to 4 seconds, most of them NVRTC's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import wsched
from lowering.ground.errors import UnsupportedError
from wsched.bench.method.appended import append
from wsched.bench.method.gpu import elapsed_us, end_without_gpu
from wsched.bench.method.operands import relative_error
from wsched.bench.method.statistic import geometric_mean, in_turns, paired_ratios
from wsched.bench.problem import ANCHORS, Shape, parse_shapes
from wsched.front.scaled import BLOCK, int_mm_call, scaled_mm_call
from wsched.front.written import definition, run, tensor_line
from wsched.fusion import DataType

__all__ = ["SETTINGS", "Setting", "captured", "compared", "main", "report", "summary"]

_ROUNDS, _REPLAY_US, _CALLS = 10, 15000.0, 4
"""Rounds, time of a replay, and calls from which its launches are reckoned."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is computed.

    Args:
        name: in the report.
        dtype: of both operands, in torch.
        rows: whether rows and columns have scales of their own.
        fast: whether sums of floats stay in the tensor core.
        blocks: rows of A and columns of B that a scale of 128 of K is for; None of other scales.
        result: of a product with scales, in torch; one of 8 bits counts times :data:`_EIGHTH`.
        amax: whether wsched, but not torch, gives the largest absolute value as well.
    """

    name: str
    dtype: str
    rows: bool = False
    fast: bool = False
    blocks: tuple[int, int] | None = None
    result: str = "bfloat16"
    amax: bool = False

    @property
    def eighth(self) -> bool:
        """Whether results have 8 bits, and a scale."""
        return self.result.startswith("float8")

    @property
    def scaled(self) -> bool:
        """Whether operands have scales."""
        return self.dtype.startswith("float8")

    @property
    def integers(self) -> bool:
        """Whether operands are integers, which have no scales here."""
        return self.dtype == "int8"


SETTINGS = (
    Setting("scalar", "float8_e4m3fn"),
    Setting("scalar fast", "float8_e4m3fn", fast=True),
    Setting("rows", "float8_e4m3fn", rows=True),
    Setting("rows fast", "float8_e4m3fn", rows=True, fast=True),
    Setting("blocks", "float8_e4m3fn", blocks=(1, 128)),
    Setting("blocks of rows", "float8_e4m3fn", blocks=(1, 1)),
    Setting("to e4m3", "float8_e4m3fn", result="float8_e4m3fn"),
    Setting("to e4m3, amax", "float8_e4m3fn", result="float8_e4m3fn", amax=True),
    Setting("int8", "int8"),
    Setting("tf32", "float32"),
)

_TF32 = definition(
    *(tensor_line(name, (-1, -1), DataType.TF32) for name in "ab"), "d = fd.ops.linear(a, b)"
)

_EIGHTH = 0.125
"""The scale of a result of 8 bits: of sums of 8192 products none is beyond the largest number."""

Way = Callable[..., Any]


def compared(
    ways: dict[str, Callable[[], object]],
    clock: Callable[[Callable[[], object]], float],
    seed: str,
) -> dict[str, list[float]]:
    """Microseconds of each way in each round; they take turns in an order that is drawn.

    Args:
        ways: what runs, by name.
        clock: microseconds of a call.
        seed: of the orders.
    """
    return in_turns(list(ways), _ROUNDS, seed, lambda name: clock(ways[name]), before=1)


def report(found: dict[str, Any]) -> str:
    """A line for a shape and a setting."""
    head = f"{found['shape']:18} {found['setting']:14}"
    if found.get("skipped"):
        return f"{head} {found['skipped']}"
    ours, theirs = found["tflops"]
    errors = " ".join(f"{e:.2e}" for e in found["errors"])
    return (
        f"{head} {found['ratio']:.3f} of torch  {ours:6.0f} and {theirs:6.0f} TFLOP/s  "
        f"errors {errors}  {found['kernel']}"
    )


def summary(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A line for each setting: the geometric mean and the least of its ratios."""
    for setting in dict.fromkeys(x["setting"] for x in found):
        ratios = [x["ratio"] for x in found if x["setting"] == setting and "ratio" in x]
        if ratios:
            mean = geometric_mean(ratios)
            yield f"{setting:14} {mean:.3f} in geometric mean of {len(ratios)}, {min(ratios):.3f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m wsched.bench.narrow", description=__doc__)
    parser.add_argument("--shapes", help="MxNxK,...; by default the anchors")
    parser.add_argument("--settings", help="names with commas between; by default all")
    parser.add_argument("--json", type=Path, help="file for all numbers, a line each")
    options = parser.parse_args(arguments)
    end_without_gpu(parser)
    import torch

    torch.backends.cuda.matmul.allow_tf32 = True
    shapes = parse_shapes(options.shapes) if options.shapes else ANCHORS
    names = options.settings.split(",") if options.settings else [s.name for s in SETTINGS]
    found = []
    for shape in shapes:
        for setting in (s for s in SETTINGS if s.name in names):
            found.append(_measured(shape, setting))
            print(report(found[-1]), flush=True)
            if options.json:
                append(options.json, found[-1])
    print("\n".join(summary(found)))
    return 0


def _measured(shape: Shape, setting: Setting) -> dict[str, Any]:
    """The times of a shape in a setting."""
    import torch

    beside = {"shape": str(shape), "setting": setting.name}
    sets = _operands(torch, shape, setting)
    ways: dict[str, Way] = {"wsched": _ours(torch, setting), "torch": _theirs(torch, setting)}
    try:
        graphs = {name: captured(torch, way, sets) for name, way in ways.items()}
    except (RuntimeError, UnsupportedError) as e:
        return beside | {"skipped": str(e).partition("\n")[0]}
    launches = {name: count for name, (_, count) in graphs.items()}
    replays = {name: graph.replay for name, (graph, _) in graphs.items()}
    times = compared(replays, elapsed_us, str(shape))
    us = {name: [t / launches[name] for t in ts] for name, ts in times.items()}
    return beside | {
        "ratio": median(paired_ratios(us["torch"], us["wsched"])),
        "tflops": [shape.tflops(median(us[name])) for name in ways],
        "us": us,
        "errors": [_error(torch, way, sets[0], setting) for way in ways.values()],
        "kernel": _kernel(torch, setting, sets[0]),
    }


def _operands(torch: Any, shape: Shape, setting: Setting) -> list[tuple[Any, ...]]:
    """Sets of operands and scales, so many that they exceed twice the L2."""
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    size = shape.k * (shape.m + shape.n) * getattr(torch, setting.dtype).itemsize
    draw = torch.Generator("cuda").manual_seed(0)
    return [_set(torch, draw, shape, setting) for _ in range(max(2, -(-2 * l2 // size)))]


def _set(torch: Any, draw: Any, shape: Shape, setting: Setting) -> tuple[Any, ...]:
    m, n, k = shape.m, shape.n, shape.k
    dtype, cuda = getattr(torch, setting.dtype), {"device": "cuda", "generator": draw}
    if setting.integers:
        a, w = (torch.randint(-128, 128, (x, k), dtype=dtype, **cuda) for x in (m, n))
        return a, w.t()
    if not setting.scaled:
        return tuple(torch.randn(x, k, dtype=dtype, **cuda) for x in (m, n))
    a, w = (torch.randn(x, k, dtype=torch.bfloat16, **cuda).to(dtype) for x in (m, n))
    of_a, of_b = ((m, 1), (1, n)) if setting.rows else ((), ())
    scales = (torch.rand(size, **cuda) + 0.5 for size in (of_a, of_b))
    if setting.blocks is not None:
        pairs = zip((m, n), setting.blocks, strict=True)
        scales = (_block_scales(torch, cuda, rows, k, of) for rows, of in pairs)
        left, right = scales
        return a, w.t(), left, right.t()
    return a, w.t(), *scales


def _block_scales(torch: Any, cuda: dict[str, Any], rows: int, k: int, of: int) -> Any:
    """Scales of an operand [rows, K], with single rows side by side, else K in whole fours: so
    ``torch._scaled_mm`` takes them.
    """
    along, blocks = -(-k // BLOCK), -(-rows // of)
    if of == 1:
        return (torch.rand(along, rows, **cuda) + 0.5).t()
    return (torch.rand(blocks, -(-along // 4) * 4, **cuda) + 0.5)[:, :along]


def _more(torch: Any, setting: Setting) -> dict[str, Any]:
    """Further arguments of ``scaled_mm``, wsched's and torch's."""
    found = {"out_dtype": getattr(torch, setting.result), "use_fast_accum": setting.fast}
    scale = {"scale_result": torch.tensor(_EIGHTH, device="cuda")} if setting.eighth else {}
    return found | scale


def _ours(torch: Any, setting: Setting) -> Way:
    if setting.integers:
        return wsched.int_mm
    if not setting.scaled:
        return lambda a, w: run(_TF32, [a, w])
    more = _more(torch, setting)
    if setting.amax:
        return lambda a, b, x, y: wsched.scaled_mm(a, b, x, y, amax=True, **more)[0]
    return lambda a, b, x, y: wsched.scaled_mm(a, b, x, y, **more)


def _theirs(torch: Any, setting: Setting) -> Way:
    if setting.integers:
        found: Way = torch._int_mm
        return found
    if not setting.scaled:
        return lambda a, w: torch.nn.functional.linear(a, w)
    more = _more(torch, setting)
    return lambda a, b, x, y: torch._scaled_mm(a, b, x, y, **more)


def captured(torch: Any, way: Way, sets: list[tuple[Any, ...]]) -> tuple[Any, int]:
    """A graph of launches that takes about as long as a replay shall; how many."""
    for x in sets:
        way(*x)
    us = elapsed_us(lambda: way(*sets[0]), _CALLS)
    count = max(1, round(_REPLAY_US / us / len(sets))) * len(sets)
    graph = torch.cuda.CUDAGraph()
    results: list[Any] = [None] * len(sets)
    with torch.cuda.graph(graph):
        for i in range(count):
            results[i % len(sets)] = way(*sets[i % len(sets)])
    return graph, count


def _error(torch: Any, way: Way, operands: tuple[Any, ...], setting: Setting) -> float:
    """Distance of a result from fp32's, relative; of integers from fp64's."""
    a, b, *scales = operands
    wide = torch.float32 if setting.scaled else torch.float64
    if setting.blocks is not None:
        (left, right), scales = scales, []
        a, b = (
            x.float() * _spread(scale, of, x.shape)
            for x, scale, of in (
                (a, left, setting.blocks[0]),
                (b.t(), right.t(), setting.blocks[1]),
            )
        )
        b = b.t()
    elif setting.dtype == "float32":
        b = b.t()
    with _exact(torch):
        wanted = a.to(wide) @ b.to(wide)
    for scale in scales:
        wanted = wanted * scale
    found = way(*operands)
    return relative_error(found.float() / _EIGHTH if setting.eighth else found, wanted)


def _spread(scale: Any, rows: int, shape: Any) -> Any:
    """Scales of blocks, one for each element."""
    m, k = shape
    return scale.repeat_interleave(rows, 0)[:m].repeat_interleave(BLOCK, 1)[:, :k]


@contextmanager
def _exact(torch: Any) -> Iterator[None]:
    """Matmuls of fp32 that read all of it."""
    settings = torch.backends.cuda.matmul
    before, settings.allow_tf32 = settings.allow_tf32, False
    try:
        yield
    finally:
        settings.allow_tf32 = before


def _kernel(torch: Any, setting: Setting, operands: tuple[Any, ...]) -> str:
    """The name of wsched's kernel."""
    if setting.integers:
        return wsched.compile(*int_mm_call(*operands)).kernel.name
    if not setting.scaled:
        return wsched.compile(_TF32, list(operands)).kernel.name
    a, b, x, y = operands
    call = scaled_mm_call(a, b, x, y, amax=setting.amax, **_more(torch, setting))
    return wsched.compile(*call).kernel.name


if __name__ == "__main__":
    raise SystemExit(main())
