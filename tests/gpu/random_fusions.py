"""Random fusions x shapes x layouts through ``wsched.execute``, counted by the way they went.

``python -m tests.gpu.random_fusions --count 2000 --seed 1 --seconds 300``

With ``--schedules`` each is compiled with a schedule drawn from those of the tests, in place of the
heuristic's choice.

A case is what a user of nvFuser might write: a matmul, an epilogue of up to 12 pointwise operations
with row, column, matrix and scalar inputs and one or two results, any sizes from 1 on, operands of
any order of memory, sliced, unaligned; a few with fp32 operands or an operation before the matmul.
Values are integers of which the product is exact in every type, so that each way has to agree with
fp64 within the bound that the roundings of the epilogue leave.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from math import exp, log
from typing import Any

from tests.gpu.series import Outcome, Series, counted, options_of

__all__ = ["Outcome", "draw", "main", "run", "summary"]

MOST_OPERATIONS = 12
LARGEST = 1024
NONZEROS = 24
"""Expected elements of a row of an operand that are not 0: sums stay below 256, exact in bf16."""


def draw(seed: int, largest: int = LARGEST) -> tuple[str, list[Any], list[Any]]:
    """The definition, the inputs on the CPU, and for each result the exact value and its bound."""
    import torch

    from tests.random_epilogue import RandomEpilogue

    rng = random.Random(f"fusion {seed}")

    def size() -> int:
        found = round(exp(rng.uniform(0, log(largest))))
        return 8 * -(-found // 8) if rng.random() < 0.6 else found

    class Sparse(RandomEpilogue):
        def operand(self, rows: int) -> Any:
            values = torch.randint(-1, 2, (rows, self.k), generator=self.generator)
            kept = torch.rand(rows, self.k, generator=self.generator) * self.k < NONZEROS
            return values * kept

    made = Sparse(seed, size(), size(), size(), MOST_OPERATIONS)
    text, inputs = made.text, list(made.inputs)
    kind = rng.random()
    if kind < 0.2:
        name, dtype = ("Float", torch.float32) if kind < 0.03 else ("Half", torch.float16)
        text = text.replace("dtype=DataType.BFloat16", f"dtype=DataType.{name}", 2)
        inputs[:2] = [t.to(dtype) for t in inputs[:2]]
    elif kind < 0.24:
        before = "    xn = fd.ops.neg(x)\n    xm = fd.ops.neg(xn)\n"
        before += "    xc = fd.ops.cast(xm, dtype=DataType.BFloat16)\n    y = "
        text = text.replace("    y = ", before, 1).replace("linear(x, w)", "linear(xc, w)")
    inputs[:2] = [_laid_out(t, rng) for t in inputs[:2]]
    return text, inputs, made.outputs


def _laid_out(tensor: Any, rng: random.Random) -> Any:
    """The same matrix elsewhere in memory."""
    import torch

    def slice_of(t: Any, before: int, after: int) -> Any:
        rows, cols = t.shape
        whole = torch.full((rows, before + cols + after), float("nan"), dtype=t.dtype)
        view = whole[:, before : before + cols]
        view.copy_(t)
        return view

    layouts: list[Callable[[Any], Any]] = [
        lambda t: t,
        lambda t: t,
        lambda t: t.T.contiguous().T,
        lambda t: slice_of(t, 8, -t.shape[1] % 8 + 16),
        lambda t: slice_of(t.T, 0, -t.shape[0] % 8 + 8).T,
        lambda t: slice_of(t, 1, 2),
        lambda t: t.repeat_interleave(2, dim=1)[:, ::2],
    ]
    weights = [4, 4, 3, 2, 2, 1, 1]
    return rng.choices(layouts, weights)[0](tensor)


def on_device(tensor: Any, device: str) -> Any:
    """A copy with the same strides and the same alignment."""
    import torch

    if not tensor.dim() or 0 in tensor.shape:
        return tensor.to(device)
    start = tensor.storage_offset() % 8
    span = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    base = torch.zeros(start + span, dtype=tensor.dtype, device=device)
    copy = base.as_strided(tensor.shape, tensor.stride(), start)
    return copy.copy_(tensor)


def scheduled(text: str, inputs: list[Any], rng: random.Random) -> tuple[Any, str]:
    """A kernel with a schedule that was drawn, and the name of it.

    What the tensors ask for (how results are stored, how wide threads read) stays as the heuristic
    has it. Where the schedule has no room for the epilogue, or does not do its like, it is the
    heuristic's kernel.
    """
    import wsched
    from lowering.ground.errors import ScheduleError, UnsupportedError
    from tests.schedules import SCHEDULES
    from wsched.fusion import the_matmul
    from wsched.schedule.matmul.epilogue_inputs import loaded_types
    from wsched.schedule.matmul.tiles import fit_stages

    chosen = wsched.compile(text, inputs)
    fusion, own = chosen.fusion, chosen.params
    name = rng.choice(sorted(SCHEDULES))
    for input_stages in dict.fromkeys((own.epilogue_input_stages, 0)):
        params = replace(
            SCHEDULES[name],
            use_smem_epilogue=own.use_smem_epilogue,
            supported_vec_size=own.supported_vec_size,
            epilogue_input_stages=input_stages,
        )
        operand, results = the_matmul(fusion).a.dtype, [b.dtype for b in fusion.outputs]
        loaded = loaded_types(fusion, params)
        fitted = fit_stages(params, operand, tuple(results), loaded, least=3)
        with suppress(ScheduleError, UnsupportedError):
            if fitted is not None:
                return wsched.compile(text, inputs, params=fitted), name
    return chosen, "heuristic"


def run(
    seed: int, device: str = "cuda", largest: int = LARGEST, schedules: bool = False
) -> Outcome:
    """Run a case and judge it; with ``schedules`` by a schedule that is drawn, too."""
    import wsched

    try:
        text, inputs, wanted = draw(seed, largest)
        inputs = [on_device(t, device) for t in inputs]
        found = wsched.explain(text, inputs)
        route = found.route
        if any(c.value == "copied" for c in found.choices):
            route += " with a copy"
        if schedules and route.startswith("wsched"):
            kernel, name = scheduled(text, inputs, random.Random(f"schedule {seed}"))
            route, results = f"wsched by {name}", kernel(*inputs)
        else:
            results = wsched.execute(text, inputs)
    except Exception as e:  # whatever it is, it belongs to the case
        return Outcome(seed, "", f"{type(e).__name__}: {(str(e) or '?').splitlines()[0]}")
    for number, (got, value) in enumerate(zip(results, wanted, strict=True)):
        if wrong := _judge(got, value):
            return Outcome(seed, route, f"result {number}: {wrong}")
    return Outcome(seed, route, "")


def _judge(got: Any, value: Any) -> str:
    import torch

    rounding = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-10, torch.float32: 2.0**-22}
    exact, bound = value.exact, value.bound
    if got.shape != exact.shape:
        return f"shape {list(got.shape)}, not {list(exact.shape)}"
    if got.isnan().any():
        return f"{int(got.isnan().sum())} elements are NaN"
    largest = {torch.float16: 65504.0}.get(got.dtype, 3e38)
    limit = bound + rounding[got.dtype] * (exact.abs() + bound) + 2.0**-24
    off = ((got.double().cpu() - exact).abs() > limit) & (exact.abs() < largest)
    if not off.any():
        return ""
    where = tuple(int(i) for i in off.nonzero()[0])
    return f"{int(off.sum())} of {off.numel()} beyond the bound, first {where}"


def summary(outcomes: list[Outcome], wanted: int, seconds: float) -> str:
    """``2000 of 2000 fusions in 200 s, none wrong: wsched 1500 (75.0 %), nvfuser ...``."""
    return counted(outcomes, wanted, "fusions", seconds)


def main(arguments: list[str]) -> int:
    """Run; exit status 1 if a fusion was wrong or not all of them ran."""
    parser = options_of(__doc__, "fusions", 2000, LARGEST)
    parser.add_argument("--schedules", action="store_true", help="draw those, too")
    options = parser.parse_args(arguments)

    def case(seed: int) -> Outcome:
        return run(seed, options.device, options.largest, options.schedules)

    return Series("tests.gpu.random_fusions", arguments, options).main(case, Outcome, summary)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
