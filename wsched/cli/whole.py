"""Run a definition of several parts on random inputs and compare it with torch.

It runs as ``wsched.execute`` runs it, whoever has its parts: on the CPU the machine model executes
wsched's kernels, and torch the rest.
"""

from __future__ import annotations

import math
from time import perf_counter

from wsched.bench.models.errors import largest_error
from wsched.bench.models.listed import listed_text
from wsched.bench.models.measure import TOLERANCE
from wsched.cli.check import Outcome
from wsched.doors.fallback import interpret
from wsched.front.api import execute, explain
from wsched.front.route import WSCHED
from wsched.importer.title import title_of

__all__ = ["check_whole"]


def check_whole(text: str, seed: int, where: str) -> Outcome:
    """Compare with torch, which computes operation by operation what the definition says.

    Args:
        text: the definition. Inputs are those of its line ``# inputs:``, else as it declares them,
            512 of each dimension that it leaves open.
        seed: of the inputs.
        where: ``cuda`` or ``cpu``.

    Raises:
        UnsupportedError: nobody takes it; or inputs whose shapes are not known.
    """
    found = listed_text("", text)
    definition = found.definition
    into = definition.into.values()
    written = [at for at, n in enumerate(definition.inputs) if n.results[0] in into]
    given = found.inputs(where, seed)
    expected = [*interpret(definition, given), *(given[at] for at in written)]
    inputs = found.inputs(where, seed)  # anew, since results have been written into them
    explained = explain(text, inputs)
    start = perf_counter()
    got = [r.cpu() for r in (*execute(text, inputs), *(inputs[at] for at in written))]
    seconds = perf_counter() - start
    error = largest_error(got, [r.cpu() for r in expected])
    passed = error <= TOLERANCE
    parts = explained.parts
    own = sum(p.runs == WSCHED for p in parts)
    by = f"cut, {own} of {len(parts)} parts are wsched's kernels" if parts else explained.route
    shapes = ", ".join("x".join(map(str, r.shape)) or "one number" for r in got)
    on = "the GPU" if where == "cuda" else "the CPU, kernels by the machine model,"
    told = (
        f"{'RIGHT' if passed else 'WRONG'}: {title_of(found.definition)}, {shapes}, against torch, "
        "operation by operation\n"
        f"  largest relative error (Frobenius norm) {error:.1e}, limit {TOLERANCE:.0e}\n"
        f"  runs by {by}: `wsched explain` has more\n"
        f"  ran on {on} in {seconds:.2g} s\n"
    )
    return Outcome(passed, error if not math.isnan(error) else math.inf, TOLERANCE, seconds, told)
