"""What becomes of each matmul of a definition, to be told."""

from __future__ import annotations

from collections.abc import Sequence

from lowering.ground.errors import UnsupportedError
from wsched.front.cut.epilogues import Kernel, Take
from wsched.front.cut.graph import MATMULS
from wsched.front.cut.segments import Cut, Cutter
from wsched.front.route import Fate
from wsched.importer import Definition, Node

__all__ = ["fates", "why_none"]


def fates(cutter: Cutter, cut: Cut, names: Sequence[str]) -> tuple[Fate, ...]:
    """The matmuls of a cut definition.

    Args:
        cutter: of the definition.
        cut: how it is cut.
        names: of the kernels, in the order in which they run.
    """
    distinct = dict.fromkeys(k for k in cut.kernels if isinstance(k, Kernel))
    name_of = dict(zip(distinct, names, strict=True))
    pairs = zip(cutter.matmuls, cut.kernels, strict=True)
    return tuple(
        _in_kernel(cutter, node, found, name_of[found])
        if isinstance(found, Kernel)
        else _fate(node, str(found))
        for node, found in pairs
    )


def _in_kernel(cutter: Cutter, node: Node, kernel: Kernel, name: str) -> Fate:
    others = (cutter.graph.nodes[i] for i in sorted(kernel.ops))
    fused = tuple(f"{n.op} ({n.line})" for n in others if n is not node)
    reason = ""
    if kernel.stop is not None:
        reason = f"fd.ops.{kernel.stop.op} (line {kernel.stop.line}) is not in it: {kernel.why}"
    return Fate(node.line, node.op, node.results[0], name, fused, reason)


def _fate(node: Node, reason: str) -> Fate:
    return Fate(node.line, node.op, node.results[0], "", (), reason)


def why_none(definition: Definition) -> tuple[Fate, ...]:
    """The matmuls of a definition of which wsched takes no part: each one's own reason.

    Where a matmul alone would have a kernel, the reason is why the definition may not be cut.
    """
    try:
        cutter = Cutter(definition)
    except UnsupportedError as e:
        return tuple(_fate(n, str(e)) for n in definition.nodes if n.op in MATMULS)
    try:
        cutter.all(Take.NONE)
        whole = "no cut of the definition can be run"
    except UnsupportedError as e:
        whole = str(e)
    found = cutter.alone()
    return tuple(
        _fate(n, whole if isinstance(k, Kernel) else str(k))
        for n, k in zip(cutter.matmuls, found, strict=True)
    )
