"""Do the tests notice when the code is changed? Mutants of lines that tests run, tried one by one.

    python tools/mutate.py --jobs 14 --seed 1 2 --count 60 --json FILE.jsonl

Which test runs which line is written to build/reaches first, by ``pytest --reaches`` on as many
workers, and again when the code has changed since. With ``--only`` and ``--tests`` it is a few
files and their tests, in minutes on a small machine:

    python tools/mutate.py build/few --only 'wsched/importer/*' --tests tests/importer --json F

A mutant is one mutation (``tools/mutations.py``) in a copy of the tree. A line is drawn evenly from
those that tests run, then one of its mutations. The tests that run the line are tried, those that
run least first, because they are the quickest and say most, until one fails: the mutant is killed.
If all pass, so do all tests of their files (what a fixture or a cache of a module runs is told of
its first test only), those first that lie as the changed file does. A mutant that survives, or
outlives its time, is shown with what was tried.

A run goes on where an earlier one with the same file ended.
"""

from __future__ import annotations

import argparse
import hashlib
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

ROOT = Path(__file__).resolve().parent.parent

FIRST, SECONDS = 40, 240.0
"""Tests of a first run, and time for all runs of a mutant."""

GRACE = 60.0
"""Seconds of processor time that a run may take beside three times what its tests took: imports. A
mutant that never ends is killed by this."""

PATIENCE = 20
"""How many times as long a run may take by the clock: the machine is another's too."""


@dataclass(frozen=True, slots=True)
class Reached:
    """A test: its node id, how long it took, and how many lines it ran."""

    test: str
    seconds: float
    lines: int


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
        of: how many there were to try, if a fork judged it.
        sure: not, if a fork judged it and what ran before the fork may see it, too.
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


class Coverage:
    """Which tests run a line, read from what ``pytest --reaches`` wrote.

    Args:
        folder: with its files.
    """

    def __init__(self, folder: Path) -> None:
        self._of: dict[str, list[tuple[Reached, int]]] = {}
        for path in sorted(folder.glob("*.jsonl")):
            for text in path.read_text(encoding="utf-8").splitlines():
                row = json.loads(text)
                lines = {name: int(bits, 16) for name, bits in row["lines"].items()}
                count = sum(bits.bit_count() for bits in lines.values())
                test = Reached(row["test"], row["seconds"], count)
                for name, bits in lines.items():
                    self._of.setdefault(name, []).append((test, bits))

    def files(self) -> list[str]:
        """Files of which tests run something."""
        return sorted(self._of)

    def lines(self, file: str) -> int:
        """The lines that tests run, as bits."""
        found = 0
        for _, bits in self._of[file]:
            found |= bits
        return found

    def of_files(self) -> dict[str, list[Reached]]:
        """The tests of each file of tests, in their order."""
        every = dict.fromkeys(test for found in self._of.values() for test, _ in found)
        files: dict[str, list[Reached]] = {}
        for test in every:
            files.setdefault(test.test.partition("::")[0], []).append(test)
        return files

    def tests(self, file: str, line: int) -> list[Reached]:
        """The tests that run a line, those that run least first."""
        found = [test for test, bits in self._of[file] if bits >> line & 1]
        return sorted(found, key=lambda t: (t.lines + 1000 * t.seconds, t.test))


MADE_OF = "made-of"
"""File beside those of a map: of which code it is."""


def make_map(folder: Path, tests: list[str], jobs: int) -> bool:
    """Write which test runs which line, unless it is there and of this code, or somebody else's.

    Returns:
        Whether there is one now; not if a test fails as the code is, which would kill every mutant.
    """
    told, code = folder / MADE_OF, _code()
    there = list(folder.glob("*.jsonl"))
    if there and (not told.exists() or told.read_text() == f"{code} {tests}"):
        return True
    for path in (*there, told):
        path.unlink(missing_ok=True)
    command = [
        sys.executable, "-m", "pytest", "-q", "-n", str(jobs), "--dist", "worksteal",
        "-m", "not slow and not gpu", f"--reaches={folder.resolve()}", *tests,
    ]  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    told.write_text("unfinished")  # a map that is left so is made again
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        for path in (*folder.glob("*.jsonl"), told):
            path.unlink()
        return False
    told.write_text(f"{code} {tests}")
    return True


