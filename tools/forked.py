"""``pytest -p forked --forked=FD``: mutants judged in forks of one process that has collected all.

Starting pytest, importing the tree and collecting its tests takes longer than a mutant needs to be
killed. So one process does that and then waits at a listening socket; for each that connects it
forks, and the child runs the tests that it is told, with the code of one function replaced, in an
order that it is told too, until one fails. A request is one line of JSON, as
``forks.Forks`` writes it: ``file``, ``begin``, ``end`` and ``new`` say what is changed (without
them nothing is), ``tests`` are pairs of node ids and seconds, run in this order; behind them come
all other tests of ``files``, slow ones last, without those of ``without``. No test is begun when
``seconds`` of processor time are over, each may take ``room`` seconds beside three times its own,
and ``scratch`` is an empty folder. The answer is lines of
JSON: ``pid`` first, then ``of``, how many tests there are; ``test`` before each test; and last
``failed``, ``passed`` (how many) with ``sure``, or ``unable`` with the reason. A child that dies or
never ends gives no last line.

What is replaced is ``__code__`` of all functions that have the old one, wrapped and cached ones and
methods among them, in the outermost function around the change; what ``functools.cache`` keeps is
forgotten. A change elsewhere (constants of modules and classes, decorators, default values) is
refused, and so is one after which a function has other free variables.

Not ``sure`` to live is a mutant whose line had run before the fork, since values that it made then
stay; and one that a test among ``tests``, which should all see it, cannot have seen: the test is
not collected here, or skipped, or fails without the change too, or was over before the changed
statement had run in the child. The last is so of what only processes run that tests start: these
run the tree as it is.
"""

from __future__ import annotations

import ast
import functools
import gc
import importlib
import json
import os
import pkgutil
import resource
import select
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

SLOW = 15.0
"""Seconds that a test of the slow tier is expected to take."""

MEMORY = 8 << 30
"""Bytes that a child may have beside those of its parent."""

TOOL = 4
"""Of ``sys.monitoring``, none of those that have a name."""

FORKED = pytest.StashKey["Server"]()


class UnableError(Exception):
    """A mutant that no fork can be."""


# --- what is replaced ----------------------------------------------------------------------------


def around(text: str, begin: int, end: int) -> tuple[str, int]:
    """Qualified name and first line of the outermost function whose body holds a span of a text.

    Raises:
        UnableError: none does.
    """

    def place(position: int) -> tuple[int, int]:
        start = text.rfind("\n", 0, position) + 1
        return text.count("\n", 0, position) + 1, len(text[start:position].encode())

    first, last = place(begin), place(end)

    def found(node: ast.AST, names: tuple[str, ...]) -> tuple[str, int] | None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body, close = node.body[0], (node.end_lineno or 0, node.end_col_offset or 0)
            if (body.lineno, body.col_offset) <= first and last <= close:
                return ".".join((*names, node.name)), _begin(node)
            return None
        inner = (*names, node.name) if isinstance(node, ast.ClassDef) else names
        return next(filter(None, (found(n, inner) for n in ast.iter_child_nodes(node))), None)

    if (name := found(ast.parse(text), ())) is None:
        raise UnableError("not within the body of a function")
    return name


def statement(text: str, begin: int, end: int) -> range:
    """Lines of the innermost statement around a span of a text, but for those of its body."""
    first, last = text.count("\n", 0, begin) + 1, text.count("\n", 0, end) + 1
    lines = range(0)
    for node in ast.walk(ast.parse(text)):  # the outer ones first
        if isinstance(node, _STATEMENT) and _begin(node) <= first and last <= _end(node):
            inside = (_begin(n) for n in ast.walk(node) if isinstance(n, _STATEMENT))
            body = min((n for n in inside if n > last), default=_end(node) + 1)
            lines = range(_begin(node), body)
    return lines


_STATEMENT = ast.stmt | ast.ExceptHandler


def _begin(node: ast.stmt | ast.ExceptHandler) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])


def _end(node: ast.stmt | ast.ExceptHandler) -> int:
    return node.end_lineno or node.lineno


