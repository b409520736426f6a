"""Checks the tree's own rules: sizes, import layers, no import cycles; one line per fault."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

FILE_LINES, FUNCTION_LINES, COLUMNS = 400, 60, 100
PACKAGES = ("lowering", "passes", "wsched")
FOLDERS = (*PACKAGES, "examples", "tests", "tools")

BASE = ("lowering.ground", "lowering.target.hopper")
KERNEL = ("lowering.kernel", "lowering.ground", "lowering.target")
# Module or package -> what of this project it may import beside itself; the longest name decides.
LAYERS: dict[str, tuple[str, ...]] = {
    "lowering.ground": (),
    "lowering.target": ("lowering.ground", "lowering.kernel"),
    "lowering.kernel": ("lowering.ground", "lowering.target"),
    "passes": KERNEL,
    "lowering.cuda": KERNEL,
    "lowering.machine": KERNEL,
    "lowering": (*KERNEL, "passes", "wsched.fusion", "wsched.schedule"),
    "wsched": (*BASE, "lowering.kernel.pointwise"),
    "wsched.front": PACKAGES,  # the drivers, which put the stages together
    "wsched.run": PACKAGES,
    "wsched.cli": PACKAGES,
    "wsched.nvfuser.cli": PACKAGES,
    "wsched.trace.records": PACKAGES,
    "wsched.bench.host": PACKAGES,  # plays the driver
    "wsched.bench.method.hold": PACKAGES,  # has a kernel of its own
}

# (rule, path or path:function) -> reason. An exception that is no longer needed is a fault.
EXCEPTIONS: dict[tuple[str, str], str] = {}


def within(module: str, packages: tuple[str, ...]) -> bool:
    """Tell whether ``module`` is one of ``packages`` or inside one."""
    return f"{module}.".startswith(tuple(f"{p}." for p in packages))


def sizes(path: str, text: str, tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """Yield (rule, subject, fault) for a file, function or line that is too long."""
    lines = text.splitlines()
    if len(lines) > FILE_LINES:
        yield "file", path, f"{path}:1: {len(lines)} lines (limit {FILE_LINES})"
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS:
            yield "line", path, f"{path}:{number}: {len(line)} columns (limit {COLUMNS})"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            if size > FUNCTION_LINES:
                fault = f"{path}:{node.lineno}: {node.name} has {size} lines"
                yield "function", f"{path}:{node.name}", f"{fault} (limit {FUNCTION_LINES})"


def imports(module: str, tree: ast.Module, modules: set[str]) -> Iterator[tuple[int, str, bool]]:
    """Yield (line, imported module of this project, whether importing ``module`` imports it)."""
    lazy = {id(n) for f in ast.walk(tree) if deferred(f) for n in ast.walk(f)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            start = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            names = [f"{base}.{n}" if f"{base}.{n}" in modules else base for n in names]
        ours = {n for n in names if within(n, PACKAGES) and n != module}
        yield from ((node.lineno, name, id(node) not in lazy) for name in sorted(ours))


def deferred(node: ast.AST) -> bool:
    """Tell whether code below ``node`` does not run when its module is imported."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def faults(root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (rule, subject, fault) for everything in the tree below ``root``."""
    files = sorted(p.relative_to(root) for f in FOLDERS for p in (root / f).rglob("*.py"))
    names = {p: ".".join(p.with_suffix("").parts).removesuffix(".__init__") for p in files}
    graph: dict[str, set[str]] = {}
    for file, module in names.items():
        path, text = file.as_posix(), (root / file).read_text()
        tree = ast.parse(text, path)
        yield from sizes(path, text, tree)
        layer = max((p for p in LAYERS if within(module, (p,))), key=len, default=None)
        if layer is None:
            continue
        here = f"{module}.__init__" if file.name == "__init__.py" else module  # for "from ."
        for line, name, now in imports(here, tree, set(names.values())):
            allowed = (layer, *LAYERS[layer])
            if not within(name, allowed):
                fault = f"{path}:{line}: {module} imports {name} (may: {', '.join(allowed)})"
                yield "layer", path, fault
            if now:
                graph.setdefault(module, set()).add(name)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle = " -> ".join(error.args[1])  # graphlib names each module before its importer
        yield "cycle", cycle, f"import cycle: {cycle}"


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
