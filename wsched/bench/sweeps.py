"""What is pointwise beside matmuls: wsched's kernels against nvFuser's, on the GPU and on the host.

``python -m wsched.bench.sweeps`` prints a line for each case: microseconds of a call on the GPU (a
graph of calls on tensors that take turns, so that nothing is left in the L2), bytes a second that
this is, and microseconds that a call takes on the host, many in a row. Results are compared with
torch's first.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

from lowering.ground.errors import UnsupportedError
from wsched.bench.method.gpu import end_without_gpu
from wsched.bench.method.graphs import of_each, timed
from wsched.bench.method.operands import relative_error
from wsched.choose.arithmetic import swept_instructions
from wsched.choose.sweep_cost import accesses_us
from wsched.doors.fallback import execute, interpret, rebuild
from wsched.front.cut.infer import infer
from wsched.front.cut.order import Order, Orders, declared_order
from wsched.importer import Definition, record_text
from wsched.importer.sweep import import_sweep
from wsched.run.sweep import compiled_sweep

__all__ = ["CASES", "Case", "beside", "main", "measured", "report"]

_CALLS, _BATCHES = 200, 7
_SETS_BYTES = 200 << 20
"""Tensors that take turns have more than the L2 holds, at least two sets."""


@dataclass(frozen=True, slots=True)
class Case:
    """Operations on tensors of one index space.

    Args:
        body: the definition's lines; inputs are ``t0``, ``t1`` and so on.
        inputs: sizes and type of each.
        turned: for the positions of inputs that lie otherwise than row by row, their dimensions as
            they lie, outermost first.
    """

    body: str
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    turned: tuple[tuple[int, tuple[int, ...]], ...] = ()

    @property
    def text(self) -> str:
        """The definition."""
        lines = ["def nvfuser_fusion(fd : FusionDefinition) -> None :"]
        orders = dict(self.turned)
        for at, (shape, dtype) in enumerate(self.inputs):
            ranks = range(len(shape))
            order = orders.get(at, tuple(ranks))
            strides = [len(shape) - 1 - order.index(d) for d in ranks]
            lines.append(
                f"    t{at} = fd.define_tensor(shape={list(shape)}, "
                f"contiguity={[True] * len(shape)}, dtype=DataType.{dtype}, is_cpu=False, "
                f"stride_order={strides})"
            )
        return "\n".join([*lines, *(f"    {x.strip()}" for x in self.body.split(";")), ""])

    def tensors(self, device: str) -> list[Any]:
        """Inputs, normally distributed; an index says rows of the first one."""
        import torch

        orders, found = dict(self.turned), []
        for at, (shape, dtype) in enumerate(self.inputs):
            if dtype == "Int":
                found.append(torch.randint(self.inputs[0][0][0], shape, device=device))
                continue
            order = orders.get(at, tuple(range(len(shape))))
            made = torch.randn([shape[d] for d in order], device=device)
            kind = {"BFloat16": torch.bfloat16, "Half": torch.float16, "Float": torch.float32}
            made = made > 0 if dtype == "Bool" else made.to(kind[dtype])
            found.append(made.permute([order.index(d) for d in range(len(order))]))
        return found


_ADD = "a = fd.ops.add(t0, t1); c = fd.ops.cast(a, dtype=DataType.BFloat16); fd.add_output(c)"
_GATE = (
    "a = fd.ops.silu(t0); b = fd.ops.mul(a, t1); c = fd.ops.cast(b, dtype=DataType.BFloat16); "
    "fd.add_output(c)"
)
_GELU = (
    "f = fd.ops.cast(t0, dtype=DataType.Float); e = fd.ops.mul(f, 0.70710678); r = fd.ops.erf(e); "
    "o = fd.ops.add(r, 1.0); h = fd.ops.mul(f, 0.5); g = fd.ops.mul(h, o); "
    "c = fd.ops.cast(g, dtype=DataType.BFloat16); fd.add_output(c)"
)
_MASK = (
    "s = fd.ops.mul(t0, 0.125); w = fd.ops.where(t1, s, -1e4); "
    "c = fd.ops.cast(w, dtype=DataType.BFloat16); fd.add_output(c); fd.add_output(w)"
)
_TURN = "s = fd.ops.mul(t0, 0.5); c = fd.ops.cast(s, dtype=DataType.BFloat16); fd.add_output(c)"
_HEADS = (
    "p = fd.ops.permute(t0, dims=[0, 2, 1, 3]); s = fd.ops.mul(p, 0.125); "
    "c = fd.ops.cast(s, dtype=DataType.BFloat16); "
    "o = fd.ops.stride_order(c, stride_order=[3, 2, 1, 0]); fd.add_output(o)"
)
_BIAS = (
    "b = fd.ops.broadcast(t1, is_broadcast_dim=[True, False]); a = fd.ops.add(t0, b); "
    "s = fd.ops.sin(a); c = fd.ops.cast(s, dtype=DataType.BFloat16); fd.add_output(c)"
)
_SOFTMAX = (
    "f = fd.ops.cast(t0, dtype=DataType.Float); m = fd.ops.max(f, dims=[1], keepdim=True); "
    "d = fd.ops.sub(f, m); e = fd.ops.exp(d); s = fd.ops.sum(e, dims=[1], keepdim=True); "
    "o = fd.ops.div(e, s); c = fd.ops.cast(o, dtype=DataType.BFloat16); fd.add_output(c)"
)
_NORM = (
    "a = fd.ops.add(t0, t1); f = fd.ops.cast(a, dtype=DataType.Float); "
    "s = fd.ops.sum(f, dims=[1], keepdim=True); m = fd.ops.mul(s, 0.0009765625); "
    "d = fd.ops.sub(f, m); q = fd.ops.mul(d, d); v = fd.ops.sum(q, dims=[1], keepdim=True); "
    "w = fd.ops.mul(v, 0.0009765625); e = fd.ops.add(w, 1e-5); r = fd.ops.rsqrt(e); "
    "o = fd.ops.mul(d, r); c = fd.ops.cast(o, dtype=DataType.BFloat16); fd.add_output(c)"
)
_ROWS = "c = fd.ops.index_select(t0, t1, dim=0); fd.add_output(c)"
_COMBINED = (
    "a = fd.ops.index_select(t0, t1, dim=0); b = fd.ops.index_select(t0, t2, dim=0); "
    "v = fd.ops.broadcast(t3, is_broadcast_dim=[False, True]); d = fd.ops.mul(a, v); "
    "w = fd.ops.broadcast(t4, is_broadcast_dim=[False, True]); e = fd.ops.mul(b, w); "
    "s = fd.ops.add(d, e); c = fd.ops.cast(s, dtype=DataType.BFloat16); fd.add_output(c)"
)
_WIDE = (8192, 4096)

CASES: Mapping[str, Case] = {
    "residual": Case(_ADD, ((_WIDE, "BFloat16"), (_WIDE, "BFloat16"))),
    "residual of 512 rows": Case(_ADD, (((512, 1024), "BFloat16"), ((512, 1024), "BFloat16"))),
    "residual of fp32": Case(_ADD, ((_WIDE, "Float"), (_WIDE, "BFloat16"))),
    "odd rows": Case(_ADD, (((8191, 4095), "BFloat16"), ((8191, 4095), "BFloat16"))),
    "odd rows and a bias": Case(_BIAS.replace("s = fd.ops.sin(a); ", "").replace("(s,", "(a,"),
                             (((8191, 4095), "BFloat16"), ((4095,), "Float"))),
    "odd count": Case(_ADD, (((33542147,), "BFloat16"), ((33542147,), "BFloat16"))),
    "gate": Case(_GATE, ((_WIDE, "BFloat16"), (_WIDE, "BFloat16"))),
    "gelu": Case(_GELU, ((_WIDE, "BFloat16"),)),
    "bias and sine": Case(_BIAS, ((_WIDE, "BFloat16"), ((4096,), "Float"))),
    "mask and two results": Case(
        _MASK, (((16, 1024, 1024), "BFloat16"), ((16, 1024, 1024), "Bool"))
    ),
    "heads": Case(_HEADS, (((8, 1024, 32, 128), "BFloat16"),)),
    "transposed": Case(_TURN.replace("0.5)", "0.5); q = fd.ops.permute(s, dims=[1, 0])").replace(
        "cast(s", "cast(q").replace(
            "fd.add_output(c)",
            "o = fd.ops.stride_order(c, stride_order=[1, 0]); fd.add_output(o)",
        ), ((_WIDE, "BFloat16"),)),
    "softmax": Case(_SOFTMAX, (((65536, 1024), "BFloat16"),)),
    "residual and norm": Case(_NORM, (((16384, 1024), "BFloat16"), ((16384, 1024), "BFloat16"))),
    "rows by index": Case(_ROWS, (((4096, 4096), "BFloat16"), ((8192,), "Int"))),
    "two rows of each token": Case(_COMBINED, (
        (_WIDE, "BFloat16"), *[((4096,), "Int")] * 2, *[((4096,), "Float")] * 2,
    )),
    "by columns": Case(_TURN, ((_WIDE, "BFloat16"),), turned=((0, (1, 0)),)),
}  # fmt: skip


def report(found: Mapping[str, Any]) -> str:
    """A line for a case."""
    us, host = found["us"], found["host_us"]
    times = "  ".join(f"{name} {us[name]:7.1f} (host {host[name]:5.1f})" for name in us)
    rate = found["bytes"] / us["wsched"] / 1e6
    beside = (
        f"{us['nvfuser'] / us['wsched']:.2f} times as fast as nvFuser"
        if ("nvfuser" in us)
        else found.get("failed", "alone")
    )
    return (
        f"{found['case']:22} {times} us; wsched {rate:.2f} TB/s, {beside}, "
        f"predicted {found['predicted_us']:.1f}, error {found['error']:.1e}"
    )


def measured(name: str, case: Case, nvfuser: bool = True) -> dict[str, Any]:
    """Microseconds of a case on the GPU and on the host; what nvFuser says where it fails.

    Raises:
        RuntimeError: a result is wrong.
    """
    definition = record_text(case.text)
    kernel = compiled_sweep(import_sweep(definition, lies_of(definition)))
    sizes = kernel.sweep.sizes([shape for shape, _ in case.inputs])
    moved = kernel.sweep.bytes(sizes)
    sets = [case.tensors("cuda") for _ in range(max(2, -(-_SETS_BYTES // moved)))]
    wanted = interpret(definition, sets[0])
    error = max(
        relative_error(a, b) for a, b in zip(kernel(*sets[0]), wanted, strict=True)
    )  # equal but for functions, which differ in the last bits
    if not error < 2**-8:
        raise RuntimeError(f"{name} is wrong: {error}")
    runs: dict[str, Callable[[Sequence[Any]], Any]] = {"wsched": kernel.repeated()}
    failed = None
    if nvfuser:
        try:
            runs["nvfuser"] = beside(definition, sets[0])
        except UnsupportedError as e:
            failed = f"nvFuser fails: {e}"
    ways = {n: of_each(run, sets) for n, run in runs.items()}
    told = {} if failed is None else {"failed": failed}
    walk = kernel.walk(sets[0])
    predicted = accesses_us(walk.accessed(), swept_instructions(walk.sweep, walk.sizes))
    return told | {
        "case": name, "bytes": moved, "predicted_us": predicted, "error": error,
        "us": timed(ways),
        "host_us": {n: _host_us(run, sets[0]) for n, run in runs.items()},
    }  # fmt: skip


def lies_of(definition: Definition) -> list[Order]:
    """The orders in memory in which nvFuser gives the results, which wsched's kernel writes too."""
    orders = Orders(definition, infer(definition))
    found = []
    for name in definition.outputs:
        node = definition.node(name)
        said = None if node is None or node.op != "stride_order" else declared_order(node)
        order = said or orders.of(name)
        assert order is not None
        found.append(order)
    return found