def _code() -> str:
    """What the lines of a map are lines of."""
    found = hashlib.sha256()
    for name in sorted(_git("ls-files", "*.py").split()):
        found.update(name.encode() + b"\0" + (ROOT / name).read_bytes() + b"\0")
    return found.hexdigest()


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
        names = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
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


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


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
    files = sorted({t.test.partition("::")[0] for t in tests}, key=lambda f: (-_near(f, file), f))
    yield [*files[:6]], seconds


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


def tried_in_fork(
    forks: Forks, file: str, mutation: Mutation, tests: list[Reached], took: dict[str, list[Reached]],
    seconds: float,
) -> Result | str:
    """Run the tests of a mutation in a fork until one fails.

    Args:
        forks: that are judged in.
        file: that is changed.
        mutation: how.
        tests: that run the line.
        took: the tests of each file.
        seconds: of processor time for all of them.

    Returns:
        The result, or why there is none.
    """
    text, begin = (ROOT / file).read_text(encoding="utf-8"), time.monotonic()
    *_, (files, _) = rounds(tests, seconds, file)
    order = {t.test: t.seconds for t in [*tests, *(t for f in files for t in took.get(str(f), ()))]}
    verdict = forks.judge(file, mutation, list(order.items()), seconds)
    if isinstance(verdict, str):
        return verdict
    whole = round(time.monotonic() - begin, 1)
    what, by = mutation.shown(text), verdict.by
    return Result(
        file, mutation.line, what, by is not None, verdict.tests, whole, by or "", len(order),
        by is not None or not verdict.early,
    )  # fmt: skip


def summary(results: Iterable[Result]) -> str:
    """How many were killed, by kind."""
    found = list(results)
    killed = Counter(r.what.partition(":")[0] for r in found if r.killed)
    every = Counter(r.what.partition(":")[0] for r in found)
    lines = [f"{sum(killed.values())} of {len(found)} mutants were killed"]
    lines += [f"  {kind:10} {killed[kind]:3} of {every[kind]:3}" for kind in sorted(every)]
    lines += [f"survived: {r.file}:{r.line}: {r.what}" for r in found if not r.killed]
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
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of a mutant in a fork")
    told = parser.parse_args()
    end = time.monotonic() + told.budget
    with tempfile.TemporaryDirectory() as folder:
        forks = None
        if told.forked != "no":
            (Path(folder) / "forks").mkdir()
            forks = Forks(Tree(Path(folder) / "forks").folder, told.tests)
        try:
            return _judge_all(told, Path(folder), forks, end)
        finally:
            if forks:
                forks.close()


def _judge_all(told: argparse.Namespace, folder: Path, forks: Forks | None, end: float) -> int:
    if not make_map(told.reaches, told.tests, told.jobs):
        print("tests fail as the code is: mend them first", file=sys.stderr)
        return 2
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
    of_files = coverage.of_files()
    with ThreadPoolExecutor(told.jobs) as pool:
        trees: SimpleQueue[Tree] = SimpleQueue()
        for number in range(told.jobs if told.forked != "only" else 0):
            trees.put(Tree(folder / str(number)))

        def judged(file: str, mutation: Mutation) -> Result | None:
            if time.monotonic() > end:
                return None
            tests = coverage.tests(file, mutation.line)
            if forks:
                found = tried_in_fork(forks, file, mutation, tests, of_files, told.seconds)
                if isinstance(found, Result) and (found.sure or told.forked == "only"):
                    return found
                if told.forked == "only":
                    return None
            tree = trees.get()
            try:
                return tried(tree, file, mutation, tests)
            finally:
                trees.put(tree)

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
