"""``python -m wsched``."""

from __future__ import annotations

from wsched.cli.app import main

main()
