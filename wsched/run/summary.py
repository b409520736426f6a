"""Summaries that run: a kernel for each tile and alignment, on a GPU or on the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from lowering.ground.expr import evaluate
from lowering.kernel.kernel import Kernel
from lowering.kernel.tensors import WIDEST_ACCESS
from lowering.summary.axes import BEHIND, FRONT, REDUCED
from lowering.summary.few_rows import FewRows, few_rows_kernel, few_rows_of
from lowering.summary.kernel import summary_kernel
from lowering.summary.tile import TOGETHER, Tile, tile_of
from passes.summary import lower_summary
from wsched.fusion.summary import Axis, Extent, Summary
from wsched.importer.input_error import InputError, no_tensor, wrong_number, wrong_rank, wrong_type
from wsched.program.memory import device_of
from wsched.program.program import Step, SummaryStep
from wsched.run.arguments import Arguments, torch_dtype
from wsched.run.counts import ctas_of
from wsched.run.cpu import refuse_large, run_on_cpu
from wsched.run.kernel_name import digits
from wsched.run.staged import Make, Number
from wsched.run.unscheduled import Unscheduled
from wsched.run.variant import Variant

if TYPE_CHECKING:
    import torch

__all__ = ["CompiledSummary", "compiled_summary", "kernels_of"]


@lru_cache(maxsize=256)
def compiled_summary(summary: Summary, alongside: bool = False) -> CompiledSummary:
    """The kernels of a summary of one stage; made once."""
    return CompiledSummary(summary, alongside)


def kernels_of(steps: Sequence[Step]) -> dict[str, CompiledSummary]:
    """What the summaries of a program's steps run, by the names in it."""
    return {s.kernel: compiled_summary(s.summary) for s in steps if isinstance(s, SummaryStep)}


