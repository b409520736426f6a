"""Many random schedules: ``python -m tests.legality --count 5000 --seed S``.

Each draw has a seed of its own, ``S:n``; ``--only n`` repeats one. With ``--by-hand`` they are
changes of the schedules by hand, with ``--parts`` of those with several parts that compute, with
``--gated`` of schedules of two products; with ``--steps`` load steps are dealt out to CTAs, with
``--rings`` the epilogue reads through rings, with ``--loads`` threads load, with ``--apart`` two
parts compute; ``--crossed`` has what these have one by one, ``--sums`` two products from nothing,
``--batch`` a batch whose sums or load steps CTAs have parts of; ``--stored`` has parts of K that
are results, which the oracle does not judge: what is accepted is run.
Faults are written to a file as JSON, with the calls that make the schedule, and so are refusals of
what is legal, by their rules. The status is 1 where there are faults, and where of some hundred
draws too few are legal, or too many refusals are of something legal (``shares``).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from rich.progress import track

from tests.legality.agreement import Outcome, outcome
from tests.legality.draws import (
    draw,
    draw_apart,
    draw_batch,
    draw_by_hand,
    draw_crossed,
    draw_gated,
    draw_loads,
    draw_parts,
    draw_rings,
    draw_steps,
    draw_stored,
    draw_sums,
)
from tests.legality.shares import Shares
from wsched.fusion import Fusion, history_text
from wsched.schedule.loops import side_by_side

__all__ = ["KINDS", "ask"]


Draw = Callable[[Random], Fusion]

KINDS: dict[str, tuple[Draw, str]] = {
    "--by-hand": (draw_by_hand, "change schedules by hand"),
    "--parts": (draw_parts, "change schedules by hand with several parts that compute"),
    "--gated": (draw_gated, "change schedules of two products with one operand"),
    "--steps": (draw_steps, "deal out load steps to CTAs"),
    "--rings": (draw_rings, "bring what the epilogue reads through rings"),
    "--loads": (draw_loads, "load operands, or what the epilogue reads, by threads"),
    "--apart": (draw_apart, "compute an operand, or store results, in a part of its own"),
    "--crossed": (draw_crossed, "all of what other kinds have one by one, with rings"),
    "--batch": (draw_batch, "a batch whose sums, or load steps, CTAs have parts of"),
    "--stored": (draw_stored, "store parts of K, which are added up behind the kernel"),
    "--sums": (draw_sums, "two products with one operand, from nothing"),
}
"""What is drawn in place of schedules of all kinds, by option."""


def ask(seed: int | str, n: int, draw: Draw = draw) -> tuple[Fusion, Outcome]:
    """The n-th draw of a seed, and what is said of it."""
    fusion = draw(Random(f"{seed}:{n}"))
    return fusion, outcome(fusion, seed=n)


def _kind(said: Outcome) -> str:
    legal = "not judged" if said.oracle is None else "legal" if said.legal else "illegal"
    if said.fault is not None:
        return f"{legal}, FAULT"
    if said.refused is not None:
        return f"{legal}, refused"
    return f"{legal}, {'no lowering' if said.unsupported else 'runs'}"


def _report(fusion: Fusion, said: Outcome, n: int) -> dict[str, Any]:
    return {
        "n": n,
        "fault": said.fault,
        "refused": said.refused,
        "why": said.why,
        "oracle": None if said.oracle is None else said.oracle.why,
        "loops": _loops(fusion),
        "calls": history_text(fusion).splitlines(),
    }


def _loops(fusion: Fusion) -> list[str]:
    try:
        return side_by_side(fusion).splitlines()
    except Exception as e:
        return [f"{type(e).__name__}: {e}"]


def main(argv: list[str]) -> int:
    """Draw, count, write down; 1 if there are faults, or a share of the draws is too low."""
    parser = argparse.ArgumentParser(prog="python -m tests.legality", description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--only", type=int, help="the one draw to repeat")
    kind = parser.add_mutually_exclusive_group()
    for option, (of, what) in KINDS.items():
        kind.add_argument(
            option, dest="draw", action="store_const", const=of, default=draw, help=what
        )
    parser.add_argument("--out", type=Path, default=Path("legality.json"))
    options = parser.parse_args(argv)
    numbers = range(options.count) if options.only is None else [options.only]
    counts: Counter[str] = Counter()
    rules: Counter[str] = Counter()
    cautious: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    unproved: Counter[str] = Counter()
    shares = Shares()
    found = []
    for n in track(numbers, "schedules"):
        fusion, said = ask(options.seed, n, options.draw)
        counts[_kind(said)] += 1
        shares.count(said)
        if said.refused is not None and not said.legal:
            rules[said.refused] += 1
        if said.cautious:
            cautious[f"{said.refused}: {said.why}"[:120]] += 1
        if said.unsupported and said.legal:
            missing[said.why.splitlines()[0][:120]] += 1
        if said.unproved is not None:
            unproved.update(said.unproved or ("all of it is proved",))
        if said.fault is not None or said.cautious or options.only is not None:
            found.append(_report(fusion, said, n))
    found.sort(key=lambda r: (r["fault"] is None, len(r["calls"])))
    if options.only is not None:
        print("\n".join([*found[0]["calls"], *found[0]["loops"]]))
    options.out.write_text(json.dumps({"seed": options.seed, "found": found}, indent=1))
    for r in found:
        if r["fault"] is not None:
            print(f"{r['n']:6} {r['fault'].splitlines()[0][:160]}")
    for title, counter in (
        ("", counts), ("refused, by rule", rules),
        ("refused though legal", cautious), ("missing", missing),
        ("claims about kernels that are not proved", unproved),
    ):  # fmt: skip
        print(title)
        for what, times in counter.most_common(25):
            print(f"{times:6} {what}")
    print(*shares.lines(), sep="\n")
    return int(shares.too_low or any(r["fault"] for r in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
