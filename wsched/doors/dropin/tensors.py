"""Types and extents of all tensors of a definition, read off nvFuser's IR.

A segment's inputs have to be declared, and its bytes counted. nvFuser prints a tensor as
``T4_g___bfloat[iS8{i0}, bS9{1}, rS10{64}]``: number, memory, type, and for each dimension whether
it is iterated, broadcast or reduced, who runs it (``S``: nobody in particular) and its extent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lowering.ground.errors import UnsupportedError
from wsched.doors.fallback import check_inputs
from wsched.fusion import DataType
from wsched.importer import Definition

__all__ = ["TensorType", "bind_extents", "tensor_types"]

_TENSOR = re.compile(r"T(\d+)_[a-z]_(\w+)\[(.*)\]$")
_DIMENSION = re.compile(r"([ibr])S\d+\{(\w+)( ex \w+)?\}$")
_TYPES = {t.text: t for t in DataType if t.is_stored}


@dataclass(frozen=True, slots=True)
class TensorType:
    """What nvFuser knows of a tensor before it runs.

    Args:
        dtype: None of one that wsched has no word for.
        extents: of the dimensions that it has in memory: a number, or nvFuser's symbol. ``"1"`` of
            a broadcast dimension, None of one that is expanded.
    """

    dtype: DataType | None
    extents: tuple[str | None, ...]

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The sizes of its dimensions.

        Raises:
            UnsupportedError: one that the inputs' sizes do not tell.
        """
        found = tuple(int(e) if e and e.isdigit() else sizes.get(e or "") for e in self.extents)
        known = tuple(size for size in found if size is not None)
        if len(known) != len(found):
            texts = ", ".join(e or "expanded" for e in self.extents)
            raise UnsupportedError(
                f"a tensor of shape [{texts}] between segments", "extents that inputs have"
            )
        return known


def tensor_types(fusion: Any) -> dict[str, TensorType]:
    """The tensors of a ``nvfuser_direct.Fusion`` by their names in its text, ``tv4``.

    Raises:
        UnsupportedError: a dimension that is split, merged or bound to threads, streams or devices:
            whoever did so wants nvFuser to run it like that.
    """
    found: dict[str, TensorType] = {}
    for value in fusion.vals():
        if not value.is_tensor():
            continue
        text = str(value)
        named = _TENSOR.match(text)
        axes = [_DIMENSION.match(a) for a in named[3].split(", ")] if named and named[3] else []
        if named is None or not all(axes):
            raise UnsupportedError(
                f"the tensor {text}", "tensors whose dimensions nobody has scheduled or resized"
            )
        kept = (a for a in axes if a is not None and a[1] != "r")
        extents = tuple(None if a[3] else a[2] for a in kept)
        found[f"tv{named[1]}"] = TensorType(_TYPES.get(named[2]), extents)
    return found


def bind_extents(
    definition: Definition, types: Mapping[str, TensorType], inputs: Sequence[Any]
) -> dict[str, int]:
    """Value of each symbol, from the inputs' shapes.

    Raises:
        InputError: inputs that do not fit the definition.
    """
    check_inputs(definition, inputs)
    sizes: dict[str, int] = {}
    for node, value in zip(definition.inputs, inputs, strict=True):
        tensor = types.get(node.results[0])
        if tensor is not None:
            sizes |= {e: n for e, n in zip(tensor.extents, value.shape, strict=True) if e}
    return sizes
