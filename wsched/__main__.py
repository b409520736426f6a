"""``python -m wsched``."""

from __future__ import annotations

from wsched.cli.entry import main

main()
