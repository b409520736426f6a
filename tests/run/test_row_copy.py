"""Copies by wsched's own kernel: what it takes, what it writes, and what stays torch's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import pytest

from lowering.cuda.emit import emit_cuda
from lowering.ground.dtypes import DType
from lowering.kernel.kernel import Kernel
from lowering.kernel.verify import verify
from lowering.machine import run_kernel
from passes.pipeline import FINAL
from wsched.run.counts import LARGEST
from wsched.run.row_copy import RowCopies, matrices
from wsched.run.row_kernel import TYPES as ROW_TYPES
from wsched.run.row_kernel import copied_columns, row_kernel

torch = pytest.importorskip("torch")

TYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


class OnMachine:
    """A kernel that runs on the CPU; ``log`` has the grid of each launch."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.log, self.prepared = kernel, list[int](), 0

    def prepare(
        self, tensors: Mapping[str, Any], params: Mapping[str, int], grid: int
    ) -> Callable[[], None]:
        self.prepared += 1
        arrays = {n: _array(t) for n, t in tensors.items()}

        def launch() -> None:
            self.log.append(grid)
            for adversary in ("lazy", "random"):
                run_kernel(self.kernel, arrays, params, grid, adversary=adversary)

        return launch


def _array(t: Any) -> Any:
    return t.view(torch.int16).numpy().view("uint16") if t.element_size() == 2 else t.numpy()


class Copies(RowCopies):
    def __init__(self) -> None:
        self.kernels: list[OnMachine] = []
        super().__init__(self.load, "cpu")

    def load(self, kernel: Kernel) -> OnMachine:
        self.kernels.append(OnMachine(kernel))
        return self.kernels[-1]

    @property
    def launches(self) -> list[int]:
        return [grid for k in self.kernels for grid in k.log]


def drawn(shape: tuple[int, ...], pitch: int, first: int, dtype: Any) -> Any:
    """A matrix, or several, in rows ``pitch`` elements apart, from element ``first`` on."""
    outer = shape[:-1]
    count = prod(outer)
    memory = torch.arange(first + count * pitch, dtype=torch.float32).to(dtype)
    strides = (outer[-1] * pitch, pitch, 1)[-len(shape) :]
    return memory.as_strided(shape, strides, first)


def target_of(source: Any, step: int = 64) -> Any:
    *outer, rows, cols = source.shape
    pitch = -(-cols // step) * step
    memory = torch.full((*outer, rows, pitch), float("nan"), dtype=source.dtype)
    return memory[..., :cols]


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize(
    ("shape", "pitch", "first"),
    [
        ((1, 3), 3, 1), ((64, 127), 127, 0), ((65, 129), 129, 0), ((70, 255), 301, 5),
        ((63, 130), 130, 2), ((2, 33, 65), 65, 3), ((100, 40), 40, 1),
    ],
)  # fmt: skip
def test_every_element_goes_where_it_belongs(
    name: str, shape: tuple[int, ...], pitch: int, first: int
) -> None:
    copies = Copies()
    source = drawn(shape, pitch, first, TYPES[name])
    target = target_of(source)
    elements = target.untyped_storage().nbytes() // target.element_size()
    whole = target.as_strided((elements,), (1,), 0)
    before = whole.clone()
    assert copies(target, source) is target
    assert torch.equal(target, source)
    want = before.as_strided(target.shape, target.stride()).copy_(source)
    assert torch.equal(want, target)
    ends = -(-shape[-1] // (16 // whole.element_size())) * (16 // whole.element_size())
    beside = torch.ones(elements, dtype=torch.bool)
    beside.as_strided((*target.shape[:-1], ends), target.stride())[:] = False
    assert torch.isnan(whole[beside]).all()  # but zeros that TMA ends rows with
    matrices_, rows = (shape[0] if len(shape) == 3 else 1), shape[-2]
    cols = copied_columns(next(t for t in ROW_TYPES if t.torch == name))
    assert copies.launches == [matrices_ * -(-rows // 64) * -(-shape[-1] // cols)]


def test_columns_in_front() -> None:
    """An operand that is stored by columns keeps its order."""
    copies = Copies()
    source = drawn((33, 65), 65, 0, torch.bfloat16).t()
    target = target_of(source.t()).t()
    assert torch.equal(copies(target, source), source)
    assert len(copies.launches) == 1


def test_rows_that_lie_over_each_other() -> None:
    copies = Copies()
    source = torch.arange(67.0).to(torch.bfloat16).as_strided((40, 66), (0, 1), 1)
    assert torch.equal(copies(target_of(source), source), source) and copies.launches == [1]


def test_a_launch_is_kept_for_its_tensors() -> None:
    copies = Copies()
    source = drawn((8, 9), 9, 0, torch.bfloat16)
    first, second = target_of(source), target_of(source)
    for target in (first, first, second):
        source += 1
        assert torch.equal(copies(target, source), source)
    assert [k.prepared for k in copies.kernels] == [2] and len(copies.launches) == 3
    longer = drawn((8, 17), 17, 0, torch.bfloat16)
    copies(target_of(longer), longer)
    assert [k.prepared for k in copies.kernels] == [3]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (drawn((8, 9), 16, 0, torch.bfloat16), None),  # rows that torch copies as fast
        (drawn((8, 18), 18, 0, torch.bfloat16)[:, ::2], None),
        (drawn((8, 9), 9, 0, torch.bfloat16), torch.empty(8, 9, dtype=torch.bfloat16)),
        (drawn((8, 9), 9, 0, torch.float32).to(torch.int8), None),
        (drawn((8, 9), 9, 0, torch.float32).to(torch.float64), None),
        (drawn((8, 9), 9, 0, torch.bfloat16)[0], None),
        (torch.empty(0, 9, dtype=torch.bfloat16), None),
    ],
)
def test_what_stays_with_torch(source: Any, target: Any) -> None:
    copies = Copies()
    if target is None:
        target = torch.empty((*source.shape[:-1], 64), dtype=source.dtype)[..., : source.shape[-1]]
    assert torch.equal(copies(target, source), source)
    assert not copies.kernels


@pytest.mark.parametrize(("rows", "taken"), [(LARGEST, True), (LARGEST + 1, False)])
def test_as_many_rows_as_are_counted(rows: int, taken: bool) -> None:
    target, source = (
        torch.empty_strided((rows, 66), (pitch, 1), dtype=torch.bfloat16, device="meta")
        for pitch in (72, 67)
    )
    assert (matrices(target, source) is not None) is taken


def test_too_many_tiles_for_a_grid() -> None:
    wide = torch.zeros(1, dtype=torch.bfloat16).expand(2**31 - 1, 65 * 64 + 1)
    into = torch.empty(0, dtype=torch.bfloat16).as_strided((0, 1), (4224, 1))
    assert matrices(into, wide) is None
    copies = Copies()
    target = torch.zeros(1, dtype=torch.bfloat16).expand(2**31 - 1, 1)
    assert copies._launch(target, target) is None


@pytest.mark.parametrize("dtype", ROW_TYPES)
def test_the_kernel_is_well_formed(dtype: DType) -> None:
    kernel = row_kernel(dtype)
    assert not verify(kernel, FINAL[kernel.target.arch])
    assert kernel.name in emit_cuda(kernel)
