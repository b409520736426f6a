"""Random programs through ``wsched.execute``, against fp64; whose kernels their matmuls run in.

``python -m tests.gpu.random_programs --count 3000 --seconds 230 --results FILE``

Definitions of several matmuls, norms, views, reductions and casts (``tests/random_program.py``).
Told are how many were right, which share of the matmuls' operations ran in wsched's kernels and why
the others did not, and which share ``wsched.install()`` would take by its predicted times. With
``--torch`` torch runs what is not wsched's, which spares nvFuser's compiler.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.gpu import series
from tests.gpu.series import Series, counted, options_of

__all__ = ["Outcome", "main", "run", "summary"]

LARGEST = 1024
REASONS = 8
"""Reasons that are shown, those of most operations first."""


@dataclass(frozen=True, slots=True)
class Outcome(series.Outcome):
    """What came of a program; its route is that of ``wsched.execute``.

    Args:
        blocks: what it is made of.
        flops: of its matmuls.
        lost: of these by why they ran in no kernel of wsched's.
        installed: of these that ``wsched.install()`` would run in kernels of wsched's.
    """

    blocks: Sequence[str] = ()
    flops: int = 0
    lost: dict[str, int] | None = None
    installed: int = 0

    @property
    def way(self) -> str:
        """The route, and what the program is made of."""
        return f"{self.route or 'no route'} ({', '.join(self.blocks)})"


def run(seed: int, device: str = "cuda", largest: int = LARGEST) -> Outcome:
    """Run a program and judge it."""
    import wsched
    from tests.programs_judged import Judge
    from tests.random_program import RandomProgram

    program = RandomProgram(seed, largest)
    text, blocks = program.text, program.blocks
    inputs = [t.to(device) for t in program.inputs]
    try:
        wrong = Judge(text, inputs).wrong(wsched.execute(text, inputs))
        route = wsched.explain(text, inputs).route
        flops, lost, installed = _shares(text, inputs, route)
    except Exception as e:  # whatever it is, it belongs to the case
        return Outcome(seed, "", f"{type(e).__name__}: {(str(e) or '?').splitlines()[0]}", blocks)
    return Outcome(seed, route, wrong, blocks, flops, lost, installed)


def _shares(text: str, inputs: list[Any], route: str) -> tuple[int, dict[str, int], int]:
    """Operations of the matmuls: of all, of those lost by reason, of what install takes."""
    from wsched.choose.gpus import GPUS
    from wsched.front.cut.route import call_of, chosen_cut, cutter_of
    from wsched.front.cut.shares import cut_shares
    from wsched.front.cut.verdict import verdict
    from wsched.importer import record_text

    gpu, cutter = GPUS["H200"], cutter_of(record_text(text))
    call = call_of(cutter, inputs, gpu)
    chosen = chosen_cut(cutter, inputs, gpu)
    shares = cut_shares(chosen.cutter, chosen.cut, chosen.call.sizes)
    lost = Counter[str]()
    for share in shares:
        if route != "wsched" and (share.reason or route != "cut"):
            lost[share.reason or f"all by {route}"] += share.flops
    found = verdict(cutter, call)
    best = found.chosen
    taken = () if found.reason else cut_shares(best.cutter, best.cut, best.call.sizes)
    flops = sum(s.flops for s in shares)
    return flops, dict(lost), sum(s.flops for s in taken if not s.reason)


def summary(outcomes: list[Outcome], wanted: int, seconds: float) -> str:
    """``2990 of 3000 programs in 230 s, none wrong: cut 2900 (97.0 %), ...`` and the shares."""
    lines = [counted(outcomes, wanted, "programs", seconds)]
    lost, flops = Counter[str](), sum(o.flops for o in outcomes) or 1
    for o in outcomes:
        lost.update(o.lost or {})
    own, installed = 1 - lost.total() / flops, sum(o.installed for o in outcomes) / flops
    lines.append(
        f"of the matmuls' operations in kernels of wsched's: {100 * own:.1f} % by execute, "
        f"{100 * installed:.1f} % by install as predicted"
    )
    told = lost.most_common(REASONS)
    return "\n".join([*lines, *(f"  {100 * n / flops:.2f} %: {why}" for why, n in told)])


def main(arguments: list[str]) -> int:
    """Run; exit status 1 if a program was wrong or not all of them ran."""
    parser = options_of(__doc__, "programs", 3000, LARGEST)
    parser.add_argument("--torch", action="store_true", help="torch runs what is not wsched's")
    options = parser.parse_args(arguments)
    if options.torch:
        sys.modules["nvfuser_direct"] = None  # type: ignore[assignment]

    def case(seed: int) -> Outcome:
        return run(seed, options.device, options.largest)

    return Series("tests.gpu.random_programs", arguments, options).main(case, Outcome, summary)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
