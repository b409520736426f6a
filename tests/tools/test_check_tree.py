from __future__ import annotations

from pathlib import Path

import check_tree
import pytest

Capture = pytest.CaptureFixture[str]


def check(root: Path, files: dict[str, str], *exceptions: tuple[str, str]) -> int:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return check_tree.main(root, dict.fromkeys(exceptions, "a reason"))


def test_a_tree_in_order_passes(tmp_path: Path, capsys: Capture) -> None:
    files = {
        "lowering/ground/errors.py": "",
        "lowering/ground/expr.py": "from lowering.ground.errors import X\nimport numpy\n",
        "passes/order.py": "from lowering.kernel import expr\nfrom passes import util\n",
        "passes/util.py": "",
        "passes/pipeline.py": "from passes import order\n",
        "wsched/run/a.py": "import passes.pipeline\nfrom lowering.cuda.emit import emit\n",
    }
    assert check(tmp_path, files) == 0
    assert capsys.readouterr().out == "tree: sizes, layers and cycles are as they should be\n"


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("tests/a.py", "\n" * 401, "tests/a.py:1: 401 lines (limit 400) [file]"),
        ("tools/a.py", "x = 1" + " " * 96, "tools/a.py:1: 101 columns (limit 100) [line]"),
        (
            "wsched/a.py",
            "class C:\n    def f(self):\n" + "        pass\n" * 60,
            "wsched/a.py:2: f has 61 lines (limit 60) [function]",
        ),
        (
            "lowering/kernel/a.py",
            "\ndef f():\n    import passes.b\n",
            "lowering/kernel/a.py:3: lowering.kernel.a imports passes.b "
            "(may: lowering.kernel, lowering.ground, lowering.target) [layer]",
        ),
        (
            "lowering/ground/errors.py",
            "from .. import target\n",
            "lowering/ground/errors.py:1: lowering.ground.errors imports lowering "
            "(may: lowering.ground) [layer]",
        ),
        (
            "wsched/fusion/a.py",
            "from lowering.cuda.emit import emit\n",
            "wsched/fusion/a.py:1: wsched.fusion.a imports lowering.cuda.emit (may: wsched.fusion, "
            "wsched.version, lowering.ground) [layer]",
        ),
        (
            "wsched/schedule/a.py",
            "def f():\n    from wsched.choose.problem import Problem\n",
            "wsched/schedule/a.py:2: wsched.schedule.a imports wsched.choose.problem (may: "
            "wsched.schedule, wsched.version, wsched.fusion, wsched.importer, lowering.ground, "
            "lowering.target) [layer]",
        ),
        (
            "wsched/fusion/a.py",
            "import wsched\n",
            "wsched/fusion/a.py:1: wsched.fusion.a imports wsched (may: wsched.fusion, "
            "wsched.version, lowering.ground) [layer]",
        ),
        (
            "wsched/new/a.py",
            "import lowering.ground\n",
            "wsched/new/a.py:1: wsched.new.a imports lowering.ground (may: nothing: it has no "
            "layer) [layer]",
        ),
        (
            "wsched/fusion/a.py",
            "\n" * 151,
            "half of the files have 151 lines and more (limit 150) [median]",
        ),
    ],
)
def test_a_fault_is_named(
    tmp_path: Path, capsys: Capture, name: str, text: str, fault: str
) -> None:
    assert check(tmp_path, {name: text}) == 1
    assert capsys.readouterr().out == fault + "\n"


def test_passes_may_not_import_wsched(tmp_path: Path, capsys: Capture) -> None:
    assert check(tmp_path, {"passes/a.py": "from wsched.fusion import Fusion\n"}) == 1
    assert "passes/a.py:1: passes.a imports wsched.fusion (may: " in capsys.readouterr().out


def test_layers_have_one_direction() -> None:
    assert not list(check_tree.cycles({n: set(may) for n, may in check_tree.LAYERS.items()}))


def test_layers_are_there() -> None:
    root = Path(check_tree.__file__).parents[1]
    paths = [root / name.replace(".", "/") for name in check_tree.LAYERS]
    assert [p for p in paths if not p.is_dir() and not p.with_suffix(".py").is_file()] == []


def test_the_median_is_of_all_files(tmp_path: Path) -> None:
    """Of two packages, ``__init__`` and tests left out."""
    files = {"wsched/fusion/a.py": "\n" * 300, "passes/b.py": "", "wsched/fusion/c.py": "\n"}
    others = {"wsched/fusion/__init__.py": "\n" * 300, "tests/d.py": "\n" * 300}
    assert check(tmp_path, files | others) == 0
    assert check(tmp_path, {"passes/b.py": "\n" * 300}) == 1


CYCLE = "import cycle: passes.a -> passes.b -> passes.a [cycle]\n"


@pytest.mark.parametrize(
    "text",
    [
        "from passes.b import f\n",
        "def f():\n    from passes.b import g\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from passes.b import g\n",
    ],
    ids=["now", "deferred", "typing"],
)
def test_an_import_cycle_is_named(tmp_path: Path, capsys: Capture, text: str) -> None:
    """However late the import is: who reads one file has to read the other first."""
    assert check(tmp_path, {"passes/a.py": text, "passes/b.py": "from .a import g\n"}) == 1
    assert capsys.readouterr().out == CYCLE