def codes(code: CodeType) -> Iterator[CodeType]:
    """A code and all within it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from codes(inner)


def code_of(text: str, path: str, name: str, line: int) -> CodeType:
    """The code of a function of a text."""
    for code in codes(compile(text, path, "exec", dont_inherit=True)):
        if (code.co_qualname, code.co_firstlineno) == (name, line):
            return code
    raise UnableError(f"no code of {name}")


class Functions:
    """Functions of the tree and caches that there are now; made when all is imported."""

    def __init__(self, root: Path) -> None:
        gc.unfreeze()
        self._of: dict[tuple[str, str, int], list[FunctionType]] = {}
        self._caches = list[Any]()
        for thing in gc.get_objects():
            if type(thing) is FunctionType:
                code = thing.__code__
                if code.co_filename.startswith(f"{root}/"):
                    self._of.setdefault(_key(code), []).append(thing)
            elif type(thing) is functools._lru_cache_wrapper:
                self._caches.append(thing)
        gc.freeze()

    def replace(self, path: str, old: str, new: str, begin: int, end: int) -> list[CodeType]:
        """Have all functions around a span of a text do what another text says.

        Returns:
            The codes that they have now, with those within.
        """
        name = around(old, begin, end)
        before, after = code_of(old, path, *name), code_of(new, path, *name)
        if not self._of.get(_key(before)):
            raise UnableError(f"no function {name[0]}")
        pairs = list(zip(codes(before), codes(after), strict=False))
        same = [a.co_qualname for a in codes(before)] == [b.co_qualname for b in codes(after)]
        found = {_key(a): b for a, b in (pairs if same else pairs[:1])}
        changes = list[tuple[FunctionType, CodeType]]()
        for code in codes(before):
            for function in self._of.get(_key(code), ()):
                other = found.get(_key(code))
                if other is None or other.co_freevars != function.__code__.co_freevars:
                    raise UnableError(f"{code.co_qualname} has other free variables")
                changes.append((function, other))
        for function, other in changes:
            function.__code__ = other
        return list(codes(after))

    def forget(self) -> None:
        """Empty all caches."""
        for cache in self._caches:
            cache.cache_clear()


def _key(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


# --- within pytest -------------------------------------------------------------------------------


class Server:
    """Forks for each that connects.

    Args:
        fd: of the listening socket.
        root: of the tree.
        config: of pytest.
    """

    def __init__(self, fd: int, root: Path, config: Any) -> None:
        self.listener, self.root, self.config = socket.socket(fileno=fd), root, config
        self.ran: set[tuple[str, int]] = set()
        self.failed: str | None = None
        self.changed: set[tuple[str, int]] = set()
        self.skipped, self.saw = False, set[str]()
        self._parent = os.getppid()
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        monitoring.use_tool_id(TOOL, "forked")
        monitoring.register_callback(TOOL, monitoring.events.LINE, self._line)
        self._monitoring = monitoring
        monitoring.set_events(TOOL, monitoring.events.LINE)

    def _line(self, code: CodeType, line: int) -> Any:
        if code.co_filename.startswith(f"{self.root}/"):
            self.ran.add((code.co_filename, line))
        return self._monitoring.DISABLE

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember the first failure, and whether the test is skipped."""
        self.skipped |= report.skipped and not hasattr(report, "wasxfail")
        if report.failed and self.failed is None:
            crash = getattr(report.longrepr, "reprcrash", None)
            said = getattr(crash, "message", "").split("\n")[0]
            self.failed = f"FAILED {report.nodeid} - {said}"[:200]

    def serve(self, items: dict[str, pytest.Item]) -> None:
        """Fork until nobody is there to connect."""
        self._monitoring.set_events(TOOL, 0)
        self.functions = Functions(self.root)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while os.getppid() == self._parent:
            if not select.select([self.listener], [], [], 1)[0]:
                continue
            connection, _ = self.listener.accept()
            if os.fork() == 0:
                try:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    self.listener.close()
                    self.answer(connection, items)
                finally:
                    os._exit(0)
            connection.close()

    def answer(self, connection: socket.socket, items: dict[str, pytest.Item]) -> None:
        """Within a child: read what is wanted, do it, tell."""
        os.setpgid(0, 0)
        stream = connection.makefile("rw", encoding="utf-8")

        def tell(**words: Any) -> None:
            stream.write(json.dumps(words) + "\n")
            stream.flush()

        tell(pid=os.getpid())
        told = json.loads(stream.readline())
        os.environ["WSCHED_CACHE_DIR"] = str(Path(told["scratch"]) / "cubins")
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        room = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
        factory = self.config._tmp_path_factory  # of tmp_path; no other child may have its folder
        factory._given_basetemp = Path(told["scratch"]) / "pytest"
        self.functions.forget()
        try:
            early = "file" in told and self.change(told)
        except (UnableError, SyntaxError) as why:
            tell(unable=str(why))
            return
        chosen = self.chosen(told, items)
        tell(of=len(chosen))
        found = self.run(tell, chosen, told["seconds"], told["room"])
        left = {item.nodeid for item, _ in chosen[found.get("passed", 0) :]}
        blind = {name for name, _ in told["tests"]} - self.saw - left
        tell(**found, sure=bool(self.saw) and not (early or blind))

    def change(self, told: dict[str, Any]) -> bool:
        """Make the change and watch its statement; whether what is changed ran before."""
        path, begin, end = self.root / told["file"], told["begin"], told["end"]
        old = path.read_text(encoding="utf-8")
        new = old[:begin] + told["new"] + old[end:]
        found = self.functions.replace(str(path), old, new, begin, end)
        lines = range(old.count("\n", 0, begin) + 1, old.count("\n", 0, end) + 2)
        early = any((str(path), line) in self.ran for line in lines)
        self.ran.clear()
        self.changed = {(str(path), n) for n in statement(new, begin, begin + len(told["new"]))}
        for code in found:
            self._monitoring.set_local_events(TOOL, code, self._monitoring.events.LINE)
        return early

    @staticmethod
    def chosen(told: dict[str, Any], items: dict[str, pytest.Item]) -> list[tuple[Any, float]]:
        """The tests that are asked for, with seconds that they may be expected to take."""
        timed = {name: took for name, took in told["tests"] if name in items}
        files, slow = set(told.get("files", ())), dict[str, float]()
        for name, item in items.items():
            if name.partition("::")[0] in files and name not in timed:
                if item.get_closest_marker("slow"):
                    slow[name] = SLOW
                else:
                    timed[name] = 1.0
        without = set(told.get("without", ()))
        return [(items[n], took) for n, took in {**timed, **slow}.items() if n not in without]

    def run(
        self, tell: Any, chosen: list[tuple[pytest.Item, float]], seconds: float, room: float
    ) -> dict[str, Any]:
        """Run tests until one fails or the time is over; ``saw`` are those behind the change."""
        for count, (item, took) in enumerate(chosen):
            if sum(os.times()[:4]) >= seconds:
                return {"passed": count}
            tell(test=item.nodeid)
            limit = int(sum(os.times()[:2]) + room + 3 * took)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            after = chosen[count + 1][0] if count + 1 < len(chosen) else None
            self.skipped = False
            try:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            except BaseException as why:
                self.failed = self.failed or f"FAILED {item.nodeid} - {type(why).__name__}"
            if self.failed is not None:
                return {"failed": self.failed}
            if not (self.skipped or self.changed.isdisjoint(self.ran)):
                self.saw.add(item.nodeid)
        return {"passed": len(chosen)}


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--forked=FD`` and, as often as there are any, ``--forked-import=PACKAGE``."""
    parser.addoption("--forked", type=int, metavar="FD", help="judge mutants; see tools/forked.py")
    parser.addoption("--forked-import", action="append", default=[], help="package to import first")


def pytest_configure(config: pytest.Config) -> None:
    """Watch what runs from here on."""
    if (fd := config.getoption("--forked")) is not None:
        server = Server(fd, Path.cwd(), config)
        config.stash[FORKED] = server
        config.pluginmanager.register(server)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Fork in place of running tests."""
    if FORKED not in session.config.stash:
        return None
    if session.testsfailed:
        raise session.Interrupted(f"{session.testsfailed} errors while collecting")
    for package in session.config.getoption("--forked-import"):
        import_all(package)
    session.config.stash[FORKED].serve({item.nodeid: item for item in session.items})
    return True


def import_all(package: str) -> None:
    """Import a module, a package with all its own, but for what cannot be here."""
    top = importlib.import_module(package)
    for found in pkgutil.walk_packages(
        getattr(top, "__path__", ()), f"{package}.", onerror=lambda _: None
    ):
        if not found.name.endswith("__main__"):
            try:
                importlib.import_module(found.name)
            except Exception as why:
                print(f"{found.name} is not imported: {why}")
