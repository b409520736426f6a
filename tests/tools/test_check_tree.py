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
        "wsched/front/api.py": "import passes.pipeline\nfrom lowering.cuda.emit import emit\n",
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
            "from . import hopper\n",
            "lowering/ground/errors.py:1: lowering.ground.errors imports lowering "
            "(may: lowering.ground) [layer]",
        ),
        (
            "wsched/fusion/a.py",
            "from lowering.cuda.emit import emit\n",
            "wsched/fusion/a.py:1: wsched.fusion.a imports lowering.cuda.emit (may: wsched, "
            "lowering.ground, lowering.target.hopper, lowering.kernel.pointwise) [layer]",
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


def test_an_import_cycle_is_named(tmp_path: Path, capsys: Capture) -> None:
    files = {"wsched/a.py": "from wsched.b import f\n", "wsched/b.py": "from .a import g\n"}
    assert check(tmp_path, files) == 1
    out = capsys.readouterr().out
    assert out in {
        "import cycle: wsched.a -> wsched.b -> wsched.a [cycle]\n",
        "import cycle: wsched.b -> wsched.a -> wsched.b [cycle]\n",
    }


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    from wsched.b import g\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from wsched.b import g\n",
    ],
)
def test_a_deferred_import_makes_no_cycle(tmp_path: Path, text: str) -> None:
    assert check(tmp_path, {"wsched/a.py": text, "wsched/b.py": "import wsched.a\n"}) == 0


def test_relative_imports_of_a_package_count(tmp_path: Path, capsys: Capture) -> None:
    files = {"wsched/p/__init__.py": "from .a import f\n", "wsched/p/a.py": "from . import f\n"}
    assert check(tmp_path, files) == 1
    assert "[cycle]" in capsys.readouterr().out


def test_an_exception_covers_its_fault_and_no_longer(tmp_path: Path, capsys: Capture) -> None:
    assert check(tmp_path, {"tests/a.py": "\n" * 401}, ("file", "tests/a.py")) == 0
    assert check(tmp_path, {"tests/a.py": ""}, ("file", "tests/a.py")) == 1
    out = capsys.readouterr().out
    assert out.endswith("exception without a fault: ('file', 'tests/a.py')\n")


def test_every_exception_has_a_reason() -> None:
    assert all(reason for reason in check_tree.EXCEPTIONS.values())