def test_the_cycle_that_is_named_is_a_shortest_one(tmp_path: Path, capsys: Capture) -> None:
    to = {"a": "cb", "b": "a", "c": "d", "d": "a", "e": "a"}
    files = {
        f"passes/{name}.py": "".join(f"import passes.{n}\n" for n in names)
        for name, names in to.items()
    }
    assert check(tmp_path, files) == 1
    assert capsys.readouterr().out == CYCLE


def test_relative_imports_of_a_package_count(tmp_path: Path, capsys: Capture) -> None:
    files = {"passes/p/__init__.py": "from .a import f\n", "passes/p/a.py": "from . import f\n"}
    assert check(tmp_path, files) == 1
    way = "passes.p -> passes.p.a -> passes.p"
    assert capsys.readouterr().out == f"import cycle: {way} [cycle]\n"


# --- circles of folders ---------------------------------------------------------------------------


def test_folders_that_import_each_other_are_named(tmp_path: Path, capsys: Capture) -> None:
    """No file comes back to itself: who moves one folder has to move the other one with it."""
    files = {
        "wsched/run/a.py": "from wsched.program.b import f\n",
        "wsched/run/error.py": "",
        "wsched/program/b.py": "def f():\n    from wsched.run.error import InputError\n",
    }
    assert check(tmp_path, files, ("layer", "wsched/program/b.py")) == 1
    assert capsys.readouterr().out == (
        "circle of folders: wsched.program -> wsched.run -> wsched.program (wsched.program.b "
        "imports wsched.run.error; wsched.run.a imports wsched.program.b) [folders]\n"
    )


def test_a_folder_and_a_file_beside_it_are_neighbours(tmp_path: Path, capsys: Capture) -> None:
    files = {
        "wsched/schedule/edges.py": "from wsched.schedule.proof.relation import R\n",
        "wsched/schedule/proof/relation.py": "",
        "wsched/schedule/proof/filled.py": "from wsched.schedule.edges import E\n",
    }
    assert check(tmp_path, files) == 1
    way = "wsched.schedule.edges -> wsched.schedule.proof -> wsched.schedule.edges"
    assert capsys.readouterr().out.startswith(f"circle of folders: {way} (")


def test_a_folder_is_no_neighbour_of_what_it_holds(tmp_path: Path) -> None:
    files = {
        "wsched/importer/__init__.py": "from wsched.importer.text.read import f\n",
        "wsched/importer/ops.py": "",
        "wsched/importer/text/read.py": "from wsched.importer.ops import g\n",
    }
    assert check(tmp_path, files) == 0


def test_who_joins_a_circle_that_is_allowed_is_named(tmp_path: Path, capsys: Capture) -> None:
    files = {
        "wsched/doors/dropin/a.py": "import wsched.front.b\n",
        "wsched/doors/fallback/c.py": "",
        "wsched/front/b.py": "import wsched.doors.fallback.c\n",
    }
    allowed = "folders", "wsched.doors, wsched.front"
    assert check(tmp_path, files, allowed) == 0
    more = {
        "wsched/predict/d.py": "import wsched.front.b\n",
        "wsched/doors/dropin/a.py": "import wsched.predict.d\n",
    }
    assert check(tmp_path, more, allowed) == 1
    assert "circle of folders: wsched.doors -> wsched.predict -> wsched.front" in (
        capsys.readouterr().out
    )


def test_no_layer_lies_in_another_one() -> None:
    """A file of a folder that is a layer hides that the folder is on both sides."""
    layers = check_tree.LAYERS
    assert [(a, b) for a in layers for b in layers if a != b and check_tree.within(a, (b,))] == []


# --- imports by a text ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        'import_module("wsched.run.b")',
        'importlib.import_module("passes.order", None)',
        '__import__("lowering")',
        'import_module(".b", __package__)',
    ],
)
def test_an_import_by_a_text_is_refused(tmp_path: Path, capsys: Capture, call: str) -> None:
    text = f"\ndef f():\n    return {call}\n"
    assert check(tmp_path, {"wsched/fusion/a.py": text}) == 1
    name = call.split('"')[1]
    fault = f"wsched/fusion/a.py:3: {name!r} is imported by a text, write import [hidden]\n"
    assert capsys.readouterr().out == fault
    assert check(tmp_path, {"wsched/fusion/a.py": "", "wsched/fusion/__init__.py": text}) == 0


def test_others_are_imported_as_one_likes(tmp_path: Path) -> None:
    calls = 'import_module("torch")', "import_module(name)", 'import_module("wschedule")', "f()()"
    assert check(tmp_path, {"wsched/fusion/a.py": "".join(f"{c}\n" for c in calls)}) == 0


# --- exceptions -----------------------------------------------------------------------------------


def test_an_exception_covers_its_fault_and_no_longer(tmp_path: Path, capsys: Capture) -> None:
    assert check(tmp_path, {"tests/a.py": "\n" * 401}, ("file", "tests/a.py")) == 0
    assert check(tmp_path, {"tests/a.py": ""}, ("file", "tests/a.py")) == 1
    out = capsys.readouterr().out
    assert out.endswith("exception without a fault: ('file', 'tests/a.py')\n")


def test_every_exception_has_a_reason() -> None:
    assert all(reason for reason in check_tree.EXCEPTIONS.values())
