"""Do the tests notice when the code is changed? Mutants of lines that tests run, tried one by one.

    python tools/mutate.py --jobs 14 --seed 1 2 --count 60 --json FILE.jsonl

Which test runs which line is written to build/reaches first, by ``pytest --reaches`` on as many
workers, and again when the code has changed since. With ``--only`` and ``--tests`` it is a few
files and their tests, in minutes on a small machine:

    python tools/mutate.py build/few --only 'wsched/importer/*' --tests tests/importer --json F

A mutant is one mutation (``tools/mutations.py``). A line is drawn evenly from those that tests run,
then one of its mutations. The tests that run the line are tried, those that run least first,
because they are the quickest and say most, until one fails: the mutant is killed. If all pass, so
do all tests of their files (what a fixture or a cache of a module runs is told of its first test
only), those first that lie as the changed file does. A mutant that survives, or outlives its time,
is shown with what was tried.

A mutant within a function is judged by a fork of a process that has collected all tests, in seconds
(``tools/forked.py``). Others, and one that lives where the fork cannot tell (its line ran before,
or a test that should see it did not), are judged by processes of pytest in a copy of the tree, in
minutes; ``--forked only`` leaves out the former and tells of the latter that they are not sure, as
the summary does, which also counts those cut off by time. ``--forked no`` has all judged by
processes. Of thousands at 25 s each, on 32 cores, within a budget that includes the map:

    python tools/mutate.py --forked only --seconds 25 --count 2000 --jobs 32 --budget 350 --json F

A run goes on where an earlier one with the same file ended.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from itertools import takewhile
from pathlib import Path
from queue import SimpleQueue

from forks import Forks
from mutations import Mutation, mutations
from reached import ROOT, Coverage, Reached, git, make_map

FIRST, SECONDS = 40, 240.0
"""Tests of a first run, and time for all runs of a mutant."""

GRACE = 60.0
"""Seconds of processor time that a run may take beside three times what its tests took: imports. A
mutant that never ends is killed by this."""

PATIENCE = 20
"""How many times as long a run may take by the clock: the machine is another's too."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a mutant.

    Args:
        file: relative to the tree.
        line: of the mutation.
        what: the mutation in words.
        killed: whether a test failed, or a run did not end.
        tests: how many were tried.
        seconds: wall time.
        by: the first test that failed.
        of: how many there were to try, if a fork judged it; more than were tried where its time
            was over.
        sure: False if a fork let it live that cannot tell; see ``forks.Verdict``.
    """

    file: str
    line: int
    what: str
    killed: bool
    tests: int
    seconds: float
    by: str = ""
    of: int = 0
    sure: bool = True

    @property
    def cut(self) -> bool:
        """Whether it lives only as far as there was time to try."""
        return not self.killed and self.tests < self.of


def draw(
    coverage: Coverage, seed: int, count: int, only: Sequence[str] = ("*",)
) -> list[tuple[str, Mutation]]:
    """``count`` mutations, of as many lines; the same for the same tree, coverage and seed.

    Args:
        coverage: the lines that tests run.
        seed: which.
        count: how many, if there are as many lines.
        only: patterns of the files that they are of.
    """
    places: list[tuple[str, list[Mutation]]] = []
    chosen_files = [f for f in coverage.files() if any(fnmatch(f, p) for p in only)]
    texts = {file: (ROOT / file).read_text(encoding="utf-8") for file in chosen_files}
    for file, text in texts.items():
        reached, by_line = coverage.lines(file), dict[int, list[Mutation]]()
        for mutation in mutations(text):
            if reached >> mutation.line & 1:
                by_line.setdefault(mutation.line, []).append(mutation)
        places += [(file, by_line[line]) for line in sorted(by_line)]
    chosen, drawn = random.Random(seed), list[tuple[str, Mutation]]()
    chosen.shuffle(places)
    for file, found in places:
        if len(drawn) == count:
            break
        if able := [m for m in found if m.parses(texts[file])]:
            drawn.append((file, chosen.choice(able)))
    return drawn


class Tree:
    """A copy of what git knows of the tree, in which files may be changed.

    Args:
        folder: where it is made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        names = git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        for name in filter(None, names.split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes((ROOT / name).read_bytes())

    def failing(self, tests: Iterable[Reached | str], limit: float) -> str | None:
        """The first of some tests that fails, None if none does.

        More processor time than ``limit`` seconds is a failure too.
        """
        ids = [t if isinstance(t, str) else t.test for t in tests]
        with tempfile.TemporaryDirectory() as scratch:
            arguments = Path(scratch) / "tests"
            arguments.write_text("".join(f"{i}\n" for i in ids), encoding="utf-8")
            command = [
                sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider",
                f"--timeout={PATIENCE * 60}",
                f"@{arguments}",
            ]  # fmt: skip
            own = {"PYTHONDONTWRITEBYTECODE": "", "WSCHED_CACHE_DIR": f"{scratch}/cubins"}
            own["PYTHONPATH"] = str(
                self.folder.resolve()
            )  # of processes that tests start elsewhere
            with subprocess.Popen(
                command, cwd=self.folder, env=os.environ | own, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            ) as done:  # fmt: skip
                resource.prlimit(done.pid, resource.RLIMIT_CPU, (int(limit), int(limit) + 5))
                try:
                    said, _ = done.communicate(timeout=PATIENCE * limit)
                except subprocess.TimeoutExpired:
                    done.kill()
                    return f"no end within {PATIENCE * limit:.0f} s"
        if done.returncode == -signal.SIGXCPU:
            return f"no end within {limit:.0f} s of processor time"
        if done.returncode in (0, 5):  # 5: all are skipped or deselected
            return None
        lines = [x for x in said.splitlines() if x.startswith(("FAILED", "ERROR"))]
        last = said.strip().splitlines()[-1:]
        return next(iter(lines + last), f"pytest ended with {done.returncode}")


def rounds(
    tests: list[Reached], seconds: float, file: str
) -> Iterator[tuple[list[Reached | str], float]]:
    """Tests to run at a time, with their seconds: a few, those in time, files of all of them.

    Args:
        tests: that run the line, in the order in which they are tried.
        seconds: for all of them.
        file: that is changed: ``tests/choose`` is nearest to ``wsched/choose/tiles.py``.
    """
    first, rest = tests[:FIRST], tests[FIRST:]
    yield [*first], sum(t.seconds for t in first)
    within, left = list[Reached | str](), seconds
    for test in rest:
        if (left := left - test.seconds) < 0:
            break
        within.append(test)
    if within:
        yield within, seconds - left
    yield [*nearest(tests, file)], seconds


def nearest(tests: Iterable[Reached], file: str) -> list[str]:
    """Six files of tests, those first that lie as the changed file does."""
    files = sorted({t.test.partition("::")[0] for t in tests}, key=lambda f: (-_near(f, file), f))
    return files[:6]


def _near(test: str, file: str) -> int:
    """How many folders a test file shares with a file of the tree, where tests mirror it."""
    wanted = file.removeprefix("wsched/").split("/")[:-1]
    found = test.removeprefix("tests/").split("/")[:-1]
    same = (a == b for a, b in zip(wanted, found, strict=False))
    return sum(takewhile(bool, same))


def tried(tree: Tree, file: str, mutation: Mutation, tests: list[Reached]) -> Result:
    """Run the tests of a mutation until one fails."""
    text = (ROOT / file).read_text(encoding="utf-8")
    (tree.folder / file).write_text(mutation.apply(text), encoding="utf-8")
    begin, count = time.monotonic(), 0
    try:
        by = None
        for chosen, took in rounds(tests, SECONDS, file):
            count += len(chosen)
            by = tree.failing(chosen, GRACE + 3 * took)
            if by is not None or time.monotonic() - begin > PATIENCE * SECONDS:
                break
    finally:
        (tree.folder / file).write_text(text, encoding="utf-8")
    seconds = round(time.monotonic() - begin, 1)
    what = mutation.shown(text)
    return Result(file, mutation.line, what, by is not None, count, seconds, by or "")


class Judges:
    """What judges mutants: forks, and processes where these cannot; for as many threads as like.

    Args:
        folder: in which copies of the tree are made.
        jobs: mutants at a time.
        tests: files of tests, all if there are none.
        forked: ``no``, ``first`` or ``only``.
        seconds: of processor time for the tests of a mutant in a fork.
    """

    def __init__(
        self, folder: Path, jobs: int, tests: Sequence[str], forked: str, seconds: float
    ) -> None:
        self._only, self._seconds = forked == "only", seconds
        self._trees, self._forks = SimpleQueue[Tree](), None
        if forked != "no":
            self._forks = Forks(Tree(folder / "forked").folder, tests)
        for number in range(0 if self._only else jobs):
            self._trees.put(Tree(folder / str(number)))

    def close(self) -> None:
        """End the process that forks."""
        if self._forks:
            self._forks.close()

    def judged(self, file: str, mutation: Mutation, tests: list[Reached]) -> Result | None:
        """What becomes of a mutant, by the tests that run its line; None if no fork can tell."""
        if self._forks:
            found = self._in_fork(self._forks, file, mutation, tests)
            if self._only or (found and found.sure):
                return found
        tree = self._trees.get()
        try:
            return tried(tree, file, mutation, tests)
        finally:
            self._trees.put(tree)

    def _in_fork(
        self, forks: Forks, file: str, mutation: Mutation, tests: list[Reached]
    ) -> Result | None:
        text, begin = (ROOT / file).read_text(encoding="utf-8"), time.monotonic()
        timed = {t.test: t.seconds for t in tests}
        found = forks.judge(file, mutation, timed, nearest(tests, file), self._seconds)
        if isinstance(found, str):
            return None
        return Result(
            file, mutation.line, mutation.shown(text), found.by is not None, found.tests,
            round(time.monotonic() - begin, 1), found.by or "", found.of, found.sure,
        )  # fmt: skip


def summary(results: Iterable[Result]) -> str:
    """How many were killed, by kind, and what survived; not all of that is proven to."""
    found = list(results)
    alive = [r for r in found if not r.killed]
    killed = Counter(r.what.partition(":")[0] for r in found if r.killed)
    every = Counter(r.what.partition(":")[0] for r in found)
    lines = [f"{sum(killed.values())} of {len(found)} mutants were killed"]
    lines += [f"  {kind:10} {killed[kind]:3} of {every[kind]:3}" for kind in sorted(every)]
    for r in alive:
        doubts = ["not sure"] * (not r.sure) + [f"{r.tests} of {r.of} tests"] * r.cut
        doubt = f" ({', '.join(doubts)})" if doubts else ""
        lines.append(f"survived: {r.file}:{r.line}: {r.what}{doubt}")
    unsure, cut = sum(not r.sure for r in alive), sum(r.cut for r in alive)
    lines.append(
        f"of {len(alive)} that survived {unsure} are not sure and {cut} were cut off by time"
    )
    return "\n".join(lines)


def main() -> int:
    """Draw, try, tell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "reaches", type=Path, nargs="?", default=ROOT / "build/reaches",
        help="the folder of pytest --reaches; written where there is none, or of other code",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, nargs="+", default=[1])
    parser.add_argument("--count", type=int, default=60, help="mutants of each seed")
    parser.add_argument("--only", nargs="+", default=["*"], help="patterns of files to change")
    parser.add_argument("--tests", nargs="+", default=[], help="files of tests, by default all")
    parser.add_argument("--json", type=Path, help="a line for each mutant, added to what is there")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--forked", choices=["no", "first", "only"], default="first")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="processor time of a mutant in a fork"
    )
    told = parser.parse_args()
    end = time.monotonic() + told.budget
    with tempfile.TemporaryDirectory() as folder:
        judges = Judges(Path(folder), told.jobs, told.tests, told.forked, told.seconds)
        try:
            if make_map(told.reaches, told.tests, told.jobs):
                return _judge_drawn(told, judges, end)
        finally:
            judges.close()
    print("tests fail as the code is: mend them first", file=sys.stderr)
    return 2


def _judge_drawn(told: argparse.Namespace, judges: Judges, end: float) -> int:
    coverage = Coverage(told.reaches)
    there = told.json.read_text().splitlines() if told.json and told.json.exists() else []
    results = [Result(**json.loads(x)) for x in there]
    known = {(r.file, r.line, r.what) for r in results}
    drawn = [
        (file, mutation)
        for file, mutation in dict.fromkeys(
            d for seed in told.seed for d in draw(coverage, seed, told.count, told.only)
        )
        if (file, mutation.line, mutation.shown((ROOT / file).read_text("utf-8"))) not in known
    ]

    def judged(file: str, mutation: Mutation) -> Result | None:
        if time.monotonic() > end:
            return None
        return judges.judged(file, mutation, coverage.tests(file, mutation.line))

    with ThreadPoolExecutor(told.jobs) as pool:
        for done in as_completed(pool.submit(judged, *d) for d in drawn):
            if (result := done.result()) is None:
                continue
            results.append(result)
            print(json.dumps(asdict(result)), flush=True)
            if told.json:
                with told.json.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(asdict(result)) + "\n")
    print(summary(results))
    return int(any(not r.killed for r in results))


if __name__ == "__main__":
    sys.exit(main())
