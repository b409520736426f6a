"""Checks the tree's own rules: sizes, import layers, no cycles of files or folders that import each
other, nothing imported by a text that hides it; one line per fault.
"""

from __future__ import annotations

import ast
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from statistics import median

FILE_LINES, MEDIAN_LINES, FUNCTION_LINES, COLUMNS = 400, 150, 60, 100
PACKAGES = ("lowering", "passes", "wsched")
FOLDERS = (*PACKAGES, "examples", "tests", "tools")

GROUND, TARGET = "lowering.ground", "lowering.target"
KERNEL = (GROUND, TARGET, "lowering.kernel")
LOWERED = (*KERNEL, "passes", "lowering.nest", "lowering.sweep", "lowering.summary",
           "lowering.cuda", "lowering.mlir", "lowering.machine", "lowering.proof")  # fmt: skip

# From the definition to the launch: each may import those in front of it, and of the lowering what
# stands beside it. ``__init__`` is the package's own file.
WAY: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("wsched.version", ()),
    ("wsched.fusion", (GROUND,)),
    ("wsched.importer", (GROUND, "lowering.kernel.pointwise", "lowering.target")),
    ("wsched.schedule", (GROUND, TARGET)),
    ("wsched.choose", (GROUND, TARGET)),
    ("wsched.figures", (GROUND,)),
    ("wsched.trace", (GROUND, "lowering.kernel")),
    ("wsched.program", (GROUND, "lowering.kernel.lexer")),
    ("wsched.run", LOWERED),
    ("wsched.doors.fallback", (GROUND,)),
    ("wsched.front", (GROUND, TARGET)),
    ("wsched.predict", LOWERED),
    ("wsched.losses", (GROUND, TARGET)),
    ("wsched.doors.dropin", (GROUND, TARGET)),
    ("wsched.nvfuser", (GROUND, TARGET, "lowering.cuda")),
    ("wsched.__init__", (GROUND,)),
    ("wsched.bench", LOWERED),
    ("wsched.stress", LOWERED),
    ("wsched.explore", LOWERED),
    ("wsched.ladder", LOWERED),
    ("wsched.cli", LOWERED),
    ("wsched.__main__", ()),
)

# Module or package -> what of this project it may import beside itself; the longest name decides.
LAYERS: dict[str, tuple[str, ...]] = {
    GROUND: (),
    TARGET: (GROUND,),
    "lowering.kernel": (GROUND, TARGET),
    "passes": KERNEL,
    "lowering.cuda": KERNEL,
    "lowering.mlir": (*KERNEL, "lowering.cuda.nvrtc"),
    "lowering.machine": KERNEL,
    "lowering.proof": KERNEL,
    "lowering.nest": (*KERNEL, "wsched.fusion", "wsched.schedule"),
    "lowering.summary": (*KERNEL, "wsched.fusion", "lowering.sweep"),
    "lowering.sweep": (*KERNEL, "wsched.fusion"),
    **{name: (*(n for n, _ in WAY[:at]), *low) for at, (name, low) in enumerate(WAY)},
}

# (rule, path, path:function or members of a knot) -> reason. One that is not needed is a fault.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("folders", "lowering, passes, wsched"): "the three are no layers, their folders are: nest, "
    "sweep and summary know the fusion and its schedule, run puts the stages together (note 0021)",
    (
        "folders",
        "wsched.doors, wsched.front",
    ): "doors is no layer, its folders are: fallback stands "
    "in front of front, which falls back, and dropin behind it",
}


