"""Every file of nvFuser's own Python tests with wsched installed and without: the same outcomes?

They are not part of this tree. With a checkout of NVIDIA/Fuser of the version that is installed::

    python -m tests.gpu.nvfuser_direct_tests Fuser/tests/python/direct --path Fuser/tests

Each file runs in processes of its own, twice, several at a time; one that crashes or takes too long
has no outcomes, and is told. What is not known here goes to pytest: ``-n 1`` makes a crash the
outcome of the test that crashed, ``--timeout 100`` (pytest-timeout) one that takes longer. Tests
that fail in either way run once more in both, with nothing beside them: some take half of a GPU's
memory. ``--without FILE`` keeps the outcomes without wsched in a file, and takes them from there
where it has them. stderr hears of files in their order. The exit status is 1 if an outcome differs,
2 if no test ran.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tests.gpu.nvfuser_matmul_tests import differences, run

__all__ = ["Compared", "alone", "compared", "files", "main", "node_of", "report"]

PLUGINS = ("tests.gpu.with_wsched",)
EVERY_RUN = ("tests.gpu.memory_returned",)
ENDS_WELL = ("passed", "skipped")

Outcomes = dict[str, str]

Run = Callable[[Path, Sequence[str]], Outcomes]
"""Outcomes of a file with these plugins."""

Again = Callable[[Sequence[str], Sequence[str]], Outcomes]
"""Outcomes of tests, by their nodes, with these plugins."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A file's outcomes, none where it did not come to its end."""

    name: str
    without: Mapping[str, str]
    with_wsched: Mapping[str, str]

    @property
    def different(self) -> list[str]:
        """A line for each test whose outcome differs."""
        if self.without and not self.with_wsched:
            return [f"{self.name}: no outcomes with wsched"]
        return differences(self.without, self.with_wsched)

    def __str__(self) -> str:
        if not self.without:
            return f"{self.name}: no outcomes without wsched; {len(self.with_wsched)} with it"
        told = f"{len(self.without)} tests, {_counts(self.without)} without wsched"
        return f"{self.name}: {told}; {len(self.different)} differ with it"


def _counts(outcomes: Mapping[str, str]) -> str:
    """How many of each outcome, the most first."""
    return ", ".join(f"{n} {kind}" for kind, n in Counter(outcomes.values()).most_common())


def files(places: Sequence[Path]) -> list[Path]:
    """Test files, those of folders in order of name."""
    found = [sorted(p.glob("test_*.py")) if p.is_dir() else [p] for p in places]
    return [path for paths in found for path in paths]


def compared(
    paths: Sequence[Path],
    run_file: Run,
    known: Mapping[str, Outcomes],
    jobs: int,
    ended: Callable[[Compared], None] = lambda c: None,
) -> list[Compared]:
    """Run files with wsched, and without where that is not known.

    Args:
        paths: of the files.
        run_file: runs one.
        known: outcomes without wsched, by the files' names.
        jobs: runs at a time, a file's two among them.
        ended: is told of each file when both runs are over.
    """
    with ThreadPoolExecutor(jobs) as pool:
        runs = [
            (path, [pool.submit(run_file, path, p) for p in ((), PLUGINS)[path.name in known :]])
            for path in paths
        ]
        found = []
        for path, (*first, second) in runs:
            without = first[0].result() if first else known[path.name]
            found.append(Compared(path.name, without, second.result()))
            ended(found[-1])
        return found


def alone(found: Compared, path: Path, again: Again) -> Compared:
    """The same with the outcomes that tests have alone, if they failed or were others with wsched.

    Args:
        found: outcomes of a file.
        path: of it.
        again: runs tests, one at a time.
    """

    def well(test: str) -> bool:
        return found.with_wsched.get(test) == found.without[test] in ENDS_WELL

    tests = [t for t in found.without if not well(t)]
    if not (tests and found.with_wsched):
        return found
    nodes = [node_of(path, test) for test in tests]
    return replace(
        found,
        without={**found.without, **again(nodes, ())},
        with_wsched={**found.with_wsched, **again(nodes, PLUGINS)},
    )


def node_of(path: Path, test: str) -> str:
    """What pytest calls a test: its file, classes and name, of ``folder.test_file.Class::name``."""
    place, _, name = test.partition("::")
    modules = place.split(".")
    classes = modules[modules.index(path.stem) + 1 :] if path.stem in modules else []
    return "::".join([str(path), *classes, name])


def report(found: Sequence[Compared]) -> str:
    """A line for each file, and for each difference."""
    lines = [str(c) for c in found]
    lines += [line for c in found for line in c.different]
    count = sum(len(c.without) for c in found)
    different = sum(len(c.different) for c in found)
    return "\n".join([*lines, f"{len(found)} files, {count} tests; {different} differ"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("places", nargs="+", type=Path, help="files, or folders of them")
    parser.add_argument("--path", type=Path, help="a folder to import from")
    parser.add_argument("--jobs", type=int, default=4, help="runs at a time")
    parser.add_argument("--seconds", type=float, default=300.0, help="that a run of one may take")
    parser.add_argument("--without", type=Path, help="outcomes without wsched, kept")
    options, rest = parser.parse_known_args(arguments)
    known = {}
    if options.without is not None and options.without.exists():
        known = json.loads(options.without.read_text())

    def run_words(words: Sequence[str], plugins: Sequence[str]) -> Outcomes:
        try:
            return run(words, options.path, (*EVERY_RUN, *plugins), options.seconds)
        except subprocess.TimeoutExpired:
            return {}

    one = ["-n", "1"] if any(word.startswith("-n") for word in rest) else []  # the last one counts

    def one_at_a_time(tests: Sequence[str], plugins: Sequence[str]) -> Outcomes:
        return run_words([*tests, *rest, *one], plugins)

    def run_file(path: Path, plugins: Sequence[str]) -> Outcomes:
        return run_words([str(path), *rest], plugins)

    def ended(c: Compared) -> None:
        print(f"ended: {c}", file=sys.stderr, flush=True)
        if options.without is not None and c.without:
            known[c.name] = dict(c.without)
            options.without.write_text(json.dumps(known, indent=1) + "\n")

    paths = files(options.places)
    found = compared(paths, run_file, dict(known), options.jobs, ended)
    found = [alone(c, path, one_at_a_time) for c, path in zip(found, paths, strict=True)]
    print(report(found))
    if not any(c.without for c in found):
        return 2
    return int(any(c.different for c in found))


if __name__ == "__main__":
    raise SystemExit(main())
