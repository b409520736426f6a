"""``python -m wsched``."""

from __future__ import annotations

from wsched.cli import main

main()
