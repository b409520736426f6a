"""Rows by index into a ring: which rows come, what is made of them, and the kernels' code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from lowering.cuda.emit import emit_cuda
from lowering.cuda.nvrtc import compile_cubin
from lowering.ground.errors import UnsupportedError
from lowering.kernel.kernel import Kernel
from lowering.kernel.text import parse_kernel, print_kernel
from lowering.machine.run import RunResult, run_kernel
from tests.lowering.machine.kernels import from_dtype, integers
from wsched.bench.tma.beside import COLUMNS, WEIGHTS, Beside
from wsched.bench.tma.fills import Boxes, Fill, Pieces
from wsched.bench.tma.gather import Gather, gather_kernel
from wsched.bench.tma.gathers import compiled, gather_cases

KINDS = tuple(dict.fromkeys(case.gather for case in gather_cases()))

FILLS: tuple[Fill, ...] = (
    Boxes(1, 1), Boxes(1, 4), Boxes(1, 2, held=True), Boxes(2, 4), Boxes(24, 1), Pieces(),
)  # fmt: skip
"""Groups of five and what is left, as many boxes for each warp and not, one box in all."""

ROWS, BANDS, SLICES, ROUNDS, CTAS = 24, 3, 7, 2, 2
"""14 stages for each CTA, more than a ring has."""


@dataclass
class World:
    """A launch with small integers.

    Args:
        gather: how stages are filled.
        share: CTAs with the same rows.
    """

    gather: Gather
    share: int = 1

    def __post_init__(self) -> None:
        rng, box = np.random.default_rng(0), self.gather.fill.rows
        self.table, self.weights = (integers(rng, n, SLICES * COLUMNS) for n in (90, 4 * WEIGHTS))
        firsts = rng.integers(0, 91 - box, BANDS * ROWS // box)
        self.order = (firsts[:, None] + np.arange(box)).astype(np.int32).reshape(-1)
        self.sums = np.full((CTAS * 2 * WEIGHTS, ROWS), np.nan, np.float32)

    @property
    def tensors(self) -> dict[str, Any]:
        """All tensors of a launch."""
        by_column = isinstance(self.gather.fill, Pieces)
        return {
            "T": self.table, "V": self.weights, "D": self.sums,
            "order": self.order[:, None] if by_column else self.order,
            "clock": np.zeros((CTAS, 8, 3, 2), np.int64),
        }  # fmt: skip

    @property
    def params(self) -> dict[str, int]:
        """All parameters of a launch."""
        return {"R": len(self.table), "K": SLICES * COLUMNS, "N": len(self.order), "C": CTAS,
                "rounds": ROUNDS, "share": self.share, "F": len(self.weights)}  # fmt: skip

    def run(self, kernel: Kernel | None = None, adversary: Any = "random") -> RunResult:
        """Launch the kernel, or another one, on the machine."""
        kernel = kernel or gather_kernel(self.gather)
        return run_kernel(
            kernel, self.tensors, self.params, CTAS, adversary=adversary, trace=True, races=True
        )

    def rows(self, cta: int) -> list[Any]:
        """The numbers of the rows of each of a CTA's bands."""
        places, place = CTAS // self.share, cta // self.share
        bands = self.order.reshape(BANDS, ROWS)
        return [bands[(turn * places + place) % BANDS] for turn in range(ROUNDS)]

    def right(self) -> bool:
        """Whether sums are those of the products of all slices of all bands."""
        table, weights = from_dtype(self.table, "bf16"), from_dtype(self.weights, "bf16")
        strips = weights.reshape(2, 2 * WEIGHTS, -1)
        want = [sum(strips[c % 2] @ table[rows].T for rows in self.rows(c)) for c in range(CTAS)]
        return np.array_equal(self.sums, np.concatenate(want))


@pytest.mark.parametrize(
    "gather",
    [Gather(ROWS, Boxes(1, 2), Beside.PRODUCTS), Gather(16, Boxes(8, 1, held=True)),
     Gather(ROWS, Pieces(), Beside.WEIGHTS)],
)  # fmt: skip
def test_the_kernel(gather: Gather, golden: object) -> None:
    assert print_kernel(gather_kernel(gather)) == golden


