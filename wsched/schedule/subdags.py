"""The parts of a fusion as text and as a drawing."""

from __future__ import annotations

from wsched.fusion import Fusion, inputs_of
from wsched.schedule.graph import Group, TransformGraph
from wsched.schedule.parts import find_parts, titles

__all__ = ["subdags_text", "to_dot"]


def subdags_text(fusion: Fusion) -> str:
    """Every part, its expressions and loops; the tensors that other parts read are marked."""
    parts = find_parts(fusion)
    lines: list[str] = []
    for title, part in zip(titles(fusion, parts), parts, strict=True):
        lines.append(title)
        for name in part.tensors:
            t, e = fusion.tensor(name), fusion.definition(name)
            made = "input" if e is None else str(e)
            mark = "  -- cut --" if name in part.fills else ""
            loops = ", ".join(
                d.label if d.parallel.name == "Serial" else f"{d.label} {d.parallel}"
                for d in t.loop
            )
            lines.append(f"  {t.head} [{loops}] = {made}{mark}")
    return "\n".join(lines) + "\n"


def to_dot(fusion: Fusion, graph: TransformGraph | None = None) -> str:
    """Graphviz: a box for each part with the cut edges dashed, and the transform graph beside, the
    fusion's own if it is known.
    """
    parts = find_parts(fusion)
    lines = ["digraph wsched {", "  rankdir=TB; node [shape=box, fontname=monospace];"]
    for number, (title, part) in enumerate(zip(titles(fusion, parts), parts, strict=True)):
        lines.append(f'  subgraph cluster_part{number} {{ label="{title}";')
        lines += [f'    {n} [label="{fusion.tensor(n).head}"];' for n in part.tensors]
        lines.append("  }")
    cut = {n for part in parts for n in part.fills}
    for e in fusion.exprs:
        label = str(e).split("(", 1)[0]
        for name in inputs_of(e):
            style = ", style=dashed" if name in cut else ""
            lines.append(f'  {name} -> {e.output} [label="{label}"{style}];')
    return "\n".join([*lines, *_transform_lines(graph or TransformGraph(fusion)), "}"]) + "\n"


def _transform_lines(transforms: TransformGraph) -> list[str]:
    graph = transforms.networkx()
    lines = ['  subgraph cluster_transforms { label="transform graph"; node [shape=ellipse];']
    number = {node: f"n{p}" for p, node in enumerate(graph.nodes)}
    for node, name in number.items():
        shape = "" if isinstance(node, Group) else ", shape=box, style=rounded"
        lines.append(f'    {name} [label="{node}"{shape}];')
    lines += [f"    {number[a]} -> {number[b]};" for a, b in graph.edges]
    return [*lines, "  }"]