class CompiledSummary(Unscheduled):
    """A summary of one stage, for tensors of any sizes.

    Args:
        summary: what is computed.
        alongside: whether it runs beside the first tiles of the grid behind it.
    """

    def __init__(self, summary: Summary, alongside: bool = False) -> None:
        self.summary, self.alongside = summary, alongside
        self.name = f"summary_{digits(repr(summary), 10)}{'_alongside' * alongside}"
        super().__init__()
        self._variants: dict[tuple[Tile | FewRows, int], Variant] = {}

    def _makes(self, inputs: Sequence[Any], outputs: Sequence[torch.Tensor]) -> dict[int, Make]:
        """What calls on inputs like these make of them, by positions.

        Raises:
            InputError: the inputs do not fit.
        """
        self._extents(inputs)
        found, device = dict[int, Make](), device_of(inputs)
        for at, (value, given) in enumerate(zip(self.summary.inputs, inputs, strict=True)):
            if not hasattr(given, "is_contiguous"):
                found[at] = Number((1, 1), torch_dtype(value.dtype), device)
            elif not given.is_contiguous():
                found[at] = methodcaller("contiguous")
        return found

    def admit(self, inputs: Sequence[Any]) -> None:
        """Check that a call would be taken, without running it; on a GPU its kernel is loaded.

        Raises:
            InputError, UnsupportedError: as a call.
        """
        extents, device = self._extents(inputs), device_of(inputs)
        variant = self._variant(extents, inputs, ())
        if device.type == "cpu":
            refuse_large(variant.kernel, extents)
        else:
            variant.loaded.prepare_device(device.index)

    def kernel(self, tile: Tile | FewRows, vector: int = 2) -> Kernel:
        """The final kernel IR for a tile and columns that threads access at once."""
        if isinstance(tile, FewRows):
            name = f"{self.name}_few_{tile.span}x{tile.deep}"
            return lower_summary(few_rows_kernel(self.summary, name, tile))
        name = f"{self.name}_{tile.groups}x{tile.rows}x{tile.columns}_{vector}"
        alongside = self.alongside and self.summary.axis is Axis.COLUMNS and tile.groups == 1
        return lower_summary(summary_kernel(self.summary, name, tile, vector, alongside=alongside))

    def _variant(
        self, extents: Mapping[str, int], inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> Variant:
        tensors = [t for t in (*inputs, *outputs) if hasattr(t, "data_ptr")]
        key = self._few(extents, tensors) or self._tile(extents, tensors)
        found = self._variants.get(key)
        if found is None:  # two threads may make one each, which are equal
            found = self._variants.setdefault(key, Variant(self.kernel(*key)))
        return found

    def _few(
        self, extents: Mapping[str, int], tensors: Sequence[Any]
    ) -> tuple[FewRows, int] | None:
        """What CTAs have of few rows; None where there are many, or tensors begin anywhere."""
        front, reduced, behind = (extents[x.name] for x in (FRONT, REDUCED, BEHIND))
        few = few_rows_of(self.summary, front, reduced, behind)
        if few is None or not all(_together(t, few.span) for t in tensors):
            return None
        return few, few.span

    def _tile(self, extents: Mapping[str, int], tensors: Sequence[Any]) -> tuple[Tile, int]:
        """The tile of a warpgroup, and the columns that threads access at once."""
        last = BEHIND if self.summary.axis is Axis.ROWS else REDUCED
        widths = (TOGETHER, 2) if self.summary.axis is Axis.COLUMNS else (2,)
        columns, reduced = extents[last.name], extents[REDUCED.name]
        vector = next((n for n in widths if all(_even(t, columns, n) for t in tensors)), 1)
        tile = tile_of(self.summary, reduced, vector, self.alongside)
        return tile, min(vector, tile.layout.span)

    def _pack(
        self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
    ) -> Callable[[], None]:
        """A function that runs the kernel on inputs as it reads them."""
        extents, device = self._extents(inputs), device_of(inputs)
        if any(0 in t.shape for t in outputs):
            return _nothing
        turned = self._turned(outputs)
        writes = [t if t.is_contiguous() else t.new_empty(t.shape) for t in turned]
        variant = self._variant(extents, inputs, writes)
        tensors = {v.name: t for v, t in zip(self.summary.inputs, inputs, strict=True)}
        results = zip(self.summary.results, writes, strict=True)
        tensors |= {f"{r.value}_out": t for r, t in results}
        run = self._runner(variant, tensors, extents, device)
        apart = [(a, b) for a, b in zip(turned, writes, strict=True) if a is not b]
        if not apart:
            return run

        def launch() -> None:
            run()
            for target, source in apart:
                target.copy_(source)

        return launch

    def _turned(self, outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The results in the order of dimensions in which the kernel writes them."""
        return [t.permute(r.order) for t, r in zip(outputs, self.summary.results, strict=True)]

    def _holds(self, outputs: Sequence[torch.Tensor]) -> bool:
        """Whether some lie otherwise than the kernel writes."""
        return not all(t.is_contiguous() for t in self._turned(outputs))

    def _runner(
        self,
        variant: Variant,
        tensors: Mapping[str, torch.Tensor],
        extents: dict[str, int],
        device: torch.device,
    ) -> Callable[[], None]:
        """A function that runs a kernel on dense tensors, as many dimensions as they have there."""
        kernel = variant.kernel
        matrices = {
            g.name: tensors[g.name].view([evaluate(e, extents) for e in g.sizes])
            for g in kernel.globals
        }
        if device.type == "cpu":
            arguments = Arguments(extents, matrices, device)

            def simulate() -> None:
                run_on_cpu(kernel, arguments)

            return simulate
        known = {**extents, "sms": variant.loaded.resident_ctas(device.index)}
        return variant.loaded.prepare(matrices, extents, ctas_of(kernel, known)).here

    def _extents(self, inputs: Sequence[Any]) -> dict[str, int]:
        """The parameters of the kernel.

        Raises:
            InputError: the inputs do not fit.
        """
        values = self.summary.inputs
        if len(inputs) != len(values):
            raise wrong_number(len(inputs), len(values))
        shape = tuple(inputs[self.summary.tensor].shape)
        if len(shape) != self.summary.rank:
            raise wrong_rank(f"input {self.summary.tensor}", shape, self.summary.rank)
        front, reduced, behind = self.summary.sizes(shape)
        wanted = {Extent.TENSOR: front * reduced * behind, Extent.KEPT: front * behind}
        for at, (value, tensor) in enumerate(zip(values, inputs, strict=True)):
            if value.extent is Extent.ONE and isinstance(tensor, int | float):
                continue
            if not hasattr(tensor, "numel"):
                raise no_tensor(f"input {at}", tensor)
            if tensor.dtype != torch_dtype(value.dtype):
                raise wrong_type(f"input {at}", tensor.dtype, torch_dtype(value.dtype))
            elements, found = wanted.get(value.extent, 1), tensor.numel()
            if found != elements:
                text = f"input {at} has {found} elements, with others it is {elements}"
                raise InputError(text, f"input {at}", str(found), str(elements))
        names = FRONT.name, REDUCED.name, BEHIND.name
        return dict(zip(names, (front, reduced, behind), strict=True))

    def _results(self, inputs: Sequence[Any], device: torch.device) -> list[torch.Tensor]:
        """New tensors."""
        import torch

        self._extents(inputs)
        shape, made = inputs[self.summary.tensor].shape, list[torch.Tensor]()
        for r in self.summary.results:
            sizes, dtype = r.shape(shape), torch_dtype(self.summary.value(r.value).dtype)
            dense = torch.empty([sizes[p] for p in r.order], dtype=dtype, device=device)
            made.append(dense.permute([r.order.index(p) for p in range(len(sizes))]))
        return made


def _even(tensor: torch.Tensor, columns: int, together: int) -> bool:
    """Whether threads may access so many neighbours of a dense tensor at once, from multiples of
    it on, where a row of the kernel has so many columns; where all is reduced they read one by one.
    """
    return columns % together == 0 and _together(tensor, together)


def _together(tensor: torch.Tensor, columns: int) -> bool:
    """Whether a tensor begins where so many elements may be accessed at once; a single one may
    begin anywhere.
    """
    past: int = tensor.data_ptr() % min(columns * tensor.element_size(), WIDEST_ACCESS)
    return past == 0 or bool(tensor.numel() == 1)


def _nothing() -> None:
    """The launch of a kernel without results."""
