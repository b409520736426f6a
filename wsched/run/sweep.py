"""Sweeps that run: a kernel for each walk over tensors, on a GPU or on the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from lowering.ground.errors import UnsupportedError
from lowering.kernel.kernel import Kernel
from lowering.sweep.kernel import Access, sweep_kernel, tensor_names
from lowering.sweep.tile import Tile, row_tile, tile_of
from passes.summary import lower_summary
from wsched.fusion.sweep import Sweep
from wsched.importer.input_error import InputError, no_tensor, wrong_number, wrong_rank, wrong_type
from wsched.program.memory import device_of
from wsched.run.arguments import Arguments, torch_dtype
from wsched.run.counts import ctas_of
from wsched.run.cpu import refuse_large, run_on_cpu
from wsched.run.kernel_name import digits
from wsched.run.staged import Make, Number, staged
from wsched.run.unscheduled import Unscheduled
from wsched.run.variant import Variant
from wsched.run.walk import Walk, lies_of, walk_of

if TYPE_CHECKING:
    import torch

__all__ = ["CompiledSweep", "check_rows", "compiled_sweep"]


@lru_cache(maxsize=256)
def compiled_sweep(sweep: Sweep) -> CompiledSweep:
    """The kernels of a sweep; made once."""
    return CompiledSweep(sweep)


class CompiledSweep(Unscheduled):
    """A sweep for tensors of any sizes that lie in any way.

    Args:
        sweep: what is computed.
    """

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.name = f"sweep_{digits(repr(sweep), 10)}"
        super().__init__()
        self._variants: dict[tuple[Sweep, Tile, tuple[Access, ...]], Variant] = {}

    def admit(self, inputs: Sequence[Any]) -> None:
        """Check that a call would be taken, without running it; on a GPU its kernel is loaded.

        Raises:
            InputError, UnsupportedError: as a call.
        """
        walk, device = self.walk(inputs), device_of(inputs)
        if 0 in walk.sizes:
            return
        if device.type == "cpu":
            refuse_large(self._variant(walk).kernel, walk.extents)
        else:
            self._variant(walk).loaded.prepare_device(device.index)

    def kernel(self, walk: Walk) -> Kernel:
        """The final kernel IR for a walk."""
        tile = _tile(walk)
        facts = walk.sweep, tile, walk.accesses
        name = f"{self.name}_{digits(repr(facts), 10)}"
        return lower_summary(sweep_kernel(walk.sweep, name, tile, walk.accesses))

    def walk(self, inputs: Sequence[Any]) -> Walk:
        """How a call on these inputs walks; raises as one."""
        return self.walk_and_copies(inputs)[0]

    def walk_and_copies(self, inputs: Sequence[Any]) -> tuple[Walk, list[int]]:
        """The same, and the positions of tensors, with or without memory, that it copies first."""
        outputs = self._results(inputs, device_of(inputs))
        makes = self._makes(inputs, outputs)
        copied = [at for at in makes if hasattr(inputs[at], "untyped_storage")]
        return self._walk(staged(inputs, makes), outputs), copied

    def _variant(self, walk: Walk) -> Variant:
        tile = _tile(walk)
        key = walk.sweep, tile, walk.accesses
        found = self._variants.get(key)
        if found is None:  # two threads may make one each, which are equal
            found = self._variants.setdefault(key, Variant(self.kernel(walk)))
        return found

    def _makes(self, inputs: Sequence[Any], outputs: Sequence[torch.Tensor]) -> dict[int, Make]:
        """What calls on inputs like these make of them, by positions: elements of numbers, and
        copies of tensors where there is no walk over them as they lie.
        """
        found, device = dict[int, Make](), device_of(inputs)
        for at, (place, given) in enumerate(zip(self.sweep.inputs, inputs, strict=True)):
            if not hasattr(given, "untyped_storage"):
                dtype = torch_dtype(self.sweep.term(place.term).dtype)
                found[at] = Number((), dtype, device)
        for is_copied in (_is_apart, _is_moved):
            read = staged(inputs, found)
            if self._found(read, outputs) is not None:
                break
            wrong = [at for at, t in enumerate(read) if at not in found and is_copied(t)]
            found |= dict.fromkeys(wrong, methodcaller("contiguous"))
        return found

    def _found(self, read: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> Walk | None:
        sizes = self._sizes(read)
        if 0 in sizes:
            return Walk(self.sweep, sizes, (), ())
        pairs = zip(self.sweep.places(), (*read, *outputs), strict=True)
        lies = [lies_of(place, t, self.sweep.by_index) for place, t in pairs]
        return walk_of(self.sweep, sizes, lies)

    def _walk(self, read: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> Walk:
        walk = self._found(read, outputs)
        if walk is None:
            strides = "; ".join(str(list(t.stride())) for t in (*read, *outputs))
            raise UnsupportedError(
                f"a sweep over tensors of strides {strides}",
                "tensors that are all contiguous along one of two dimensions",
            )
        return walk

    def _pack(
        self, read: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
    ) -> Callable[[], None]:
        """A function that runs the kernel on inputs as it reads them."""
        if any(0 in t.shape for t in outputs):
            return _nothing
        walk, device = self._walk(read, outputs), device_of(read)
        variant, extents = self._variant(walk), walk.extents
        names = tensor_names(walk.sweep)
        tensors = dict(zip(names, walk.views((*read, *outputs)), strict=True))
        if device.type == "cpu":
            arguments = Arguments(extents, tensors, device)

            def simulate() -> None:
                run_on_cpu(variant.kernel, arguments)

            return simulate
        return variant.loaded.prepare(tensors, extents, ctas_of(variant.kernel, extents)).here

    def _sizes(self, inputs: Sequence[Any]) -> tuple[int, ...]:
        """Sizes of the index space.

        Raises:
            InputError: the inputs do not fit.
        """
        sweep = self.sweep
        if len(inputs) != len(sweep.inputs):
            raise wrong_number(len(inputs), len(sweep.inputs))
        for at, (place, given) in enumerate(zip(sweep.inputs, inputs, strict=True)):
            if not hasattr(given, "untyped_storage"):
                if place.dims:
                    raise no_tensor(f"input {at}", given)
                continue
            if given.dtype != (wanted := torch_dtype(sweep.term(place.term).dtype)):
                raise wrong_type(f"input {at}", given.dtype, wanted)
            if given.dim() != len(place.dims):
                raise wrong_rank(f"input {at}", tuple(given.shape), len(place.dims))
        shapes = [tuple(getattr(x, "shape", ())) for x in inputs]
        try:
            return sweep.sizes(shapes)
        except ValueError as e:
            raise InputError(str(e), "inputs", str(shapes), "shapes of one index space") from None

    def _in_place(self, place: int, position: int) -> bool:
        read = self.sweep.inputs[position]
        return not read.table and read.dims == self.sweep.results[place].dims

    def _results(self, inputs: Sequence[Any], device: torch.device) -> list[torch.Tensor]:
        """New tensors."""
        import torch

        sizes = self._sizes(inputs)
        found = []
        for place in self.sweep.results:
            dtype = torch_dtype(self.sweep.term(place.term).dtype)
            inner = torch.empty([sizes[d] for d in place.order], dtype=dtype, device=device)
            found.append(inner.permute([place.order.index(d) for d in range(len(place.order))]))
        return found


def check_rows(walk: Walk) -> None:
    """Refuse rows that are longer than a CTA's tile, if they are reduced and there are any.

    Raises:
        UnsupportedError: so they are.
    """
    if 0 not in walk.sizes:
        _tile(walk)


def _tile(walk: Walk) -> Tile:
    """The tile for a walk; UnsupportedError where rows are too long."""
    if row := walk.sweep.row(walk.sizes):
        return row_tile(row, walk.span)
    turned = any(a.turned for a in walk.accesses)
    return tile_of(walk.sizes, turned, walk.span, walk.loads, walk.again)


def _is_apart(tensor: torch.Tensor) -> bool:
    """Whether it is contiguous along no dimension."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return all(step != 1 for size, step in pairs if size > 1) and tensor.numel() > 1


def _is_moved(tensor: torch.Tensor) -> bool:
    """Whether it lies otherwise than row by row."""
    return not tensor.is_contiguous()


def _nothing() -> None:
    """The launch of a kernel without results."""
