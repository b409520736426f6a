"""What becomes of each matmul of a definition, to be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lowering.ground.errors import UnsupportedError
from wsched.front.cut.choose import Chosen
from wsched.front.cut.commute import Moves
from wsched.front.cut.epilogues import Kernel, Take
from wsched.front.cut.factors import why_no_product
from wsched.front.cut.part import plain_name
from wsched.front.cut.parted import whole_of
from wsched.front.cut.segments import Cutter
from wsched.front.cut.vectors import written_as
from wsched.front.route import Fate
from wsched.importer import Definition, Node
from wsched.importer.ops import PRODUCTS

__all__ = ["fates", "why_none", "why_together"]


def fates(chosen: Chosen, names: Sequence[str]) -> tuple[Fate, ...]:
    """The matmuls of a cut definition.

    Args:
        chosen: how it is cut, with or without factors moved.
        names: of the kernels, in the order in which they run.
    """
    cutter, kernels = chosen.plain, chosen.cut.kernels
    name_of = dict(zip(chosen.cut.runs, names, strict=True))
    found = list[Fate]()
    places = zip(cutter.graph.matmuls, chosen.cutter.matmuls, kernels, strict=True)
    for i, made, kernel in places:
        fate = (
            _in_kernel(chosen.cutter, made, kernel, name_of[kernel])
            if isinstance(kernel, Kernel)
            else _fate(made, str(kernel))
        )
        operands = _operands(cutter, chosen, i, made)
        found.append(
            replace(fate, result=_asked(cutter.graph.nodes[i].results[0]), operands=operands)
        )
    return tuple(found)


def _asked(name: str) -> str:
    """What the definition calls a product that has been written anew."""
    return written_as(whole_of(name))


def _operands(cutter: Cutter, chosen: Chosen, i: int, made: Node) -> str:
    """What became of the factors of a matmul's operands; empty if there are none."""
    moved, apart = chosen.cutter.commuted, chosen.cutter.apart
    if apart is not None and (said := apart.said.get(written_as(made.results[0]))) is not None:
        return said
    if moved is not None and made.results[0] in moved.moved:
        return moved.moved[made.results[0]]
    for moves in cutter.moves:
        if any(i == at for at, _, _ in moves.products):
            return f"{moves.operand} is normalised first: {_why_not(cutter, moves)}"
    return cutter.why_first.get(i) or "; ".join(why_no_product(cutter.graph, i))


def _why_not(cutter: Cutter, moves: Moves) -> str:
    """Why factors that may move have not."""
    try:
        cutter.with_moved((moves,)).all(Take.ALL)
    except UnsupportedError as e:
        return str(e)
    return "its factors behind the product are predicted to be no faster"


def _in_kernel(cutter: Cutter, node: Node, kernel: Kernel, name: str) -> Fate:
    others = (cutter.graph.nodes[i] for i in sorted(kernel.ops))
    fused = tuple(f"{n.op} ({n.line})" for n in others if n is not node)
    reason = ""
    if kernel.stop is not None:
        reason = f"fd.ops.{kernel.stop.op} (line {kernel.stop.line}) is not in it: {kernel.why}"
    return Fate(node.line, node.op, node.results[0], name, fused, reason)


def _fate(node: Node, reason: str) -> Fate:
    return Fate(node.line, node.op, node.results[0], "", (), reason)


def why_together(cutter: Cutter, chosen: Chosen, part: Definition) -> str:
    """Why what is put together in a part that others run is a copy; empty where nothing is.

    Args:
        cutter: of the definition as it is.
        chosen: how it is cut.
        part: of it.
    """
    names = [plain_name(n.results[0]) for n in part.nodes if n.op == "cat"]
    if not names:
        return ""
    said = "no matmul makes or multiplies a part of it"
    multiplied = {r for n in cutter.definition.nodes if n.op in PRODUCTS for r in n.refs[:2]}
    if multiplied & {*names}:
        said = (
            "parts are multiplied of two along K, and where the definition tells the sizes of "
            "what is read with them"
        )
    forms = [form for form in cutter.forms if form.apart is not None]
    if forms and chosen.cutter.apart is None:
        said = "its parts where they lie are predicted to be no faster"
    elif forms:
        said = "it is read whole, and no kernel makes a part of it for that alone"
    return f"{', '.join(names)} is a copy: {said}"


def why_none(definition: Definition, refusal: str) -> tuple[Fate, ...]:
    """The matmuls of a definition of which wsched takes no part: each one's own reason.

    Where a matmul alone would have a kernel, the reason is why the definition may not be cut.

    Args:
        definition: the whole.
        refusal: why no cut of it is run, where it may be cut.
    """
    try:
        cutter = Cutter(definition)
    except UnsupportedError as e:
        return tuple(_fate(n, str(e)) for n in definition.nodes if n.op in PRODUCTS)
    try:
        cutter.all(Take.NONE)
        whole = refusal
    except UnsupportedError as e:
        whole = str(e)
    found = cutter.alone()
    return tuple(
        _fate(n, whole if isinstance(k, Kernel) else str(k))
        for n, k in zip(cutter.matmuls, found, strict=True)
    )
