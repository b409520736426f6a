"""A picture of a cut definition, for Graphviz: a box for each segment, crossing values dashed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wsched.front.cut.segments import Segment

__all__ = ["to_dot"]

_COLOURS = {"wsched": "palegreen", "wsched, summary": "lightblue", "nvFuser": "lightgrey"}


def to_dot(title: str, segments: Sequence[Segment]) -> str:
    """A directed graph of operations.

    Args:
        title: what stands above it.
        segments: of the definition, in the order in which they run.
    """
    made: dict[str, tuple[int, str]] = {}  # name -> segment and node that make it
    lines = [f"digraph cut {{\n  label={_quoted(title)}; labelloc=t; rankdir=TB;"]
    lines += ["  node [shape=box, style=rounded, fontname=monospace];"]
    for number, segment in enumerate(segments):
        who = "wsched, summary" if segment.summary else "wsched" if segment.own else "nvFuser"
        label = f"label={_quoted(f'{number}: {who}')}; style=filled; color={_COLOURS[who]};"
        lines.append(f"  subgraph cluster{number} {{ {label}")
        inside = dict[str, tuple[int, str]]()
        for at, node in enumerate(segment.definition.nodes):
            if node.op.startswith("define_"):
                continue
            name = f"s{number}n{at}"
            inside |= dict.fromkeys(node.results, (number, name))
            lines.append(f"    {name} [label={_quoted(node.op)}];")
        lines.append("  }")
        lines += dict.fromkeys(_edges(number, segment, made, inside))
        made |= {n: place for n, place in inside.items() if n in segment.outputs}
    return "\n".join([*lines, "}"]) + "\n"


def _edges(
    number: int,
    segment: Segment,
    made: dict[str, tuple[int, str]],
    inside: dict[str, tuple[int, str]],
) -> Iterator[str]:
    """The edges of a segment, and the inputs that nobody has made."""
    constants = {
        n
        for node in segment.definition.nodes
        if node.op == "define_scalar" and not node.is_input
        for n in node.results
    }
    sources = dict(zip(segment.reads, segment.inputs, strict=True))
    for at, node in enumerate(segment.definition.nodes):
        for name in node.refs if not node.op.startswith("define_") else ():
            target = f"s{number}n{at}"
            if name in inside:
                yield f"  {inside[name][1]} -> {target};"
            elif name not in constants:
                source = sources.get(name, name)
                if source in made:
                    style = f"[label={_quoted(source)}, style=dashed]"
                    yield f"  {made[source][1]} -> {target} {style};"
                else:
                    yield f"  {_quoted(source)} [shape=ellipse];"
                    yield f"  {_quoted(source)} -> {target};"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