def within(module: str, packages: tuple[str, ...]) -> bool:
    """Tell whether ``module`` is one of ``packages`` or inside one."""
    return f"{module}.".startswith(tuple(f"{p}." for p in packages))


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements, level by level; ``ast.walk`` goes through expressions too, most of a tree."""
    waiting: deque[ast.AST] = deque([tree])
    while waiting:
        node = waiting.popleft()
        yield node
        for field in ("body", "handlers", "cases", "orelse", "finalbody"):
            waiting.extend(getattr(node, field, ()))


def sizes(path: str, text: str, tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """Yield (rule, subject, fault) for a file, function or line that is too long."""
    lines = text.splitlines()
    if len(lines) > FILE_LINES:
        yield "file", path, f"{path}:1: {len(lines)} lines (limit {FILE_LINES})"
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS:
            yield "line", path, f"{path}:{number}: {len(line)} columns (limit {COLUMNS})"
    for node in statements(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            if size > FUNCTION_LINES:
                fault = f"{path}:{node.lineno}: {node.name} has {size} lines"
                yield "function", f"{path}:{node.name}", f"{fault} (limit {FUNCTION_LINES})"


def imports(module: str, tree: ast.Module, modules: set[str]) -> Iterator[tuple[int, str]]:
    """Yield (line, imported module of this project), wherever the import stands in the file."""
    for node in statements(tree):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            start = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            names = [f"{base}.{n}" if f"{base}.{n}" in modules else base for n in names]
        ours = {n for n in names if within(n, PACKAGES) and n != module.removesuffix(".__init__")}
        yield from ((node.lineno, name) for name in sorted(ours))


def out_of_layer(module: str, name: str) -> tuple[str, ...]:
    """What ``module`` may import, if ``name`` is none of it."""
    module, name = (f"{m}.__init__" if m in PACKAGES else m for m in (module, name))
    layer = max((p for p in LAYERS if within(module, (p,))), key=len, default="")
    allowed = (layer, *LAYERS[layer]) if layer else ("nothing: it has no layer",)
    return () if within(name, allowed) else allowed


def hidden(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield (line, module of this project) that is imported by its name in quotation marks.

    Only an ``__init__`` may, whose names are imported when they are first asked for.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called, name = ast.unparse(node.func).rpartition(".")[2], node.args[0].value
            if called not in ("import_module", "__import__") or not isinstance(name, str):
                continue
            if name.startswith(".") or within(name, PACKAGES):
                yield node.lineno, name


def folded(module: str, name: str) -> tuple[str, str]:
    """The two neighbours, files or folders of one folder, that an import leads from and to."""
    here, there = module.split("."), name.split(".")
    at = next(at for at, (a, b) in enumerate(zip(here, there, strict=False)) if a != b)
    return ".".join(here[: at + 1]), ".".join(there[: at + 1])


def circles(graph: Mapping[str, set[str]], files: set[str]) -> Iterator[tuple[str, str]]:
    """Yield (members, fault) for neighbours that import each other, a folder among them.

    Args:
        graph: what each file imports, a package's own file by its ``__init__``.
        files: all of them.
    """
    neighbours: dict[str, set[str]] = {}
    first: dict[tuple[str, str], str] = {}
    for module, names in sorted(graph.items()):
        for name in sorted(names):
            here, there = folded(module, name)
            neighbours.setdefault(here, set()).add(there)
            first.setdefault((here, there), f"{module} imports {name}")
    for part in knots(neighbours):
        if part - files:
            way = _shortest(neighbours, part)
            why = "; ".join(first[step] for step in pairwise(way))
            yield ", ".join(sorted(part)), f"circle of folders: {' -> '.join(way)} ({why})"


def knots(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Each set of several modules that all reach each other (Tarjan, 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for name in sorted(graph.get(module, ())):
            if name not in index:
                visit(name)
                low[module] = min(low[module], low[name])
            elif name in stack:
                low[module] = min(low[module], index[name])
        if low[module] == index[module]:
            at = stack.index(module)
            found.append(set(stack[at:]))
            del stack[at:]

    for module in sorted(graph):
        if module not in index:
            visit(module)
    return [part for part in found if len(part) > 1]


def cycles(graph: Mapping[str, set[str]]) -> Iterator[tuple[str, ...]]:
    """Yield a shortest cycle of each set of modules that all reach each other."""
    yield from (_shortest(graph, part) for part in knots(graph))


def _shortest(graph: Mapping[str, set[str]], part: set[str]) -> tuple[str, ...]:
    """A shortest way from the first of some modules back to it."""
    first = min(part)
    ways: deque[tuple[str, ...]] = deque([(first,)])
    seen = {first}
    while ways:
        way = ways.popleft()
        for name in sorted(graph[way[-1]] & part):
            if name == first:
                return (*way, first)
            if name not in seen:
                seen.add(name)
                ways.append((*way, name))
    raise AssertionError(f"{first} is in no cycle")


def faults(root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (rule, subject, fault) for everything in the tree below ``root``."""
    files = sorted(p.relative_to(root) for f in FOLDERS for p in (root / f).rglob("*.py"))
    names = {p: ".".join(p.with_suffix("").parts) for p in files}
    own = {n.removesuffix(".__init__"): n for n in names.values()}  # a package's own file
    graph: dict[str, set[str]] = {}
    lengths: list[int] = []
    for file, here in names.items():
        path, text = file.as_posix(), (root / file).read_text()
        module, tree = here.removesuffix(".__init__"), ast.parse(text, path)
        yield from sizes(path, text, tree)
        if not within(module, PACKAGES):
            continue
        if module == here:
            lengths.append(len(text.splitlines()))
            for line, name in hidden(tree) if "import_" in text else ():
                yield "hidden", path, f"{path}:{line}: {name!r} is imported by a text, write import"
        for line, name in imports(here, tree, set(own)):
            graph.setdefault(here, set()).add(own.get(name, f"{name}.__init__"))
            if allowed := out_of_layer(module, name):
                fault = f"{path}:{line}: {module} imports {name} (may: {', '.join(allowed)})"
                yield "layer", path, fault
    if lengths and (middle := median(lengths)) > MEDIAN_LINES:
        fault = f"half of the files have {middle:.0f} lines and more (limit {MEDIAN_LINES})"
        yield "median", ", ".join(PACKAGES), fault
    for cycle in cycles(graph):
        way = " -> ".join(name.removesuffix(".__init__") for name in cycle)
        yield "cycle", way, f"import cycle: {way}"
    for members, fault in circles(graph, set(names.values())):
        yield "folders", members, fault


def main(root: Path, exceptions: dict[tuple[str, str], str]) -> int:
    """Print the faults that no exception covers, and the exceptions without a fault."""
    found = list(faults(root))
    used = {(rule, what) for rule, what, _ in found}
    lines = [f"{text} [{rule}]" for rule, what, text in found if (rule, what) not in exceptions]
    lines += [f"exception without a fault: {e}" for e in exceptions if e not in used]
    print("\n".join(lines) or "tree: sizes, layers and cycles are as they should be")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent, EXCEPTIONS))