@pytest.mark.sampled
@pytest.mark.parametrize("adversary", ["lazy", "random"])
@pytest.mark.parametrize("fill", FILLS)
def test_products_of_the_rows_that_are_asked_for(fill: Fill, adversary: Any) -> None:
    world = World(Gather(ROWS, fill, Beside.PRODUCTS))
    world.run(adversary=adversary)
    assert world.right()


@pytest.mark.parametrize("beside", [Beside.NOTHING, Beside.WEIGHTS])
@pytest.mark.parametrize("fill", FILLS)
def test_boxes_that_nobody_reads(fill: Fill, beside: Beside) -> None:
    """Where each box comes from, slice by slice, and how many bytes come in all, with the zeros
    behind the rows of whole groups.
    """
    world = World(Gather(ROWS, fill, beside), share=2)
    found = world.run()
    stages, size = CTAS * ROUNDS * SLICES, fill.lines(ROWS) * 128 + beside.bytes
    assert found.counts["load bytes"] == stages * size
    if isinstance(fill, Pieces):
        return
    asked = sorted((r.cta, r.at) for r in found.trace if (r.op, r.target) == ("tma.load", "T"))
    want = [
        (cta, (int(row), column * COLUMNS))
        for cta in range(CTAS)
        for rows in world.rows(cta)
        for row in rows[:: fill.rows]
        for column in range(SLICES)
    ]
    assert asked == sorted(want)


def test_who_multiplies_fences_what_threads_have_written() -> None:
    world = World(Gather(ROWS, Pieces(), Beside.PRODUCTS))
    text = print_kernel(gather_kernel(world.gather))
    assert text.count("fence.proxy.async") == 1
    world.run(parse_kernel(text.replace("fence.proxy.async", "")), "lazy")
    assert not world.right()


@pytest.mark.sampled
@pytest.mark.parametrize("gather", KINDS, ids=lambda g: g.name)
def test_the_code(gather: Gather) -> None:
    found = compile_cubin(emit_cuda(gather_kernel(gather)))
    assert "0 bytes spill stores, 0 bytes spill loads" in found.log


def test_products_are_not_left_out() -> None:
    """What ptxas makes of sums that nobody stores is no product: these are stored."""
    gather = Gather(104, Boxes(104, 1), Beside.PRODUCTS)
    log = compile_cubin(emit_cuda(gather_kernel(gather))).log
    (used,) = (int(line.split()[4]) for line in log.splitlines() if "registers" in line)
    assert used > 2 * WEIGHTS * 104 / 128


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: Boxes(512, 1), "a box of 512 rows is not supported; supported: 1 to 256"),
        (lambda: Boxes(1, 3), "3 warps that issue boxes is not supported; supported: 1, 2, 4"),
        (
            lambda: Gather(128, Boxes(64, 4)),
            "128 rows in boxes of 64 by 4 warps is not supported; supported: whole boxes, one for "
            "each warp at least",
        ),
        (
            lambda: Gather(104, Boxes(16, 1)),
            "104 rows in boxes of 16 by 1 warps is not supported; supported: whole boxes, one for "
            "each warp at least",
        ),
        (
            lambda: Gather(128, Pieces(), Beside.PRODUCTS),
            "products of 128 rows is not supported; supported: multiples of 8 up to 104",
        ),
    ],
)
def test_gathers_that_do_not_exist(wrong: Any, told: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        wrong()
    assert str(error.value) == told


@pytest.mark.gpu
@pytest.mark.parametrize("fill", FILLS)
def test_products_on_a_gpu(fill: Fill) -> None:
    """Rows that came one by one lie as wgmma reads those of one box."""
    import torch

    from lowering.cuda.launch import LoadedKernel

    world = World(Gather(ROWS, fill, Beside.PRODUCTS))
    given = {name: torch.from_numpy(x) for name, x in world.tensors.items() if name not in "TV"}
    for name, bits in (("T", world.table), ("V", world.weights)):
        given[name] = torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16)
    on_gpu = {name: x.cuda() for name, x in given.items()}
    LoadedKernel(*compiled(world.gather)).launch(on_gpu, world.params, CTAS)
    world.sums = on_gpu["D"].cpu().numpy()
    assert world.right()
