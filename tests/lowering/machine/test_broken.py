"""What the machine says of broken kernels, which the proof is not asked about: a table.

One mutant in three of each class of ``tests.mutants``, of a kernel of each family: the smallest
launch, with effects as early and as late as possible and a watch on races. Nothing is said of what
the machine misses at that size; thousands are judged in the slow tier.
"""

from __future__ import annotations

from functools import cache
from itertools import groupby, islice
from zlib import crc32

import numpy as np
import pytest

from lowering.ground.errors import WschedError
from lowering.kernel.verify import verify
from tests.conftest import Golden
from tests.mutants.edits import Mutant, mutants
from tests.mutants.subjects import Subject, subject

NAMES = (
    "coop_2_stages", "pingpong_64x128", "cluster_2x1", "dynamic", "split_2", "grouped",
    "reductions", "int8", "computed", "tensor_memory", "pairs", "row_copy",
)  # fmt: skip
PARTS = 3


@cache
def made(name: str) -> Subject:
    return subject(name)


@cache
def sample(name: str) -> tuple[Mutant, ...]:
    """One of every third class that is well-formed; other kernels have others."""
    rules = set(verify(made(name).kernel))  # those that it breaks itself
    every = sorted(mutants(made(name).kernel), key=lambda m: (m.kind, crc32(m.what.encode())))
    classes = [[*same] for _, same in groupby(every, key=lambda m: m.kind)]
    whole = ((m for m in same if set(verify(m.kernel)) <= rules) for same in classes)
    first = (next(same, None) for same in islice(whole, NAMES.index(name) % 3, None, 3))
    return tuple(filter(None, first))


@cache
def right(name: str) -> tuple[dict[str, object], int]:
    found, ran = made(name).run(made(name).kernel, 0, adversary="eager")
    return found, ran.counts["steps"]


def said(name: str, mutant: Mutant, adversary: str) -> str:
    """The fault that a run ends in, which results are wrong, or nothing."""
    wanted, steps = right(name)
    options = {"adversary": adversary, "races": True, "step_limit": 20 * steps}
    try:
        found, _ = made(name).run(mutant.kernel, 0, **options)
    except (WschedError, ArithmeticError, LookupError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    wrong = [n for n in wanted if not np.array_equal(found[n], wanted[n])]
    return f"{', '.join(wrong)} wrong" if wrong else "as the right one"


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", NAMES)
def test_broken(name: str, part: int, golden: Golden) -> None:
    lines = []
    for mutant in sample(name)[part::PARTS]:
        early, late = (said(name, mutant, a) for a in ("eager", "lazy"))
        lines += [f"{mutant.kind}: {mutant.what}", f"  early: {early}"]
        lines += [f"  late: {late}"] * (late != early)
    assert "\n".join(lines) == golden
