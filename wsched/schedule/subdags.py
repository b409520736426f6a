"""The cut: a fusion's tensors in two parts, those that are loaded and those that are computed."""

from __future__ import annotations

from dataclasses import dataclass

from lowering.ground.errors import ScheduleError
from wsched.fusion import Fusion, fusion_text, inputs_of
from wsched.schedule.proof.graph import Group, TransformGraph

__all__ = ["SubDags", "subdags", "subdags_text", "to_dot"]


@dataclass(frozen=True, slots=True)
class SubDags:
    """Names of the tensors on both sides, in topological order.

    Args:
        load: the TMA cacheAfter tensors and all that they are loaded from.
        compute: all others.
        cut: the TMA cacheAfter tensors; the edges from them to their consumers are cut.
    """

    load: tuple[str, ...]
    compute: tuple[str, ...]
    cut: tuple[str, ...]


def subdags(fusion: Fusion) -> SubDags:
    """Cut the fusion behind its TMA cacheAfter tensors; ScheduleError if it has none."""
    cut = tuple(t.name for t in fusion.loads)
    if not cut:
        raise ScheduleError(
            "subdags",
            "subdags",
            "no tensor is loaded by TMA, there is nothing to cut at",
            tuple(
                f"cache_after({name!r}, LoadStoreOpType.CpAsyncBulkTensorTile)"
                for e in fusion.mmas
                for name in (e.a, e.b)
            ),
            fusion_text(fusion),
        )
    load = fusion.made_from(cut)
    return SubDags(load, tuple(n for n in fusion.in_order if n not in load), cut)


def subdags_text(fusion: Fusion) -> str:
    """Both parts, their expressions and loops; the cut tensors are marked on either side."""
    parts = subdags(fusion)
    lines: list[str] = []
    for title, names in (("load sub-DAG", parts.load), ("compute sub-DAG", parts.compute)):
        lines.append(title)
        for name in names:
            t, e = fusion.tensor(name), fusion.definition(name)
            made = "input" if e is None else str(e)
            mark = "  -- cut --" if name in parts.cut else ""
            loops = ", ".join(
                d.label if d.parallel.name == "Serial" else f"{d.label} {d.parallel}"
                for d in t.loop
            )
            lines.append(f"  {t.head} [{loops}] = {made}{mark}")
    return "\n".join(lines) + "\n"


def to_dot(fusion: Fusion) -> str:
    """Graphviz: both sub-DAGs with the cut edges dashed, and the transform graph beside them."""
    parts = subdags(fusion)
    lines = ["digraph wsched {", "  rankdir=TB; node [shape=box, fontname=monospace];"]
    for title, names in (("load", parts.load), ("compute", parts.compute)):
        lines.append(f'  subgraph cluster_{title} {{ label="{title} sub-DAG";')
        lines += [f'    {n} [label="{fusion.tensor(n).head}"];' for n in names]
        lines.append("  }")
    for e in fusion.exprs:
        for name in inputs_of(e):
            across = name in parts.cut and e.output in parts.compute
            style = ", style=dashed" if across else ""
            label = str(e).split("(", 1)[0]
            lines.append(f'  {name} -> {e.output} [label="{label}"{style}];')
    return "\n".join([*lines, *_transform_lines(fusion), "}"]) + "\n"


def _transform_lines(fusion: Fusion) -> list[str]:
    graph = TransformGraph(fusion).networkx()
    lines = ['  subgraph cluster_transforms { label="transform graph"; node [shape=ellipse];']
    number = {node: f"n{p}" for p, node in enumerate(graph.nodes)}
    for node, name in number.items():
        shape = "" if isinstance(node, Group) else ", shape=box, style=rounded"
        lines.append(f'    {name} [label="{node}"{shape}];')
    lines += [f"    {number[a]} -> {number[b]};" for a, b in graph.edges]
    return [*lines, "  }"]
