"""What real definitions are cut into, and the fusions of their kernels: a table."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

import pytest

from lowering.ground.errors import UnsupportedError
from tests.conftest import Golden
from tests.front.cut.test_listed import ALL, read
from wsched.front.cut.epilogues import Take
from wsched.front.cut.segments import Cutter, Segment
from wsched.fusion.text import fusion_text
from wsched.importer import Definition, build_fusion


def shown(definition: Definition) -> Iterator[str]:
    """Segments in order, each with its operations, or what keeps a matmul from a kernel."""
    for take in (Take.ALL, Take.NONE):
        yield f"{take.name}:"
        try:
            segments = Cutter(definition).all(take).segments
        except UnsupportedError as e:
            yield f"  {e}"
            continue
        for segment in segments:
            yield f"  {headed(segment)}"
            if take is Take.ALL:
                yield from (f"    {line}" for line in within(segment))


def headed(s: Segment) -> str:
    """Who runs a segment, and what it reads and makes."""
    kind = "matmul" if s.matmul else "summary" if s.summary else "sweep" if s.sweep else "rest"
    return f"{kind}: {', '.join(s.inputs)} as {', '.join(s.reads)} -> {', '.join(s.outputs)}"


def within(s: Segment) -> Iterator[str]:
    """Operations, views, and the fusion or the sweep that they are."""
    yield " ".join(n.op for n in s.definition.nodes if not n.op.startswith("define_"))
    yield from (f"{view.name} of {view.source}" for view in (*s.views, *s.looks))
    if s.sweep is not None:
        yield f"sweep {sha256(repr(s.sweep).encode()).hexdigest()[:8]}"
    if s.matmul:
        yield from (f"| {line}" for line in fusion_text(build_fusion(s.definition)).splitlines())


@pytest.mark.parametrize("name", sorted(ALL))
def test_cut(name: str, golden: Golden) -> None:
    assert "\n".join(shown(read(name).definition)) == golden
