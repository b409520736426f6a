"""Writes design/pointwise-ops.md, the table of the operations that an epilogue may have."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from wsched.importer.ops import ops_text  # noqa: E402

if __name__ == "__main__":
    (ROOT / "design" / "pointwise-ops.md").write_text(ops_text())
