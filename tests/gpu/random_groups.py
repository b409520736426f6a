"""Random problems of groups through the doors, against fp64; captured and replayed for others.

``python -m tests.gpu.random_groups --count 2000 --seconds 100 --results FILE``

Grouped matmuls of every form, rows by index, layers of experts, and kernels that share groups out
(``tests/drawn_groups.py``): groups of any size, empty ones, ends anywhere, layouts, epilogues. Each
is computed twice with the same bits, unless its sums have no order; a third of them is captured in
a graph that is replayed for other groups. Around all that is computed meanwhile, between the
kernels of a layer as well, lie bands that nobody may write to.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.gpu.series import Outcome, Series, counted, options_of

if TYPE_CHECKING:
    from tests.drawn_groups import Problem

__all__ = ["main", "run", "summary"]

LARGEST = 1024
REPLAYS = 3


def run(
    seed: int, device: str = "cuda", largest: int = LARGEST, kind: str | None = None
) -> Outcome:
    """Compute a problem and judge it."""
    from tests.drawn_groups import drawn

    problem = drawn(seed, device, largest, kind)
    try:
        wrong = _judged(problem, graph=device == "cuda" and seed % 3 == 0)
    except Exception as e:  # whatever it is, it belongs to the case
        said = f"{type(e).__name__}: {(str(e) or '?').splitlines()[0]}"
        return Outcome(seed, "", f"{said} ({problem.told})")
    return Outcome(seed, problem.kind, f"{wrong} ({problem.told})" if wrong else "")


def _judged(problem: Problem, graph: bool) -> str:
    """What is wrong with what is computed of a problem; empty if nothing is."""
    import torch

    import wsched
    from tests.guarded import guarded

    before = [t.clone() for t in problem.inputs]
    with guarded() as memory:
        result = problem.call()
        again = problem.call()
    found = [problem.wrong(result)]
    rows = tuple(slice(n) for n in problem.wanted()[0].shape)
    if problem.rounded == 1:
        same_bits = torch.equal(result[rows], again[rows])
        found.append("" if same_bits else "other bits by a second call")
    else:
        found.append(problem.wrong(again))
    if graph:
        torch.cuda.synchronize()
        captured = torch.cuda.CUDAGraph()
        with guarded() as replayed, torch.cuda.graph(captured):
            result = problem.call()
        for turn in range(1, REPLAYS + 1):
            problem.other(turn)
            captured.replay()
            if wrong := problem.wrong(result):
                found.append(f"{wrong} by replay {turn}")
        memory.bands += replayed.bands
    found.append("" if memory.intact() else "wrote beside what it made")
    same = (torch.equal(t, u) for t, u in zip(problem.inputs, before, strict=True))
    found.append("" if all(same) else "changed an input")
    found.append("said that ends are none" if wsched.wrong_ends() else "")
    return ", ".join(f for f in found if f)


def summary(outcomes: list[Outcome], wanted: int, seconds: float) -> str:
    """``2000 of 2000 problems in 100 s, none wrong: rows 400 (20.0 %), ...``."""
    return counted(outcomes, wanted, "problems", seconds)


def main(arguments: list[str]) -> int:
    """Run; exit status 1 if a problem was wrong or not all of them ran."""
    options = options_of(__doc__, "problems", 2000, LARGEST).parse_args(arguments)

    def case(seed: int) -> Outcome:
        return run(seed, options.device, options.largest)

    return Series("tests.gpu.random_groups", arguments, options).main(case, Outcome, summary)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
