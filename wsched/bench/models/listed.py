"""Definitions in files, with the inputs of a call.

Above the text stand comments: what it is, ``# source:`` and ``# inputs:``, of which each is
``2x1024:bf16``, ``8x16:f16@1,8`` with its strides, or a number. A file without that line has inputs
as its definition declares them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowering.ground.errors import UnsupportedError
from wsched.front.cut.sizes import OPEN
from wsched.fusion import DataType
from wsched.importer import Definition, record_text
from wsched.run.arguments import torch_dtype

__all__ = ["Given", "Listed", "listed", "listed_text", "read_listed"]

_TYPES = {
    "bf16": DataType.BFloat16, "bool": DataType.Bool, "f16": DataType.Half, "f32": DataType.Float,
    "f64": DataType.Double, "i32": DataType.Int32, "i64": DataType.Int,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Given:
    """An input of a call.

    Args:
        shape: sizes of a tensor.
        dtype: its type; None of a number.
        strides: in elements; empty where it lies row by row.
        number: what is passed where it is no tensor.
    """

    shape: tuple[int, ...] = ()
    dtype: DataType | None = None
    strides: tuple[int, ...] = ()
    number: float = 0

    @staticmethod
    def parse(text: str) -> Given:
        """Read ``2x1024:bf16``, ``8x16:f16@1,8`` or ``0.5``.

        Raises:
            UnsupportedError: it is none of these.
        """
        try:
            if ":" not in text:
                return Given(number=float(text) if "." in text else int(text))
            sizes, _, kind = text.partition(":")
            kind, _, strides = kind.partition("@")
            shape = tuple(int(n) for n in sizes.split("x") if n)
            lies = tuple(int(n) for n in strides.split(",") if n)
            if kind in _TYPES and len(lies) in (0, len(shape)) and min((1, *shape)) > 0:
                return Given(shape, _TYPES[kind], lies)
        except ValueError:
            pass
        raise UnsupportedError(
            f"the input {text!r}", f"SIZES:TYPE[@STRIDES] of a type of {', '.join(_TYPES)}"
        )

    def tensor(self, device: str, generator: Any = None) -> Any:
        """The input: elements of deviation 1, or of 0 and 1; on ``meta`` it has none."""
        import torch

        if self.dtype is None:
            return self.number
        dtype = torch_dtype(self.dtype)
        if self.strides:
            made = torch.empty_strided(self.shape, self.strides, dtype=dtype, device=device)
        else:
            made = torch.empty(self.shape, dtype=dtype, device=device)
        if device == "meta":
            return made
        if dtype.is_floating_point:
            return made.normal_(generator=generator)
        return made.random_(0, 2, generator=generator)


@dataclass(frozen=True, slots=True)
class Listed:
    """A definition of a file.

    Args:
        name: of the file, without its ending.
        what: one line.
        source: after what it was written; empty if the file does not say.
        text: the definition.
        given: inputs of a call.
    """

    name: str
    what: str
    source: str
    text: str
    given: tuple[Given, ...]

    @property
    def definition(self) -> Definition:
        """Its operations."""
        return record_text(self.text)

    def inputs(self, device: str, seed: int = 0) -> list[Any]:
        """Tensors and numbers of a call; what the definition has on the CPU is there."""
        import torch

        generator = None if device == "meta" else torch.Generator(device).manual_seed(seed)
        made = [g.tensor(device, generator) for g in self.given]
        for at, node in enumerate(self.definition.inputs[: len(made)]):
            if node.get("is_cpu", False) and device != "meta":
                made[at] = made[at].cpu()
        return made


def read_listed(path: Path) -> Listed:
    """A definition and its inputs.

    Raises:
        UnsupportedError: a file that cannot be read, or as :func:`listed_text`.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as e:
        raise UnsupportedError(f"{path} ({e})", "a text with a definition") from None
    return listed_text(path.stem, text)


def listed_text(name: str, text: str) -> Listed:
    """The same of a text.

    Raises:
        UnsupportedError: its definition or inputs are not understood.
    """
    above = [x.removeprefix("#").strip() for x in text.splitlines() if x.startswith("#")]
    said = {key.lower(): rest.strip() for x in above for key, c, rest in [x.partition(":")] if c}
    what = next((x for x in above if not x.lower().startswith(("source:", "inputs:"))), name)
    if "inputs" in said:
        given = tuple(map(Given.parse, said["inputs"].split()))
    else:
        given = tuple(_declared(record_text(text)))
    return Listed(name, what, said.get("source", ""), text, given)


def _declared(definition: Definition) -> Iterator[Given]:
    """Inputs as a definition declares them; sizes that it leaves open are 512."""
    for node in definition.inputs:
        shape, dtype = node.get("shape"), node.get("dtype", DataType.Float)
        if node.op == "define_scalar":
            yield Given(number=1)
        elif isinstance(shape, tuple) and isinstance(dtype, DataType):
            sizes = tuple(n if isinstance(n, int) and n >= 0 else OPEN for n in shape)
            yield Given(sizes, dtype, _strides(sizes, node.get("stride_order")))
        else:
            raise UnsupportedError(f"the input {node.results[0]} of unknown shape", "known ones")


def _strides(sizes: tuple[int, ...], order: object) -> tuple[int, ...]:
    """Of a tensor whose dimensions lie in nvFuser's order, 0 the innermost; empty row by row."""
    if not isinstance(order, tuple) or len(order) != len(sizes):
        return ()
    found, step = [0] * len(sizes), 1
    for d in sorted(range(len(sizes)), key=order.__getitem__):
        found[d], step = step, step * sizes[d]
    return tuple(found)


def listed(path: Path) -> list[Path]:
    """The files of a folder that may hold definitions, or the file itself, in order of name."""
    if path.is_dir():
        return sorted(p for p in path.iterdir() if p.suffix in (".py", ".txt"))
    return [path]
