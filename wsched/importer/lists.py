"""Matmuls of one operand whose results do not meet: one fusion with lists of the others.

Query, key and value of one input are three linears with weights of their own, of different widths.
If what follows each of them is the same, they are one matmul whose second operand is a list of
weights that stand side by side along N, and whose result is such a list; and so is what belongs to
one of them alone, a bias or a residual. Each is built as if it were alone, and the fusions are
compared.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from wsched.fusion import Entry, Fusion, IndexOp, TensorBinding
from wsched.fusion.names import COLS, ROWS, SUMMED
from wsched.importer.definition import Definition, Node
from wsched.importer.steps import unread_inputs

__all__ = ["MOST", "part_of", "parts_of", "side_by_side"]

MOST = 8
"""Entries of a list: a kernel takes a tensor map for each, of 128 bytes."""


def parts_of(definition: Definition, matmuls: Sequence[Node]) -> tuple[Definition, ...]:
    """A definition for all outputs that matmuls connect, in the order of their first outputs.

    Matmuls of the same operands are one.

    Args:
        definition: what to take apart; itself where it is one part.
        matmuls: those that outputs depend on.
    """
    same: dict[tuple[object, ...], str] = {}
    first = {n.results[0]: same.setdefault((n.op, *n.refs[:2]), n.results[0]) for n in matmuls}
    found: list[tuple[set[str], list[str]]] = []
    for output in definition.outputs:
        read = {first[name] for name in definition.behind([output]) if name in first}
        met = [part for part in found if part[0] & read]
        for part in met[1:]:
            met[0][0].update(part[0])
            met[0][1].extend(part[1])
            found.remove(part)
        if met:
            met[0][0].update(read)
            met[0][1].append(output)
        else:
            found.append((read, [output]))
    if len(found) == 1 or not all(read for read, _ in found):
        return (definition,)
    wanted = [[o for o in definition.outputs if o in names] for _, names in found]
    return tuple(part_of(definition, outputs) for outputs in wanted)


def side_by_side(
    definition: Definition, parts: Sequence[Definition], fusions: Sequence[Fusion]
) -> Fusion | None:
    """One fusion of several that differ in which tensors they are about; None if they differ in
    more, or share nothing.

    Args:
        definition: the whole.
        parts: of it, as :func:`parts_of` gives them, or its summands
            (:mod:`wsched.importer.sums`), which have all of its results.
        fusions: of each; empty where one has none.

    Raises:
        UnsupportedError: an input of the whole that none of the parts reads.
    """
    if not 1 < len(fusions) <= MOST:
        return None
    first = fusions[0]
    if first.scales:  # a tile's step would load those of its entry
        return None
    alike = all((f.tensors, f.exprs) == (first.tensors, first.exprs) for f in fusions)
    if not alike or not all(_told(f) == _told(first) for f in fusions):
        return None
    names = [[n.results[0] for n in p.inputs] for p in parts]
    if len({len(x) for x in names}) > 1:
        return None
    own = [at for at, given in enumerate(zip(*names, strict=True)) if len({*given}) > 1]
    axis = _axis(first, own)
    summed = all(p.outputs == definition.outputs for p in parts)
    if axis is None or (axis == SUMMED) is not summed:  # only summands are one product along K
        return None
    if (first.reduced and not summed) or not _as_long(parts, fusions, axis):
        return None
    alike = summed or _batched_alike(parts, fusions, own, axis)
    if not alike or _counted_along(first, axis):
        return None
    inputs = dict[str, TensorBinding]()
    outputs = dict[str, list[TensorBinding]]()
    for index, (part, fusion) in enumerate(zip(parts, fusions, strict=True)):
        entry = Entry(axis, index)
        for at, (name, b) in enumerate(zip(names[index], fusion.inputs, strict=True)):
            if at in own and name in inputs:
                return None
            inputs[name] = replace(b, entry=entry) if at in own else b
        for name, b in zip(part.outputs, fusion.outputs, strict=True):
            own_result = replace(b, entry=entry if axis in b.axes else None)
            outputs.setdefault(name, []).append(own_result)
    given = [n.results[0] for n in definition.inputs]
    if unread := [name for name in given if name not in inputs]:
        raise unread_inputs(*unread)
    return replace(
        first,
        inputs=tuple(inputs[name] for name in given),
        outputs=tuple(outputs[name].pop(0) for name in definition.outputs),
    )


def _as_long(parts: Sequence[Definition], fusions: Sequence[Fusion], axis: str) -> bool:
    """Whether what is one element long in one part is so in all, but for the axis of the list: else
    what follows repeats it, and nothing in a product does.
    """
    told = [
        [
            [n == 1 for n, of in zip(shape, b.axes, strict=False) if of != axis]
            for node, b in zip(part.inputs, fusion.inputs, strict=True)
            if isinstance(shape := node.get("shape"), tuple)
        ]
        for part, fusion in zip(parts, fusions, strict=True)
    ]
    return all(one == told[0] for one in told)


def _batched_alike(
    parts: Sequence[Definition], fusions: Sequence[Fusion], own: Collection[int], axis: str
) -> bool:
    """Whether what each part has for itself is as long in all along what nothing shared has, the
    batches of several inputs that meet one weight: the definition has to say so.
    """
    shared = {a for at, b in enumerate(fusions[0].inputs) if at not in own for a in b.axes}
    told = []
    for part, fusion in zip(parts, fusions, strict=True):
        sizes = dict[str, object]()
        for at in own:
            shape, axes = part.inputs[at].get("shape"), fusion.inputs[at].axes
            pairs = zip(axes, shape, strict=False) if isinstance(shape, tuple) else ()
            sizes |= {of: n for of, n in pairs if of not in shared and of != axis}
        told.append(sizes)
    return -1 not in told[0].values() and all(sizes == told[0] for sizes in told)


def _counted_along(fusion: Fusion, axis: str) -> bool:
    """Whether a mask depends on indices along an axis, which each entry has from 0 on."""
    return any(
        factor and str(d.extent) == axis
        for e in fusion.exprs
        if isinstance(e, IndexOp)
        for d, factor in zip(fusion.tensor(e.output).logical, e.factors, strict=True)
    )


def _axis(fusion: Fusion, own: Collection[int]) -> str | None:
    """The extent that what each fusion has for itself, and nothing that they share, differs in."""
    if not own:
        return None
    for axis in (COLS, ROWS, SUMMED):
        if all((axis in b.axes) == (at in own) for at, b in enumerate(fusion.inputs)):
            return axis
    return None


def _told(fusion: Fusion) -> tuple[object, ...]:
    """What bindings say beside sizes."""
    bound = (*fusion.inputs, *fusion.outputs)
    return tuple((b.tensor, b.axes, b.dtype) for b in bound)


def part_of(definition: Definition, outputs: Sequence[str]) -> Definition:
    """The part for some outputs, its inputs in the order in which they are first read."""
    needed = definition.behind(outputs)
    nodes = [n for n in definition.nodes if n.results[0] in needed]
    read = dict.fromkeys(ref for n in nodes for ref in n.refs)
    order = {name: at for at, name in enumerate(read)}
    inputs = sorted((n for n in nodes if n.is_input), key=lambda n: order[n.results[0]])
    return Definition((*inputs, *(n for n in nodes if not n.is_input)), tuple(outputs))