def beside(definition: Definition, values: Sequence[Any]) -> Callable[[Sequence[Any]], Any]:
    """NvFuser's way of a definition, of which a first call is made.

    Raises:
        UnsupportedError: it has none, or fails.
    """
    fd = rebuild(definition)
    execute(fd, values)
    return lambda given: execute(fd, given)


def _host_us(run: Callable[[Sequence[Any]], Any], values: Sequence[Any]) -> float:
    """What a call takes on the host, where the GPU is not waited for."""
    import torch

    def batch() -> float:
        torch.cuda.synchronize()
        start = perf_counter()
        for _ in range(_CALLS):
            run(values)
        return (perf_counter() - start) * 1e6 / _CALLS

    batch()
    return median(batch() for _ in range(_BATCHES))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m wsched.bench.sweeps", description=__doc__)
    parser.add_argument("--cases", default=",".join(CASES), help="names, with commas between them")
    parser.add_argument("--alone", action="store_true", help="without nvFuser")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    end_without_gpu(parser)
    for found in _all(options.cases.split(","), not options.alone):
        print(json.dumps(found) if options.json else report(found), flush=True)
    return 0


def _all(names: Sequence[str], nvfuser: bool) -> Iterator[dict[str, Any]]:
    for name in names:
        if name not in CASES:
            raise UnsupportedError(f"the case {name}", ", ".join(CASES))
        yield measured(name, CASES[name], nvfuser)


if __name__ == "__main__":
    raise SystemExit(main())
